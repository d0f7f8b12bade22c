"""Monitors of guardrails: what each rule remembers of a run, and when it is broken.

They mean what the language says (specs/language.md, "Guardrails"): P counts when it starts, or for `followed_by` when
it succeeded; G counts when it succeeded or its branch was taken, and a G with a branch goes stale when a variable that
its condition reads is assigned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import NamedTuple

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.assignment import assigned_names, read_roots
from stepward.validator.analysis.product import NOT_TOLD, Fates, State
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    BranchSelector,
    FollowedBy,
    guards,
)
from stepward.vm.language.selectors import Hit, by_step
from stepward.vm.language.steps import BaseStep, Call, ConditionStep, Failing, LlmCall, ParallelStep, ToolCall
from stepward.vm.language.transitions import Transition

NEVER, STALE, FRESH = 0, 1, 2


def succeeds(hit: Hit, way: Transition) -> tuple[bool, ...]:
    """Return whether a matched part succeeded when its step was left this way: (True,), (False,), or both possible."""
    if hit.sub is None:
        return (way.kind in ("success", "branch"),)
    assert isinstance(hit.part, Call)
    if way.kind == "visits":
        return (False,)
    certain = way.kind == "success" and hit.part.on_error != "skip" and hit.part.on_timeout != "fallback"
    return (True,) if certain else (True, False)


def some_succeed(hits: list[Hit], way: Transition, whole: BaseStep, fates: Fates) -> tuple[bool, ...]:
    """Return whether some matched part of a step succeeded when it was left this way: both may be possible."""
    if fates:
        return (any(fates.get(hit.sub) == "succeeds" for hit in hits),)
    outcomes = [succeeds(hit, way) for hit in hits]
    if any(outcome == (True,) for outcome in outcomes):
        return (True,)
    may = [hit for hit, outcome in zip(hits, outcomes, strict=True) if True in outcome]
    if way.kind == "failed" and isinstance(whole, ParallelStep):
        # It failed because a part did that is not skipped. If that can only be the one that is matched, it is that one.
        failing = [sub for sub, part in enumerate(whole.parallel_steps) if part.on_error != "skip"]
        may = [hit for hit in may if failing != [hit.sub]]
    return (True, False) if may else (False,)


def some_start(hits: list[Hit], way: Transition, fates: Fates, analyses: Analyses) -> tuple[bool, ...]:
    """Return whether some matched part of a step had started when it was left this way: both may be possible."""
    if fates:
        return (any(fates.get(hit.sub) != "unstarted" for hit in hits),)
    if way.kind == "visits":
        return (False,)
    is_part = any(hit.sub is not None for hit in hits)
    is_sure = (way.kind not in ("failed", "skipped") and not is_part) or analyses.starts_for_certain(hits[0].step)
    return (True,) if is_sure else (True, False)


def each_alone(hits: Iterable[Hit]) -> Iterable[tuple[int | None, ...]]:
    """Return the matched parts of a step as alternatives: one of them starts."""
    return tuple((hit.sub,) for hit in hits)


def as_it_ends(hits: Iterable[Hit], analyses: Analyses) -> Iterator[Hit]:
    """Yield hits without the fallbacks that are written but never apply: those of writes that can't be repeated."""
    for hit in hits:
        is_idle = (
            isinstance(hit.part, Call) and hit.part.on_timeout == "fallback" and not analyses.facts.falls_back(hit.part)
        )
        yield hit._replace(part=hit.part.replace(on_timeout="fail")) if is_idle else hit


class _Watcher:
    """What all monitors start with: a run may start, and end, in peace."""

    asks_ends = False
    watched: Collection[int] | None = None

    def __init__(self, analyses: Analyses) -> None:
        self.facts, self.analyses = analyses.facts, analyses

    def start(self) -> State:
        return 0

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        return None

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        return ((),)

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:  # noqa: ARG002
        return (state,)

    def end(self, step: int, state: State, way: Transition) -> str | None:  # noqa: ARG002
        return None


class _Left(NamedTuple):
    """How a step was left, and the names that it assigned."""

    step: int
    way: Transition
    fates: Fates
    assigned: set[tuple[str, ...]]


class RequiresMonitor(_Watcher):
    """`protects: P, requires: G`: remembers of every G whether it never came, went stale, or stands."""

    def __init__(
        self, analyses: Analyses, protected: Iterable[Hit], requirement: AnyRequirement, *, fresh: bool
    ) -> None:
        super().__init__(analyses)
        self.protected = by_step(protected)
        self.requirement = requirement
        self.guards = tuple(dict.fromkeys(guards(requirement)))
        self.position = {guard: number for number, guard in enumerate(self.guards)}
        self.hits = [by_step(as_it_ends(analyses.facts.hits(guard), analyses)) for guard in self.guards]
        self.reads = [self._reads(guard) if fresh else frozenset() for guard in self.guards]
        assigners = {step for reads in self.reads for name in reads for step in analyses.assignment.assigners(name)}
        self.watched: Collection[int] = assigners.union(self.protected, *self.hits)

    def _reads(self, guard: AnyGuard) -> frozenset[tuple[str, ...]]:
        """Return the names whose assignment makes a guard stale: those that its condition reads in any case."""
        if not isinstance(guard, BranchSelector) or guard.step not in self.facts.flow.position:
            return frozenset()
        number = self.facts.flow.position[guard.step]
        trees = [clause.tree for clause in self.facts.meaning.clauses_of.get(number, ())]
        return frozenset(read_roots(trees, self.analyses.assignment))

    def start(self) -> State:
        return (NEVER,) * len(self.guards)

    def enter(self, step: int, state: State) -> str | None:
        if step not in self.protected:
            return None
        assert isinstance(state, tuple)
        if self._holds(self.requirement, state, FRESH):
            return None
        return "stale" if self._holds(self.requirement, state, STALE) else "bypassed"

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        return each_alone(self.protected[step])

    def _holds(self, requirement: AnyRequirement, state: tuple[int, ...], least: int) -> bool:
        if isinstance(requirement, AllOf):
            return all(self._holds(part, state, least) for part in requirement.all_of)
        if isinstance(requirement, AnyOf):
            return any(self._holds(part, state, least) for part in requirement.any_of)
        return state[self.position[requirement]] >= least

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:
        assert isinstance(state, tuple)
        if step not in self.watched:
            return (state,)
        left = _Left(step, way, fates, assigned_names(self.facts.program.steps[step]))
        choices = [self._after(guard, number, state[number], left) for number, guard in enumerate(self.guards)]
        return product(*choices)

    def _after(self, guard: AnyGuard, number: int, before: int, left: _Left) -> tuple[int, ...]:
        kept = STALE if before == FRESH and self.reads[number] & left.assigned else before
        hits = self.hits[number].get(left.step)
        if not hits:
            return (kept,)
        if isinstance(guard, BranchSelector):
            condition = hits[0].part
            assert isinstance(condition, ConditionStep)
            return (FRESH,) if left.way.branch == condition.branch_names[guard.branch] else (kept,)
        outcomes = some_succeed(hits, left.way, self.facts.program.steps[left.step], left.fates)
        return tuple(FRESH if outcome else kept for outcome in outcomes)


class NeverMonitor(_Watcher):
    """`never: P`: P must not start at all."""

    def __init__(self, analyses: Analyses, forbidden: Iterable[Hit]) -> None:
        super().__init__(analyses)
        self.watched = self.forbidden = by_step(forbidden)

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        return "forbidden" if step in self.forbidden else None

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        return each_alone(self.forbidden[step])


class ArrivalMonitor(_Watcher):
    """Calls it bad that control gets to a step, whether that starts or not."""

    def __init__(self, analyses: Analyses, step: int) -> None:
        super().__init__(analyses)
        self.step = step
        self.watched = (step,)

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        return "arrives" if step == self.step else None


class AtMostOnceMonitor(_Watcher):
    """`at_most_once: P`: remembers whether P was performed."""

    def __init__(self, analyses: Analyses, hits: Mapping[int, list[Hit]]) -> None:
        super().__init__(analyses)
        self.watched = self.hits = hits

    def enter(self, step: int, state: State) -> str | None:
        hits = self.hits.get(step)
        if not hits:
            return None
        if state != 0 or len(hits) > 1:
            return "repeated"
        return "retried" if self._is_performed_again(hits[0]) else None

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        hits = self.hits[step]
        if state != 0 or len(hits) == 1:
            return each_alone(hits)
        # Where two can't start together, retries of one may break the rule.
        again = each_alone([hit for hit in hits if self._is_performed_again(hit)])
        return [*((one.sub, two.sub) for one, two in combinations(hits, 2)), *again]

    def _is_performed_again(self, hit: Hit) -> bool:
        """Whether retries perform P anew: attempts of an idempotent tool share one key, and are one performance."""
        if isinstance(hit.part, ToolCall) and self.facts.meaning.tool(hit.part.tool).idempotent:
            return False
        if not isinstance(hit.part, Call) or (hit.sub is not None and hit.part.on_error == "skip"):
            return False  # a parallel step is started once: what its retries run again are its sub-steps
        whole = self.facts.program.steps[hit.step]
        retried = [part for part in (hit.part, whole) if isinstance(part, Failing)]
        return any(part.on_error == "retry" and part.max_retries > 1 for part in retried)

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:
        if step not in self.hits:
            return (state,)
        return tuple(1 if started else state for started in some_start(self.hits[step], way, fates, self.analyses))


class ExclusiveMonitor(_Watcher):
    """`exclusive: [P, Q]`: remembers which of the two were performed. What comes after both is broken already."""

    def __init__(self, analyses: Analyses, first: Iterable[Hit], second: Iterable[Hit]) -> None:
        super().__init__(analyses)
        self.sides = (by_step(first), by_step(second))
        self.watched = self.sides[0].keys() | self.sides[1].keys()

    def enter(self, step: int, state: State) -> str | None:
        assert isinstance(state, int)
        here = (step in self.sides[0]) | (step in self.sides[1]) << 1
        return "both" if state != 3 and state | here == 3 else None

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        first, second = (side.get(step, []) for side in self.sides)
        if state != 0:
            return each_alone(second if state == 1 else first)
        return [tuple({one.sub, two.sub}) for one, two in product(first, second)]

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:
        assert isinstance(state, int)
        after = {state}
        for number, side in enumerate(self.sides):
            if step in side:
                started = some_start(side[step], way, fates, self.analyses)
                after = {one | performed << number for one in after for performed in started}
        return sorted(after)


class FollowedByMonitor(_Watcher):
    """`followed_by: {first: P, then: Q}`: remembers whether Q is owed.

    `certain` says that a path counts only when it can't be doubted, as in a search for violations.
    """

    asks_ends = True

    def __init__(
        self, analyses: Analyses, rule: FollowedBy, first: list[Hit], then: Iterable[Hit], *, certain: bool
    ) -> None:
        super().__init__(analyses)
        self.certain = certain
        self.ends = rule.ends
        self.then = by_step(then)
        both = {(hit.step, hit.sub) for hits in self.then.values() for hit in hits}
        self.first = by_step(as_it_ends((hit for hit in first if (hit.step, hit.sub) not in both), analyses))
        self.watched = None if self.ends == "any" else self.first.keys() | self.then.keys()

    def enter(self, step: int, state: State) -> str | None:
        if self.ends != "any" or state == 0:
            return None
        # A run may be cancelled before any step; where Q comes next, only an empty budget keeps it from starting.
        return "missing" if step not in self.then or (not self.certain and self._may_run_out(step)) else None

    def _may_run_out(self, step: int) -> bool:
        """Whether an empty budget may keep a step from starting.

        What a reply costs, and whether a step changes a value, is not known before the run.
        """
        program = self.facts.program
        if program.max_stalled_steps is not None or self.analyses.bounds.may_run_out:
            return True
        calls = program.steps[step].calls
        return program.max_tokens is not None and any(isinstance(call, LlmCall) for _, call in calls)

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:
        started = some_start(self.then[step], way, fates, self.analyses) if step in self.then else (False,)
        if self.certain and True in started:
            started = (True,)
        owed = [0 if has_come else state for has_come in started]
        hits = self.first.get(step, [])
        if not hits:
            return tuple(dict.fromkeys(owed))
        succeeded = some_succeed(hits, way, self.facts.program.steps[step], fates)
        return tuple(dict.fromkeys(1 if success else before for success in succeeded for before in owed))

    def end(self, step: int, state: State, way: Transition) -> str | None:  # noqa: ARG002
        assert way.ending is not None
        counts = self.ends != "success" or way.ending.status == "SUCCESS"
        return "missing" if state != 0 and counts else None


class UndefinedMonitor(_Watcher):
    """Remembers whether a name is defined, and calls it bad when one of the steps starts without it."""

    def __init__(self, analyses: Analyses, key: tuple[str, ...], steps: Iterable[int]) -> None:
        super().__init__(analyses)
        self.key = key
        self.steps = frozenset(steps)

    def enter(self, step: int, state: State) -> str | None:
        return "undefined" if step in self.steps and state == 0 else None

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:  # noqa: ARG002
        effect = self.analyses.assignment.effect(step, way)
        if any(name[: len(self.key)] == self.key for name in effect.given):
            return (1,)
        return (0 if self.key in effect.gone else state,)
