"""Reads runs back from their records, and folds the records into a state, for recovery and replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import NotCanonicalError, Sealed, canonical, restored
from stepward.vm.journal.chain import read_together
from stepward.vm.journal.records import NO_DIGEST, Record, digest_of, document_digest, read_record
from stepward.vm.journal.sealing import unsealer
from stepward.vm.journal.signing import VerifyKey, signer_of
from stepward.vm.journal.store import Entry, Head, Journal, JournalError
from stepward.vm.language.loading import build_program
from stepward.vm.language.node import plain
from stepward.vm.language.policy import Policy
from stepward.vm.machine.apply import apply
from stepward.vm.machine.events import Event
from stepward.vm.machine.forks import MisfitError
from stepward.vm.machine.plan import Names, Plan, Terms, read_document
from stepward.vm.machine.state import State, before
from stepward.vm.patterns.matching import RE2

Unseal = Callable[[str, str], Sealed]

Plans = Callable[[str, Names, Names, tuple[tuple[Names, Names], ...], str | None], Plan]
"""Makes a plan from stored documents, with the parameters of `stored_plan` after the journal."""


class History(NamedTuple):
    """A run that was read: its plan, its records and events, and the state after them.

    `is_signed`: its head has a signature, of whatever key.
    """

    run: str
    plan: Plan
    records: tuple[Record, ...]
    events: tuple[Event, ...]
    state: State
    last: Entry
    secrets: Mapping[str, bytes]
    is_signed: bool = False


_NUMBERS: Final = frozenset({"attempt", "due", "performance", "started", "time", "tokens", "took", "visit"})
"""The fields of bodies and notes that are whole numbers. `true` equals 1, and would name another key or token."""


def checked_records(run: str, entries: Sequence[Entry]) -> tuple[Record, ...]:
    """Return the records of entries; raises JournalError at the first break of their chain."""
    records, previous = [], NO_DIGEST
    for number, entry in enumerate(entries):
        # Not every database enforces the types of its columns.
        is_typed = type(entry.record) is bytes and entry.seq == number
        if not is_typed or digest_of(entry.record) != entry.digest:
            raise JournalError(f"record {number} of run `{run}` is not what was written; see `stepward verify`")
        record = read_record(entry)
        if record.prev != previous.hex():
            raise JournalError(f"record {number} of run `{run}` does not follow the one before; see `stepward verify`")
        records.append(record)
        previous = entry.digest
    if not records or records[0].kind != "started" or records[0].note.get("run") != run:
        raise JournalError(f"the journal of run `{run}` does not start with its start; see `stepward verify`")
    return tuple(records)


def event_of(record: Record, unseal: Unseal) -> Event:
    """Return the event of a record; raises JournalError if it can't be read."""
    for fields in (record.body, record.note):
        for name in sorted(_NUMBERS & fields.keys()):
            if type(fields[name]) is not int:
                raise JournalError(f"record {record.seq}: its `{name}` is no whole number; see `stepward verify`")
    try:
        body = restored(record.body, unseal)
    except NotCanonicalError as error:
        raise JournalError(f"record {record.seq}: {error}") from None
    return Event(record.kind, body, record.note, canonical(record.body))


def erased_references(records: Sequence[Record]) -> set[str]:
    """Return the references of the values that were erased."""
    return {reference for record in records if record.kind == "erased" for reference in record.body["references"]}


def fold(plan: Plan, events: Sequence[Event]) -> State:
    """Return the state after events; raises JournalError if one does not fit."""
    state = before(plan)
    for number, event in enumerate(events):
        state = applied(plan, state, event, number)
    return state


def applied(plan: Plan, state: State, event: Event, number: int) -> State:
    """Return the state after event `number`; raises JournalError if it does not fit."""
    try:
        return apply(plan, state, event)
    except MisfitError as error:
        raise JournalError(f"record {number}: {error}; see `stepward verify`") from None
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
        raise JournalError(f"record {number} is no `{event.kind}` of this program; see `stepward verify`") from None


def load(
    journal: Journal,
    run: str,
    plans: Plans,
    keys: Sequence[VerifyKey] = (),
    *,
    is_blind: bool = False,
) -> History | None:
    """Return a run from its journal, or None if there is none; raises JournalError if it is damaged.

    `plans` makes the plan from digests of the program and its policies, the waived rules, the digests and waived rules
    of the terms that the run came under later, and the dialect of patterns. With `keys`, the head has to be signed by
    one of them, because a machine that continues a run signs all of it. `is_blind`: sensitive values count as erased,
    and the vault is not asked.
    """
    head, entries = read_together(journal, run)
    if head is None and not entries:
        return None
    records = checked_records(run, entries)
    require_head(run, head, entries[-1], keys)
    found = unfold(journal, run, records, entries[-1], plans, is_blind=is_blind)
    is_signed = head is not None and head.signature is not None
    return found._replace(state=fold(found.plan, found.events), is_signed=is_signed)


def unfold(
    journal: Journal, run: str, records: tuple[Record, ...], last: Entry, plans: Plans, *, is_blind: bool = False
) -> History:
    """Return a run with checked records, its state before the first one; raises JournalError if it can't be read."""
    body = records[0].body
    try:
        later = [record.body for record in records if record.kind == "governed"]
        terms = tuple((_names(terms_body["policies"]), _names(terms_body["waived"])) for terms_body in later)
        (program,) = _names([body["program"]])
        documents = program, _names(body["policies"]), _names(body["waived"]), terms, body.get("patterns")
        erased = erased_references(records)
    except (KeyError, TypeError):
        raise JournalError(f"a record of run `{run}` does not name what it must; see `stepward verify`") from None
    if documents[-1] not in (None, RE2):
        raise JournalError(f"the patterns of run `{run}` are of the dialect `{documents[-1]}`, which this reader lacks")
    plan = plans(*documents)
    if documents[-1] != plan.patterns:
        raise JournalError(f"run `{run}` has patterns of another dialect than its program; see `stepward verify`")
    asks = (plan.has_sensitive or plan.suspends) and not is_blind
    stored = journal.vault.get(run) if asks else {}
    secrets = {name: secret for name, secret in stored.items() if type(secret) is bytes}
    unseal = _as_gone if is_blind else unsealer(secrets, erased)
    events = tuple(event_of(record, unseal) for record in records)
    return History(run, plan, records, events, before(plan), last, secrets)


def _as_gone(reference: str, commitment: str) -> Sealed:
    return Sealed(reference, commitment, None, is_gone=True)


def _names(value: Any) -> Names:
    """Return the names in a list of a record; raises TypeError if it is not a list of texts."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError("it is no list of names")
    return tuple(value)


def require_head(run: str, head: Head | None, last: Entry, keys: Sequence[VerifyKey]) -> None:
    """Raise JournalError unless the head of a run is its last entry, and is signed by one of `keys`, if given."""
    if head is None or (head.seq, head.digest) != (last.seq, last.digest):
        raise JournalError(f"the head of run `{run}` is not its last record; see `stepward verify`")
    if keys and signer_of(run, head, keys) is None:
        named = f"the key {keys[0].id}" if len(keys) == 1 else f"one of the keys {', '.join(key.id for key in keys)}"
        why = "go on with the key that has signed it, name that one with `--old-key`, or see `stepward verify`"
        raise JournalError(f"the head of run `{run}` is not signed by {named}; {why}")


def stored_plan(
    journal: Journal,
    program: str,
    policies: Sequence[str],
    waived: Sequence[str],
    later: Sequence[tuple[Sequence[str], Sequence[str]]],
    patterns: str | None,
) -> Plan:
    """Return the plan of stored documents; raises JournalError if they do not match their digests.

    `later` are the terms that the run came under after its start: digests of policies, and waived rules. `patterns` is
    the dialect of patterns in its first record.
    """
    return Plan(
        build_program(stored_document(journal, program), None, patterns),
        _policies(journal, policies, patterns),
        waived,
        [Terms(tuple(_policies(journal, digests, RE2)), frozenset(lifted)) for digests, lifted in later],
    )


def _policies(journal: Journal, digests: Sequence[str], patterns: str | None) -> list[Policy]:
    return [Policy.from_record(stored_document(journal, digest), patterns) for digest in digests]


def stored_document(journal: Journal, digest: str, what: str = "document") -> Any:
    """Return the plain data of a stored document; raises JournalError, which says `what` it is, for another digest."""
    text = journal.document(digest) if type(digest) is str else None  # a forged record may name anything
    if type(text) is not bytes or document_digest(text) != digest:
        why = "is missing, or not what was kept; see `stepward verify`"
        raise JournalError(f"the {what} `{str(digest)[:16]}…` {why}")
    return plain(read_document(text))
