"""SW109: can the sub-steps of a parallel step start in the order that `depends_on` says."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding
from stepward.validator.rules.base import Rule
from stepward.vm.language.order import Misorder, misorders
from stepward.vm.language.similar import near_words, respelt
from stepward.vm.language.steps import ParallelStep


class ImpossibleOrder(Rule):
    """A `depends_on` names no sub-step of the same step, or sub-steps wait for each other in a circle.

    ## What it does
    Reports every name in a `depends_on` that is no sub-step of the same parallel step, and suggests the nearest id.
    Reports each circle once: a sub-step that depends on itself, directly or by way of others. For branches it does the
    same.

    ## Why it is bad
    A sub-step with `depends_on` starts when all that it names have succeeded. On a circle each waits for another one,
    so none ever starts. The machine refuses such a program. Until it is corrected, Stepward does not check guardrails
    and budgets.

    ## Example
    ```yaml
    name: order_page
    language: 2
    tools: {find_order: {effect: read}, find_parcel: {effect: read}}
    steps:
      - id: look_up
        type: parallel
        parallel_steps:
          - {id: order, type: tool, tool: find_order, depends_on: [parcel]}
          - {id: parcel, type: tool, tool: find_parcel, depends_on: [order]}
    ```

    ## Use instead
    ```yaml
    name: order_page
    language: 2
    tools: {find_order: {effect: read}, find_parcel: {effect: read}}
    steps:
      - id: look_up
        type: parallel
        parallel_steps:
          - {id: order, type: tool, tool: find_order}
          - {id: parcel, type: tool, tool: find_parcel, depends_on: [order]}
    ```
    """

    code = "SW109"
    name = "impossible-order"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every entry of a `depends_on` that names no sibling, and one entry of each circle."""
        for misorder in misorders(context.facts.program):
            yield self._finding(context, misorder)

    def _finding(self, context: Context, misorder: Misorder) -> Finding:
        step = context.facts.flow.steps[misorder.step]
        has_branches = isinstance(step, ParallelStep) and bool(step.branches)
        ids = list(step.branches) if isinstance(step, ParallelStep) and has_branches else [p.id for p in step.sub_steps]
        name = ids[misorder.sub]
        if misorder.way:
            help = f"remove `{misorder.name}` from the `depends_on` of `{name}`"
            return self.finding(misorder.message, help, misorder.place, step=name)
        siblings = [other for other in ids if other != name]
        noun = "branch" if has_branches else "sub-step"
        help = near_words(misorder.name, siblings) or f"name another {noun} of `{step.id}`, or remove it"
        correction = respelt(misorder.place, misorder.name, siblings)
        return self.finding(misorder.message, help, misorder.place, step=name, correction=correction)
