"""Scenes of files: those of older versions, of other programs, with other tables, and with values of wrong types."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.sabotage.recorded.stores.requests import pragmas, quick, schema
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.sqlite_file import DatabaseFile, Layout
from stepward.vm.journal.store import Journal, Lease, Row, Switch
from stepward.vm.journal.trials import NOW, behind, entries, first, following
from stepward.vm.journal.verify import verify

_RUNS: Final = """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, program TEXT NOT NULL, status TEXT NOT NULL,
            seq INTEGER NOT NULL, digest BLOB NOT NULL, signature BLOB, started REAL NOT NULL, updated REAL NOT NULL,
            holder TEXT NOT NULL, fence INTEGER NOT NULL, expires REAL NOT NULL)"""
_RECORDS: Final = """CREATE TABLE records (
            run TEXT, seq INTEGER, record BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID"""
_DOCUMENTS: Final = "CREATE TABLE documents (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID"
_STEPS: Final = (
    (_RUNS, _RECORDS, _DOCUMENTS),
    (
        "ALTER TABLE runs ADD COLUMN due REAL",
        "CREATE INDEX runs_due ON runs (due, number) WHERE due IS NOT NULL",
    ),
    ("ALTER TABLE runs ADD COLUMN kept BLOB",),
    (
        "ALTER TABLE runs ADD COLUMN held TEXT",
        "CREATE TABLE switches (\n    number INTEGER PRIMARY KEY, name TEXT NOT NULL, is_open INTEGER NOT NULL,"
        " at REAL NOT NULL, why TEXT NOT NULL,\n    by TEXT NOT NULL)",
        "CREATE INDEX runs_held ON runs (held) WHERE held IS NOT NULL",
    ),
)
"""What made the files of each version out of those of the one before."""

OWNER: Final = 0x5374704A
_ODD: Final[tuple[Any, ...]] = (b"\x01", "text", 7, 2.5, None)
_COLUMNS: Final = (
    *("run", "program", "status", "seq", "digest", "signature", "started", "updated", "holder", "fence", "expires"),
    *("due", "kept", "held"),
)


def _write(path: str, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for one in statements:
            connection.execute(one) if isinstance(one, str) else connection.execute(*one)


# -- older versions ----------------------------------------------------------------------------------------------------


def older(probe: Probe) -> None:
    """Open a file of an older version, perhaps one that somebody has changed, and go on with its runs."""
    version, path = probe.draw(1, 2, 3, 4), probe.path("old.db")
    statements: list[Any] = [text for step in _STEPS[:version] for text in step]
    for number, status in enumerate(("RUNNING", "SUSPENDED", "SUCCESS")):
        row = (f"r{number}", "p", status, 0, bytes(32), None, 1.0, 2.0, "ann", 3, 4.0 + number)
        names = "run, program, status, seq, digest, signature, started, updated, holder, fence, expires"
        statements.append((f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(row))})", row))
        statements.append(("INSERT INTO records VALUES (?, 0, ?, ?)", (f"r{number}", b"one", bytes(32))))
    owner = probe.draw(*[OWNER] * 6, 1)
    marks = [f"PRAGMA application_id = {owner}", f"PRAGMA user_version = {version + probe.draw(*[0] * 5, 1, -1, 9)}"]
    changes = _changes(probe) if probe.some(0.4) else ()
    _write(path, *statements, *marks, *changes)
    probe.note("version", version, marks, changes)
    _open(probe, path, create=probe.draw(True, False))
    with closing(sqlite3.connect(path)) as connection:
        probe.note(pragmas(connection), schema(connection))
        probe.note(connection.execute("SELECT * FROM runs ORDER BY number").fetchall())


def _changes(probe: Probe) -> tuple[str, ...]:
    return probe.draw(
        ("CREATE TABLE more (a TEXT)",),
        ("CREATE VIEW seen AS SELECT run FROM runs",),
        ("CREATE TRIGGER eats AFTER INSERT ON records BEGIN DELETE FROM records; END",),
        ("CREATE INDEX fast ON runs (status)",),
        ("ALTER TABLE runs ADD COLUMN more TEXT",),
        ("DROP TABLE documents",),
        ("DROP TABLE documents", "CREATE TABLE documents (digest TEXT PRIMARY KEY, text BLOB NOT NULL)"),
        ("ANALYZE",),
        ("CREATE TABLE sqlitestat (a TEXT)",),
    )


def _open(probe: Probe, path: str, **more: Any) -> None:
    """Open a file, and ask it a few things."""
    journal = probe.quietly("open", lambda: SQLiteJournal(path, **more))
    if journal is None:
        return
    with closing(journal) as store:
        quick(store._file)
        probe.ask("rows", store.rows)
        for run in ("r0", "r1", "new"):
            probe.ask("head", store.head, run)
            probe.ask("read", store.read, run)
            probe.ask("acquire", store.acquire, run, "bob", 5.0, 1.0)
        probe.ask("due", store.due, 6.0)
        probe.ask("claim", store.claim, "cid", 9.0, 1.0, 9)
        probe.ask("create", store.create, first("new"), "p", "ann", 1.0)
        probe.ask("append", store.append, behind("new", entries(1), following(entries(1), 1)), 1)
        probe.ask("switch", store.switch, Switch("tool:a", True, 1.0, "why", "ann"))
        probe.ask("hold", store.hold, Lease("new", 1, NOW), "tool:a")
        probe.ask("kept", store.kept, "r0")


# -- other files -------------------------------------------------------------------------------------------------------


def other(probe: Probe) -> None:
    """Open what is no journal: nothing, a folder, a text, an empty file, a file of another program, a damaged one."""
    for how in probe.chance.sample(sorted(_OTHERS), 4):
        path = probe.path(f"{how}.db")
        probe.note("what", how)
        _OTHERS[how](path)
        create = probe.draw(True, False)
        _open(probe, path, create=create)
        if os.path.isfile(path):
            probe.note(oct(os.stat(path).st_mode) if how == "none" else "", os.path.exists(f"{path}.vault"))
    for name in ("", ":memory:", probe.path("none/x.db")):
        probe.quietly("open", lambda name=name: SQLiteJournal(name))
    link, vault = probe.path("link.db"), probe.path("real.db.vault")
    os.symlink(probe.path("real.db"), link)
    with closing(SQLiteJournal(link)) as store:
        store.vault.put("r", {"a": b"1"})
        os.remove(probe.path("real.db"))
        probe.quietly("gone", lambda: _frozen(store))
    probe.note("link", os.path.exists(probe.path("real.db")), os.path.exists(vault), oct(os.stat(vault).st_mode))


def _frozen(store: Journal) -> int:
    """Return the number of runs of a store as it is at one moment."""
    with store.frozen() as still:
        return len(still.rows())


def _text(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"this is no database, but a text that is longer than its header\n" * 20)


def _cut(path: str) -> None:
    """Make a journal of which the end is lost."""
    SQLiteJournal(path).close()
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(bytes(4000))


def _empty(path: str) -> None:
    with open(path, "wb"):
        pass


_OTHERS: Final[dict[str, Callable[[str], None]]] = {
    "none": lambda _: None,
    "folder": os.mkdir,
    "text": _text,
    "empty": _empty,
    "cut": _cut,
    "tables": lambda path: _write(path, "CREATE TABLE mine (a TEXT)"),
    "owner": lambda path: _write(path, "PRAGMA application_id = 5"),
    "version": lambda path: _write(path, "PRAGMA user_version = 5"),
    "ours without tables": lambda path: _write(path, f"PRAGMA application_id = {OWNER}", "PRAGMA user_version = 4"),
    "older": lambda path: _write(path, f"PRAGMA application_id = {OWNER}", "PRAGMA user_version = 0"),
}


def pages(probe: Probe) -> None:
    """List more runs than one query returns, of which some were pruned."""
    path, count = probe.path("many.db"), probe.draw(999, 1000, 1001, 2001)
    with closing(SQLiteJournal(path)) as store:
        pruned = probe.draw("NULL", "CASE number % 500 WHEN 0 THEN x'00' END")
        numbers = f"WITH RECURSIVE n (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {count})"
        names = "run, program, status, seq, digest, started, updated, holder, fence, expires, kept"
        _write(
            path,
            f"INSERT INTO runs ({names}) {numbers}"
            f" SELECT 'r' || number, 'p', 's', 0, x'00', number, 1, '', 1, 0, {pruned} FROM n",
        )
        for found in (list(store.names()), list(store.pruned())):
            probe.note(len(found), found[:2], found[-2:], sum(int(name[1:]) for name in found))
        probe.note(len(store.rows()), [row.run for row in store.rows(limit=2)], len(store.rows(since=7.0)))


# -- wrong types -------------------------------------------------------------------------------------------------------


def odd(probe: Probe) -> None:
    """Put values of wrong types into the columns of a file, and read it."""
    path = probe.path("odd.db")
    with closing(SQLiteJournal(path)) as store:
        quick(store._file)
        for run in ("r0", "r1"):
            store.create(first(run, entries(2)), "p", "ann", 1.0)
        store.put_document("d", b"1")
        store.switch(Switch("tool:a", True, 1.0, "why", "ann"))
        store.vault.put("r0", {"a": b"1"})
        for _ in range(probe.draw(1, 1, 2)):
            column, value = probe.draw(*_COLUMNS), probe.draw(*_ODD)
            probe.note("odd", column, value)
            _odd(probe, path, f"UPDATE OR IGNORE runs SET {column} = ? WHERE run = 'r0'", value)
        table, column = probe.draw(
            ("records", "record"), ("records", "digest"), ("records", "seq"), ("documents", "text")
        )
        value = probe.draw(*_ODD[:4])
        probe.note(table, column, value)
        _odd(probe, path, f"UPDATE OR IGNORE {table} SET {column} = ?", value)
        _read(probe, store)


def _odd(probe: Probe, path: str, statement: str, value: Any) -> None:
    try:
        _write(path, (statement, (value,)))
    except sqlite3.IntegrityError:
        probe.note("the file does not take it")


def _read(probe: Probe, store: Journal) -> None:
    probe.ask("rows", store.rows)
    probe.ask("rows", store.rows, ["running"], since=0.0)
    probe.ask("names", lambda: (list(store.names()), list(store.pruned())))
    for run in ("r0", "r1", "text"):
        probe.ask("row", store.row, run)
        probe.ask("head", store.head, run)
        probe.ask("read", store.read, run)
        found = probe.quietly("verify", lambda run=run: verify(store, run))
        if found is not None:
            probe.note(found.records, found.faults)
    probe.ask("due", store.due, 10.0**6)
    probe.ask("document", store.document, "d")
    probe.ask("acquire", store.acquire, "r0", "bob", NOW, 1.0)
    probe.ask("append", store.append, behind("r0", entries(2), following(entries(2), 1)), None)
    probe.ask("claim", store.claim, "cid", NOW + 10.0, 1.0, 9)
    probe.ask("rows", store.rows)


def rows(probe: Probe) -> None:
    """Read rows of a list of runs, of which some values have wrong types."""
    for _ in range(8):
        values = ["r", "p", "s", 1, 2.0, 3.0, 0.0]
        for _ in range(probe.draw(0, 1, 1, 2)):
            values[probe.chance.randrange(7)] = probe.draw(*_ODD, True)
        probe.ask("row", Row.read, values)


# -- the file itself ---------------------------------------------------------------------------------------------------


def layouts(probe: Probe) -> None:
    """Open files with layouts of a scene's own, which two connections share without patience."""
    tables = ("CREATE TABLE one (a TEXT)", "CREATE TABLE two (b INTEGER, c TEXT)")
    mode, level = probe.draw(("wal", "FULL"), ("delete", "EXTRA"), ("wal", "OFF"), ("memory", "FULL"), ("WAL", "FULL"))
    upgrades = (("ALTER TABLE two ADD COLUMN c TEXT",), (tables[0],))
    layout = Layout("box", 77, 3, mode, level, tables, patience=0.01, cure="make another", upgrades=upgrades)
    path, name = probe.path("box.db"), probe.draw("box", "the box")
    version = probe.draw(0, 1, 2, 3, 4)
    if version:
        statements = ("CREATE TABLE two (b INTEGER)", *upgrades[0], *upgrades[1])[: version + probe.draw(0, 0, 0, 1)]
        _write(path, *statements, "PRAGMA application_id = 77", f"PRAGMA user_version = {version}")
    file = probe.quietly("open", lambda: DatabaseFile(path, name, layout, create=probe.draw(True, True, False)))
    if file is None:
        return
    seen: list[str] = []
    file._connection.set_trace_callback(seen.append)
    for durable in (probe.draw(True, False), True, False, False):
        probe.quietly("write", lambda durable=durable: _add(file, "x", durable))
    probe.quietly("write", lambda: _add(file, "x", True, "INSERT INTO none VALUES (?)"))
    probe.note("statements", seen, pragmas(file._connection))
    _fill(probe, file)
    if mode != "memory":
        _share(probe, file, path)
        _busy(probe, path, layout)
    _end(probe, file)


def _fill(probe: Probe, file: DatabaseFile) -> None:
    """Write where it is not allowed, and more than there is room for."""
    connection = file._connection
    connection.execute("PRAGMA query_only = ON")
    probe.quietly("only read", lambda: _add(file, "q", True))
    connection.execute("PRAGMA query_only = OFF")
    (most,) = connection.execute("PRAGMA max_page_count").fetchone()
    connection.execute("PRAGMA max_page_count = 1")
    probe.quietly("full", lambda: _add(file, "f" * 10**5, True))
    connection.execute(f"PRAGMA max_page_count = {most}")
    probe.quietly("room", lambda: _add(file, "g" * 10, True))


def _share(probe: Probe, file: DatabaseFile, path: str) -> None:
    """Let another connection hold the file for a while."""
    with closing(sqlite3.connect(path, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        probe.quietly("busy", lambda: _add(file, "y", True))
        another.execute("COMMIT")
        if probe.some(0.5):
            file.hold()
            another.execute("PRAGMA busy_timeout = 0")
            probe.quietly("other", lambda: another.execute("INSERT INTO one VALUES ('z')"))
            probe.quietly("hold", file.hold)


def _busy(probe: Probe, path: str, layout: Layout) -> None:
    """Open the file while another connection has it alone."""
    with closing(sqlite3.connect(path, isolation_level=None)) as another:
        another.execute("PRAGMA locking_mode = EXCLUSIVE")
        probe.note("alone", another.execute("PRAGMA busy_timeout = 0").fetchone())
        try:
            another.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            probe.note("it is not alone")
        probe.quietly("open", lambda: DatabaseFile(path, "box", layout, create=True).close())


def _end(probe: Probe, file: DatabaseFile) -> None:
    with file.reading() as connection:
        probe.note(connection.execute("SELECT a FROM one ORDER BY a").fetchall())
    probe.ask("rewrite", file.rewrite)
    if probe.some(0.3):
        file._process += 1
        probe.quietly("fork", lambda: _add(file, "f", True))
        probe.quietly("fork", file.close)
        file._process -= 1
    file.close()
    for call in (file.hold, file.rewrite, lambda: _add(file, "w", True)):
        probe.quietly("closed", call)


def _add(file: DatabaseFile, value: str, durable: bool, statement: str = "INSERT INTO one VALUES (?)") -> str:
    with file.writing(durable=durable) as connection:
        connection.execute(statement, (value,))
    return value
