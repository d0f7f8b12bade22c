"""Adds to proved properties the function that writes their certificate."""

from __future__ import annotations

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.engine.certificates.certificate import Certificate, NoCertificate
from stepward.validator.engine.certificates.ground import TooMuch
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.witnesses.witness import without_waivers
from stepward.validator.findings import Property, Verdict


def certified(one: Property, facts: ProgramFacts) -> Property:
    """Return a property; if it is proved, with a function that writes its certificate or raises NoCertificate."""
    if one.verdict is not Verdict.PROVED:
        return one
    meaning, proof_parts = facts.meaning, one.evidence.certificate

    def certify() -> Certificate:
        if not facts.has_control_flow:
            raise NoCertificate("the program does not say where control goes (SW101, SW106, SW109)")
        if not proof_parts:
            raise NoCertificate("its layer keeps no grounds")
        try:
            parts = tuple(part.to_data() for part in proof_parts)
        except TooMuch as error:
            raise NoCertificate(str(error)) from None
        except TooMany:
            raise NoCertificate("its classes are too many to be written down") from None
        policies = without_waivers(meaning.policies)
        return Certificate(one.name, one.rule, meaning.program, policies, parts, one.policy, one.number, one.step)

    return one._replace(certify=certify)
