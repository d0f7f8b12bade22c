"""SW701, SW901, SW902 and SW903: what the check says about itself, not about the program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepward.validator.failures import CODE, REPORT_IT, Failure
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import ReportedElsewhere
from stepward.validator.rules.guardrails import GuardrailRule
from stepward.vm.reading.source import Place

NAMED: Final = 4
"""Parts that a message on an internal error names; it counts the others."""


class UnusedSuppression(ReportedElsewhere):
    """An ignore comment, or an entry of `per-file-ignores`, silences nothing.

    ## What it does
    Reports a comment `# stepward: ignore[CODE] reason` on whose line, or below which, there is no finding of that code,
    and an entry of `per-file-ignores` that no finding needs. A comment without a reason silences nothing, so it is
    reported too, and so is one for a finding that comes from a policy.

    ## Why it is bad
    The comment allows what is no longer there. It will silence the next finding of that kind, which nobody has judged.

    ## Example
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      # stepward: ignore[SW108] both ways lead to the review until the new desk opens
      - {id: is_large, type: condition, condition: $amount > 100, then: review, otherwise: accept}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```

    ## Use instead
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 100, then: review, otherwise: accept}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```
    """

    code = "SW701"
    name = "unused-suppression"
    severity = Severity.WARNING


class UnconfirmedWitness(GuardrailRule):
    """The machine did not confirm a witness of the checker: that is a bug of Stepward's.

    ## What it does
    The checker makes a run of every certain violation of a guardrail: inputs, and the answers of tools and models. The
    machine replays this run before the violation is reported. Reports a replay that did not show the violation, and
    says what the machine did instead.

    ## Why it is bad
    The checker and the machine read the program in two ways, so one of them is wrong. Neither the violation nor a
    `proved` of the same property can be believed until that is settled; please report it with the program.

    ## Example
    No program should have this finding. It would be at `refund` here if the machine did not get there with `check`
    skipped:

    ```yaml
    name: refund
    tools: {check_order: {effect: read}, issue_refund: {effect: write, idempotent: true}}
    guardrails:
      - {name: check-before-refund, protects: {tool: issue_refund}, requires: {step: check}}
    steps:
      - {id: check, type: tool, tool: check_order, on_error: skip}
      - {id: refund, type: tool, tool: issue_refund}
    ```

    ## Use instead
    Nothing in the program has to change for it. Where the graph shows that the rule holds, no witness is needed:

    ```yaml
    name: refund
    tools: {check_order: {effect: read}, issue_refund: {effect: write, idempotent: true}}
    guardrails:
      - {name: check-before-refund, protects: {tool: issue_refund}, requires: {step: check}}
    steps:
      - {id: check, type: tool, tool: check_order}
      - {id: refund, type: tool, tool: issue_refund}
    ```
    """

    code = "SW901"
    name = "unconfirmed-witness"


class RefusedProof(ReportedElsewhere):
    """The second checker did not accept a proof of the first one: that is a bug of Stepward's.

    ## What it does
    A second checker checks every proof again. It reads the program on its own, and shares with the engine only what a
    program is. Reports a proof that it does not accept, and says why. The property counts as unknown.

    ## Why it is bad
    The two checkers read the program in two ways, so one of them is wrong. Until that is settled the property may be
    broken; please report it with the program.

    ## Example
    No program should have this finding. It would be at `check-before-refund` here if the second checker found a path to
    `refund` past `check`:

    ```yaml
    name: refund
    tools: {check_order: {effect: read}, issue_refund: {effect: write, idempotent: true}}
    guardrails:
      - {name: check-before-refund, protects: {tool: issue_refund}, requires: {step: check}}
    steps:
      - {id: check, type: tool, tool: check_order}
      - {id: refund, type: tool, tool: issue_refund}
    ```

    ## Use instead
    Nothing in the program has to change for it. Where no path leads past `check`, both checkers say so:

    ```yaml
    name: refund
    tools: {check_order: {effect: read}, issue_refund: {effect: write, idempotent: true}}
    guardrails:
      - {name: check-before-refund, protects: {tool: issue_refund}, requires: {step: check}}
    steps:
      - {id: check, type: tool, tool: check_order, next_step: refund}
      - {id: refund, type: tool, tool: issue_refund}
    ```
    """

    code = "SW902"
    name = "refused-proof"


class InternalError(ReportedElsewhere):
    """An error inside Stepward ended a part of the check: that is a bug of Stepward's.

    ## What it does
    Reports an exception that no program should cause. It says which part of the check was ended, and where: a rule, the
    judging of one property, the check of a program, a fix or a report. All other parts are finished, and the
    command exits with 2. With `STEPWARD_DEBUG=1` in the environment the traceback is printed on standard error.

    ## Why it is bad
    What that part would have found is missing. A property whose judging was ended is `unknown`, and SW408 says so. The
    finding can't be silenced: please report it, with the program and the traceback.

    ## Example
    No program should have this finding. It would be at the name here if the search for dead branches broke off:

    ```yaml
    name: greeting
    inputs: {formal: {type: boolean}}
    steps:
      - {id: is_formal, type: condition, condition: $formal, then: long, otherwise: short}
      - {id: long, type: end, output: "'Good morning'"}
      - {id: short, type: end, output: "'Hi'"}
    ```

    ## Use instead
    Nothing in the program has to change for it. Until the bug is fixed, another form of the named part may help:

    ```yaml
    name: greeting
    inputs: {formal: {type: boolean}}
    steps:
      - id: is_formal
        type: condition
        cases: [{when: $formal, then: long}]
        otherwise: short
      - {id: long, type: end, output: "'Good morning'"}
      - {id: short, type: end, output: "'Hi'"}
    ```
    """

    code = CODE
    name = "internal-error"

    def of(self, failures: Iterable[Failure]) -> list[Finding]:
        """Return a finding for each error, which names all parts that this error ended."""
        parts: dict[tuple[str, str], dict[str, None]] = {}
        for one in failures:
            parts.setdefault((one.error, one.place), {})[one.part] = None
        return [
            self.finding(_message(list(named), error, place), REPORT_IT, Place(("name",), key=True))
            for (error, place), named in parts.items()
        ]


def _message(parts: list[str], error: str, place: str) -> str:
    more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return f"an internal error ended {', '.join(parts[:NAMED])}{more}: {error} ({place})"
