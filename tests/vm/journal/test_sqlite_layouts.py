"""Fast: journals in files that an older version made are brought to the present layout, all of it or nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Head, JournalError
from stepward.vm.journal.trials import NOW, at_once, entries

FIRST = (
    """CREATE TABLE runs (
        number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, program TEXT NOT NULL, status TEXT NOT NULL,
        seq INTEGER NOT NULL, digest BLOB NOT NULL, signature BLOB, started REAL NOT NULL, updated REAL NOT NULL,
        holder TEXT NOT NULL, fence INTEGER NOT NULL, expires REAL NOT NULL)""",
    """CREATE TABLE records (
        run TEXT, seq INTEGER, record BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
    "CREATE TABLE documents (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
)
SECOND = (
    "ALTER TABLE runs ADD COLUMN due REAL",
    "CREATE INDEX runs_due ON runs (due, number) WHERE due IS NOT NULL",
)
THIRD = ("ALTER TABLE runs ADD COLUMN kept BLOB",)
OLDER = {1: FIRST, 2: (*FIRST, *SECOND), 3: (*FIRST, *SECOND, *THIRD)}
"""How a file of each older version was made."""


def made_by(version: int, path: Path) -> str:
    """Make a file of an older version, with a run that nobody drives."""
    run, held = "run-of-before", entries(2)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in OLDER[version]:
            connection.execute(statement)
        names = "run, program, status, seq, digest, signature, started, updated, holder, fence, expires"
        values = (run, "program", "RUNNING", 1, held[-1].digest, None, 1.0, 2.0, "gone", 7, 0.0)
        connection.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(values))})", values)
        if version > 1:
            connection.execute("UPDATE runs SET due = 0")
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", [(run, *entry) for entry in held])
        connection.execute("PRAGMA application_id = 0x5374704A")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA journal_mode = wal")
    return run


@pytest.mark.parametrize("version", OLDER)
def test_a_file_of_an_older_version_is_brought_to_this_one(tmp_path: Path, version: int) -> None:
    path = tmp_path / "journal.db"
    run = made_by(version, path)
    for _ in range(2):
        with closing(SQLiteJournal(path, create=False)) as journal:
            assert journal.read(run) == entries(2)
            assert journal.head(run) == Head(run, 1, entries(2)[-1].digest, None)
            assert journal.due(NOW) == {"program": 1}
    with closing(SQLiteJournal(path)) as journal, closing(sqlite3.connect(path)) as connection:
        assert [lease.fence for lease in journal.claim("h", NOW, 60.0, 9)] == [8]
        assert journal.prune(Head(run, 1, entries(2)[-1].digest, None), b"kept")
        assert journal.kept(run) == b"kept"
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)


def test_processes_that_open_an_older_file_at_once_bring_it_to_this_version_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    run = made_by(1, path)
    opened = at_once(lambda _: SQLiteJournal(path), 8)
    assert [journal.read(run) for journal in opened] == [entries(2)] * 8


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    made_by(1, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE VIEW a AS SELECT * FROM runs")
    with pytest.raises(JournalError, match="can't be trusted: it holds a view `a`"):
        SQLiteJournal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.execute("DROP VIEW a")
    SQLiteJournal(path).close()
