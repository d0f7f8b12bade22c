"""What was changed in a record that is not as it was written, where this can be known.

The chain names the digest of every record: in the record after it, and in the head. So a record that has this digest is
the one that was written, wherever it comes from: from a copy of the journal, or computed again from the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepward.validator.runs.difference import values_between
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.chain import read_together
from stepward.vm.journal.records import Record, digest_of, read_record, version_of, write_record
from stepward.vm.journal.store import Entry, Head, Journal, JournalError
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Event
from stepward.vm.machine.history import checked_records, fold, unfold
from stepward.vm.machine.replay import cached_plans

if TYPE_CHECKING:
    from stepward.vm.machine.history import Plans


class Changed(NamedTuple):
    """A record that was changed: the path, the written and the present value of each difference in it.

    `known_from` says where the record comes from that was written. `differences` has the missing side as in
    `stepward runs diff`: 1 if the value was not written, 2 if it is gone. It is empty where the present bytes are no
    record.
    """

    seq: int
    known_from: Literal["copy", "program"]
    differences: tuple[tuple[tuple[str | int, ...], Any, Any, int], ...]


def changed_records(journal: Journal, run: str, copy: Journal | None = None) -> Iterator[Changed]:
    """Yield the records of a run that are not those which the chain names, where the written one can be found.

    Sensitive values stay references. Raises JournalError if a store can't be read at all.
    """
    head, entries = read_together(journal, run)
    by_number = {} if copy is None else {entry.seq: entry for entry in copy.read(run)}
    plans = cached_plans(journal)
    for number, entry in enumerate(entries):
        if type(entry.record) is not bytes or entry.seq != number:
            return
        named = _named(entries, number, head)
        if not named or digest_of(entry.record) in named:
            continue
        other = by_number.get(number)
        if other is not None and type(other.record) is bytes and digest_of(other.record) in named:
            yield Changed(number, "copy", tuple(_differences(other.record, entry.record)))
            continue
        decided = _decided(journal, run, entries, number, plans)
        if decided is not None and digest_of(decided) in named:
            yield Changed(number, "program", tuple(_differences(decided, entry.record)))


def _named(entries: Sequence[Entry], number: int, head: Head | None) -> set[bytes]:
    """Return the digests that the record after a record, or the head, names for it."""
    if number + 1 < len(entries):
        try:
            return {bytes.fromhex(read_record(entries[number + 1]).prev)}
        except (JournalError, ValueError, TypeError, AttributeError):
            return set()
    return {head.digest} if head is not None and head.seq == number else set()


def _decided(journal: Journal, run: str, entries: Sequence[Entry], number: int, plans: Plans) -> bytes | None:
    """Return the record that the machine would have written after those before it, with the present time and note.

    None where the machine does not decide the record, or where one before it is not as it was written.
    """
    try:
        present = read_record(entries[number])
        before = checked_records(run, entries[:number])
        found = unfold(journal, run, before, entries[number - 1], plans)
        action = decide(found.plan, fold(found.plan, found.events))
    except (StepwardError, KeyError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
        return None
    if not isinstance(action, Event) or not action.text:
        return None
    return _written(present, entries[number - 1].digest, action)


def _written(present: Record, prev: bytes, action: Event) -> bytes:
    version = version_of(action.kind, (), ())
    return write_record(
        present.seq, prev, action.kind, action.text, canonical(present.note), present.at, version
    ).record


def _differences(written: bytes, present: bytes) -> Iterator[tuple[tuple[str | int, ...], Any, Any, int]]:
    before, after = _data(written), _data(present)
    if after is not None and before is not None:
        yield from values_between(before, after)


def _data(record: bytes) -> Mapping[str, Any] | None:
    try:
        data = json.loads(record)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
