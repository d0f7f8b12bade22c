"""Canaries of the family "hash corruption"; a helper, no tests stand here.

Verification and the machine read a journal each in its own way, so a defence is removed in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.vm.journal import chain, pruning, receipts, sealing, verify
from stepward.vm.journal.canonical import Sealed, read_canonical, restored
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import NO_DIGEST, Record, digest_of, read_record
from stepward.vm.journal.sealing import SALT_BYTES
from stepward.vm.journal.signing import VerifyKey
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.store import Append, Entry, Head, JournalError, Lease
from stepward.vm.machine import driver, history, replay, runs

READS = {
    "name": "reads",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "boolean"}}},
    "steps": [{"id": "look", "type": "tool", "tool": "look"}, {"id": "done", "type": "end"}],
}
WRITES = {
    "name": "writes",
    "inputs": {},
    "tools": {"pay": {"effect": "write", "returns": {"type": "boolean"}}},
    "steps": [{"id": "pay", "type": "tool", "tool": "pay"}],
}
BOTH = {
    "name": "both",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "boolean"}}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [{"id": name, "type": "tool", "tool": "look"} for name in ("left", "right")],
        }
    ],
}
WAITS = {
    "name": "waits",
    "inputs": {},
    "tools": {"ask": {"effect": "read", "suspends": True, "returns": {"type": "boolean"}}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [{"id": name, "type": "tool", "tool": "ask"} for name in ("left", "right")],
        }
    ],
}
SECRET = {
    "name": "secret",
    "inputs": {"card": {"type": "string", "enum": ["1"], "sensitive": True}},
    "steps": [{"id": "done", "type": "end"}],
}
LOOKED = {"look, visit 1, attempt 1": {"does": "returns", "value": False}}


# -- reading without a check -------------------------------------------------------------------------------------------


def records_of(*, digests: bool = True, links: bool = True, numbers: bool = True, start: bool = True) -> Any:
    """Return what reads the records of a run as the machine does, but for what is left out."""

    def checked(run: str, entries: Sequence[Entry]) -> tuple[Record, ...]:
        found: list[Record] = []
        previous = NO_DIGEST
        for number, entry in enumerate(entries):
            if digests and digest_of(entry.record) != entry.digest:
                raise JournalError("not what was written")
            record = read_record(entry) if numbers else _unnumbered(entry)
            if links and record.prev != previous.hex():
                raise JournalError("does not follow")
            if numbers and entry.seq != number:
                raise JournalError("not in its place")
            found.append(record)
            previous = entry.digest
        if not found or found[0].kind != "started" or (start and found[0].note.get("run") != run):
            raise JournalError("does not start with its start")
        return tuple(found)

    return checked


def _unnumbered(entry: Entry) -> Record:
    return read_record(entry._replace(seq=json.loads(entry.record)["seq"]))


def reads_with(patch: pytest.MonkeyPatch, **checks: bool) -> None:
    """Have the machine, and the replay of a verification, leave out a check."""
    for module in (history, driver):
        patch.setattr(module, "checked_records", records_of(**checks))


def no_digests(patch: pytest.MonkeyPatch) -> None:
    """Nobody computes the digest of a record: what is kept beside it is believed."""
    reads_with(patch, digests=False)
    whole = chain.check_chain

    def believing(run: str, entries: Sequence[Entry], *rest: Any, **named: Any) -> chain.Chain:
        kept = {entry.record: entry.digest for entry in entries}
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(chain, "digest_of", kept.__getitem__)
            return whole(run, entries, *rest, **named)

    patch.setattr(verify, "check_chain", believing)


def nothing_beside(patch: pytest.MonkeyPatch) -> None:
    """Verification computes digests, and does not look at those that are kept."""
    reads_with(patch, digests=False, links=False)
    whole = chain._check_entries

    def unlooked(found: chain.Chain, kept: list[Entry], anchors: Any) -> None:
        whole(found, [entry._replace(digest=found.digests[entry.seq]) for entry in kept], anchors)

    patch.setattr(chain, "_check_entries", unlooked)


def no_links(patch: pytest.MonkeyPatch) -> None:
    reads_with(patch, links=False)
    patch.setattr(chain, "_check_links", lambda *_: None)


def no_order(patch: pytest.MonkeyPatch) -> None:
    """Neither links nor numbers: records are taken in the order in which they are kept."""
    reads_with(patch, links=False, numbers=False)
    patch.setattr(chain, "_check_links", lambda *_: None)
    patch.setattr(chain, "read_record", _unnumbered)
    patch.setattr(chain, "record_in", lambda entry, data: _unnumbered(entry))


def any_start(patch: pytest.MonkeyPatch) -> None:
    reads_with(patch, start=False)
    patch.setattr(chain, "_check_first", lambda _: None)


def any_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "read_canonical", json.loads)


def compares_numbers_of_heads(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch, history, "require_head", ("(head.seq, head.digest) != (last.seq, last.digest)", "head.seq != last.seq")
    )


def any_head(patch: pytest.MonkeyPatch) -> None:
    """The signature of the head is checked, and not that it is the last record."""

    def signed(run: str, head: Head | None, last: Entry, key: VerifyKey | None) -> None:
        if key is not None and history.signer_of(run, head, [key]) is None:
            raise JournalError("not signed")

    patch.setattr(chain, "_check_head", lambda *_: None)
    patch.setattr(history, "require_head", signed)


# -- trusting anybody --------------------------------------------------------------------------------------------------


def no_signatures(patch: pytest.MonkeyPatch) -> None:
    for module in (verify, history):
        patch.setattr(module, "signer_of", lambda _, __, keys: next(iter(keys), None))


def unsigned_machine(patch: pytest.MonkeyPatch) -> None:
    """Verification asks for the signature, and the machine goes on without."""
    patch.setattr(history, "signer_of", lambda _, __, keys: next(iter(keys), None))


def any_signature(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VerifyKey, "has_signed", lambda _, __, signature: len(signature) == 64)


def no_receipts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify, "_off_the_chain", lambda *_: ())


def receipts_of_any_run(patch: pytest.MonkeyPatch) -> None:
    whole = verify._judged

    def judged(run: str, given: Sequence[receipts.Receipt], keys: Any) -> Any:
        return whole(run, [replace(receipt, run=run) for receipt in given], keys)

    patch.setattr(verify, "_judged", judged)


def receipts_say_what_they_like(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "misreports", lambda *_: [])


def ids_are_free_again(patch: pytest.MonkeyPatch) -> None:
    """Stores forget pruned runs when another run gets the id of one."""
    whole = MemoryJournal.create

    def create(store: MemoryJournal, append: Append, *rest: Any) -> Lease | None:
        store._kept.pop(append.run, None)
        return whole(store, append, *rest)

    patch.setattr(MemoryJournal, "create", create)


def half_signed_receipts(patch: pytest.MonkeyPatch) -> None:
    """The signature of a receipt covers what lies on the chain, and no more."""
    whole = receipts.Receipt.message

    def message(receipt: receipts.Receipt) -> bytes:
        return whole(replace(receipt, status="", trace=bytes(32)))

    patch.setattr(receipts.Receipt, "message", message)
    receipts_say_what_they_like(patch)


# -- documents and values ----------------------------------------------------------------------------------------------


def any_document(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify, "_documents", lambda *_: ())
    patch.setattr(history, "document_digest", _Anything)

    def believing(journal: Any, program: str, policies: Sequence[str], *rest: Any) -> Any:
        plan = whole(journal, program, policies, *rest)
        plan.digest, plan.policy_digests = program, tuple(policies)
        return plan

    whole = history.stored_plan
    for module in (history, replay):
        patch.setattr(module, "stored_plan", believing)


class _Anything:
    def __init__(self, _: bytes) -> None:
        pass

    def __ne__(self, other: object) -> bool:
        return False


def any_value(patch: pytest.MonkeyPatch) -> None:
    def unsealer(secrets: Any, erased: Any) -> Callable[[str, str], Sealed]:
        def unseal(reference: str, committed: str) -> Sealed:
            if reference in erased:
                return Sealed(reference, committed, None, is_gone=True)
            if reference not in secrets:
                raise JournalError("gone")
            value = restored(read_canonical(secrets[reference][SALT_BYTES:]), sealing._refuse_nested)
            return Sealed(reference, committed, value)

        return unseal

    for module in (verify, history):
        patch.setattr(module, "unsealer", unsealer)


def documents_of_any_type(patch: pytest.MonkeyPatch) -> None:
    def read(journal: Any, digest: str, what: str = "document") -> Any:
        text = journal.document(digest)
        if history.document_digest(text) != digest:
            raise JournalError("not what was kept")
        return history.plain(history.read_document(text))

    patch.setattr(history, "stored_document", read)


def sqlite_in_its_own_words(patch: pytest.MonkeyPatch) -> None:
    """What SQLite says of a damaged file reaches whoever reads the journal as it is."""

    @contextmanager
    def unexplained(_: Any, __: str) -> Iterator[None]:
        yield

    patch.setattr(DatabaseFile, "_explained", unexplained)


def believes_the_list(patch: pytest.MonkeyPatch) -> None:
    whole = runs.Runs._found

    async def found(self: Any, run: str) -> Any:
        read = await whole(self, run)
        status = next(row.status for row in self.journal.rows() if row.run == run)
        return read._replace(state=read.state._replace(status=status))

    patch.setattr(runs.Runs, "_found", found)


CANARIES: tuple[Canary, ...] = (
    Canary("no-digests", "the digest of each record is computed", "bit-flip-in-record", READS, no_digests),
    Canary(
        "nothing-beside",
        "the digest that is kept beside a record is compared",
        "bit-flip-in-digest",
        READS,
        nothing_beside,
        smallest={"inputs": {}, **LOOKED, "record": 0, "bit of its digest": 0},
    ),
    Canary(
        "no-links",
        "each record names the one before",
        "record-hashed-alone",
        READS,
        no_links,
        smallest={"inputs": {}, **LOOKED, "record": 0},
    ),
    Canary(
        "no-signatures",
        "a head has to be signed",
        "tail-hashed-again",
        READS,
        no_signatures,
        smallest={"inputs": {}, **LOOKED, "record": 0},
    ),
    Canary("no-signatures-values", "a head has to be signed", "value-rewritten", READS, no_signatures),
    Canary("no-signatures-cut", "a head has to be signed", "tail-cut-with-head", READS, no_signatures),
    Canary("no-signatures-more", "a head has to be signed", "record-appended", READS, no_signatures),
    Canary(
        "unsigned-machine",
        "a machine with a key reads only what that signed",
        "tail-cut-with-head",
        READS,
        unsigned_machine,
        smallest={"inputs": {}, **LOOKED, "records cut off, but one": 0, "signature removed": False},
    ),
    Canary("any-signature", "a signature is checked, and not only there", "strange-signature", READS, any_signature),
    Canary(
        "any-signature-bits", "a signature is checked, and not only there", "signature-edited", READS, any_signature
    ),
    Canary(
        "no-receipts",
        "a receipt lies on the chain",
        "fork",
        READS,
        no_receipts,
        smallest={"inputs": {}, **LOOKED, "points passed": 0},
    ),
    Canary("no-receipts-values", "a receipt lies on the chain", "value-rewritten", READS, no_receipts),
    Canary(
        "receipts-of-any-run",
        "a receipt is one of this run",
        "receipt-edited",
        READS,
        receipts_of_any_run,
        smallest={"inputs": {}, **LOOKED, "signed": False, "field": "run"},
    ),
    Canary(
        "receipts-say-what-they-like",
        "what a receipt says of the status, the records say too",
        "receipt-edited",
        READS,
        receipts_say_what_they_like,
        smallest={"inputs": {}, **LOOKED, "signed": False, "field": "status"},
    ),
    Canary(
        "half-signed-receipts",
        "the signature of a receipt covers all of it",
        "receipt-edited",
        READS,
        half_signed_receipts,
    ),
    Canary("no-order-swapped", "numbers and links keep records in order", "records-swapped", BOTH, no_order),
    Canary("no-order-twice", "numbers and links keep records in order", "record-twice", WRITES, no_order),
    Canary("no-order-dropped", "numbers and links keep records in order", "record-dropped", WAITS, no_order),
    Canary("any-start", "the first record names the run", "journal-grafted", READS, any_start),
    Canary(
        "any-bytes",
        "a record has one form",
        "other-bytes-one-meaning",
        READS,
        any_bytes,
        smallest={"inputs": {}, **LOOKED, "record": 0, "change": "space"},
    ),
    Canary(
        "any-head",
        "the head is the last record",
        "tail-cut",
        READS,
        any_head,
        smallest={"inputs": {}, **LOOKED, "rows deleted, but one": 0},
    ),
    Canary("compares-numbers-of-heads", "the head has a digest", "head-left", READS, compares_numbers_of_heads),
    Canary("any-head-edited", "the head is the last record", "head-edited", READS, any_head),
    Canary("any-document", "a document has the digest that record 0 names", "document-edited", READS, any_document),
    Canary(
        "any-value",
        "a sensitive value has its commitment",
        "sensitive-value-edited",
        SECRET,
        any_value,
        smallest={"inputs": {"card": "1"}, "value": 0, "change": "salt"},
    ),
    Canary(
        "documents-of-any-type",
        "what a file holds is of the type that was written",
        "types-of-columns",
        READS,
        documents_of_any_type,
        smallest={"inputs": {}, **LOOKED, "column": "document"},
    ),
    Canary(
        "sqlite-in-its-own-words",
        "a file that SQLite refuses is refused in our words",
        "any-byte-of-the-file",
        READS,
        sqlite_in_its_own_words,
        smallest={"inputs": {}, **LOOKED, "flips": [[0, 0]]},
    ),
    Canary(
        "any-kept-signature",
        "what is kept of a pruned run is signed",
        "pruned-audited",
        READS,
        lambda patch: patch.setattr(pruning.Pruned, "signer", lambda _, keys: next(iter(keys), None)),
    ),
    Canary(
        "no-receipts-of-pruned-runs",
        "a receipt is compared with what is kept of a pruned run",
        "pruned-audited",
        READS,
        lambda patch: patch.setattr(pruning.Pruned, "misfit", lambda *_: None),
    ),
    Canary(
        "receipts-of-an-end-before-an-erasure",
        "a receipt for the end of a run says how it ended, whatever came later",
        "pruned-audited",
        SECRET,
        lambda patch: patch.setattr(pruning, "GOING", ("SUCCESS", "SUCCESS?")),
    ),
    Canary(
        "forgets-pruned-ids",
        "the id of a pruned run is given to no other run",
        "pruned-audited",
        READS,
        ids_are_free_again,
    ),
    Canary("believes-the-list", "what a run is, its records say", "list-of-runs-edited", READS, believes_the_list),
)
