"""Hash corruption: an attacker who can write the SQLite file changes it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.hashes import another, replaced, values_of
from stepward.sabotage.attacks.tampering import (
    Honest,
    ask_all,
    must_find,
    must_refuse,
    pick_index,
    receipt_for,
    tampering,
)
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Forger, RawFile, chained, flipped
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import JournalError


@tampering(
    surface="last rows of the records in a file",
    action="deleted, and the head left",
    defence="the head contains the number of the last record",
    store="sqlite",
    weight=2,
)
def tail_cut(case: Case, forger: Forger, honest: Honest) -> None:
    """The last records are deleted from the file; the separately stored head stays."""
    entries = honest.snapshot.entries
    length = len(entries) - 1 - pick_index(case, "rows deleted, but one", len(entries))
    case.log(f"delete all records from {length} on")
    forger.put(entries[:length])


@tampering(
    surface="head of a run in a file",
    action="its number, its digest or both edited",
    defence="the head must be the last record",
    store="sqlite",
    weight=2,
)
def head_edited(case: Case, forger: Forger, honest: Honest) -> None:
    """The head is edited in the file: its number, its digest, or both, as they were earlier."""
    from hypothesis import strategies as st

    head, entries = honest.snapshot.head, honest.snapshot.entries
    assert head is not None, "the run is there"
    change = case.pick("change", st.sampled_from(["number", "digest", "earlier"]))
    case.log(f"edit the head: {change}")
    if change == "number":
        head = head._replace(seq=head.seq + case.pick("higher by", st.sampled_from([1, -1, 2**62])))
    elif change == "digest":
        head = head._replace(digest=flipped(head.digest, pick_index(case, "bit", 256)))
    else:
        seq = pick_index(case, "record", len(entries) - 1)
        head = head._replace(seq=seq, digest=entries[seq].digest)
    forger.put(entries, head)


def _head_left_noticed(case: Case, trial: Trial, honest: Honest) -> Outcome:
    """Ask all readers; besides, no machine may read the run at all, with or without a key."""
    outcome = ask_all(case, trial, honest)
    for machine in (trial.machine(), trial.machine(key=None)):
        try:
            case.do(machine.get(trial.run))
        except JournalError:
            continue
        case.hold(False, Invariant.TAMPERING, "a machine reads a run whose head is not its last record")
    return outcome


@tampering(
    surface="records in a file, without the head",
    action="an output, an input or a time changed, and the whole rehashed; the head left, signed as it is",
    defence="the head contains the digest of the last record",
    store="sqlite",
    weight=2,
    noticed=_head_left_noticed,
)
def head_left(case: Case, forger: Forger, honest: Honest) -> None:
    """Records are changed and rehashed; the separately stored head stays, with its number and its signature."""
    from hypothesis import strategies as st

    records = forger.records()
    values = [value for record in records for value in values_of(record)]
    if values and case.pick("what is changed", st.sampled_from(["a value", "a time"])) == "a value":
        value = values[pick_index(case, "value", len(values))]
        case.log(f"change {value!r} wherever it is in the records, rehash them, and leave the head")
        records = [record | {"body": replaced(record["body"], value, another(value))} for record in records]
    else:
        seq = pick_index(case, "record", len(honest.snapshot.entries))
        case.log(f"write another time into record {seq}, rehash the records, and leave the head")
        records[seq]["at"] += 1
    forger.put(chained(records))


@tampering(
    surface="signature of a head in a file",
    action="a bit flipped, cut short, or removed",
    defence="with a key, the head has to be signed by this key",
    by_itself=False,
    by_receipt=False,
    store="sqlite",
    weight=2,
)
def signature_edited(case: Case, forger: Forger, honest: Honest) -> None:
    """The signature of the head is edited in the file, or removed; all else is sound."""
    from hypothesis import strategies as st

    head = honest.snapshot.head
    assert head is not None, "the run is there"
    assert head.signature is not None, "the run was signed"
    change = case.pick("change", st.sampled_from(["removed", "bit", "cut"]))
    case.log(f"edit the signature of the head: {change}")
    signature = {"removed": None, "cut": head.signature[:63]}.get(change)
    if change == "bit":
        signature = flipped(head.signature, pick_index(case, "bit", 512))
    forger.put(honest.snapshot.entries, head._replace(signature=signature))


_TYPES: dict[str, str] = {
    "record": "UPDATE records SET record = CAST(record AS TEXT) WHERE run = ? AND seq = {seq}",
    "digest": "UPDATE records SET digest = hex(digest) WHERE run = ? AND seq = {seq}",
    "number of a record": "UPDATE records SET seq = 'x' WHERE run = ? AND seq = {seq}",
    "number of the head": "UPDATE runs SET seq = 'x' WHERE run = ?",
    "digest of the head": "UPDATE runs SET digest = hex(digest) WHERE run = ?",
    "record as a number": "UPDATE records SET record = 7 WHERE run = ? AND seq = {seq}",
}


def _types_of_columns_noticed(case: Case, trial: Trial, honest: Honest) -> Outcome:
    """Ask all readers, then restore documents, since other runs of the file share them."""
    try:
        return ask_all(case, trial, honest)
    finally:
        store = trial.store.inner
        assert isinstance(store, SQLiteJournal), "it is played on a file"
        for digest, text in honest.snapshot.documents.items():
            RawFile(store).put_document(digest, text)


@tampering(
    surface="a column of the journal's file",
    action="a value of another type in it",
    defence="a value that is read must have the type that was written",
    store="sqlite",
    weight=2,
    noticed=_types_of_columns_noticed,
)
def types_of_columns(case: Case, forger: Forger, honest: Honest) -> None:
    """A value in the file gets another type: text instead of bytes or of a number."""
    from hypothesis import strategies as st

    assert isinstance(forger.raw_store, RawFile), "it is played on a file"
    column = case.pick("column", st.sampled_from([*_TYPES, "document", "sensitive value"]))
    case.act(f"put a value of another type in a column: {column}")
    if column == "document":
        digest = forger.documents[0]
        forger.put_document(digest, honest.snapshot.documents[digest].decode())
    elif column == "sensitive value":
        names = case.needs(sorted(name for name in honest.snapshot.secrets if not name.startswith("token:")))
        forger.put_secrets(honest.snapshot.secrets | {names[0]: "text"})
    else:
        seq = pick_index(case, "record", len(honest.snapshot.entries))
        forger.raw_store.do((_TYPES[column].format(seq=seq), (forger.run,)))


_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("status", "RUNNING"),
    ("status", "SUCCESS"),
    ("status", "anything"),
    ("program", "another"),
    ("started", 0.0),
    ("updated", 1e18),
    ("expires", 0.0),
)


class ListOfRunsEdited(Attack):
    """The list of runs is edited: the status, program or times of a run.

    The list is only an index, and its edits are not reported. `recover` without a name does not find a run that is
    listed as ended, but the run itself is unchanged.
    """

    family = Family.HASHES
    surface = "list of runs in a file"
    action = "status, program or times edited"
    invariant = Invariant.HISTORY
    defence = "only the records of a run say what the run is"
    severity = "medium"
    store = "sqlite"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Edit the list, recover all, and check that nothing happened."""
        trial = Trial(case, faults=False)
        run = trial.start()
        forger = Forger(trial)
        snapshot, calls_before = forger.snapshot(), len(trial.world.attempts)
        column, value = _COLUMNS[pick_index(case, "edit", len(_COLUMNS))]
        case.log(f"write `{value}` as the {column} of the run into the list of runs, and recover all runs")
        assert isinstance(forger.raw_store, RawFile), "it is played on a file"
        before = next(row for row in trial.store.rows() if row.run == run.id)
        # Other cases may have left unfinished runs, which are ignored.
        forger.raw_store.do(("UPDATE runs SET status = 'FAILED' WHERE run != ? AND status = 'RUNNING'", (run.id,)))
        forger.raw_store.do((f"UPDATE runs SET {column} = ? WHERE run = ?", (value, run.id)))
        case.count(3)
        trial.clock.time += 1_000_000_000
        case.do(trial.machine().recover())
        case.do(trial.machine().recover(run.id))
        found = trial.reload()
        forger.raw_store.do(("UPDATE runs SET status = ? WHERE run = ?", (before.status, run.id)))
        case.hold(
            len(trial.world.attempts) == calls_before,
            self.invariant,
            "a tool was called on the word of the list of runs",
        )
        case.hold(forger.snapshot() == snapshot, self.invariant, "records were written on the word of the list of runs")
        case.hold(found.snapshot() == run.snapshot(), self.invariant, "the run is another since the list was edited")
        return Outcome.ABSORBED


_FILES = ("runs.db", "runs.db.vault")
_PARTS = 1 << 13
"""The number of positions in a file that are tried: enough for each page and column, few enough to shrink."""


class AnyByteOfTheFile(Attack):
    """A byte of the journal's file, or of the vault's beside it, is changed, wherever it lies."""

    family = Family.HASHES
    surface = "bytes of the journal's file and of its vault"
    action = "one bit flipped"
    invariant = Invariant.TAMPERING
    defence = "SQLite refuses the file, or its content is unchanged, or verification finds the change"
    store = "sqlite"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Play a run in its own file, and flip bits in copies of the file."""
        from hypothesis import strategies as st

        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            store = SQLiteJournal(os.path.join(folder, _FILES[0]))
            try:
                trial = Trial(case, faults=False, store=store)
                run = trial.start()
                honest = Honest(run, Forger(trial).snapshot(), receipt_for(run))
            finally:
                store.close()
            files = [name for name in _FILES if os.path.exists(os.path.join(folder, name))]
            places = st.tuples(st.sampled_from(range(len(files))), st.integers(0, _PARTS - 1)).map(list)
            chosen: Sequence[Any] = case.pick("flips", st.lists(places, min_size=1, max_size=4))
            outcomes = [self._flip(case, trial, honest, folder, files[file], part) for file, part in chosen]
        return Outcome.DETECTED if Outcome.DETECTED in outcomes else Outcome.ABSORBED

    def _flip(self, case: Case, trial: Trial, honest: Honest, folder: str, file: str, part: int) -> Outcome:
        """Flip a bit in a copy, at position `part` of `_PARTS`, and let all readers read the copy."""
        copy = os.path.join(folder, "copy.db")
        for name in _FILES:
            if os.path.exists(os.path.join(folder, name)):
                shutil.copy(os.path.join(folder, name), name.replace(_FILES[0], copy))
        with open(file.replace(_FILES[0], copy), "r+b") as damaged:
            data = damaged.read()
            bit = len(data) * 8 * part // _PARTS
            damaged.seek(bit // 8)
            damaged.write(bytes([data[bit // 8] ^ 1 << bit % 8]))
        case.act(f"turn over bit {bit % 8} of byte {bit // 8} of {file}")
        try:
            store = SQLiteJournal(copy, create=False)
        except JournalError:
            return Outcome.DETECTED
        trial.store.inner = store
        try:
            if _is_as_it_was(trial, honest):
                return Outcome.ABSORBED
            must_find(trial, "somebody with the key", (), trusts_key=True)
            must_refuse(case, trial, trial.machine(), honest)
            return Outcome.DETECTED
        finally:
            store.close()


def _is_as_it_was(trial: Trial, honest: Honest) -> bool:
    """Whether the store has the original content of the run."""
    try:
        return Forger(trial).snapshot() == honest.snapshot
    except (JournalError, ValueError, KeyError, IndexError, TypeError):
        return False
