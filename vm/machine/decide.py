"""Decides what a run does next: a pure function of its state, without clock, randomness or I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.journal.canonical import ErasedError, is_sealed, opened
from stepward.vm.language.steps import (
    ComputeStep,
    ConditionStep,
    EndStep,
    ForEachStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolStep,
    WaitStep,
)
from stepward.vm.language.steps.catching import BAD_OUTPUT, VISITS
from stepward.vm.language.transitions import END, Ending, Transition
from stepward.vm.machine.bodies import between_items, enter_each
from stepward.vm.machine.branches import branch_started, enter_branches, is_joined, join
from stepward.vm.machine.calls import (
    Visit,
    assignment,
    ended,
    enter_calls,
    go_on,
    guardrail_rejection,
    name_of,
    named,
    out_of_steps,
    place_of,
    with_doubts,
)
from stepward.vm.machine.computing import enter_compute
from stepward.vm.machine.data import computed, filled, refused
from stepward.vm.machine.events import IDLE, MOVED, RUNNING, Action, Calls, Event, Kind, make_event, unsealed
from stepward.vm.machine.forks import may_start, seen_by, unpaid_attempts
from stepward.vm.machine.memory import Memory, UnderWay
from stepward.vm.machine.plan import NOWHERE, Plan, StepPlan, successor_fields
from stepward.vm.machine.sizes import may_be_oversize, oversize
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import Fork, Reader, State, visits_of
from stepward.vm.machine.waits import enter_wait

FAILED: Final = Transition("failed", END, Ending("FAILED", "error"))
"""What becomes of an `end` step that can't be evaluated: the run ends, as its control flow does not say."""


NOBODY: Final[UnderWay] = frozenset()


def decide(plan: Plan, state: State, under_way: UnderWay = NOBODY, memory: Memory | None = None) -> Action:
    """Return the next action: an event to append, calls to make, or IDLE.

    `under_way` are the calls of a step with `depends_on`, or in branches, that go on in this process, or wait to be
    tried again. They are no calls to make, and none of them is in doubt. `memory` changes no decision: a branch that it
    knows is not asked again.
    """
    if state.status != RUNNING:
        return _cancelled(plan, state) if state.is_cancelled and not state.is_over else IDLE
    if state.moved and state.is_leaving:
        return ended(plan, state, "CANCELLED", MOVED)
    step = plan.steps[state.at]
    if state.each is not None:
        return _cancelled(plan, state) if state.is_cancelled else between_items(plan, state, state.each)
    if state.fork is not None:
        return _in_branches(plan, state, state.fork, under_way, memory)
    if state.calls is not None:
        return _in_calls(plan, state, step, under_way)
    if state.is_cancelled:
        return _cancelled(plan, state)
    visit = visits_of(state, step) + 1
    if step.max_visits is not None and visit > step.max_visits:
        return _passed(plan, state, step, visit)
    if out_of_steps(plan, state, step.cost):
        return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
    if plan.max_stalled is not None and state.idle >= plan.max_stalled:
        return ended(plan, state, "STALLED", "no-progress")
    if step.is_asked_first and step.part in plan.watch.guarded:
        blocked = plan.watch.objection(state.monitors, step.part, Reader(plan, state.slots, UNDEFINED))
        if blocked is not None:
            return guardrail_rejection(plan, state, visit, (step.id, *blocked))
    return _enter(plan, state, step, visit)


def _in_calls(plan: Plan, state: State, step: StepPlan, under_way: UnderWay) -> Action:
    assert state.calls is not None
    if _awaits_call(plan, state, under_way):
        return _cancelled(plan, state) if state.is_cancelled else IDLE
    subs = frozenset(sub for frame, sub in under_way if frame == state.frame)
    return go_on(plan, state, step, state.calls, subs)


def _awaits_call(plan: Plan, state: State, under_way: UnderWay) -> bool:
    """Return whether calls are under way in a frame, which come back before the next decision about it.

    Calls with `depends_on` do not wait for one another. A call may also go on when its outcome is recorded and the
    frame is at the next step: its reply is put into a cache, or its breaker opened.
    """
    is_ordered = state.calls is not None and plan.steps[state.at].order is not None
    return not is_ordered and any(frame == state.frame for frame, _ in under_way)


def _in_branches(plan: Plan, state: State, fork: Fork, under_way: UnderWay, memory: Memory | None) -> Action:
    """Return the next action where branches run: what ends the run comes first, then records, then calls.

    The calls are those of one branch: their starts are recorded before it is asked again, so that rules count them.
    """
    if state.is_cancelled:
        return _cancelled(plan, state)
    if is_joined(plan, state):
        return join(plan, state) if memory is None else memory.join_of(state, lambda: join(plan, state))
    starting = may_start(plan, fork)
    if plan.one_by_one:
        return _one_by_one(plan, state, starting, under_way)
    owing, is_near = _owing(plan, state)
    if memory is None or is_near:  # near it, what a branch does depends on what its siblings have spent
        memory = Memory()
    for number in memory.outdated(plan, state, fork, under_way):
        action = _ask(plan, state, number, owing, under_way, memory)
        if type(action) is Event and "ends" in action.body:
            return with_doubts(plan, state, action)
        memory.keep(number, fork.branches[number], action)
    if starting or memory.events:
        first = min([*starting, *memory.events])
        return memory.events.get(first) or branch_started(plan, state, first)
    return _calls(plan, memory.calls, is_near) if memory.calls else IDLE


def _calls(plan: Plan, found: Mapping[int, Calls], is_near: bool) -> Calls:
    """Return the calls that start now: those of the first branch, and of those behind it while no start of a call is
    recorded. What starts without a record changes nothing, far from the limit of a budget."""
    first, *others = sorted(found)
    calls = [*found[first].calls]
    for number in others:
        if is_near or any(plan.calls[call.step].has_intent for call in (*calls[-1:], *found[number].calls)):
            break
        calls += found[number].calls
    return Calls(tuple(calls))


def _one_by_one(plan: Plan, state: State, starting: Sequence[int], under_way: UnderWay) -> Action:
    """Return the next action of the first branch that does something, or whose calls are under way."""
    fork = state.fork
    assert fork is not None
    if fork.stops and starting:  # so that one that was under way may follow one that has failed
        return branch_started(plan, state, starting[0])
    for number in sorted([*starting, *fork.running]):
        if number in starting:
            return branch_started(plan, state, number)
        action = _ask(plan, state, number, _owing(plan, state)[0], under_way, Memory())
        if type(action) is Event and "ends" in action.body:
            return with_doubts(plan, state, action)
        if action is not IDLE or _is_under_way(state, number, under_way):
            return action
    return IDLE


def _owing(plan: Plan, state: State) -> tuple[int, bool]:
    """Return how many attempts are to come for which the budget of steps has not paid, 0 far from it; and whether it
    may be too small for what comes next."""
    if not is_near_budget(plan, state):
        return 0, False
    owing = unpaid_attempts(state)
    return owing, out_of_steps(plan, state, owing + plan.most_cost)


def _ask(plan: Plan, state: State, number: int, unpaid: int, under_way: UnderWay, memory: Memory) -> Action:
    """Ask a branch what it does next, where `unpaid` attempts are to come for which the budget has not paid.

    Those that its siblings owe count as paid. They follow from the records alone, so it makes no difference whether a
    process waits for them by now.
    """
    assert state.fork is not None
    view = seen_by(plan, state, number)
    others = unpaid - unpaid_attempts(view) if unpaid and not state.is_once_sized else 0
    return decide_within(plan, view._replace(steps=view.steps + others) if others else view, number, under_way, memory)


def decide_within(plan: Plan, view: State, number: int, under_way: UnderWay, memory: Memory) -> Action:
    """Return the next action of a branch, given the state as it sees it; the others are as `decide` has them."""
    if under_way and _awaits_call(plan, view, under_way):
        return IDLE
    return decide(plan, view, under_way, None if view.fork is None else memory.inner.setdefault(number, Memory()))


def is_near_budget(plan: Plan, state: State) -> bool:
    """Return whether calls that are to be tried again may leave too few steps for what comes next."""
    # Such a call has cost a step before: far from the budget, nobody need look for it.
    return out_of_steps(plan, state, state.steps + plan.most_cost)


def _is_under_way(state: State, number: int, under_way: UnderWay) -> bool:
    own = None if state.fork is None else state.fork.branches[number].state
    depth = 0 if own is None else len(state.frame) + 1
    return own is not None and any(frame[:depth] == own.frame[:depth] for frame, _ in under_way)


def _enter(plan: Plan, state: State, step: StepPlan, visit: int) -> Action:
    match step.step:  # in the order of how frequent they are
        case ToolStep() | LlmStep():
            return enter_calls(plan, state, step, visit)
        case ConditionStep() as condition:
            return _enter_condition(plan, state, step, condition, visit)
        case SetStep() as assigning:
            return _enter_set(plan, state, step, assigning, visit)
        case WaitStep() as wait:
            try:
                return enter_wait(plan, state, step, wait, visit)
            except (EvaluationError, ErasedError) as error:
                return _evaluation_failure(plan, state, step, visit, str(error), name_of(error))
        case EndStep() as end:
            return _enter_end(plan, state, step, end, visit)
        case ComputeStep() as compute:
            return enter_compute(Visit(plan, state, step, visit), compute)
        case ParallelStep():
            return enter_branches(state, step, visit) if step.is_fork else enter_calls(plan, state, step, visit)
        case ForEachStep():
            return enter_each(plan, state, step, visit)
        case Stage():
            raise AssertionError("between items there is a for_each step")
        case _:
            assert_never(step.step)


def _cancelled(plan: Plan, state: State) -> Event:
    return ended(plan, state, "CANCELLED", "cancelled")


def _passed(plan: Plan, state: State, step: StepPlan, visit: int) -> Event:
    """Return the event of a visit beyond the bound: the first goes to the error step, the second stalls the run."""
    assert step.max_visits is not None
    is_last = visit > step.max_visits + 1
    transition = step.stalls if is_last and step.stalls is not None else step.transitions["visits"]
    body = {**place_of(state, step.id, visit), "error": f"`{step.id}` has used up its {step.max_visits} visits"}
    body |= named(plan, VISITS) if step.error_name != NOWHERE or state.frames else {}
    return make_event("passed", body | successor_fields(plan.steps, transition))


# -- conditions, set, end ----------------------------------------------------------------------------------------------


def _enter_condition(plan: Plan, state: State, step: StepPlan, condition: ConditionStep, visit: int) -> Event:
    reader = Reader(plan, state.slots)
    arm: str | int = "otherwise"
    try:
        for number, clause in enumerate(step.clauses, start=1):
            assert clause.tree is not None
            if evaluate_condition(clause.tree, reader):
                arm = "then" if condition.cases is None else number
                break
    except (EvaluationError, ErasedError) as error:
        return _evaluation_failure(plan, state, step, visit, str(error), name_of(error))
    branch = arm if arm in step.branches else None
    to = step.transitions["uncovered"] if branch is None else step.branches[branch]
    return make_event(
        "branched", {**place_of(state, step.id, visit), "branch": branch, **successor_fields(plan.steps, to)}
    )


def _enter_set(plan: Plan, state: State, step: StepPlan, assigning: SetStep, visit: int) -> Event:
    trees = {clause.name: clause.tree for clause in step.clauses}
    values: dict[str, Any] = {}
    try:
        for name, assigned in assigning.assigns.items():
            tree = trees.get(name)
            values[name] = assigned if tree is None else computed(tree, Reader(plan, state.slots))
    except (EvaluationError, ErasedError) as error:
        return _evaluation_failure(plan, state, step, visit, str(error), name_of(error))
    event = assignment(plan, state, step, visit, values)
    too_large = oversize(plan, state, step, values) if may_be_oversize(state, event) else None
    return event if too_large is None else _evaluation_failure(plan, state, step, visit, too_large, BAD_OUTPUT)


def _enter_end(plan: Plan, state: State, step: StepPlan, end: EndStep, visit: int) -> Event:
    try:
        output = filled(end.output, Reader(plan, state.slots))
        why = _unfit(plan, state, step, output)
    except (EvaluationError, ErasedError) as error:
        return _evaluation_failure(plan, state, step, visit, str(error), name_of(error))
    if why is not None:
        return _evaluation_failure(plan, state, step, visit, why, BAD_OUTPUT)
    body = {
        **place_of(state, step.id, visit),
        "output": output,
        **successor_fields(plan.steps, step.transitions["end"]),
    }
    kind: Kind = "closed" if state.frames else "ended"
    return unsealed(kind, body) if plan.has_sensitive else make_event(kind, body)


def _unfit(plan: Plan, state: State, step: StepPlan, output: Any) -> str | None:
    """Return why a body can't have an output, or None: it is too large, or not what a call takes."""
    why = oversize(plan, state, step, output) if state.frames else None
    if why is not None or step.returns is None:
        return why
    is_secret = plan.has_sensitive and is_sealed(output)
    why = refused(opened(output) if is_secret else output, step.returns, "the output")
    return "the output is not of its type" if why is not None and is_secret else why


def _evaluation_failure(plan: Plan, state: State, step: StepPlan, visit: int, why: str, name: str) -> Event:
    """Return the event of a condition, `set`, `wait` or `end` that can't be evaluated: it ends the run, or the body.

    `name` is that of the error, which the step with the body may catch.
    """
    fields = {"error": f"`{step.id}` can't be evaluated: {why}", "kind": "failed", **place_of(state, step.id, visit)}
    fields |= named(plan, name) if state.frames else {}
    return make_event("blocked", fields | successor_fields(plan.steps, step.transitions.get("failed", FAILED)))
