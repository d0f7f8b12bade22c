"""Checks every proof with the second checker: a proof is reported only if that accepts it in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stepward.validator.analysis.outcomes import ALLOW_LIST, Origin
from stepward.validator.context import Context
from stepward.validator.engine.certificates.proof_part import TooMuch
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.findings import COVERAGE, EXCLUSIVE_CASES, Evidence, Finding, Property, Verdict
from stepward.validator.reasons import UnknownReason
from stepward.validator.recheck.checking import Checker
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused, TooLarge, Unreadable
from stepward.vm.reading.source import Place

REFUSED: Final = "SW902"
UNPROVED: Final = "SW408"

_NO_PROOF_PARTS: Final = ({"kind": "cut"}, {"kind": "cut", "counts_visits": True})
"""The proof for layers that record no proof parts: that no path breaks the rule."""


def rechecked(properties: Sequence[Property], context: Context) -> tuple[list[Property], list[Finding]]:
    """Return properties after the second checker has checked each proof, and the findings about refused proofs.

    A property whose proof it refuses becomes unknown, and a finding says that one of the two checkers is wrong. Where
    it exceeds its bounds or the clock, the property becomes unknown, too, and a finding names the bound.
    """
    second = _Second(context)
    known = [second.checked(one) if one.verdict is Verdict.PROVED else one for one in properties]
    return known, second.findings


class _Second:
    """The second checker beside the first one, on one program."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.findings: list[Finding] = []
        self.checker = Checker(
            Reading(context.facts.program, context.facts.meaning.policies, context.proofs.clock), solves_all=False
        )

    def checked(self, one: Property) -> Property:
        """Return a proved property after the second check; an error here makes only this property unknown."""
        part = f"the second check of {_words(one)}"
        return self.context.proofs.failures.attempt(
            part, lambda: self._checked(one), lambda why: self._unproved(one, why)
        )

    def _checked(self, one: Property) -> Property:
        claim = Claim(one.name, one.rule, one.policy, one.step, one.number)
        try:
            why = "" if self.checker.is_plain(claim) else self._refusal(claim, one.evidence)
        except Unreadable as error:
            return _unknown(one, str(error))  # other findings say what is wrong with the program
        except (TooLarge, TooMuch, TooMany) as error:
            return self._unproved(
                one, UnknownReason(str(error) or "its classes are too many", "make the program smaller")
            )
        except Refused as error:
            why = str(error)
        return self._refused(one, why) if why else one._replace(rechecked=True)

    def _refusal(self, claim: Claim, evidence: Evidence) -> str:
        """Return why the proof of a claim is not accepted; empty if it is."""
        parts: Sequence[Any] = [ground.to_outline() for ground in evidence.certificate] or _NO_PROOF_PARTS
        return self.checker.verdict(claim, parts).why_not

    def _unproved(self, one: Property, why: UnknownReason) -> Property:
        reason = f"the second checker can't check the proof: {why.reason}"
        help = f"{why.help}; `--no-recheck` reports the proof without a second check"
        self._add(UNPROVED, one, f"{_words(one)} is not proved: {reason}", help)
        return _unknown(one, reason)

    def _refused(self, one: Property, why: str) -> Property:
        reason = f"the second checker does not accept the proof: {why}"
        help = "this is a bug in one of the two checkers of Stepward: please report it with the program"
        self._add(REFUSED, one, f"{_words(one)} is not proved: {reason}", help)
        return _unknown(one, reason)

    def _add(self, code: str, one: Property, message: str, help: str) -> None:
        from stepward.validator.rules.registry import RULE_BY_CODE

        policy = next((each for each in self.context.facts.meaning.policies if each.policy == one.policy), None)
        number = (one.number or 1) - 1
        place, origin = Place(), None
        if one.step is not None:
            place = self._place_of(one.step)
        if one.number is not None or one.name == "allow":
            stands = ALLOW_LIST if one.name == "allow" else Place(("guardrails", number, "name"))
            origin = Origin("allow" if one.name == "allow" else one.rule, policy, stands)
            place = stands if policy is None else place
        related = origin.labels if origin is not None and policy is not None else ()
        evidence, tag = Evidence(one.evidence.layer, reason=message), origin.tag if origin is not None else None
        rule = RULE_BY_CODE[code]()
        self.findings.append(
            rule.finding(message, help, place, step=one.step, related=related, evidence=evidence, policy=tag)
        )

    def _place_of(self, step: str) -> Place:
        number = self.context.facts.flow.position.get(step)
        if number is not None:
            return Place((*self.context.facts.flow.layout.path(number), "id"))
        (path,) = (site.path for site in self.context.facts.meaning.calls if site.call.id == step)
        return Place((*path, "id"))


def _unknown(one: Property, reason: str) -> Property:
    return one._replace(verdict=Verdict.UNKNOWN, evidence=Evidence(one.evidence.layer, reason=reason), certify=None)


def _words(one: Property) -> str:
    if one.name == COVERAGE:
        return f"that `{one.step}` always takes a branch"
    if one.name == EXCLUSIVE_CASES:
        return f"that no two cases of `{one.step}` hold at once"
    of = f" of policy `{one.policy}`" if one.policy else ""
    return f"that `{one.step}` calls what is allowed{of}" if one.name == "allow" else f"guardrail `{one.rule}`{of}"
