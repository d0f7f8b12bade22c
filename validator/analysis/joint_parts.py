"""The joint outcomes of the sub-steps of a parallel step, as far as one rule observes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, combinations
from typing import Final, NamedTuple

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import CallOutcome, CallOutcomes
from stepward.vm.language.order import Order
from stepward.vm.language.steps import Call, ParallelStep
from stepward.vm.language.steps.catching import DEPENDENCY
from stepward.vm.language.transitions import Transition

MAX_BLOCKED: Final = 1_000
"""The most sets of sub-steps of one step that may not start because others failed. With more of them, joint outcomes
are not listed."""

Events = tuple[tuple[int, ...], tuple[int, ...]]
"""What a rule observes of a step: the indices of its selectors of which a part started, and of its guards of which a
part succeeded."""

Selected = Mapping[int | None, tuple[int, ...]]
"""For each sub-step, by its position, and for the step itself (None), the indices of the selectors that match it."""


class _Joint(NamedTuple):
    """The outcome of some sub-steps together.

    `blocked` are those that can't start, because one that they depend on has no output. `started` are the selectors of
    which a part started. `succeeded` are the satisfied guards, each with the sub-steps whose start undoes that.
    `failure` is the place of the failure that counts, and the transition that it takes, by its index.
    """

    blocked: frozenset[int] = frozenset()
    started: frozenset[int] = frozenset()
    succeeded: frozenset[tuple[int, frozenset[int]]] = frozenset()
    failure: tuple[int, int] | None = None


class JointParts:
    """The joint outcomes of the sub-steps of one step for one rule.

    `starts` and `comes` are the parts that the selectors of the rule match. A success counts only if none of `starts`
    starts behind it. With `is_sure`, every sub-step starts unless one that it depends on has no output.
    """

    def __init__(
        self,
        facts: ProgramFacts,
        number: int,
        starts: Selected,
        comes: Selected,
        *,
        is_sure: bool,
    ) -> None:
        self.facts, self.number = facts, number
        whole = self.facts.flow.steps[number]
        assert isinstance(whole, ParallelStep)
        self.whole, self.starts, self.comes = whole, starts, comes
        self._starting = [sub for sub in starts if sub is not None]
        self.order: Order | None = self.facts.meaning.orders.get(number)
        self.transitions = self.facts.flow.transitions[number]
        self.is_sure = is_sure

    def known(self, outcomes: CallOutcomes) -> Events:
        """Return what the rule observes, given the outcome of the step and of each sub-step."""
        joint = _Joint()
        for sub in self._line():
            joint = self._after(joint, sub, outcomes[sub])
        return self._events(joint, is_success=outcomes[None] == "succeeds")

    def possible(self, transition: Transition) -> Iterable[Events]:
        """Return what the rule may observe if the step is left by this transition."""
        if are_many(self.order):
            return [(started, came) for started in _subsets(self.starts) for came in _subsets(self.comes)]
        return self._possible.get(transition, ())

    @cached_property
    def _possible(self) -> dict[Transition, dict[Events, None]]:
        found: dict[_Joint, None] = {_Joint(): None}
        for sub in self._line():
            found = dict.fromkeys(after for joint in found for after in self._all_after(joint, sub))
        result: dict[Transition, dict[Events, None]] = {}
        for joint in found:
            # As everywhere in proofs, all outputs together are not too large.
            transition = self.transitions[0 if joint.failure is None else joint.failure[1]]
            result.setdefault(transition, {})[self._events(joint, is_success=joint.failure is None)] = None
        return result

    def _line(self) -> Iterable[int]:
        return range(len(self.whole.parallel_steps)) if self.order is None else self.order.line

    def _all_after(self, joint: _Joint, sub: int) -> Iterator[_Joint]:
        """Yield what may be after one more sub-step."""
        part = self.whole.parallel_steps[sub]
        if sub in joint.blocked:
            place = len(self.whole.parallel_steps) + sub  # this failure counts behind all others
            yield self._failed(self._after(joint, sub, "unstarted"), part, place, DEPENDENCY)
            return
        yield self._after(joint, sub, "succeeds")
        if self.facts.falls_back(part):
            yield self._after(joint, sub, "times out")
        failing = self.facts.failing
        for name in failing.groups(self.number, part, failing.started(part)):
            yield self._failed(self._after(joint, sub, "fails"), part, sub, name)
        for name in () if self.is_sure else failing.groups(self.number, part, failing.unstarted(part)):
            yield self._failed(self._after(joint, sub, "unstarted"), part, sub, name)

    def _failed(self, joint: _Joint, part: Call, place: int, name: str) -> _Joint:
        """Return a joint outcome with the failure of one more sub-step, which counts if no earlier one does."""
        if part.on_error == "skip" or (joint.failure is not None and joint.failure[0] < place):
            return joint
        taken = self.facts.flow.failure(self.number, name)
        return joint._replace(failure=(place, self.transitions.index(taken)))

    def _after(self, joint: _Joint, sub: int, outcome: CallOutcome) -> _Joint:
        """Return what the rule observes after one more sub-step with this outcome."""
        blocked, started, succeeded, failure = joint
        if outcome != "unstarted" and sub in self.starts:
            started = started.union(self.starts[sub])
            succeeded = frozenset(one for one in succeeded if sub not in one[1])
        if outcome == "succeeds" and sub in self.comes:
            behind = frozenset[int]() if self.order is None else self.order.after[sub].intersection(self._starting)
            succeeded = succeeded.union((guard, behind) for guard in self.comes[sub])
        return _Joint(_blocked(self.order, blocked, sub, outcome), started, succeeded, failure)

    def _events(self, joint: _Joint, *, is_success: bool) -> Events:
        came = {guard for guard, _ in joint.succeeded}.union(self.comes.get(None, ()) if is_success else ())
        return tuple(sorted(joint.started.union(self.starts.get(None, ())))), tuple(sorted(came))


def _blocked(order: Order | None, blocked: frozenset[int], sub: int, outcome: CallOutcome) -> frozenset[int]:
    """Return the later sub-steps that can't start, after one more sub-step with this outcome."""
    if order is not None and outcome in ("fails", "unstarted"):
        blocked |= order.after[sub]
    return blocked - {sub}


def are_many(order: Order | None) -> bool:
    """Return whether the joint outcomes of sub-steps in this order are too many to be listed."""
    found = {frozenset[int]()}
    for sub in order.line if order is not None else ():
        outcomes: tuple[CallOutcome, ...] = ("succeeds", "fails")
        found = {_blocked(order, one, sub, outcome) for one in found for outcome in outcomes}
        if len(found) > MAX_BLOCKED:
            return True
    return False


def _subsets(selected: Selected) -> Iterator[tuple[int, ...]]:
    """Yield all subsets of the indices of some selectors."""
    indices = sorted(set(chain.from_iterable(selected.values())))
    for size in range(len(indices) + 1):
        yield from combinations(indices, size)
