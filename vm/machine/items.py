"""Applies the events of steps with bodies: their start, their items, and their end."""

from __future__ import annotations

from stepward.vm.journal.records import NO_DIGEST
from stepward.vm.machine.bodies import again, begin_item, each_started, errors_of, joined_trace, output_of
from stepward.vm.machine.events import Event
from stepward.vm.machine.forks import MisfitError
from stepward.vm.machine.keys import shown
from stepward.vm.machine.leaving import close, enter, failure_changes, leave, noticed, step_of
from stepward.vm.machine.ordering import output_changes
from stepward.vm.machine.plan import NOWHERE, Plan
from stepward.vm.machine.sizes import recorded_size
from stepward.vm.machine.slots import UNDEFINED, get, put
from stepward.vm.machine.state import Each, State
from stepward.vm.machine.traces import traced


def closed(plan: Plan, state: State, event: Event) -> State:
    """Apply the end of the body of an item."""
    step = step_of(plan, state, event.body)
    if not state.frames:
        raise MisfitError(f"`{step.id}` ends no body")
    state = enter(plan, state, step)
    return close(plan, state, step, event, step.transitions["end"], event.body["output"])


def opened(plan: Plan, state: State, event: Event) -> State:
    """Apply the start of a step with items."""
    step = step_of(plan, state, event.body)
    if step.position not in plan.bodies:
        raise MisfitError(f"`{step.id}` has no items")
    return noticed(plan, each_started(plan, state, step, event, traced(state.trace, event)), step.position)


def item(plan: Plan, state: State, event: Event) -> State:
    """Apply the start of an item."""
    each, recorded = _each(plan, state, event), event.body["frame"]
    name = (*state.frame, (plan.steps[each.at].id, each.visit, each.round, each.item))
    if recorded != name or each.item >= len(each.items) or each.failed is not None:
        raise MisfitError(f"`{shown(recorded, '')}` starts where another item is to")
    state = begin_item(plan, state, each, name, traced(NO_DIGEST, event))
    return noticed(plan, state, plan.bodies[each.at].next)


def _each(plan: Plan, state: State, event: Event) -> Each:
    each = state.each
    if each is None or event.body["step"] != plan.steps[each.at].id or event.body["visit"] != each.visit:
        raise MisfitError(f"`{event.kind}` of `{event.body['step']}`, which has no items now")
    return each


def joined_items(plan: Plan, state: State, event: Event) -> State:
    """Apply the end of a for_each step, or of an attempt of it."""
    each, kind = _each(plan, state, event), event.body["kind"]
    body, step = plan.bodies[each.at], plan.steps[each.at]
    is_done = each.failed is not None or each.item == len(each.items)
    if not is_done or (kind == "success") is not (each.failed is None):
        raise MisfitError(f"`{step.id}` can't end as {kind} here")
    trace = joined_trace(state.trace, each)
    if kind == "again":
        if each.round >= body.attempts:
            raise MisfitError(f"`{step.id}` has no attempts left")
        return noticed(plan, again(state, each, trace), step.position)
    name = event.body.get("error_name", "")
    transition = plan.steps[body.next if kind == "success" else body.failed].leaving(kind, name)
    if transition is None:
        raise MisfitError(f"`{step.id}` can't end as {kind}")
    errors = [(body.errors, errors_of(each))] if body.errors != NOWHERE else []
    slots = state.slots if body.is_once else put(state.slots, each.before)
    state = state._replace(each=None, at=step.position, slots=slots, trace=trace)
    if kind == "success":
        output = output_of(body, each)
        value = UNDEFINED if body.is_once and get(each.outputs, 0) is UNDEFINED else output
        carried = each.before if body.is_once else each.carried
        changes = [*output_changes(step, value), *carried, *errors]
        size = recorded_size(output)
    else:
        cleared = [(slot, UNDEFINED) for slot, _ in each.before]
        changes, size = [*failure_changes(step, event.body["error"], name), *cleared, *errors], 0
    return leave(plan, state, step, event, transition, changes, size=size)
