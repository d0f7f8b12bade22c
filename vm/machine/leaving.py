"""How events enter, leave and end steps, bodies and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepward.vm.journal.store import packed
from stepward.vm.language.steps.catching import DECLARED, UNCOVERED
from stepward.vm.language.transitions import Transition
from stepward.vm.language.types import same
from stepward.vm.machine.bodies import end_item, folded_trace, memories_of
from stepward.vm.machine.events import NOTHING, Event
from stepward.vm.machine.forks import MisfitError
from stepward.vm.machine.monitors import LeftStep
from stepward.vm.machine.plan import NOWHERE, CallPlan, Plan, StepPlan
from stepward.vm.machine.slots import UNDEFINED, get, put
from stepward.vm.machine.state import OWN_PARTS, STAYING, Failure, State
from stepward.vm.machine.traces import traced


def failure_changes(step: StepPlan | CallPlan, error: str, name: str) -> list[tuple[int, Any]]:
    """Return the changes of a step or call that failed: no output, and its error with its name."""
    slots = ((step.output, UNDEFINED), (step.variable, UNDEFINED), (step.error, error), (step.error_name, name))
    return [(slot, value) for slot, value in slots if slot != NOWHERE]


def enter(plan: Plan, state: State, step: StepPlan) -> State:
    """Count the visit of a step, charge the step, and mark it as performed."""
    monitors = plan.watch.performed(state.monitors, step.part)
    return count_visit(state, step, {"steps": state.steps + step.cost, "monitors": monitors})


def count_visit(state: State, step: StepPlan, changes: Mapping[str, Any] = NOTHING) -> State:
    """Count one more visit of a step, with other changes of the state."""
    slots = state.slots
    visits, size = get(slots, step.visits)
    return state.changed({**changes, "slots": put(slots, ((step.visits, (visits + 1, size)),))})


def step_of(plan: Plan, state: State, body: Any) -> StepPlan:
    """Return the step where control is; raises MisfitError if an event names another one."""
    step = plan.steps[state.at]
    if body["step"] != step.id:
        raise MisfitError(f"`{body['step']}` is performed where `{step.id}` is to be")
    return step


def leave(
    plan: Plan,
    state: State,
    step: StepPlan,
    event: Event,
    transition: Transition,
    changes: list[tuple[int, Any]],
    *,
    size: int = 0,
    entered: int = 0,
) -> State:
    """Leave a step: bind what it assigned and inform the monitors. The event has to name the same successor.

    `changes` are those of slots, and `size` is that of the output. `entered` is 1 for a step that one event enters and
    leaves, so that its visit and cost are still to be counted.
    """
    body, slots, to, ending = event.body, state.slots, transition.to, transition.ending
    visits, before = get(slots, step.visits)
    idle = state.idle
    if plan.max_stalled is not None:
        idle = idle + 1 if all(_is_same(get(slots, slot), value) for slot, value in changes) else 0
    changes.append((step.visits, (visits + entered, size)))
    slots, steps, size = put(slots, changes), state.steps + entered, state.size + size - before
    monitors = state.monitors
    if step.position in plan.watch.notified:
        monitors = plan.watch.left(monitors, _left(state, step, transition))
    if to >= 0 and ending is not None:
        after = {"slots": slots, "steps": steps, "size": size, "monitors": monitors}
        return close(plan, state.changed(after), step, event, transition)
    if to >= 0:
        status, reason, at = state.status, state.reason, to
        if body.get("next") != plan.steps[to].id:
            raise MisfitError(f"control goes from `{step.id}` to `{plan.steps[to].id}`, not to `{body.get('next')}`")
    else:
        assert ending is not None
        (status, reason), at = ending, state.at
        if body.get("ends") != status or body.get("reason") != reason:
            raise MisfitError(f"the run ends {status} after `{step.id}`")
    trace = traced(state.trace, event)
    # As `changed`, of which most steps would change ten parts; nothing is left while branches run.
    changed = (reason, at, slots, None, idle, size, trace, None, status, monitors, steps)
    left: State = packed(State, state[:STAYING] + changed + state[OWN_PARTS + 1 :])
    return left._replace(error=body["error"]) if "ends" in body and "error" in body else left


def _left(state: State, step: StepPlan, transition: Transition) -> LeftStep:
    """Return how a step was left, with the sub-steps that succeeded, and those that started behind each of them."""
    calls = state.calls or () if step.is_parallel else ()
    succeeded = [step.part] if transition.kind in ("success", "branch") else []
    parts = [(step.position, sub) for sub, call in enumerate(calls) if call.phase == "success"]
    started = frozenset(sub for sub, call in enumerate(calls) if call.performance)
    followers = () if step.order is None else tuple(after & started for after in step.order.after)
    return LeftStep(step.position, transition.branch, (*succeeded, *parts), followers)


def _is_same(before: Any, after: Any) -> bool:
    return before is after or (before is not UNDEFINED and after is not UNDEFINED and same(before, after))


def end(plan: Plan, state: State, event: Event) -> State:
    """End the run; open frames are folded into its trace hash."""
    body = event.body
    is_inside = state.frames or state.each is not None or state.fork is not None
    trace = folded_trace(plan, state) if is_inside else state.trace
    if state.fork is not None:
        state = state._replace(monitors=memories_of(plan, state))
    return state._replace(
        status=body["ends"],
        reason=body["reason"],
        calls=None,
        due=0,
        trace=traced(trace, event),
        error=body.get("error", state.error),
    )


_ENDED: Final = {
    "declared": ("`{}` ended it with a failure", DECLARED),
    "uncovered": ("no branch of `{}` applies", UNCOVERED),
}
"""The errors of bodies that end for reasons without an error of a step, with their names."""


_NO_FAILURE: Final = Failure("", "")


def close(
    plan: Plan, state: State, step: StepPlan, event: Event, transition: Transition, output: Any = UNDEFINED
) -> State:
    """End the body that a transition leaves. The event has to say the same ending."""
    body, ending = event.body, transition.ending
    assert ending is not None
    if body.get("closes") != ending.status or body.get("reason") != ending.reason:
        raise MisfitError(f"the body ends {ending.status} after `{step.id}`")
    failure = _NO_FAILURE if ending.status == "SUCCESS" else _failure(step, body, ending.reason)
    owner = state.frames[-1].each.at
    state = end_item(plan, state, ending, output, failure, traced(state.trace, event))
    return noticed(plan, state, plan.bodies[owner].next)


def _failure(step: StepPlan, body: Mapping[str, Any], reason: str) -> Failure:
    if reason in _ENDED:
        why, name = _ENDED[reason]
        return Failure(why.format(step.id), name)
    return Failure(str(body.get("error", "")), str(body.get("error_name", "")))


def noticed(plan: Plan, state: State, position: int) -> State:
    """Inform the monitors that a step, or a stage of one, has assigned its variables."""
    if position not in plan.watch.notified:
        return state
    return state._replace(monitors=plan.watch.left(state.monitors, LeftStep(position, None, ())))
