"""Replay: old copies of a journal are restored in place, under another id, or in another store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.tampering import receipt_for
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import refused
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.sabotage.stores.forging import Forger, StoreSnapshot, plant, raw_store_of
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Head, Journal, JournalError
from stepward.vm.machine.run import Run

LAST_POINT = 30
"""The last point at which a copy is made. Most random runs have fewer."""


def ghost_of(trial: Trial, store: Journal | None = None, run: str | None = None) -> Trial:
    """Return a new trial of the same run or its copy, in which nothing has happened and the oracle does not read the
    store."""
    ghost = Trial(trial.case, trial.name, faults=False, store=store)
    ghost.run = trial.run if run is None else run
    ghost.oracle.rest()
    ghost.clock.time = trial.clock.time + int(2 * LEASE_SECONDS * 1_000_000)
    return ghost


class _Copying(Points):
    """Points, at one of which the attacker copies everything that the store has of the run."""

    def __init__(self, trial: Trial, number: int) -> None:
        super().__init__()
        self.snapshot: StoreSnapshot | None = None
        self._trial = trial
        self._number = number

    async def pass_by(self, name: str) -> None:
        """Pass a point."""
        trial = self._trial
        store, run = trial.store.inner, trial.run
        head = store.head(run)
        if len(self.passed) == self._number and head is not None:
            trial.case.log(f"the store is copied {name}")
            self.snapshot = StoreSnapshot(store.read(run), head, {}, store.vault.get(run))
        await super().pass_by(name)


class JournalRolledBack(Attack):
    """The attacker replaces a run's journal by an older copy, and a machine recovers it: later events happen again.
    Without a receipt of the missing part this can't be detected, which is out of scope."""

    family = Family.REPLAY
    surface = "store"
    action = "a run restored from an older copy, and recovered"
    invariant = Invariant.TAMPERING
    defence = "a receipt of a newer head shows that records are missing"
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Copy the run at some point, end it, restore the copy; verify with the receipt, recover, verify again."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        points = _Copying(trial, case.pick("the copy is made at point", st.integers(0, LAST_POINT)))
        machine = trial.machine(points)
        run = trial.carry_on(trial.start(machine), machine)
        snapshot = points.snapshot
        if snapshot is None or snapshot.head is None or len(snapshot.entries) > run.seq:
            return Outcome.NOT_APPLICABLE
        receipt = receipt_for(run, case.key)
        case.hold(not trial.faults([receipt]), Invariant.REPLAY, "an honest journal does not fit its receipt")
        case.log(f"the copy, which ends with record {snapshot.head.seq}, is put in place of record {run.seq}")
        forger = Forger(trial)
        forger.put_with_head(snapshot.entries, snapshot.head.signature, "RUNNING")
        forger.put_secrets(snapshot.secrets)
        case.hold(bool(trial.faults([receipt])), Invariant.TAMPERING, "a receipt does not tell that records are gone")
        ghost = ghost_of(trial)
        ghost.carry_on(ghost.reload())
        case.hold(
            bool(ghost.faults([receipt])), Invariant.TAMPERING, "a receipt does not tell that records were redone"
        )
        return Outcome.DETECTED


class JournalUnderAnotherId(Attack):
    """The attacker copies all data of a run in the store to another run id, and requests that run from the machine. The
    copy has the signature, or the machine has no key."""

    family = Family.REPLAY
    surface = "store"
    action = "a whole journal replayed under another run id"
    invariant = Invariant.IDENTITY
    defence = "the first record and the signature of the head name the run"
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Copy the run at some point, and check that the copy is refused everywhere."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = _left_at_some_point(trial)
        has_key = case.pick("the machine has a key", st.booleans())
        key = case.key if has_key else None
        store, copy = trial.store.inner, f"{trial.run}-copy"
        snapshot = Forger(trial).snapshot()
        assert snapshot.head is not None, "a run that was started has a head"
        plant(store, copy, snapshot.entries, snapshot, run.status)
        head = Head(copy, snapshot.head.seq, snapshot.head.digest, snapshot.head.signature)
        raw_store_of(store).put(copy, snapshot.entries, head, run.status)
        case.act(f"the run is copied to `{copy}`")
        ghost = ghost_of(trial, run=copy)
        how = case.pick("the copy is", st.sampled_from(["read", "recovered", "resumed", "cancelled", "asked for"]))
        case.needs(how != "resumed" or run.suspensions)
        machine = ghost.machine(key=key)
        requests: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "read": lambda: machine.get(copy),
            "recovered": lambda: machine.recover(copy),
            "resumed": lambda: machine.resume(
                run.suspensions[0].token.replace(trial.run, copy, 1), None, by=trial.settler
            ),
            "cancelled": lambda: machine.cancel(copy),
            "asked for": lambda: machine.run(case.target.program, trial.inputs, run_id=copy, by=trial.by),
        }
        refused(ghost, f"the copy is {how}", requests[how](), invariant=Invariant.IDENTITY, errors=(JournalError,))
        found = ghost.faults(trusts_key=has_key)
        case.hold(bool(found), Invariant.IDENTITY, "a journal under another id is called in order")
        return Outcome.BLOCKED


class JournalInAnotherStore(Attack):
    """The attacker copies a run to another store, without its documents, without its sensitive values, or whole, and
    continues it there. Only a receipt of the original reveals a whole copy; without one, this is out of scope."""

    family = Family.REPLAY
    surface = "store"
    action = "a whole journal replayed in another store"
    invariant = Invariant.TAMPERING
    defence = "documents and values are compared with their digests, and both copies with a receipt"
    severity = "high"
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Copy the run where its process was killed, continue both, and verify the copy with the receipt."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = _left_at_some_point(trial)
        lacks = case.pick("the copy lacks", st.sampled_from(["nothing", "the documents", "the values"]))
        snapshot = Forger(trial).snapshot()
        assert snapshot.head is not None, "a run that was started has a head"
        values = {name: secret for name, secret in snapshot.secrets.items() if not name.startswith("token:")}
        case.needs(not run.is_over and (lacks != "the values" or values))
        partial = snapshot._replace(
            documents={} if lacks == "the documents" else snapshot.documents,
            secrets={} if lacks == "the values" else snapshot.secrets,
        )
        other = MemoryJournal()
        plant(other, trial.run, snapshot.entries, partial, run.status)
        raw_store_of(other).put(trial.run, snapshot.entries, snapshot.head, run.status)
        case.act(f"the run is copied to another store; the copy lacks {lacks}")
        ghost = ghost_of(trial, other)
        if lacks != "nothing":
            request = ghost.machine().recover(trial.run)
            refused(ghost, "the copy is recovered", request, invariant=Invariant.TAMPERING, errors=(JournalError,))
            case.hold(bool(ghost.faults()), Invariant.TAMPERING, f"a journal without {lacks[4:]} is called in order")
            return Outcome.BLOCKED
        ghost.carry_on(ghost.reload())
        # Two machines never act at the same time.
        trial.clock.time = max(trial.clock.time, int((run.due or 0.0) * 1e6)) + int(3 * LEASE_SECONDS * 1_000_000)
        receipt = receipt_for(trial.carry_on(run), case.key)
        case.hold(
            bool(ghost.faults([receipt])), Invariant.TAMPERING, "the copy went its own way, and a receipt fits it"
        )
        return Outcome.DETECTED


def _left_at_some_point(trial: Trial) -> Run:
    """Return the run as its process left it: killed at a point, waiting, or ended."""
    from hypothesis import strategies as st

    points = Points(trial.case.pick("the process is killed at point", st.integers(0, LAST_POINT)), trial.case.log)
    try:
        return trial.start(trial.machine(points))
    except Killed:
        return trial.found() or trial.start()
