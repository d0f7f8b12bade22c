"""Stores on a PostgreSQL server, each in a temporary schema."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from stepward.vm.journal.postgres import PostgresJournal
from stepward.vm.journal.store import Entry, Head


@contextmanager
def lent_schema(conninfo: str) -> Iterator[PostgresJournal]:
    """Lend a store in a new schema of the database `conninfo`. Raises JournalError if that fails."""
    name = f"stepward_sabotage_{uuid.uuid4().hex}"
    with closing(PostgresJournal(conninfo, schema=name)) as store:
        try:
            yield store
        finally:
            connection(store).execute(f"DROP SCHEMA {name} CASCADE".encode())


def lent_beside(store: PostgresJournal) -> AbstractContextManager[PostgresJournal]:
    """Lend a store in a new schema of the database of another one."""
    conninfo, *_ = store._opened
    return lent_schema(conninfo)


class RawSchema:
    """Raw access to a schema by a connection that may write its tables."""

    def __init__(self, store: PostgresJournal) -> None:
        self._store = store

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run, and its head."""
        writer = uuid.uuid4()
        with connection(self._store).transaction():
            self._do("DELETE FROM records WHERE run = %s", run)
            for entry in entries:
                self._do("INSERT INTO records VALUES (%s, %s, %s, %s, %s)", run, *entry, writer)
            if head is not None:
                edited = "UPDATE runs SET seq = %s, digest = %s, signature = %s WHERE run = %s"
                self._do(edited, head.seq, head.digest, head.signature, run)
            if status is not None:
                self._do("UPDATE runs SET status = %s WHERE run = %s", status, run)

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self._do("UPDATE documents SET text = %s WHERE digest = %s", text, digest)

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace the vault's values of a run."""
        with connection(self._store).transaction():
            self._do("DELETE FROM secrets WHERE run = %s", run)
            for reference, secret in secrets.items():
                self._do("INSERT INTO secrets VALUES (%s, %s, %s)", run, reference, secret)

    def _do(self, statement: str, *values: Any) -> None:
        connection(self._store).execute(statement.encode(), values)


def connection(store: PostgresJournal) -> Any:
    """Return the connection of a store."""
    return store._connection._connection
