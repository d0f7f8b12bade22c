"""A chain of runs is shown as one: by `runs`, `replay`, `verify`, `graph --run` and on the page of `report`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machines import unchecked
from stepward.validator.cli import main
from stepward.vm import Program, SQLiteJournal

STEPS = {
    "tools": {"pay": {"effect": "write", "args": {"sum": {"type": "number"}}}},
    "steps": [
        {"id": "plan", "type": "set", "set": {"rest": "$sum"}},
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [
                {"id": "left", "type": "tool", "tool": "pay", "args": {"sum": 1}},
                {"id": "right", "type": "tool", "tool": "pay", "args": {"sum": 2}},
            ],
        },
        {"id": "last", "type": "set", "set": {"done": True}},
        {"id": "end", "type": "end"},
    ],
}
INPUTS = {"sum": {"type": "number"}}
FIRST: dict[str, Any] = {"name": "first", "inputs": INPUTS, "max_steps": 4, **STEPS}
SECOND: dict[str, Any] = {
    "name": "second",
    "inputs": {"rest": {"type": "number"}},
    "max_steps": 1,
    "steps": [{"id": "note", "type": "set", "set": {"left": "$rest"}}, {"id": "more", "type": "set", "set": {"x": 1}}],
}
THIRD: dict[str, Any] = {
    "name": "third",
    "inputs": {"amount": {"type": "number"}},
    "steps": [{"id": "close", "type": "end", "output": "$amount"}],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a journal with a chain of three runs, and one run that stands alone."""
    monkeypatch.chdir(tmp_path)
    journal = SQLiteJournal("runs.db")
    vm = unchecked({"pay": lambda sum: None}, None, journal)
    vm.run_sync(Program.from_dict(FIRST), {"sum": 7}, run_id="one")
    vm.continue_run_sync("one", Program.from_dict(SECOND), ["rest"], grant={"steps": 3})
    vm.continue_run_sync("one~1", Program.from_dict(THIRD), {"amount": "left"}, grant={"steps": 2})
    vm.run_sync(Program.from_dict(FIRST | {"max_steps": 9}), {"sum": 7}, run_id="alone")
    journal.close()
    return tmp_path


def stepward(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


BOUNDARIES = [
    "--- run `one~1` goes on where that has ended: it reads rest; granted: 3 steps ---",
    "--- run `one~2` goes on where that has ended: it reads amount (left); granted: 2 steps ---",
]


def in_order(text: str, parts: list[str]) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


@pytest.mark.parametrize("run", ["one", "one~1", "one~2"])
def test_each_run_of_a_chain_shows_all_of_them(run: str) -> None:
    parts = ["run `one` of `first`", BOUNDARIES[0], "run `one~1` of `second`", BOUNDARIES[1], "run `one~2` of `third`"]
    shown = stepward("runs", "show", run, "--journal", "runs.db")
    assert in_order(shown.output, parts), shown.output
    replayed = stepward("replay", "runs.db", run)
    assert replayed.exit_code == 0
    end = "the same: the machine would have written 13 records of 3 runs as they are"
    assert in_order(replayed.output, [*parts, end]), replayed.output
    data = json.loads(stepward("replay", "runs.db", run, "--output-format", "json").output)
    assert (data["run"]["id"], data["same"]) == (run, True)
    assert [one["run"]["id"] for one in data["chain"]] == ["one", "one~1", "one~2"]


def test_a_run_without_a_chain_is_shown_as_before() -> None:
    assert "---" not in stepward("runs", "alone", "--journal", "runs.db").output
    replayed = stepward("replay", "runs.db", "alone").output
    assert "records as they are" in replayed
    assert "run `alone` of" not in replayed
    assert "chain" not in json.loads(stepward("replay", "runs.db", "alone", "--output-format", "json").output)
    assert "1 of 1 run intact" in stepward("verify", "runs.db", "alone").output


def test_a_chain_is_verified_as_one() -> None:
    verified = stepward("verify", "runs.db", "one")
    lines = ["run `one`: 8 records, intact\n", "intact; continues run `one`\n", "intact; continues run `one~1`\n"]
    assert in_order(verified.output, [*lines, "3 of 3 runs intact"]), verified.output
    data = json.loads(stepward("verify", "runs.db", "one~2", "--output-format", "json").output)
    assert [one.get("continues") for one in data["runs"]] == [None, "one", "one~1"]


def test_damage_to_one_run_of_a_chain_is_found_from_each() -> None:
    with sqlite3.connect("runs.db") as database:
        database.execute("DELETE FROM records WHERE run = 'one' AND seq = 5")
    for name in ("one", "one~2"):
        found = stepward("verify", "runs.db", name)
        assert found.exit_code == 1, found.output


def test_a_chain_is_drawn_with_the_path_of_each_run() -> None:
    drawn = stepward("graph", "--run", "one~1", "--format", "mermaid").output
    assert in_order(drawn, ["<b>one, 3 runs</b>", "program first", "program second", "program third"]), drawn
    for arrow in ("r0start ==> r0s0", "r0s0 ==> r0s1fork", "r1start ==> r1s0", "r2start ==> r2s0"):
        assert arrow in drawn
    assert '==>|"<b>BUDGET_EXCEEDED (max_steps)</b>"| r1start' in drawn
    assert 'r1s0 ==>|"<b>BUDGET_EXCEEDED (max_steps)</b>"| r2start' in drawn
    assert "reads amount (left)" in stepward("graph", "--run", "one").output
    alone = stepward("graph", "--run", "alone", "--collapse").output
    assert "r0start" in alone
    assert "r1start" not in alone


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--run", "one", "--policy", "p.yaml"], "leave --policy out"),
        (["--run", "one", "--around", "plan", "--no-findings"], "leave --around, --no-findings out"),
        (["x.yaml", "--run", "one"], "leave PROGRAM out"),
        (["--run", "none"], "there is no run `none`"),
        (["--run", "one", "--journal", "no.db"], "there is no journal at `no.db`"),
        (["x.yaml", "--journal", "runs.db"], "--journal is for the picture of a run"),
        ([], "name the file of a program, or a run"),
    ],
)
def test_a_picture_that_can_not_be_is_refused(words: list[str], says: str) -> None:
    found = stepward("graph", *words)
    assert (found.exit_code, says in found.output) == (2, True), found.output


def test_the_page_shows_a_chain_together_and_in_order(folder: Path) -> None:
    (folder / "third.json").write_text(json.dumps(THIRD))
    done = stepward("report", "third.json", "--journal", "runs.db", "--records", "2", "-o", "page.html")
    assert done.exit_code == 0, done.output
    text = (folder / "page.html").read_text()
    found = [one.split('"', 1)[0] for one in text.split('data-run="')[1:]]
    # The newest is the run that stands alone; the next is of the chain, and brings all of it.
    assert found == ["alone", "one", "one~1", "one~2"]
    assert text.count('data-chain="one"') == 3
    assert text.count('class="boundary"') == 2
    assert in_order(text, [one.strip("- ").replace(">", "&gt;") for one in BOUNDARIES])
