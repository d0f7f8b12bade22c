"""Branches that run at once: the state of a run as one of its branches sees it, and the state of the run after it.
Items of a for_each step that run at once are branches, too, which are all alike.

While branches run, the state of the run is that of the step with the branches, which waits. Each branch has a state of
its own. What belongs to the run as a whole, such as its budgets, is kept in the state of the run. The size of the
state is not: what siblings have left by now depends on timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import packed
from stepward.vm.machine.events import IN_DOUBT, RUNNING, SUSPENDED, Event
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import OUTER_PARTS, OWN_PARTS, READY, Branch, Fork, State, owner_of


class MisfitError(StepwardError):
    """An event can't happen in this state: its journal was not written by the machine for this program."""


def seen_by(plan: Plan, state: State, number: int) -> State:
    """Return the state of a branch that has started, with what belongs to the run as a whole."""
    fork = state.fork
    assert fork is not None
    own = fork.branches[number].state
    assert own is not None, "the branch has started and not ended"
    view: State = packed(State, own[:OWN_PARTS] + state[OWN_PARTS:])
    if own.monitors is state.monitors:
        return view
    return view._replace(monitors=plan.watch.shared(own.monitors, state.monitors, owner_of(plan, fork, number)))


def unpaid_attempts(state: State) -> int:
    """Return how many attempts are to come for which the budget has not paid: those of calls that are tried again."""
    if state.fork is None:
        return sum([call.phase == READY and call.attempt > 0 for call in state.calls or ()])
    return sum(
        [
            unpaid_attempts(own)
            for number in state.fork.running
            if (own := state.fork.branches[number].state) is not None
        ]
    )


def after_branch(plan: Plan, state: State, number: int, own: State) -> State:
    """Return the state of a run after an event in one of its branches; `own` is that of the branch."""
    fork = state.fork
    assert fork is not None
    result, monitors = own.result, own.monitors
    if monitors is not state.monitors:
        monitors = plan.watch.shared(state.monitors, monitors, owner_of(plan, fork, number))
    if result is None:
        fork = fork.changed(number, Branch(own))
        status = RUNNING if own.status == RUNNING else _status(plan, fork, own)
    else:
        fork = fork.changed(number, Branch(*result[:-1], own.monitors))
        status = _status(plan, fork, own)
    changed = (fork, status, monitors)
    return packed(State, state[:OUTER_PARTS] + changed + own[OWN_PARTS:])


def _status(plan: Plan, fork: Fork, own: State) -> str:
    """Return the status of a run with branches, of which `own` has changed last: it runs as long as something in it can
    go on."""
    found = {one.status for number in fork.running if (one := fork.branches[number].state) is not None}
    if own.is_cancelled or RUNNING in found or not found or any(may_start(plan, fork)):
        return RUNNING
    return IN_DOUBT if IN_DOUBT in found else SUSPENDED


def number_of(plan: Plan, fork: Fork, name: str | int) -> int | None:
    """Return the number of the branch or item of this name, or None."""
    if fork.items is not None:
        return name if type(name) is int and 0 <= name < len(fork.branches) else None
    return plan.numbers.get((fork.at, name)) if type(name) is str else None


def may_start(plan: Plan, fork: Fork) -> Sequence[int]:
    """Return the branches that may start now, in their order: all that they depend on have succeeded.

    Items start in their order, while fewer than `max_concurrency` go on; one that waits for somebody goes on, too.
    After one has failed, none starts, unless the step skips those that fail.
    """
    if fork.begun == len(fork.branches):
        return ()
    if fork.items is not None:
        if len(fork.running) < plan.bodies[fork.at].most_beside and not fork.has_stopped:
            return (fork.begun,)
        return ()
    needs, branches = plan.forks[fork.at].needs, fork.branches
    waiting = [number for number, one in enumerate(branches) if one.state is None and not one.is_done]
    if not any(needs):
        return waiting
    is_good = [branch.is_done and branch.failure is None for branch in branches]
    return [number for number in waiting if all(is_good[one] for one in needs[number])]


def branch_of(plan: Plan, state: State, frame: FrameName) -> int | None:
    """Return the branch to which a frame leads, None for the frame of the state itself; raises MisfitError for others.

    The branch need not have started; `Fork.names` has those that go on.
    """
    fork, outer = state.fork, state.frame
    if fork is None or frame == outer:
        return None
    depth = len(outer)
    if len(frame) > depth and frame[:depth] == outer:
        step, visit, turn, name = frame[depth]
        if visit == fork.visit and turn == fork.round and step == plan.steps[fork.at].id:
            found = number_of(plan, fork, name)
            if found is not None:
                return found
    raise MisfitError(f"an event is in the frame {frame}, which is not open")


def number_at(state: State, event: Event) -> int | None:
    """Return the branch of a state in which an event happens; None for one that starts, and where none runs."""
    frame, depth = event.body.get("frame", ()), len(state.frames) + 1
    if state.fork is None or (event.kind == "item" and len(frame) == depth):
        return None
    return state.fork.names.get(frame[:depth])


def within(plan: Plan, state: State, frame: FrameName) -> State:
    """Return the state as a frame sees it; raises MisfitError if that is not open."""
    while state.fork is not None and frame != state.frame:
        number = state.fork.names.get(frame[: len(state.frames) + 1])
        if number is None:
            raise MisfitError(f"an event is in the frame {frame}, which is not open")
        state = seen_by(plan, state, number)
    return state


def leaves(plan: Plan, state: State) -> Iterator[State]:
    """Yield the state as each of the innermost branches sees it; the state itself where none runs."""
    if state.fork is None or state.is_over:
        yield state
        return
    for number in state.fork.running:
        yield from leaves(plan, seen_by(plan, state, number))


def seen_at(plan: Plan, state: State, event: Event) -> State:
    """Return the state as an event sees it: in the frame where it happened, or around it where that starts with it."""
    if state.fork is None or "step" not in event.body:
        return state
    frame = tuple(map(tuple, event.body.get("frame", ())))
    return within(plan, state, frame[:-1] if event.kind == "item" else frame)
