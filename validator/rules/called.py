"""SW110: are the programs that are called there, and is none of them called within itself."""

from __future__ import annotations

from stepward.validator.rules.base import ReportedElsewhere


class ImpossibleCall(ReportedElsewhere):
    """A program that is called is not there, or calls itself.

    ## What it does
    Reports a `call` step whose `program` is not listed under `programs`, and suggests the nearest name. Reports
    programs that call each other in a circle, and a `file` under `programs` that can't be read, is outside of the
    project, or does not say its `inputs`. Reports a policy for a called program that does not apply to the caller. Such
    a program is not checked further.

    ## Why it is bad
    The machine takes the content of every called program when a run starts, and the gate proves rules of it. A program
    that is not there can't run. Programs that call each other in a circle would never come to an end.

    ## Example
    ```yaml
    name: two_payments
    language: 2
    tools: {charge_card: {effect: write, idempotent: true}}
    programs:
      charge:
        steps: [{id: pay, type: tool, tool: charge_card}]
    steps:
      - {id: first, type: call, program: charge}
      - {id: second, type: call, program: charges}
    ```

    ## Use instead
    ```yaml
    name: two_payments
    language: 2
    tools: {charge_card: {effect: write, idempotent: true}}
    programs:
      charge:
        steps: [{id: pay, type: tool, tool: charge_card}]
    steps:
      - {id: first, type: call, program: charge}
      - {id: second, type: call, program: charge}
    ```
    """

    code = "SW110"
    name = "impossible-call"
