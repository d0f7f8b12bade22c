"""Branches: the events of a parallel step with branches, and the states after them."""

from __future__ import annotations

from typing import Any

from stepward.vm.journal.records import NO_DIGEST
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps.catching import DEPENDENCY
from stepward.vm.machine.bodies import failed_items, kind_of_failure, listed, memories_of, trace_of_branches
from stepward.vm.machine.calls import after, ended, item_started, named, place_of
from stepward.vm.machine.events import Event, make_event
from stepward.vm.machine.forks import MisfitError, branch_of, may_start
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.leaving import enter, failure_changes, leave, noticed, step_of
from stepward.vm.machine.ordering import output_changes
from stepward.vm.machine.plan import NOWHERE, Plan, StepPlan
from stepward.vm.machine.sizes import oversize, recorded_size
from stepward.vm.machine.slots import UNDEFINED, get, put
from stepward.vm.machine.state import Branch, Each, Failure, Fork, Frame, State, owner_of
from stepward.vm.machine.traces import traced
from stepward.vm.values import FrozenMap

# -- what comes next ---------------------------------------------------------------------------------------------------


def enter_branches(state: State, step: StepPlan, visit: int) -> Event:
    """Return the event with which a parallel step with branches starts."""
    return make_event("opened", place_of(state, step.id, visit))


def branch_started(plan: Plan, state: State, number: int) -> Event:
    """Return the event with which a branch starts."""
    fork = _fork(state)
    step = plan.steps[fork.at]
    return item_started(step, fork.visit, _name(plan, state, number))


def _fork(state: State) -> Fork:
    assert state.fork is not None
    return state.fork


def _name(plan: Plan, state: State, number: int) -> FrameName:
    fork = _fork(state)
    name = plan.steps[owner_of(plan, fork, number)].id if fork.items is None else number
    return (*state.frame, (plan.steps[fork.at].id, fork.visit, fork.round, name))


def failures_of(plan: Plan, state: State) -> list[tuple[str, Failure]]:
    """Return the branches that have failed, by name, or that are not started because of that; raises MisfitError for
    one that goes on."""
    fork = _fork(state)
    layout = plan.forks[fork.at]
    found, going = _failed(plan, fork)
    if going is not None:
        raise MisfitError(f"`{plan.steps[layout.branches[going]].id}` goes on")
    return [(plan.steps[layout.branches[number]].id, found[number]) for number in layout.written if number in found]


def _failed(plan: Plan, fork: Fork) -> tuple[dict[int, Failure], int | None]:
    """Return the branches that have failed, or can't start because of that, up to the first one that goes on."""
    if fork.has_succeeded:
        return {}, None
    layout = plan.forks[fork.at]
    found: dict[int, Failure] = {}
    for number, branch in enumerate(fork.branches):  # in the order of the layout, which has what comes before first
        lacking = next((one for one in sorted(layout.needs[number]) if one in found), None)
        if lacking is not None:
            name, earlier = (plan.steps[layout.branches[one]].id for one in (number, lacking))
            found[number] = Failure(f"`{name}` can't start: it depends on `{earlier}`, which has failed", DEPENDENCY)
        elif not branch.is_done:
            return found, number
        elif branch.failure is not None:
            found[number] = branch.failure
    return found, None


def is_joined(plan: Plan, state: State) -> bool:
    """Return whether all branches have ended, those aside that can't start."""
    fork = _fork(state)
    if fork.running:
        return False
    if fork.items is not None:
        return fork.begun == len(fork.branches) or fork.has_stopped
    return _failed(plan, fork)[1] is None


def join(plan: Plan, state: State) -> Event:
    """Return the event that ends a step whose branches have ended.

    What they leave together is held to the limit of the state only here, whether or not one has failed: until then each
    branch is held to it by itself, because which sibling leaves something first depends on timing.
    """
    fork = _fork(state)
    step, last = plan.steps[fork.at], plan.steps[_join_of(plan, fork)]
    fields = place_of(state, step.id, fork.visit)
    if fork.has_stopped:
        # The first failure in the order of the list, whichever item failed first in time.
        failure = next(branch.failure for branch in fork.branches if branch.failure is not None)
        return failed_items(plan, state, step, fields, fork.round, failure)
    failures = failures_of(plan, state) if fork.items is None else []  # items that fail are skipped
    output = _output(plan, state)
    too_large = oversize(plan, state, step, output, state.limits.state_bytes) if output else None
    if too_large is not None:
        return ended(plan, state, "FAILED", "error", f"`{step.id}` can't end: {too_large}")
    if not failures:
        return make_event("joined", fields | {"kind": "success", **last.exit_fields})
    own = [one for one in failures if one[1].name != DEPENDENCY] or failures
    fields |= {"error": "; ".join(f"`{name}`: {failure.error}" for name, failure in own[:3])}
    fields |= named(plan, own[0][1].name)
    kind = kind_of_failure(step)
    name = str(fields.get("error_name", ""))
    return make_event("joined", fields | {"kind": kind, **after(plan, last, kind, name)})


def _join_of(plan: Plan, fork: Fork) -> int:
    """Return the position of the stage behind what runs at once."""
    return plan.bodies[fork.at].next if fork.items is not None else plan.forks[fork.at].join


def _output(plan: Plan, state: State) -> Any:
    """Return the output of the step: that of each branch by its name, or of each item, None for one without."""
    fork = _fork(state)
    if fork.items is None:
        return FrozenMap(_outputs(plan, state))
    return tuple(None if one.output is UNDEFINED else one.output for one in fork.branches)


def _outputs(plan: Plan, state: State) -> dict[str, object]:
    fork = _fork(state)
    positions = plan.forks[fork.at].branches
    pairs = zip(positions, fork.branches, strict=True)
    return {own_name(plan.steps[at].id): branch.output for at, branch in pairs if branch.output is not UNDEFINED}


# -- the states after --------------------------------------------------------------------------------------------------


def forked(plan: Plan, state: State, event: Event) -> State:
    """Apply the start of a step with branches."""
    step = step_of(plan, state, event.body)
    state = enter(plan, state, step)
    visit = get(state.slots, step.visits)[0]
    if event.body["visit"] != visit:
        raise MisfitError(f"`opened` of visit {event.body['visit']} of `{step.id}`")
    positions = plan.forks[step.position].branches
    for position in positions:  # their outputs count as assigned here, before a branch that depends on one reads it
        state = noticed(plan, state, position)
    branches = (Branch(),) * len(positions)
    return state._replace(fork=Fork(step.position, visit, branches), trace=traced(state.trace, event))


def started_or_joined(plan: Plan, state: State, event: Event) -> State:
    """Apply the start of a branch, or the join of all of them."""
    kind, body, _, _ = event
    frame = body.get("frame", ())
    number = branch_of(plan, state, frame)
    if number is None:
        if kind != "joined":
            raise MisfitError(f"`{kind}` of `{body['step']}` while its branches run")
        return _joined_branches(plan, state, event)
    if kind != "item" or len(frame) != len(state.frames) + 1:
        raise MisfitError(f"`{kind}` of `{body['step']}` in a branch that does not run")
    return _branch_started(plan, state, number, event)


def _branch_started(plan: Plan, state: State, number: int, event: Event) -> State:
    """Apply the start of a branch, or of an item that runs beside others."""
    frame, fork = event.body["frame"], _fork(state)
    if number not in may_start(plan, fork):
        raise MisfitError("a branch starts that can't start now")
    position = owner_of(plan, fork, number)
    body = plan.bodies[position]
    changes, earlier, size = [*body.blank], [], 0
    for one in sorted(plan.forks[fork.at].before[number]) if fork.items is None else ():
        branch = fork.branches[one]
        changes += output_changes(plan.steps[owner_of(plan, fork, one)], branch.output)
        earlier.append(branch.monitors)
        size += _size(branch.output)
    if fork.items is not None:
        changes += [(body.item, fork.items[number])]
        changes += [] if body.index == NOWHERE else [(body.index, number)]
    memories = plan.watch.forked(state.monitors, earlier)
    own = state._replace(
        at=body.first,
        slots=put(state.slots, changes),
        calls=None,
        idle=0,
        size=state.size + size,
        frames=(*state.frames, Frame(Each(position, fork.visit, fork.round), state.idle, state.trace, frame)),
        trace=traced(NO_DIGEST, event),
        monitors=plan.watch.begun(memories, position),
        fork=None,
        result=None,
    )
    if fork.items is not None:
        own = noticed(plan, own, body.next)
    state = state._replace(fork=fork.changed(number, Branch(own)))
    if own.monitors is state.monitors:
        return state
    return state._replace(monitors=plan.watch.shared(state.monitors, own.monitors, position))


def _size(output: object) -> int:
    return 0 if output is UNDEFINED else recorded_size(output)


def _joined_branches(plan: Plan, state: State, event: Event) -> State:
    """Apply the end of a step with branches."""
    fork, kind = _fork(state), event.body["kind"]
    step = plan.steps[fork.at]
    if event.body["step"] != step.id or event.body["visit"] != fork.visit:
        raise MisfitError(f"`joined` of `{event.body['step']}` where `{step.id}` is joined")
    if fork.items is not None:
        return _joined_items(plan, state, event)
    layout = plan.forks[fork.at]
    failures = dict(failures_of(plan, state))
    if kind == "success" and failures:
        raise MisfitError(f"`{step.id}` can't end as {kind} here")
    name = event.body.get("error_name", "")
    transition = plan.steps[layout.join].leaving(kind, name)
    if transition is None:
        raise MisfitError(f"`{step.id}` can't end as {kind}")
    changes: list[tuple[int, object]] = []
    for position, branch in zip(layout.branches, fork.branches, strict=True):
        one = plan.steps[position]
        failure = failures.get(one.id)
        changes += (
            output_changes(one, branch.output) if failure is None else failure_changes(one, failure.error, failure.name)
        )
    output = FrozenMap(_outputs(plan, state))
    if kind == "success":
        changes += output_changes(step, output)
    else:
        changes += failure_changes(step, event.body["error"], name)
    trace, monitors = trace_of_branches(plan, state), memories_of(plan, state)
    state = state._replace(fork=None, trace=trace, monitors=monitors)
    return leave(plan, noticed(plan, state, layout.join), step, event, transition, changes, size=_size(output))


def _joined_items(plan: Plan, state: State, event: Event) -> State:
    """Apply the end of a for_each step whose items ran at once, or of an attempt of it."""
    fork, kind, name = _fork(state), event.body["kind"], event.body.get("error_name", "")
    body, step = plan.bodies[fork.at], plan.steps[fork.at]
    if not is_joined(plan, state) or (kind == "success") is fork.has_stopped:
        raise MisfitError(f"`{step.id}` can't end as {kind} here")
    trace, monitors = trace_of_branches(plan, state), memories_of(plan, state)
    state = state._replace(fork=None, trace=trace, monitors=monitors)
    if kind == "again":
        if fork.round >= body.attempts:
            raise MisfitError(f"`{step.id}` has no attempts left")
        anew = Fork(fork.at, fork.visit, (Branch(),) * len(fork.branches), fork.items, fork.round + 1, fork.stops)
        return noticed(plan, state._replace(fork=anew, steps=state.steps + 1), step.position)
    stage = body.failed if fork.has_stopped else body.next
    transition = plan.steps[stage].leaving(kind, name)
    if transition is None:
        raise MisfitError(f"`{step.id}` can't end as {kind}")
    failed = [(number, one.failure) for number, one in enumerate(fork.branches) if one.failure is not None]
    errors = (body.errors, listed(failed))
    if fork.has_stopped:
        changes, size = failure_changes(step, event.body["error"], name), 0
    else:
        output = tuple(None if one.output is UNDEFINED else one.output for one in fork.branches)
        changes, size = output_changes(step, output), _size(output)
    return leave(plan, noticed(plan, state, stage), step, event, transition, [*changes, errors], size=size)
