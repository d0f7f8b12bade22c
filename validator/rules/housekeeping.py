"""SW701 to SW704 and SW901 to SW903: what the check says about itself, not about the program."""

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
    """An ignore comment, or an entry of `per-file-ignores`, suppresses no finding.

    ## What it does
    Reports a comment `# stepward: ignore[CODE] reason` if there is no finding with that code on its line or below it.
    Also reports an entry of `per-file-ignores` that suppresses no finding. A comment without a reason, or a comment for
    a finding of a policy, has no effect, so it is reported too.

    ## Why it is bad
    The suppressed problem no longer exists. The comment would suppress the next finding of that kind, although nobody
    has reviewed it.

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


class UnusedWaiver(ReportedElsewhere):
    """A waiver of a policy suppresses no finding.

    ## What it does
    Reports a waiver for a rule that the policy does not have, and a waiver for a checked program that has no finding of
    this rule. If the check covers a folder, it also reports a waiver whose program has a misspelt name.

    ## Why it is bad
    A waiver with a misspelt name does not do what its author wants. A waiver that is no longer needed would suppress
    the next finding of that rule, although nobody has reviewed it.

    ## Example
    ```yaml policy
    policy: payments
    guardrails:
      - {name: paid-once, at_most_once: {tool: pay}}
    waivers:
      - {program: settle, rule: paid-once, reason: 'two instalments, see FIN-12', expiry: 2099-12-31}
    ```

    The program pays once:

    ```yaml
    name: settle
    tools: {pay: {effect: write, idempotent: true}}
    steps:
      - {id: pay, type: tool, tool: pay}
    ```

    ## Use instead
    Remove the waiver:

    ```yaml policy
    policy: payments
    guardrails:
      - {name: paid-once, at_most_once: {tool: pay}}
    ```

    ```yaml
    name: settle
    tools: {pay: {effect: write, idempotent: true}}
    steps:
      - {id: pay, type: tool, tool: pay}
    ```
    """

    code = "SW702"
    name = "unused-waiver"
    severity = Severity.WARNING


class UnknownToolInPolicy(ReportedElsewhere):
    """A list of a policy names a tool that nothing else names.

    ## What it does
    Reports a tool in `allow` or `four_eyes` if no program of the check calls it or declares it, and no policy of the
    check declares it under `tools`. This needs a check that covers a folder and could judge every program.

    ## Why it is bad
    The name is probably misspelt. A misspelt name in `four_eyes` protects nothing. A name in `allow` that no tool has
    today is an open door for a later tool of that name.

    ## Example
    ```yaml policy
    policy: payments
    tools: {release: {suspends: true}}
    allow: [pay, release]
    four_eyes: [relase]
    ```

    One person may start this run and release the payment:

    ```yaml
    name: settle
    tools: {release: {effect: write, idempotent: true}, pay: {effect: write, idempotent: true}}
    steps:
      - {id: release, type: tool, tool: release}
      - {id: pay, type: tool, tool: pay}
    ```

    ## Use instead
    ```yaml policy
    policy: payments
    tools: {release: {suspends: true}}
    allow: [pay, release]
    four_eyes: [release]
    ```

    ```yaml
    name: settle
    tools: {release: {effect: write, idempotent: true}, pay: {effect: write, idempotent: true}}
    steps:
      - {id: release, type: tool, tool: release}
      - {id: pay, type: tool, tool: pay}
    ```
    """

    code = "SW703"
    name = "unknown-tool-in-policy"
    severity = Severity.WARNING


class StaleBaseline(ReportedElsewhere):
    """A baseline lists findings that do not exist any more.

    ## What it does
    Reports a baseline with entries that match no finding, at the first of them. An entry counts only if its file was
    checked in this run; if the check covers a folder, also if its file is gone. `--statistics` lists these entries.

    ## Why it is bad
    The finding was fixed. The entry would hide the same finding again if the mistake came back.

    ## Example
    ```json
    {"version": 1, "findings": [
      {"file": "example.yaml", "code": "SW212", "step": "", "message": "input `currency` is never read", "count": 1}]}
    ```

    The input is gone:

    ```yaml
    name: settle
    inputs: {amount: {type: number, minimum: 0}}
    steps:
      - {id: done, type: end, output: {amount: $amount}}
    ```

    ## Use instead
    Write the baseline again with `--write-baseline`:

    ```json
    {"version": 1, "findings": []}
    ```

    ```yaml
    name: settle
    inputs: {amount: {type: number, minimum: 0}}
    steps:
      - {id: done, type: end, output: {amount: $amount}}
    ```
    """

    code = "SW704"
    name = "stale-baseline"
    severity = Severity.WARNING


class UnconfirmedWitness(GuardrailRule):
    """The machine did not confirm a witness of the checker. This is a bug in Stepward.

    ## What it does
    For every certain violation of a guardrail, the checker computes a run: inputs, and the answers of tools and models.
    The machine replays this run before the violation is reported. This rule reports a replay that did not show the
    violation, and says what the machine did instead.

    ## Why it is bad
    The checker and the machine interpret the program differently, so one of them is wrong. Do not rely on the
    violation, or on a `proved` of the same property. Please report the bug together with the program.

    ## Example
    No program should have this finding. Here it would be at `refund`, if the machine did not reach `refund` after it
    skipped `check`:

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
    You do not have to change the program. If the graph alone shows that the rule holds, no witness is needed:

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
    """The second checker did not accept a proof of the first checker. This is a bug in Stepward.

    ## What it does
    A second checker checks every proof again. It interprets the program by itself, and shares with the engine only the
    parsed program and a few basic functions. Reports a proof that the second checker does not accept, and says why. The
    property is then `unknown`.

    ## Why it is bad
    The two checkers interpret the program differently, so one of them is wrong. The property may be broken. Please
    report the bug together with the program.

    ## Example
    No program should have this finding. Here it would be at `check-before-refund`, if the second checker found a path
    to `refund` that avoids `check`:

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
    You do not have to change the program. If no path avoids `check`, both checkers accept the proof:

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
    """An internal error stopped a part of the check. This is a bug in Stepward.

    ## What it does
    Reports an exception that no program should cause. The message says where the exception occurred and which part of
    the check stopped: a rule, the check of one property, the check of a program, a fix or a report. All other parts are
    completed, and the command exits with 2. With `STEPWARD_DEBUG=1` in the environment the traceback is printed on
    standard error.

    ## Why it is bad
    The findings of this part are missing. A property whose check stopped is `unknown`, and SW408 says so. This finding
    can't be suppressed. Please report the bug together with the program and the traceback.

    ## Example
    No program should have this finding. Here it would be at the name of the program, if the search for dead branches
    stopped with an error:

    ```yaml
    name: greeting
    inputs: {formal: {type: boolean}}
    steps:
      - {id: is_formal, type: condition, condition: $formal, then: long, otherwise: short}
      - {id: long, type: end, output: "'Good morning'"}
      - {id: short, type: end, output: "'Hi'"}
    ```

    ## Use instead
    You do not have to change the program. Until the bug is fixed, it may help to write the named part in another form:

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
        for failure in failures:
            parts.setdefault((failure.error, failure.place), {})[failure.part] = None
        return [
            self.finding(_message(list(named), error, place), REPORT_IT, Place(("name",), key=True))
            for (error, place), named in parts.items()
        ]


def _message(parts: list[str], error: str, place: str) -> str:
    others = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return f"an internal error ended {', '.join(parts[:NAMED])}{others}: {error} ({place})"
