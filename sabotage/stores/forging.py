"""What somebody can do who writes the store behind the machine's back: read and replace all that it has of a run.

He can compute every digest anew, for that takes no secret, and has no key: a signature stays as it was, is lost, or is
made by a key of his own.
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
"""The seed of the attacker's own key, which nobody trusts."""


def stranger() -> SigningKey:
    """Return a key of the attacker's own."""
    return SigningKey.from_seed(STRANGER_SEED)


class StoreSnapshot(NamedTuple):
    """All that a store has of a run."""

    entries: list[Entry]
    head: Head | None
    documents: dict[str, bytes]
    secrets: dict[str, bytes]


# -- ways into a store -------------------------------------------------------------------------------------------------


class RawStore(Protocol):
    """A way into a store that does not pass its interface."""

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run, and its head; None leaves the head, or the status in the list, as it is."""
        ...

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        ...

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace what the vault has of a run."""
        ...


class MemoryHands:
    """A way into a store in memory. It keeps no head apart: that is always its last entry, and a signature."""

    def __init__(self, store: MemoryJournal) -> None:
        self._store = store

    def put(self, run: str, entries: Sequence[Entry], head: Head | None, status: str | None) -> None:
        """Replace the entries of a run, and the signature of its head."""
        kept = self._store._runs[run]
        kept.entries[:] = entries
        if head is not None:
            kept.signature = head.signature
        kept.status = status or kept.status

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self._store._documents[digest] = text

    def put_secrets(self, run: str, secrets: Mapping[str, Any]) -> None:
        """Replace what the vault has of a run."""
        self._store.vault._secrets[run] = dict(secrets)


class RawFile:
    """A way into a SQLite file: a connection of the attacker's own."""

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
        """Replace what the vault has of a run."""
        rows = [(run, reference, secret) for reference, secret in secrets.items()]
        statements: list[tuple[str, Sequence[Any]]] = [("DELETE FROM secrets WHERE run = ?", (run,))]
        statements += [("INSERT INTO secrets VALUES (?, ?, ?)", row) for row in rows]
        _write(f"{self.path}.vault", statements)

    def do(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Do anything to the file, in one transaction."""
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
    """One run in the hands of an attacker who can write its store. Making one puts the oracle to rest."""

    def __init__(self, trial: Trial) -> None:
        trial.oracle.rest()
        self.trial = trial
        self.run = trial.run
        self.store: Journal = trial.store.inner
        self.hands: RawStore = hands_of(self.store)
        body = self.records()[0]["body"]
        self.documents: tuple[str, ...] = (body["program"], *body["policies"])

    def shelf(self) -> StoreSnapshot:
        """Return all that the store has of the run."""
        store, run = self.store, self.run
        found = {digest: store.document(digest) for digest in self.documents}
        documents = {digest: text for digest, text in found.items() if text is not None}
        return StoreSnapshot(store.read(run), store.head(run), documents, store.vault.get(run))

    def records(self) -> list[Data]:
        """Return the records as plain data, which is the caller's own."""
        return [json.loads(entry.record) for entry in self.store.read(self.run)]

    def put(self, entries: Sequence[Entry], head: Head | None = None, status: str | None = None) -> None:
        """Replace the entries; the head stays as it is where the store keeps it apart, unless one is given."""
        self.trial.case.count()
        self.hands.put(self.run, entries, head, status)

    def put_with_head(self, entries: Sequence[Entry], signature: bytes | None, status: str | None = None) -> None:
        """Replace the entries, and make the last one the head."""
        last = entries[-1]
        self.put(entries, Head(self.run, last.seq, last.digest, signature), status)

    def put_document(self, digest: str, text: Any) -> None:
        """Replace a document."""
        self.trial.case.count()
        self.hands.put_document(digest, text)

    def put_secrets(self, secrets: Mapping[str, Any]) -> None:
        """Replace what the vault has of the run."""
        self.trial.case.count()
        self.hands.put_secrets(self.run, secrets)


def hands_of(store: Journal) -> RawStore:
    """Return a way into a store."""
    if isinstance(store, SQLiteJournal):
        return RawFile(store)
    if isinstance(store, MemoryJournal):
        return MemoryHands(store)
    from stepward.sabotage.stores.servers import ServerHands

    assert isinstance(store, PostgresJournal), "attacks are played on these three kinds of store"
    return ServerHands(store)


def entry_of(record: Data, prev: bytes, seq: int) -> Entry:
    """Return the entry of a record behind the one with the digest `prev`, all of it computed anew."""
    return write_record(seq, prev, record["kind"], canonical(record["body"]), canonical(record["note"]), record["at"])


def chained(records: Iterable[Data], start: int = 0, prev: bytes = NO_DIGEST) -> list[Entry]:
    """Return records as a chain: numbers, links and digests computed anew."""
    entries: list[Entry] = []
    for seq, record in enumerate(records, start):
        entries.append(entry_of(record, prev, seq))
        prev = entries[-1].digest
    return entries


def flipped(data: bytes, bit: int) -> bytes:
    """Return bytes with one bit turned over."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def plant(
    store: Journal,
    run: str,
    entries: Sequence[Entry],
    shelf: StoreSnapshot,
    status: str = "RUNNING",
    signature: bytes | None = None,
) -> None:
    """Put a run into another store, with the documents and sensitive values that are on a shelf, leased to nobody."""
    for digest, text in shelf.documents.items():
        store.put_document(digest, text)
    store.vault.put(run, shelf.secrets)
    append = Append(run, -1, entries, status, 0.0, False, signature)
    made = store.create(append, "planted", "attacker", 0.0)
    assert made is not None, "the run was not there"
