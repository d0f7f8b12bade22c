"""Guardrails as the machine keeps them: one small monitor each, asked before a step starts.

They mean what specs/language.md says under "Guardrails", on one concrete run. What a monitor remembers is part of the
state, so that it survives crashes, and replays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    AnyRule,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    guards,
)
from stepward.vm.language.selectors import Hit, matches
from stepward.vm.language.steps import ConditionStep
from stepward.vm.machine.plan import meaning_under
from stepward.vm.machine.state import Reader

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Meaning
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.plan import Plan, Terms

Part = tuple[int, int | None]
"""A step by its position, or a sub-step of it."""

NEVER, STALE, FRESH = 0, 1, 2


class Left(NamedTuple):
    """How a step was left: the branch that was taken, and the parts of it that succeeded."""

    position: int
    branch: str | int | None
    succeeded: tuple[Part, ...]


class Monitor(Protocol):
    """Watches one run for one rule. `parts` are those of the program that concern it."""

    name: str
    parts: frozenset[Part]
    steps: frozenset[int]

    def start(self) -> Any:
        """Return what it remembers before the run."""
        ...

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:
        """Return why the part must not start now, or None."""
        ...

    def performed(self, memory: Any, part: Part) -> Any:
        """Return what it remembers once a part has started."""
        ...

    def left(self, memory: Any, left: Left) -> Any:
        """Return what it remembers once a step was left."""
        ...

    def complaint(self, memory: Any, status: str, reason: str) -> str | None:
        """Return what the ended run owes, or None."""
        ...


class _Base:
    def __init__(self, rule: AnyRule, hits: Iterable[Hit]) -> None:
        self.name = rule.name
        self.parts: frozenset[Part] = frozenset((hit.step, hit.sub) for hit in hits)
        self.steps: frozenset[int] = frozenset()

    def start(self) -> Any:
        return 0

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:  # noqa: ARG002
        return None

    def performed(self, memory: Any, part: Part) -> Any:  # noqa: ARG002
        return memory

    def left(self, memory: Any, left: Left) -> Any:  # noqa: ARG002
        return memory

    def complaint(self, memory: Any, status: str, reason: str) -> str | None:  # noqa: ARG002
        return None


class RequiresMonitor(_Base):
    """`protects: P, requires: G`: remembers of every G whether it never came, went stale, or stands."""

    def __init__(self, rule: Requires, plan: Plan, meaning: Meaning) -> None:
        super().__init__(rule, matches(rule.protects, meaning))
        self.requirement = rule.requires
        self.guards = tuple(dict.fromkeys(guards(rule.requires)))
        self.position = {guard: number for number, guard in enumerate(self.guards)}
        self.hits = [
            {(hit.step, hit.sub): _branch(guard, hit) for hit in matches(guard, meaning)} for guard in self.guards
        ]
        self.stale_by = [plan.assigners(_reads(guard, plan)) if rule.fresh else frozenset() for guard in self.guards]
        coming = frozenset(step for hits in self.hits for step, _ in hits)
        self.steps = coming.union(*self.stale_by)

    def start(self) -> Any:
        return (NEVER,) * len(self.guards)

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:  # noqa: ARG002
        if self._holds(self.requirement, memory, FRESH):
            return None
        is_stale = self._holds(self.requirement, memory, STALE)
        return "what it requires came, but is stale" if is_stale else "what it requires did not come before"

    def _holds(self, requirement: AnyRequirement, memory: tuple[int, ...], least: int) -> bool:
        if isinstance(requirement, AllOf):
            return all(self._holds(part, memory, least) for part in requirement.all_of)
        if isinstance(requirement, AnyOf):
            return any(self._holds(part, memory, least) for part in requirement.any_of)
        return memory[self.position[requirement]] >= least

    def left(self, memory: Any, left: Left) -> Any:
        return tuple(self._after(number, before, left) for number, before in enumerate(memory))

    def _after(self, number: int, before: int, left: Left) -> int:
        hits = self.hits[number]
        for part in left.succeeded:
            if part in hits and hits[part] in (None, left.branch):
                return FRESH
        return STALE if before == FRESH and left.position in self.stale_by[number] else before


def _branch(guard: AnyGuard, hit: Hit) -> str | int | None:
    """Return the branch, as control flow names it, that a guard waits for; None where success is enough."""
    if not isinstance(guard, BranchSelector):
        return None
    assert isinstance(hit.part, ConditionStep)
    return hit.part.branch_names[guard.branch]


def _reads(guard: AnyGuard, plan: Plan) -> frozenset[int]:
    """Return the slots whose assignment makes a guard stale: those that its condition reads in any case."""
    if not isinstance(guard, BranchSelector):
        return frozenset()
    trees = [clause.tree for step in plan.steps if step.id == guard.step for clause in step.clauses]
    return plan.slots_read(tree for tree in trees if tree is not None)


class NeverMonitor(_Base):
    """`never: P`, with or without `when`."""

    def __init__(self, rule: Never, _: Plan, meaning: Meaning) -> None:
        super().__init__(rule, matches(rule.never, meaning))
        self.text = rule.when
        self.when: Expression | None = None if rule.when is None else parse(rule.when)

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:  # noqa: ARG002
        if self.when is None:
            return "it must never start"
        try:
            return f"`{self.text}` holds" if evaluate_condition(self.when, reader) else None
        except EvaluationError as error:
            return f"`{self.text}` can't be evaluated: {error}"


class AtMostOnceMonitor(_Base):
    """`at_most_once: P`: remembers whether P was performed."""

    def __init__(self, rule: AtMostOnce, _: Plan, meaning: Meaning) -> None:
        super().__init__(rule, matches(rule.at_most_once, meaning))

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:  # noqa: ARG002
        return "it was performed before" if memory else None

    def performed(self, memory: Any, part: Part) -> Any:
        return 1 if part in self.parts else memory


class ExclusiveMonitor(_Base):
    """`exclusive: [P, Q]`: remembers which of the two were performed."""

    def __init__(self, rule: Exclusive, _: Plan, meaning: Meaning) -> None:
        self.sides = [frozenset((hit.step, hit.sub) for hit in matches(side, meaning)) for side in rule.exclusive]
        super().__init__(rule, ())
        self.parts = self.sides[0] | self.sides[1]

    def objection(self, memory: Any, part: Part, reader: Reader) -> str | None:  # noqa: ARG002
        return "what it excludes was performed" if self.performed(memory, part) == 3 else None

    def performed(self, memory: Any, part: Part) -> Any:
        return memory | (part in self.sides[0]) | (part in self.sides[1]) << 1


class FollowedByMonitor(_Base):
    """`followed_by`: remembers whether Q is owed. It blocks nothing: an ended run that owes is a broken promise."""

    def __init__(self, rule: FollowedBy, _: Plan, meaning: Meaning) -> None:
        then = matches(rule.followed_by.then, meaning)
        super().__init__(rule, then)
        self.first = frozenset((hit.step, hit.sub) for hit in matches(rule.followed_by.first, meaning)) - self.parts
        self.ends = rule.ends
        self.text = rule.followed_by.then.text()
        self.steps = frozenset(step for step, _ in self.first)

    def performed(self, memory: Any, part: Part) -> Any:
        return 0 if part in self.parts else memory

    def left(self, memory: Any, left: Left) -> Any:
        return 1 if self.first.intersection(left.succeeded) else memory

    def complaint(self, memory: Any, status: str, reason: str) -> str | None:
        is_failure = status == "FAILED" or (status == "STALLED" and reason == "visits")
        counts = status == "SUCCESS" or (self.ends != "success" and is_failure)
        return f"{self.text} did not follow" if memory and (counts or self.ends == "any") else None


CODES: Final[dict[type[AnyRule], tuple[str, ...]]] = {
    Requires: ("SW401", "SW402"),
    Never: ("SW403",),
    AtMostOnce: ("SW404",),
    FollowedBy: ("SW405",),
    Exclusive: ("SW406",),
}
"""What the checker says where a rule is broken: a waiver may name the rule, or these."""

MONITORS: Final[dict[type[AnyRule], Any]] = {
    Requires: RequiresMonitor,
    Never: NeverMonitor,
    AtMostOnce: AtMostOnceMonitor,
    Exclusive: ExclusiveMonitor,
    FollowedBy: FollowedByMonitor,
}


def _is_waived(rule: AnyRule, policy: Policy | None, terms: Terms) -> bool:
    """Whether the policy lifts a rule for this run: by its name, or by all that the checker could say of it."""
    if policy is None:
        return False
    codes = CODES[type(rule)]
    return terms.waives(policy, rule.name) or all(terms.waives(policy, code) for code in codes)


def _monitors(plan: Plan) -> Iterator[Monitor]:
    """Yield a monitor for each rule in force: those of the program, then those of all terms that the run is under."""
    for number, terms in enumerate(plan.terms):
        meaning = plan.meaning
        if number:  # what a tool is by these policies decides what their rules speak of
            meaning = meaning_under(plan.program, (*plan.policies, *terms.policies))
        for rule, policy in meaning.rules[len(plan.meaning.rules) if number else 0 :]:
            if not _is_waived(rule, policy, terms):
                yield MONITORS[type(rule)](rule, plan, meaning)


class Watch:
    """All monitors of a plan, and which of them each step concerns: most steps concern none.

    `first` is what they remember before the run.
    """

    def __init__(self, plan: Plan) -> None:
        self.monitors: tuple[Monitor, ...] = tuple(_monitors(plan))
        self.asked: dict[Part, tuple[int, ...]] = {}
        self.told: dict[int, tuple[int, ...]] = {}
        self.first = tuple(monitor.start() for monitor in self.monitors)
        for number, monitor in enumerate(self.monitors):
            for part in monitor.parts:
                self.asked[part] = (*self.asked.get(part, ()), number)
            for step in monitor.steps:
                self.told[step] = (*self.told.get(step, ()), number)

    def objection(self, memories: tuple[Any, ...], part: Part, reader: Reader) -> tuple[str, str] | None:
        """Return the name of a rule that a start would break, and how; or None."""
        for number in self.asked.get(part, ()):
            why = self.monitors[number].objection(memories[number], part, reader)
            if why is not None:
                return self.monitors[number].name, why
        return None

    def performed(self, memories: tuple[Any, ...], part: Part) -> tuple[Any, ...]:
        """Return what the monitors remember once a part has started."""
        if part not in self.asked:
            return memories
        changed = list(memories)
        for number in self.asked[part]:
            changed[number] = self.monitors[number].performed(memories[number], part)
        return tuple(changed)

    def left(self, memories: tuple[Any, ...], left: Left) -> tuple[Any, ...]:
        """Return what the monitors remember once a step was left."""
        if left.position not in self.told:
            return memories
        changed = list(memories)
        for number in self.told[left.position]:
            changed[number] = self.monitors[number].left(memories[number], left)
        return tuple(changed)

    def complaints(self, memories: tuple[Any, ...], status: str, reason: str) -> tuple[tuple[str, str], ...]:
        """Return the rules that an ended run broke by what it left undone, and how."""
        found = (
            (monitor.name, monitor.complaint(memory, status, reason))
            for monitor, memory in zip(self.monitors, memories, strict=True)
        )
        return tuple((name, why) for name, why in found if why is not None)
