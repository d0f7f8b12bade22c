"""Monitors of rules for the step graph: the automaton of each guardrail with nondeterminism added.

The automaton, which the machine uses too, defines what a rule remembers and when it is broken. This module adds what
the graph leaves open: whether a part of a step started, and whether it succeeded, given the transition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, cast

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.joint_parts import Events, JointParts, Selected
from stepward.validator.analysis.product import NOT_KNOWN, CallOutcomes, Monitor, State
from stepward.vm.language.automata import Bound, NeverAutomaton, awaited
from stepward.vm.language.selectors import Match, by_step
from stepward.vm.language.steps import (
    BaseStep,
    Call,
    ComputeStep,
    ConditionStep,
    EndStep,
    ForEachStep,
    LlmCall,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
)
from stepward.vm.language.transitions import Transition


def succeeds(transition: Transition) -> bool:
    """Return whether a step succeeded, given its transition."""
    return transition.kind in ("success", "branch")


def starts(part: BaseStep, number: int, transition: Transition, analyses: Analyses) -> tuple[bool, ...]:
    """Return whether a step had started, given its transition: (True,), (False,), or both."""
    if isinstance(part, ForEachStep | ComputeStep):
        return (transition.kind == "success",)
    if isinstance(part, ConditionStep | SetStep | EndStep):
        return (True,)  # also where it can't be evaluated
    is_sure = transition.kind not in ("failed", "skipped") or analyses.starts_for_certain(number)
    return (True,) if is_sure else (True, False)


def without_ineffective_fallbacks(hits: Iterable[Match], analyses: Analyses) -> Iterator[Match]:
    """Yield matches with ineffective fallbacks removed: those of writes that can't be repeated."""
    for hit in hits:
        is_ineffective = (
            isinstance(hit.part, Call) and hit.part.on_timeout == "fallback" and not analyses.facts.falls_back(hit.part)
        )
        yield hit._replace(part=hit.part.replace(on_timeout="fail")) if is_ineffective else hit


def _never_falls_back(hit: Match) -> bool:
    return not isinstance(hit.part, Call) or hit.part.on_timeout != "fallback"


class _Start(NamedTuple):
    """A part whose start matters to a rule, with the numbers of the rule's selectors that match it."""

    hit: Match
    selectors: Sequence[int]


class RuleMonitor(Monitor):
    """The automaton of a rule with nondeterminism: where a step leaves something open, there are several next states.

    `doubtless` restricts paths to certain starts, as in a search for violations.
    """

    def __init__(self, analyses: Analyses, rule: Bound, *, doubtless: bool = False, owner: int | None = None) -> None:
        body = None if owner is None else analyses.facts.flow.layout.bodies[owner]
        stages = () if body is None else (body.next, body.failed)
        self.renewing = frozenset(stage for stage in stages if stage is not None)
        """The stages at which a rule of a body begins anew: each item is a frame of its own."""
        self.facts, self.analyses = analyses.facts, analyses
        self.automaton, self.doubtless, self.stale_by = rule.automaton, doubtless, rule.stale_by
        self.stale_parts, self.orders = rule.stale_parts, analyses.facts.meaning.orders
        self._parts: dict[int, JointParts] = {}
        self.starts = [by_step(hits) for hits in rule.starts]
        self.comes = [by_step(self._at_ends(without_ineffective_fallbacks(hits, analyses))) for hits in rule.comes]
        self.starting = {step: self._starting(step) for hits in self.starts for step in hits}
        asks_ends = self.automaton.counts("SUCCESS", "declared")
        self.asks_ends = asks_ends and owner is None
        self.closing = self.renewing if asks_ends else frozenset()
        self.may_end_anywhere = self.automaton.counts("CANCELLED", "cancelled")
        self.ending = self.facts.body_ends
        stale = frozenset[int]().union(*self.stale_by)
        binding = [stage for stage, owner in self.ending.items() if owner in stale] if stale else []
        self.concerned = self.starting.keys() | self.renewing.union(binding, *self.comes, *self.stale_by)
        self.watched = None if self.may_end_anywhere else self.concerned
        if body is not None and not (self.may_end_anywhere or self.closing):
            self.home = body if all(body.first <= step < body.end for step in self.concerned) else None

    def _at_ends(self, hits: Iterable[Match]) -> Iterator[Match]:
        """Yield matches; a step with bodies succeeds at the stage behind the last of them, not where it starts."""
        for hit in hits:
            body, fork = self.facts.flow.layout.bodies.get(hit.step), self.facts.flow.layout.forks.get(hit.step)
            last = body.next if body is not None else fork.join if fork is not None and hit.sub is None else hit.step
            yield hit._replace(step=last)

    def _starting(self, step: int) -> list[_Start]:
        starts: dict[int | None, _Start] = {}
        for number, hits in enumerate(self.starts):
            for hit in hits.get(step, ()):
                selectors = starts[hit.sub].selectors if hit.sub in starts else ()
                starts[hit.sub] = _Start(hit, (*selectors, number))
        return list(starts.values())

    def _is_performed_again(self, hit: Match) -> bool:
        """Whether retries perform the part again. Attempts of an idempotent tool share one key, and are one
        performance."""
        if isinstance(hit.part, ToolCall) and self.facts.meaning.tool(hit.part.tool).idempotent:
            return False
        if not isinstance(hit.part, Call):
            return False  # a parallel step starts once; its retries repeat only its sub-steps
        if self.facts.failing.most_tries(hit.part) > 1:
            return True
        whole = self.facts.flow.steps[hit.step]
        is_in_rounds = isinstance(whole, ParallelStep) and hit.part.on_error != "skip"
        return is_in_rounds and whole.on_error == "retry" and whole.max_retries > 1  # type: ignore[union-attr]

    def start(self) -> State:
        return cast(State, self.automaton.first)

    def enter(self, step: int, state: State) -> str | None:
        starting = self.starting.get(step, [])
        if isinstance(self.facts.flow.steps[step], Stage):  # it is between items; nothing starts here
            return None
        if self.may_end_anywhere and self.automaton.owes(state, "CANCELLED", "cancelled"):
            # Where Q is next, only an exhausted budget prevents its start.
            return "missing" if not starting or (not self.doubtless and self._may_run_out(step)) else None
        if not starting or self.automaton.is_broken(state):
            return None
        kind = self._objection(state, starting)
        if kind is not None or not self.automaton.counts_starts:
            return kind
        return "retried" if any(self._breaks_again(state, one) for one in starting) else None

    def _breaks_again(self, state: State, start: _Start) -> bool:
        """Whether retries of a part break the rule."""
        return self._objection(state, [start, start]) is not None and self._is_performed_again(start.hit)

    def _objection(self, state: State, starts: Iterable[_Start]) -> str | None:
        """Return why parts must not start in this state one after another, or None."""
        for start in starts:
            kind = self.automaton.objection(self._within(state, start.hit), start.selectors)
            if kind is not None:
                return kind
            state = self.automaton.started(state, start.selectors)
        return None

    def _within(self, state: State, hit: Match) -> State:
        """Return the state at the start of a part: siblings that it depends on come before it.

        A sibling that may have used its fallback does not count as one that succeeded.
        """
        order = self.orders.get(hit.step)
        if order is None or hit.sub is None or not self.automaton.comes:
            return state
        before = order.before[hit.sub]
        succeeded = [
            number
            for number, matches_of in enumerate(self.comes)
            if any(one.sub in before and _never_falls_back(one) for one in matches_of.get(hit.step, ()))
        ]
        stale = [
            number for number, parts in enumerate(self.stale_parts) if any((hit.step, one) in parts for one in before)
        ]
        return cast(State, self.automaton.left(state, succeeded, stale))

    def violating_starts(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        starting = self.starting.get(step, [])
        alone = [one for one in starting if self._objection(state, [one])]
        others = [one for one in starting if one not in alone]
        pairs = [pair for pair in combinations(others, 2) if self._objection(state, pair)]
        # Where two parts can't start together, retries of one may break the rule.
        repeated = [one for one in others if self._breaks_again(state, one)]
        alternatives = [*((one,) for one in alone), *pairs, *((one,) for one in repeated)]
        return [tuple(one.hit.sub for one in starts) for starts in alternatives] or ((),)

    def _may_run_out(self, step: int) -> bool:
        """Whether an exhausted budget may prevent the start of a step.

        The cost of a reply, how long a call takes, and whether a step changes a value, are not known before the run.
        """
        program = self.facts.program
        is_limited = program.max_stalled_steps is not None or program.timeout_seconds is not None
        if is_limited or self.analyses.bounds.may_run_out:
            return True
        calls = self.facts.flow.steps[step].calls
        return bool(program.model_budgets) and any(isinstance(call, LlmCall) for _, call in calls)

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterable[State]:
        if step not in self.concerned:
            return (state,)
        if step in self.renewing:
            return (self.start(),)
        stale = self._stale(step, transition) if self.automaton.comes else ()
        events = self._events(step, transition, call_outcomes)
        return dict.fromkeys(self._after(state, started, came, stale) for started, came in events)

    def _after(self, state: State, started: Sequence[int], came: Sequence[int], stale: Sequence[int]) -> State:
        """Return the state after a step in which some selectors started and some guards were satisfied."""
        if started:
            state = self.automaton.started(state, started)
        return cast(State, self.automaton.left(state, came, stale))

    def _stale(self, step: int, transition: Transition) -> list[int]:
        """Return the guards that a transition makes stale; a step with bodies assigns its names where it ends, too."""
        left = {step} if transition.kind == "item" else {step, self.ending.get(step, step)}
        return [number for number, steps in enumerate(self.stale_by) if left & steps]

    def may_satisfy(self, step: int, transition: Transition) -> bool:
        """Return whether some guard may be satisfied by a transition out of a step."""
        return any(came for _, came in self._events(step, transition, NOT_KNOWN))

    def _events(self, step: int, transition: Transition, call_outcomes: CallOutcomes) -> Iterable[Events]:
        """Return what the rule may observe of a step, given the transition."""
        if transition.kind == "visits":
            return (((), ()),)
        if self.facts.flow.steps[step].sub_steps:
            parts = self._parts_of(step)
            return (parts.known(call_outcomes),) if call_outcomes else parts.possible(transition)
        came = tuple(
            number
            for number, found in enumerate(self.comes)
            if (hits := found.get(step)) and self._satisfies(number, hits[0], transition)
        )
        return [(started, came) for started in self._started(step, transition, call_outcomes)]

    def _satisfies(self, number: int, hit: Match, transition: Transition) -> bool:
        branch = awaited(self.automaton.comes[number], hit)
        return succeeds(transition) if branch is None else transition.branch == branch

    def _started(self, step: int, transition: Transition, call_outcomes: CallOutcomes) -> Iterable[tuple[int, ...]]:
        """Return the selectors of which a step may have started, given the transition: one combination at a time."""
        which = tuple(number for number, hits in enumerate(self.starts) if step in hits)
        if not (which and self.automaton.counts_starts):
            return ((),)
        if call_outcomes:
            may: tuple[bool, ...] = (call_outcomes[None] != "unstarted",)
        else:
            may = starts(self.starts[which[0]][step][0].part, step, transition, self.analyses)
        if self.doubtless and True in may:
            return (which,)
        return [which if has_started else () for has_started in may]

    def _parts_of(self, step: int) -> JointParts:
        parts = self._parts.get(step)
        if parts is None:
            starts = _selected(self.starts, step) if self.automaton.counts_starts else {}
            is_sure = self.doubtless or self.analyses.starts_for_certain(step)
            parts = JointParts(self.facts, step, starts, _selected(self.comes, step), is_sure=is_sure)
            self._parts[step] = parts
        return parts

    def end(self, step: int, state: State, transition: Transition) -> str | None:  # noqa: ARG002
        assert transition.ending is not None
        return "missing" if self.automaton.owes(state, *transition.ending) else None


def _selected(found: Sequence[Mapping[int, list[Match]]], step: int) -> Selected:
    """Return the indices of the selectors that match each part of a step."""
    result: dict[int | None, tuple[int, ...]] = {}
    for number, hits in enumerate(found):
        for hit in hits.get(step, ()):
            result[hit.sub] = (*result.get(hit.sub, ()), number)
    return result


def never(analyses: Analyses, hits: list[Match]) -> RuleMonitor:
    """Return a monitor of parts that must not start at all."""
    return RuleMonitor(analyses, Bound(NeverAutomaton(), (hits,), (), (), ()))


class ArrivalMonitor(Monitor):
    """Reports each arrival of control at a step, whether the step starts or not."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.watched = (step,)

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        return "arrives" if step == self.step else None


class UndefinedMonitor(Monitor):
    """Tracks whether a name is defined, and reports each start of some steps without it."""

    def __init__(self, analyses: Analyses, key: tuple[str, ...], steps: Iterable[int]) -> None:
        self.analyses = analyses
        self.key = key
        self.steps = frozenset(steps)

    def enter(self, step: int, state: State) -> str | None:
        return "undefined" if step in self.steps and state == 0 else None

    def leave(
        self,
        step: int,
        state: State,
        transition: Transition,
        call_outcomes: CallOutcomes = NOT_KNOWN,  # noqa: ARG002
    ) -> Iterable[State]:
        effect = self.analyses.assignment.effect(step, transition)
        if any(name[: len(self.key)] == self.key for name in effect.defined):
            return (1,)
        return (0 if self.key in effect.undefined else state,)
