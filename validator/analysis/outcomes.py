"""The reported outcomes of guardrails: code, message and help for each manner in which a rule can be broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.findings import Evidence, Label, PolicyTag, Property
from stepward.vm.language.guardrails import (
    AnyGuard,
    AnyRule,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    StepSelector,
    guards,
    requirement_text,
)
from stepward.vm.language.policy import Policy
from stepward.vm.language.similar import only_near
from stepward.vm.language.steps import ToolCall
from stepward.vm.reading.source import Place

LAYER: Final = "graph"
ALLOW_LIST: Final = Place(("allow",), key=True)
"""The location of a policy's allow-list, which is judged like a `never` for every tool that is not on it."""


class Outcome(NamedTuple):
    """The outcome of one rule at one location; `code` is the code of its finding."""

    code: str
    message: str
    help: str
    place: Place
    step: str | None
    related: tuple[Label, ...]
    evidence: Evidence | None
    policy: PolicyTag | None


class Judgement(NamedTuple):
    """The verdict on one rule, or on one call under an allow-list, with its findings."""

    property: Property
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a rule: its name, its policy and its location."""

    name: str
    policy: Policy | None
    place: Place

    @property
    def tag(self) -> PolicyTag | None:
        """The names of policy and rule, by which a waiver can name either; None for a rule of the program."""
        policy = self.policy
        return None if policy is None else PolicyTag(policy.policy, self.name, policy.continues is not None)

    @property
    def of_policy(self) -> str:
        """The words of a message that name the policy; empty for a rule of the program."""
        return f" of policy `{self.policy.policy}`" if self.policy else ""

    @property
    def labels(self) -> tuple[Label, ...]:
        """A label with the location of the rule, for findings."""
        if self.policy is not None and self.policy.document is None:
            return ()
        return (Label(self.place, "the rule is here", self.policy.document if self.policy else None),)


RUN: Final = ("the run", "run")
"""What ends where a rule of a program is broken: its words, and its noun."""


def words(rule: AnyRule, kind: str, step: str, ending: tuple[str, str] = RUN) -> tuple[str, str, str]:
    """Return the code, the message and the help of a violation; `ending` is what ends, in words."""
    match rule:
        case Requires():
            return _requires_words(rule, kind, step)
        case Never(when=None):
            return "SW403", f"`{step}` can start, and the rule forbids it", f"route the run around `{step}`"
        case Never():
            message = f"`{step}` can start when `{rule.when}` holds, and the rule forbids it"
            return "SW403", message, f"route the run around `{step}` in that state, or change its arguments"
        case AtMostOnce():
            return _once_words(rule, kind, step)
        case FollowedBy():
            return _followed_words(rule, step, *ending)
        case Exclusive():
            return _exclusive_words(rule, step)
        case _:
            assert_never(rule)


# A rule with `already` goes on where runs before this one have left it: what breaks it need not all be in this run.


def _once_words(rule: AtMostOnce, kind: str, step: str) -> tuple[str, str, str]:
    if kind == "retried":
        help = "remove `on_error: retry`; keep it only if a second call with the same idempotency key has no effect, "
        help += "and declare `idempotent: true`"
        return "SW404", f"`{step}` is performed again when it is retried", help
    if rule.already:
        return "SW404", f"`{step}` can repeat what a run before this one has done", f"route the run around `{step}`"
    return "SW404", f"`{step}` can be performed a second time in one run", "let a run reach it only once"


def _followed_words(rule: FollowedBy, step: str, subject: str, noun: str) -> tuple[str, str, str]:
    first, then = rule.followed_by.first.text(), rule.followed_by.then.text()
    message = f"{subject} can end at `{step}` after {first} succeeded and {then} never started"
    if rule.already:
        message = f"the run can end at `{step}`, and {then} has not started since {first} succeeded, here or in a run "
        message += "before this one"
    help = f"route this ending through {then} (failures too: give the step an `error_step`)"
    return "SW405", message, f"{help}, or write `ends: success` if a failed {noun} does not need it"


def _exclusive_words(rule: Exclusive, step: str) -> tuple[str, str, str]:
    left, right = (side.text() for side in rule.exclusive)
    match rule.already:
        case (False, False):
            return (
                "SW406",
                f"a run that gets to `{step}` performs both {left} and {right}",
                "put the two on separate branches",
            )
        case (True, True):
            message = f"`{step}` goes on with {left} or {right}, and the runs before this one have performed both"
        case (is_left, _):
            done, performed = (left, right) if is_left else (right, left)
            message = f"`{step}` performs {performed}, and a run before this one has performed {done}"
    return "SW406", message, f"route the run around `{step}`"


def _requires_words(rule: Requires, kind: str, step: str) -> tuple[str, str, str]:
    requirement = requirement_text(rule.requires)
    if kind == "bypassed":
        help = f"route every path to `{step}` through {requirement}, or around `{step}`"
        if any(_is_itself(rule, one) for one in guards(rule.requires)):
            help += f"; {rule.protects.text()} is what the rule protects, and does not come before itself"
        return "SW401", f"`{step}` can start without {requirement}", help
    message = f"`{step}` can start although {requirement} is stale: a variable that it reads was assigned since"
    if rule.already:
        message += ", or an input has another value than in the run before"
        return "SW402", message, f"check again before `{step}`"
    help = (
        f"check again after the assignment, or write `fresh: false` in `{rule.name}` if the old answer is still valid"
    )
    return "SW402", message, help


def _is_itself(rule: Requires, guard: AnyGuard) -> bool:
    """Return whether a rule asks for what it protects, or for a branch of it."""
    return rule.protects == (StepSelector(step=guard.step) if isinstance(guard, BranchSelector) else guard)


def unconfirmed(outcome: Outcome) -> Outcome:
    """Return the SW901 outcome for a violation that the machine did not confirm."""
    assert outcome.evidence is not None
    message = f"the machine does not confirm {outcome.code} at `{outcome.step}`: {outcome.evidence.unconfirmed}"
    help = "this is a bug in the checker or in the machine of Stepward: please report it with the program"
    return outcome._replace(code="SW901", message=message, help=help)


def not_judged(
    subject: str, origin: Origin, evidence: Evidence, help: str, place: Place | None = None, step: str | None = None
) -> Outcome:
    """Return the outcome of a property that is unknown because its check did not finish.

    Its location is `place`, or else the rule. A policy's rule has no location in the program but the program's name.
    """
    if place is None:
        place = origin.place if origin.policy is None else Place(("name",), key=True)
    message = f"{subject} is not proved: {evidence.reason}"
    return Outcome("SW408", message, help, place, step, origin.labels, evidence, origin.tag)


def allowed_near(facts: ProgramFacts, policy: Policy | None, number: int) -> str:
    """Return the words that offer the allowed tool with the name most similar to that of a called tool."""
    known = facts.meaning.manifest
    allowed = {entry.tool for entry in (policy.allow if policy else None) or () if entry.tool in known}
    called = {call.tool for _, call in facts.flow.steps[number].calls if isinstance(call, ToolCall)} - allowed
    similar = {only_near(tool, allowed) for tool in called} - {None}
    return f", such as `{similar.pop()}`" if len(similar) == 1 else ""
