"""The exits of a parallel step: the joint outcomes of its sub-steps (specs/language.md, "Parallel" and "Order")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from stepward.validator.recheck.assigned_names import written_by
from stepward.validator.recheck.exits import ALONE, NOTHING, Exit, Outcome, both
from stepward.validator.recheck.failures import least_attempts, leaving
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import Changes, Followed, State
from stepward.validator.recheck.orders import in_order, is_ordered, needs
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import TooLarge
from stepward.vm.language.steps import AnyCall, FailingPart, ParallelStep

MAX_EXITS: Final = 50_000
"""The most exits of one step in one state, with all combinations of assigned values."""


class Steps(Protocol):
    """The steps of a program, as far as the exits of a parallel step need them."""

    reading: Reading
    followed: Followed
    parts: frozenset[tuple[int, int | None]]
    has_costs: bool

    def transitions(self, number: int) -> tuple[Transition, ...]:
        """Return the transitions of a step."""

    def success(self, part: FailingPart) -> Iterator[Changes]:
        """Yield the changes of a part that succeeded."""

    def left_without(self, part: FailingPart, name: str) -> Iterator[Changes]:
        """Yield the changes of a part that failed with an error of this name."""

    def call_outcomes(self, number: int, part: AnyCall, state: State) -> Iterator[Outcome]:
        """Yield the possible outcomes of a call."""


class Joined(NamedTuple):
    """The joint outcome of some sub-steps: the failure that their step has, the cost of a further round, and the exit.

    A failure is its place in the order in which failures count, and the name of its error.
    """

    failed: tuple[int, str] | None
    round: int
    exit: Exit


def joined_exits(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterator[Exit]:
    """Yield every exit of a parallel step in a state."""
    transitions = steps.transitions(number)
    joined = _ordered(steps, number, step, state) if is_ordered(step) else _side_by_side(steps, number, step, state)
    for failed, round_, before in joined:
        ends = steps.success(step) if failed is None else steps.left_without(step, failed[1])
        whole = ALONE if failed is None else NOTHING
        rounds = step.max_retries - 1 if step.on_error == "retry" and failed is not None else 0
        cost = before.cost + rounds * (1 + round_)
        transition = transitions[0] if failed is None else leaving(transitions, failed[1])
        assert transition is not None, "each failure has a transition"
        for change in ends:
            changes = tuple(sorted({**dict(before.changes), **dict(change)}.items()))
            yield Exit(transition, changes, before.started | ALONE, before.succeeded | whole, cost)


def _nothing_yet(steps: Steps, number: int) -> Joined:
    return Joined(None, 0, Exit(steps.transitions(number)[0], (), NOTHING, NOTHING, 1))


def _ordered(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterable[Joined]:
    """Return the joint outcomes of sub-steps of which one starts only if all that it needs have an output."""
    reached: dict[tuple[Joined, frozenset[int]], None] = {(_nothing_yet(steps, number), frozenset()): None}
    line = in_order(step)
    for place, sub in enumerate(line):
        part = step.parallel_steps[sub]
        needed = needs(step, sub)
        needed_later = frozenset().union(*(needs(step, later) for later in line[place + 1 :]))
        results = list(dict.fromkeys(_results(steps, number, sub, part, state, sub)))
        # What only lacks an output counts behind every other failure.
        without = list(dict.fromkeys(_unstarted(steps, number, part, len(step.parallel_steps) + sub)))
        after: dict[tuple[Joined, frozenset[int]], None] = {}
        for before, good in reached:
            for result, has_output in results if needed <= good else without:
                changes = tuple(
                    joined for joined in result.exit.changes if joined[0] not in _overwritten(steps, step, sub)
                )
                joint = both(before.exit, result.exit._replace(changes=changes))
                joined = Joined(_first(before.failed, result.failed), before.round + result.round, joint)
                after[joined, (good | {sub} if has_output else good) & needed_later] = None
                if len(after) > MAX_EXITS:
                    raise TooLarge(f"`{step.id}` has too many exits to be checked")
        reached = after
    return dict.fromkeys(joined for joined, _ in reached)


def _overwritten(steps: Steps, step: ParallelStep, sub: int) -> set[int]:
    """Return the slots of a sub-step that a later one of the list assigns in any case: outputs are bound in order
    of the list."""
    roots = {root for part in step.parallel_steps[sub + 1 :] for root in written_by(part)}
    return {slot for root in roots for slot in steps.followed.under(root)}


def _first(left: tuple[int, str] | None, right: tuple[int, str] | None) -> tuple[int, str] | None:
    """Return the failure that counts: the one with the lower place, and the one seen first of the same place."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right, key=lambda failure: failure[0])


def _unstarted(steps: Steps, number: int, part: AnyCall, rank: int) -> Iterator[tuple[Joined, bool]]:
    """Yield the outcomes of a sub-step that does not start, because a sub-step that it needs has no output."""
    for change in steps.left_without(part, "Dependency"):
        whole = Exit(steps.transitions(number)[0], change, NOTHING, NOTHING, 1)
        yield Joined((rank, "Dependency") if part.on_error != "skip" else None, 0, whole), False


def _side_by_side(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterable[Joined]:
    """Return the joint outcomes of sub-steps that all start."""
    joined: dict[Joined, None] = {_nothing_yet(steps, number): None}
    for sub, part in enumerate(step.parallel_steps):
        results = list(dict.fromkeys(result for result, _ in _results(steps, number, sub, part, state, 0)))
        if len(joined) * len(results) > MAX_EXITS:
            raise TooLarge(f"`{step.id}` has too many exits to be checked")
        joined = {
            Joined(
                _first(before.failed, result.failed),
                before.round + result.round,
                both(before.exit, result.exit),
            ): None
            for before in joined
            for result in results
        }
    return joined


def _results(
    steps: Steps, number: int, sub: int, part: AnyCall, state: State, rank: int
) -> Iterator[tuple[Joined, bool]]:
    """Yield the possible outcomes of a sub-step, each with whether it has an output; `rank` is that of its failure."""
    own_part = frozenset({sub}) if (number, sub) in steps.parts else NOTHING
    for kind, changes, is_started, cost, error in steps.call_outcomes(number, part, state):
        failed = (rank, error) if kind == "failed" and part.on_error != "skip" else None
        is_tried_again = failed is not None and is_started and steps.has_costs
        round_ = least_attempts(part, steps.reading.tool) if is_tried_again else 0  # with any error, before
        started, succeeded = own_part if is_started else NOTHING, own_part if kind == "success" else NOTHING
        whole = Exit(steps.transitions(number)[0], changes, started, succeeded, cost if steps.has_costs else 1)
        yield Joined(failed, round_, whole), kind != "failed"
