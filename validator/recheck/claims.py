"""What a certificate claims, and the watcher of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.body_view import BodyView
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused, Unreadable
from stepward.validator.recheck.rules import (
    AtMostOnceWatcher,
    DecisionWatcher,
    ExclusiveWatcher,
    FollowedByWatcher,
    NeverWatcher,
    RequiresWatcher,
    Watcher,
)
from stepward.validator.recheck.selectors import matches
from stepward.validator.recheck.siblings import beside_branches, require_one_round
from stepward.vm.language.guardrails import AnyRule, AtMostOnce, Exclusive, FollowedBy, Never, Requires
from stepward.vm.language.steps import ConditionStep, ToolCall


class Property(NamedTuple):
    """The claim of a certificate."""

    property: str
    rule: str
    policy: str | None
    step: str | None = None
    number: int | None = None


def watcher(claim: Property, reading: Reading) -> Watcher:
    """Return the watcher of a property; raises Refused where the program has no such property."""
    if claim.property in ("coverage", "exclusive cases"):
        step = reading.position.get(claim.step or "")
        part = reading.steps[step] if step is not None else None
        if claim.step in reading.repeated:
            raise Unreadable(f"the id `{claim.step}` is used twice")
        if step is None or not isinstance(part, ConditionStep):
            raise Refused(f"the program has no condition `{claim.step}`")
        return DecisionWatcher(reading, step, exclusive=claim.property == "exclusive cases")
    if claim.property == "allow":
        return _allowed(claim, reading)
    rules: list[tuple[AnyRule, int | None]] = [
        (rule, None) for rule, policy in reading.rules() if policy == claim.policy
    ]
    rules += reading.body_rules if claim.policy is None else []
    if claim.number is not None and 0 < claim.number <= len(rules):
        rule, owner = rules[claim.number - 1]
        kind, watch = _KINDS[type(rule)]
        if rule.name == claim.rule and kind == claim.property:
            if reading.in_branches:
                view: Any = reading if owner is None else BodyView(reading, owner)
                watch = beside_branches(rule, view, watch)
            return watch(rule, reading) if owner is None else _within(watch, rule, reading, owner)
    of = f" of policy `{claim.policy}`" if claim.policy else ""
    raise Refused(f"there is no guardrail `{claim.rule}`{of} of the kind `{claim.property}`")


def _within(watch: Callable[[Any, Any], Watcher], rule: AnyRule, reading: Reading, owner: int) -> Watcher:
    """Return the watcher of a rule of a body: it sees the steps of the body, and begins anew at each item."""
    if isinstance(rule, FollowedBy) and rule.ends == "any":
        raise Refused("what follows before any end of one item is not checked")
    watcher = watch(rule, BodyView(reading, owner))
    body = reading.layout.bodies[owner]
    watcher.renewing = frozenset(stage for stage in (body.next, body.failed) if stage is not None)
    if watcher.ends_matter:  # an item ends, and the run only behind it
        watcher.ends_matter, watcher.closing = False, watcher.renewing
    return watcher


_KINDS: Final[dict[type[AnyRule], tuple[str, Callable[[Any, Reading], Watcher]]]] = {
    Requires: ("requires", RequiresWatcher),
    Never: ("never", lambda rule, reading: NeverWatcher(reading, matches(rule.never, reading), rule.when)),
    AtMostOnce: ("at_most_once", AtMostOnceWatcher),
    FollowedBy: ("followed_by", FollowedByWatcher),
    Exclusive: ("exclusive", ExclusiveWatcher),
}
"""The kinds of rules, each with the name of its property and its watcher."""


def _allowed(claim: Property, reading: Reading) -> Watcher:
    policy = next((one for one in reading.policies if one.policy == claim.policy), None)
    call = next((one for one in reading.tool_calls if one.part.id == claim.step), None)
    if policy is None or policy.allow is None or call is None or not isinstance(call.part, ToolCall):
        raise Refused(f"there is no allow-list of policy `{claim.policy}`, or no call of a tool in `{claim.step}`")
    entry = next((one for one in policy.allow if one.tool == call.part.tool), None)
    if entry is not None and entry.when is not None and reading.layout.forks:
        require_one_round(reading, entry.when, [call])
    if entry is not None and entry.when is None:
        return NeverWatcher(reading, (), None)
    return NeverWatcher(reading, [call], entry.when if entry is not None else None, demands=entry is not None)
