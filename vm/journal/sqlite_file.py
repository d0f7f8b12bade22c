"""One SQLite file and one connection to it: opening, layout, transactions, and error messages."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from stepward.vm.journal.store import JournalError

_text: Final = partial(str, encoding="utf-8", errors="replace")
"""Reads a text, also one that is no UTF-8: Python's own error would end the whole query, and quote the text."""

PATIENCE_SECONDS: Final = 30
"""How long a call waits for the lock of another process."""

_WHY: Final = {
    sqlite3.SQLITE_BUSY: "another process has held it for too long; stop that process, or try again",
    sqlite3.SQLITE_READONLY: "it may only be read; allow writing to the file and its folder, or copy it elsewhere",
    sqlite3.SQLITE_IOERR: "the disk failed; look after the disk, and open it again",
    sqlite3.SQLITE_FULL: "the disk is full; make room, and try again",
    sqlite3.SQLITE_CANTOPEN: "the system does not open it; allow reading and writing in its folder",
    sqlite3.SQLITE_NOTADB: "it is no database; name another file",
}


@dataclass(frozen=True)
class Layout:
    """The layout of a kind of file: its tables and settings.

    `synchronous` is the level at which a commit survives a loss of power in this `journal_mode`. `patience` is how long
    a call waits for the lock of another process, in seconds; `cure` says what to do with a damaged file. `upgrades` has
    the statements that bring a file of version 1 to version 2, and so on.
    """

    kind: str
    application_id: int
    version: int
    journal_mode: str
    synchronous: str
    tables: tuple[str, ...]
    settings: tuple[str, ...] = ()
    patience: float = PATIENCE_SECONDS
    cure: str = "bring it back from a copy"
    upgrades: tuple[tuple[str, ...], ...] = ()


class DatabaseFile:
    """A file with a layout, for the process that opened it and any of its threads.

    Messages name it `name`. With `create`, a file that does not exist is created, readable only for its owner.
    """

    def __init__(self, path: str, name: str, layout: Layout, *, create: bool) -> None:
        self._path = path
        self._name = f"the {layout.kind} `{name}`"
        self._layout = layout
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._writing = {durable: _Writing(self, durable=durable) for durable in (True, False)}
        self._synchronous = layout.synchronous
        self._is_closed = False
        if os.path.isdir(path):
            raise JournalError(f"{self._name} is a folder; name a file")
        if not os.path.exists(path):
            if not create:
                raise JournalError(f"there is no {layout.kind} at `{name}`")
            self._make_file()
        with self._explained("opened"):
            self._connection = self._connect(create)
        self._execute = self._connection.cursor().execute  # that of the connection makes a cursor for each statement

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for one statement that reads."""
        self._check_open()
        with self._lock, self._explained("read"):
            yield self._connection

    def writing(self, *, durable: bool) -> _Writing:
        """Return a context with the connection for one transaction, which is committed at the end.

        On any error it is rolled back.
        """
        self._check_open()
        return self._writing[durable]

    def begin(self, *, durable: bool) -> sqlite3.Connection:
        """Begin a transaction; `finish` is called then."""
        self._lock.acquire()
        try:
            self._synchronize(self._layout.synchronous if durable else "NORMAL")
            self._execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self.finish(error)
            raise
        return self._connection

    def finish(self, failure: BaseException | None) -> None:
        """Commit the transaction, or roll it back after a failure."""
        try:
            if failure is None:
                self._execute("COMMIT")
            elif isinstance(failure, sqlite3.Error):
                raise failure
        except sqlite3.Error as error:
            raise self._explanation(error, "written") from error
        finally:
            if self._connection.in_transaction:
                # The caller needs the first error.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            self._lock.release()

    def hold(self) -> None:
        """Let everything that is read from now on be as it is now; nothing is written any more."""
        self._check_open()
        with self._lock, self._explained("read"):
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def rewrite(self) -> None:
        """Rewrite the whole file, so that its pages hold only live rows."""
        self._check_open()
        with self._lock, self._explained("written"):
            self._connection.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        self._check_process()
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise JournalError(f"{self._name} was opened by another process; open it again after a fork")

    def _check_open(self) -> None:
        self._check_process()
        if self._is_closed:
            raise JournalError(f"{self._name} was closed; open it again to go on")

    def _synchronize(self, level: str) -> None:
        # Only if it changes, because it costs as much as a statement.
        if level != self._synchronous:
            self._execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _make_file(self) -> None:
        # SQLite would make it readable for everybody. A file that another process creates at the same time is used, but
        # not opened here, because closing it would drop the locks that this process has on it.
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            why = str(error.strerror).lower()
            raise JournalError(
                f"{self._name} can't be made: {why}; name a file in a folder that you may write"
            ) from None

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explanation(error, what) from error
        except UnicodeDecodeError:  # what SQLite says of a damaged file may quote it
            raise JournalError(f"{self._name} can't be {what}: {self._damaged()}") from None

    def _explanation(self, error: sqlite3.Error, what: str) -> JournalError:
        code = _primary_code(error)
        # Without a code it is an error of Python's module, which may quote a stored value.
        is_damaged = code is None or code == sqlite3.SQLITE_CORRUPT
        why = self._damaged() if is_damaged else _WHY.get(code or 0, str(error))
        return JournalError(f"{self._name} can't be {what}: {why}")

    def _damaged(self) -> str:
        return f"it is damaged; {self._layout.cure}"

    def _connect(self, create: bool) -> sqlite3.Connection:
        # The switch to write-ahead logging fails with "busy" at once if another process does it, too.
        deadline = time.monotonic() + self._layout.patience
        while True:
            connection = sqlite3.connect(
                Path(self._path).as_uri() + "?mode=rw",
                uri=True,
                timeout=self._layout.patience,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.text_factory = _text
            try:
                self._prepare(connection, create)
                return connection
            except sqlite3.OperationalError as error:
                connection.close()
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except BaseException:
                connection.close()
                raise

    def _prepare(self, connection: sqlite3.Connection, create: bool) -> None:
        layout = self._layout
        # On macOS a plain fsync leaves the data in the disk's own cache.
        for setting in (*layout.settings, f"synchronous = {layout.synchronous}", "fullfsync = ON"):
            connection.execute(f"PRAGMA {setting}")
        if self._is_upgradable(connection):
            self._upgrade(connection)
        connection.execute("BEGIN")
        empty = self._is_empty(connection)
        connection.execute("COMMIT")
        if empty:
            if not create:
                raise JournalError(f"{self._name} is empty; name another file")
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have prepared it meanwhile.
            if self._is_empty(connection):
                for table in layout.tables:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {layout.application_id}")
                connection.execute(f"PRAGMA user_version = {layout.version}")
            connection.execute("COMMIT")
        if _pragma(connection, "journal_mode") != layout.journal_mode:
            (mode,) = connection.execute(f"PRAGMA journal_mode = {layout.journal_mode}").fetchone()
            if mode != layout.journal_mode:
                raise JournalError(
                    f"{self._name} is on a file system that is not safe for it; name a file on a local disk"
                )

    def _is_upgradable(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file is one of an older version that can be brought to this one."""
        owner, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        is_older = isinstance(version, int) and 0 < version <= len(self._layout.upgrades)
        return owner == self._layout.application_id and is_older

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Bring a file of an older version to this one; on any error it stays what it was."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done so meanwhile.
            while self._is_upgradable(connection):
                version = int(_pragma(connection, "user_version"))
                for statement in self._layout.upgrades[version - 1]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            self._require_schema(connection)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file is still empty; raises JournalError if it has another layout."""
        owner, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        if owner == self._layout.application_id:
            if version == self._layout.version:
                self._require_schema(connection)
                return False
            if isinstance(version, int) and version < self._layout.version:
                raise JournalError(f"{self._name} was written by an older version, which this one can't read")
            raise JournalError(f"{self._name} was written by a newer version; update Stepward")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise JournalError(f"{self._name} is a database of another program; name another file")
        return True

    def _require_schema(self, connection: sqlite3.Connection) -> None:
        """Raise JournalError unless the file has exactly the tables of its layout, unchanged.

        A trigger or a view could make an append succeed without storing its entries.
        """
        objects = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        found = {name: (kind, sql) for kind, name, sql in objects if not _is_of_sqlite(kind, name, sql)}
        tables = {_table_name(sql): sql for sql in self._layout.tables}
        for name, (kind, _) in found.items():
            if name not in tables:
                why = f"it holds a {kind} `{name}`, which no {self._layout.kind} has; find out who changed the file"
                raise JournalError(f"{self._name} can't be trusted: {why}")
        for name, sql in tables.items():
            if name not in found or _words(found[name][1]) != _words(sql):
                why = f"its table `{name}` is not as it was made; {self._layout.cure}"
                raise JournalError(f"{self._name} can't be trusted: {why}")


class _Writing:
    """A transaction of a file: this is `contextmanager` with less around it, which takes as long as a statement."""

    __slots__ = ("_durable", "_file")

    def __init__(self, file: DatabaseFile, *, durable: bool) -> None:
        self._file, self._durable = file, durable

    def __enter__(self) -> sqlite3.Connection:
        return self._file.begin(durable=self._durable)

    def __exit__(self, _: object, failure: BaseException | None, trace: object) -> None:
        self._file.finish(failure)


def _is_of_sqlite(kind: str, name: str, sql: str | None) -> bool:
    """Return whether SQLite made an object by itself: the index of a key, or a table of ANALYZE."""
    return (kind == "index" and sql is None) or (kind == "table" and name in ("sqlite_stat1", "sqlite_stat4"))


def _table_name(sql: str) -> str:
    return sql.split()[2]


def _words(sql: object) -> list[str]:
    return str(sql).replace("(", " ( ").split()


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return the code of an error of SQLite, or None for one of Python's module."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    assert isinstance(value, int | str)
    return value
