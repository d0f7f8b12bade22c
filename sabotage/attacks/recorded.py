"""Scenes that were recorded with the release: each comes to what it came to then.

Other attacks hold the machine against a promise. These hold it against itself: they say that something has changed, in
places that no other attack looks at, and not whether it was right before.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

from stepward.sabotage.attack import Attack, Family, Severity
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.recorded.recordings import difference, played, recordings
from stepward.sabotage.recorded.zones import in_another_zone
from stepward.sabotage.target import Target


def _is_there(name: str, release: str) -> bool:
    try:
        return f"{version(name)}.".startswith(f"{release}.")
    except PackageNotFoundError:
        return False


class _Recorded(Attack):
    """The scenes of one kind. Those that come to much in little time are in its first part."""

    family = Family.REPLAY
    surface = "machines, stores and all that they are asked for"
    invariant = Invariant.RECORDED
    defence = "equal requests come to equal records, values and refusals"
    severity: ClassVar[Severity] = "high"
    draws = True
    enumerates = "the recorded scenes of the release"
    kind: ClassVar[str]
    library: ClassVar[tuple[str, str] | None] = None
    """A library and its release, whose words and steps are part of the scenes."""

    def misses(self, target: Target) -> str | None:
        """Return why the scenes can't be played."""
        if self.library is None or _is_there(*self.library):
            return super().misses(target)
        name, release = self.library
        return f"its scenes were recorded with `{name}` {release}, which is not installed"

    def play(self, case: Case) -> Outcome:
        """Play each scene. Raises Breach for the first that comes to something else."""
        found = recordings(self.kind)
        for one in case.each("scene", found, self.parts):
            with in_another_zone():
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
    weight = 170
    parts = 4


class RecordedStores(_Recorded):
    """Random requests to stores in memory and in files, at the edges of leases; files of older versions, and damaged
    ones; runs that are verified, copied, pruned and signed anew."""

    action = "random requests to stores, and changes of what they hold, as in the release"
    kind = "stores"
    weight = 70
    parts = 2


class RecordedKeys(_Recorded):
    """Keys, receipts, sealed values and records are written, read, changed and lost, and numbers, texts and objects of
    every kind are made values and canonical JSON."""

    action = "random keys, texts and values, as in the release"
    kind = "keys"
    weight = 60


class RecordedModels(_Recorded):
    """Providers answer over a web without network, replies are recorded, cached and priced, and machines are made with
    models and tools that fit and that do not."""

    surface = "models, tools, caches, recordings and prices"
    action = "random answers to random calls, as in the release"
    kind = "models"
    weight = 80
    parts = 2


class RecordedRemote(_Recorded):
    """MCP servers without processes and without network list tools, change them, answer in every way, and break off."""

    surface = "servers of tools, and what is pinned of them"
    action = "random lists and answers to random calls, as in the release"
    kind = "remote"
    weight = 65
    parts = 2
    library = ("mcp", "2.3")


class RecordedWatching(_Recorded):
    """Runs are watched as they go on, by observers whose exporters may fail, and their spans are made again later."""

    surface = "runs, and all that is told of them"
    action = "random runs that are watched, as in the release"
    kind = "watching"
    weight = 175
    parts = 2
    library = ("opentelemetry-sdk", "1.45")


class RecordedTexts(_Recorded):
    """Programs, policies, expressions, types and patterns, valid ones and with one thing changed: what the loader says,
    and what they mean. Tables of operators, types and patterns with values at their edges."""

    action = "random texts, and what is said of them, as in the release"
    kind = "texts"
    weight = 190
    parts = 2


class RecordedLisp(_Recorded):
    """Calls of every function of the Lisp with every value at an edge, forms within one another, programs with calls of
    tools, and turns of sessions."""

    action = "random forms, and what they come to, as in the release"
    kind = "lisp"
    weight = 135
    parts = 3


class RecordedHistories(_Recorded):
    """Chains of runs, sessions, and runs of several stops, by tables: what their rules have seen, what is left of their
    budgets, and what becomes of them when one of the runs is erased, pruned, copied or cancelled."""

    action = "histories of several runs and stops, as in the release"
    kind = "histories"
    weight = 290
    parts = 4
