"""Crash of the disk: it is full, it fails, it tears writes, or it loses writes that are not durable."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.crashes import outlive, refuse_needless_doubts, wait_for_leases
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import WatchedStore
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.faulty_store import (
    DamagedJournal,
    Fault,
    FaultyJournal,
    Tear,
    TornJournal,
    VolatileJournal,
)
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Entry, Journal, JournalError
from stepward.vm.machine.refusals import RunBusy

UNTIL_REPAIRED: Final = 1_000
"""More writes than any example makes: the disk fails until it is repaired."""


class _FailingWrites(Attack):
    """Writes of the store fail, one or all from one on; then the disk works again."""

    family = Family.CRASH
    weight = 10

    how: Literal["full", "unsynced"]
    keeps_lease: tuple[str, ...]
    """The writes after whose failure the machine can't know that it holds a lease to release."""

    def play(self, case: Case) -> Outcome:
        """Run once to count the writes, then once for each of them."""
        from hypothesis import strategies as st

        counting = FaultyJournal(MemoryJournal())
        trial = Trial(case, store=counting)
        trial.finish()
        times = case.pick("writes that fail", st.sampled_from([1, UNTIL_REPAIRED]))
        case.story.clear()
        for number in case.each("fails at write", range(len(counting.writes))):
            store = FaultyJournal(MemoryJournal(), Fault(number, self.how, times))
            trial = Trial(case, store=store)
            machine = trial.machine()
            try:
                trial.carry_on(trial.start(machine), machine)
                raise Breach(Invariant.REFUSAL, f"{counting.writes[number]} failed, and nobody was told")
            except JournalError:
                case.log(f"{' and '.join(store.failed)} failed, and the run stops")
            store.end_fault()
            trial.oracle.forget()
            if times > 1 or store.failed[0] in self.keeps_lease:
                wait_for_leases(trial)
            try:
                self._go_on(trial)
            except RunBusy:
                raise Breach(Invariant.KEPT, "a machine that failed keeps its run") from None
        return Outcome.ABSORBED

    def _go_on(self, trial: Trial) -> None:
        run = trial.found() or trial.start()
        if run.status == "RUNNING":
            run = trial.deliver(run, trial.machine())
        refuse_needless_doubts(trial)
        trial.oracle.judge(trial.carry_on(run))


class DiskFull(_FailingWrites):
    """The disk is full: a write fails, and nothing of it is stored. Later there is room again."""

    surface = "store"
    action = "refuses one write, or all writes after some point"
    invariant = Invariant.KEPT
    defence = "the run stops with the store's error, releases its lease, and is recovered from the stored records"
    severity = "high"
    enumerates = "every append, document, vault write and lease of the generated run"
    how = "full"
    keeps_lease = ("release",)


class FailingSync(_FailingWrites):
    """A write reports a failure although it reached the disk, which the machine can't know."""

    surface = "store"
    action = "reports that a write failed, although the write is stored"
    invariant = Invariant.ONCE
    defence = "after an error, the run is read again and compared with what the machine had written"
    enumerates = "every append, document, vault write and lease of the generated run"
    how = "unsynced"
    keeps_lease = ("acquire", "create")


class PowerLost(Attack):
    """The power fails: the process is gone, with all or the last of the writes that were not durable."""

    family = Family.CRASH
    surface = "store and process"
    action = "the power fails at a point of a run, and data that was not durable is lost"
    invariant = Invariant.INTENT
    defence = "intents, outcomes and endings are durable; all other records can be computed again"
    enumerates = "every point of the generated run at which some data is not durable, and how much of it is lost"
    weight = 8

    def play(self, case: Case) -> Outcome:
        """Run once to find the writes that are not durable at each point, then lose them."""
        store = VolatileJournal()
        whole = _Noting(store)
        trial = Trial(case, store=store)
        ended = trial.finish(trial.machine(whole))
        case.log("the power fails when the run has ended")
        store.lose_power(0)
        is_kept = trial.found() is not None and trial.reload().status == ended.status
        case.hold(is_kept, Invariant.ENDINGS, f"the run was {ended.status}, and with the power that is gone")
        losses = [(number, count) for number, unsynced in enumerate(whole.unsynced) for count in range(unsynced)]
        case.story.clear()
        outcome = Outcome.NOT_APPLICABLE
        for number, surviving in case.each("power lost", losses):
            self._lose(case, number, surviving)
            outcome = Outcome.ABSORBED
        return outcome

    def _lose(self, case: Case, number: int, surviving: int) -> None:
        store = VolatileJournal()
        trial = Trial(case, store=store)
        machine = trial.machine(Points(number, case.log))
        with suppress(Killed):
            trial.carry_on(trial.start(machine), machine)
        case.log(f"the power fails: of {store.unsynced} writes that are not durable, {surviving} are there afterwards")
        store.lose_power(surviving)
        outlive(trial)


class _Noting(Points):
    """Points that record how many writes a loss of power would undo."""

    def __init__(self, store: VolatileJournal) -> None:
        super().__init__()
        self.unsynced: list[int] = []
        self._store = store

    async def pass_by(self, name: str) -> None:
        """Record the number and pass."""
        self.unsynced.append(self._store.unsynced)
        await super().pass_by(name)


class TornAppend(Attack):
    """A store without atomic appends stores only the first entries of an append. Its head is the old, the new or
    another one."""

    family = Family.CRASH
    surface = "append"
    action = "only its first entries are stored"
    invariant = Invariant.TAMPERING
    defence = "each entry names the one before, and the head names the last one: anything else is reported as damaged"
    severity = "high"
    enumerates = "every append of the generated run, with every number of stored entries and each possible head"
    weight = 10

    def play(self, case: Case) -> Outcome:
        """Tear every append. If the remainder is not a valid run, the machine or a verification must report it."""
        store = TornJournal()
        whole = Trial(case, store=store)
        whole.finish()
        whole.oracle.rest()
        tears = [tear for at, size in enumerate(store.sizes) for tear in _tears(at, size)]
        case.story.clear()
        outcome = Outcome.NOT_APPLICABLE
        for tear in case.each("tear", tears):
            case.act(f"of append {tear.at} the first {tear.kept} entries are there, and the {tear.head} head")
            if tear.head == "last":
                self._go_on(case, tear)
            else:
                self._look(case, whole, store.torn(whole.run, tear))
            outcome = Outcome.DETECTED
        return outcome

    def _go_on(self, case: Case, tear: Tear) -> None:
        """Finish a remainder that is a valid earlier state of the run, as the oracle says."""
        points = Points()
        trial = Trial(case, store=TornJournal(tear, points))
        trial.oracle.reads_rows = False  # the torn append has already changed the row
        machine = trial.machine(points)
        with suppress(Killed):
            trial.carry_on(trial.start(machine), machine)
        wait_for_leases(trial)
        try:
            run = trial.reload()
        except JournalError:
            case.log("the machine refuses to read it")
            case.hold(bool(trial.faults()), Invariant.TAMPERING, "a run is refused, and a verification finds nothing")
        else:
            trial.outlive(run)

    def _look(self, case: Case, whole: Trial, torn: Journal) -> None:
        """Check that a damaged remainder is reported and not continued."""
        intact, whole.store = whole.store, WatchedStore(torn, whole.oracle)
        try:
            faults = whole.faults()
            case.hold(bool(faults), Invariant.TAMPERING, "a verification finds nothing in a torn journal")
            try:
                run = whole.reload()
            except JournalError:
                case.log("the machine refuses to read it")
            else:
                raise Breach(
                    Invariant.TAMPERING, f"the journal is torn, and the machine reads a run that is {run.status}"
                )
        finally:
            whole.store = intact


def _tears(at: int, size: int) -> list[Tear]:
    found = [Tear(at, count, "last") for count in range(1, size)]
    if at:
        found += [Tear(at, count, "old") for count in range(1, size + 1)]
        found += [Tear(at, count, "new") for count in range(size)]
    return found


class ShortRecord(Attack):
    """A record, or the digest beside it, was not written to its end."""

    family = Family.CRASH
    surface = "record on the disk"
    action = "the record or its digest ends early, or contains only zeros after some byte"
    invariant = Invariant.TAMPERING
    defence = "a record with a wrong digest is not read"
    enumerates = "every record of the generated run and its digest, cut at the first, second, middle and last byte"
    weight = 8

    def play(self, case: Case) -> Outcome:
        """Shorten each record in each manner, and check that the machine refuses it and a verification names it."""
        trial = Trial(case)
        run = trial.start()
        trial.oracle.rest()
        intact = trial.store
        entries = intact.read(run.id)
        case.story.clear()
        for number in case.each("record", range(len(entries))):
            for truncation in case.each("way", _TRUNCATIONS):
                entry = _shortened(entries[number], truncation)
                case.act(f"record {number}: {_description(truncation)}")
                trial.store = WatchedStore(DamagedJournal(intact.inner, entry), trial.oracle)
                self._look(case, trial, number)
        return Outcome.DETECTED

    def _look(self, case: Case, trial: Trial, number: int) -> None:
        try:
            trial.reload()
        except JournalError:
            faults = trial.faults()
            is_named = any(fault.seq == number for fault in faults)
            case.hold(is_named, Invariant.TAMPERING, f"a verification does not find record {number}: {faults[:1]}")
            return
        raise Breach(Invariant.TAMPERING, f"record {number} is damaged, and the machine reads it")


class _Truncation(NamedTuple):
    """A manner in which a part of an entry ends early."""

    part: Literal["record", "digest"]
    how: Literal["cut", "zeros"]
    at: Literal["first byte", "second byte", "half", "last byte"]


_TRUNCATIONS: Final = (
    _Truncation("digest", "zeros", "half"),
    _Truncation("digest", "cut", "half"),
    _Truncation("record", "cut", "first byte"),
    _Truncation("record", "cut", "second byte"),
    _Truncation("record", "cut", "half"),
    _Truncation("record", "cut", "last byte"),
    _Truncation("record", "zeros", "half"),
)


def _shortened(entry: Entry, truncation: _Truncation) -> Entry:
    old = entry.record if truncation.part == "record" else entry.digest
    length = {"first byte": 0, "second byte": 1, "half": len(old) // 2, "last byte": len(old) - 1}[truncation.at]
    new = old[:length] + (bytes(len(old) - length) if truncation.how == "zeros" else b"")
    return entry._replace(record=new) if truncation.part == "record" else entry._replace(digest=new)


def _description(truncation: _Truncation) -> str:
    return f"the {truncation.part} {'is cut' if truncation.how == 'cut' else 'has zeros'} from its {truncation.at} on"
