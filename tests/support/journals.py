"""Small journals to be damaged, and every way of damaging one; helpers only, no tests stand here.

A damage is done to a list of entries and a head, so that the same ones can be tried on a store in memory and on a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.journal.memory import MemoryVault
from stepward.vm.journal.records import NO_DIGEST, document_digest, write_record
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Entry, Head, Row

KEY = SigningKey.from_seed(bytes(range(32)))
STRANGER = SigningKey.from_seed(bytes(32))
PROGRAM = b"name: refund\n"
POLICY = b"name: payments\n"
Content = list[tuple[str, dict[str, Any], dict[str, Any]]]


@dataclass
class Shelf:
    """A store whose every part can be damaged: what verification asks of a store, and nothing else."""

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    documents: dict[str, Any] = field(
        default_factory=lambda: {document_digest(text): text for text in (PROGRAM, POLICY)}
    )
    vault: MemoryVault = field(default_factory=MemoryVault)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        return self.entries.get(run, [])[start:]

    def head(self, run: str) -> Head | None:
        return self.heads.get(run)

    def row(self, run: str) -> Row | None:
        return next((row for row in self.rows() if row.run == run), None)

    def names(self) -> Iterator[str]:
        yield from self.heads

    def rows(self, statuses: object = None) -> list[Row]:
        return [Row(run, "", "RUNNING", head.seq, 0.0, 0.0, 0.0) for run, head in self.heads.items()]

    def kept(self, run: str) -> bytes | None:
        return None

    def pruned(self) -> Iterator[str]:
        yield from ()

    def document(self, digest: str) -> Any:
        return self.documents.get(digest)


class Written(NamedTuple):
    """A run as it was written."""

    entries: list[Entry]
    head: Head


def content(run: str, length: int = 8) -> Content:
    """Return what a run of that many records holds."""
    digests = {"program": document_digest(PROGRAM), "policies": [document_digest(POLICY)]}
    steps: Content = [
        ("passed", {"step": f"s{number}", "value": "é😀"}, {"ms": number}) for number in range(length - 2)
    ]
    return [("started", digests, {"run": run}), *steps, ("ended", {"status": "SUCCESS"}, {})]


def chained(content: Content, start: int = 0, prev: bytes = NO_DIGEST) -> list[Entry]:
    """Return the entries of records, each chained to the one before."""
    entries = []
    for seq, (kind, body, note) in enumerate(content, start):
        entry = write_record(seq, prev, kind, canonical(portable(body)), canonical(note), 1_700_000_000 + seq)
        entries.append(entry)
        prev = entry.digest
    return entries


def head_of(run: str, entries: list[Entry], key: SigningKey | None = KEY) -> Head:
    """Return the head of entries, signed."""
    last = entries[-1]
    return Head(run, last.seq, last.digest, key.sign_head(run, last.seq, last.digest) if key else None)


def written(run: str, length: int = 8) -> Written:
    """Return a run of that many records, with its head signed."""
    entries = chained(content(run, length))
    return Written(entries, head_of(run, entries))


def shelf(run: str, entries: list[Entry], head: Head | None) -> Shelf:
    """Return a store with one run, as it is told."""
    return Shelf({run: entries} if entries else {}, {run: head} if head else {})


# -- damages --------------------------------------------------------------------------------------------------------


class Damage(NamedTuple):
    """A damaged run: `seq` is where its first fault must be, to somebody with the key.

    `keyless` is where it must be to somebody without the key, None where only a key or a receipt finds it.
    """

    name: str
    entries: list[Entry]
    head: Head | None
    seq: int
    keyless: int | None


def flipped(data: bytes, bit: int) -> bytes:
    """Return bytes with one bit turned over."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flips(run: Written, seq: int, stride: int = 1) -> Iterator[Damage]:
    """Turn over each bit of a record and of its digest; with a `stride`, one bit of so many."""
    entries, head = run
    old = entries[seq]
    for bit in range(0, len(old.record) * 8 - stride + 1, stride):
        entry = old._replace(record=flipped(old.record, bit + bit // stride % stride))
        yield Damage(f"bit {bit} of record {seq}", [*entries[:seq], entry, *entries[seq + 1 :]], head, seq, seq)
    for bit in range(0, len(old.digest) * 8 - stride + 1, stride):
        entry = old._replace(digest=flipped(old.digest, bit + bit // stride % stride))
        yield Damage(f"bit {bit} of digest {seq}", [*entries[:seq], entry, *entries[seq + 1 :]], head, seq, seq)


def head_flips(run: Written) -> Iterator[Damage]:
    """Turn over each bit of the stored head."""
    entries, head = run
    last = head.seq
    assert head.signature
    for bit in range(len(head.digest) * 8):
        yield Damage(f"bit {bit} of the head", entries, head._replace(digest=flipped(head.digest, bit)), last, last)
    for bit in range(63):
        yield Damage(f"bit {bit} of the head's number", entries, head._replace(seq=last ^ 1 << bit), last, last)
    for bit in range(len(head.signature) * 8):
        forged = head._replace(signature=flipped(head.signature, bit))
        yield Damage(f"bit {bit} of the signature", entries, forged, last, None)


def renumbered(entries: list[Entry]) -> list[Entry]:
    """Return entries under the numbers that their places have, as a table with a key on them needs it."""
    return [entry._replace(seq=seq) for seq, entry in enumerate(entries)]


def moves(run: Written, other: Written) -> Iterator[Damage]:
    """Drop, repeat, swap and insert whole records; `other` is a longer run of another name."""
    entries, head = run
    last = head.seq
    for seq in range(len(entries)):
        rest = [*entries[:seq], *entries[seq + 1 :]]
        yield Damage(f"record {seq} dropped", rest, head, seq, seq)
        yield Damage(f"record {seq} dropped, the rest moved up", renumbered(rest), head, seq, seq)
        changed = [*entries[:seq], other.entries[seq], *entries[seq + 1 :]]
        yield Damage(f"record {seq} of another run in its place", changed, head, seq, seq)
        for second in range(seq + 1, len(entries)):
            swapped = list(entries)
            swapped[seq], swapped[second] = swapped[second], swapped[seq]
            yield Damage(f"records {seq} and {second} swapped", renumbered(swapped), head, seq, seq)
    for place in range(len(entries) + 1):
        for entry in entries:
            # The copy behind its model is the one too many.
            seq = place + (place == entry.seq)
            inserted = renumbered([*entries[:place], entry, *entries[place:]])
            yield Damage(f"copy of record {entry.seq} at {place}", inserted, head, seq, seq)
        for entry in other.entries:
            inserted = renumbered([*entries[:place], entry, *entries[place:]])
            yield Damage(f"another run's record {entry.seq} at {place}", inserted, head, place, place)
            longer = head._replace(seq=last + 1, digest=inserted[-1].digest)
            is_tail = place == len(entries) == entry.seq
            # With the head rewritten, either of the two could be the one that does not belong.
            keyless = place - is_tail
            yield Damage(f"another run's record {entry.seq} at {place}, and the head", inserted, longer, place, keyless)


def cuts(run: Written) -> Iterator[Damage]:
    """Cut the tail off before each record: as it is, and with the head rewritten to match."""
    entries, head = run
    for length in range(len(entries)):
        yield Damage(f"cut to {length}", entries[:length], head, length, length)
        if length:
            end = head._replace(seq=length - 1, digest=entries[length - 1].digest)
            yield Damage(f"cut to {length}, and the head", entries[:length], end, length - 1, None)
            bare = end._replace(signature=None)
            yield Damage(f"cut to {length}, and the head without signature", entries[:length], bare, length - 1, None)


def rewrites(run: Written, other: Written, name: str) -> Iterator[Damage]:
    """Change a record and compute digests again: its own, or those of all that follow; graft another run's tail."""
    entries, head = run
    last = head.seq
    whole = content(name, len(entries))
    for seq in range(len(entries)):
        kind, body, note = whole[seq]
        prev = entries[seq - 1].digest if seq else NO_DIGEST
        altered: Content = [(kind, body | {"status": "altered"}, note), *whole[seq + 1 :]]
        tail = chained(altered, seq, prev)
        one = [*entries[:seq], tail[0], *entries[seq + 1 :]]
        yield Damage(f"record {seq} changed and hashed", one, head, seq, seq)
        rest = [*entries[:seq], *tail]
        yield Damage(f"rewritten from {seq}", rest, head, last, last)
        forged = head._replace(digest=rest[-1].digest)
        yield Damage(f"rewritten from {seq}, and the head", rest, forged, last, None)
        yield Damage(f"rewritten from {seq}, head without signature", rest, forged._replace(signature=None), last, None)
        yield Damage(f"rewritten from {seq}, signed by a stranger", rest, head_of(name, rest, STRANGER), last, None)
        if seq:
            graft = [*entries[:seq], *other.entries[seq : last + 1]]
            # The stored head is taken at its word by whoever has nothing better.
            yield Damage(f"grafted from {seq}", graft, forged._replace(digest=graft[-1].digest), seq, seq - 1)


def forged_heads(run: Written, other: Written, name: str) -> Iterator[Damage]:
    """Forge the signature of the head, or lose it."""
    entries, head = run
    last, digest = head.seq, head.digest
    signatures = {
        "none": None,
        "an empty one": b"",
        "a stranger's": STRANGER.sign_head(name, last, digest),
        "that of another run": KEY.sign_head(other.head.run, last, digest),
        "that of another number": KEY.sign_head(name, last - 1, digest),
        "that of the head before": KEY.sign_head(name, last - 1, entries[-2].digest),
        "one over the bare digest": KEY.sign(digest),
    }
    for what, signature in signatures.items():
        yield Damage(f"signature: {what}", entries, head._replace(signature=signature), last, None)
    for length in range(1, len(entries)):
        yield Damage(f"the head of {length} records", entries, head_of(name, entries[:length]), length, length)
        odd = head._replace(seq=length - 1, digest=flipped(digest, 7))
        yield Damage(f"a digest of nothing at {length - 1}", entries, odd, length - 1, length - 1)
    yield Damage("no head", entries, None, last, last)
    yield Damage("another run's head", entries, other.head, last, last)


def structural(run: Written, other: Written, name: str) -> Iterator[Damage]:
    """Every damage that is no single bit."""
    yield from moves(run, other)
    yield from cuts(run)
    yield from rewrites(run, other, name)
    yield from forged_heads(run, other, name)
