"""Wait steps: the event that begins a wait, the one that ends it, and the states after them.

The time is in the notes of records, and enters no trace hash. What is over is asked of a clock by whoever drives the
run; a replay reads it.
"""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.errors import EvaluationError
from stepward.vm.journal.canonical import LARGEST, is_sealed
from stepward.vm.language.steps import WaitStep
from stepward.vm.language.steps.wait import LONGEST_WAIT, microseconds, moment
from stepward.vm.machine.calls import place_of
from stepward.vm.machine.data import filled
from stepward.vm.machine.events import RUNNING, SUSPENDED, Action, Event, make_event
from stepward.vm.machine.forks import MisfitError
from stepward.vm.machine.leaving import enter, leave, step_of
from stepward.vm.machine.plan import Plan, StepPlan, successor_fields
from stepward.vm.machine.state import Reader, State, visits_of

FOR: Final = "for"
UNTIL: Final = "due"

# -- what comes next ---------------------------------------------------------------------------------------------------


def enter_wait(plan: Plan, state: State, step: StepPlan, wait: WaitStep, visit: int) -> Event:
    """Return the event that begins a wait; its note has the time FOR which it lasts, or UNTIL when, in microseconds.

    Raises EvaluationError for what is no time to wait.
    """
    value = filled(wait.stated_time, Reader(plan, state.slots))
    if is_sealed(value):
        raise EvaluationError(f"`{wait.field}` is a sensitive value, and the journal would show it")
    read = moment(value) if wait.field == "until" else microseconds(value)
    if read is None:
        want = "a time of RFC 3339, up to the year 2199" if wait.field == "until" else f"a number, 0 to {LONGEST_WAIT}"
        raise EvaluationError(f"`{wait.field}` is not {want}")
    return make_event("waiting", place_of(state, step.id, visit), {UNTIL if wait.field == "until" else FOR: read})


def dated(action: Action, now: int) -> Action:
    """Return an action; a wait that begins gets the times of its start and of its end, in microseconds."""
    if not isinstance(action, Event) or action.kind != "waiting":
        return action
    note = action.note
    due = note[UNTIL] if UNTIL in note else min(now + note[FOR], LARGEST)
    return action._replace(note={"started": now, "due": due})


def wait_over(plan: Plan, local: State, now: int) -> Event:
    """Return the event that ends a wait; `local` is the state as its frame sees it, `now` in microseconds."""
    step = plan.steps[local.at]
    leaving = successor_fields(plan.steps, step.transitions["success"])
    return make_event("waited", {**place_of(local, step.id, visits_of(local, step)), **leaving}, {"time": now})


# -- the states after --------------------------------------------------------------------------------------------------


def waiting(plan: Plan, state: State, event: Event) -> State:
    """Apply the beginning of a wait."""
    step = step_of(plan, state, event.body)
    if not isinstance(step.step, WaitStep) or state.due:
        raise MisfitError(f"`{step.id}` can't begin to wait here")
    state = enter(plan, state, step)
    due: Any = event.note["due"]
    if event.body["visit"] != visits_of(state, step) or type(due) is not int or due < 1:
        raise MisfitError(f"`waiting` of visit {event.body['visit']} of `{step.id}`")
    return state._replace(status=RUNNING if state.is_cancelled else SUSPENDED, due=due)


def waited(plan: Plan, state: State, event: Event) -> State:
    """Apply the end of a wait, which is not before its time."""
    step = step_of(plan, state, event.body)
    if not state.due or event.body["visit"] != visits_of(state, step):
        raise MisfitError(f"`{step.id}` does not wait")
    if event.note["time"] < state.due:
        raise MisfitError(f"`{step.id}` ends its wait before the time")
    state = state._replace(status=RUNNING, due=0)
    return leave(plan, state, step, event, step.transitions["success"], [])
