"""Replay: old copies of a journal, brought back where it was, under another id, or in another store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks import erasures
from stepward.sabotage.delivering import refused
from stepward.sabotage.forging import Forger, Shelf, hands_of, plant
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.points import Killed, Points
from stepward.sabotage.scene import LEASE_SECONDS, Scene
from stepward.sabotage.stage import Stage
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import Head, Journal, JournalError
from stepward.vm.machine.run import Run

LAST_POINT = 30
"""The last point at which a copy is made: most runs that are drawn have fewer."""


def receipt_of(scene: Scene, run: Run) -> Receipt:
    """Return the receipt that somebody was given for a run as it is."""
    head, trace = bytes.fromhex(run.head), bytes.fromhex(run.trace_hash)
    return Receipt.give(run.id, run.seq, head, run.status, trace, scene.stage.key)


def ghost_of(scene: Scene, store: Journal | None = None, run: str | None = None) -> Scene:
    """Return a scene of the same run, or of its copy, in which nothing has happened yet and nobody reads the store."""
    ghost = Scene(scene.stage, scene.name, faults=False, store=store)
    ghost.run = scene.run if run is None else run
    ghost.oracle.rest()
    ghost.clock.time = scene.clock.time + int(2 * LEASE_SECONDS * 1_000_000)
    return ghost


class _Copying(Points):
    """Points at one of which somebody copies all that the store has of the run."""

    def __init__(self, scene: Scene, number: int) -> None:
        super().__init__()
        self.shelf: Shelf | None = None
        self._scene = scene
        self._number = number

    async def pass_by(self, name: str) -> None:
        """Go past a point."""
        scene = self._scene
        store, run = scene.store.inner, scene.run
        head = store.head(run)
        if len(self.passed) == self._number and head is not None:
            scene.stage.tell(f"the store is copied {name}")
            self.shelf = Shelf(store.read(run), head, {}, store.vault.get(run))
        await super().pass_by(name)


class JournalRolledBack(Attack):
    """Somebody puts an older copy of the store in place of a run's journal, and a machine recovers it: what happened
    since happens again. Nobody can tell who has no receipt of what is missing: that is out of scope."""

    name = "journal-rolled-back"
    family = Family.REPLAY
    surface = "store"
    action = "a run restored from an older copy, and recovered"
    invariant = Invariant.TAMPERING
    defence = "a receipt of a newer head says that there was more"
    severity = "critical"
    weight = 3

    def play(self, stage: Stage) -> Outcome:
        """Copy the run at some point, end it, put the copy back; verify with the receipt, recover, verify again."""
        from hypothesis import strategies as st

        scene = Scene(stage, faults=False)
        points = _Copying(scene, stage.pick("the copy is made at point", st.integers(0, LAST_POINT)))
        machine = scene.machine(points)
        run = scene.carry_on(scene.start(machine), machine)
        shelf = points.shelf
        if shelf is None or shelf.head is None or len(shelf.entries) > run.seq:
            return Outcome.NOT_APPLICABLE
        receipt = receipt_of(scene, run)
        stage.hold(not scene.faults([receipt]), Invariant.REPLAY, "an honest journal does not fit its receipt")
        stage.tell(f"the copy, which ends with record {shelf.head.seq}, is put in place of record {run.seq}")
        forger = Forger(scene)
        forger.put_with_head(shelf.entries, shelf.head.signature, "RUNNING")
        forger.put_secrets(shelf.secrets)
        stage.hold(bool(scene.faults([receipt])), Invariant.TAMPERING, "a receipt does not tell that records are gone")
        ghost = ghost_of(scene)
        ghost.carry_on(ghost.reload())
        stage.hold(
            bool(ghost.faults([receipt])), Invariant.TAMPERING, "a receipt does not tell that records were redone"
        )
        return Outcome.DETECTED


class JournalUnderAnotherId(Attack):
    """Somebody copies all that a store has of a run to another run id, with the signature or for a machine without key,
    and asks the machine for it."""

    name = "journal-under-another-id"
    family = Family.REPLAY
    surface = "store"
    action = "a whole journal replayed under another run id"
    invariant = Invariant.IDENTITY
    defence = "the first record names its run, and the signature of the head does"
    severity = "critical"
    weight = 3

    def play(self, stage: Stage) -> Outcome:
        """Copy the run at some point of its life, and see that nothing can be done with the copy."""
        from hypothesis import strategies as st

        scene = Scene(stage, faults=False)
        run = _left_at_some_point(scene)
        has_key = stage.pick("the machine has a key", st.booleans())
        key = stage.key if has_key else None
        store, copy = scene.store.inner, f"{scene.run}-copy"
        shelf = Forger(scene).shelf()
        assert shelf.head is not None, "a run that was started has a head"
        plant(store, copy, shelf.entries, shelf, run.status)
        head = Head(copy, shelf.head.seq, shelf.head.digest, shelf.head.signature)
        hands_of(store).put(copy, shelf.entries, head, run.status)
        stage.tell(f"the run is copied to `{copy}`")
        stage.count()
        ghost = ghost_of(scene, run=copy)
        how = stage.pick("the copy is", st.sampled_from(["read", "recovered", "resumed", "cancelled", "asked for"]))
        if how == "resumed" and not run.suspensions:
            return Outcome.NOT_APPLICABLE
        machine = ghost.machine(key=key)
        asked: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "read": lambda: machine.get(copy),
            "recovered": lambda: machine.recover(copy),
            "resumed": lambda: machine.resume(run.suspensions[0].token.replace(scene.run, copy, 1), None),
            "cancelled": lambda: machine.cancel(copy),
            "asked for": lambda: machine.run(stage.target.program, scene.inputs, run_id=copy),
        }
        refused(ghost, f"the copy is {how}", asked[how](), invariant=Invariant.IDENTITY, errors=(JournalError,))
        found = ghost.faults(trusts_key=has_key)
        stage.hold(bool(found), Invariant.IDENTITY, "a journal under another id is called in order")
        return Outcome.BLOCKED


class JournalInAnotherStore(Attack):
    """Somebody copies a run to another store, without its documents, without its sensitive values, or whole, and
    goes on with it there. A whole copy is found out only by a receipt of the original: without, it is out of scope."""

    name = "journal-in-another-store"
    family = Family.REPLAY
    surface = "store"
    action = "a whole journal replayed in another store"
    invariant = Invariant.TAMPERING
    defence = "documents and values are held against their digests, and both copies against a receipt"
    severity = "high"
    weight = 3

    def play(self, stage: Stage) -> Outcome:
        """Copy the run where its process was killed, go on with both, and hold the copy against the receipt."""
        from hypothesis import strategies as st

        scene = Scene(stage, faults=False)
        run = _left_at_some_point(scene)
        lacks = stage.pick("the copy lacks", st.sampled_from(["nothing", "the documents", "the values"]))
        shelf = Forger(scene).shelf()
        assert shelf.head is not None, "a run that was started has a head"
        values = {name: secret for name, secret in shelf.secrets.items() if not name.startswith("token:")}
        if run.is_over or (lacks == "the values" and not values):
            return Outcome.NOT_APPLICABLE
        kept = shelf._replace(
            documents={} if lacks == "the documents" else shelf.documents,
            secrets={} if lacks == "the values" else shelf.secrets,
        )
        other = MemoryJournal()
        plant(other, scene.run, shelf.entries, kept, run.status)
        hands_of(other).put(scene.run, shelf.entries, shelf.head, run.status)
        stage.tell(f"the run is copied to another store; the copy lacks {lacks}")
        stage.count()
        ghost = ghost_of(scene, other)
        if lacks != "nothing":
            asked = ghost.machine().recover(scene.run)
            refused(ghost, "the copy is recovered", asked, invariant=Invariant.TAMPERING, errors=(JournalError,))
            stage.hold(bool(ghost.faults()), Invariant.TAMPERING, f"a journal without {lacks[4:]} is called in order")
            return Outcome.BLOCKED
        ghost.carry_on(ghost.reload())
        scene.clock.time += int(3 * LEASE_SECONDS * 1_000_000)  # no two machines do the same at the same time
        receipt = receipt_of(scene, scene.carry_on(run))
        stage.hold(
            bool(ghost.faults([receipt])), Invariant.TAMPERING, "the copy went its own way, and a receipt fits it"
        )
        return Outcome.DETECTED


def _left_at_some_point(scene: Scene) -> Run:
    """Return the run as its process left it: killed at a point, where it waits for somebody, or at its end."""
    from hypothesis import strategies as st

    points = Points(scene.stage.pick("the process is killed at point", st.integers(0, LAST_POINT)), scene.stage.tell)
    try:
        return scene.start(scene.machine(points))
    except Killed:
        return scene.found() or scene.start()


ATTACKS: tuple[type[Attack], ...] = (
    JournalRolledBack,
    JournalUnderAnotherId,
    JournalInAnotherStore,
    *erasures.ATTACKS,
)
