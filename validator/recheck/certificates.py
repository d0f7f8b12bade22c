"""`recheck` reads a certificate file and returns the verdict on it (specs/certificates.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from stepward.validator.recheck.checking import Checker, Rechecked
from stepward.validator.recheck.claims import Property
from stepward.validator.recheck.fields import Fields
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused
from stepward.vm.errors import DocumentError, StepwardError
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.values import ValueRefused, exact

VERSION: Final = 1
MAX_BYTES: Final = 256 << 20
"""The most bytes of a certificate file."""


def recheck(path: str | Path) -> Rechecked:
    """Return the verdict on a certificate file; raises OSError for a file that can't be read."""
    with Path(path).open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return Rechecked(None, file=str(path), why_not=f"a certificate has at most {MAX_BYTES} bytes")
    try:
        data = parsed(content.decode())
    except UnicodeDecodeError as error:
        return Rechecked(None, file=str(path), why_not=f"it is not UTF-8: byte {error.start} can't be read")
    except json.JSONDecodeError as error:
        return Rechecked(None, file=str(path), why_not=f"it is no JSON: {str(error)[:1].lower()}{str(error)[1:]}")
    except (ValueError, ArithmeticError, StepwardError) as error:
        return Rechecked(None, file=str(path), why_not=str(error))
    except RecursionError:
        return Rechecked(None, file=str(path), why_not="it is nested too deep")
    return recheck_data(data, str(path))


def parsed(text: str) -> Any:
    """Return the content of a JSON text with exact numbers; raises ValueError for other text."""
    return json.loads(text, parse_float=_decimal, parse_constant=_no_constant, object_pairs_hook=_object)


def recheck_data(data: Any, name: str = "<certificate>") -> Rechecked:
    """Return the verdict on the parsed data of a certificate."""
    claim: Property | None = None
    program = ""
    try:
        whole = Fields(data, "a certificate")
        if whole.whole("version") != VERSION:
            raise Refused(f"`version` is not {VERSION}: this version of Stepward reads no other")
        claim = _property(Fields(whole.any("proves"), "`proves`"))
        program_data = Program.from_dict(whole.any("program"))
        program = program_data.name
        policies = tuple(Policy.from_dict(entry) for entry in whole.list("policies"))
        if whole.text("digest") != digest(program_data, policies):
            raise Refused("`digest` is not that of its program and policies: one of them was changed")
        parts = whole.list("parts")
        whole.close()
        verdict = Checker(Reading(program_data, policies), solves_all=True).verdict(claim, parts)
    except DocumentError as error:
        why = f"its program or a policy is none: {error.problems[0].message}"
        return Rechecked(claim, why_not=why, file=name, program=program)
    except (Refused, StepwardError) as error:
        return Rechecked(claim, why_not=str(error), file=name, program=program)
    except RecursionError:
        return Rechecked(claim, why_not="it is nested too deep", file=name, program=program)
    return replace(verdict, file=name, program=program)


def _property(fields: Fields) -> Property:
    number = None if fields.data.get("number") is None else fields.whole("number")
    claim = Property(fields.text("property"), fields.text("rule"), fields.maybe("policy"), fields.maybe("step"), number)
    fields.close()
    return claim


def digest(program: Program, policies: tuple[Policy, ...]) -> str:
    """Return the digest by which a certificate identifies its program and policies."""
    import hashlib

    from stepward.vm.values import to_json

    text = to_json({"program": program.to_data(), "policies": [policy.to_data() for policy in policies]})
    return hashlib.sha256(text.encode()).hexdigest()


def _decimal(text: str) -> Any:
    try:
        return exact(Decimal(text))
    except ValueRefused as error:
        raise ValueError(str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object names `{next(name for name in names if names.count(name) > 1)}` twice")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is no number")
