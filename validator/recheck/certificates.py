"""`recheck`: a certificate file in, the verdict on it out (specs/certificates.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from stepward.validator.recheck.cells import Refused
from stepward.validator.recheck.fields import Fields
from stepward.validator.recheck.formulas import must_be_unsatisfiable, says_nothing, solver
from stepward.validator.recheck.rules import Property, Watcher, watcher
from stepward.validator.recheck.search import searched
from stepward.validator.recheck.tables import Places, TableCheck, among_all_values, explored
from stepward.vm.errors import DocumentError, StepwardError
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.values import ValueRefused, exact

VERSION: Final = 1
MAX_BYTES: Final = 256 << 20
"""Bytes of a certificate file that are read."""

TABLES: Final = ("cut", "table", "states", "budget")
FORMULAS: Final = ("formula", "invariants")


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What became of one certificate: what it is about, who checked it, and why it is refused, if it is."""

    file: str
    claim: Property | None
    kinds: tuple[str, ...] = ()
    checkers: tuple[str, ...] = ()
    why_not: str = ""
    program: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the certificate proves what it says."""
        return not self.why_not

    def to_data(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        about = (
            {}
            if self.claim is None
            else {name: value for name, value in self.claim._asdict().items() if value is not None}
        )
        data = {
            "file": self.file,
            "program": self.program,
            **about,
            "kinds": list(self.kinds),
            "checkers": list(self.checkers),
        }
        return (
            data
            | {"verdict": "accepted" if self.is_accepted else "refused"}
            | ({"reason": self.why_not} if self.why_not else {})
        )


def recheck(path: str | Path) -> Rechecked:
    """Return the verdict on a certificate file; raises OSError for what can't be read."""
    with Path(path).open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return Rechecked(str(path), None, why_not=f"a certificate has at most {MAX_BYTES} bytes")
    try:
        data = parsed(content.decode())
    except UnicodeDecodeError as error:
        return Rechecked(str(path), None, why_not=f"it is not UTF-8: byte {error.start} can't be read")
    except json.JSONDecodeError as error:
        return Rechecked(str(path), None, why_not=f"it is no JSON: {error}")
    except (ValueError, ArithmeticError, StepwardError) as error:
        return Rechecked(str(path), None, why_not=str(error))
    except RecursionError:
        return Rechecked(str(path), None, why_not="it is nested too deep")
    return recheck_data(data, str(path))


def parsed(text: str) -> Any:
    """Return what a JSON text holds, its numbers exact; raises ValueError for what is none."""
    return json.loads(text, parse_float=_decimal, parse_constant=_no_constant, object_pairs_hook=_object)


def recheck_data(data: Any, name: str = "<certificate>") -> Rechecked:
    """Return the verdict on a certificate that was read."""
    check = _Check(name)
    try:
        return check.verdict(data)
    except Refused as error:
        return check.said(str(error))
    except DocumentError as error:
        return check.said(f"its program or a policy is none: {error.problems[0].message}")
    except StepwardError as error:
        return check.said(str(error))
    except RecursionError:
        return check.said("it is nested too deep")


class _Check:
    """One certificate on its way to a verdict."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.claim: Property | None = None
        self.kinds: dict[str, None] = {}
        self.checkers: dict[str, None] = {}
        self.program = ""

    def said(self, why_not: str = "") -> Rechecked:
        """Return what is known by now."""
        return Rechecked(self.name, self.claim, tuple(self.kinds), tuple(self.checkers), why_not, self.program)

    def verdict(self, data: Any) -> Rechecked:
        """Return the verdict; raises Refused with the reason for a bad one."""
        whole = Fields(data, "a certificate")
        if whole.whole("version") != VERSION:
            raise Refused(f"`version` is not {VERSION}: this version of Stepward reads no other")
        self.claim = _property(Fields(whole.any("proves"), "`proves`"))
        program = Program.from_dict(whole.any("program"))
        self.program = program.name
        policies = tuple(Policy.from_dict(entry) for entry in whole.list("policies"))
        if whole.text("digest") != digest(program, policies):
            raise Refused("`digest` is not that of its program and policies: one of them was changed")
        meaning = Meaning(program, policies)
        left: Places | None = None
        for part in whole.objects("parts"):
            left = self._part(part, meaning, left)
        whole.close()
        if left is None:
            raise Refused("it has no parts, and so proves nothing")
        if left:
            step, kind = min(left)
            raise Refused(f"no part of it rules out that the rule is broken at `{program.steps[step].id}` ({kind})")
        return self.said()

    def _part(self, part: Fields, meaning: Meaning, left: Places | None) -> Places:
        """Return what is not ruled out yet after one more part."""
        assert self.claim is not None
        kind = part.text("kind")
        self.kinds[kind] = None
        watched = watcher(self.claim, meaning)
        if kind in TABLES:
            self.checkers["evaluation"] = None
            found = TableCheck(meaning, watched, part).broken()
            return found if left is None else left & found
        if kind == "cases":
            self.checkers["evaluation"] = None
            found = among_all_values(meaning, watched, part)
            return found if left is None else left & found
        if kind in FORMULAS:
            return self._by_formulas(part, meaning, watched, left)
        raise Refused(f"`{kind}` is no kind of proof")

    def _by_formulas(self, part: Fields, meaning: Meaning, watched: Watcher, left: Places | None) -> Places:
        """Return what is left after formulas were solved, and, where states are few, after a look at all of them."""
        self.checkers[solver()] = None
        excluded, is_empty = _solved(part, meaning)
        known = explored(meaning, watched) if left is None else left
        seen = searched(meaning, watched)
        if seen is not None and not known & seen:
            self.checkers["evaluation"] = None
            return set()
        if is_empty:
            raise Refused("a formula just says `false`, and no look at the states shows why")
        return set() if excluded is None else known - excluded


def _solved(part: Fields, meaning: Meaning) -> tuple[Places | None, bool]:
    """Return the places that formulas speak of, None for all, once every formula is seen to be unsatisfiable.

    With it: whether one of them says nothing but `false`.
    """
    places: Places | None = None
    if part.data.get("places") is not None:
        places = set()
        for entry in part.objects("places"):
            step = meaning.flow.position.get(entry.text("step"))
            if step is None:
                raise Refused(f"the program has no step `{entry.text('step')}`")
            places.add((step, entry.text("kind")))
            entry.close()
    for entry in part.objects("invariants"):
        entry.whole("node")
        entry.text("text")
        entry.close()
    count, is_empty = 0, False
    for entry in part.objects("scripts"):
        must_be_unsatisfiable(entry.text("text"), entry.text("shows"))
        is_empty = is_empty or says_nothing(entry.text("text"))
        entry.close()
        count += 1
    part.text("kind")
    part.close()
    if not count:
        raise Refused("a proof by formulas has none")
    return places, is_empty


def _property(fields: Fields) -> Property:
    number = None if fields.data.get("number") is None else fields.whole("number")
    found = Property(fields.text("property"), fields.text("rule"), fields.maybe("policy"), fields.maybe("step"), number)
    fields.close()
    return found


def digest(program: Program, policies: tuple[Policy, ...]) -> str:
    """Return what a certificate names its program and policies by."""
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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object names `{next(name for name in names if names.count(name) > 1)}` twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is no number")
