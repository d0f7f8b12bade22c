"""Drift opens the breaker of a program: what a guard of a journal sees, and `stepward worker --baseline`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from machines import unchecked
from stepward.validator.cli import main
from stepward.validator.dynamics.baseline import LEAST, Baseline, baselines_text, learn
from stepward.validator.dynamics.guard import DriftGuard
from stepward.validator.dynamics.journals import courses_of
from stepward.vm import MemoryJournal, Program, SQLiteJournal
from stepward.vm.journal.store import Journal, JournalError, Row, Switch
from stepward.vm.machine.clock import ManualClock

SEARCH = """name: search
inputs: {topic: {type: integer}}
tools:
  look: {effect: read, args: {topic: {type: integer}}, returns: {enum: [found, nothing]}}
steps:
  - {id: look, type: tool, tool: look, args: {topic: $topic}, output_key: answer, max_visits: 8, next_step: enough}
  - {id: enough, type: condition, condition: $answer == "found", then: done, otherwise: again, max_visits: 8}
  - {id: again, type: set, set: {tried: true}, next_step: look, max_visits: 8}
  - {id: done, type: end}
"""
KEY = ("search", "")


class Fleet:
    """Runs of a program that searches: `found` is the share of looks that find something."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self.clock = ManualClock()
        self._rng = random.Random(seed)
        self._found = 0.6
        self._vm = unchecked({"look": self._look}, journal=journal, clock=self.clock)
        self._program = Program.from_yaml(SEARCH)
        self._runs = 0

    def _look(self, topic: int) -> str:
        return "found" if self._rng.random() < self._found else "nothing"

    def run(self, runs: int, found: float = 0.6) -> None:
        self._found = found
        for _ in range(runs):
            self._runs += 1
            self._vm.run_sync(self._program, {"topic": 1}, run_id=f"run-{self._runs:03}")

    @property
    def now(self) -> float:
        return self.clock.now() / 1e6


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    healthy = MemoryJournal()
    Fleet(healthy, 1).run(LEAST)
    return learn(list(courses_of(healthy, healthy.rows(), None)))


def test_drift_opens_the_breaker_once_and_after_it_is_closed_only_later_runs_count(baseline: Baseline) -> None:
    journal = MemoryJournal()
    fleet, guard = Fleet(journal, 2), DriftGuard(journal, {KEY: baseline})
    fleet.run(20)
    assert guard.look(fleet.now) == []
    fleet.run(40, found=0.15)
    (switch,) = guard.look(fleet.now)
    assert (switch.name, switch.is_open, switch.by) == ("program:search", True, "machine")
    assert switch.why.startswith("drift since run `run-0")
    assert journal.opened() == {"program:search"}
    assert guard.look(fleet.now) == []
    assert journal.switch(Switch("program:search", False, fleet.now, "the index is back", "ann"))
    fleet.run(2, found=0.15)
    assert guard.look(fleet.now) == [], "what drifted before is known to who closed it"
    fleet.run(20)
    fleet.run(40, found=0.15)
    assert len(guard.look(fleet.now)) == 1, "the same change again is another alarm"


def test_a_guard_looks_only_where_it_has_a_baseline_and_something_new(baseline: Baseline) -> None:
    journal = MemoryJournal()
    fleet = Fleet(journal, 2)
    fleet.run(20)
    fleet.run(40, found=0.15)
    assert DriftGuard(journal, {("search", "gold"): baseline}).look(fleet.now) == []
    guard = DriftGuard(journal, {KEY: baseline})
    assert len(guard.look(fleet.now)) == 1
    journal.switch(Switch("program:search", False, 0.0, "all runs count again", "ann"))
    assert guard.look(fleet.now) == [], "no run has ended since"


@pytest.mark.parametrize("fails", [True, False])
def test_a_damaged_run_is_left_out_and_a_store_that_fails_is_said(
    baseline: Baseline, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    journal = MemoryJournal()
    fleet = Fleet(journal, 2)
    fleet.run(20)
    fleet.run(40, found=0.15)
    read: Callable[[str], object] = journal.read

    def torn(run: str) -> object:
        if fails or run == "run-007":
            raise JournalError("damaged")
        return read(run)

    def row(run: str) -> Row | None:
        raise JournalError("the store fails")

    monkeypatch.setattr(journal, "read", torn)
    guard = DriftGuard(journal, {KEY: baseline})
    if fails:
        monkeypatch.setattr(journal, "row", row)
        with pytest.raises(JournalError, match="the store fails"):
            guard.look(fleet.now)
    else:
        assert len(guard.look(fleet.now)) == 1


@pytest.mark.usefixtures("in_own_folder")
def test_a_worker_with_a_baseline_opens_the_breaker_of_a_program_that_drifts(baseline: Baseline) -> None:
    Path("programs").mkdir()
    Path("programs/search.yaml").write_text(SEARCH)
    Path("tools.py").write_text("def look(topic):\n    return 'found'\n")
    Path("base.json").write_text(baselines_text([baseline]))
    journal = SQLiteJournal("runs.db")
    fleet = Fleet(journal, 2)
    fleet.run(20)
    fleet.run(40, found=0.15)
    journal.close()
    command = "worker --once --journal runs.db --programs programs --tools tools.py --baseline base.json"
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 0, done.output
    said = [json.loads(line) for line in done.stdout.splitlines()]
    (opened,) = [line for line in said if line["event"] == "opened"]
    assert opened["breaker"] == "program:search"
    journal = SQLiteJournal("runs.db")
    assert [(one.name, one.by) for one in journal.switches()] == [("program:search", "machine")]
    journal.close()
    refused = CliRunner().invoke(main, [*command.split(), "--family-by", "topics"])
    assert (refused.exit_code, "`--family-by topics` is no input of the programs" in refused.stderr) == (2, True)
    refused = CliRunner().invoke(main, [*command.split()[:-2], "--family-by", "topic"])
    assert (refused.exit_code, "--family-by is for --baseline" in refused.stderr) == (2, True)
