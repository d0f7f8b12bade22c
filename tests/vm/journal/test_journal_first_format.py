"""Journals that an earlier version wrote, in `journal_format_1/`: they verify, replay, and go on, for ever."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from machines import unchecked
from paths import DATA
from stepward.vm import ExecutionVM, SigningKey, SQLiteJournal, Suspend
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import JournalError
from stepward.vm.journal.trials import NOW, TTL
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replay, replayer

HERE = DATA / "journal_format_1"
SAID = json.loads((HERE / "said.json").read_text())
RUNS = [(name, run) for name, runs in SAID.items() for run in runs]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in HERE.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


def machine(folder: Path, name: str) -> ExecutionVM:
    tools: dict[str, Any] = {
        "look": lambda: 1,
        "ask_manager": lambda sum: Suspend(),
        "refund": lambda iban: f"refunded {iban}",
        "once": lambda: "once",
        "keyed": lambda: "k",
        "pay": lambda sum: "paid",
        "transfer": lambda iban: iban,
    }
    key = SigningKey.load(folder / "signed.key") if name == "signed" else None
    return unchecked(tools, journal=SQLiteJournal(folder / f"{name}.db"), key=key)


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_a_journal_of_format_1_verifies_and_replays(folder: Path, name: str, run: str) -> None:
    said = SAID[name][run]
    receipt = Receipt.from_json(json.dumps(said["receipt"]))
    vm = machine(folder, name)
    keys = [SigningKey.load(folder / "signed.key").public] if name == "signed" else []
    again = replayer(vm.journal, run, [receipt])
    verdict = verify(vm.journal, run, keys=keys, receipts=[receipt], replay=again)
    assert verdict.faults == ()
    assert verdict.receipts == 1
    replayed = replay(vm.journal, run)
    assert replayed is not None
    assert replayed.faults == ()
    assert (replayed.run.status, replayed.run.head) == (said["status"], said["head"])


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_its_trace_hash_is_what_it_was_but_where_a_text_of_the_user_was_cut(folder: Path, name: str, run: str) -> None:
    trace = machine(folder, name).get_sync(run).trace_hash
    assert (trace == SAID[name][run]["trace"]) is (run != "plain")


@pytest.mark.parametrize("name", SAID)
def test_its_runs_go_on(folder: Path, name: str) -> None:
    vm = machine(folder, name)
    waits = vm.get_sync("waits")
    assert vm.resume_sync(waits.suspensions[0].token, "agree").status == "SUCCESS"
    assert vm.reconcile_sync("doubt", "a", "done", "once").status == "SUCCESS"
    assert [(run.id, run.output) for run in vm.recover_sync()] == [("stopped", "k")]
    assert vm.erase_sync("secret").status == "SUCCESS"
    for run in SAID[name]:
        verdict = verify(vm.journal, run, replay=replayer(vm.journal, run))
        assert verdict.faults == ()
        versions = {json.loads(entry.record)["v"] for entry in vm.journal.read(run)}
        assert versions == {1}, "what needs nothing new is written as it was"


def test_what_a_receipt_says_otherwise_is_still_a_fault(folder: Path) -> None:
    vm = machine(folder, "plain")
    said = SAID["plain"]["plain"]["receipt"] | {"trace": "0" * 64}
    receipt = Receipt.from_json(json.dumps(said))
    faults = verify(vm.journal, "plain", replay=replayer(vm.journal, "plain", [receipt])).faults
    assert [fault.what.partition(" `")[0] for fault in faults] == ["the receipt for record 10 says the trace hash"]


# -- files before runs had a due time ----------------------------------------------------------------------------------


FIRST_VERSION = (
    """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, program TEXT NOT NULL, status TEXT NOT NULL,
            seq INTEGER NOT NULL, digest BLOB NOT NULL, signature BLOB, started REAL NOT NULL, updated REAL NOT NULL,
            holder TEXT NOT NULL, fence INTEGER NOT NULL, expires REAL NOT NULL)""",
    """CREATE TABLE records (
            run TEXT, seq INTEGER, record BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
    "CREATE TABLE documents (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
    "PRAGMA application_id = 0x5374704A",
    "PRAGMA user_version = 1",
    "INSERT INTO runs VALUES (1, 'r', 'p', 'RUNNING', 0, x'', NULL, 1, 1, 'a', 1, 0)",
    "INSERT INTO runs VALUES (2, 's', 'p', 'SUSPENDED', 0, x'', NULL, 1, 1, 'a', 1, 0)",
)
"""A file of the first version, before runs had a due time."""


def of_the_first_version(path: Path, *more: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (*FIRST_VERSION, *more):
            connection.execute(statement)


def test_a_file_of_the_first_version_is_brought_to_this_one_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    of_the_first_version(path)
    for _ in range(2):
        with closing(SQLiteJournal(path, create=False)) as journal:
            assert journal.due(NOW) == {"p": 1}
            assert [row.run for row in journal.rows()] == ["r", "s"]
    with closing(SQLiteJournal(path)) as journal:
        assert [lease.run for lease in journal.claim("h", NOW, TTL, 9)] == ["r"]


def test_a_file_of_the_first_version_that_was_changed_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    of_the_first_version(path, "CREATE TRIGGER a AFTER UPDATE ON runs BEGIN DELETE FROM records; END")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="holds a trigger `a`"):
        SQLiteJournal(path)
    assert path.read_bytes() == before
