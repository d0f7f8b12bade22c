"""Verifies journals: checks that the records of a run are those that were written, and locates damage.

It needs no machine, only the store, and keys and receipts that are stored elsewhere. The chain shows every change if
its end can be trusted; a signed head or a receipt is the reason to trust the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final

from stepward.vm.journal.canonical import NotCanonicalError, Sealed
from stepward.vm.journal.chain import Anchor, Chain, check_chain, read_together
from stepward.vm.journal.encryption import ValuesLost, is_encrypted
from stepward.vm.journal.pruning import verify_pruned
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import Record, document_digest
from stepward.vm.journal.sealing import unsealer
from stepward.vm.journal.signing import VerifyKey, signer_of
from stepward.vm.journal.store import Entry, Head, Journal, JournalError
from stepward.vm.journal.verdict import Fault, Verdict

Replay = Callable[[Sequence[Entry], Sequence[Record]], Sequence[Fault]]
"""Checks the meaning of the entries and records of an unbroken chain by replaying them."""

ERASED_KIND: Final = "erased"

MAX_DOCUMENTS: Final = 1_024
"""Maximal number of documents whose state is cached in a check of many runs."""


def verify(
    journal: Journal,
    run: str,
    *,
    keys: Sequence[VerifyKey] = (),
    receipts: Sequence[Receipt] = (),
    replay: Replay | None = None,
    document_fault: Callable[[str | None], str] | None = None,
) -> Verdict:
    """Check all of a run, also after a first fault; the first fault is where the damage begins.

    With `keys` the head and the receipts have to be signed by one of them. Without keys and receipts it can't be
    detected that a journal was rewritten as a whole, or truncated with a matching head.
    `replay` is called only if the chain is unbroken. `document_fault` returns what is wrong with the document of a
    digest, for checks of many runs. Of a pruned run, what is kept is checked in the same way. Raises JournalError if
    the store can't be read at all.
    """
    head, entries = read_together(journal, run)
    kept = journal.kept(run) if head is None and not entries else None
    if kept is not None:
        good, bad = _judged(run, receipts, keys)
        verdict = verify_pruned(run, kept, keys, good)
        return replace(verdict, faults=(*verdict.faults, *bad))
    signer = signer_of(run, head, keys)
    good, bad = _judged(run, receipts, keys)
    anchors = [Anchor(receipt.seq, receipt.digest) for receipt in good]
    faults: list[Fault] = []
    chain = Chain(run)
    if head is None and not entries:
        faults.append(
            Fault(run, None, f"there is no run `{run}`", "name a run of this store, or restore it from a copy")
        )
    else:
        chain = check_chain(run, entries, head, anchors, is_head_forged=bool(keys) and signer is None)
        faults += chain.faults
        if keys and signer is None:
            faults.append(_unsigned(run, head, chain.last))
    on_chain = {receipt.seq for receipt in good if chain.digests.get(receipt.seq) == receipt.digest}
    off_chain = [receipt for receipt in good if chain.digests.get(receipt.seq) != receipt.digest]
    row = journal.row(run)
    if row is not None and row.fault:
        help = "continue the run by its id; this repairs the list"
        faults.append(Fault(run, None, f"the list of runs is damaged: {row.fault}", help))
    faults += _off_the_chain(chain, off_chain, on_chain)
    faults += bad
    faults += _documents(chain, document_fault or partial(_document_fault, journal))
    locked = _locked(journal, chain)
    faults += _secrets(journal, chain) if locked is None else [locked]
    if replay is not None and not chain.faults and entries and locked is None:
        faults += replay(entries, [chain.records[entry.seq] for entry in entries])
    signed_by, on_it = signer.id if signer else None, len(good) - len(off_chain)
    return Verdict(run, len(chain.digests), head, signed_by, on_it, tuple(faults), _continued(chain))


def _continued(chain: Chain) -> str | None:
    """Return the run that a run says that it continues, or None."""
    continues = chain.records[0].body.get("continues") if 0 in chain.records else None
    run = continues.get("run") if isinstance(continues, dict) else None
    return run if isinstance(run, str) else None


def verify_all(
    journal: Journal,
    *,
    keys: Sequence[VerifyKey] = (),
    receipts: Sequence[Receipt] = (),
    replay: Callable[[str, Sequence[Receipt]], Replay] | None = None,
) -> Iterator[Verdict]:
    """Check every run of a store, one after the other, and every run that a receipt names.

    Pruned runs come behind the others. A run that is gone is detected only by its receipt. `replay` returns the check
    of the meaning of a run's entries, given the run and its receipts. Only one run is in memory at a time, and a
    document that runs share is read once. Raises JournalError if the store can't be read at all.
    """
    document_fault = lru_cache(MAX_DOCUMENTS)(partial(_document_fault, journal))
    by_run: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        by_run.setdefault(receipt.run, []).append(receipt)

    def verified(run: str) -> Verdict:
        own = by_run.pop(run, ())
        check = None if replay is None else replay(run, own)
        return verify(journal, run, keys=keys, receipts=own, replay=check, document_fault=document_fault)

    yield from map(verified, journal.names())
    yield from map(verified, journal.pruned())
    yield from map(verified, list(by_run))


def _unsigned(run: str, head: Head | None, last: int) -> Fault:
    what = "is signed by none of the given keys"
    if head is None or head.signature is None:
        what = "has no signature"
    help = "pass the public key of the machine that ran it; if this is that key, do not trust this run"
    return Fault(run, max(last, 0), f"the stored head {what}", help)


def _judged(run: str, receipts: Sequence[Receipt], keys: Sequence[VerifyKey]) -> tuple[list[Receipt], list[Fault]]:
    """Split receipts into valid ones, and faults for those of another run or without a valid signature."""
    good: list[Receipt] = []
    bad: list[Fault] = []
    for receipt in receipts:
        name = f"the receipt for record {receipt.seq}"
        if receipt.run != run:
            help = "use it to verify that run"
            bad.append(Fault(run, None, f"{name} is for the run `{receipt.run}`, not for `{run}`", help))
        elif keys and receipt.signer(keys) is None:
            what = "has no signature" if receipt.signature is None else "is signed by none of the given keys"
            help = "pass the public key that signed the receipt; if this is that key, the receipt is forged"
            bad.append(Fault(run, receipt.seq, f"{name} {what}", help))
        else:
            good.append(receipt)
    return good, bad


def _off_the_chain(chain: Chain, receipts: Sequence[Receipt], known: Collection[int]) -> Iterator[Fault]:
    """Yield a fault for each receipt whose record is not on the chain; `known` are the records with matching ones."""
    last = chain.last
    for receipt in sorted(receipts, key=lambda receipt: receipt.seq):
        seq = receipt.seq
        if seq > last:
            ending = f"but the run ends with record {last}" if last >= 0 else "but the store has no records of the run"
            yield Fault(chain.run, last + 1, f"there was a record {seq}, according to a receipt, {ending}")
        elif seq not in chain.digests:
            yield Fault(chain.run, seq, f"record {seq}, for which there is a receipt, is missing")
        else:
            first = 1 + max((other for other in known if other < seq), default=-1)
            where = f"record {seq}" if first == seq else f"one of the records {first} to {seq}"
            what = f"record {seq} is not the one that a receipt was given for: {where} was rewritten"
            yield Fault(chain.run, seq, what)


def _documents(chain: Chain, document_fault: Callable[[str | None], str]) -> Iterator[Fault]:
    """Yield a fault for each document that the first record names and that is missing or changed."""
    first = chain.records.get(0)
    if first is None:
        return
    program, policies = first.body.get("program"), first.body.get("policies")
    if not isinstance(program, str) or not isinstance(policies, list):
        yield Fault(chain.run, 0, "record 0 does not name its program and its policies")
        return
    for what, digest in [("program", program), *(("policy", digest) for digest in policies)]:
        why = document_fault(digest if isinstance(digest, str) else None)
        if why:
            yield Fault(chain.run, 0, f"the {what} `{digest}`, which record 0 names, {why}", _PUT_BACK)


def _document_fault(journal: Journal, digest: str | None) -> str:
    """Return what is wrong with the document of a digest, or an empty text."""
    text = None if digest is None else journal.document(digest)
    if text is None:
        return "is missing"
    return "" if type(text) is bytes and document_digest(text) == digest else "was changed"


_PUT_BACK: Final = "restore the document from a copy with this digest"


def _locked(journal: Journal, chain: Chain) -> Fault | None:
    """Return a fault where sensitive values are encrypted, and no key is there that opens them."""
    if not chain.sealed:
        return None
    seq = chain.sealed[0][0]
    try:
        stored = journal.vault.get(chain.run)
    except ValuesLost as error:
        return Fault(chain.run, seq, str(error), "name the key store with which it was written, or restore its keys")
    if not any(type(secret) is bytes and is_encrypted(secret) for secret in stored.values()):
        return None
    what = f"the sensitive values of run `{chain.run}` are encrypted"
    return Fault(chain.run, seq, what, "name their key store in `STEPWARD_KEYS`, or as `keys` of the journal")


def _secrets(journal: Journal, chain: Chain) -> Iterator[Fault]:
    """Yield a fault for each sensitive value that is neither unchanged in the vault nor erased, or is both."""
    erased: dict[str, int] = {}
    for seq, record in chain.records.items():
        if record.kind == ERASED_KIND:
            references = record.body.get("references")
            if not isinstance(references, list) or not all(isinstance(item, str) for item in references):
                yield Fault(chain.run, seq, f"record {seq} does not name what was erased")
                continue
            erased.update((reference, seq) for reference in references)
    first: dict[Sealed, int] = {}
    for seq, sealed in chain.sealed:
        first.setdefault(sealed, seq)
    if not first and not erased:
        return
    secrets = {name: secret for name, secret in journal.vault.get(chain.run).items() if type(secret) is bytes}
    for reference, seq in erased.items():
        if reference in secrets:
            what = f"the sensitive value `{reference}`, which record {seq} lists as erased, is still in the vault"
            yield Fault(chain.run, seq, what, "erase the run again")
    unseal = unsealer(secrets, erased)
    for sealed, seq in first.items():
        try:
            unseal(sealed.reference, sealed.commitment)
        except JournalError as error:
            yield Fault(chain.run, seq, f"{error}, and record {seq} names it", "restore the vault from a copy")
        except NotCanonicalError as error:
            yield Fault(chain.run, seq, f"the sensitive value `{sealed.reference}` can't be read: {error}")
