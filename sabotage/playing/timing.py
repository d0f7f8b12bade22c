"""What the reference can't know: endings that depend on timing, and waves of budgets that a crash has cut."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.reference import Reference
from stepward.sabotage.target import Target
from stepward.vm.language.program import Program
from stepward.vm.machine.run import Run

TIMED: Final = ("guardrail", "max_steps", "max_tokens", "cost", "no-progress")
"""The reasons of endings by rules and budgets."""


def is_timed(reference: Reference) -> bool:
    """Return whether a rule or a budget has ended the reference while branches ran, or a failed item has stopped others
    that start at another time in the run."""
    return reference.has_stopped_items or (reference.ended_beside and reference.reason in TIMED)


def may_end(run: Run, reference: Reference) -> bool:
    """Return whether a run has ended as one may whose reference is timed."""
    return reference.has_stopped_items or not run.is_over or run.reason in (*TIMED, "cancelled", "abandoned")


def is_spent(run: Run, reference: Reference, program: Program) -> bool:
    """Return whether replies have used up a budget of a run while its reference, which asks in another order, waits for
    calls of branches that the run did not start any more, or has ended among branches for the same budget."""
    spent = {"max_tokens": (run.tokens, program.max_tokens), "cost": (run.cost, program.max_cost)}
    is_same = reference.ended_beside and reference.reason == run.reason
    if not (reference.is_beside or is_same) or run.reason not in spent:
        return False
    used, most = spent[run.reason]
    return most is not None and used >= most


def is_in_wave_to_count(reference: Reference, target: Target) -> bool:
    """Return whether a crash ends a partial wave: smaller than its step, or with no budget for the remaining calls.

    After that the reference can't know the waves of the attempts.
    """
    program, plan = target.program, target.plan
    if program.max_tokens is None and program.max_cost is None:
        return False
    waiting = {one.step for one in reference.asked}
    is_spent = program.max_tokens is not None and reference.tokens >= program.max_tokens
    is_spent = is_spent or (program.max_cost is not None and reference.cost >= program.max_cost)
    return any(
        waiting.intersection(call.id for call in step.calls)
        and (is_spent or (step.concurrency is not None and step.concurrency < len(step.calls)))
        for step in plan.steps
        if step.is_parallel
    )
