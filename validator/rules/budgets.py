"""SW601: is the budget enough to reach an ending."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding
from stepward.validator.rules.base import Rule
from stepward.vm.reading.source import Place


class BudgetTooSmall(Rule):
    """The budget `max_steps` is below the shortest path to any declared ending.

    ## What it does
    Computes the shortest path from the first step to an ending that the program declares. Every step costs one,
    including conditions, `end` steps and sub-steps, and so does every attempt after the first. The steps of a body cost
    as much once for each item that the list has at least: by `minItems` of its type, or as it is written. Those of all
    branches are on the path. Reports `max_steps` if it is smaller than the cost of this path. The message gives the
    cost.

    ## Why it is bad
    Every run ends BUDGET_EXCEEDED, or fails before that. The effects of the steps before the end have already happened.

    ## Example
    ```yaml
    name: newsletter
    tools: {load_readers: {effect: read}, send_letter: {effect: write, idempotent: true}}
    max_steps: 2
    steps:
      - {id: load, type: tool, tool: load_readers}
      - {id: send, type: tool, tool: send_letter}
      - {id: done, type: end}
    ```

    ## Use instead
    ```yaml
    name: newsletter
    tools: {load_readers: {effect: read}, send_letter: {effect: write, idempotent: true}}
    max_steps: 10
    steps:
      - {id: load, type: tool, tool: load_readers}
      - {id: send, type: tool, tool: send_letter}
      - {id: done, type: end}
    ```
    """

    code = "SW601"
    name = "budget-too-small"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the budget when no path to a declared ending fits in it."""
        budget = context.facts.program.max_steps
        if budget is None or not context.facts.has_control_flow:
            return
        shortest = context.analyses.bounds.shortest
        if shortest is not None and shortest.steps > budget:
            message = f"`max_steps` is {budget}, but the shortest path to an ending takes {shortest.steps} steps"
            yield self.finding(message, f"raise it to at least {shortest.steps}", Place(("max_steps",)))
