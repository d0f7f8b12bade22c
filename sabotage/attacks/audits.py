"""Hash corruption: all parts of a stored run are edited at once, and the verification is compared with a plain
verifier."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.tampering import is_carried, receipt_for
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import KEY_SEED, Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Forger, StoreSnapshot, chained, flipped, stranger
from stepward.sabotage.stores.plain_verifier import Paper, StoredRun, is_good, is_sound
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.store import Entry, Head, Journal
from stepward.vm.journal.verdict import Verdict
from stepward.vm.journal.verify import verify

EDITS: Final = 12
"""The number of edits of one run, each alone or on top of the one before."""


class _ShownVault:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def get(self, run: str) -> dict[str, Any]:
        """Return the values."""
        del run
        return dict(self.values)


class Shown(ThroughStore):
    """A store that returns the attacker's version of a run."""

    def __init__(self, inner: Journal, snapshot: StoreSnapshot) -> None:
        super().__init__(inner)
        self.snapshot = snapshot

    @property
    def vault(self) -> Any:
        """The vault of sensitive values."""
        return _ShownVault(self.snapshot.secrets)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of the run."""
        del run
        return self.snapshot.entries[start:]

    def head(self, run: str) -> Head | None:
        """Return the end of its chain."""
        del run
        return self.snapshot.head

    def document(self, digest: str) -> bytes | None:
        """Return a document."""
        return self.snapshot.documents.get(digest)


class _Editor:
    """Random edits of a snapshot and of receipts."""

    def __init__(self, random: Random, run: str) -> None:
        self._random = random
        self._run = run
        self.edits: tuple[Callable[[StoreSnapshot], StoreSnapshot], ...] = (
            self.bit,
            self.digest,
            self.rehashed,
            self.field,
            self.field_rehashed,
            self.dropped,
            self.twice,
            self.swapped,
            self.typed,
            self.head,
            self.signature,
            self.document,
            self.value,
            self.added,
        )

    def _pick_index(self, snapshot: StoreSnapshot) -> int:
        return self._random.randrange(len(snapshot.entries)) if snapshot.entries else 0

    def _with(self, snapshot: StoreSnapshot, index: int, **fields: Any) -> StoreSnapshot:
        entries = list(snapshot.entries)
        entries[index] = entries[index]._replace(**fields)
        return snapshot._replace(entries=entries)

    def bit(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Flip a bit of a record."""
        index = self._pick_index(snapshot)
        raw = snapshot.entries[index].record
        return self._with(snapshot, index, record=flipped(raw, self._random.randrange(len(raw) * 8)))

    def digest(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Flip a bit of a digest."""
        index = self._pick_index(snapshot)
        return self._with(snapshot, index, digest=flipped(snapshot.entries[index].digest, self._random.randrange(256)))

    def rehashed(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Flip a bit of a record, and recompute its digest."""
        snapshot = self.bit(snapshot)
        entries = [entry._replace(digest=digest_of(entry.record)) for entry in snapshot.entries]
        return self._ended(snapshot._replace(entries=entries))

    def _changed(self, record: dict[str, Any]) -> None:
        changes: tuple[Callable[[], Any], ...] = (
            lambda: record.update(v=self._random.choice([0, 1, 2, 3, True, "1"])),
            lambda: record.update(seq=self._random.choice([record["seq"] + 1, -1, "0", True])),
            lambda: record.update(at=self._random.choice([record["at"] + 1, "1", None, True])),
            lambda: record.update(kind=self._random.choice(["started", "joined", 7])),
            lambda: record.update(prev=self._random.choice(["", "0" * 64, record["prev"].upper(), None])),
            lambda: record.update(note=self._random.choice([[], {"run": "another"}, {"run": self._run}])),
            lambda: record.update(body=self._random.choice([[], {"x": 1}, {**record["body"], "more": "#v"}])),
            lambda: record.update(more=1),
            lambda: record.pop(self._random.choice(sorted(record))),
            lambda: record["body"].update(policies=self._random.choice([[], "x", [7], ["00"]])),
            lambda: record["body"].update(program=self._random.choice([None, "00"])),
            lambda: record["body"].pop("program", None),
            lambda: record["body"].update(references=self._random.choice([[], "x", [7], ["00"]])),
            lambda: record["note"].update(run=self._random.choice(["another", None])),
            lambda: record["body"].update(number=1.5),
        )
        self._random.choice(changes)()

    def field(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit a field of a record, and recompute its digest."""
        index = self._pick_index(snapshot)
        record = json.loads(snapshot.entries[index].record)
        self._changed(record)
        raw = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        return self._ended(self._with(snapshot, index, record=raw, digest=digest_of(raw)))

    def field_rehashed(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit a field of a record, and recompute everything after it."""
        index = self._pick_index(snapshot)
        records = [json.loads(entry.record) for entry in snapshot.entries]
        try:
            self._changed(records[index])
            entries = chained(records)
        except (KeyError, TypeError, ValueError, AttributeError):
            return self.field(snapshot)
        return self._ended(snapshot._replace(entries=entries))

    def _ended(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Make the last entry the head, or leave the head."""
        if snapshot.head is None or self._random.random() < 0.5:
            return snapshot
        last = snapshot.entries[-1]
        return snapshot._replace(head=snapshot.head._replace(seq=last.seq, digest=last.digest))

    def dropped(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Remove an entry, or all from one on."""
        index, entries = self._pick_index(snapshot), list(snapshot.entries)
        del entries[index : self._random.choice([index + 1, len(entries)])]
        return self._ended(snapshot._replace(entries=entries)) if entries else snapshot._replace(entries=[])

    def twice(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Duplicate an entry."""
        index = self._pick_index(snapshot)
        return snapshot._replace(entries=[*snapshot.entries[: index + 1], *snapshot.entries[index:]])

    def swapped(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Swap two entries, or their contents."""
        one, other, entries = self._pick_index(snapshot), self._pick_index(snapshot), list(snapshot.entries)
        entries[one], entries[other] = entries[other], entries[one]
        if self._random.random() < 0.5:
            entries = [entry._replace(seq=seq) for seq, entry in enumerate(entries)]
        return snapshot._replace(entries=entries)

    def typed(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Replace a part of an entry by a value of another type."""
        field: dict[str, Any] = self._random.choice([{"seq": "x"}, {"record": "text"}, {"digest": "text"}])
        return self._with(snapshot, self._pick_index(snapshot), **field)

    def head(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit the head, or remove it."""
        head = snapshot.head
        if head is None:
            return snapshot
        changes: tuple[Head | None, ...] = (
            None,
            head._replace(run="another"),
            head._replace(seq=head.seq + 1 if type(head.seq) is int else 0),
            head._replace(seq=-1),
            head._replace(digest=flipped(head.digest, self._random.randrange(256))),
            head._replace(seq="x"),  # type: ignore[arg-type]
            head._replace(digest="x" * 32),  # type: ignore[arg-type]
        )
        return snapshot._replace(head=self._random.choice(changes))

    def signature(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit the signature, remove it, or replace it by that of another key."""
        head = snapshot.head
        if head is None or type(head.digest) is not bytes or type(head.seq) is not int:
            return snapshot
        other = stranger().sign_head(self._run, head.seq, head.digest)
        signatures: list[Any] = [None, "text", other]
        if type(head.signature) is bytes:
            signatures += [
                head.signature[:63],
                flipped(head.signature, self._random.randrange(len(head.signature) * 8)),
            ]
        return snapshot._replace(head=head._replace(signature=self._random.choice(signatures)))

    def document(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit a document, or remove it."""
        documents: dict[str, Any] = dict(snapshot.documents)
        name = self._random.choice(sorted(documents)) if documents else ""
        if name and self._random.random() < 0.4:
            del documents[name]
        elif name:
            documents[name] = self._random.choice([b"{}", documents[name] + b" ", "text"])
        return snapshot._replace(documents=documents)

    def value(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Edit a sensitive value, remove it, or swap two."""
        values: dict[str, Any] = dict(snapshot.secrets)
        names = sorted(values)
        if not names:
            return snapshot
        one, other = self._random.choice(names), self._random.choice(names)
        change = self._random.randrange(4)
        if change == 0:
            del values[one]
        elif change == 1:
            values[one], values[other] = values[other], values[one]
        else:
            values[one] = self._random.choice([b"", values[one] + b" ", "text"])
        return snapshot._replace(secrets=values)

    def added(self, snapshot: StoreSnapshot) -> StoreSnapshot:
        """Append a record of an erasure, while the value may still be there."""
        if not snapshot.entries or type(snapshot.entries[-1].record) is not bytes:
            return snapshot
        try:
            records = [json.loads(entry.record) for entry in snapshot.entries]
            names = self._random.sample(sorted(snapshot.secrets), min(1, len(snapshot.secrets)))
            records.append({**records[-1], "kind": "erased", "body": {"references": names}, "note": {}})
            entries = chained(records)
        except (KeyError, TypeError, ValueError, AttributeError):
            return snapshot
        return self._ended(snapshot._replace(entries=entries))

    def receipt(self, receipt: Receipt) -> Receipt:
        """Edit a receipt."""
        changes: tuple[Receipt, ...] = (
            replace(receipt, seq=receipt.seq + self._random.choice([-1, 1, 99])),
            replace(receipt, digest=flipped(receipt.digest, self._random.randrange(256))),
            replace(receipt, run="another"),
            replace(receipt, key=None, signature=None),
            replace(receipt, key=stranger().id),
            replace(receipt, status=receipt.status.lower()),
            Receipt.give(receipt.run, receipt.seq, receipt.digest, receipt.status, receipt.trace, stranger()),
        )
        return self._random.choice(changes)


class EditsAndAPlainVerifier(Attack):
    """Records, digests, links, heads, signatures, documents, values and receipts are edited at random, one or more at
    once, and verified with and without the key and the receipts. A plain verifier says what must be found."""

    family = Family.HASHES
    surface = "everything that a store returns about a run"
    action = "edited at random, in several fields at once"
    invariant = Invariant.TAMPERING
    defence = "every rule of verification is checked for every record, and for the data stored with it"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Edit a run, and check that verification finds a fault if and only if the plain verifier does."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = trial.start()
        receipts = [receipt_for(run, case.key)]
        if not run.is_over and is_carried(case):
            run = trial.carry_on(run)
            receipts.append(receipt_for(run, case.key))
        if case.pick("the run is erased", st.booleans()):
            run = case.do(trial.machine().erase(run.id))
            receipts.append(receipt_for(run, case.key))
        random = Random(int(case.pick("edits by the seed", st.integers(0, 1 << 32))))
        editor = _Editor(random, run.id)
        honest = Forger(trial).snapshot()
        store = Shown(trial.store.inner, honest)
        self._judge(case, store, run.id, receipts)
        snapshot, shown = honest, receipts
        for _ in range(EDITS):
            if random.random() < 0.6:
                snapshot, shown = honest, receipts
            if random.random() < 0.25:
                shown = [editor.receipt(receipt) if random.random() < 0.5 else receipt for receipt in shown]
            else:
                edit = random.choice(editor.edits)
                try:
                    snapshot = edit(snapshot)
                except (AttributeError, TypeError, ValueError, KeyError, IndexError):
                    snapshot = honest  # this edit does not apply after the earlier ones
                    continue
                case.log(f"edit: {edit.__name__}")
            store.snapshot = snapshot
            self._judge(case, store, run.id, shown)
        return Outcome.DETECTED

    def _judge(self, case: Case, store: Shown, run: str, receipts: list[Receipt]) -> None:
        snapshot = store.snapshot
        entries = [(entry.seq, entry.record, entry.digest) for entry in snapshot.entries]
        end = snapshot.head
        head = None if end is None else (end.run, end.seq, end.digest, end.signature)
        stored = StoredRun(run, entries, head, snapshot.documents, snapshot.secrets)
        papers = [Paper(**{name: getattr(one, name) for name in Paper._fields}) for one in receipts]
        for keys, shown in itertools.product((False, True), (False, True)):
            case.count()
            found = verify(
                store,
                run,
                keys=[stranger().public, case.key.public] if keys else (),
                receipts=receipts if shown else (),
            )
            # If a second key is trusted, its signatures are valid too, so the plain verifier is asked with both.
            due = any(is_sound(stored, papers if shown else (), key) for key in (_keys() if keys else (None,)))
            due = due or (keys and _mixed(stored, papers if shown else []))
            who = f"somebody with{'' if keys else 'out'} keys, with{'' if shown else 'out'} receipts"
            what = f"{who} is told of {found.faults[:1]}, and the run is {'sound' if due else 'not sound'}"
            case.hold(found.is_intact == due, self.invariant, what)
            if due:
                _hold_verdict(case, found, stored, receipts if shown else [], keys=keys)


def _keys() -> tuple[bytes, bytes]:
    return _public(KEY_SEED), _public(bytes(32))


def _public(seed: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _mixed(stored: StoredRun, papers: list[Paper]) -> bool:
    """Whether a run is sound if one key has signed its head, and any keys its receipts."""
    return any(is_sound(stored, (), key) for key in _keys()) and all(
        any(is_sound(stored._replace(head=None), (), None) or _is_paper(stored, paper, key) for key in _keys())
        for paper in papers
    )


def _is_paper(stored: StoredRun, paper: Paper, key: bytes) -> bool:
    return is_good(stored, paper, key)


def _hold_verdict(case: Case, found: Verdict, stored: StoredRun, receipts: list[Receipt], *, keys: bool) -> None:
    """Check the contents of a verdict on a sound run."""
    signer = found.signed_by in (case.key.id, stranger().id) if keys else found.signed_by is None
    case.hold(signer, Invariant.TAMPERING, f"the head is called signed by {found.signed_by}")
    found_values = (found.run, found.records, found.receipts)
    due = (stored.run, len(stored.entries), len(receipts))
    case.hold(found_values == due, Invariant.TAMPERING, f"the verdict says {found_values}, and it is {due}")
