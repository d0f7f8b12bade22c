"""SW214: does any item change what a for_each step carries on."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import Rule
from stepward.vm.expressions.inner_names import as_word
from stepward.vm.language.layout import Layout
from stepward.vm.language.scopes import bound_by
from stepward.vm.language.steps import ForEachStep, SetStep
from stepward.vm.reading.source import Place


class UnchangedCarry(Rule):
    """No step of the body changes a variable that the items carry on.

    ## What it does
    Reports a name in `carry` of a `for_each` step if no step of its body assigns it, or only its own value. A name that
    begins with `_` is never reported.

    ## Why it is bad
    The variable has its first value in every item. A limit on a total is then a limit on zero: each item passes the
    check, however much the items before it have spent.

    ## Example
    ```yaml
    name: pay_lines
    language: 2
    inputs:
      budget: {type: number, minimum: 0, maximum: 1000}
      amounts: {type: array, maxItems: 20, items: {type: number, minimum: 0}}
    tools: {pay: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    guardrails: [{name: in-budget, never: {tool: pay}, when: $total + $args.amount > $budget}]
    steps:
      - id: each
        type: for_each
        items: $amounts
        as: amount
        carry: {total: 0}
        steps:
          - {id: fits, type: condition, condition: $total + $amount <= $budget, then: pay, otherwise: no}
          - {id: pay, type: tool, tool: pay, args: {amount: $amount}, is_terminal: true}
          - {id: no, type: end, output: no}
      - {id: done, type: end}
    ```

    ## Use instead
    ```yaml
    name: pay_lines
    language: 2
    inputs:
      budget: {type: number, minimum: 0, maximum: 1000}
      amounts: {type: array, maxItems: 20, items: {type: number, minimum: 0}}
    tools: {pay: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    guardrails: [{name: in-budget, never: {tool: pay}, when: $total + $args.amount > $budget}]
    steps:
      - id: each
        type: for_each
        items: $amounts
        as: amount
        carry: {total: 0}
        steps:
          - {id: fits, type: condition, condition: $total + $amount <= $budget, then: pay, otherwise: no}
          - {id: pay, type: tool, tool: pay, args: {amount: $amount}, next_step: add}
          - {id: add, type: set, set: {total: $total + $amount}, is_terminal: true}
          - {id: no, type: end, output: no}
      - {id: done, type: end}
    ```
    """

    code = "SW214"
    name = "unchanged-carry"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield each variable that is carried on as it was."""
        layout = context.facts.flow.layout
        for owner in layout.bodies:
            step = layout.steps[owner]
            if not isinstance(step, ForEachStep) or step.is_once:
                continue
            changed = set(_changed(layout, owner))
            for name in step.carry:
                if name not in changed and not name.rpartition("/")[2].startswith("_"):
                    message = f"no step in the body of `{step.id}` changes `{name}`, which its items carry on"
                    help = f"assign it with `set` in the body, or remove it from `carry`; to keep it, call it `_{name}`"
                    yield self.finding(
                        message, help, Place((*layout.path(owner), "carry", name), key=True), step=step.id
                    )


def _changed(layout: Layout, owner: int) -> Iterator[str]:
    """Yield the names that the body of a step assigns, those to which it assigns their own value left out."""
    for number in layout.inside(owner):
        step = layout.steps[number]
        values = step.assigns.items() if isinstance(step, SetStep) else ()
        own = {name for name, value in values if value == f"${as_word(name)}"}
        yield from (binding.name for binding in bound_by(layout, number) if binding.name not in own)
