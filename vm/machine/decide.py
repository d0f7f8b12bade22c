"""What a run does next: a pure function of its state. No clock, no chance, no I/O."""

from __future__ import annotations

from typing import Any, assert_never

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate, evaluate_condition
from stepward.vm.expressions.syntax import Reference
from stepward.vm.journal.canonical import ErasedError, Secret
from stepward.vm.language.steps import ConditionStep, EndStep, LlmStep, ParallelStep, SetStep, ToolStep
from stepward.vm.machine.calls import barred, ended, enter_calls, go_on, out_of_steps, oversize, way_out
from stepward.vm.machine.data import filled
from stepward.vm.machine.events import IDLE, RUNNING, Action, Event, event, unsealed
from stepward.vm.machine.plan import Plan, StepPlan
from stepward.vm.machine.slots import UNDEFINED, get
from stepward.vm.machine.state import Reader, State


def decide(plan: Plan, state: State) -> Action:
    """Return what comes next: an event to append, calls to make, or nothing."""
    if state.status != RUNNING:
        return _cancelled(plan, state) if state.is_cancelled and not state.is_over else IDLE
    step = plan.steps[state.at]
    if state.calls is not None:
        return go_on(plan, state, step, state.calls)
    if state.is_cancelled:
        return _cancelled(plan, state)
    held = get(state.slots, step.visits)
    visit = 1 if held is UNDEFINED else held[0] + 1
    if step.max_visits is not None and visit > step.max_visits:
        return _passed(plan, step, visit)
    if out_of_steps(plan, state, step.cost):
        return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
    if plan.max_stalled is not None and state.idle >= plan.max_stalled:
        return ended(plan, state, "STALLED", "no-progress")
    if (step.position, None) in plan.watch.asked and not (step.calls and not step.is_parallel):
        blocked = plan.watch.objection(state.monitors, (step.position, None), Reader(plan, state.slots, UNDEFINED))
        if blocked is not None:
            return barred(plan, state, visit, (step.id, *blocked))
    return _enter(plan, state, step, visit)


def _enter(plan: Plan, state: State, step: StepPlan, visit: int) -> Action:
    match step.step:
        case ConditionStep() as condition:
            return _enter_condition(plan, state, step, condition, visit)
        case SetStep() as assigning:
            return _enter_set(plan, state, step, assigning, visit)
        case EndStep() as end:
            return _enter_end(plan, state, step, end, visit)
        case LlmStep() | ToolStep() | ParallelStep():
            return enter_calls(plan, state, step, visit)
        case _:
            assert_never(step.step)


def _cancelled(plan: Plan, state: State) -> Event:
    return ended(plan, state, "CANCELLED", "cancelled")


def _passed(plan: Plan, step: StepPlan, visit: int) -> Event:
    """Visit n + 1 goes to the error step, once; the next one stalls the run."""
    assert step.max_visits is not None
    way = step.ways["visits"]
    body = {"step": step.id, "visit": visit, "error": f"`{step.id}` has used up its {step.max_visits} visits"}
    if way.to < 0 or visit > step.max_visits + 1:
        return event("passed", body | {"ends": "STALLED", "reason": "visits"})
    return event("passed", body | {"next": plan.steps[way.to].id})


# -- conditions, set, end ----------------------------------------------------------------------------------------------


def _enter_condition(plan: Plan, state: State, step: StepPlan, condition: ConditionStep, visit: int) -> Event:
    reader = Reader(plan, state.slots)
    taken: str | int = "otherwise"
    try:
        for number, clause in enumerate(step.clauses, start=1):
            assert clause.tree is not None
            if evaluate_condition(clause.tree, reader):
                taken = "then" if condition.cases is None else number
                break
    except (EvaluationError, ErasedError) as error:
        return _stuck(step, visit, str(error))
    way = step.branches.get(taken)
    if way is None:
        return event(
            "branched", {"step": step.id, "visit": visit, "branch": None, **way_out(plan, step.ways["uncovered"])}
        )
    return event("branched", {"step": step.id, "visit": visit, "branch": taken, **way_out(plan, way)})


def _enter_set(plan: Plan, state: State, step: StepPlan, assigning: SetStep, visit: int) -> Event:
    trees = {clause.path[-1]: clause.tree for clause in step.clauses}
    values: dict[str, Any] = {}
    try:
        for name, held in assigning.set.items():
            tree = trees.get(name)
            values[name] = held if tree is None else _computed(plan, state, tree)
    except (EvaluationError, ErasedError) as error:
        return _stuck(step, visit, str(error))
    body = {"step": step.id, "visit": visit, "values": values, **way_out(plan, step.ways["success"])}
    done = unsealed("assigned", body) if plan.has_sensitive else event("assigned", body)
    too_large = oversize(plan, state, step, values)
    return done if too_large is None else _stuck(step, visit, too_large)


def _computed(plan: Plan, state: State, tree: Any) -> Any:
    reader = Reader(plan, state.slots)
    if isinstance(tree, Reference):
        return reader.raw(tree.names)
    value = evaluate(tree, reader)
    return Secret(value) if reader.touched else value


def _enter_end(plan: Plan, state: State, step: StepPlan, end: EndStep, visit: int) -> Event:
    try:
        output = filled(end.output, Reader(plan, state.slots))
    except (EvaluationError, ErasedError) as error:
        return _stuck(step, visit, str(error))
    body = {"step": step.id, "visit": visit, "output": output, **way_out(plan, step.ways["end"])}
    return unsealed("ended", body) if plan.has_sensitive else event("ended", body)


def _stuck(step: StepPlan, visit: int, why: str) -> Event:
    """A condition, `set` or `end` that can't be evaluated ends the run: none of them has an error step."""
    error = f"`{step.id}` can't be evaluated: {why}"
    return event(
        "blocked",
        {"ends": "FAILED", "error": error, "kind": "failed", "reason": "error", "step": step.id, "visit": visit},
    )
