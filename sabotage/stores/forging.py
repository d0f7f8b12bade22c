"""The abilities of an attacker who can write the store: read and replace everything that it has of a run.

The attacker can recompute every digest, since that needs no secret, but has no signing key: a signature stays, is
removed, or is made with the attacker's own key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.postgres import PostgresJournal
from stepward.vm.journal.records import NO_DIGEST, write_record
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry, Head, Journal

if TYPE_CHECKING:
    from stepward.sabotage.playing.trial import Trial

Data = dict[str, Any]
"""A record as plain data: `at`, `body`, `kind`, `note`, `prev`, `seq`, `v`."""

STRANGER_SEED: Final = bytes(32)
"""The seed of the attacker's own key, which no verifier trusts."""


def stranger() -> SigningKey:
    """Return a key of the attacker's own."""
    return SigningKey.from_seed(STRANGER_SEED)


class StoreSnapshot(NamedTuple):
    """Everything that a store has of a run."""

    entries: list[Entry]
    head: Head | None
    documents: dict[str, bytes]
    secrets: dict[str, bytes]


# -- raw access to a store ---------------------------------------------------------------------------------------------


class RawStore(Protocol):
    """Raw access to a store, past its interface."""

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run and its head. None leaves the head, or the status in the list, unchanged."""
        ...

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        ...

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace the vault's values of a run."""
        ...


class RawMemory:
    """Raw access to a store in memory. It stores no separate head: the head is the last entry, with a signature."""

    def __init__(self, store: MemoryJournal) -> None:
        self._store = store

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run, and the signature of its head."""
        stored = self._store._runs[run]
        stored.entries[:] = entries
        if head is not None:
            stored.signature = head.signature
        stored.status = status or stored.status

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self._store._documents[digest] = text

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace the vault's values of a run."""
        self._store.vault._secrets[run] = dict(secrets)


class RawFile:
    """Raw access to a SQLite file by a connection of its own."""

    def __init__(self, store: SQLiteJournal) -> None:
        self.path = store._file._path

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run, and its head."""
        rows = [(run, *entry) for entry in entries]
        statements: list[tuple[str, Sequence[Any]]] = [("DELETE FROM records WHERE run = ?", (run,))]
        statements += [("INSERT INTO records (run, seq, record, digest) VALUES (?, ?, ?, ?)", row) for row in rows]
        if head is not None:
            edited = "UPDATE runs SET seq = ?, digest = ?, signature = ? WHERE run = ?"
            statements.append((edited, (head.seq, head.digest, head.signature, run)))
        if status is not None:
            statements.append(("UPDATE runs SET status = ? WHERE run = ?", (status, run)))
        self.do(*statements)

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self.do(("UPDATE documents SET text = ? WHERE digest = ?", (text, digest)))

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace the vault's values of a run."""
        rows = [(run, reference, secret) for reference, secret in secrets.items()]
        statements: list[tuple[str, Sequence[Any]]] = [("DELETE FROM secrets WHERE run = ?", (run,))]
        statements += [("INSERT INTO secrets VALUES (?, ?, ?)", row) for row in rows]
        _write(f"{self.path}.vault", statements)

    def do(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Execute any statements on the file, in one transaction."""
        _write(self.path, statements)


def _write(path: str, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")


# -- one run -----------------------------------------------------------------------------------------------------------


class Forger:
    """An attacker with raw access to the store of one run. The constructor makes the oracle stop reading the store."""

    def __init__(self, trial: Trial) -> None:
        trial.oracle.rest()
        self.trial = trial
        self.run = trial.run
        self.store: Journal = trial.store.inner
        self.raw_store: RawStore = raw_store_of(self.store)
        body = self.records()[0]["body"]
        self.documents: tuple[str, ...] = (body["program"], *body["policies"])

    def snapshot(self) -> StoreSnapshot:
        """Return everything that the store has of the run."""
        store, run = self.store, self.run
        found = {digest: store.document(digest) for digest in self.documents}
        documents = {digest: text for digest, text in found.items() if text is not None}
        return StoreSnapshot(store.read(run), store.head(run), documents, store.vault.get(run))

    def records(self) -> list[Data]:
        """Return the records as plain data, which the caller may change."""
        return [json.loads(entry.record) for entry in self.store.read(self.run)]

    def put(self, entries: Sequence[Entry], head: Head | None = None, status: str | None = None) -> None:
        """Replace the entries. In a store with a separate head, the head stays unless one is given."""
        self.trial.case.count()
        self.raw_store.put(self.run, entries, head, status)

    def put_with_head(self, entries: Sequence[Entry], signature: bytes | None, status: str | None = None) -> None:
        """Replace the entries, and make the last one the head."""
        last = entries[-1]
        self.put(entries, Head(self.run, last.seq, last.digest, signature), status)

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self.trial.case.count()
        self.raw_store.put_document(digest, text)

    def put_secrets(self, secrets: Mapping[str, Any]) -> None:
        """Replace the vault's values of the run."""
        self.trial.case.count()
        self.raw_store.put_secrets(self.run, secrets)


def raw_store_of(store: Journal) -> RawStore:
    """Return the raw access to a store."""
    if isinstance(store, SQLiteJournal):
        return RawFile(store)
    if isinstance(store, MemoryJournal):
        return RawMemory(store)
    from stepward.sabotage.stores.servers import RawSchema

    assert isinstance(store, PostgresJournal), "attacks are played on these three kinds of store"
    return RawSchema(store)


def entry_of(record: Data, prev: bytes, seq: int) -> Entry:
    """Return the entry of a record after the one with digest `prev`, with everything recomputed."""
    return write_record(seq, prev, record["kind"], canonical(record["body"]), canonical(record["note"]), record["at"])


def chained(records: Iterable[Data], start: int = 0, prev: bytes = NO_DIGEST) -> list[Entry]:
    """Return records as a chain, with recomputed numbers, links and digests."""
    entries: list[Entry] = []
    for seq, record in enumerate(records, start):
        entries.append(entry_of(record, prev, seq))
        prev = entries[-1].digest
    return entries


def flipped(data: bytes, bit: int) -> bytes:
    """Return bytes with one bit flipped."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def plant(
    store: Journal,
    run: str,
    entries: Sequence[Entry],
    snapshot: StoreSnapshot,
    status: str = "RUNNING",
    signature: bytes | None = None,
) -> None:
    """Put a run into another store, with the documents and sensitive values of a snapshot, and without a lease."""
    for digest, text in snapshot.documents.items():
        store.put_document(digest, text)
    store.vault.put(run, snapshot.secrets)
    append = Append(run, -1, entries, status, 0.0, False, signature)
    lease = store.create(append, "planted", "attacker", 0.0)
    assert lease is not None, "the run was not there"
