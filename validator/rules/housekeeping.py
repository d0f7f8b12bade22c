"""SW701 and SW901: what the check says about itself. The command finds both, not the program."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.analysis.context import Context
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import Rule


class UnusedSuppression(Rule):
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

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing: what a comment silences is known only when every finding is there."""
        return iter(())


class UnconfirmedWitness(Rule):
    """The machine did not replay a witness that the engine gave: that is a bug of Stepward's.

    ## What it does
    Every run that the engine offers as proof of a violation is replayed on the machine before it is reported. Reports
    one that did not get where the engine said. This version says nothing yet: the witnesses that are replayed come with
    the engine.

    ## Why it is bad
    The engine and the machine read the program in two ways, so one of them is wrong. Neither this finding nor a
    `proved` of the same property can be believed until that is settled; please report it with the program.

    ## Example
    Not reported in this version.

    No program should have this finding. It would stand at `refund` here if the machine did not get there with `check`
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

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing yet: witnesses come with the engine."""
        return iter(())
