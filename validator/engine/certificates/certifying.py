"""Adds to proved properties the function that writes their certificate."""

from __future__ import annotations

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.engine.certificates.certificate import Certificate, NoCertificate
from stepward.validator.engine.certificates.proof_part import TooMuch
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.witnesses.witness import without_waivers
from stepward.validator.findings import Property, Verdict


def certified(property_: Property, facts: ProgramFacts) -> Property:
    """Return a property; if it is proved, with a function that writes its certificate or raises NoCertificate."""
    if property_.verdict is not Verdict.PROVED:
        return property_
    meaning, proof_parts = facts.meaning, property_.evidence.certificate

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
        return Certificate(
            property_.name,
            property_.rule,
            meaning.program,
            policies,
            parts,
            property_.policy,
            property_.number,
            property_.step,
        )

    return property_._replace(certify=certify)
