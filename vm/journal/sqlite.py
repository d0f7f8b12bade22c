"""The default store: one SQLite file, for all processes of one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from stepward.vm.arguments import PATH, require
from stepward.vm.journal.encryption import EncryptedVault
from stepward.vm.journal.refusals import append_refused, lease_lost, no_such_run
from stepward.vm.journal.sqlite_file import DatabaseFile, Layout
from stepward.vm.journal.sqlite_vault import SQLiteVault
from stepward.vm.journal.store import KEYS, NOBODY, Append, Entry, Head, JournalError, Lease, Row, Switch

if TYPE_CHECKING:
    from stepward.vm.journal.run_keys import RunKeys
    from stepward.vm.journal.store import Journal, Vault

_DUE_INDEX: Final = "CREATE INDEX runs_due ON runs (due, number) WHERE due IS NOT NULL"
_HELD_INDEX: Final = "CREATE INDEX runs_held ON runs (held) WHERE held IS NOT NULL"
_SWITCHES: Final = """CREATE TABLE switches (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, is_open INTEGER NOT NULL, at REAL NOT NULL, why TEXT NOT NULL,
    by TEXT NOT NULL)"""
_OPENED: Final = """SELECT name FROM switches AS one WHERE is_open IS NOT 0
    AND NOT EXISTS (SELECT 1 FROM switches AS later WHERE later.name = one.name AND later.number > one.number)"""

_LAYOUT: Final = Layout(
    kind="journal",
    application_id=0x5374704A,
    version=4,
    journal_mode="wal",
    synchronous="FULL",
    tables=(
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, program TEXT NOT NULL, status TEXT NOT NULL,
            seq INTEGER NOT NULL, digest BLOB NOT NULL, signature BLOB, started REAL NOT NULL, updated REAL NOT NULL,
            holder TEXT NOT NULL, fence INTEGER NOT NULL, expires REAL NOT NULL, due REAL, kept BLOB, held TEXT)""",
        """CREATE TABLE records (
            run TEXT, seq INTEGER, record BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
        "CREATE TABLE documents (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
        _DUE_INDEX,
        _SWITCHES,
        _HELD_INDEX,
    ),
    upgrades=(
        ("ALTER TABLE runs ADD COLUMN due REAL", "UPDATE runs SET due = 0 WHERE status = 'RUNNING'", _DUE_INDEX),
        ("ALTER TABLE runs ADD COLUMN kept BLOB",),
        ("ALTER TABLE runs ADD COLUMN held TEXT", _SWITCHES, _HELD_INDEX),
    ),
)

_CREATE: Final = """INSERT INTO runs
    (run, program, status, seq, digest, signature, started, updated, holder, fence, expires, due)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING"""
_ADVANCE: Final = """UPDATE runs SET status = ?, seq = ?, digest = ?, signature = ?, updated = ?, due = ?, held = NULL
    WHERE run = ? AND seq = ? AND fence = coalesce(?, fence) AND kept IS NULL"""
# Writes no index: most appends leave it open when the run is due, and a run that goes on is not held.
_GO_ON: Final = """UPDATE runs SET status = ?, seq = ?, digest = ?, signature = ?, updated = ?
    WHERE run = ? AND seq = ? AND fence = coalesce(?, fence) AND kept IS NULL AND due = ? AND held IS NULL"""
_ADD: Final = "INSERT INTO records (run, seq, record, digest) VALUES (?, ?, ?, ?)"
_LEASE: Final = """UPDATE runs SET holder = ?, fence = fence + 1, expires = ?
    WHERE run = ? AND (holder = ? OR CAST(expires AS REAL) <= ?) AND kept IS NULL"""
_DUE: Final = "due <= ? AND CAST(expires AS REAL) <= ? AND kept IS NULL"
_FIND_DUE: Final = f"""SELECT run FROM runs WHERE {_DUE}
    AND (? OR program IN (SELECT value FROM json_each(?)))
    AND (run, seq) NOT IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))
    ORDER BY due, number LIMIT ?"""
_ROW: Final = "run, program, status, seq, started, updated, expires"

PAGE: Final = 1_000
"""Number of run names per query."""

_SIGN: Final = "UPDATE runs SET signature = ? WHERE run = ? AND seq = ? AND digest = ? AND kept IS NULL"
# The row stays, so that no other run is made with its id. A driver that is still there loses its lease.
_PRUNE: Final = """UPDATE runs SET kept = ?, signature = NULL, due = NULL, held = NULL, fence = fence + 1, expires = 0
    WHERE run = ? AND seq = ? AND digest = ?"""
_FENCE: Final = "SELECT seq, fence FROM runs WHERE run = ? AND kept IS NULL"
_HOLD: Final = """UPDATE runs SET held = :name, due = NULL, expires = 0
    WHERE run = :run AND fence = :fence AND kept IS NULL RETURNING run"""
_SEE: Final = "SELECT run FROM runs WHERE run = :run AND fence = :fence AND kept IS NULL AND :name IS NOT NULL"
_EXPIRE: Final = "UPDATE runs SET expires = ? WHERE run = ? AND fence = ?"


def _lines(run: str, entries: Iterable[Entry]) -> list[tuple[str, int, bytearray, bytearray]]:
    """Return the values of `_ADD`. Python's module asks what a `bytes` conforms to, which takes longer than a copy."""
    return [(run, seq, bytearray(record), bytearray(digest)) for seq, record, digest in entries]


class SQLiteJournal:
    """Runs in the SQLite file at `path`, which is created if it does not exist and `create` is true.

    Sensitive values are in a second file beside it, `<path>.vault`. Durable appends are on the disk on return; others
    survive the end of the process, and, once a durable one follows, a loss of power. The file must be on a local disk.
    With `keys`, sensitive values are encrypted (`encryption.py`).
    """

    blocks = True

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, keys: RunKeys | None = None) -> None:
        require(PATH, path=path)
        require(KEYS.or_none(), keys=keys)
        name = os.fspath(path)
        if name in ("", ":memory:"):
            raise JournalError(f"`{name}` is no file; for a journal that ends with its process, use MemoryJournal")
        # The vault's name must not depend on the link by which the file was opened.
        real = os.path.realpath(name)
        self._path, self._keys = name, keys
        self._file = DatabaseFile(real, name, _LAYOUT, create=create)
        self._values = SQLiteVault(f"{real}.vault", f"{name}.vault")
        self.vault: Vault = self._values if keys is None else EncryptedVault(self._values, keys)

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        run, expected, entries, status, now, durable, signature, due = append
        assert expected == -1, "a new run has no entry before its first"
        last = entries[-1]
        assert last.seq == len(entries) - 1, "entries are numbered from 0 without a gap"
        state = (run, program, status, last.seq, bytearray(last.digest), signature, now, now, holder, now + ttl, due)
        with self._file.writing(durable=durable) as connection:
            if not connection.execute(_CREATE, state).rowcount:
                return None
            connection.executemany(_ADD, _lines(run, entries))
        return Lease(run, 1, now + ttl)

    def append(self, append: Append, fence: int | None) -> None:
        run, expected, entries, status, now, durable, signature, due = append
        last = entries[-1]
        assert last.seq == expected + len(entries), "entries follow the expected one without a gap"
        with self._file.writing(durable=durable) as connection:
            state, at = (status, last.seq, bytearray(last.digest), signature, now), (run, expected, fence)
            goes_on = due is not None and connection.execute(_GO_ON, (*state, *at, due)).rowcount
            if not goes_on and not connection.execute(_ADVANCE, (*state, due, *at)).rowcount:
                has = connection.execute(_FENCE, (run,)).fetchone()
                raise append_refused(append, fence, has)
            connection.executemany(_ADD, _lines(run, entries))

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        # Durable, so that no fencing number is ever given twice.
        with self._file.writing(durable=True) as connection:
            leased = connection.execute(_LEASE, (holder, now + ttl, run, holder, now)).rowcount
            has = connection.execute(_FENCE, (run,)).fetchone()
        if has is None:
            raise no_such_run(run)
        return Lease(run, has[1], now + ttl) if leased else None

    def claim(
        self,
        holder: str,
        now: float,
        ttl: float,
        limit: int,
        programs: Collection[str] | None = None,
        passed: Mapping[str, int] = NOBODY,
    ) -> list[Lease]:
        filters = (programs is None, json.dumps(list(programs or ())), json.dumps(list(passed.items())))
        query = (now, now, *filters, limit)
        # Only who finds something waits for the lock of the file.
        with self._file.reading() as connection:
            if connection.execute(_FIND_DUE, query).fetchone() is None:
                return []
        leases = []
        with self._file.writing(durable=True) as connection:
            for (run,) in connection.execute(_FIND_DUE, query).fetchall():
                connection.execute(_LEASE, (holder, now + ttl, run, holder, now))
                (_, fence) = connection.execute(_FENCE, (run,)).fetchone()
                leases.append(Lease(run, fence, now + ttl))
        return leases

    def due(self, now: float) -> dict[str, int]:
        query = f"SELECT program, count(*) FROM runs WHERE {_DUE} GROUP BY program"
        with self._file.reading() as connection:
            return {str(program): count for program, count in connection.execute(query, (now, now))}

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        renewed = lease._replace(expires=now + ttl)
        if not self._expire(renewed):
            raise lease_lost(lease.run, lease.fence)
        return renewed

    def release(self, lease: Lease) -> None:
        self._expire(lease._replace(expires=0.0))

    def read(self, run: str, start: int = 0) -> list[Entry]:
        query = "SELECT seq, record, digest FROM records WHERE run = ? AND seq >= ? ORDER BY seq"
        with self._file.reading() as connection:
            return list(map(Entry._make, connection.execute(query, (run, start))))

    def head(self, run: str) -> Head | None:
        query = "SELECT run, seq, digest, signature FROM runs WHERE run = ? AND kept IS NULL"
        with self._file.reading() as connection:
            found = connection.execute(query, (run,)).fetchone()
        return Head._make(found) if found else None

    def sign(self, head: Head) -> bool:
        with self._file.writing(durable=True) as connection:
            values = (head.signature, head.run, head.seq, head.digest)
            return bool(connection.execute(_SIGN, values).rowcount)

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        allowed = None if statuses is None else list(statuses)
        where = "kept IS NULL AND program = coalesce(?, program) AND started >= coalesce(?, started)"
        if allowed is not None:
            where += f" AND status IN ({', '.join('?' * len(allowed))})"
        # A limit selects the newest runs.
        query = f"SELECT {_ROW} FROM runs WHERE {where} ORDER BY started DESC, number DESC LIMIT ?"
        values = (program, since, *(allowed or ()), -1 if limit is None else limit)
        with self._file.reading() as connection:
            found = connection.execute(query, values).fetchall()
        return [Row.read(values) for values in reversed(found)]

    def row(self, run: str) -> Row | None:
        with self._file.reading() as connection:
            found = connection.execute(f"SELECT {_ROW} FROM runs WHERE run = ? AND kept IS NULL", (run,)).fetchone()
        return Row.read(found) if found else None

    def names(self) -> Iterator[str]:
        return self._named("kept IS NULL")

    def pruned(self) -> Iterator[str]:
        return self._named("kept IS NOT NULL")

    def _named(self, which: str) -> Iterator[str]:
        query = f"SELECT number, run FROM runs WHERE number > ? AND {which} ORDER BY number LIMIT ?"
        last: int | None = -1
        while last is not None:
            with self._file.reading() as connection:
                page = connection.execute(query, (last, PAGE)).fetchall()
            last = page[-1][0] if page else None
            yield from (str(run) for _, run in page)

    def prune(self, head: Head, kept: bytes) -> bool:
        with self._file.writing(durable=True) as connection:
            if not connection.execute(_PRUNE, (kept, head.run, head.seq, head.digest)).rowcount:
                return False
            connection.execute("DELETE FROM records WHERE run = ?", (head.run,))
        return True

    def kept(self, run: str) -> bytes | None:
        with self._file.reading() as connection:
            found = connection.execute("SELECT kept FROM runs WHERE run = ?", (run,)).fetchone()
        return found[0] if found else None

    def switch(self, switch: Switch) -> bool:
        with self._file.writing(durable=True) as connection:
            opened = {name for (name,) in connection.execute(_OPENED)}
            if (switch.name in opened) == switch.is_open:
                return False
            connection.execute("INSERT INTO switches (name, is_open, at, why, by) VALUES (?, ?, ?, ?, ?)", switch)
            if not switch.is_open:
                connection.execute("UPDATE runs SET due = 0, held = NULL WHERE held = ?", (switch.name,))
        return True

    def switches(self, name: str | None = None) -> list[Switch]:
        query = "SELECT name, is_open, at, why, by FROM switches WHERE name = coalesce(?, name) ORDER BY number"
        with self._file.reading() as connection:
            found = connection.execute(query, (name,)).fetchall()
        return list(map(Switch.read, found))

    def opened(self) -> frozenset[str]:
        with self._file.reading() as connection:
            return frozenset(str(name) for (name,) in connection.execute(_OPENED))

    def hold(self, lease: Lease, name: str) -> bool:
        with self._file.writing(durable=True) as connection:
            is_open = (name,) in connection.execute(_OPENED).fetchall()
            statement = _HOLD if is_open else _SEE
            updated = connection.execute(statement, {"run": lease.run, "fence": lease.fence, "name": name})
            if updated.fetchone() is None:
                raise lease_lost(lease.run, lease.fence)
        return is_open

    @contextmanager
    def frozen(self) -> Iterator[Journal]:
        with closing(SQLiteJournal(self._path, create=False, keys=self._keys)) as still:
            still._file.hold()
            yield still

    def put_document(self, digest: str, text: bytes) -> None:
        with self._file.writing(durable=True) as connection:
            connection.execute("INSERT OR IGNORE INTO documents VALUES (?, ?)", (digest, text))

    def document(self, digest: str) -> bytes | None:
        with self._file.reading() as connection:
            found = connection.execute("SELECT text FROM documents WHERE digest = ?", (digest,)).fetchone()
        return found[0] if found else None

    def close(self) -> None:
        self._file.close()
        self._values.close()

    def _expire(self, lease: Lease) -> int:
        with self._file.writing(durable=False) as connection:
            return connection.execute(_EXPIRE, (lease.expires, lease.run, lease.fence)).rowcount
