"""Hash corruption: an attacker who can write the store but has no key changes records."""

from __future__ import annotations

import json
from typing import Any

from stepward.sabotage.attacks.tampering import Honest, ask_all, pick_bit, pick_index, tampering
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data, Forger, chained, entry_of, flipped
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.store import Entry


@tampering(
    surface="bytes of a record",
    action="one bit flipped",
    defence="the stored digest of each record must be the digest of its bytes",
)
def bit_flip_in_record(case: Case, forger: Forger, honest: Honest) -> None:
    """One bit of one record is flipped, as by a bad disk or a careless edit."""
    entries = list(honest.snapshot.entries)
    seq = pick_index(case, "record", len(entries))
    bit = pick_bit(case, "bit of it", len(entries[seq].record))
    case.log(f"turn over bit {bit % 8} of byte {bit // 8} of record {seq}")
    entries[seq] = entries[seq]._replace(record=flipped(entries[seq].record, bit))
    forger.put(entries)


@tampering(
    surface="digest beside a record",
    action="one bit flipped",
    defence="the stored digest of each record must be the digest of its bytes, and the next record names it",
)
def bit_flip_in_digest(case: Case, forger: Forger, honest: Honest) -> None:
    """One bit of the stored digest of a record is flipped."""
    entries = list(honest.snapshot.entries)
    seq = pick_index(case, "record", len(entries))
    bit = pick_index(case, "bit of its digest", len(entries[seq].digest) * 8)
    case.log(f"turn over bit {bit} of the digest beside record {seq}")
    entries[seq] = entries[seq]._replace(digest=flipped(entries[seq].digest, bit))
    forger.put(entries)


@tampering(
    surface="a record and its digest",
    action="changed, and only this digest recomputed",
    defence="each record contains the digest of the record before it",
)
def record_hashed_alone(case: Case, forger: Forger, honest: Honest) -> None:
    """A record is changed and its own digest recomputed; the records after it stay."""
    entries, records = list(honest.snapshot.entries), forger.records()
    seq = pick_index(case, "record", len(entries) - 1)
    case.log(f"write another time into record {seq}, and compute its digest anew")
    record = records[seq] | {"at": records[seq]["at"] + 1}
    entries[seq] = entry_of(record, bytes.fromhex(record["prev"]), seq)
    forger.put(entries)


@tampering(
    surface="all records after some record, and the head",
    action="a time changed, and everything after it rehashed",
    defence="the head is signed, and a receipt contains its digest",
    by_itself=False,
)
def tail_hashed_again(case: Case, forger: Forger, honest: Honest) -> None:
    """A record is changed, and it and all records after it are rehashed, including the head; the signature stays."""
    entries, records = list(honest.snapshot.entries), forger.records()
    seq = pick_index(case, "record", len(entries))
    case.log(f"write another time into record {seq}, and hash everything from there on anew")
    records[seq]["at"] += 1
    rewritten(forger, honest, [*entries[:seq], *tail_of(records, seq)])


def tail_of(records: list[Data], seq: int) -> list[Entry]:
    """Return the entries of the records from `seq` on, rehashed."""
    return chained(records[seq:], seq, bytes.fromhex(records[seq]["prev"]))


def rewritten(forger: Forger, honest: Honest, entries: list[Entry]) -> None:
    """Replace the entries and the head, but not the signature."""
    head = honest.snapshot.head
    forger.put_with_head(entries, None if head is None else head.signature)


@tampering(
    surface="inputs and outputs in records",
    action="another value of the same type, and the whole journal rehashed",
    defence="the head is signed, and a receipt contains its digest",
    by_itself=False,
)
def value_rewritten(case: Case, forger: Forger, honest: Honest) -> None:
    """An output or an input of the run is replaced by another value, and the whole journal is rehashed.

    The program allows the value. Without key and receipt the result looks like another valid run.
    """
    records = forger.records()
    found = case.needs([value for record in records for value in values_of(record)])
    value = found[pick_index(case, "value", len(found))]
    other = another(value)
    case.log(f"write {json.dumps(other)} wherever the records have {json.dumps(value)}, and hash the whole anew")
    changed = [record | {"body": replaced(record["body"], value, other)} for record in records]
    rewritten(forger, honest, chained(changed))


def values_of(record: Data) -> list[Any]:
    """Return the scalars of a record that came from outside, except sensitive ones."""
    body = record["body"]
    values = [body.get("inputs"), body.get("output") if body.get("kind") == "success" else None]
    return [leaf for value in values for leaf in _leaves(value)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        return [leaf for item in (value.values() if isinstance(value, dict) else value) for leaf in _leaves(item)]
    is_reference = isinstance(value, str) and value.startswith("#v")
    return [] if value is None or is_reference else [value]


def another(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}0"


def replaced(data: Any, value: Any, other: Any) -> Any:
    """Return data with another value in the place of each that is equal to one."""
    if isinstance(data, dict):
        return {name: replaced(item, value, other) for name, item in data.items()}
    if isinstance(data, list):
        return [replaced(item, value, other) for item in data]
    return other if type(data) is type(value) and data == value else data


@tampering(
    surface="order of records",
    action="two records swapped",
    defence="each record contains its number and the digest of the record before it",
)
def records_swapped(case: Case, forger: Forger, honest: Honest) -> None:
    """Two records are swapped, each with its digest, and renumbered."""
    entries = list(honest.snapshot.entries)
    first = pick_index(case, "record", len(entries) - 1)
    second = first + 1 + pick_index(case, "records between", len(entries) - first - 1)
    case.log(f"swap records {first} and {second}")
    entries[first], entries[second] = entries[second], entries[first]
    forger.put(renumbered(entries))


def renumbered(entries: list[Entry]) -> list[Entry]:
    """Return entries renumbered by their index."""
    return [entry._replace(seq=seq) for seq, entry in enumerate(entries)]


@tampering(
    surface="list of records",
    action="a record inserted again",
    defence="each record contains its number and the digest of the record before it",
)
def record_twice(case: Case, forger: Forger, honest: Honest) -> None:
    """A copy of a record is inserted into the journal, and later records move down."""
    entries = list(honest.snapshot.entries)
    seq = pick_index(case, "record", len(entries))
    to = seq + 1 + pick_index(case, "records between", len(entries) - seq)
    case.log(f"insert a copy of record {seq} at {to}")
    rewritten(forger, honest, renumbered([*entries[:to], entries[seq], *entries[to:]]))


@tampering(
    surface="list of records",
    action="a record removed from the middle",
    defence="each record contains its number and the digest of the record before it",
)
def record_dropped(case: Case, forger: Forger, honest: Honest) -> None:
    """A record that is not the last is removed; later records move up, or a gap remains."""
    from hypothesis import strategies as st

    entries = list(honest.snapshot.entries)
    seq = pick_index(case, "record", len(entries) - 1)
    moves_up = case.pick("the rest moves up", st.booleans())
    case.log(f"drop record {seq}" + (", and number the rest anew" if moves_up else ""))
    rest = [*entries[:seq], *entries[seq + 1 :]]
    rewritten(forger, honest, renumbered(rest) if moves_up else rest)


@tampering(
    surface="end of the journal",
    action="one more record, well formed and linked",
    defence="the head is signed",
    by_receipt=False,
    by_itself=False,
)
def record_appended(case: Case, forger: Forger, honest: Honest) -> None:
    """A record of a refused delivery, which anybody can cause, is appended with correct number, link and digest; the
    signature stays.

    An earlier receipt covers only earlier records, so it does not reveal this.
    """
    last = honest.snapshot.entries[-1]
    case.log("append a record of a delivery that nobody made")
    record = {"at": 0, "body": {"what": "resume", "why": "nobody knows"}, "kind": "refused", "note": {}}
    rewritten(forger, honest, [*honest.snapshot.entries, entry_of(record, last.digest, last.seq + 1)])


@tampering(
    surface="end of the journal, and the head",
    action="last records cut off, and the head rewritten to match",
    defence="the head is signed, and a receipt names a later record",
    by_itself=False,
)
def tail_cut_with_head(case: Case, forger: Forger, honest: Honest) -> None:
    """The last records are cut off, and the head is rewritten to the last remaining one.

    The signature is that of the old head, or none; `journal-rolled-back` has the genuine one of the older head.
    """
    from hypothesis import strategies as st

    entries = list(honest.snapshot.entries)
    length = len(entries) - 1 - pick_index(case, "records cut off, but one", len(entries) - 1)
    case.log(f"cut the journal to {length} records, and write the head anew")
    if case.pick("signature removed", st.booleans()):
        forger.put_with_head(entries[:length], None, "RUNNING")
    else:
        rewritten(forger, honest, entries[:length])


@tampering(
    surface="run id of the records",
    action="another run's records, in order and signed, or the tail of them",
    defence="the first record and the signature name the run",
)
def journal_grafted(case: Case, forger: Forger, honest: Honest) -> None:
    """The records of another run, or its tail, are stored under the name of this one, with the signature of that
    run."""
    other = Trial(case, "other", faults=False)
    other.carry_on(other.start())
    theirs = other.store.inner.read(other.run)
    entries = honest.snapshot.entries
    start = pick_index(case, "own records kept", min(len(entries), len(theirs)))
    case.log(f"put the records of another run in the place of those from {start} on")
    head = other.store.inner.head(other.run)
    forger.put_with_head([*entries[:start], *theirs[start:]], None if head is None else head.signature)


def _other_bytes_one_meaning_noticed(case: Case, trial: Any, honest: Honest) -> Outcome:
    """Ask all readers; besides, no reader may see another run."""
    outcome = ask_all(case, trial, honest)
    found = case.do(trial.machine(key=None).get(trial.run))
    case.hold(found.snapshot() == honest.run.snapshot(), Invariant.TAMPERING, "it reads as another run")
    return outcome


@tampering(
    surface="form of a record",
    action="written with other bytes, and the whole journal rehashed",
    defence="a record is canonical JSON: writing it again must give the same bytes",
    noticed=_other_bytes_one_meaning_noticed,
)
def other_bytes_one_meaning(case: Case, forger: Forger, honest: Honest) -> None:
    """A record is written with other bytes of the same meaning (with a space), and the whole journal is rehashed.

    The machine reads the same data. But each datum must have one text; otherwise, for a repeated key, one reader may
    take the first field and another the last.
    """
    from hypothesis import strategies as st

    entries, records = list(honest.snapshot.entries), forger.records()
    seq = pick_index(case, "record", len(entries))
    change = case.pick("change", st.sampled_from(["space", "order", "field twice"]))
    case.log(f"write record {seq} in another way ({change}), and hash everything from there on anew")
    text = entries[seq].record
    other = {
        "space": lambda: text.replace(b'"at":', b'"at": ', 1),
        "order": lambda: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")).encode(),
        "field twice": lambda: b'{"at":0,' + text[1:],
    }[change]()
    forged = [*entries[:seq], Entry(seq, other, digest_of(other))]
    for record in records[seq + 1 :]:
        forged.append(entry_of(record, forged[-1].digest, record["seq"]))
    rewritten(forger, honest, forged)
