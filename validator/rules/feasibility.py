"""SW103: does any run reach a step that paths lead to. The answer comes from `validator/engine/dead.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import EngineRule
from stepward.validator.rules.regions import behind_words, can_be_removed, regions_among
from stepward.vm.language.steps import ConditionStep
from stepward.vm.reading.source import Place


def blocking_conditions(context: Context, number: int, behind: list[int]) -> list[int]:
    """Return the conditions that no run passes to a region: those that lead into it from steps that runs may reach."""
    dead = set(context.proofs.dead.infeasible)
    before = (one for step in (number, *behind) for one in context.facts.flow.predecessors[step])
    return sorted({one for one in before if one not in dead and one in context.facts.graph.reachable})


def is_constant(context: Context, number: int) -> bool:
    """Return whether a step is a two-way condition that is always true, or always false."""
    step = context.facts.flow.steps[number]
    if not isinstance(step, ConditionStep) or step.condition is None:
        return False
    return context.facts.decided_branch(number) is not None or context.verdicts.decided.constant(number) is not None


def unreached_words(context: Context, number: int) -> str:
    """Return the words for the steps that no run reaches because a condition is constant; empty if there are none."""
    regions = []
    for first, behind in regions_among(
        context.proofs.dead.infeasible if context.facts.has_control_flow else (), context.facts.graph
    ):
        if number in blocking_conditions(context, first, behind) and all(
            is_constant(context, one) for one in blocking_conditions(context, first, behind)
        ):
            regions.append(f"`{context.facts.flow.steps[first].id}`{behind_words(behind, context.facts.flow)}")
    return f", and no run gets to {' or to '.join(regions)}" if regions else ""


class InfeasibleStep(EngineRule):
    """Paths lead to the step, but the conditions on each of them contradict each other.

    ## What it does
    Reports a step that paths lead to, if it is proved that no run reaches it. Every path to it then takes a branch that
    the conditions and assignments before it rule out. One example is the `otherwise` of cases that cover all values. If
    such steps lead to each other, only the first is reported, with the number of steps after it. If constant two-way
    conditions are the only cause, SW303 reports the conditions, and SW103 reports nothing.

    ## Why it is bad
    The program seems to handle a case that it never handles. Usually one of the conditions does not say what its author
    meant.

    ## Example
    An amount that reaches `how_large` is above 1000. So one of the two cases holds, and no run reaches `desk`:

    ```yaml
    name: review_level
    inputs: {amount: {type: number}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 1000, then: clerk, otherwise: how_large}
      - id: how_large
        type: condition
        cases:
          - {name: board, when: $amount > 50000, then: board}
          - {name: manager, when: $amount > 1000, then: manager}
        otherwise: desk
      - {id: clerk, type: end}
      - {id: manager, type: end}
      - {id: board, type: end}
      - {id: desk, type: end}
    ```

    ## Use instead
    ```yaml
    name: review_level
    inputs: {amount: {type: number}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 1000, then: clerk, otherwise: how_large}
      - {id: how_large, type: condition, condition: $amount > 50000, then: board, otherwise: manager}
      - {id: clerk, type: end}
      - {id: manager, type: end}
      - {id: board, type: end}
    ```
    """

    code = "SW103"
    name = "infeasible-step"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the first step of each region that paths lead to and that provably no run reaches."""
        if not context.facts.has_control_flow or not context.facts.conditions:
            return
        for number, behind in regions_among(context.proofs.dead.infeasible, context.facts.graph):
            if all(map(partial(is_constant, context), blocking_conditions(context, number, behind))):
                continue
            step = context.facts.flow.steps[number]
            who = f"`{step.id}`{behind_words(behind, context.facts.flow)}"
            message = f"no run gets to {who}: the conditions on the paths to it contradict each other"
            help = "correct the condition that should lead here"
            if can_be_removed((number, *behind), context):
                rest = ", with all steps after it" if behind else ""
                help += f", or remove the step and the branch that names it{rest}"
            yield self.finding(message, help, Place((*context.facts.flow.layout.path(number), "id")), step=step.id)
