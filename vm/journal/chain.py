"""Checks the chain of one run record by record, and locates damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from stepward.vm.journal.canonical import TAG, NotCanonicalError, Sealed, read_canonical, restored
from stepward.vm.journal.records import NO_DIGEST, Record, digest_of, read_record, record_in
from stepward.vm.journal.store import Entry, Head, Journal, JournalError
from stepward.vm.journal.verdict import Fault

FIRST_KIND: Final = "started"


_TAGGED: Final = f'"{TAG}'.encode()
"""The bytes in every record with a tagged string; most records have none."""


class Anchor(NamedTuple):
    """A record's digest by a receipt or by the stored head."""

    seq: int
    digest: bytes


@dataclass(slots=True)
class Chain:
    """The result of a check, by number: the digests of the stored bytes, and the records that can be read.

    `sealed` lists the sensitive values that records name; `last` is the number of the last entry, -1 without any.
    """

    run: str
    faults: list[Fault] = field(default_factory=list)
    digests: dict[int, bytes] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    sealed: list[tuple[int, Sealed]] = field(default_factory=list)
    last: int = -1

    def add(self, seq: int | None, what: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(self.run, seq, what))


def read_together(journal: Journal, run: str) -> tuple[Head | None, list[Entry]]:
    """Read a head and entries that belong together, although the run may be growing."""
    head = _readable(journal.head(run))
    entries = journal.read(run)
    if head is None or all(type(entry.seq) is not int or entry.seq <= head.seq for entry in entries):
        return head, entries
    later = _readable(journal.head(run))
    if later is not None and later.seq > head.seq:
        entries = [entry for entry in entries if type(entry.seq) is not int or entry.seq <= head.seq]
    return head, entries


def _readable(head: Head | None) -> Head | None:
    # Not every database enforces the types of its columns.
    if head is None or type(head.seq) is not int or type(head.digest) is not bytes:
        return None
    return head if head.signature is None or type(head.signature) is bytes else head._replace(signature=None)


def check_chain(
    run: str, entries: Iterable[Entry], head: Head | None, anchors: Sequence[Anchor], *, is_head_forged: bool
) -> Chain:
    """Check the entries and the stored head of a run.

    `anchors`, from receipts, show which side of a broken link is damaged; so does the stored head, unless it is known
    to be forged.
    """
    chain = Chain(run)
    numbered = list(_numbered(chain, entries))
    chain.digests = {entry.seq: digest_of(entry.record) for entry in numbered}
    chain.last = max(chain.digests, default=-1)
    stored = [] if head is None or is_head_forged else [Anchor(head.seq, head.digest)]
    _check_entries(chain, numbered, [*anchors, *stored])
    _check_first(chain)
    _check_links(chain, stored, anchors)
    _check_head(chain, {entry.seq: entry.digest for entry in numbered}, head)
    chain.faults.sort(key=lambda fault: -1 if fault.seq is None else fault.seq)
    return chain


def _numbered(chain: Chain, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield one entry for each number, in order; note faults for entries that are missing, repeated or out of order."""
    sound = []
    before = -1
    for entry in entries:
        # Not every database enforces the types of its columns.
        if type(entry.seq) is not int or type(entry.record) is not bytes or type(entry.digest) is not bytes:
            chain.add(entry.seq if type(entry.seq) is int else None, f"entry `{entry.seq}` is not kept as an entry is")
            continue
        if entry.seq < max(before, 0):
            chain.add(entry.seq, f"record {entry.seq} is out of its place")
        elif entry.seq == before:
            chain.add(entry.seq, f"record {entry.seq} is there twice")
        before = max(entry.seq, before)
        sound.append(entry)
    expected = 0
    for entry in sorted(sound, key=lambda entry: entry.seq):
        if entry.seq < expected:
            continue
        if entry.seq > expected:
            chain.add(expected, _are_missing(expected, entry.seq - 1))
        expected = entry.seq + 1
        yield entry


def _are_missing(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


def _check_entries(chain: Chain, numbered: list[Entry], anchors: Sequence[Anchor]) -> None:
    """Check each entry by itself, and store its record in the chain if its bytes are intact."""
    for entry, following in zip_longest(numbered, numbered[1:]):
        seq = entry.seq
        actual = chain.digests[seq]
        if entry.digest != actual:
            named = {anchor.digest for anchor in anchors if anchor.seq == seq} | _named_by(following)
            if actual not in named:
                chain.add(seq, f"record {seq} was changed: its stored digest does not match")
                continue
            chain.add(seq, f"the stored digest of record {seq} was changed; the record itself was not")
        try:
            record = record_in(entry, read_canonical(entry.record))
            if _TAGGED in entry.record:
                chain.sealed.extend((seq, sealed) for sealed in _sealed_in(record))
            chain.records[seq] = record
        except JournalError as error:
            chain.add(seq, str(error))
        except NotCanonicalError as error:
            chain.add(seq, f"record {seq} is not written as records are: {error}")


def _named_by(following: Entry | None) -> set[bytes]:
    """Return the digest that the next record names, if it can be read."""
    try:
        return {bytes.fromhex(read_record(following).prev)} if following else set()
    except (JournalError, ValueError):
        return set()


def _sealed_in(record: Record) -> list[Sealed]:
    """Return the sensitive values that a record names; raises NotCanonicalError if a value is not canonical."""
    found: list[Sealed] = []

    def unseal(reference: str, commitment: str) -> Sealed:
        found.append(Sealed(reference, commitment, None))
        return found[-1]

    restored(record.body, unseal)
    return found


def _check_first(chain: Chain) -> None:
    record = chain.records.get(0)
    if record is None:
        return
    if record.kind != FIRST_KIND or record.prev != NO_DIGEST.hex():
        chain.add(0, "record 0 is not the beginning of a run")
    elif record.note.get("run") != chain.run:
        chain.add(0, f"record 0 is the beginning of another run, not of `{chain.run}`")


# -- links ----------------------------------------------------------------------------------------------------------


def _check_links(chain: Chain, head: Sequence[Anchor], anchors: Sequence[Anchor]) -> None:
    """Check that each record names the digest of the one before, and report the damaged one of the two if not."""
    blamed: set[int] = set()
    for before, after in pairwise(_linked_ranges(chain)):
        if before.stop != after.start:
            continue
        seq = after.start
        what = f"record {seq} was not written after the record {seq - 1} that is here"
        if _is_earlier_wrong(chain, before, after, head, anchors):
            seq -= 1
            what = f"record {seq} is not the one that record {seq + 1} was written after"
        if seq not in blamed:
            blamed.add(seq)
            chain.add(seq, what)


def _linked_ranges(chain: Chain) -> list[range]:
    """Return the maximal ranges of records in which each names the one before."""
    found: list[range] = []
    start, before = 0, -1
    for seq, record in chain.records.items():  # they are in order
        if before < 0 or seq != before + 1 or record.prev != chain.digests[before].hex():
            found += [range(start, before + 1)] if before >= 0 else []
            start = seq
        before = seq
    return [*found, range(start, before + 1)] if before >= 0 else found


def _is_earlier_wrong(
    chain: Chain, before: range, after: range, head: Sequence[Anchor], anchors: Sequence[Anchor]
) -> bool:
    """Return whether, of two ranges that don't fit, the end of the earlier one was changed.

    An anchor confirms its record and those before it in its range. If no receipt decides, the stored head is trusted.
    """
    early = _is_known(chain, before[-1:], anchors)
    late = _is_known(chain, after, anchors)
    return late if early != late else _is_known(chain, after, head)


def _is_known(chain: Chain, linked: range, anchors: Sequence[Anchor]) -> bool:
    return any(anchor.seq in linked and chain.digests[anchor.seq] == anchor.digest for anchor in anchors)


# -- the head -------------------------------------------------------------------------------------------------------


def _check_head(chain: Chain, stored_digests: dict[int, bytes], head: Head | None) -> None:
    """Check that the stored head is the last entry; `stored_digests` are those stored beside the records."""
    last = chain.last
    if head is None:
        chain.add(max(last, 0), "there is no stored head that can be read")
    elif head.run != chain.run:
        chain.add(max(last, 0), f"the stored head is that of another run, not of `{chain.run}`")
    elif head.seq == last:
        if head.digest not in (chain.digests[last], stored_digests[last]):
            chain.add(last, f"the stored head names another record {last} than the one that is here")
    elif head.digest == chain.digests.get(last):
        chain.add(last, f"the stored head has the digest of record {last}, and another number")
    elif head.seq > last:
        chain.add(last + 1, f"{_are_missing(last + 1, head.seq)}: the stored head names a later one")
    elif head.digest == chain.digests.get(head.seq):
        chain.add(head.seq + 1, f"record {head.seq + 1} is after the stored head")
    else:
        chain.add(max(head.seq, 0), f"the stored head names a record {head.seq} that is not here")
