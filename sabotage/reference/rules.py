"""Guardrails, each kept as plainly as it is written: what came, what went stale, what was performed, what is owed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepward.sabotage.reference.expressions import CannotEvaluate, Read, Undefined, holds
from stepward.sabotage.reference.facts import Tool, expressions_of, holder, names_read
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Policy, Program

# What a checker can say of each form: a `requires` can be bypassed, and stale.
_FORMS = {
    "requires": ("SW401", "SW402"),
    "never": ("SW403",),
    "at_most_once": ("SW404",),
    "followed_by": ("SW405",),
    "exclusive": ("SW406",),
}


class Kept:
    """One rule over one run. Sets of names: `came` and `stale` are guards, `performed` sides, `owes` a follow-up."""

    def __init__(self, rule: Any, program: Program, tools: Callable[[str], Tool]) -> None:
        self.rule = rule
        self.form = next(form for form in _FORMS if hasattr(rule, form))
        self._program = program
        self._tools = tools
        self._guards = _guards_in(rule.requires) if self.form == "requires" else []
        self.came: set[str] = set()
        self.stale: set[str] = set()
        self.performed: set[int] = set()
        self.owes = False

    def selects(self, selector: Any, part: Any) -> bool:
        """Return whether P is this step or sub-step: by id, by tool, or any whose tool writes ("Guardrails")."""
        if hasattr(selector, "step"):
            return bool(part.id == selector.step)
        if part.type != "tool":
            return False
        if hasattr(selector, "tool"):
            return bool(part.tool == selector.tool)
        return bool(self._tools(part.tool).effect == selector.effect)

    def forbids(self, part: Any, args: dict[str, Any] | None, read: Read) -> bool:
        """Return whether the rule keeps a step from starting ("Guardrails" 8)."""
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
        """Return whether G came before, and is not stale ("Guardrails" 1 and 2)."""
        if hasattr(requirement, "all_of"):
            return all(self._is_met(one) for one in requirement.all_of)
        if hasattr(requirement, "any_of"):
            return any(self._is_met(one) for one in requirement.any_of)
        return repr(requirement) in self.came - self.stale

    def _is_forbidden_now(self, args: dict[str, Any] | None, read: Read) -> bool:
        """If `when` can't be evaluated where P starts, the rule is broken there ("Guardrails" 5)."""
        if self.rule.when is None:
            return True
        try:
            return holds(parse(self.rule.when), with_args(read, args))
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
        """Note a performance that starts: P counts then, and a follow-up starts ("Guardrails" 1 and 4)."""
        self.performed |= self._sides(part)
        if self.form == "followed_by" and self.selects(self.rule.followed_by.then, part):
            self.owes = False

    def succeeded(self, part: Any) -> None:
        """Note a success: G counts then, and in `followed_by` P; what is both P and Q counts as Q ("Guardrails" 4)."""
        for guard in self._guards:
            if not hasattr(guard, "branch") and self.selects(guard, part):
                self.came.add(repr(guard))
        if self.form == "followed_by":
            pair = self.rule.followed_by
            self.owes |= self.selects(pair.first, part) and not self.selects(pair.then, part)

    def took(self, step: Any, labels: Collection[str | int | None]) -> None:
        """Note a branch that was taken, which is fresh again; it goes by its name or its number."""
        for guard in self._guards:
            if guard_matches(guard, step) and guard.branch in labels:
                self.came.add(repr(guard))
                self.stale.discard(repr(guard))

    def assigned(self, holders: Collection[tuple[str, ...]]) -> None:
        """Let a branch go stale whose condition reads what was assigned, in any of its cases ("Guardrails" 2)."""
        if self.form != "requires" or not self.rule.fresh:
            return
        for guard in self._guards:
            step = next((one for one in self._program.steps if guard_matches(guard, one)), None)
            if step is not None:
                read = {holder(name, self._program)[0] for tree in expressions_of(step) for name in names_read(tree)}
                if read & set(holders):
                    self.stale.add(repr(guard))

    def is_broken(self, status: str, reason: str) -> bool:
        """Return whether a `followed_by` is broken by how the run ended ("Guardrails" 4)."""
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
    """Return whether a guard speaks of a branch of a condition step."""
    return step.type == "condition" and hasattr(guard, "branch") and bool(step.id == guard.step)


def with_args(read: Read, args: dict[str, Any] | None) -> Read:
    """Return a lookup in which `$args.x` is P's argument ("Guardrails" 5)."""

    def look(names: tuple[str, ...]) -> Any:
        if names[0] != "args":
            return read(names)
        value: Any = args
        for name in names[1:]:
            if not isinstance(value, dict) or name not in value:
                raise Undefined(name)
            value = value[name]
        if args is None:
            raise Undefined("args")
        return value

    return look


class Terms(NamedTuple):
    """Policies that a run came under together, and the rules of theirs that are waived (`policy:rule`)."""

    policies: tuple[Policy, ...]
    waived: frozenset[str]

    def waives(self, policy: Policy, name: str, codes: Sequence[str]) -> bool:
        """A waiver that names codes lifts the rules of which nothing else could be said ("Policies, Choices")."""
        has_codes = bool(codes) and all(f"{policy.policy}:{code}" in self.waived for code in codes)
        return f"{policy.policy}:{name}" in self.waived or has_codes


def rules_of(program: Program, terms: Terms, tools: Callable[[str], Tool], own: Sequence[Any] = ()) -> list[Kept]:
    """Return the program's `own` rules, and of each policy those that it does not waive."""
    rules = [Kept(rule, program, tools) for rule in own]
    for policy in terms.policies:
        for rule in policy.guardrails:
            kept = Kept(rule, program, tools)
            if not terms.waives(policy, rule.name, _FORMS[kept.form]):
                rules.append(kept)
    return rules


def is_allowed(tool: str, args: dict[str, Any], terms: Terms, read: Read) -> bool:
    """Return whether every policy with an `allow` lists the tool, with a condition that holds ("Policies" 2)."""
    for policy in terms.policies:
        if policy.allow is None or terms.waives(policy, "allow", ("SW403",)):
            continue
        if not any(entry.tool == tool and _admits(entry.when, args, read) for entry in policy.allow):
            return False
    return True


def may_settle(tool: str, by: str, starter: str, terms: Terms) -> bool:
    """Return whether somebody may settle a call from outside: `four_eyes` asks for two people who say who they are."""
    asks = [one for one in terms.policies if tool in (one.four_eyes or ()) and not terms.waives(one, "four_eyes", ())]
    return not asks or bool(by and starter and by != starter)


def _admits(when: str | None, args: dict[str, Any], read: Read) -> bool:
    try:
        return when is None or holds(parse(when), with_args(read, args))
    except CannotEvaluate:
        return False
