"""A plain verifier that follows specs/journal.md step by step. It shares no code with the product."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

_FIELDS: Final = {"at": int, "body": dict, "kind": str, "note": dict, "prev": str, "seq": int, "v": int}
_LARGEST: Final = 2**53 - 1


class StoredRun(NamedTuple):
    """Everything that a store returns for a run: stored entries and head, documents and values by name.

    An entry is a number, the bytes of the record and a digest. A head is the run, a number, a digest and a signature.
    """

    run: str
    entries: Sequence[tuple[Any, Any, Any]]
    head: tuple[Any, Any, Any, Any] | None
    documents: Mapping[str, Any]
    values: Mapping[str, Any]


class Paper(NamedTuple):
    """A receipt as plain data; the digests and the signature are bytes."""

    run: str
    seq: int
    digest: bytes
    status: str
    trace: bytes
    key: str | None
    signature: bytes | None


def is_sound(stored: StoredRun, papers: Sequence[Paper], key: bytes | None) -> bool:
    """Return whether a run is sound, given receipts and, if any, a public key."""
    records = list(_records(stored))
    if not stored.entries or len(records) != len(stored.entries):
        return False
    if records[0]["kind"] != "started" or records[0]["note"].get("run") != stored.run:
        return False
    last = stored.entries[-1]
    if stored.head is None or stored.head[:3] != (stored.run, last[0], last[2]):
        return False
    signed = _digest_text(stored.run, last[0], last[2])
    if key is not None and not _has_signed(key, b"stepward.head.1\n" + signed, stored.head[3]):
        return False
    return (
        all(is_good(stored, paper, key) for paper in papers)
        and _are_documents_there(stored, records[0]["body"])
        and _are_values_there(stored, records)
    )


def _records(stored: StoredRun) -> Iterator[dict[str, Any]]:
    """Yield the records before the first one that breaks the chain."""
    before = bytes(32)
    for number, (seq, raw, digest) in enumerate(stored.entries):
        if type(seq) is not int or seq != number or type(raw) is not bytes or type(digest) is not bytes:
            return
        if sha256(b"stepward.record.1\n" + raw).digest() != digest:
            return
        try:
            record = json.loads(raw)
            written = canonical(record).encode()
        except (ValueError, RecursionError):
            return
        if written != raw or not isinstance(record, dict) or {one: type(record[one]) for one in record} != _FIELDS:
            return
        if record["v"] not in (1, 2, 3, 4, 5, 6, 7, 8, 9) or record["seq"] != number or record["prev"] != before.hex():
            return
        before = digest
        yield record


def canonical(data: Any) -> str:
    """Return data as the text that is hashed and signed."""
    if isinstance(data, dict):
        names = sorted(data, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(data[name])}" for name in names) + "}"
    if isinstance(data, list):
        return "[" + ",".join(map(canonical, data)) + "]"
    if isinstance(data, float) or (isinstance(data, int) and abs(data) > _LARGEST):
        raise ValueError("it is not exact")
    return json.dumps(data, ensure_ascii=False)


def _digest_text(run: str, seq: int, digest: bytes) -> bytes:
    return canonical({"run": run, "seq": seq, "digest": digest.hex()}).encode()


def _has_signed(key: bytes, message: bytes, signature: Any) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if type(signature) is not bytes:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def is_good(stored: StoredRun, paper: Paper, key: bytes | None) -> bool:
    """Whether a receipt belongs to this run, is signed if it has to be, and matches the chain."""
    if paper.run != stored.run or not 0 <= paper.seq < len(stored.entries):
        return False
    fields = {
        "digest": paper.digest.hex(),
        "key": paper.key,
        "run": paper.run,
        "seq": paper.seq,
        "status": paper.status,
        "trace": paper.trace.hex(),
        "v": 1,
    }
    if key is not None:
        message = b"stepward.receipt.1\n" + canonical(fields).encode()
        if paper.key != sha256(key).hexdigest()[:16] or not _has_signed(key, message, paper.signature):
            return False
    return sha256(b"stepward.record.1\n" + stored.entries[paper.seq][1]).digest() == paper.digest


def _are_documents_there(stored: StoredRun, body: dict[str, Any]) -> bool:
    program, policies = body.get("program"), body.get("policies")
    if not isinstance(program, str) or not isinstance(policies, list):
        return False
    for digest in (program, *policies):
        text = stored.documents.get(digest) if isinstance(digest, str) else None
        if type(text) is not bytes or sha256(b"stepward.document.1\n" + text).hexdigest() != digest:
            return False
    return True


def _are_values_there(stored: StoredRun, records: Sequence[dict[str, Any]]) -> bool:
    erased: set[str] = set()
    for record in records:
        if record["kind"] == "erased":
            names = record["body"].get("references")
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                return False
            erased.update(names)
    if erased & {name for name, value in stored.values.items() if type(value) is bytes}:
        return False
    for record in records:
        for reference, commitment in _sealed(record["body"]):
            value = stored.values.get(reference)
            is_there = type(value) is bytes and _commitment(value) == commitment
            if reference not in erased and not is_there:
                return False
    return True


def _commitment(value: bytes) -> str:
    return sha256(b"stepward.sensitive-value.1\n" + value).hexdigest()


def _sealed(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _sealed(item)
    elif isinstance(value, list):
        for item in value:
            yield from _sealed(item)
    elif isinstance(value, str) and value.startswith("#v"):
        reference, _, commitment = value[2:].partition(":")
        yield reference, commitment
