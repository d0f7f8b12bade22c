"""Compute steps: evaluates an expression of PTC-Lisp within limits that are counted, so that every machine agrees."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from stepward.vm.errors import EvaluationError
from stepward.vm.journal.canonical import ErasedError, Secret, is_sealed, opened
from stepward.vm.language.steps import ComputeStep
from stepward.vm.language.steps.catching import BAD_OUTPUT, UNEXPECTED
from stepward.vm.machine.calls import Visit, after, assignment, guardrail_rejection, name_of, named, place_of
from stepward.vm.machine.data import filled, marked, refused
from stepward.vm.machine.events import Event, make_event
from stepward.vm.machine.plan import Computed
from stepward.vm.machine.sizes import oversize
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import Reader

MAX_STEPS: Final = 1_000_000
"""Evaluated forms and handled items of one visit of a `compute` step."""

MAX_MEMORY: Final = 16_000_000
"""Bytes of live data of one visit of a `compute` step."""


def enter_compute(at: Visit, compute: ComputeStep) -> Event:
    """Return the event of a visit of a `compute` step: its value, or why there is none.

    Rules are asked when there is a value: a failed step has not started.
    """
    plan, state, step, visit = at
    found = _computed(at, compute)
    too_large = None if found.name else oversize(plan, state, step, {step.computes: found.value})
    if too_large is not None:
        found = Computed(None, BAD_OUTPUT, too_large)
    if found.name:
        kind = "skipped" if compute.on_error == "skip" else "failed"
        fields = {"error": found.error, "kind": kind, **place_of(state, step.id, visit)}
        return make_event("blocked", fields | named(plan, found.name) | after(plan, step, kind, found.name))
    if step.part in plan.watch.guarded:
        objection = plan.watch.objection(state.monitors, step.part, Reader(plan, state.slots, UNDEFINED))
        if objection is not None:
            return guardrail_rejection(plan, state, visit, (step.id, *objection))
    return assignment(plan, state, step, visit, {step.computes: found.value})


def _computed(at: Visit, compute: ComputeStep) -> Computed:
    """Return the value of a step, checked against its type and sealed if it comes from sensitive values."""
    plan, state, step, visit = at
    try:
        args = filled(compute.args, Reader(plan, state.slots))
        is_secret = plan.has_sensitive and is_sealed(args)
        plain_args = opened(args) if is_secret else args
    except (EvaluationError, ErasedError) as error:
        return Computed(None, name_of(error), f"`{step.id}` can't be computed: {error}")
    supposed = None if plan.supposed is None else plan.supposed(step.id, visit, state.frame)
    found = _evaluated(compute.lisp, plain_args) if supposed is None else supposed
    if found.name:
        why = "its expression has no value" if is_secret else found.error  # the error may quote a sensitive value
        return found._replace(error=f"`{step.id}` can't be computed: {why}")
    why_not = refused(found.value, step.returns, f"the value of `{step.id}`")
    if why_not is not None:
        return Computed(None, BAD_OUTPUT, f"the value of `{step.id}` is not of its type" if is_secret else why_not)
    return Computed(Secret(found.value) if is_secret else marked(found.value, step.returns))


def _evaluated(text: str, args: Any) -> Computed:
    from stepward.vm.lisp import Limits, evaluate

    # Without a clock: a slow machine must not come to another result than a fast one.
    outcome = evaluate(text, args, Limits(steps=MAX_STEPS, memory=MAX_MEMORY, seconds=inf))
    error = outcome.error
    return Computed(outcome.value) if error is None else Computed(None, UNEXPECTED, error.message)
