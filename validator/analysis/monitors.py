"""Monitors of rules for the step graph: the automaton of each guardrail with nondeterminism added.

The automaton, which the machine uses too, defines what a rule remembers and when it is broken. This module adds what
the graph leaves open: whether a part of a step started, and whether it succeeded, given the transition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple, cast

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.product import NOT_KNOWN, CallOutcomes, Monitor, State
from stepward.vm.language.automata import Bound, NeverAutomaton, awaited
from stepward.vm.language.order import order_of
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


def succeeds(hit: Match, transition: Transition) -> tuple[bool, ...]:
    """Return whether a matched part succeeded, given the transition of its step: (True,), (False,), or both."""
    if hit.sub is None:
        return (transition.kind in ("success", "branch"),)
    assert isinstance(hit.part, Call)
    if transition.kind == "visits":
        return (False,)
    certain = transition.kind == "success" and hit.part.on_error != "skip" and hit.part.on_timeout != "fallback"
    return (True,) if certain else (True, False)


def some_succeed(
    hits: list[Match], transition: Transition, whole: BaseStep, call_outcomes: CallOutcomes
) -> tuple[bool, ...]:
    """Return whether some matched part of a step succeeded, given the transition: (True,), (False,), or both."""
    if call_outcomes:
        return (any(call_outcomes.get(hit.sub) == "succeeds" for hit in hits),)
    outcomes = [succeeds(hit, transition) for hit in hits]
    if any(outcome == (True,) for outcome in outcomes):
        return (True,)
    order = order_of(whole) if isinstance(whole, ParallelStep) else None
    if transition.kind == "success" and isinstance(whole, ParallelStep) and order is not None:
        # What a part that is not skipped depends on had an output, or the step had failed.
        required = (sub for sub, part in enumerate(whole.parallel_steps) if part.on_error != "skip")
        needed = frozenset().union(*(order.before[sub] for sub in required))
        if any(hit.sub in needed and _never_falls_back(hit) for hit in hits):
            return (True,)
    candidates = [hit for hit, outcome in zip(hits, outcomes, strict=True) if True in outcome]
    if transition.kind == "failed" and isinstance(whole, ParallelStep):
        # A part that is not skipped has failed. The matched part did not succeed if only itself, or one that it depends
        # on, can be that one.
        failing = {sub for sub, part in enumerate(whole.parallel_steps) if part.on_error != "skip"}
        before = {} if order is None else dict(enumerate(order.before))
        candidates = [
            hit for hit in candidates if hit.sub is None or failing - {hit.sub} - before.get(hit.sub, frozenset())
        ]
    return (True, False) if candidates else (False,)


def some_start(
    hits: list[Match], transition: Transition, call_outcomes: CallOutcomes, analyses: Analyses
) -> tuple[bool, ...]:
    """Return whether some matched part of a step had started, given the transition: (True,), (False,), or both."""
    if call_outcomes:
        return (any(call_outcomes.get(hit.sub) != "unstarted" for hit in hits),)
    if transition.kind == "visits":
        return (False,)
    if isinstance(hits[0].part, ForEachStep | ComputeStep):
        return (transition.kind == "success",)
    if isinstance(hits[0].part, ConditionStep | SetStep | EndStep):
        return (True,)  # also where it can't be evaluated
    if not any(_may_have_begun(hit, transition, analyses) for hit in hits):
        return (False,)
    is_part = any(hit.sub is not None for hit in hits)
    if is_part and not any(_is_reached(hit, transition, analyses) for hit in hits):
        return (True, False)
    is_sure = (transition.kind not in ("failed", "skipped") and not is_part) or analyses.starts_for_certain(
        hits[0].step
    )
    return (True,) if is_sure else (True, False)


def _may_have_begun(hit: Match, transition: Transition, analyses: Analyses) -> bool:
    """Return whether a matched part may have started, given the transition.

    It did not if its step failed, and only parts that it depends on can be what failed the step.
    """
    order = analyses.facts.meaning.orders.get(hit.step)
    if order is None or hit.sub is None or transition.kind not in ("failed", "skipped"):
        return True
    parts = analyses.facts.flow.steps[hit.step].sub_steps
    failing = {sub for sub, part in enumerate(parts) if part.on_error != "skip"}
    return not failing <= order.before[hit.sub]


def _is_reached(hit: Match, transition: Transition, analyses: Analyses) -> bool:
    """Return whether everything that a sub-step depends on certainly had an output, given the transition."""
    order = analyses.facts.meaning.orders.get(hit.step)
    if order is None or hit.sub is None or not order.before[hit.sub]:
        return True
    parts = analyses.facts.flow.steps[hit.step].sub_steps
    return transition.kind == "success" and all(parts[one].on_error != "skip" for one in order.before[hit.sub])


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
        automaton, states = self.automaton, [state]
        if automaton.counts_starts and step in self.starting:
            states = [
                automaton.started(state, which) if which else state
                for which in self._started(step, transition, call_outcomes)
            ]
        if automaton.comes:
            stale = self._stale(step, transition)
            states = [
                automaton.left(one, came, stale)
                for came in self._satisfied(step, transition, call_outcomes)
                for one in states
            ]
        return states if len(states) == 1 else dict.fromkeys(states)

    def _stale(self, step: int, transition: Transition) -> list[int]:
        """Return the guards that a transition makes stale; a step with bodies assigns its names where it ends, too."""
        left = {step} if transition.kind == "item" else {step, self.ending.get(step, step)}
        return [number for number, steps in enumerate(self.stale_by) if left & steps]

    def _started(self, step: int, transition: Transition, call_outcomes: CallOutcomes) -> Iterable[tuple[int, ...]]:
        """Yield the selectors of which a part may have started, given the transition: one combination at a time."""
        may = {
            number: some_start(hits[step], transition, call_outcomes, self.analyses)
            for number, hits in enumerate(self.starts)
            if step in hits
        }
        return _chosen({number: (True,) for number in may if True in may[number]} if self.doubtless else may)

    def may_satisfy(self, step: int, transition: Transition) -> bool:
        """Return whether some guard may be satisfied by a transition out of a step."""
        return any(self._satisfied(step, transition, NOT_KNOWN))

    def _satisfied(self, step: int, transition: Transition, call_outcomes: CallOutcomes) -> Iterable[tuple[int, ...]]:
        """Yield the guards that may have been satisfied, given the transition: one combination at a time."""
        may: dict[int, tuple[bool, ...]] = {}
        for number, hits_of in enumerate(self.comes):
            hits = hits_of.get(step)
            if hits:
                branch = awaited(self.automaton.comes[number], hits[0])
                is_taken = (transition.branch == branch,)
                may[number] = is_taken if branch is not None else self._succeed(step, hits, transition, call_outcomes)
        return _chosen(may)

    def _succeed(
        self, step: int, hits: list[Match], transition: Transition, call_outcomes: CallOutcomes
    ) -> tuple[bool, ...]:
        """Return whether some matched part succeeded; one after which Q has started within the step does not count."""
        whole, order = self.facts.flow.steps[step], self.orders.get(step)
        if order is None or not self.automaton.counts_starts:
            return some_succeed(hits, transition, whole, call_outcomes)
        starting = [one.hit for one in self.starting.get(step, ())]
        may: list[tuple[Match, tuple[bool, ...]]] = []
        for hit in hits:
            behind = [one for one in starting if hit.sub is not None and one.sub in order.after[hit.sub]]
            started = some_start(behind, transition, call_outcomes, self.analyses) if behind else (False,)
            if started != (True,) and not (self.doubtless and True in started):
                may.append((hit, started))
        outcomes = some_succeed([hit for hit, _ in may], transition, whole, call_outcomes) if may else (False,)
        return (True, False) if outcomes == (True,) and not any(started == (False,) for _, started in may) else outcomes

    def end(self, step: int, state: State, transition: Transition) -> str | None:  # noqa: ARG002
        assert transition.ending is not None
        return "missing" if self.automaton.owes(state, *transition.ending) else None


def _chosen(may: Mapping[int, tuple[bool, ...]]) -> Iterable[tuple[int, ...]]:
    """Return all combinations of events, given for each number whether it may happen."""
    return [
        tuple(number for number, one in zip(may, happens, strict=True) if one) for happens in product(*may.values())
    ]


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
