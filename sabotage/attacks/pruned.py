"""Hash corruption: old runs are pruned, and what is kept of them, or a receipt for them, is forged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.tampering import receipt_for
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import flipped, stranger
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.pruning import Pruned
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.verdict import Verdict
from stepward.vm.journal.verify import verify_all
from stepward.vm.machine.refusals import NoSuchRun, RunRefused
from stepward.vm.machine.replay import replayer

AFTER: Final = 86_400_000_000
"""Microseconds after which the runs are pruned."""


class PrunedEdit(NamedTuple):
    """What is done to a pruned run. Without a key it is found `alone`, or by the `receipt` for the end of the run.

    With the key of the machine everything is found. `edit_pruned` edits what is kept of the run, given the number of
    the record that the receipt is for; `edit_receipt` edits the receipt, and signs it again with the right key.
    """

    edit_pruned: Callable[[Pruned, int], Pruned] = lambda kept, _: kept
    alone: bool = False
    receipt: bool = False
    edit_receipt: Callable[[Receipt], Receipt] | None = None


def _changed(pruned: Pruned, at: int) -> Pruned:
    """Return what is kept with another digest of a record."""
    return replace(pruned, digests=(*pruned.digests[:at], flipped(pruned.digests[at], 7), *pruned.digests[at + 1 :]))


_DEEDS: Final[dict[str, PrunedEdit]] = {
    "another status": PrunedEdit(lambda kept, _: replace(kept, status=f"{kept.status}?"), receipt=True),
    "another trace": PrunedEdit(lambda kept, _: replace(kept, trace=flipped(kept.trace, 3)), receipt=True),
    "another record at the end": PrunedEdit(_changed, receipt=True),
    "another first record": PrunedEdit(lambda kept, at: _changed(kept, 0) if at else replace(kept, at=0)),
    "no record at the end": PrunedEdit(
        lambda kept, at: replace(kept, digests=kept.digests[:at] or (bytes(32),)), receipt=True
    ),
    "a record more": PrunedEdit(lambda kept, _: replace(kept, digests=(*kept.digests, bytes(32)))),
    "another program": PrunedEdit(lambda kept, _: replace(kept, program=kept.program[::-1], name=f"{kept.name}?")),
    "another end": PrunedEdit(lambda kept, _: replace(kept, ended=kept.ended + 1)),
    "another time": PrunedEdit(lambda kept, _: replace(kept, at=kept.at - 1)),
    "another person": PrunedEdit(lambda kept, _: replace(kept, by="somebody else")),
    "another run": PrunedEdit(lambda kept, _: replace(kept, run=f"{kept.run}?"), alone=True),
    "no signature": PrunedEdit(lambda kept, _: replace(kept, key=None, signature=None)),
    "another signature": PrunedEdit(lambda kept, _: replace(kept, signature=flipped(kept.signature or bytes(64), 100))),
    "the name of another key": PrunedEdit(lambda kept, _: replace(kept, key=stranger().id)),
    "another status, signed by another key": PrunedEdit(
        lambda kept, _: replace(kept, status=f"{kept.status}?").signed(stranger()), receipt=True
    ),
    "a receipt with another status": PrunedEdit(
        receipt=True, edit_receipt=lambda one: replace(one, status=f"{one.status}?")
    ),
    "a receipt with another trace": PrunedEdit(
        receipt=True, edit_receipt=lambda one: replace(one, trace=flipped(one.trace, 3))
    ),
    "a receipt with another digest": PrunedEdit(
        receipt=True, edit_receipt=lambda one: replace(one, digest=flipped(one.digest, 7))
    ),
    "a receipt for a later record": PrunedEdit(receipt=True, edit_receipt=lambda one: replace(one, seq=one.seq + 1)),
}
_LEFT: Final = "left as it is"
_TORN: Final = "torn"
_GONE: Final = "taken away"


class PrunedAudited(Attack):
    """Runs end and are pruned. What is kept of them is edited, signed by a stranger, torn or taken away, or a receipt
    for the end of one is edited, and the store is verified with the receipts, with and without the key."""

    family = Family.HASHES
    surface = "what is kept of pruned runs"
    action = "what is kept, or a receipt, edited, signed again or taken away"
    invariant = Invariant.TAMPERING
    defence = "what is kept of a pruned run is signed as a whole, and every receipt is compared with it"
    severity = "high"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Prune runs, forge, and check which of them are reported."""
        from hypothesis import strategies as st

        deeds = case.pick("of pruned runs", st.lists(st.sampled_from([*_DEEDS, *_OTHERS]), min_size=1, max_size=6))
        store = MemoryJournal()
        receipts: list[Receipt] = []
        runs: dict[str, str] = {}
        for number, deed in enumerate(deeds):
            trial = Trial(case, f"run {number}", faults=False, store=store)
            receipt = self._pruned(trial, store)
            case.act(f"what is kept of run {number}: {deed}")
            receipts.append(_forge(store, trial.run, deed, receipt, case.key))
            runs[trial.run] = deed
        found = [
            self._verified(case, store, runs, receipts if with_receipts else [], with_key=with_key)
            for with_key, with_receipts in case.each(
                "with the key, with receipts", list(product((True, False), repeat=2))
            )
        ]
        return Outcome.ABSORBED if all(found) else Outcome.DETECTED

    def _verified(
        self, case: Case, store: MemoryJournal, runs: dict[str, str], receipts: list[Receipt], *, with_key: bool
    ) -> bool:
        """Verify the store, check which runs are told of, and return whether none had to be."""
        with_receipts = bool(receipts)
        due = {run: _is_sound(deed, with_key=with_key, with_receipts=with_receipts) for run, deed in runs.items()}
        keys = [case.key.public] if with_key else []
        found = list(verify_all(store, keys=keys, receipts=receipts, replay=lambda run, own: replayer(store, run, own)))
        self._hold(case, found, due, {run for run in due if store.kept(run) is None and not with_receipts})
        return all(due.values())

    def _pruned(self, trial: Trial, store: MemoryJournal) -> Receipt:
        """Play a run, prune it, check that nothing is left of it, and return the receipt for its end."""
        case, machine = trial.case, trial.machine()
        run = case.needs(run if (run := trial.carry_on(trial.start(machine), machine)).is_over else None)
        receipt = receipt_for(run, case.key)
        trial.clock.time += AFTER
        case.act("prune what has ended")
        outcomes = case.do(machine.prune(trial.clock.time / 1e6, by="ann"))
        case.hold((run.id, None) in [(one.run, one.why) for one in outcomes], Invariant.KEPT, f"pruned are {outcomes}")
        left = store.head(run.id) or store.read(run.id) or store.row(run.id) or store.vault.get(run.id)
        case.hold(not left, Invariant.ERASURE, "records or values of a pruned run are left")
        self._never_again(trial)
        return receipt

    def _never_again(self, trial: Trial) -> None:
        """Check that the id of a pruned run is not found, and is given to no other run."""
        case, machine = trial.case, trial.machine()
        case.count(2)
        for refusal, work in (
            (NoSuchRun, machine.get(trial.run)),
            (RunRefused, machine.run(trial.target.program, trial.inputs, run_id=trial.run, by=trial.by)),
        ):
            try:
                case.do(work)
            except refusal:
                continue
            raise Breach(Invariant.ONCE, "the id of a pruned run is used again")

    def _hold(self, case: Case, found: list[Verdict], due: dict[str, bool], unknown: set[str]) -> None:
        case.count()
        verdicts = {verdict.run: verdict for verdict in found}
        what = f"the runs that are verified are {list(verdicts)}"
        case.hold(len(found) == len(verdicts) and verdicts.keys() == due.keys() - unknown, self.invariant, what)
        for run, verdict in verdicts.items():
            message = f"a pruned run that is {'in order' if due[run] else 'forged'} is told of {verdict.faults[:1]}"
            case.hold(verdict.is_intact == due[run], self.invariant, message)


_OTHERS: Final = (_LEFT, _TORN, _GONE)


def _is_sound(deed: str, *, with_key: bool, with_receipts: bool) -> bool:
    """Return whether a verification must still accept a run; one that is taken away is known by its receipt only."""
    if deed not in _DEEDS:
        return deed == _LEFT
    one = _DEEDS[deed]
    if one.edit_receipt is not None:
        return not with_receipts
    return not (with_key or one.alone or (one.receipt and with_receipts))


def _forge(store: MemoryJournal, run: str, deed: str, receipt: Receipt, key: SigningKey) -> Receipt:
    """Do a deed to what is kept of a run, and return the receipt for its end, which may be forged, too."""
    head, stored = store._kept[run]
    if deed == _GONE:
        del store._kept[run]
    elif deed == _TORN:
        store._kept[run] = (head, json.dumps(json.loads(stored), indent=1).encode() if len(stored) % 2 else stored[:-1])
    elif deed in _DEEDS:
        one = _DEEDS[deed]
        store._kept[run] = (head, one.edit_pruned(Pruned.from_bytes(stored), receipt.seq).to_bytes())
        if one.edit_receipt is not None:
            forged = one.edit_receipt(receipt)
            return Receipt.give(forged.run, forged.seq, forged.digest, forged.status, forged.trace, key)
    return receipt
