"""Applies events to states: the one fold that runs, recovery and replay share."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from stepward.vm.journal.records import NO_DIGEST, TRACE_TAG
from stepward.vm.language.transitions import Transition
from stepward.vm.machine.branches import forked, started_or_joined
from stepward.vm.machine.calls import outputs_of
from stepward.vm.machine.events import IN_DOUBT, RUNNING, SUSPENDED, UNFINISHED, Event
from stepward.vm.machine.forks import MisfitError, after_branch, number_at, seen_by, within
from stepward.vm.machine.items import closed, item, joined_items, opened
from stepward.vm.machine.leaving import close, count_visit, end, enter, failure_changes, leave, step_of
from stepward.vm.machine.ordering import is_due, output_changes, waits
from stepward.vm.machine.plan import NOWHERE, CallPlan, Plan, StepPlan, policy_digest
from stepward.vm.machine.sizes import left_size, recorded_size
from stepward.vm.machine.slots import UNDEFINED, put
from stepward.vm.machine.state import AWAITED, FRESH, OPEN, READY, SETTLED, CallState, Limits, State, visits_of
from stepward.vm.machine.traces import traced
from stepward.vm.machine.waits import waited, waiting
from stepward.vm.values import FrozenMap, arithmetic


def apply(plan: Plan, state: State, event: Event) -> State:
    """Return the state after an event; raises MisfitError if it can't happen in `state`."""
    kind, body, _, _ = event
    status = state.status
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise MisfitError(f"there is no event `{kind}`")
    if status != RUNNING and status not in UNFINISHED and kind not in ("refused", "erased"):
        raise MisfitError(f"`{kind}` after the run ended")
    if "step" in body:
        if state.fork is not None:
            return _in_branches(plan, state, event)
        around = state.frames[-1].name if state.frames else ()
        if body.get("frame", ()) != around and kind != "item":
            raise MisfitError(f"`{kind}` of `{body['step']}` in another frame than the one that goes on")
    return handler(plan, state, event)


def _in_branches(plan: Plan, state: State, event: Event) -> State:
    """Apply an event of a step whose branches run, or of something in one of them."""
    kind, body, _, _ = event
    if "ends" in body and kind != "joined":  # it ends the run
        _HANDLERS[kind](plan, within(plan, state, body.get("frame", ())), event)
        return end(plan, state, event)
    number = number_at(state, event)
    if number is None:
        return started_or_joined(plan, state, event)
    return after_branch(plan, state, number, apply(plan, seen_by(plan, state, number), event))


# -- the run as a whole ------------------------------------------------------------------------------------------------


def _started(plan: Plan, state: State, event: Event) -> State:
    if event.body["program"] != plan.digest or tuple(event.body["policies"]) != plan.policy_digests:
        raise MisfitError("the run is of another program or policy")
    inputs, note = event.body["inputs"], event.note
    changes = [(plan.stored(name), value) for name, value in inputs.items()]
    return state.changed(
        {
            "slots": put(state.slots, changes) if changes else state.slots,
            "monitors": plan.watch.first,
            "limits": Limits(*note["limits"]),
            "by": str(note.get("by", "")),
            "caller": _caller(event),
            "ends_by": note.get("due", 0),
            "trace": traced(state.trace, event),
        }
    )


def _caller(started: Event) -> str:
    """Return the caller that may not settle calls of the run, or an empty text; raises MisfitError for an odd one."""
    envelope = started.note.get("envelope")
    if envelope is None:
        return ""
    try:
        caller, settles_own = envelope["caller"], envelope["settles_own"]
    except (TypeError, KeyError):
        raise MisfitError("its envelope names no caller") from None
    return "" if settles_own is True else str(caller)


def _governed(plan: Plan, state: State, event: Event) -> State:
    number = state.governed + 1
    if number >= len(plan.terms):
        raise MisfitError("the run came under policies that are not known")
    terms = plan.terms[number]
    recorded = tuple(event.body["policies"]), frozenset(event.body["waived"])
    if recorded != (tuple(map(policy_digest, terms.policies)), terms.waived):
        raise MisfitError("the run came under other policies")
    return state._replace(governed=number, trace=traced(state.trace, event))


def _moved(plan: Plan, state: State, event: Event) -> State:
    step = step_of(plan, state, event.body)
    if state.status != SUSPENDED or event.body["visit"] != visits_of(state, step):
        raise MisfitError("the run moves to another version while it does not wait there")
    return state._replace(moved=str(event.body["program"]), trace=traced(state.trace, event))


def _ended(plan: Plan, state: State, event: Event) -> State:
    body = event.body
    if "step" not in body:
        return end(plan, state, event)
    state = enter(plan, state, step_of(plan, state, body))
    return end(plan, state._replace(output=body["output"]), event)


def _cancel(plan: Plan, state: State, event: Event) -> State:  # noqa: ARG001
    # RUNNING, because the process that cancels may die before the run has ended, and recovery looks for RUNNING.
    return state._replace(is_cancelled=True, status=RUNNING)


def _refused(plan: Plan, state: State, event: Event) -> State:  # noqa: ARG001
    return state._replace(refusals=state.refusals + 1)


def _erased(plan: Plan, state: State, event: Event) -> State:  # noqa: ARG001
    if not state.is_over:
        raise MisfitError("values were erased in a run that had not ended")
    return state._replace(is_erased=True)


# -- steps that are done in one event ----------------------------------------------------------------------------------


def _branched(plan: Plan, state: State, event: Event) -> State:
    step = step_of(plan, state, event.body)
    branch = event.body["branch"]
    transition = step.transitions.get("uncovered") if branch is None else step.branches.get(branch)
    if transition is None:
        raise MisfitError(f"`{step.id}` has no branch `{branch}`")
    state = _performed(plan, state, step)
    return leave(plan, state, step, event, transition, [], entered=1)


def _assigned(plan: Plan, state: State, event: Event) -> State:
    step = step_of(plan, state, event.body)
    state = _performed(plan, state, step)
    if step.is_computed:
        if list(event.body["values"]) != [step.computes]:
            raise MisfitError(f"`{step.id}` computes other names")
        (value,) = event.body["values"].values()
        changes = output_changes(step, value)
    else:
        changes = [(plan.stored(name), value) for name, value in event.body["values"].items()]
        if {slot for slot, _ in changes} != step.assigned:
            raise MisfitError(f"`{step.id}` assigns other names")
    return leave(plan, state, step, event, step.succeeds, changes, size=left_size(state, event, "values"), entered=1)


def _performed(plan: Plan, state: State, step: StepPlan) -> State:
    """Return the state after a step has started, as far as rules ask about it."""
    if step.part not in plan.watch.guarded:
        return state
    return state._replace(monitors=plan.watch.performed(state.monitors, step.part))


def _passed(plan: Plan, state: State, event: Event) -> State:
    step = step_of(plan, state, event.body)
    if step.max_visits is None or visits_of(state, step) < step.max_visits:
        raise MisfitError(f"`{step.id}` has visits left")
    state = count_visit(state, step)
    is_last = visits_of(state, step) > step.max_visits + 1
    error, name = event.body["error"], event.body.get("error_name", "")
    changes = _failed(plan, step, error, name)
    for call in step.calls if step.is_parallel else ():
        changes += failure_changes(call, error, name)
    transition = step.stalls if is_last and step.stalls else step.transitions["visits"]
    return leave(plan, state, step, event, transition, changes)


def _failed(plan: Plan, step: StepPlan, error: str, name: str) -> list[tuple[int, Any]]:
    """Return the changes of a step that failed; one with a body loses what the items have left, too."""
    body = plan.bodies.get(step.position)
    of_items = () if body is None else (body.errors, *body.carried.values())
    return failure_changes(step, error, name) + [(slot, UNDEFINED) for slot in of_items if slot != NOWHERE]


# -- calls -------------------------------------------------------------------------------------------------------------


def _begin(plan: Plan, state: State, event: Event) -> tuple[State, StepPlan, int, CallState]:
    """Return the state in which the step has begun, the step, and the call of the event: its index and its state."""
    step, body, calls = plan.steps[state.at], event.body, state.calls
    sub = step.subs.get(body["step"])
    if sub is None:
        raise MisfitError(f"`{event.kind}` of `{body['step']}` while `{step.id}` is performed")
    if calls is None:
        monitors = plan.watch.performed(state.monitors, step.part) if step.is_parallel else state.monitors
        calls = (FRESH,) * len(step.calls)
        changes = {"steps": state.steps + step.cost, "calls": calls, "round": 1, "monitors": monitors}
        state = count_visit(state, step, changes)
    if body["visit"] != visits_of(state, step):
        raise MisfitError(f"`{event.kind}` of visit {body['visit']} of `{body['step']}`")
    return state, step, sub, calls[sub]


def _count_attempt(
    plan: Plan, state: State, step: StepPlan, sub: int, call_state: CallState, event: Event
) -> tuple[State, dict[str, Any]]:
    """Charge a new attempt, and mark a new performance; return the state, and the changes of the call's state."""
    attempt, performance = event.note["attempt"], event.note["performance"]
    if call_state.phase not in (READY, OPEN) or not call_state.attempt <= attempt <= call_state.attempt + 1:
        raise MisfitError(f"attempt {attempt} of `{step.calls[sub].id}` does not follow attempt {call_state.attempt}")
    if step.order is not None and state.calls is not None and not is_due(step, sub, state.calls):
        raise MisfitError(f"`{step.calls[sub].id}` starts before what it depends on has an output")
    if attempt > call_state.attempt > 0:
        state = state._replace(steps=state.steps + 1)
    if performance > call_state.performance:
        part = (step.position, sub if step.is_parallel else None)
        if part in plan.watch.guarded:
            state = state._replace(monitors=plan.watch.performed(state.monitors, part))
    return state, {"attempt": attempt, "performance": performance, "repeats": False}


def _intent(plan: Plan, state: State, event: Event) -> State:
    state, step, sub, call_state = _begin(plan, state, event)
    state, counted = _count_attempt(plan, state, step, sub, call_state, event)
    opened = call_state.changed({"phase": OPEN, "token": event.note.get("token", ""), **counted})
    return _with_call(state, step, sub, opened)


def _attempt(plan: Plan, state: State, event: Event) -> State:
    step = plan.steps[state.at]
    if event.body["kind"] == "success" and not step.is_parallel and step.calls:
        if state.calls is None:
            return _succeed_at_once(plan, state, step, event)
        if _is_outcome(state, step, event):
            return _succeed(plan, state, step, event)
    state, step, sub, call_state = _begin(plan, state, event)
    state, counted = _count_attempt(plan, state, step, sub, call_state, event)
    call = step.calls[sub]
    if call.has_intent and call_state.phase != OPEN and not _was_uncounted(plan, state, call):
        raise MisfitError(f"`{call.id}` has an outcome without an intent")
    kind, note = event.body["kind"], event.note
    if "tokens" in note:
        state = _charged(state, note)
    call_state = call_state._replace(
        **counted,
        phase=READY if kind == "again" else kind,
        value=event.body.get("request" if kind == "suspended" else "output"),
        error=event.body.get("error", ""),
        token=note.get("token", call_state.token),
        is_unknown=bool(event.body.get("unknown")),
        name=event.body.get("error_name", ""),
        due=note.get("due", 0),
    )
    return _settle(plan, state, step, sub, call_state, event)


def _was_uncounted(plan: Plan, state: State, call: CallPlan) -> bool:
    """Return whether a call needed no intent yet: the rule that counts its starts may be one of later terms."""
    return call.is_counted and state.governed + 1 < len(plan.terms)


def _succeed(plan: Plan, state: State, step: StepPlan, event: Event, entered: int = 0) -> State:
    """Leave a step whose only call has succeeded."""
    changes, size = output_changes(step.calls[0], event.body["output"]), left_size(state, event, "output")
    return leave(plan, state, step, event, step.succeeds, changes, size=size, entered=entered)


def _is_outcome(state: State, step: StepPlan, event: Event) -> bool:
    """Return whether an event is the outcome of the attempt whose intent is open, with nothing else to count."""
    assert state.calls is not None
    call_state, body, note = state.calls[0], event.body, event.note
    if body["step"] != step.calls[0].id or body["visit"] != visits_of(state, step) or call_state.phase != OPEN:
        return False
    is_same = note["attempt"] == call_state.attempt and note["performance"] == call_state.performance
    return is_same and "tokens" not in note


def _charged(state: State, note: Any) -> State:
    cost = arithmetic("+", state.cost, Decimal(note.get("cost", 0)))
    return state._replace(tokens=state.tokens + note["tokens"], cost=cost)


def _succeed_at_once(plan: Plan, state: State, step: StepPlan, event: Event) -> State:
    """Apply the success of a step's first attempt, which needed no intent: a short cut for the common case."""
    call, body = step.calls[0], event.body
    lacks_intent = call.has_intent and not _was_uncounted(plan, state, call)
    if body["step"] != call.id or lacks_intent or body["visit"] != visits_of(state, step) + 1:
        raise MisfitError(f"`{event.kind}` of `{body['step']}` while `{step.id}` is to be performed")
    state = _performed(plan, state, step)
    if call.is_model and "tokens" in event.note:
        state = _charged(state, event.note)
    return _succeed(plan, state, step, event, 1)


def _settle(plan: Plan, state: State, step: StepPlan, sub: int, call_state: CallState, event: Event) -> State:
    """Store the outcome of a call; the only call of a step ends the step, too."""
    if not step.is_parallel and call_state.phase in SETTLED:
        call = step.calls[0]
        is_bound = call_state.phase in ("success", "fallback")
        name = call_state.name
        changes = output_changes(call, call_state.value) if is_bound else failure_changes(call, call_state.error, name)
        transition = _transition_of(step, call_state.phase, name)
        size = left_size(state, event, "output") if is_bound else 0
        return leave(plan, state, step, event, transition, changes, size=size)
    if call_state.phase in SETTLED or "rule" in event.body:
        if step.is_parallel:
            call_state = call_state._replace(trace=traced(call_state.trace, event))
        else:
            state = state._replace(trace=traced(state.trace, event))
    if event.body.get("ends"):
        return end(plan, state, event)
    return _with_call(state, step, sub, call_state)


def _with_call(state: State, step: StepPlan, sub: int, call_state: CallState) -> State:
    assert state.calls is not None
    calls: tuple[CallState, ...] = (call_state,)
    phases = {call_state.phase}
    if step.is_parallel:
        calls = (*state.calls[:sub], call_state, *state.calls[sub + 1 :])
        phases = {one.phase for number, one in enumerate(calls) if step.order is None or not waits(step, number, calls)}
    status = RUNNING
    if not phases & {READY, OPEN} and not state.is_cancelled:
        status = IN_DOUBT if "doubt" in phases else SUSPENDED if AWAITED in phases else RUNNING
    return state.changed({"calls": calls, "status": status})


def _doubt(plan: Plan, state: State, event: Event) -> State:
    state, step, sub, call_state = _begin(plan, state, event)
    if call_state.phase != OPEN:
        raise MisfitError(f"`{step.calls[sub].id}` has no open intent")
    return _with_call(state, step, sub, call_state._replace(phase="doubt", error=event.body["error"]))


def _resumed(plan: Plan, state: State, event: Event) -> State:
    return _settled_from_outside(plan, state, event, AWAITED)


def _expired(plan: Plan, state: State, event: Event) -> State:
    state, step, sub, call_state = _begin(plan, state, event)
    if call_state.phase != AWAITED or not call_state.due:
        raise MisfitError(f"`{step.calls[sub].id}` has no deadline")
    if event.note["time"] < call_state.due:
        raise MisfitError(f"the deadline of `{step.calls[sub].id}` passes before its time")
    body = event.body
    call_state = call_state._replace(
        phase=READY if body["kind"] == "again" else body["kind"],
        value=None,
        error=body["error"],
        token="",
        is_unknown=bool(body.get("unknown")),
        name=body.get("error_name", ""),
        due=event.note.get("due", 0),
    )
    return _settle(plan, state._replace(status=RUNNING), step, sub, call_state, event)


def _reconciled(plan: Plan, state: State, event: Event) -> State:
    verdict = event.note["verdict"]
    if verdict == "done":
        return _settled_from_outside(plan, state, event, "doubt")
    state, step, sub, call_state = _begin(plan, state, event)
    if call_state.phase != "doubt":
        raise MisfitError(f"`{step.calls[sub].id}` is not in doubt")
    if verdict == "abandon":
        return end(plan, state, event)
    return _with_call(state, step, sub, call_state._replace(phase=READY, repeats=True))


def _settled_from_outside(plan: Plan, state: State, event: Event, phase: str) -> State:
    state, step, sub, call_state = _begin(plan, state, event)
    if call_state.phase != phase:
        raise MisfitError(f"`{step.calls[sub].id}` is not held")
    call_state = call_state._replace(phase="success", value=event.body["output"], error="", token="", name="", due=0)
    return _settle(plan, state._replace(status=RUNNING), step, sub, call_state, event)


def _unstarted(plan: Plan, state: State, event: Event) -> State:
    """Apply `blocked` or `rejected`: a step or call did not start."""
    step = plan.steps[state.at]
    if event.body.get("reason") == "guardrail":
        return end(plan, state, event)
    if step.is_computed or step.position in plan.bodies:
        step, name = step_of(plan, state, event.body), event.body.get("error_name", "")
        changes = _failed(plan, step, event.body["error"], name)
        return leave(plan, state, step, event, _transition_of(step, event.body["kind"], name), changes, entered=1)
    if not step.calls:
        state = enter(plan, state, step)
        return close(plan, state, step, event, step.transitions["failed"]) if state.frames else end(plan, state, event)
    state, step, sub, call_state = _begin(plan, state, event)
    call_state = call_state._replace(
        phase=event.body["kind"], error=event.body["error"], name=event.body.get("error_name", "")
    )
    return _settle(plan, state, step, sub, call_state, event)


# -- leaving -----------------------------------------------------------------------------------------------------------


def _opened(plan: Plan, state: State, event: Event) -> State:
    return (forked if plan.steps[state.at].is_fork else opened)(plan, state, event)


def _joined(plan: Plan, state: State, event: Event) -> State:
    if state.each is not None:
        return joined_items(plan, state, event)
    step = step_of(plan, state, event.body)
    calls = state.calls
    if calls is None or not step.is_parallel or not all(call.phase in SETTLED for call in calls):
        raise MisfitError(f"`{step.id}` is joined before its sub-steps are done")
    kind = event.body["kind"]
    digest = sha256(TRACE_TAG + state.trace + b"".join(call.trace for call in calls)).digest()
    state = state._replace(trace=digest)
    if kind == "again":
        again = tuple(
            call._replace(phase=READY, base=call.attempt, trace=NO_DIGEST, due=0) if call.phase == "failed" else call
            for call in calls
        )
        return state._replace(calls=again, round=state.round + 1, steps=state.steps + 1)
    changes: list[tuple[int, Any]] = []
    output = FrozenMap(outputs_of(step, calls))
    for call, call_state in zip(step.calls, calls, strict=True):
        if call_state.phase in ("success", "fallback"):
            changes += output_changes(call, call_state.value)
        else:
            changes += failure_changes(call, call_state.error, call_state.name)
    changes += (
        output_changes(step, output)
        if kind == "success"
        else failure_changes(step, event.body.get("error", ""), event.body.get("error_name", ""))
    )
    transition = _transition_of(step, kind, event.body.get("error_name", ""))
    return leave(plan, state, step, event, transition, changes, size=recorded_size(output))


def _transition_of(step: StepPlan, kind: str, name: str) -> Transition:
    transition = step.leaving(kind, name)
    if transition is None:
        raise MisfitError(f"`{step.id}` can't end as {kind}")
    return transition


_HANDLERS: Final[dict[str, Callable[[Plan, State, Event], State]]] = {
    "started": _started,
    "governed": _governed,
    "moved": _moved,
    "intent": _intent,
    "attempt": _attempt,
    "doubt": _doubt,
    "reconciled": _reconciled,
    "resumed": _resumed,
    "joined": _joined,
    "opened": _opened,
    "item": item,
    "closed": closed,
    "waiting": waiting,
    "waited": waited,
    "expired": _expired,
    "branched": _branched,
    "assigned": _assigned,
    "passed": _passed,
    "blocked": _unstarted,
    "rejected": _unstarted,
    "ended": _ended,
    "cancel": _cancel,
    "refused": _refused,
    "erased": _erased,
}
