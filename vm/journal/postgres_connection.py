"""One connection to PostgreSQL: reconnecting, the tables of the schema, and error messages."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepward.vm.journal.store import JournalError

VERSION: Final = 4

_DUE_INDEX: Final = "CREATE INDEX runs_due ON runs (due, number) WHERE due IS NOT NULL"
_HELD_INDEX: Final = "CREATE INDEX runs_held ON runs (held) WHERE held IS NOT NULL"
_SWITCHES: Final = """CREATE TABLE switches (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, is_open boolean NOT NULL,
    at double precision NOT NULL, why text NOT NULL, by text NOT NULL)"""

_TABLES: Final = (
    """CREATE TABLE runs (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run text NOT NULL UNIQUE, program text NOT NULL,
        status text NOT NULL, seq bigint NOT NULL, digest bytea NOT NULL, signature bytea,
        started double precision NOT NULL, updated double precision NOT NULL,
        holder text NOT NULL, fence bigint NOT NULL, expires double precision NOT NULL, due double precision,
        kept bytea, held text)""",
    """CREATE TABLE records (
        run text, seq bigint, record bytea NOT NULL, digest bytea NOT NULL, writer uuid NOT NULL,
        PRIMARY KEY (run, seq))""",
    "CREATE TABLE documents (digest text PRIMARY KEY, text bytea NOT NULL)",
    "CREATE TABLE secrets (run text, reference text, value bytea NOT NULL, PRIMARY KEY (run, reference))",
    "CREATE TABLE layout (version integer NOT NULL)",
    _DUE_INDEX,
    _SWITCHES,
    _HELD_INDEX,
)

_UPGRADES: Final = {
    1: (
        "ALTER TABLE runs ADD COLUMN due double precision",
        "UPDATE runs SET due = 0 WHERE status = 'RUNNING'",
        _DUE_INDEX,
    ),
    2: ("ALTER TABLE runs ADD COLUMN kept bytea",),
    3: ("ALTER TABLE runs ADD COLUMN held text", _SWITCHES, _HELD_INDEX),
}
"""The statements that bring a schema of an older version to the next one, by the older version."""

_ADVICE: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (psycopg.errors.InsufficientPrivilege, "; grant it to the role"),
    (psycopg.errors.ReadOnlySqlTransaction, "; connect to the primary"),
    (psycopg.errors.DiskFull, "; make room on the server, and try again"),
    (psycopg.errors.DuplicateTable, "; name a schema that contains nothing else"),
    (psycopg.errors.UniqueViolation, "; somebody else has written into the schema"),
)


_PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""When a connection counts as lost of which nothing is heard, unless its address says otherwise: after half a minute at
most, in seconds, and in milliseconds."""


class PostgresConnection:
    """A connection with one transaction per statement, for one process and any of its threads."""

    def __init__(self, conninfo: str, schema: str, *, create: bool) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_held = False
        with self._explained("opened"):
            self._connection = self._connect()
            try:
                self._lay_out(create)
            except BaseException:
                self._connection.close()
                raise

    def rows(self, statement: str, values: Mapping[str, object], *, before: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement that returns rows; if the connection was lost, once more on a new one.

        So a statement may be executed twice, and has to be idempotent. `before` is a statement that is run first, in
        the same transaction.
        """
        self._check_open()
        with self._lock, self._explained("used"):
            try:
                return self._rows(statement, values, before)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
                if self._is_held:  # a new connection would see another moment
                    raise JournalError(
                        "the connection to PostgreSQL was lost while it was copied: copy again"
                    ) from None
            self._connection = self._connect()
            try:
                return self._rows(statement, values, before)
            except psycopg.OperationalError as error:
                if not self._connection.closed:
                    raise
                why = (
                    "the connection was lost twice; what was asked for may have happened: read the run before going on"
                )
                raise JournalError(f"the journal in PostgreSQL can't be used: {why}") from error

    def hold(self) -> None:
        """Let everything that is read from now on be as it is now; nothing is written any more."""
        self._check_open()
        with self._lock, self._explained("used"):
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._connection.execute("SELECT version FROM layout").fetchall()  # the moment is that of the first query
            self._is_held = True

    def noticed(self, statement: str) -> list[str]:
        """Run a statement that can't be in a transaction; return the details of the server's notices."""
        details: list[str] = []

        def note(diagnostic: psycopg.errors.Diagnostic) -> None:
            details.append(diagnostic.message_detail or "")

        self._check_open()
        with self._lock, self._explained("used"):
            self._connection.add_notice_handler(note)
            try:
                self._connection.execute(statement.encode())
            finally:
                self._connection.remove_notice_handler(note)
        return details

    def close(self) -> None:
        """Close the connection."""
        self._check_process()
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def _rows(self, statement: str, values: Mapping[str, object], before: str | None) -> list[tuple[Any, ...]]:
        if before is not None:
            with self._connection.transaction():
                self._connection.execute(before.encode(), values)
                return self._rows(statement, values, None)
        return self._connection.execute(statement.encode(), values, binary=True).fetchall()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise JournalError("the journal in PostgreSQL was opened by another process; open it again after a fork")

    def _check_open(self) -> None:
        self._check_process()
        if self._is_closed:
            raise JournalError("the journal in PostgreSQL was closed; open it again to go on")

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        parameters = conninfo_to_dict(self._conninfo)
        patience = {name: value for name, value in _PATIENCE.items() if name not in parameters}
        address = make_conninfo(self._conninfo, client_encoding="UTF8", **patience)
        connection = psycopg.connect(address, autocommit=True)
        # An append that waited for another one must see what that one has written.
        connection.execute("SET default_transaction_isolation = 'read committed'")
        connection.execute("SET synchronous_commit = on")
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self._schema)))
        return connection

    def _lay_out(self, create: bool) -> None:
        is_new = self._connection.execute("SELECT to_regclass('layout')").fetchone() == (None,)
        if not is_new and self._version() == VERSION:
            return
        if is_new and not create:
            raise JournalError(f"there is no journal in the schema `{self._schema}` of the PostgreSQL database")
        # Concurrent CREATE SCHEMA fails even with IF NOT EXISTS. The lock is taken before the transaction: one that
        # began earlier might not see the tables that another process has made.
        key = (self._schema,)
        self._connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", key)
        with self._connection.transaction():
            if self._connection.execute("SELECT to_regclass('layout')").fetchone() == (None,):
                self._make_schema()
            self._upgrade()
        self._connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", key)

    def _make_schema(self) -> None:
        self._connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)))
        for table in _TABLES:
            self._connection.execute(table.encode())
        self._connection.execute("INSERT INTO layout VALUES (%s)", (VERSION,))

    def _upgrade(self) -> None:
        """Bring a schema of an older version to this one; processes that have it open already can go on."""
        for version in range(self._version(), VERSION):
            for statement in _UPGRADES[version]:
                self._connection.execute(statement.encode())
            self._connection.execute("UPDATE layout SET version = %s", (version + 1,))

    def _version(self) -> int:
        """Return the version of the schema; raises JournalError for one that is not known here."""
        versions = self._connection.execute("SELECT version FROM layout").fetchall()
        if len(versions) != 1 or versions[0][0] not in (VERSION, *_UPGRADES):
            raise JournalError(f"the schema `{self._schema}` was written by a newer version; update Stepward")
        return int(versions[0][0])

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:
            raise JournalError(f"the journal in PostgreSQL can't be {what}: a text in it is no UTF-8") from None
        except psycopg.Error as error:
            text = " ".join(str(error.diag.message_primary or error).split())
            # What PostgreSQL says of a value may quote it.
            why = "a value does not fit" if isinstance(error, psycopg.DataError) else text or type(error).__name__
            advice = next((advice for kind, advice in _ADVICE if isinstance(error, kind)), "")
            if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
                advice = "; look whether the server runs, and whether its address is right"
            message = f"{why[:1].lower()}{why[1:]}{advice}"
            raise JournalError(f"the journal in PostgreSQL can't be {what}: {message}") from error
