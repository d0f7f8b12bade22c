"""Recorded scenes: each comes to what was recorded, on any computer, and a changed machine shows.

By day a fifth of the scenes of each kind is played: the first tenth, which passes the most branches of the machine for
what it costs, and one in nine of the others. Of the kinds that take long it is an eighth: the first sixteenth, and one
in fifteen of the others. `STEPWARD_MANY=1` plays all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from sizes import by_day, size
from stepward.sabotage.attacks.recorded import RecordedRemote
from stepward.sabotage.campaign import Orders, attack_program
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.recordings import SCENES, Recording, difference, played, recordings
from stepward.sabotage.recorded.zones import in_another_zone
from stepward.sabotage.target import Target
from stepward.vm import Program
from stepward.vm.machine import runs

PARTS = size(2, 4)
"""The scenes of a kind are played in so many tests."""

LONG = ("histories", "lisp", "operations", "texts")
"""The kinds whose scenes take three quarters of the time."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", SCENES)
def test_every_scene_comes_to_what_was_recorded(kind: str, part: int) -> None:
    """After a change of what machines do: read the notes that differ, then `python -m stepward.sabotage.recorded`."""
    every = recordings(kind)
    of, one_in = (16, 15) if kind in LONG else (10, 9)
    most = len(every) // of
    found = (every[:most] + by_day(every[most:], one_in))[part::PARTS]
    assert len(found) > 10
    parted = {one.seed: why for one in found if (why := difference(played(kind, one.seed, {}), one)) is not None}
    assert parted == {}


def test_scenes_depend_on_no_process() -> None:
    last = {kind: recordings(kind)[-size(1, 6) :] for kind in SCENES}
    seeds = {kind: [one.seed for one in some] for kind, some in last.items()}
    program = (
        "from stepward.sabotage.recorded.recordings import played\n"
        f"for kind, seeds in {seeds!r}.items():\n"
        "    for seed in reversed(seeds): print(kind, seed, played(kind, seed, {}).digest())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    due = {f"{kind} {one.seed} {one.digest}" for kind, some in last.items() for one in some}
    assert set(done.stdout.splitlines()) == due


def test_another_machine_shows_and_the_first_note_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_REFUSALS", 0)
    parted = (difference(played("operations", one.seed, {}), one) for one in recordings("operations")[:60])
    assert next(filter(None, parted)).startswith("note ")


def test_notes_that_are_missing_or_too_many_are_a_difference() -> None:
    notes = Notes()
    notes.add("one")
    notes.add("two")
    whole = Recording("0", notes.digest(), notes.marks())
    assert difference(notes, whole) is None
    notes.texts.pop()
    assert difference(notes, whole) == "2 notes were recorded, and there are 1"
    notes.add("three")
    assert difference(notes, whole) == "note 1 is another one: three"


def test_scenes_are_played_in_another_time_zone() -> None:
    before = os.environ.get("TZ"), time.localtime(0).tm_hour
    with in_another_zone():
        assert time.localtime(0).tm_hour == 14
    assert (os.environ.get("TZ"), time.localtime(0).tm_hour) == before


def test_scenes_of_another_release_of_a_library_are_not_played(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(Program.from_dict({"name": "one", "steps": [{"id": "end", "type": "end"}]}))
    assert RecordedRemote().misses(target) is None
    monkeypatch.setattr(RecordedRemote, "library", ("mcp", "2"))
    assert RecordedRemote().misses(target) is None
    for library in (("mcp", "2.33"), ("no-such-library", "1")):
        monkeypatch.setattr(RecordedRemote, "library", library)
        matrix = attack_program(target.program, orders=Orders(attacks=("recorded-remote",)))
        (row,) = matrix.rows
        assert row.why_not == f"its scenes were recorded with `{library[0]}` {library[1]}, which is not installed"
