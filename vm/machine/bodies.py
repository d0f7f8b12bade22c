"""Bodies: the events of a for_each step and of its items, and the states after them.

While a body is performed, the state is that of the body, and `frames` has what it will go on with outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from stepward.vm.errors import EvaluationError
from stepward.vm.journal.canonical import ErasedError, Sealed, Secret, opened
from stepward.vm.journal.records import NO_DIGEST, TRACE_TAG
from stepward.vm.language.steps import Failing, ForEachStep, InvokeStep
from stepward.vm.language.steps.catching import BAD_ARGUMENTS, BAD_VALUE, TOO_MANY_ITEMS
from stepward.vm.language.transitions import Ending
from stepward.vm.machine.calls import (
    after,
    ended,
    guardrail_rejection,
    item_started,
    name_of,
    named,
    out_of_steps,
    place_of,
)
from stepward.vm.machine.data import completed, computed, filled
from stepward.vm.machine.events import Event, make_event, unsealed
from stepward.vm.machine.plan import NOWHERE, BodyPlan, Plan, StepPlan
from stepward.vm.machine.sizes import may_be_oversize, oversize
from stepward.vm.machine.slots import UNDEFINED, empty, get, put
from stepward.vm.machine.state import Branch, Each, Failure, Fork, Frame, Reader, State
from stepward.vm.values import FrozenMap

# -- what comes next ---------------------------------------------------------------------------------------------------


def enter_each(plan: Plan, state: State, step: StepPlan, visit: int) -> Event:
    """Return the event with which a for_each step starts, or of its failure before that."""
    assert isinstance(step.step, ForEachStep)
    body = plan.bodies[step.position]
    try:
        reader = Reader(plan, state.slots)
        items = step.step.items if isinstance(step.step, InvokeStep) else _items(filled(step.step.items, reader))
        carry = {name: value if tree is None else computed(tree, reader) for name, value, tree in body.start_values}
    except (EvaluationError, ErasedError) as error:
        return _unstarted(plan, state, step, visit, str(error), name_of(error))
    if isinstance(step.step, InvokeStep):
        carried, wrong = completed(carry, step.step.declared)
        if wrong is not None:
            return _unstarted(plan, state, step, visit, wrong, BAD_ARGUMENTS)
        carry = {body.inside[name]: value for name, value in carried.items()}
    if items is None:
        return _unstarted(plan, state, step, visit, "`items` is no list", BAD_VALUE)
    if len(items) > body.max_items:
        why = f"there are {len(items)} items, and {body.max_items} are the limit"
        return _unstarted(plan, state, step, visit, why, TOO_MANY_ITEMS)
    fields = {**place_of(state, step.id, visit), "carry": FrozenMap(carry), "items": items}
    event = unsealed("opened", fields) if plan.has_sensitive else make_event("opened", fields)
    too_large = oversize(plan, state, step, carry) if may_be_oversize(state, event) else None
    if too_large is not None:
        return _unstarted(plan, state, step, visit, too_large, BAD_VALUE)
    if step.part in plan.watch.guarded:
        blocked = plan.watch.objection(state.monitors, step.part, Reader(plan, state.slots, UNDEFINED))
        if blocked is not None:
            return guardrail_rejection(plan, state, visit, (step.id, *blocked))
    return event


def _items(value: Any) -> tuple[Any, ...] | None:
    """Return the items of a list, or None for any other value; those of a sensitive list are sensitive."""
    if isinstance(value, Sealed | Secret):
        whole = opened(value)
        return tuple(map(Secret, whole)) if isinstance(whole, tuple) else None
    return value if isinstance(value, tuple) else None


def _unstarted(plan: Plan, state: State, step: StepPlan, visit: int, why: str, name: str) -> Event:
    """Return the event of a for_each step that fails before its first item; `name` is that of the error."""
    kind = kind_of_failure(step)
    fields = {"error": f"`{step.id}` can't start: {why}", "kind": kind, **place_of(state, step.id, visit)}
    return make_event("blocked", fields | named(plan, name) | after(plan, step, kind, name))


def kind_of_failure(step: StepPlan) -> str:
    """Return what a failed step comes to: `on_error: skip` makes it one that is skipped."""
    assert isinstance(step.step, Failing)
    return "skipped" if step.step.on_error == "skip" else "failed"


def between_items(plan: Plan, state: State, each: Each) -> Event:
    """Return the event that comes next between the items of a for_each step: an item, or the end of the step."""
    body, step = plan.bodies[each.at], plan.steps[each.at]
    if each.failed is None and each.item < len(each.items):
        name = (*state.frame, (step.id, each.visit, each.round, each.item))
        return item_started(step, each.visit, name)
    fields, failed = place_of(state, step.id, each.visit), each.failed
    if failed is None:
        output = output_of(body, each)  # None is as short as can be
        too_large = None if output is None else oversize(plan, state, step, output, state.limits.state_bytes)
        if too_large is not None:
            why = "" if state.is_once_sized else f"`{step.id}` can't end: {too_large}"
            return ended(plan, state, "FAILED", "error", why)
        return make_event("joined", fields | {"kind": "success", **plan.steps[body.next].exit_fields})
    return failed_items(plan, state, step, fields, each.round, failed)


def failed_items(
    plan: Plan, state: State, step: StepPlan, fields: dict[str, Any], attempt: int, failure: Failure
) -> Event:
    """Return the event with which an attempt of a for_each step ends of which an item has failed.

    `fields` are the fields that name the step, `attempt` numbers the attempts, and `failure` is the error of the item.
    """
    body = plan.bodies[step.position]
    fields = fields | {"error": failure.error, **named(plan, failure.name)}
    if attempt < body.attempts:
        if out_of_steps(plan, state, 1):
            return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
        return make_event("joined", fields | {"kind": "again"})
    kind = kind_of_failure(step)
    return make_event("joined", fields | {"kind": kind, **after(plan, plan.steps[body.failed], kind, failure.name)})


# -- the states after --------------------------------------------------------------------------------------------------


def each_started(plan: Plan, state: State, step: StepPlan, event: Event, trace: bytes) -> State:
    """Return the state in which a for_each step has started, before its first item."""
    body, fields, slots = plan.bodies[step.position], event.body, state.slots
    before = tuple([(slot, get(slots, slot)) for slot in body.carried.values()])
    first = tuple([(slot, fields["carry"][name]) for name, slot in body.carried.items()])
    items = fields["items"]
    visits, size = get(slots, step.visits)
    each, fork, at = None, None, state.at
    if body.is_beside:
        fork = Fork(step.position, visits + 1, (Branch(),) * len(items), items, stops=body.stops)
    else:
        room = empty(len(items))
        each = Each(step.position, visits + 1, 1, items, 0, before, first, first, room, room)
        at = body.next
    return state._replace(
        at=at,
        each=each,
        fork=fork,
        slots=put(slots, [*(first if fork is None else ()), (step.visits, (visits + 1, size))]),
        steps=state.steps + step.cost,
        monitors=plan.watch.performed(state.monitors, step.part),
        trace=trace,
    )


def begin_item(plan: Plan, state: State, each: Each, frame: tuple[Any, ...], trace: bytes) -> State:
    """Return the state at the first step of an item; `trace` is the trace hash of its frame."""
    body = plan.bodies[each.at]
    changes: list[tuple[int, Any]] = []
    if body.item != NOWHERE:
        changes.append((body.item, each.items[each.item]))
    if body.index != NOWHERE:
        changes.append((body.index, each.item))
    return state._replace(
        at=body.first,
        slots=put(state.slots, changes) if changes else state.slots,
        each=None,
        frames=(*state.frames, Frame(each, state.idle, state.trace, frame)),
        idle=0,
        trace=trace,
        monitors=plan.watch.begun(state.monitors, body.owner),
    )


def end_item(plan: Plan, state: State, ending: Ending, output: Any, failure: Failure, trace: bytes) -> State:
    """Return the state after an item whose body ended in this way; `trace` is the trace hash of its frame.

    `failure` is the error of a body that failed.
    """
    frame = state.frames[-1]
    each = frame.each
    body = plan.bodies[each.at]
    if body.is_branch or body.is_beside:
        return _end_branch(plan, state, ending, output, failure, trace)
    broken = plan.watch.complaints_of(state.monitors, body.owner, *ending)
    at, visit, turn, items, item, before, first, carried, outputs, errors, failed, members = each
    members = _with_member(members, trace)
    if ending.status == "SUCCESS":
        value = get(state.slots, body.result) if body.result != NOWHERE else output
        outputs = put(outputs, [(item, value)])
        carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
    each = Each(at, visit, turn, items, item + 1, before, first, carried, outputs, errors, failed, members)
    rest = before if body.is_once else carried  # the inputs of a called program are gone with it
    return state._replace(
        at=body.next,
        calls=None,
        slots=put(state.slots, [*body.blank, *rest]),
        size=state.size - _size_in(state, body),
        each=each,
        frames=state.frames[:-1],
        idle=frame.idle,
        trace=frame.trace,
        monitors=plan.watch.begun(state.monitors, body.owner),
        broken=(*state.broken, *broken),
    )


def _end_branch(plan: Plan, state: State, ending: Ending, output: Any, failure: Failure, trace: bytes) -> State:
    """Return the state of a branch that has ended, or of an item that ran beside others: what it came to."""
    frame = state.frames[-1]
    body = plan.bodies[frame.each.at]
    output = get(state.slots, body.result) if body.result != NOWHERE else output
    broken = plan.watch.complaints_of(state.monitors, body.owner, *ending)
    has_failed = ending.status != "SUCCESS"
    result = Branch(None, True, UNDEFINED if has_failed else output, failure if has_failed else None, trace)
    return state._replace(
        at=body.next,
        calls=None,
        frames=state.frames[:-1],
        trace=trace,
        monitors=plan.watch.begun(state.monitors, body.owner),
        broken=(*state.broken, *broken),
        result=result,
    )


def again(state: State, each: Each, trace: bytes) -> State:
    """Return the state before the first item of another attempt of a for_each step; `trace` is its trace hash."""
    room = empty(len(each.items))
    each = each._replace(
        round=each.round + 1, item=0, carried=each.first, outputs=room, errors=room, failed=None, trace=NO_DIGEST
    )
    slots = put(state.slots, each.first) if each.first else state.slots
    return state._replace(each=each, slots=slots, steps=state.steps + 1, trace=trace)


def outputs_of(each: Each) -> tuple[Any, ...]:
    """Return the output of a for_each step: that of each item, None for an item without one."""
    found = (get(each.outputs, number) for number in range(len(each.items)))
    return tuple(None if value is UNDEFINED else value for value in found)


def output_of(body: BodyPlan, each: Each) -> Any:
    """Return the output of a step with a body: those of all items, or that of the program that was called."""
    if not body.is_once:
        return outputs_of(each)
    value = get(each.outputs, 0)
    return None if value is UNDEFINED else value


def errors_of(each: Each) -> tuple[Any, ...]:
    """Return the errors of the items that failed."""
    found = ((number, get(each.errors, number)) for number in range(each.item))
    return listed((number, failure) for number, failure in found if failure is not UNDEFINED)


def listed(failures: Iterable[tuple[int, Failure]]) -> tuple[Any, ...]:
    """Return the errors of items as a value: an object for each that failed."""
    return tuple(
        FrozenMap({"error": failure.error, "error_name": failure.name, "index": number}) for number, failure in failures
    )


def _size_in(state: State, body: BodyPlan) -> int:
    return sum([get(state.slots, slot)[1] for slot in body.counts])


# -- trace hashes ------------------------------------------------------------------------------------------------------


def _with_member(members: bytes, trace: bytes) -> bytes:
    """Return the digest of the frames of a step after one more of them."""
    return sha256(TRACE_TAG + members + trace).digest()


def joined_trace(trace: bytes, each: Each) -> bytes:
    """Return the trace hash outside of a body after the frames of a for_each step."""
    return sha256(TRACE_TAG + trace + each.trace).digest()


def trace_of_branches(plan: Plan, state: State) -> bytes:
    """Return the trace hash of a state with that of its branches, in the order of their names, whatever came first.

    Those of items are in the order of the items.
    """
    fork = state.fork
    assert fork is not None
    members = NO_DIGEST
    for number in _in_written_order(plan, fork):
        branch = fork.branches[number]
        trace = branch.trace if branch.state is None else folded_trace(plan, branch.state, len(state.frames) + 1)
        members = _with_member(members, trace)
    return sha256(TRACE_TAG + state.trace + members).digest()


def _in_written_order(plan: Plan, fork: Fork) -> Iterable[int]:
    return range(len(fork.branches)) if fork.items is not None else plan.forks[fork.at].written


def memories_of(plan: Plan, state: State) -> tuple[Any, ...]:
    """Return the memories of rules of a state with branches, as if these had ended."""
    fork = state.fork
    if fork is None:
        return state.monitors
    forked = plan.watch.forked(state.monitors, ())
    ends = [
        one.monitors if one.is_done else forked if one.state is None else memories_of(plan, one.state)
        for one in fork.branches
    ]
    before = (frozenset(),) * len(ends) if fork.items is not None else plan.forks[fork.at].before
    return plan.watch.joined(state.monitors, ends, before)


def folded_trace(plan: Plan, state: State, least: int = 0) -> bytes:
    """Return the trace hash of a state with that of all open frames, from the inside out; `least` frames stay."""
    trace = state.trace if state.each is None else joined_trace(state.trace, state.each)
    if state.fork is not None:
        trace = trace_of_branches(plan, state)
    for frame in reversed(state.frames[least:]):
        each = frame.each._replace(trace=_with_member(frame.each.trace, trace))
        trace = joined_trace(frame.trace, each)
    return trace
