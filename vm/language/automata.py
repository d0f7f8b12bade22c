"""Guardrails as automata: the memory of a rule during a run, and when the rule is broken (specs/language.md).

There is one deterministic automaton for each kind of rule. The machine feeds it the events of a run; the checker
explores its product with the step graph. The second checker and the reference interpreter have automata of their own,
because they check these two.
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
    LevelWord,
    Never,
    Requires,
    StepSelector,
    ToolSelector,
    guards,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.selectors import Match
from stepward.vm.language.steps import ConditionStep, Failing, parts

Objection = Literal["bypassed", "stale", "forbidden", "repeated", "both"]

NEVER, STALE, FRESH = 0, 1, 2
"""The memory of `requires` for a guard: it never succeeded, it succeeded and went stale, or it is valid."""

LEVELS: Final[dict[LevelWord, int]] = {"never": NEVER, "stale": STALE, "fresh": FRESH}
"""The words of `already` for these."""

BOTH: Final = 3
"""The memory of `exclusive` once both sides were performed: a bit for each."""


class Automaton:
    """The base of the automata: it has no memory, and nothing breaks the rule.

    `starts` selects the parts whose start matters; `comes` selects the parts and branches whose success matters. The
    methods take selectors by their index in these two. `kind` names the kind of rule, `codes` the findings that the
    checker may report for it: a waiver may name the rule, or one of these.
    """

    kind: str
    codes: tuple[str, ...]
    first: Any = 0
    counts_starts = False
    """Whether a start changes the memory."""
    is_shared = True
    """Whether branches that run at once share one memory. Else each has its own, because what happens in one is not
    before anything in another."""

    def __init__(self, starts: Sequence[AnySelector] = (), comes: Sequence[AnySelector | AnyGuard] = ()) -> None:
        self.starts, self.comes = tuple(starts), tuple(comes)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        """Return why a part must not start, or None; `which` are the indices of `starts` that select it."""
        return None

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        """Return the memory after a part has started; `which` are the indices of `starts` that select it."""
        return memory

    def left(self, memory: Any, succeeded: Collection[int], stale: Collection[int]) -> Any:  # noqa: ARG002
        """Return the memory after a step was left; `succeeded` and `stale` are indices of `comes`."""
        return memory

    def forked(self, memory: Any, before: Sequence[Any]) -> Any:  # noqa: ARG002
        """Return the memory at the start of a branch: `memory` is that where the branches part, and `before` are those
        at the ends of the branches that it depends on."""
        return memory

    def joined(self, memory: Any, ends: Sequence[Any], before: Sequence[frozenset[int]]) -> Any:  # noqa: ARG002
        """Return the memory behind branches; `ends` are those at their ends, `before` the branches before each one."""
        return memory

    def is_broken(self, memory: Any) -> bool:  # noqa: ARG002
        """Return whether the rule is broken for good, so that no later start can break it again."""
        return False

    def counts(self, status: str, reason: str) -> bool:  # noqa: ARG002
        """Return whether the rule applies to a run with this ending."""
        return False

    def owes(self, memory: Any, status: str, reason: str) -> bool:
        """Return whether a run with this ending breaks the rule."""
        return memory != 0 and self.counts(status, reason)


class RequiresAutomaton(Automaton):
    """`protects: P, requires: G`: the memory is NEVER, STALE or FRESH for each single guard."""

    kind, codes = "requires", ("SW401", "SW402")
    is_shared = False

    def __init__(self, rule: Requires) -> None:
        super().__init__((rule.protects,), tuple(dict.fromkeys(guards(rule.requires))))
        self.requirement = rule.requires
        self.position = {guard: number for number, guard in enumerate(self.comes)}
        self.first = tuple(LEVELS[one.level] for one in rule.already) or (NEVER,) * len(self.comes)

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

    def left(self, memory: Any, succeeded: Collection[int], stale: Collection[int]) -> Any:
        return tuple(
            FRESH if number in succeeded else STALE if before == FRESH and number in stale else before
            for number, before in enumerate(memory)
        )

    def forked(self, memory: Any, before: Sequence[Any]) -> Any:
        return tuple(max(levels) for levels in zip(memory, *before, strict=True))

    def joined(self, memory: Any, ends: Sequence[Any], before: Sequence[frozenset[int]]) -> Any:  # noqa: ARG002
        return self.forked(memory, ends)


class NeverAutomaton(Automaton):
    """`never: P`: it objects to each start; its users evaluate `when`."""

    kind, codes = "never", ("SW403",)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        return "forbidden"


class AtMostOnceAutomaton(Automaton):
    """`at_most_once: P`: the memory says whether P was performed."""

    kind, codes = "at_most_once", ("SW404",)
    counts_starts = True

    def __init__(self, rule: AtMostOnce) -> None:
        super().__init__((rule.at_most_once,))
        self.first = int(rule.already)

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:  # noqa: ARG002
        return "repeated" if memory else None

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        return 1


class ExclusiveAutomaton(Automaton):
    """`exclusive: [P, Q]`: the memory says which of the two were performed."""

    kind, codes = "exclusive", ("SW406",)
    counts_starts = True

    def __init__(self, rule: Exclusive) -> None:
        super().__init__(rule.exclusive)
        self.first = rule.already[0] | rule.already[1] << 1

    def objection(self, memory: Any, which: Collection[int]) -> Objection | None:
        return "both" if self.started(memory, which) == BOTH else None

    def started(self, memory: Any, which: Collection[int]) -> Any:
        return memory | (0 in which) | (1 in which) << 1

    def is_broken(self, memory: Any) -> bool:
        return bool(memory == BOTH)


OWED: Final = 1
"""The memory of `followed_by` while Q is owed, 0 if it is not."""

IDLE, PAID, OWED_HERE, OWED_AGAIN = -1, -2, -3, -4
"""Its memory in a branch: nothing happened there; Q started and is not owed; Q is owed; Q is owed after one started."""


class FollowedByAutomaton(Automaton):
    """`followed_by: {first: P, then: Q}`: the memory says whether Q is owed. Only an ending can break the rule.

    In a branch it says besides whether Q has started there, because that pays what was owed before the branches.
    """

    kind, codes = "followed_by", ("SW405",)
    counts_starts = True
    is_shared = False

    def __init__(self, rule: FollowedBy) -> None:
        super().__init__((rule.followed_by.then,), (rule.followed_by.first,))
        self.ends = rule.ends
        self.first = int(rule.already)

    def started(self, memory: Any, which: Collection[int]) -> Any:  # noqa: ARG002
        return 0 if memory >= 0 else PAID

    def left(self, memory: Any, succeeded: Collection[int], stale: Collection[int]) -> Any:  # noqa: ARG002
        if not succeeded:
            return memory
        return OWED if memory >= 0 else OWED_HERE if memory in (IDLE, OWED_HERE) else OWED_AGAIN

    def forked(self, memory: Any, before: Sequence[Any]) -> Any:  # noqa: ARG002
        return IDLE

    def joined(self, memory: Any, ends: Sequence[Any], before: Sequence[frozenset[int]]) -> Any:
        paying = {number for number, end in enumerate(ends) if end in (PAID, OWED_AGAIN)}
        still_owed = any(
            end in (OWED_HERE, OWED_AGAIN) and not any(number in before[one] for one in paying)
            for number, end in enumerate(ends)
        )
        still_owed = still_owed or (self.is_owed(memory) and not paying)
        if memory >= 0:
            return OWED if still_owed else 0
        has_started = bool(paying) or memory in (PAID, OWED_AGAIN)
        return (OWED_AGAIN if has_started else OWED_HERE) if still_owed else PAID if has_started else IDLE

    @staticmethod
    def is_owed(memory: Any) -> bool:
        """Return whether Q is owed."""
        return memory in (OWED, OWED_HERE, OWED_AGAIN)

    def owes(self, memory: Any, status: str, reason: str) -> bool:
        return self.is_owed(memory) and self.counts(status, reason)

    def counts(self, status: str, reason: str) -> bool:
        is_failure = status == "FAILED" or (status == "STALLED" and reason == "visits")
        return (self.ends == "any" and reason != "moved") or status == "SUCCESS" or (self.ends is None and is_failure)


def automaton_of(rule: AnyRule) -> Automaton:
    """Return the automaton of a rule."""
    match rule:
        case Requires():
            return RequiresAutomaton(rule)
        case Never():
            return NeverAutomaton((rule.never,))
        case AtMostOnce():
            return AtMostOnceAutomaton(rule)
        case Exclusive():
            return ExclusiveAutomaton(rule)
        case FollowedBy():
            return FollowedByAutomaton(rule)
        case _:
            assert_never(rule)


class Bound(NamedTuple):
    """An automaton in one program: what each of `starts` and `comes` matches, and the steps that make these stale.

    `stale_parts` are the steps and sub-steps that assign what makes them stale.
    """

    automaton: Automaton
    starts: tuple[list[Match], ...]
    comes: tuple[list[Match], ...]
    stale_by: tuple[frozenset[int], ...]
    stale_parts: tuple[frozenset[tuple[int, int | None]], ...]


def bound(rule: AnyRule, meaning: Meaning, hits: Callable[[AnySelector | AnyGuard], list[Match]]) -> Bound:
    """Return the automaton of a rule in a program; `hits` returns what a selector matches there."""
    automaton = automaton_of(rule)
    starts = tuple(map(hits, automaton.starts))
    # A part that counts when it starts does not count again when it succeeds.
    counted = {hit[:2] for found in starts for hit in found} if automaton.counts_starts else set()
    comes = tuple([hit for hit in hits(selector) if hit[:2] not in counted] for selector in automaton.comes)
    goes_stale = isinstance(rule, Requires) and rule.fresh
    parts = tuple(
        _stale_by(guard, meaning) | earlier if goes_stale else frozenset()
        for guard, earlier in zip(automaton.comes, _stale_by_past(rule, meaning, len(automaton.comes)), strict=True)
    )
    stale_by = tuple(frozenset(step for step, _ in found) for found in parts)
    return Bound(automaton, starts, comes, stale_by, parts)


def awaited(guard: AnySelector | AnyGuard, hit: Match) -> str | int | None:
    """Return the branch, as control flow names it, that a guard waits for; None if success is enough."""
    if not isinstance(guard, BranchSelector):
        return None
    assert isinstance(hit.part, ConditionStep)
    return hit.part.branch_names[guard.branch]


def _stale_by(guard: AnySelector | AnyGuard, meaning: Meaning) -> frozenset[tuple[int, int | None]]:
    """Return the steps and sub-steps that make a guard stale: those that may assign a name in its conditions."""
    return frozenset(part for name in read_by(guard, meaning) for part in _assigners(name, meaning))


def read_by(guard: AnySelector | AnyGuard, meaning: Meaning) -> frozenset[tuple[str, ...]]:
    """Return the variables, outputs and errors that the conditions of a guard with a branch read."""
    if not isinstance(guard, BranchSelector) or guard.step not in meaning.flow.position:
        return frozenset()
    clauses = meaning.clauses_of.get(meaning.flow.position[guard.step], ())
    trees = [clause.tree for clause in clauses if clause.tree is not None]
    found = {meaning.names.locate(reference.names) for tree in trees for reference in all_references(tree)}
    return frozenset(one[0] for one in found if one is not None)


def _stale_by_past(rule: AnyRule, meaning: Meaning, count: int) -> list[frozenset[tuple[int, int | None]]]:
    """Return for each guard the parts that may assign what made it stale in the runs before this one."""
    already = rule.already if isinstance(rule, Requires) else ()
    if not already:
        return [frozenset()] * count
    return [
        frozenset(part for name in one.reads for part in _assigners(tuple(name.split(".")), meaning)) for one in already
    ]


def _assigners(name: tuple[str, ...], meaning: Meaning) -> Iterable[tuple[int, int | None]]:
    """Return the parts that may assign a variable, an output or an error, whether they succeed or fail.

    What a body assigns becomes undefined between its items, too.
    """
    layout = meaning.flow.layout
    found: list[tuple[int, int | None]]
    if len(name) == 1:
        sources = meaning.names.variables.get(name[0], ())
        found = [(source.step, source.sub) for source in sources if source.step is not None]
    else:
        found = [
            (number, sub)
            for number, step in enumerate(meaning.flow.steps)
            for sub, part in parts(step)
            if isinstance(part, Failing) and part.id == name[0]
        ]
    owners = {owner for number, _ in found for owner in layout.owners_of(number)}
    both = [stage for owner in owners for stage in (layout.bodies[owner].next, layout.bodies[owner].failed)]
    return (*found, *((stage, None) for stage in sorted({stage for stage in both if stage is not None})))
