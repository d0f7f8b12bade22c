"""The base of attacks on a store: a run is played, its store is changed, and all readers are asked.

Out of scope is an attacker with the signing key, who can write and sign anything. So is a wholly rewritten, unsigned
journal without receipts whose meaning the program allows: it looks like another valid run. A replay can't distinguish
two rules of one name either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, NamedTuple, Unpack

from stepward.sabotage.attack import Attack, AttackFacts, Family, attack_of
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import Machine
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Forger, StoreSnapshot, raw_store_of
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.refusals import NoSuchRun
from stepward.vm.machine.run import Run


class Honest(NamedTuple):
    """The run before the tampering: the machine's view, and the store's snapshot.

    `receipt` is an unsigned receipt for its end, stored where the attacker can't change it.
    """

    run: Run
    snapshot: StoreSnapshot
    receipt: Receipt


class Tampering(Attack):
    """An attack on the stored run: `tamper` changes it.

    `by_key`, `by_receipt` and `by_itself` say which readers must notice: one with the public key, one with an earlier
    receipt and no key, and one with neither.
    """

    family = Family.HASHES
    invariant = Invariant.TAMPERING
    by_key: ClassVar[bool] = True
    by_receipt: ClassVar[bool] = True
    by_itself: ClassVar[bool] = True
    tamper: Tamper

    def play(self, case: Case) -> Outcome:
        """Play a run to its first stop or its end, tamper with it, and ask all readers."""
        trial = self.trial(case)
        run = trial.start()
        if not run.is_over and is_carried(case):
            run = trial.carry_on(run)
        forger = Forger(trial)
        honest = Honest(run, forger.snapshot(), receipt_for(run))
        self.tamper(case, forger, honest)
        if forger.snapshot() == honest.snapshot:
            return Outcome.ABSORBED
        return self.noticed(case, trial, honest)

    def trial(self, case: Case) -> Trial:
        """Return the run to be."""
        return Trial(case, faults=False)

    def noticed(self, case: Case, trial: Trial, honest: Honest) -> Outcome:
        """Ask all readers who must notice. Raises Breach for the first who does not."""
        return ask_all(case, trial, honest, by_key=self.by_key, by_receipt=self.by_receipt, by_itself=self.by_itself)


class Facts(AttackFacts, total=False):
    """The description of a tampering attack, with replacements for methods of `Tampering`."""

    by_key: bool
    by_receipt: bool
    by_itself: bool
    trial: Callable[[Case], Trial]
    noticed: Callable[[Case, Trial, Honest], Outcome]


Tamper = Callable[[Case, Forger, Honest], None]


def tampering(**facts: Unpack[Facts]) -> Callable[[Tamper], type[Tampering]]:
    """Turn a function that changes a store into an attack.

    The attack has the name of the function, with hyphens, and its docstring.
    """
    return lambda tamper: attack_of(Tampering, tamper, tamper=tamper, **facts)


def ask_all(
    case: Case, trial: Trial, honest: Honest, *, by_key: bool = True, by_receipt: bool = True, by_itself: bool = True
) -> Outcome:
    """Ask all readers who must notice. Raises Breach for the first who does not."""
    if by_key:
        must_find(trial, "somebody with the key", (), honest, trusts_key=True)
        must_refuse(case, trial, trial.machine(), honest)
    if by_receipt:
        must_find(trial, "somebody with a receipt", (honest.receipt,), honest, trusts_key=False)
    if by_itself:
        must_find(trial, "somebody without key or receipt", (), honest, trusts_key=False)
        take_signature(trial)
        must_refuse(case, trial, trial.machine(key=None), honest)
    return Outcome.DETECTED


def take_signature(trial: Trial) -> None:
    """Take the signature off the head: a machine without a key goes on with no signed run, whatever its records say."""
    store, run = trial.store.inner, trial.run
    with suppress(JournalError):  # what can't be read is not gone on with, either
        head, entries = store.head(run), store.read(run)
        if head is not None and head.signature is not None:
            raw_store_of(store).put(run, entries, head._replace(signature=None), None)


def is_carried(case: Case) -> bool:
    """Decide whether an unfinished run is driven to its end before the tampering."""
    from hypothesis import strategies as st

    carried: bool = case.pick("carried to its end", st.booleans())
    return carried


def pick_index(case: Case, name: str, count: int) -> int:
    """Pick an index below `count`; the first is the simplest."""
    from hypothesis import strategies as st

    number: int = case.pick(name, st.sampled_from(range(count)))
    return number


BIT_POSITIONS = 1 << 14
"""The number of bit positions that are tried in data whose length differs between cases."""


def pick_bit(case: Case, name: str, size: int) -> int:
    """Pick a bit of data with `size` bytes."""
    from hypothesis import strategies as st

    number: int = case.pick(name, st.sampled_from(range(BIT_POSITIONS)))
    return number % (size * 8)


def receipt_for(run: Run, key: SigningKey | None = None) -> Receipt:
    """Return a receipt for the current state of a run, signed if there is a key."""
    return Receipt.give(run.id, run.seq, bytes.fromhex(run.head), run.status, bytes.fromhex(run.trace_hash), key)


def must_find(
    trial: Trial, who: str, receipts: Sequence[Receipt], honest: Honest | None = None, *, trusts_key: bool
) -> None:
    """Raise Breach unless a verification finds a fault, or the store can't be read at all.

    If only one record has changed, the first fault must name it or no record.
    """
    try:
        faults = trial.faults(receipts, trusts_key=trusts_key)
    except JournalError:
        return
    trial.case.count()
    trial.case.hold(bool(faults), Invariant.TAMPERING, f"{who} verifies the run, and finds nothing")
    changed, named = honest and changed_alone(honest, trial), faults[0].seq
    is_blamed = changed is None or named is None or named == changed
    what = f"{who} is told of record {named}, and record {changed} was changed"
    trial.case.hold(is_blamed, Invariant.TAMPERING, what)


def changed_alone(honest: Honest, trial: Trial) -> int | None:
    """Return the number of the only record whose content or digest changed, or None if more has changed."""
    store, entries = trial.store.inner, honest.snapshot.entries
    now = store.read(trial.run)
    if len(entries) != len(now) or store.head(trial.run) != honest.snapshot.head:
        return None
    changed = [seq for seq, (one, other) in enumerate(zip(entries, now, strict=True)) if one != other]
    return changed[0] if len(changed) == 1 else None


def must_refuse(case: Case, trial: Trial, machine: Machine, honest: Honest) -> None:
    """Raise Breach unless a machine refuses to read and to continue the run, or has the original run."""
    case.count()
    try:
        found = case.do(machine.get(trial.run))
    except (JournalError, NoSuchRun):
        pass
    else:
        if found.snapshot() != honest.run.snapshot():
            raise Breach(Invariant.TAMPERING, "the machine takes the changed run for the one that was")
        return
    if not honest.run.is_over:
        must_not_go_on(case, trial, machine, honest.run)


def must_not_go_on(case: Case, trial: Trial, machine: Machine, run: Run) -> None:
    """Raise Breach if a machine acts in a tampered run. `run` is the honest one.

    A machine without a key may accept an ended run as its records say; verification reports the fault.
    """
    case.count()
    calls_before, entries = len(trial.world.attempts), len(trial.store.read(trial.run))
    case.log("recover the run, or deliver what it waited for")
    trial.clock.time += 1_000_000_000
    try:
        if run.suspensions:
            waits = run.suspensions[0]
            found = case.do(machine.resume(waits.token, trial.payload(waits.step), by=trial.settler))
        else:
            found = case.do(machine.recover(run.id))[0]
        is_left = found.is_over
    except (JournalError, NoSuchRun):
        is_left = True
    is_left = is_left and (len(trial.world.attempts), len(trial.store.read(trial.run))) == (calls_before, entries)
    case.hold(is_left, Invariant.HISTORY, "the machine goes on with a run that was tampered with")
