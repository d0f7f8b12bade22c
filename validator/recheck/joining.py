"""The exits of a parallel step: what becomes of its sub-steps together (specs/language.md, "Parallel" and "Order")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from stepward.validator.recheck.definite import written_by
from stepward.validator.recheck.exits import ALONE, NOTHING, Exit, Outcome, both
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import Changes, Followed, State
from stepward.validator.recheck.orders import in_order, is_ordered, needs
from stepward.validator.recheck.refusals import TooLarge
from stepward.vm.language.steps import AnyCall, Failing, FailingPart, ParallelStep

MAX_EXITS: Final = 50_000
"""The most exits of one step in one state, with all combinations of assigned values."""


class Steps(Protocol):
    """The steps of a program, as far as the exits of a parallel step need them."""

    followed: Followed
    parts: frozenset[tuple[int, int | None]]
    has_costs: bool

    def transitions(self, number: int) -> tuple[Transition, ...]:
        """Return the transitions of a step."""

    def success(self, part: FailingPart) -> Iterator[Changes]:
        """Yield the changes of a part that succeeded."""

    def left_without(self, part: FailingPart) -> Iterator[Changes]:
        """Yield the changes of a part that failed."""

    def call_outcomes(self, number: int, part: AnyCall, state: State) -> Iterator[Outcome]:
        """Yield the possible outcomes of a call."""


class Joined(NamedTuple):
    """The joint outcome of some sub-steps: whether their step fails, the cost of a further round, and the exit."""

    failed: bool
    round: int
    exit: Exit


def joined_exits(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterator[Exit]:
    """Yield every exit of a parallel step in a state."""
    transitions = steps.transitions(number)
    joined = _ordered(steps, number, step, state) if is_ordered(step) else _side_by_side(steps, number, step, state)
    for failed, round_, before in joined:
        ends = steps.left_without(step) if failed else steps.success(step)
        whole = ALONE if not failed else NOTHING
        retries = again(step) * (1 + round_) if failed else 0
        for change in ends:
            changes = tuple(sorted({**dict(before.changes), **dict(change)}.items()))
            for transition in transitions:
                if transition.kind in (("failed", "skipped") if failed else ("success",)):
                    yield Exit(
                        transition, changes, before.started | ALONE, before.succeeded | whole, before.cost + retries
                    )


def _nothing_yet(steps: Steps, number: int) -> Joined:
    return Joined(False, 0, Exit(steps.transitions(number)[0], (), NOTHING, NOTHING, 1))


def _ordered(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterable[Joined]:
    """Return the joint outcomes of sub-steps of which one starts only if all that it needs have an output."""
    found: dict[tuple[Joined, frozenset[int]], None] = {(_nothing_yet(steps, number), frozenset()): None}
    for sub in in_order(step):
        part = step.parallel_steps[sub]
        needed = needs(step, sub)
        results = list(dict.fromkeys(_results(steps, number, sub, part, state)))
        without = list(dict.fromkeys(_unstarted(steps, number, part)))
        after: dict[tuple[Joined, frozenset[int]], None] = {}
        for before, good in found:
            for result, has_output in results if needed <= good else without:
                kept = tuple(one for one in result.exit.changes if one[0] not in _overwritten(steps, step, sub))
                joint = both(before.exit, result.exit._replace(changes=kept))
                one = Joined(before.failed or result.failed, before.round + result.round, joint)
                after[one, good | {sub} if has_output else good] = None
                if len(after) > MAX_EXITS:
                    raise TooLarge(f"`{step.id}` has too many exits to be checked")
        found = after
    return dict.fromkeys(one for one, _ in found)


def _overwritten(steps: Steps, step: ParallelStep, sub: int) -> set[int]:
    """Return the slots of a sub-step that a later one of the list assigns in any case: outputs are bound in order
    of the list."""
    roots = {root for part in step.parallel_steps[sub + 1 :] for root in written_by(part)}
    return {slot for root in roots for slot in steps.followed.under(root)}


def _unstarted(steps: Steps, number: int, part: AnyCall) -> Iterator[tuple[Joined, bool]]:
    """Yield the outcomes of a sub-step that needs something that came to nothing."""
    for change in steps.left_without(part):
        whole = Exit(steps.transitions(number)[0], change, NOTHING, NOTHING, 1)
        yield Joined(part.on_error != "skip", 0, whole), False


def _side_by_side(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterable[Joined]:
    """Return the joint outcomes of sub-steps that all start."""
    joined: dict[Joined, None] = {_nothing_yet(steps, number): None}
    for sub, part in enumerate(step.parallel_steps):
        results = list(dict.fromkeys(result for result, _ in _results(steps, number, sub, part, state)))
        if len(joined) * len(results) > MAX_EXITS:
            raise TooLarge(f"`{step.id}` has too many exits to be checked")
        joined = {
            Joined(
                before.failed or result.failed,
                before.round + result.round,
                both(before.exit, result.exit),
            ): None
            for before in joined
            for result in results
        }
    return joined


def _results(steps: Steps, number: int, sub: int, part: AnyCall, state: State) -> Iterator[tuple[Joined, bool]]:
    """Yield the possible outcomes of a sub-step, each with whether it has an output."""
    here = frozenset({sub}) if (number, sub) in steps.parts else NOTHING
    for kind, changes, is_started, cost in steps.call_outcomes(number, part, state):
        failed = kind == "failed" and part.on_error != "skip"
        round_ = cost if failed and is_started and steps.has_costs else 0
        started, succeeded = here if is_started else NOTHING, here if kind == "success" else NOTHING
        whole = Exit(steps.transitions(number)[0], changes, started, succeeded, cost if steps.has_costs else 1)
        yield Joined(failed, round_, whole), kind != "failed"


def again(step: Failing) -> int:
    """Return the attempts after the first that a step makes before it fails."""
    return step.max_retries - 1 if step.on_error == "retry" else 0
