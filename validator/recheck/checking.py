"""Checks the proofs of one program: takes a claim and the parts of its proof, returns the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepward.validator.recheck.claims import Property, watcher
from stepward.validator.recheck.counts import Counts
from stepward.validator.recheck.fields import Fields
from stepward.validator.recheck.flow import has_every_branch
from stepward.validator.recheck.formulas import must_be_unsatisfiable, says_nothing, solver
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused, TooLarge, Unreadable
from stepward.validator.recheck.rules import DecisionWatcher, Watcher
from stepward.validator.recheck.search import is_ruled_out, refuted
from stepward.validator.recheck.tables import TableCheck, among_all_values
from stepward.validator.recheck.walking import Violations, explored

TABLES: Final = ("cut", "table", "states", "budget")
EVALUATION: Final = "evaluation"


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The verdict on one certificate: its claim, the checkers that were used, and why it is refused, if so."""

    claim: Property | None
    kinds: tuple[str, ...] = ()
    checkers: tuple[str, ...] = ()
    why_not: str = ""
    program: str = ""
    file: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the certificate proves its claim."""
        return not self.why_not

    def to_data(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        claim = {} if self.claim is None else self.claim._asdict()
        return {
            "file": self.file,
            "program": self.program,
            **{name: value for name, value in claim.items() if value is not None},
            "kinds": list(self.kinds),
            "checkers": list(self.checkers),
            "verdict": "accepted" if self.is_accepted else "refused",
            **({"reason": self.why_not} if self.why_not else {}),
        }


class Checker:
    """Checks the proofs of one program; intermediate results are shared between them.

    `solves_all` has each formula solved, even where a search of all states has shown that nothing can be broken.
    """

    def __init__(self, reading: Reading, *, solves_all: bool) -> None:
        self.reading = reading
        self.solves_all = solves_all

    def is_plain(self, claim: Property) -> bool:
        """Return whether a claim holds for any values; raises Refused for a claim about something outside of the
        program.

        Then no proof is needed: a condition has every branch, or no path of the graph breaks the rule.
        """
        watched = watcher(claim, self.reading)
        if isinstance(watched, DecisionWatcher):
            return not watched.exclusive and has_every_branch(watched.part)
        return not explored(self.reading, watched, is_blind=True)

    def verdict(self, claim: Property, parts: Sequence[Any]) -> Rechecked:
        """Return the verdict on the parts of a proof; raises Refused with the reason for a bad part."""
        return _Verdict(self.reading, claim, solves_all=self.solves_all).of(parts)


class _Verdict:
    """The check of one claim."""

    def __init__(self, reading: Reading, claim: Property, *, solves_all: bool) -> None:
        self.reading = reading
        self.solves_all = solves_all
        self.claim = claim
        self.kinds: dict[str, None] = {}
        self.checkers: dict[str, None] = {}

    def of(self, parts: Sequence[Any]) -> Rechecked:
        left: Violations | None = None
        why_not = ""
        try:
            for number, part in enumerate(parts):
                left = self._part(Fields(part, f"`parts[{number}]` of a certificate"), left)
            if left is None:
                raise Refused("it has no parts, and so proves nothing")
            left = self._within_visits(left)
            if left:
                step, kind = min(left)
                name = self.reading.steps[step].id
                raise Refused(f"no part of it rules out that the rule is broken at `{name}` ({kind})")
        except (TooLarge, Unreadable):
            raise
        except Refused as error:
            why_not = str(error)
        return Rechecked(self.claim, tuple(self.kinds), tuple(self.checkers), why_not)

    def _within_visits(self, left: Violations) -> Violations:
        """Return the violations that are left where visits, items and rounds are counted; no part has to speak of the
        others.

        A part may be about some places only: the engine asks nothing about a place that counts keep runs from.
        """
        if not left or not len(Counts(self.reading)):
            return left
        return left & explored(self.reading, watcher(self.claim, self.reading), counts=True)

    def _part(self, part: Fields, left: Violations | None) -> Violations:
        """Return the violations that this proof part, with the parts before it, leaves open."""
        kind = part.text("kind")
        self.kinds[kind] = None
        watched = watcher(self.claim, self.reading)
        if kind in TABLES:
            self.checkers[EVALUATION] = None
            violations = TableCheck(self.reading, watched, part).violations()
            return violations if left is None else left & violations
        if kind == "cases":
            self.checkers[EVALUATION] = None
            violations = among_all_values(self.reading, watched, part)
            return violations if left is None else left & violations
        if kind == "formula":
            return self._by_formulas(part, watched, left)
        raise Refused(f"`{kind}` is no kind of proof")

    def _by_formulas(self, part: Fields, watched: Watcher, left: Violations | None) -> Violations:
        """Return the violations left open after a search of all states, where these are few, or else after solving
        formulas."""
        known = explored(self.reading, watched) if left is None else left
        is_clear = is_ruled_out(self.reading, watched, known, is_wide=self.solves_all)
        if is_clear:
            self.checkers[EVALUATION] = None
            if not self.solves_all:
                return set()
        if not is_clear:
            self._must_not_be_refuted(watched)
        self.checkers[solver()] = None
        excluded, is_empty = _solved(part, self.reading)
        if is_clear:
            return set()
        if is_empty and not is_ruled_out(self.reading, watched, known, is_wide=True):
            raise Refused("a formula just says `false`, and no look at the states shows why")
        return set() if excluded is None else known - excluded

    def _must_not_be_refuted(self, watched: Watcher) -> None:
        """Refuse a claim that single values break: a formula that says otherwise is not about this program."""
        violations = refuted(self.reading, watched)
        if violations:
            step, kind = min(violations)
            raise Refused(f"a run can break the rule at `{self.reading.steps[step].id}` ({kind})")


def _solved(part: Fields, reading: Reading) -> tuple[Violations | None, bool]:
    """Return the violations that formulas exclude (None for all), after every formula was found unsatisfiable.

    Also returns whether one of the formulas is just `false`.
    """
    violations: Violations | None = None
    if part.data.get("places") is not None:
        violations = set()
        for entry in part.objects("places"):
            step = reading.position.get(entry.text("step"))
            if step is None:
                raise Refused(f"the program has no step `{entry.text('step')}`")
            violations.add((step, entry.text("kind")))
            entry.close()
    count, is_empty = 0, False
    for entry in part.objects("scripts"):
        reading.check()
        must_be_unsatisfiable(entry.text("text"), entry.text("shows"), reading.left())
        is_empty = is_empty or says_nothing(entry.text("text"))
        entry.close()
        count += 1
    part.text("kind")
    part.close()
    if not count:
        raise Refused("a proof by formulas has none")
    return violations, is_empty
