"""Guardrails as automata: what a rule remembers of a run, and when it is broken (specs/language.md, "Guardrails").

There is one deterministic automaton for each kind of rule. The machine folds what happened over it; the checker
explores it beside the step graph, with all that may happen. The second checker and the reference interpreter check
these two, so they have their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, assert_never

from stepward.vm.expressions.syntax import all_references
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    AnyRule,
    AnySelector,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    StepSelector,
    ToolSelector,
    guards,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.selectors import Hit
from stepward.vm.language.steps import ConditionStep, Failing, parts

Objection = Literal["bypassed", "stale", "forbidden", "repeated", "both"]

NEVER, STALE, FRESH = 0, 1, 2
"""What `requires` remembers of a guard: it never came, it came and went stale, or it stands."""

BOTH: Final = 3
"""What `exclusive` remembers once both sides were performed: a bit for each."""


class Automaton:
    """What all kinds of rules start with: nothing is remembered, and nothing breaks the rule.

    `starts` selects parts whose start matters; `comes` those whose success matters, or that a branch is taken. The
    methods take selectors by their numbers in these two. `kind` names the kind of rule, `codes` the findings that the
    checker may make of it: a waiver may name the rule, or these.
    """

    kind: str
    codes: tuple[str, ...]
    first: Any = 0
    counts_starts = False
    """Whether a start changes what is remembered."""

    def __init__(self, starts: Sequence[AnySelector] = (), comes: Sequence[AnySelector | AnyGuard] = ()) -> None:
        self.starts, self.comes = tuple(starts), tuple(comes)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        """Return why a part must not start that these of `starts` select, or None."""
        return None

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        """Return what is remembered once a part has started that these of `starts` select."""
        return memory

    def left(self, memory: Any, came: Collection[int], stale: Collection[int]) -> Any:  # noqa: ARG002
        """Return what is remembered once a step was left: these of `comes` came, and these went stale."""
        return memory

    def is_broken(self, memory: Any) -> bool:  # noqa: ARG002
        """Return whether the rule was broken for good: whatever starts later breaks it no further."""
        return False

    def counts(self, status: str, reason: str) -> bool:  # noqa: ARG002
        """Return whether a run that ends like this must owe nothing."""
        return False

    def owes(self, memory: Any, status: str, reason: str) -> bool:
        """Return whether a run broke the rule by ending like this."""
        return memory != 0 and self.counts(status, reason)


class RequiresAutomaton(Automaton):
    """`protects: P, requires: G`: remembers of each single guard whether it never came, went stale, or stands."""

    kind, codes = "requires", ("SW401", "SW402")

    def __init__(self, rule: Requires) -> None:
        super().__init__((rule.protects,), tuple(dict.fromkeys(guards(rule.requires))))
        self.requirement = rule.requires
        self.position = {guard: number for number, guard in enumerate(self.comes)}
        self.first = (NEVER,) * len(self.comes)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        if self._holds(self.requirement, memory, FRESH):
            return None
        return "stale" if self._holds(self.requirement, memory, STALE) else "bypassed"

    def _holds(self, requirement: AnyRequirement, memory: tuple[int, ...], least: int) -> bool:
        match requirement:
            case AllOf():
                return all(self._holds(part, memory, least) for part in requirement.all_of)
            case AnyOf():
                return any(self._holds(part, memory, least) for part in requirement.any_of)
            case ToolSelector() | StepSelector() | BranchSelector():
                return memory[self.position[requirement]] >= least
            case _:
                assert_never(requirement)

    def left(self, memory: Any, came: Collection[int], stale: Collection[int]) -> Any:
        return tuple(
            FRESH if number in came else STALE if before == FRESH and number in stale else before
            for number, before in enumerate(memory)
        )


class NeverAutomaton(Automaton):
    """`never: P`. Whether a `when` holds is not for the automaton: it objects to each start."""

    kind, codes = "never", ("SW403",)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        return "forbidden"


class AtMostOnceAutomaton(Automaton):
    """`at_most_once: P`: remembers whether P was performed."""

    kind, codes = "at_most_once", ("SW404",)
    counts_starts = True

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        return "repeated" if memory else None

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        return 1


class ExclusiveAutomaton(Automaton):
    """`exclusive: [P, Q]`: remembers which of the two were performed."""

    kind, codes = "exclusive", ("SW406",)
    counts_starts = True

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:
        return "both" if self.started(memory, which) == BOTH else None

    def started(self, memory: Any, which: Collection[int]) -> Any:
        return memory | (0 in which) | (1 in which) << 1

    def is_broken(self, memory: Any) -> bool:
        return bool(memory == BOTH)


class FollowedByAutomaton(Automaton):
    """`followed_by: {first: P, then: Q}`: remembers whether Q is owed. No start breaks it, but an ending may."""

    kind, codes = "followed_by", ("SW405",)
    counts_starts = True

    def __init__(self, rule: FollowedBy) -> None:
        super().__init__((rule.followed_by.then,), (rule.followed_by.first,))
        self.ends = rule.ends

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        return 0

    def left(self, memory: Any, came: Collection[int], stale: Collection[int]) -> Any:  # noqa: ARG002
        return 1 if came else memory

    def counts(self, status: str, reason: str) -> bool:
        is_failure = status == "FAILED" or (status == "STALLED" and reason == "visits")
        return self.ends == "any" or status == "SUCCESS" or (self.ends is None and is_failure)


def automaton_of(rule: AnyRule) -> Automaton:
    """Return the automaton of a rule."""
    match rule:
        case Requires():
            return RequiresAutomaton(rule)
        case Never():
            return NeverAutomaton((rule.never,))
        case AtMostOnce():
            return AtMostOnceAutomaton((rule.at_most_once,))
        case Exclusive():
            return ExclusiveAutomaton(rule.exclusive)
        case FollowedBy():
            return FollowedByAutomaton(rule)
        case _:
            assert_never(rule)


class Bound(NamedTuple):
    """An automaton in one program: what each of `starts` and `comes` selects, and the steps by which these go stale."""

    automaton: Automaton
    starts: tuple[list[Hit], ...]
    comes: tuple[list[Hit], ...]
    stale_by: tuple[frozenset[int], ...]


def bound(rule: AnyRule, meaning: Meaning, hits: Callable[[AnySelector | AnyGuard], list[Hit]]) -> Bound:
    """Return the automaton of a rule in a program; `hits` says what a selector selects there."""
    automaton = automaton_of(rule)
    starts = tuple(map(hits, automaton.starts))
    # What counts when it starts does not count again when it succeeds.
    counted = {hit[:2] for found in starts for hit in found} if automaton.counts_starts else set()
    comes = tuple([hit for hit in hits(selector) if hit[:2] not in counted] for selector in automaton.comes)
    goes_stale = isinstance(rule, Requires) and rule.fresh
    stale_by = tuple(_stale_by(guard, meaning) if goes_stale else frozenset() for guard in automaton.comes)
    return Bound(automaton, starts, comes, stale_by)


def awaited(guard: AnySelector | AnyGuard, hit: Hit) -> str | int | None:
    """Return the branch, as control flow names it, that a guard waits for; None where success is enough."""
    if not isinstance(guard, BranchSelector):
        return None
    assert isinstance(hit.part, ConditionStep)
    return hit.part.branch_names[guard.branch]


def _stale_by(guard: AnySelector | AnyGuard, meaning: Meaning) -> frozenset[int]:
    """Return the steps by which a guard goes stale: those that assign what its condition reads in any case."""
    if not isinstance(guard, BranchSelector) or guard.step not in meaning.flow.position:
        return frozenset()
    clauses = meaning.clauses_of.get(meaning.flow.position[guard.step], ())
    trees = [clause.tree for clause in clauses if clause.tree is not None]
    found = {meaning.names.locate(reference.names) for tree in trees for reference in all_references(tree)}
    return frozenset(step for one in found if one is not None for step in _assigners(one[0], meaning))


def _assigners(name: tuple[str, ...], meaning: Meaning) -> Iterable[int]:
    """Yield the steps that assign a variable, an output or an error, when they succeed or when they don't."""
    if len(name) == 1:
        return (source.step for source in meaning.names.variables.get(name[0], ()) if source.step is not None)
    return (
        number
        for number, step in enumerate(meaning.program.steps)
        if any(isinstance(part, Failing) and part.id == name[0] for _, part in parts(step))
    )
