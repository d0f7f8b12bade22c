"""Copies the runs of a store into another one: a backup, a restoration, or a move between SQLite and PostgreSQL.

The copy is of one moment, although runs may go on meanwhile. What is copied again is only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from stepward.vm.errors import StepwardError
from stepward.vm.journal.chain import Chain, check_chain, read_together
from stepward.vm.journal.pruning import Pruned, PrunedRefused
from stepward.vm.journal.records import document_digest, read_record
from stepward.vm.journal.store import Append, AppendConflict, Entry, Journal, JournalError, Row

HOLDER: Final = "copy"
"""The holder of the lease of a copied run; the lease is over at once."""

TRIES: Final = 3
"""How often what was erased while it was copied is copied again."""

_OTHER: Final = "the target has it with other records: copy into another journal"
_LOOK: Final = "`stepward verify` says more"

Due = Callable[[Journal, str], float | None]
"""Returns the time from which on a machine can go on with a run of a store; None if nobody can."""


class RunNotCopied(StepwardError):  # noqa: N818 - a normal outcome, not a fault
    """A run is not copied, and why. `is_passing`: a second try may succeed."""

    def __init__(self, what: str, *, is_passing: bool = False) -> None:
        super().__init__(what)
        self.is_passing = is_passing


class Copied(NamedTuple):
    """What came of a run: the number of records that were copied now, and why not all are there, if so."""

    run: str
    records: int = 0
    why: str | None = None


def copy_runs(source: Journal, target: Journal, due: Due) -> Iterator[Copied]:
    """Copy all runs with their documents and sensitive values, and yield what came of each, in the order of creation.

    Of all runs it is the state at one moment. Encrypted values stay encrypted, if both stores are opened without their
    keys. A run that is damaged, or that the target has with other records, is left out. A run of which the target has
    more is left as it is. Ids of pruned runs are taken in the target, too, which prunes what it has of them. `due` is
    asked for each run that is copied, of the store as it was at that moment. Raises JournalError if a store can't be
    used.
    """
    again: set[str] | None = None
    for left in reversed(range(TRIES)):
        passing = set()
        erased = _erase_first(source, target)
        with source.frozen() as still:
            for run in still.names():
                if again is not None and run not in again:
                    continue
                try:
                    yield Copied(run, _copy_run(still, target, run, due, erased))
                except RunNotCopied as error:
                    if error.is_passing and left:
                        passing.add(run)
                    else:
                        yield Copied(run, why=str(error))
            if again is None:
                yield from _copy_pruned(still, target, erased)
        if not passing:
            return
        again = passing


def _erase_first(source: Journal, target: Journal) -> set[str]:
    """Have the target destroy its values of runs that were erased or pruned in the source; return these runs.

    That comes before the snapshot: a database destroys nothing while one of it is open, and both stores may be in it.
    Also without values: from then on the vault takes none of a run with this id.
    """
    found = [run for run in source.names() if _is_newly_erased(source, target, run)]
    found += [run for run in source.pruned() if _is_newly_pruned(source, target, run)]
    if found:
        target.vault.erase_all(found)
    return set(found)


def _is_newly_erased(source: Journal, target: Journal, run: str) -> bool:
    """Return whether a run was erased, which the target does not know yet; an erasure is the last record of a run."""
    head, known = source.head(run), target.head(run)
    if head is None or (known is not None and known[:3] == head[:3]):
        return False
    last = source.read(run, head.seq)
    try:
        if not last or read_record(last[0]).kind != "erased":
            return False
    except JournalError:
        return False
    head, entries = read_together(source, run)
    if check_chain(run, entries, head, (), is_head_forged=False).faults:
        return False
    present = target.read(run)
    is_free = bool(present) or target.kept(run) is None
    return is_free and _begins_with([one.digest for one in entries], present)


def _is_newly_pruned(source: Journal, target: Journal, run: str) -> bool:
    """Return whether the target has values of a run that was pruned, or can't know yet that it was."""
    kept = source.kept(run) or b""
    if target.kept(run) == kept:
        return bool(target.vault.get(run))
    try:
        pruned = Pruned.from_bytes(kept)
    except PrunedRefused:
        return False
    return _begins_with(pruned.digests, target.read(run))


def _begins_with(digests: Sequence[bytes], present: Sequence[Entry]) -> bool:
    return [one.digest for one in present] == list(digests[: len(present)])


def _copy_pruned(source: Journal, target: Journal, erased: Collection[str]) -> Iterator[Copied]:
    """Have the target prune what the source has pruned, and take the ids of runs that it never had."""
    for run in source.pruned():
        kept = source.kept(run) or b""
        try:
            pruned = Pruned.from_bytes(kept)
        except PrunedRefused as error:
            yield Copied(run, why=f"{error}; {_LOOK}")
            continue
        if run not in erased and _is_newly_pruned(source, target, run):
            target.vault.erase(run)  # it was pruned since then
        is_pruned = target.kept(run) == kept or _prune(target, pruned, kept)
        yield Copied(run, why=None if is_pruned else _OTHER)


def _prune(target: Journal, pruned: Pruned, kept: bytes) -> bool:
    """Prune a run in the target; what that lacks of its records is made up by digests. Returns whether it fits."""
    if target.prune(pruned.head, kept):
        return True
    present = target.read(pruned.run)
    if not _begins_with(pruned.digests, present):
        return False
    rest = [Entry(seq, b"", digest) for seq, digest in enumerate(pruned.digests)][len(present) :]
    append = Append(pruned.run, len(present) - 1, rest, pruned.status, pruned.ended / 1e6, True)
    if not present:
        target.create(append, pruned.name, HOLDER, 0.0)
    elif rest:
        with suppress(AppendConflict):
            target.append(append, None)
    return target.prune(pruned.head, kept)


def _copy_run(source: Journal, target: Journal, run: str, due: Due, erased: Collection[str]) -> int:
    """Copy a run, and return the number of new records; raises RunNotCopied.

    `erased` are the runs whose values the target has destroyed.
    """
    head, known = source.head(run), target.head(run)
    row = source.row(run)
    if head is not None and row is not None and known is not None and known[:3] == head[:3] and not row.fault:
        if known.signature != head.signature:  # it was signed anew
            target.sign(head)
        return 0
    head, entries = read_together(source, run)
    chain = check_chain(run, entries, head, (), is_head_forged=False)
    if chain.faults or head is None:
        raise RunNotCopied(f"{chain.faults[0].what if chain.faults else 'it has no head'}; {_LOOK}")
    if row is None or row.fault:
        raise RunNotCopied(f"the list of runs is damaged: {'it has no line' if row is None else row.fault}; {_LOOK}")
    present = target.read(run)
    if not present and target.kept(run) is not None:
        return 0  # the target has pruned it
    if any(one.digest != other.digest for one, other in zip(present, entries, strict=False)):
        raise RunNotCopied(_OTHER)
    if len(present) >= len(entries):
        return 0  # the target is ahead
    _copy_documents(source, target, chain)
    _copy_values(source, target, chain, is_erased=run in erased)
    _copy_entries(target, row, entries, len(present), head.signature, due(source, run))
    return len(entries) - len(present)


def _copy_entries(
    target: Journal, row: Row, entries: list[Entry], present: int, signature: bytes | None, due: float | None
) -> None:
    """Copy entries from number `present` on."""

    def append(number: int, batch: list[Entry], now: float) -> Append:
        is_all = batch[-1] is entries[-1]
        head_signature, time = (signature, due) if is_all else (None, None)
        return Append(row.run, number - 1, batch, row.status, now, True, head_signature, time)

    if not present:
        # The last entry of several comes alone, with the time of the last change.
        batch = entries[:-1] or entries
        if target.create(append(0, batch, row.started), row.program, HOLDER, 0.0) is None:
            raise RunNotCopied("somebody else has made it in the target meanwhile: copy again", is_passing=True)
        present = len(batch)
    if present == len(entries):
        return
    try:
        target.append(append(present, entries[present:], row.updated), None)
    except AppendConflict:
        raise RunNotCopied(
            "somebody goes on with it in the target meanwhile: let nobody do that while you copy"
        ) from None


def _copy_documents(source: Journal, target: Journal, chain: Chain) -> None:
    for digest in sorted(set(_named(chain))):
        text = source.document(digest)
        if text is None or document_digest(text) != digest:
            raise RunNotCopied(f"the document `{digest[:16]}…` is missing or was changed; {_LOOK}")
        target.put_document(digest, text)


def _named(chain: Chain) -> Iterator[str]:
    """Yield the digests of the documents that the records of a run name."""
    for record in chain.records.values():
        body: dict[str, Any] = record.body
        if record.kind in ("started", "governed", "moved"):
            yield from (digest for digest in body.get("policies", ()) if isinstance(digest, str))
        if record.kind in ("started", "moved"):
            yield str(body.get("program"))


def _copy_values(source: Journal, target: Journal, chain: Chain, *, is_erased: bool) -> None:
    erased = {
        reference
        for record in chain.records.values()
        if record.kind == "erased"
        for reference in record.body.get("references", ())
    }
    values = source.vault.get(chain.run)
    lacking = {sealed.reference for _, sealed in chain.sealed} - erased - values.keys()
    if lacking:
        why = "they were erased while they were copied, or the vault is not the one of this journal"
        raise RunNotCopied(f"sensitive values are missing: {why}; {_LOOK}", is_passing=True)
    if erased and not is_erased:
        target.vault.erase(chain.run)  # it was erased since then
    if values and not erased:
        try:
            target.vault.put(chain.run, values)
        except JournalError as error:
            raise RunNotCopied(f"its values can't be copied: {error}") from None
