"""What attacks on a store have in common: a run is played, its store is changed, and everybody who reads it is asked.

Who has the signing key can write what he likes, and signs it: he is no attacker here. Nor is a journal that was
rewritten whole, unsigned, without a receipt anywhere, and means what the program admits: nobody can tell it from
another run. Two rules of one name can't be told apart in a replay either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Unpack

from stepward.sabotage.attack import Attack, AttackFacts, Family, attack_of
from stepward.sabotage.forging import Forger, Shelf
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.machines import Machine
from stepward.sabotage.scene import Scene
from stepward.sabotage.stage import Stage
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.refusals import NoSuchRun
from stepward.vm.machine.run import Run


class Honest(NamedTuple):
    """The run before it was tampered with: as the machine had it, and all that the store had of it.

    `receipt` was given for its end, and is signed by nobody: it was kept where nobody could change it.
    """

    run: Run
    shelf: Shelf
    receipt: Receipt


class Tampering(Attack):
    """An attack on what a store has of a run: `tamper` changes it, or returns False where the run gives no hold.

    `by_key`, `by_receipt` and `by_itself` say who has to notice: somebody with the public key, somebody with a receipt
    from before and no key, and somebody with neither.
    """

    family = Family.HASHES
    invariant = Invariant.TAMPERING
    severity = "critical"
    by_key: ClassVar[bool] = True
    by_receipt: ClassVar[bool] = True
    by_itself: ClassVar[bool] = True
    tamper: Tamper

    def play(self, stage: Stage) -> Outcome:
        """Play a run to its first stop or to its end, tamper with it, and ask all readers."""
        scene = self.scene(stage)
        run = scene.start()
        if not run.is_over and is_carried(stage):
            run = scene.carry_on(run)
        forger = Forger(scene)
        honest = Honest(run, forger.shelf(), receipt_for(run))
        if not self.tamper(stage, forger, honest):
            return Outcome.NOT_APPLICABLE
        if forger.shelf() == honest.shelf:
            return Outcome.ABSORBED
        return self.noticed(stage, scene, honest)

    def scene(self, stage: Stage) -> Scene:
        """Return the run to be."""
        return Scene(stage, faults=False)

    def noticed(self, stage: Stage, scene: Scene, honest: Honest) -> Outcome:
        """Ask everybody who has to notice; raises Breach for the first who does not."""
        return ask_all(stage, scene, honest, by_key=self.by_key, by_receipt=self.by_receipt, by_itself=self.by_itself)


class Facts(AttackFacts, total=False):
    """What a tampering attack may say of itself, beside what every attack says; the methods of `Tampering` with it."""

    by_key: bool
    by_receipt: bool
    by_itself: bool
    scene: Callable[[Stage], Scene]
    noticed: Callable[[Stage, Scene, Honest], Outcome]


Tamper = Callable[[Stage, Forger, Honest], bool]


def tampering(**facts: Unpack[Facts]) -> Callable[[Tamper], type[Tampering]]:
    """Make an attack of a function that changes what a store has; it returns False where the run gives no hold.

    The attack has the name of the function, with hyphens, and its docstring.
    """
    return lambda tamper: attack_of(Tampering, tamper, tamper=tamper, **facts)


def ask_all(
    stage: Stage, scene: Scene, honest: Honest, *, by_key: bool = True, by_receipt: bool = True, by_itself: bool = True
) -> Outcome:
    """Ask everybody who has to notice; raises Breach for the first who does not."""
    if by_key:
        must_find(scene, "somebody with the key", (), honest, trusts_key=True)
        must_refuse(stage, scene, scene.machine(), honest)
    if by_receipt:
        must_find(scene, "somebody with a receipt", (honest.receipt,), honest, trusts_key=False)
    if by_itself:
        must_find(scene, "somebody without key or receipt", (), honest, trusts_key=False)
        must_refuse(stage, scene, scene.machine(key=None), honest)
    return Outcome.DETECTED


def is_carried(stage: Stage) -> bool:
    """Decide whether an unfinished run goes on to its end before anything happens to it."""
    from hypothesis import strategies as st

    carried: bool = stage.pick("carried to its end", st.booleans())
    return carried


def place(stage: Stage, name: str, count: int) -> int:
    """Decide one of `count` places, all alike; the first is the simplest."""
    from hypothesis import strategies as st

    chosen: int = stage.pick(name, st.sampled_from(range(count)))
    return chosen


SPOTS = 1 << 14
"""Bits of something whose length is not the same in each case: the name of the run is in it."""


def spot(stage: Stage, name: str, size: int) -> int:
    """Decide a bit of so many bytes."""
    from hypothesis import strategies as st

    chosen: int = stage.pick(name, st.sampled_from(range(SPOTS)))
    return chosen % (size * 8)


def receipt_for(run: Run) -> Receipt:
    """Return a receipt for a run as it is."""
    return Receipt.give(run.id, run.seq, bytes.fromhex(run.head), run.status, bytes.fromhex(run.trace_hash))


def must_find(
    scene: Scene, who: str, receipts: Sequence[Receipt], honest: Honest | None = None, *, trusts_key: bool
) -> None:
    """Raise Breach unless a verification finds a fault, or the store can't be read at all.

    Where one record alone is not as it was, it has to be the first that is named, if any is.
    """
    try:
        faults = scene.faults(receipts, trusts_key=trusts_key)
    except JournalError:
        return
    scene.stage.count()
    scene.stage.hold(bool(faults), Invariant.TAMPERING, f"{who} verifies the run, and finds nothing")
    place, named = honest and changed_alone(honest, scene), faults[0].seq
    is_blamed = place is None or named is None or named == place
    what = f"{who} is told of record {named}, and record {place} was changed"
    scene.stage.hold(is_blamed, Invariant.TAMPERING, what)


def changed_alone(honest: Honest, scene: Scene) -> int | None:
    """Return the number of the record that is not as it was, or whose digest is not; None where more has changed."""
    store, entries = scene.store.inner, honest.shelf.entries
    now = store.read(scene.run)
    if len(entries) != len(now) or store.head(scene.run) != honest.shelf.head:
        return None
    changed = [seq for seq, (one, other) in enumerate(zip(entries, now, strict=True)) if one != other]
    return changed[0] if len(changed) == 1 else None


def must_refuse(stage: Stage, scene: Scene, machine: Machine, honest: Honest) -> None:
    """Raise Breach unless a machine refuses to read the run and to go on with it, or has it as it was."""
    stage.count()
    try:
        found = stage.do(machine.get(scene.run))
    except (JournalError, NoSuchRun):
        pass
    else:
        if found.snapshot() != honest.run.snapshot():
            raise Breach(Invariant.TAMPERING, "the machine takes the changed run for the one that was")
        return
    if not honest.run.is_over:
        must_not_go_on(stage, scene, machine, honest.run)


def must_not_go_on(stage: Stage, scene: Scene, machine: Machine, run: Run) -> None:
    """Raise Breach if a machine does anything in a run that was tampered with, `run` being how the honest one stood.

    A machine without a key may take an ended run for ended, as its records say; verification says what is wrong.
    """
    stage.count()
    asked, entries = len(scene.world.asked), len(scene.store.read(scene.run))
    stage.tell("recover the run, or deliver what it waited for")
    scene.clock.time += 1_000_000_000
    try:
        if run.suspensions:
            waits = run.suspensions[0]
            found = stage.do(machine.resume(waits.token, scene.payload(waits.step)))
        else:
            found = stage.do(machine.recover(run.id))[0]
        is_left = found.is_over
    except (JournalError, NoSuchRun):
        is_left = True
    is_left = is_left and (len(scene.world.asked), len(scene.store.read(scene.run))) == (asked, entries)
    stage.hold(is_left, Invariant.HISTORY, "the machine goes on with a run that was tampered with")
