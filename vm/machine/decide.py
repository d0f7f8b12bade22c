"""Decides what a run does next: a pure function of its state, without clock, randomness or I/O."""

from __future__ import annotations

from typing import Any, assert_never

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate, evaluate_condition
from stepward.vm.expressions.syntax import Reference
from stepward.vm.journal.canonical import ErasedError, Secret
from stepward.vm.language.steps import (
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    LlmStep,
    ParallelStep,
    SetStep,
    ToolStep,
)
from stepward.vm.language.steps.catching import VISITS
from stepward.vm.machine.calls import (
    NOTHING,
    Visit,
    ended,
    enter_calls,
    go_on,
    guardrail_rejection,
    named,
    out_of_steps,
    oversize,
    successor_fields,
)
from stepward.vm.machine.computing import enter_compute
from stepward.vm.machine.data import filled
from stepward.vm.machine.events import IDLE, RUNNING, Action, Event, event, unsealed
from stepward.vm.machine.plan import Plan, StepPlan
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import Reader, State, visits_of


def decide(plan: Plan, state: State, under_way: frozenset[int] = NOTHING) -> Action:
    """Return the next action: an event to append, calls to make, or IDLE.

    `under_way` are the sub-steps of a step with `depends_on` whose calls go on in this process, or wait to be tried
    again. They are no calls to make, and none of them is in doubt.
    """
    if state.status != RUNNING:
        return _cancelled(plan, state) if state.is_cancelled and not state.is_over else IDLE
    step = plan.steps[state.at]
    if state.calls is not None:
        return go_on(plan, state, step, state.calls, under_way)
    if state.is_cancelled:
        return _cancelled(plan, state)
    visit = visits_of(state, step) + 1
    if step.max_visits is not None and visit > step.max_visits:
        return _passed(plan, step, visit)
    if out_of_steps(plan, state, step.cost):
        return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
    if plan.max_stalled is not None and state.idle >= plan.max_stalled:
        return ended(plan, state, "STALLED", "no-progress")
    if (step.position, None) in plan.watch.asked and not (step.calls and not step.is_parallel):
        blocked = plan.watch.objection(state.monitors, (step.position, None), Reader(plan, state.slots, UNDEFINED))
        if blocked is not None:
            return guardrail_rejection(plan, state, visit, (step.id, *blocked))
    return _enter(plan, state, step, visit)


def _enter(plan: Plan, state: State, step: StepPlan, visit: int) -> Action:
    match step.step:
        case ConditionStep() as condition:
            return _enter_condition(plan, state, step, condition, visit)
        case SetStep() as assigning:
            return _enter_set(plan, state, step, assigning, visit)
        case EndStep() as end:
            return _enter_end(plan, state, step, end, visit)
        case ComputeStep() as compute:
            return enter_compute(Visit(plan, state, step, visit), compute)
        case LlmStep() | ToolStep() | ParallelStep():
            return enter_calls(plan, state, step, visit)
        case _:
            assert_never(step.step)


def _cancelled(plan: Plan, state: State) -> Event:
    return ended(plan, state, "CANCELLED", "cancelled")


def _passed(plan: Plan, step: StepPlan, visit: int) -> Event:
    """Return the event of a visit beyond the bound: the first goes to the error step, the second stalls the run."""
    assert step.max_visits is not None
    transition = step.transitions["visits"]
    body = {"step": step.id, "visit": visit, "error": f"`{step.id}` has used up its {step.max_visits} visits"}
    body |= named(plan, VISITS) if isinstance(step.step, Failing) else {}
    if transition.to < 0 or visit > step.max_visits + 1:
        return event("passed", body | {"ends": "STALLED", "reason": "visits"})
    return event("passed", body | {"next": plan.steps[transition.to].id})


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
        return _evaluation_failure(step, visit, str(error))
    transition = step.branches.get(taken)
    if transition is None:
        return event(
            "branched",
            {"step": step.id, "visit": visit, "branch": None, **successor_fields(plan, step.transitions["uncovered"])},
        )
    return event("branched", {"step": step.id, "visit": visit, "branch": taken, **successor_fields(plan, transition)})


def _enter_set(plan: Plan, state: State, step: StepPlan, assigning: SetStep, visit: int) -> Event:
    trees = {clause.path[-1]: clause.tree for clause in step.clauses}
    values: dict[str, Any] = {}
    try:
        for name, assigned in assigning.set.items():
            tree = trees.get(name)
            values[name] = assigned if tree is None else _computed(plan, state, tree)
    except (EvaluationError, ErasedError) as error:
        return _evaluation_failure(step, visit, str(error))
    body = {"step": step.id, "visit": visit, "values": values, **successor_fields(plan, step.transitions["success"])}
    done = unsealed("assigned", body) if plan.has_sensitive else event("assigned", body)
    too_large = oversize(plan, state, step, values)
    return done if too_large is None else _evaluation_failure(step, visit, too_large)


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
        return _evaluation_failure(step, visit, str(error))
    body = {"step": step.id, "visit": visit, "output": output, **successor_fields(plan, step.transitions["end"])}
    return unsealed("ended", body) if plan.has_sensitive else event("ended", body)


def _evaluation_failure(step: StepPlan, visit: int, why: str) -> Event:
    """Return the event of a condition, `set` or `end` that can't be evaluated: it ends the run."""
    error = f"`{step.id}` can't be evaluated: {why}"
    return event(
        "blocked",
        {"ends": "FAILED", "error": error, "kind": "failed", "reason": "error", "step": step.id, "visit": visit},
    )
