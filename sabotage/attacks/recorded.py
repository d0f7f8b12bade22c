"""Scenes that were recorded with the release: each comes to what it came to then.

Other attacks hold the machine against a promise. These hold it against itself: they say that something has changed, in
places that no other attack looks at, and not whether it was right before.
"""

from __future__ import annotations

from typing import ClassVar

from stepward.sabotage.attack import Attack, Family, Severity
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.recorded.recordings import difference, played, recordings


class _Recorded(Attack):
    """The scenes of one kind."""

    family = Family.REPLAY
    surface = "machines, stores and all that they are asked for"
    invariant = Invariant.RECORDED
    defence = "equal requests come to equal records, values and refusals"
    severity: ClassVar[Severity] = "high"
    weight = 1000
    draws = True
    enumerates = "the recorded scenes of the release"
    kind: ClassVar[str]

    def play(self, case: Case) -> Outcome:
        """Play each scene. Raises Breach for the first that comes to something else."""
        found = recordings(self.kind)
        for one in case.each("scene", found):
            notes = played(self.kind, one.seed, case.weakness.options)
            case.act(f"play scene {one.seed} of the {self.kind}", len(notes.texts))
            what = difference(notes, one)
            case.hold(what is None, self.invariant, f"scene {one.seed} of the {self.kind}: {what}")
        return Outcome.ABSORBED


class RecordedOperations(_Recorded):
    """Programs of every feature run in one store. Everything is asked of their runs, at random times, by processes that
    die, and then every reader shows what is there."""

    action = "random requests at random times, as in the release"
    kind = "operations"
