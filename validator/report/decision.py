"""What a campaign means for a release: release, do not release, or not known, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.sabotage.invariants import Invariant
from stepward.sabotage.registry import ATTACKS
from stepward.validator.report.text import counted

if TYPE_CHECKING:
    from stepward.sabotage.campaign import Matrix, Row


class ReleaseVerdict(StrEnum):
    """What a campaign means for a release."""

    RELEASE = "release"
    REFUSE = "do_not_release"
    UNKNOWN = "not_known"


class Decision(NamedTuple):
    """A verdict with its reasons, in words."""

    verdict: ReleaseVerdict
    reasons: tuple[str, ...]


class NotRun(NamedTuple):
    """How many attacks did not run: they got no turn, no worker lived through one, no run came to what they attack,
    they do not apply to the program, or an option leaves them out."""

    no_turn: int
    died: int
    unreached: int
    idle: int
    left_out: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> NotRun:
        """Count the attacks of some rows that did not run."""
        rows = [row for row in rows if not row.ran]
        left_out = sum(row.is_left_out for row in rows)
        idle = sum(row.misses is not None for row in rows) - left_out
        fitting = [row for row in rows if row.misses is None]
        died = sum(not row.cases and row.lost > 0 for row in fitting)
        unreached = sum(row.cases > 0 for row in fitting)
        return cls(len(fitting) - died - unreached, died, unreached, idle, left_out)

    @property
    def is_open(self) -> bool:
        """Whether an attack did not run that could have broken something here."""
        return self.no_turn + self.died + self.unreached > 0

    def open_words(self) -> list[str]:
        """Return which attacks did not run that could have broken something here."""
        their = "its" if self.no_turn == 1 else "their"
        words = {
            f"{counted(self.no_turn, 'attack')} did not get {their} turn": self.no_turn,
            f"the workers died that played {counted(self.died, 'attack')}": self.died,
            f"no run came to what {counted(self.unreached, 'attack needs', 'attacks need')}": self.unreached,
        }
        return [word for word, count in words.items() if count]


_SOUND: Final = "nothing broke"

_MEANS: Final = {
    ReleaseVerdict.RELEASE: "release `{}`",
    ReleaseVerdict.REFUSE: "do not release `{}`",
    ReleaseVerdict.UNKNOWN: "not known whether to release `{}`",
}


def decide(matrix: Matrix) -> Decision:
    """Return what a campaign means for a release.

    Any breach forbids it, wherever it was found: the machine is the same. What did not run leaves it open, but for
    attacks that have nothing to attack in the program, and those that `--no-specimens` leaves out.
    """
    if matrix.breaches:
        broken = dict.fromkeys(Invariant[script.invariant.upper()].value for script in matrix.breaches)
        promises = "; ".join(broken)
        breaches = counted(len(matrix.breaches), "attack")
        return Decision(ReleaseVerdict.REFUSE, (f"{breaches} broke what the machine promises: {promises}",))
    reasons = NotRun.of(matrix.rows).open_words()
    if matrix.unconfirmed:
        reasons.insert(0, f"{counted(len(matrix.unconfirmed), 'breach', 'breaches')} did not show again")
    elif reasons or len(matrix.rows) < len(ATTACKS) or not matrix.ran:
        reasons.insert(0, _SOUND if matrix.ran else "nothing ran")
    if len(matrix.rows) < len(ATTACKS):
        were = "was" if len(matrix.rows) == 1 else "were"
        reasons.append(f"only {len(matrix.rows)} of {len(ATTACKS)} attacks {were} asked for")
    if reasons:
        return Decision(ReleaseVerdict.UNKNOWN, tuple(reasons))
    return Decision(ReleaseVerdict.RELEASE, ("nothing broke, and every attack that applies to it ran",))


def decision_words(decision: Decision, program: str) -> str:
    """Return a decision as a sentence: the verdict, then why."""
    first, *others = decision.reasons
    link = ", but " if first == _SOUND else ", and "
    why = link.join([first, ", and ".join(others)]) if others else first
    return f"{_MEANS[decision.verdict].format(program)}: {why}"
