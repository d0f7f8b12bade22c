"""Time: a run goes on while somebody reads or verifies it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.tampering import receipt_for
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import WatchedStore
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import Append, Entry, Head, Journal, JournalError, Lease, Row
from stepward.vm.journal.verify import verify, verify_all
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.replay import replay, replayer

READINGS: Final = 24
"""The number of readings of one run."""


class _Version(NamedTuple):
    """What a store had of a run after one write."""

    entries: tuple[Entry, ...]
    head: Head | None
    row: Row | None
    values: dict[str, bytes]


class _Recorded(WatchedStore):
    """A store that keeps each version of a run."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.store.inner, trial.oracle)
        self.versions: list[_Version] = []

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self._keep()
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        super().append(append, fence)
        self._keep()

    def _keep(self) -> None:
        run, store = self.oracle.run.id, self.inner
        found = _Version(tuple(store.read(run)), store.head(run), store.row(run), store.vault.get(run))
        self.versions.append(found)


class _Growing(ThroughStore):
    """A store whose run goes on at calls of whoever reads it: by chance, or to its end at one call.

    `shown` is the number of the version that is there now.
    """

    def __init__(self, inner: Journal, versions: list[_Version], random: Random) -> None:
        super().__init__(inner)
        self.versions = versions
        self.shown = random.randrange(len(versions))
        self._random = random
        self._ends_at = random.choice((None, 0, 1, 2, 3))
        self._calls = 0

    def _now(self) -> _Version:
        """Return what is there at this call; then the run goes on."""
        found = self.versions[self.shown]
        left = len(self.versions) - 1 - self.shown
        if self._ends_at is None:
            self.shown += self._random.randint(0, min(left, 2))
        elif self._calls == self._ends_at:
            self.shown += left
        self._calls += 1
        return found

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of the run."""
        del run
        return list(self._now().entries[start:])

    def head(self, run: str) -> Head | None:
        """Return the end of its chain."""
        del run
        return self._now().head

    def row(self, run: str) -> Row | None:
        """Return its row."""
        del run
        return self._now().row

    def rows(self, statuses: Iterable[str] | None = None, **filters: Any) -> list[Row]:
        """Return the list of runs."""
        del statuses, filters
        row = self._now().row
        return [] if row is None else [row]

    def names(self) -> Any:
        """Yield the name of the run."""
        row = self._now().row
        return iter([] if row is None else [row.run])

    @property
    def vault(self) -> Any:
        """The vault of sensitive values."""
        return self

    def get(self, run: str) -> dict[str, bytes]:
        """Return the sensitive values of the run."""
        del run
        return self._now().values


class ReadWhileItGrows(Attack):
    """A run continues while another process verifies it, replays it or requests it, between any two reads of that
    process."""

    family: ClassVar[Family] = Family.TIME
    surface = "store, read by several processes"
    action = "the run continues while its parts are read"
    invariant = Invariant.REPLAY
    defence = "the head is read before the entries, and entries after it are ignored"
    severity = "high"
    weight = 2
    enumerates = "reads of the versions of one run, by each function that reads it"

    def play(self, case: Case) -> Outcome:
        """Check that nobody is told of damage, and that each reader sees a version that was there."""
        from hypothesis import strategies as st

        trial = Trial(case)
        store = _Recorded(trial)
        trial.store = store
        run = trial.finish()
        receipt = receipt_for(run)
        seed = case.pick("goes on as drawn from", st.integers(0, 1 << 16))
        for number in case.each("reading", range(READINGS)):
            random = Random(f"{seed} {number}")
            growing = _Growing(trial.store.inner, store.versions, random)
            first = growing.shown
            case.count()
            read = (_verified, _verified_all, _replayed, _read_by_machine)[number % 4]
            try:
                seen = read(trial, growing, [receipt] if first == len(store.versions) - 1 else [])
            except JournalError as error:
                raise Breach(self.invariant, f"who reads a run that goes on is told: {error}") from None
            least, most = (len(store.versions[at].entries) - 1 for at in (first, growing.shown))
            what = f"a reader sees record {seen} as the last, where it was {least} before and {most} after"
            case.hold(least <= seen <= most, self.invariant, what)
        return Outcome.ABSORBED


def _verified(trial: Trial, store: Journal, receipts: list[Receipt]) -> int:
    public = [trial.case.key.public]
    verdict = verify(store, trial.run, keys=public, replay=replayer(store, trial.run, receipts))
    _hold(trial, verdict.faults)
    return verdict.records - 1


def _verified_all(trial: Trial, store: Journal, receipts: list[Receipt]) -> int:
    again = partial(replayer, store)
    (verdict,) = verify_all(store, keys=[trial.case.key.public], replay=lambda run, own: again(run, (*own, *receipts)))
    _hold(trial, verdict.faults)
    return verdict.records - 1


def _replayed(trial: Trial, store: Journal, _: list[Receipt]) -> int:
    found = replay(store, trial.run)
    assert found is not None, "the run is there"
    _hold(trial, found.faults)
    return found.run.seq


def _read_by_machine(trial: Trial, store: Journal, _: list[Receipt]) -> int:
    machine = ExecutionVM({}, journal=store, checker=None, key=trial.case.key)
    return trial.case.do(machine.get(trial.run)).seq


def _hold(trial: Trial, faults: Any) -> None:
    trial.case.hold(not faults, Invariant.REPLAY, f"a run that goes on is called damaged: {faults[:1]}")
