"""Runs from before patterns were RE2's: they verify, replay and go on under Python's `re`, as they were begun."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from machines import unchecked
from paths import DATA
from stepward.vm import ExecutionVM, MemoryJournal, Program, ProgramError, ScriptedModel, SQLiteJournal
from stepward.vm.journal.store import JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine import history
from stepward.vm.machine.replay import replay, replayer

KEPT = json.loads((DATA / "python_patterns.json").read_text(encoding="utf-8"))
"""A journal that was written before: runs `done`, and `waiting` for a resume token. It takes an Arabic number with a
line feed behind it for `^\\d+$`, and has patterns with look-around, a back-reference and `\\Z`."""


@pytest.fixture
def journal(tmp_path: Path) -> SQLiteJournal:
    for name, suffix in (("journal", ""), ("vault", ".vault")):
        with sqlite3.connect(tmp_path / f"runs.db{suffix}") as database:
            database.executescript("\n".join(KEPT["tables"][name]))
        database.close()
    return SQLiteJournal(tmp_path / "runs.db")


def machine(journal: Any) -> ExecutionVM:
    return unchecked({"ask": str, "keep": lambda text: "ok\n"}, ScriptedModel({}), journal)


@pytest.mark.parametrize("run", ["done", "waiting"])
def test_a_run_of_python_patterns_verifies_and_replays(journal: SQLiteJournal, run: str) -> None:
    assert verify(journal, run, replay=replayer(journal, run)).faults == ()
    replayed = replay(journal, run)
    assert replayed is not None
    assert replayed.faults == ()
    assert replayed.steps > 2


def test_its_head_and_trace_are_what_they_were(journal: SQLiteJournal) -> None:
    run = machine(journal).get_sync("done")
    assert (run.status, run.output, run.head, run.trace_hash) == ("SUCCESS", "größe\n", KEPT["head"], KEPT["trace"])


def test_it_is_resumed_under_its_own_patterns(journal: SQLiteJournal) -> None:
    run = machine(journal).resume_sync(KEPT["token"], "größe\n")
    assert (run.status, run.output, run.trace_hash) == ("SUCCESS", "größe\n", KEPT["trace"])
    replayed = replay(journal, "waiting")
    assert replayed is not None
    assert replayed.faults == ()


def test_what_its_patterns_refuse_is_refused(journal: SQLiteJournal) -> None:
    with pytest.raises(Exception, match="must match the pattern"):
        machine(journal).resume_sync(KEPT["token"], "zwei Wörter")


def test_its_program_is_refused_today(journal: SQLiteJournal) -> None:
    digest = json.loads(journal.read("done")[0].record)["body"]["program"]
    document = journal.document(digest)
    assert document is not None
    with pytest.raises(ProgramError) as refused:
        Program.from_dict(json.loads(document))
    assert "look-ahead" in str(refused.value)


PROGRAM = {
    "name": "patterns",
    "inputs": {"code": {"type": "string", "pattern": r"^\d+$"}},
    "steps": [{"id": "end", "type": "end", "output": "$code"}],
}


def first_record(program: dict[str, Any], inputs: dict[str, Any]) -> tuple[MemoryJournal, dict[str, Any]]:
    journal = MemoryJournal()
    machine(journal).run_sync(Program.from_dict(program), inputs, run_id="r")
    return journal, json.loads(journal.read("r")[0].record)


def test_a_run_names_the_dialect_of_its_patterns() -> None:
    journal, record = first_record(PROGRAM, {"code": "12"})
    assert record["body"]["patterns"] == "re2"
    assert verify(journal, "r", replay=replayer(journal, "r")).faults == ()


def test_a_run_without_patterns_names_none() -> None:
    plain = {**PROGRAM, "inputs": {"code": {"type": "string"}}}
    assert "patterns" not in first_record(plain, {"code": "12"})[1]["body"]


def test_a_pattern_of_a_policy_counts() -> None:
    from stepward.vm import Policy

    policy = Policy.from_dict(
        {"policy": "p", "tools": {"keep": {"effect": "none", "returns": {"type": "array", "items": {"pattern": "a"}}}}}
    )
    journal = MemoryJournal()
    plain = Program.from_dict({**PROGRAM, "inputs": {}, "steps": [{"id": "end", "type": "end"}]})
    unchecked({}, None, journal, policy).run_sync(plain, run_id="r")
    assert json.loads(journal.read("r")[0].record)["body"]["patterns"] == "re2"
    assert verify(journal, "r", replay=replayer(journal, "r")).faults == ()


@pytest.mark.parametrize(("dialect", "why"), [("pcre", "of the dialect `pcre`"), (None, "another dialect")])
def test_a_dialect_that_is_not_the_run_s_is_refused(
    monkeypatch: pytest.MonkeyPatch, dialect: str | None, why: str
) -> None:
    journal, _ = first_record(PROGRAM, {"code": "12"})
    whole = history.checked_records

    def changed(run: str, entries: Any) -> Any:
        first, *rest = whole(run, entries)
        return (first._replace(body={**first.body, "patterns": dialect}), *rest)

    monkeypatch.setattr(history, "checked_records", changed if dialect else whole)
    read_as = "re2" if dialect else None  # Python's patterns, in a record that says RE2's
    plans = lambda *args: history.stored_plan(journal, *args[:-1], read_as)  # noqa: E731
    with pytest.raises(JournalError, match=why):
        history.load(journal, "r", plans)
