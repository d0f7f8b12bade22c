"""SW401 to SW409: do the rules over all runs hold. The verdicts come from `validator/guardrails.py`."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Evidence, Finding, Label, Property, Verdict
from stepward.validator.guardrails import NOT_YET
from stepward.validator.rules.base import Rule
from stepward.validator.rules.conditions import overlap_open, uncovered
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.policy import Policy
from stepward.vm.reading.source import Place

_EFFECTS = ("none", "read", "write")


class _Verdicts(Rule):
    """A rule whose findings are verdicts on guardrails."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the verdicts that carry this rule's code."""
        if not context.has_control_flow:
            return
        for outcome in context.outcomes:
            if outcome.code == self.code:
                yield self.finding(
                    outcome.message,
                    outcome.help,
                    outcome.place,
                    step=outcome.step,
                    related=outcome.related,
                    evidence=outcome.evidence,
                    policy=outcome.policy,
                )


class GuardrailBypassed(_Verdicts):
    """A path leads to a protected step on which its guard never came."""

    code = "SW401"
    name = "guardrail-bypassed"


class GuardrailStale(_Verdicts):
    """The guard came, but a variable that it read has changed since."""

    code = "SW402"
    name = "guardrail-stale"


class ForbiddenState(_Verdicts):
    """A step starts that a `never` rule forbids, or calls a tool that the policy does not allow."""

    code = "SW403"
    name = "forbidden-state"


class RepeatedEffect(_Verdicts):
    """A run can perform twice what it may perform once."""

    code = "SW404"
    name = "repeated-effect"


class MissingFollowUp(_Verdicts):
    """A run can end without the step that has to follow."""

    code = "SW405"
    name = "missing-follow-up"


class ExclusiveBroken(_Verdicts):
    """A run can perform two things of which it may perform one."""

    code = "SW406"
    name = "exclusive-broken"


class VacuousGuardrail(_Verdicts):
    """A guardrail that selects nothing, or protects what can't be reached, guards nothing."""

    code = "SW407"
    name = "vacuous-guardrail"


class Unproved(_Verdicts):
    """A guardrail or the coverage of a condition is neither proved nor refuted; a gate fails closed."""

    code = "SW408"
    name = "unproved"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what no layer decided, with what was tried."""
        yield from super().check(context)
        for number, step in uncovered(context):
            missing = "`then`" if step.condition is not None and step.then is None else "`otherwise`"
            message = f"it is neither proved nor refuted that `{step.id}` always takes a branch: {NOT_YET}"
            evidence = Evidence("graph", reason=NOT_YET)
            help = f"add {missing}, or wait for the engine"
            yield self.finding(message, help, Place(("steps", number, "id")), step=step.id, evidence=evidence)
        for number, step in overlap_open(context):
            evidence = Evidence("graph", reason=NOT_YET)
            message = f"it is neither proved nor refuted that no two cases of `{step.id}` hold at once: {NOT_YET}"
            help = "remove `exclusive: true`: the first case that holds wins anyway; or wait for the engine"
            place = Place(("steps", number, "exclusive"))
            yield self.finding(message, help, place, step=step.id, evidence=evidence)
            context.properties.append(
                Property("exclusive cases", step.id, Verdict.UNKNOWN, evidence, 0.0, context.program.source_name)
            )


class PolicyContradiction(Rule):
    """The program's manifest claims less of a tool than the policy knows; the policy's word counts."""

    code = "SW409"
    name = "policy-contradiction"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every claim of the manifest that a policy contradicts."""
        for policy in context.meaning.policies:
            for name, fact in (policy.tools or {}).items():
                claim = (context.program.tools or {}).get(name)
                if claim is not None:
                    yield from self._claims(policy, name, claim, fact)

    def _claims(self, policy: Policy, name: str, claim: ToolSpec, fact: ToolSpec) -> Iterator[Finding]:
        both = claim.model_fields_set & fact.model_fields_set
        less: list[tuple[str, str, str]] = []
        if "effect" in both and _EFFECTS.index(claim.effect) < _EFFECTS.index(fact.effect):
            less.append(("effect", claim.effect, fact.effect))
        if "idempotent" in both and claim.idempotent and not fact.idempotent:
            less.append(("idempotent", "true", "false"))
        if "suspends" in both and fact.suspends and not claim.suspends:
            less.append(("suspends", "false", "true"))
        for field, claimed, known in less:
            message = f"`{name}` claims `{field}: {claimed}`, but policy `{policy.policy}` knows `{field}: {known}`"
            place = Place(("tools", name, field))
            related = (
                [Label(Place(("tools", name, field)), "the policy says so here", policy.document)]
                if policy.document is not None
                else []
            )
            yield self.finding(
                message, f"write `{field}: {known}`", place, related=related, policy=f"{policy.policy}/{name}"
            )
