"""The format of records, their chain and all domain tags; specs/journal.md describes it for other languages."""

from __future__ import annotations

import json
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.store import Entry, JournalError, packed

VERSIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Versions of a record. The second adds LATER_KINDS and LATER_NOTES, the third BODY_KINDS and records with a frame, the
fourth first records with `continues`, the fifth MOVE_KINDS, the sixth first records with `turn`, the seventh
WAIT_KINDS, the eighth TIME_NOTES, the ninth DEADLINE_KINDS. A record has the lowest version that it needs, so that the
bytes of older kinds of records do not change."""

LATER_KINDS: Final = frozenset({"governed"})
BODY_KINDS: Final = frozenset({"opened", "item", "closed"})
MOVE_KINDS: Final = frozenset({"moved"})
WAIT_KINDS: Final = frozenset({"waiting", "waited"})
DEADLINE_KINDS: Final = frozenset({"expired"})
TIME_NOTES: Final = {"started": "due", "ended": "time"}
"""The kinds of records of runs that end when their time is over, each with the field of its note that says so."""

LATER_NOTES: Final = frozenset({"by", "cached", "due", "envelope"})
BODY_FIELDS: Final = {"frame": 3, "continues": 4, "turn": 6}
"""The fields of bodies that came later, each with its version."""

_OF_KIND: Final = (
    dict.fromkeys(LATER_KINDS, 2)
    | dict.fromkeys(BODY_KINDS, 3)
    | dict.fromkeys(MOVE_KINDS, 5)
    | dict.fromkeys(WAIT_KINDS, 7)
    | dict.fromkeys(DEADLINE_KINDS, 9)
)
"""The lowest version of a kind, where that is not the first."""

# Digests of different things never coincide: the digested bytes start with the tag of their kind.
RECORD_TAG: Final = b"stepward.record.1\n"
HEAD_TAG: Final = b"stepward.head.1\n"
TRACE_TAG: Final = b"stepward.trace.1\n"
DOCUMENT_TAG: Final = b"stepward.document.1\n"
KEY_TAG: Final = b"stepward.idempotency-key.1\n"
TOKEN_TAG: Final = b"stepward.resume-token.1\n"
VALUE_TAG: Final = b"stepward.sensitive-value.1\n"
RECEIPT_TAG: Final = b"stepward.receipt.1\n"
PRUNED_TAG: Final = b"stepward.pruned.1\n"

NO_DIGEST: Final = bytes(32)
"""The digest before the first record, and the trace hash before the first item."""


class Record(NamedTuple):
    """A record that was read. `at` is in microseconds since the epoch.

    `body` is the meaning of the event; `note` has times, tokens, costs and keys. Only bodies enter the trace hash.
    """

    seq: int
    kind: str
    body: dict[str, Any]
    note: dict[str, Any]
    at: int
    prev: str


def version_of(kind: str, body: Collection[str], note: Collection[str]) -> int:
    """Return the lowest version of a record that has its kind, and the fields of its body and its note."""
    version = _OF_KIND.get(kind, 1)
    if "frame" in body:  # not a loop: every record asks
        version = max(version, BODY_FIELDS["frame"])
    if "continues" in body:
        version = max(version, BODY_FIELDS["continues"])
    if "turn" in body:
        version = max(version, BODY_FIELDS["turn"])
    if not note:
        return version
    if TIME_NOTES.get(kind) in note:
        version = max(version, 8)
    return version if LATER_NOTES.isdisjoint(note) else max(version, 2)


def write_record(seq: int, prev: bytes, kind: str, body: str, note: str, at: int, version: int = 1) -> Entry:  # noqa: PLR0917 - the fields of a record
    """Return the entry of a record; `body` and `note` are canonical texts.

    The keys are in the order of RFC 8785, so that the whole is canonical without sorting.
    """
    text = f'{{"at":{at},"body":{body},"kind":"{kind}","note":{note},"prev":"{prev.hex()}","seq":{seq},"v":{version}}}'
    record = text.encode()
    return packed(Entry, (seq, record, sha256(RECORD_TAG + record).digest()))


def read_record(entry: Entry) -> Record:
    """Return the record in an entry; raises JournalError if its bytes are not a record of a known version."""
    try:
        return record_in(entry, json.loads(entry.record))
    except (ValueError, RecursionError):
        raise JournalError(f"entry {entry.seq} is no record") from None


def record_in(entry: Entry, data: Any) -> Record:
    """Return the record in the parsed data of an entry; raises JournalError as `read_record` does."""
    try:
        body, kind, note, at = data["body"], data["kind"], data["note"], data["at"]
        prev, seq, version = data["prev"], data["seq"], data["v"]
    except (KeyError, TypeError):
        raise JournalError(f"entry {entry.seq} is no record") from None
    # Exact types: true equals 1, but is neither a version nor a number of a record.
    if type(version) is int and version not in VERSIONS:
        raise JournalError(
            f"record {entry.seq} has version {version}; this is a reader of versions 1 to {VERSIONS[-1]}"
        )
    kinds = (dict, str, dict, int, str, int, int)
    if len(data) != len(kinds) or tuple(map(type, (body, kind, note, at, prev, seq, version))) != kinds:
        raise JournalError(f"entry {entry.seq} is no record")
    if seq != entry.seq:
        raise JournalError(f"entry {entry.seq} holds record {seq}")
    return Record(seq, kind, body, note, at, prev)


def digest_of(record: bytes) -> bytes:
    """Return the digest of a record's bytes for the chain."""
    return sha256(RECORD_TAG + record).digest()


def document_digest(text: bytes) -> str:
    """Return the digest under which a program or a policy is stored."""
    return sha256(DOCUMENT_TAG + text).hexdigest()


def head_message(run: str, seq: int, digest: bytes) -> bytes:
    """Return the bytes of a head that are signed."""
    return HEAD_TAG + canonical({"digest": digest.hex(), "run": run, "seq": seq}).encode()


def extend_trace(trace: bytes, kind: str, body: str) -> bytes:
    """Return the trace hash after one more record of this kind, with the canonical text `body`."""
    return sha256(TRACE_TAG + trace + f"{kind}\n{body}".encode()).digest()
