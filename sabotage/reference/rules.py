"""Monitors of guardrails, in their plainest form: satisfied and stale guards, performed sides, owed follow-ups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.reference.data import inside
from stepward.sabotage.reference.expressions import CannotEvaluate, Read, Undefined, holds
from stepward.sabotage.reference.facts import Tool, all_steps, expressions_of, holder, names_read
from stepward.sabotage.reference.plain import digest_of
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Policy, Program

# The codes of a checker for each form: a `requires` can be bypassed, and stale.
_FORMS = {
    "requires": ("SW401", "SW402"),
    "never": ("SW403",),
    "at_most_once": ("SW404",),
    "followed_by": ("SW405",),
    "exclusive": ("SW406",),
}


class Earlier(NamedTuple):
    """What came before a sub-step within its parallel step: the siblings that succeeded, and the holders assigned."""

    succeeded: Sequence[Any] = ()
    assigned: Collection[tuple[str, ...]] = ()


ALONE: Final = Earlier()


class RuleMonitor:
    """The monitor of one rule over one run. `came` and `stale` are guards, `performed` sides; `owes` is a follow-up."""

    def __init__(
        self, rule: Any, program: Program, tools: Callable[[str], Tool], inside: Collection[str] | None = None
    ) -> None:
        self.rule = rule
        self._inside = inside
        """The steps and sub-steps that a rule of a body sees; None for a rule of the program."""
        self.form = next(form for form in _FORMS if hasattr(rule, form))
        self._program = program
        self._tools = tools
        self._guards = _guards_in(rule.requires) if self.form == "requires" else []
        self.came: set[str] = set()
        self.stale: set[str] = set()
        self.performed: set[int] = set()
        self._read_before: dict[str, set[tuple[str, ...]]] = {}
        """What the conditions of guards in earlier runs read."""
        self.owes = False
        self.has_paid = False
        """Whether the follow-up of a `followed_by` has started in the branch that the monitor is of."""
        self._remember(getattr(rule, "already", None))

    def _remember(self, already: Any) -> None:
        """Take over what earlier runs left of the rule ("Continuations")."""
        if self.form == "requires":
            singles = list({repr(guard): guard for guard in self._guards})
            for name, past in zip(singles, already, strict=False):
                self.came |= {name} if past.level != "never" else set()
                self.stale |= {name} if past.level == "stale" else set()
                self._read_before[name] = {tuple(one.split(".")) for one in past.reads}
        elif self.form == "exclusive":
            self.performed |= {side for side, was in enumerate(already) if was}
        elif self.form == "at_most_once" and already:
            self.performed.add(0)
        elif self.form == "followed_by":
            self.owes = already

    def selects(self, selector: Any, part: Any) -> bool:
        """Return whether a selector P matches a step or sub-step: by id, by tool, or by a tool that writes
        ("Guardrails")."""
        if self._inside is not None and part.id not in self._inside:
            return False
        if hasattr(selector, "step"):
            return bool(part.id == selector.step)
        if part.type != "tool":
            return False
        if hasattr(selector, "tool"):
            return bool(part.tool == selector.tool)
        return bool(self._tools(part.tool).effect == selector.effect)

    def forbids(self, part: Any, args: dict[str, Any] | None, read: Read) -> bool:
        """Return whether the rule forbids the start of a step ("Guardrails" 8)."""
        rule = self.rule
        if self.form == "requires":
            return self.selects(rule.protects, part) and not self._is_met(rule.requires)
        if self.form == "never":
            return self.selects(rule.never, part) and self._is_forbidden_now(args, read)
        if self.form == "at_most_once":
            return self.selects(rule.at_most_once, part) and 0 in self.performed
        if self.form == "exclusive":
            sides = self._sides(part)
            return bool(sides) and self.performed | sides == {0, 1}
        return False

    def _is_met(self, requirement: Any) -> bool:
        """Return whether guard G was satisfied before, and is not stale ("Guardrails" 1 and 2)."""
        if hasattr(requirement, "all_of"):
            return all(self._is_met(one) for one in requirement.all_of)
        if hasattr(requirement, "any_of"):
            return any(self._is_met(one) for one in requirement.any_of)
        return repr(requirement) in self.came - self.stale

    def _is_forbidden_now(self, args: dict[str, Any] | None, read: Read) -> bool:
        """Evaluate `when` at the start of P. If it can't be evaluated, the rule is broken ("Guardrails" 5)."""
        if self.rule.when is None:
            return True
        try:
            return holds(parse(self.rule.when, self._program.language), with_args(read, args))
        except CannotEvaluate:
            return True

    def _sides(self, part: Any) -> set[int]:
        selectors: Sequence[Any] = ()
        if self.form == "at_most_once":
            selectors = [self.rule.at_most_once]
        elif self.form == "exclusive":
            selectors = self.rule.exclusive
        return {side for side, one in enumerate(selectors) if self.selects(one, part)}

    def starts(self, part: Any) -> None:
        """Record the start of a performance: P counts then, and a follow-up is satisfied ("Guardrails" 1 and 4)."""
        self.performed |= self._sides(part)
        if self.form == "followed_by" and self.selects(self.rule.followed_by.then, part):
            self.owes, self.has_paid = False, True

    def succeeded(self, part: Any, behind: Sequence[Any] = ()) -> None:
        """Record a success: G counts then, and P of a `followed_by`; a step that is both P and Q counts as Q
        ("Guardrails" 4). `behind` are the siblings that depend on it and have started: a Q among them follows P."""
        for guard in self._guards:
            if not hasattr(guard, "branch") and self.selects(guard, part):
                self.came.add(repr(guard))
        if self.form == "followed_by":
            pair = self.rule.followed_by
            is_paid = any(self.selects(pair.then, one) for one in [part, *behind])
            self.owes |= self.selects(pair.first, part) and not is_paid

    def forbids_behind(self, part: Any, args: dict[str, Any] | None, read: Read, earlier: Earlier) -> bool:
        """Return whether the rule forbids the start of a sub-step, behind the siblings that it depends on."""
        succeeded, stale = set(self.came), set(self.stale)
        if self.form == "requires":
            self.assigned(earlier.assigned)
            for one in earlier.succeeded:
                self.succeeded(one)
        found = self.forbids(part, args, read)
        self.came, self.stale = succeeded, stale
        return found

    def took(self, step: Any, labels: Collection[str | int | None]) -> None:
        """Record a taken branch, by its name or number. It is fresh again."""
        for guard in self._guards:
            is_seen = self._inside is None or step.id in self._inside
            if is_seen and guard_matches(guard, step) and guard.branch in labels:
                self.came.add(repr(guard))
                self.stale.discard(repr(guard))

    def assigned(self, holders: Collection[tuple[str, ...]]) -> None:
        """Mark branches as stale whose conditions read an assigned holder, in any case ("Guardrails" 2)."""
        if self.form != "requires" or not self.rule.fresh:
            return
        for guard in self._guards:
            step = next((one for one in all_steps(self._program.whole_steps) if guard_matches(guard, one)), None)
            read = set(self._read_before.get(repr(guard), ()))
            if step is not None:
                read |= {
                    holder(name, self._program)[0] for tree in expressions_of(step, 1) for name in names_read(tree)
                }
            if read & set(holders):
                self.stale.add(repr(guard))

    def is_broken(self, status: str, reason: str) -> bool:
        """Return whether the ending of the run breaks a `followed_by` ("Guardrails" 4)."""
        if self.form != "followed_by" or not self.owes:
            return False
        if self.rule.ends == "any" or status == "SUCCESS":
            return True
        return self.rule.ends is None and (status == "FAILED" or reason == "visits")


def _guards_in(requirement: Any) -> list[Any]:
    """Return the single guards of a requirement."""
    found, pending = [], [requirement]
    while pending:
        one = pending.pop()
        inner = getattr(one, "all_of", None) or getattr(one, "any_of", None)
        if inner:
            pending += inner
        else:
            found.append(one)
    return found


def guard_matches(guard: Any, step: Any) -> bool:
    """Return whether a guard names a branch of a condition step."""
    return step.type == "condition" and hasattr(guard, "branch") and bool(step.id == guard.step)


def with_args(read: Read, args: dict[str, Any] | None) -> Read:
    """Return a lookup in which `$args.x` is P's argument ("Guardrails" 5)."""

    def look(names: tuple[str, ...]) -> Any:
        if names[0] != "args":
            return read(names)
        value: Any = args
        for name in names[1:]:
            value = inside(value, name)
        if args is None:
            raise Undefined("args")
        return value

    return look


class Terms(NamedTuple):
    """A set of policies that came to a run together, with their waived rules (`policy:rule`)."""

    policies: tuple[Policy, ...]
    waived: frozenset[str]

    def waives(self, policy: Policy, name: str, codes: Sequence[str]) -> bool:
        """Return whether a rule is waived: by name, or by all codes that a checker can report for it ("Policies,
        Choices")."""
        has_codes = bool(codes) and all(f"{policy.policy}:{code}" in self.waived for code in codes)
        return f"{policy.policy}:{name}" in self.waived or has_codes


def terms_of(policies: Sequence[Policy], waived: Collection[str]) -> Terms:
    """Return policies that come to a run, with those of the waived rules that are theirs."""
    names = {policy.policy for policy in policies}
    return Terms(tuple(policies), frozenset(one for one in waived if one.partition(":")[0] in names))


def rules_of(
    program: Program, terms: Terms, tools: Callable[[str], Tool], own: Sequence[Any] = ()
) -> list[RuleMonitor]:
    """Return monitors of the program's `own` rules and of the policies' rules that are not waived."""
    rules = [RuleMonitor(rule, program, tools) for rule in own]
    for policy in terms.policies:
        for rule in policy.guardrails:
            monitor = RuleMonitor(rule, program, tools)
            if not terms.waives(policy, rule.name, _FORMS[monitor.form]):
                rules.append(monitor)
    return rules


def is_allowed(tool: str, args: dict[str, Any], terms: Terms, read: Read, language: int) -> bool:
    """Return whether every policy with an `allow` lists the tool, with a condition that holds ("Policies" 2).

    A condition has the meaning that it has in the `language` of the program.
    """
    for policy in terms.policies:
        if policy.allow is None or terms.waives(policy, "allow", ("SW403",)):
            continue
        if not any(entry.tool == tool and _admits(entry.when, args, read, language) for entry in policy.allow):
            return False
    return True


def is_done(tool: Tool, name: str, args: dict[str, Any], terms: Sequence[Terms]) -> bool:
    """Return whether a run before this one has called a tool that writes in this way ("Continuations" 5)."""
    if tool.effect != "write":
        return False
    for write in (write for each in terms for policy in each.policies for write in policy.performed):
        compared = {key: value for key, value in args.items() if key not in write.without}
        if write.tool == name and digest_of(compared) == write.args:
            return True
    return False


def may_settle(tool: str, by: str, starter: str, terms: Terms) -> bool:
    """Return whether a person may settle a call from outside: `four_eyes` requires two named people."""
    asks = [one for one in terms.policies if tool in (one.four_eyes or ()) and not terms.waives(one, "four_eyes", ())]
    return not asks or bool(by and starter and by != starter)


def _admits(when: str | None, args: dict[str, Any], read: Read, language: int) -> bool:
    try:
        return when is None or holds(parse(when, language), with_args(read, args))
    except CannotEvaluate:
        return False
