"""SW401 to SW409: do the rules over all runs hold. The verdicts come from `validator/engine/guardrails.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, PolicyTag
from stepward.validator.reasons import UnknownReason
from stepward.validator.rules.base import EngineRule, Rule
from stepward.validator.rules.conditions import undecided_conditions
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.source import Path, Place

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy

_HARM = {
    "effect": ("none", "read", "write"),
    "idempotent": ("true", "false"),
    "suspends": ("false", "true"),
    "echoes": ("false", "true"),
}
"""What a policy may contradict, with the values from the most harmless on."""


class GuardrailRule(EngineRule):
    """A rule that reports verdicts on guardrails."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the verdicts that carry this rule's code."""
        if not context.facts.has_control_flow:
            return
        for outcome in context.verdicts.outcomes:
            if outcome.code == self.code:
                _, message, help, place, step, related, evidence, tag = outcome
                yield self.finding(message, help, place, step=step, related=related, evidence=evidence, policy=tag)


class GuardrailBypassed(GuardrailRule):
    """A path leads to a protected step without passing its guard.

    ## What it does
    Reports every step that a guardrail `protects`, if the step can start before the guard that the guardrail
    `requires`. The finding shows the path. If the guard is a step, it counts only after it succeeded, and not if it
    failed, was skipped or used a fallback. If the guard is a branch, it counts when the branch is taken. A sub-step
    does not come before its siblings in a parallel step. A path whose conditions contradict each other does not count:
    the machine confirms every run that is reported.

    ## Why it is bad
    The guardrail exists because this must not happen: for example, a refund without approval, or a deletion without
    proof. In such a run, the machine blocks the step, and the run ends FAILED.

    ## Example
    The two conditions differ in one operator, so an amount of exactly 500 is paid without an approval:

    ```yaml
    name: refund
    inputs: {amount: {type: number, minimum: 0}}
    tools: {ask_manager: {effect: none}, pay_large: {effect: write, idempotent: true}, load: {effect: read}}
    guardrails:
      - {name: manager-before-large, protects: {tool: pay_large}, requires: {tool: ask_manager}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 500, then: ask, otherwise: account}
      - {id: ask, type: tool, tool: ask_manager, next_step: account}
      - {id: account, type: tool, tool: load, next_step: which}
      - {id: which, type: condition, condition: $amount >= 500, then: large, otherwise: small}
      - {id: large, type: tool, tool: pay_large}
      - {id: small, type: end}
    ```

    ## Use instead
    A path that avoids `ask` would need an amount that is above 500 and not above 500. No such amount exists, so the
    guardrail is proved:

    ```yaml
    name: refund
    inputs: {amount: {type: number, minimum: 0}}
    tools: {ask_manager: {effect: none}, pay_large: {effect: write, idempotent: true}, load: {effect: read}}
    guardrails:
      - {name: manager-before-large, protects: {tool: pay_large}, requires: {tool: ask_manager}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 500, then: ask, otherwise: account}
      - {id: ask, type: tool, tool: ask_manager, next_step: account}
      - {id: account, type: tool, tool: load, next_step: which}
      - {id: which, type: condition, condition: $amount > 500, then: large, otherwise: small}
      - {id: large, type: tool, tool: pay_large}
      - {id: small, type: end}
    ```
    """

    code = "SW401"
    name = "guardrail-bypassed"


class GuardrailStale(GuardrailRule):
    """The guard is on every path, but a variable that it read is assigned between it and the protected step.

    ## What it does
    A guard that is a branch becomes stale when a variable that its condition reads is assigned (even the same value) or
    becomes undefined. Reports a protected step that can start while its guard is stale, and shows such a run. To turn
    this off, write `fresh: false` in the guardrail. A run that avoids the guard completely is SW401.

    ## Why it is bad
    The approved value is not the value that is used: the check read 500, and 525 is paid. The machine blocks the step
    in such a run.

    ## Example
    The limit is checked before the fee is added. The witness has `sum = 0`, and any sum up to 500 shows the same
    violation.

    ```yaml
    name: pay_with_fee
    inputs: {sum: {type: number}}
    tools: {transfer: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    guardrails:
      - {name: limit-before-transfer, protects: {tool: transfer}, requires: {step: within_limit, branch: then}}
    steps:
      - {id: start, type: set, set: {amount: $sum}}
      - {id: within_limit, type: condition, condition: $amount <= 500, then: add_fee, otherwise: refuse}
      - {id: add_fee, type: set, set: {amount: $amount + 25}, next_step: pay}
      - {id: pay, type: tool, tool: transfer, args: {amount: $amount}, is_terminal: true}
      - {id: refuse, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: pay_with_fee
    inputs: {sum: {type: number}}
    tools: {transfer: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    guardrails:
      - {name: limit-before-transfer, protects: {tool: transfer}, requires: {step: within_limit, branch: then}}
    steps:
      - {id: add_fee, type: set, set: {amount: $sum + 25}}
      - {id: within_limit, type: condition, condition: $amount <= 500, then: pay, otherwise: refuse}
      - {id: pay, type: tool, tool: transfer, args: {amount: $amount}, is_terminal: true}
      - {id: refuse, type: end, outcome: failure}
    ```
    """

    code = "SW402"
    name = "guardrail-stale"


class ForbiddenState(GuardrailRule):
    """A step can start that a `never` rule forbids, or that calls a tool which the policy does not allow.

    ## What it does
    Reports a reachable step that a `never` rule without `when` selects, and a call of a tool that is not on a policy's
    `allow` list. If the rule has a `when`, it is broken if a run can start the step while the expression holds, or
    while the expression can't be evaluated. A `when` on the `allow` list has to hold at every call of the tool.
    A proof assumes that no number that a `when` calculates has over 1,000 digits. If one has in a run, the machine does
    not start the step.

    ## Why it is bad
    The guardrail or the policy forbids exactly this. The machine blocks the step, and the run ends FAILED.

    ## Example
    ```yaml
    name: close_account
    tools: {lock_account: {effect: write, idempotent: true}, delete_account: {effect: write, idempotent: true}}
    guardrails:
      - {name: accounts-are-kept, never: {tool: delete_account}}
    steps:
      - {id: lock, type: tool, tool: lock_account}
      - {id: delete, type: tool, tool: delete_account}
    ```

    With this policy, the call is a second finding, because `delete_account` is not on the list:

    ```yaml policy
    policy: account-tools
    allow: [lock_account]
    ```

    ## Use instead
    ```yaml
    name: close_account
    tools: {lock_account: {effect: write, idempotent: true}, delete_account: {effect: write, idempotent: true}}
    guardrails:
      - {name: accounts-are-kept, never: {tool: delete_account}}
    steps:
      - {id: lock, type: tool, tool: lock_account}
    ```
    """

    code = "SW403"
    name = "forbidden-state"


class RepeatedEffect(GuardrailRule):
    """A run can perform an action twice that it may perform only once.

    ## What it does
    Reports every call that an `at_most_once` guardrail selects, if a run can perform it a second time. A second visit
    of a step always counts as a second time. A retry counts too, unless the tool is idempotent. A repeat after a crash
    does not count. A path whose conditions contradict each other does not count.

    ## Why it is bad
    The customer is paid, charged or notified twice. The machine blocks the second call, and the run ends FAILED.

    ## Example
    When `mail` fails, its `error_step` opens a second contract:

    ```yaml
    name: new_contract
    tools: {open_contract: {effect: write, idempotent: true}, mail_contract: {effect: write, idempotent: true}}
    guardrails:
      - {name: one-contract, at_most_once: {tool: open_contract}}
    steps:
      - {id: open, type: tool, tool: open_contract, max_visits: 2, error_step: gave_up, next_step: mail}
      - {id: mail, type: tool, tool: mail_contract, error_step: open, next_step: done}
      - {id: done, type: end}
      - {id: gave_up, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: new_contract
    tools: {open_contract: {effect: write, idempotent: true}, mail_contract: {effect: write, idempotent: true}}
    guardrails:
      - {name: one-contract, at_most_once: {tool: open_contract}}
    steps:
      - {id: open, type: tool, tool: open_contract, error_step: gave_up}
      - {id: mail, type: tool, tool: mail_contract, on_error: retry, error_step: gave_up, next_step: done}
      - {id: done, type: end}
      - {id: gave_up, type: end, outcome: failure}
    ```
    """

    code = "SW404"
    name = "repeated-effect"


class MissingFollowUp(GuardrailRule):
    """A run can end without the step that has to follow.

    ## What it does
    Reports every step at which a run can end after the `first` step of a `followed_by` guardrail succeeded, if the
    `then` step has not started since. These endings count: declared endings, failures, uncovered conditions and a
    used-up `max_visits`. With `ends: success`, only runs with the status SUCCESS count. With `ends: any`, cancelled
    runs and used-up budgets count too. What starts in another branch, or in another item that runs at once, comes after
    the `first` step only if its branch depends on that of the `first` step. A rule of a body asks the same where an
    item, a branch or a called program ends.

    ## Why it is bad
    For example, a lock is never released, or a payment is never recorded. Often this happens only in runs in which
    another step failed.

    ## Example
    If `migrate` fails, the lock is not released:

    ```yaml
    name: locked_migration
    tools: {take_lock: {effect: write}, rewrite_table: {effect: write}, return_lock: {effect: write}}
    guardrails:
      - {name: lock-is-returned, followed_by: {first: {tool: take_lock}, then: {tool: return_lock}}}
    steps:
      - {id: lock, type: tool, tool: take_lock}
      - {id: migrate, type: tool, tool: rewrite_table}
      - {id: unlock, type: tool, tool: return_lock}
    ```

    ## Use instead
    ```yaml
    name: locked_migration
    tools: {take_lock: {effect: write}, rewrite_table: {effect: write}, return_lock: {effect: write}}
    guardrails:
      - {name: lock-is-returned, followed_by: {first: {tool: take_lock}, then: {tool: return_lock}}}
    steps:
      - {id: lock, type: tool, tool: take_lock}
      - {id: migrate, type: tool, tool: rewrite_table, error_step: give_back, next_step: unlock}
      - {id: unlock, type: tool, tool: return_lock, is_terminal: true}
      - {id: give_back, type: tool, tool: return_lock, outcome: failure}
    ```
    """

    code = "SW405"
    name = "missing-follow-up"


class ExclusiveBroken(GuardrailRule):
    """A run can perform two effects of which it may perform only one.

    ## What it does
    Reports every step at which a run can perform both sides of an `exclusive` guardrail, in any order, or at once in a
    parallel step. A side counts as soon as it starts, even if it then fails. A path whose conditions contradict each
    other does not count.

    ## Why it is bad
    For example, an order is shipped and also cancelled, or a request is granted and also refused. The machine blocks
    the second effect. The run ends FAILED, but the first effect has happened.

    ## Example
    ```yaml
    name: order
    tools: {ship_order: {effect: write, idempotent: true}, cancel_order: {effect: write, idempotent: true}}
    guardrails:
      - {name: ship-or-cancel, exclusive: [{tool: ship_order}, {tool: cancel_order}]}
    steps:
      - {id: ship, type: tool, tool: ship_order, error_step: cancel, next_step: done}
      - {id: cancel, type: tool, tool: cancel_order, outcome: failure}
      - {id: done, type: end}
    ```

    ## Use instead
    ```yaml
    name: order
    tools: {reserve_stock: {effect: write}, ship_order: {effect: write}, cancel_order: {effect: write}}
    guardrails:
      - {name: ship-or-cancel, exclusive: [{tool: ship_order}, {tool: cancel_order}]}
    steps:
      - {id: reserve, type: tool, tool: reserve_stock, error_step: cancel, next_step: ship}
      - {id: ship, type: tool, tool: ship_order, is_terminal: true}
      - {id: cancel, type: tool, tool: cancel_order, outcome: failure}
    ```
    """

    code = "SW406"
    name = "exclusive-broken"


class VacuousGuardrail(GuardrailRule):
    """A guardrail names a step, a branch or a tool that the program does not have, or an `end` step without effect.

    ## What it does
    Reports a guardrail of the program if one of its selectors matches no step; a guardrail of a body, if it matches
    none there. It reports an `end` step as G, as `first` of `followed_by`, under `at_most_once`, and as both sides of
    `exclusive`: nothing comes after it. What a guardrail requires is reported once, and not as SW401 or SW405 at each
    step, if it is misspelt or an `end` step. `never` without `when` is meant to match nothing. Of a policy it reports a
    rule that matches no step in any checked program, and the declaration of a tool whose name is misspelt. If the step
    exists but no run reaches it, SW102 or SW103 is reported instead.

    ## Why it is bad
    A guardrail that selects nothing holds in every run, because it applies to none. Often a tool or a step was renamed,
    and the new name is not protected.

    ## Example
    ```yaml
    name: refund
    tools: {check_order: {effect: read}, issue_refund: {effect: write, idempotent: true}}
    guardrails:
      - {name: check-before-refund, protects: {tool: send_refund}, requires: {step: check}}
    steps:
      - {id: check, type: tool, tool: check_order}
      - {id: refund, type: tool, tool: issue_refund}
    ```

    ## Use instead
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

    code = "SW407"
    name = "vacuous-guardrail"


class Unproved(GuardrailRule):
    """A guardrail, or the coverage of a condition, is neither proved nor refuted.

    ## What it does
    Reports a guardrail, the coverage of a condition, or the `exclusive: true` of a condition, if Stepward can neither
    prove nor refute it. The finding says why. If Stepward found a state that would break the property, but does not
    know whether the state can occur, the message names this state. A `when` with a syntax error or an unknown name is
    reported here too. The limits count units of work and not seconds, so the same program gets the same verdict on
    every machine. There is also a time limit, 60 seconds or the value of `--time-limit`, for a check that does not end.
    If it is reached, a finding at the name of the program says so.

    ## Why it is bad
    The property may be broken, and nobody knows. If this were only a warning, the gate would accept exactly the
    programs that are hardest to check. So it is an error: the gate fails closed.

    ## Example
    Every code matches the pattern, so the two cases cover all codes. But a proof can't use the `\\b` of a pattern:

    ```yaml
    name: route
    inputs: {code: {type: string, pattern: '^(EU|US)\\b-[0-9]+$'}}
    steps:
      - id: by_code
        type: condition
        cases:
          - {name: europe, when: $code starts_with 'EU-', then: europe}
          - {name: america, when: $code starts_with 'US-', then: america}
      - {id: europe, type: end}
      - {id: america, type: end}
    ```

    ## Use instead
    ```yaml
    name: route
    inputs: {code: {type: string, pattern: '^(EU|US)\\b-[0-9]+$'}}
    steps:
      - {id: by_code, type: condition, condition: $code starts_with 'EU-', then: europe, otherwise: america}
      - {id: europe, type: end}
      - {id: america, type: end}
    ```
    """

    code = "SW408"
    name = "unproved"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the properties that no layer decided, with what was tried."""
        yield from super().check(context)
        yield from undecided_conditions(context, self)

    def stopped(self, context: Context) -> Finding:
        """Return the finding that the clock has stopped a part of the check.

        It is needed because some findings, such as that a case is never taken, are just missing without their proof.
        """
        clock = context.proofs.clock
        message = f"this program was not checked completely: {clock.words}"
        return self.finding(message, f"{clock.help}; the verdicts that exist still count", Place(("name",), key=True))

    def unchecked(self, reason: UnknownReason) -> Finding:
        """Return the finding that the clock has stopped the check before the program was read."""
        return self.finding(f"this program was not checked: {reason.reason}", reason.help, Place(("name",), key=True))


class PolicyContradiction(Rule):
    """The program declares a tool as less harmful than a policy does, and the policy takes precedence.

    ## What it does
    Reports an entry of `tools`, of the program or of one that it calls, that declares a tool as less harmful than a
    policy does. That is a smaller `effect`, `idempotent: true` if the policy says false, or `suspends: false` or
    `echoes: false` if the policy says true. All other checks use the declaration of the policy. Only a waiver in the
    policy can suppress this finding.

    ## Why it is bad
    Otherwise the author of a program could declare a payment as a read. Then no rule about writes would apply to it.

    ## Example
    ```yaml
    name: membership
    tools: {charge_card: {effect: write, idempotent: true}}
    steps:
      - {id: charge, type: tool, tool: charge_card}
    ```

    ```yaml policy
    policy: payment-facts
    tools: {charge_card: {effect: write, idempotent: false}}
    ```

    ## Use instead
    ```yaml
    name: membership
    tools: {charge_card: {effect: write, idempotent: false}}
    steps:
      - {id: charge, type: tool, tool: charge_card}
    ```
    """

    code = "SW409"
    name = "policy-contradiction"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every claim of the manifest, or of that of a called program, that a policy contradicts."""
        calls = [step for step in context.facts.flow.steps if isinstance(step, InvokeStep)]
        manifests = [((), context.facts.program.tools or {}), *((step.home, step.tools) for step in calls)]
        for policy in context.facts.meaning.policies:
            for name, fact in (policy.tools or {}).items():
                for path, tools in manifests:
                    if name in tools:
                        yield from self._claims(policy, (*path, "tools", name), tools[name], fact)

    def _claims(self, policy: Policy, path: Path, claim: ToolSpec, fact: ToolSpec) -> Iterator[Finding]:
        name = str(path[-1])
        declared = claim.model_fields_set & fact.model_fields_set
        for field in [one for one in _HARM if one in declared]:
            claimed, known = str(getattr(claim, field)).lower(), str(getattr(fact, field)).lower()
            if _HARM[field].index(claimed) >= _HARM[field].index(known):
                continue
            message = (
                f"`{name}` declares `{field}: {claimed}`, but policy `{policy.policy}` declares `{field}: {known}`"
            )
            place = Place((*path, field))
            related = (
                [Label(Place(("tools", name, field)), "the policy declares it here", policy.document)]
                if policy.document is not None
                else []
            )
            yield self.finding(
                message, f"write `{field}: {known}`", place, related=related, policy=PolicyTag(policy.policy, name)
            )
