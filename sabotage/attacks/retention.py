"""Erasure of old runs: what is pruned, and what stays, by the time at which runs ended and by what stands on them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.pruning import Pruned
from stepward.vm.journal.store import Head, Journal
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import Suspend

HOUR: Final = 3_600_000_000
MICROSECOND: Final = 1

ENDS: Final[Mapping[str, int]] = {
    "long before": -HOUR,
    "just before": -MICROSECOND,
    "at that time": 0,
    "just after": MICROSECOND,
    "long before, and was erased after": -HOUR + 7,
    "long before, and was cancelled after": -HOUR + 8,
}
"""When runs end, in microseconds from the time before which runs are pruned."""

BY: Final = "ann"
SECRET: Final = "4711471147"


class _World(EveryTool):
    """A tool that waits for somebody."""

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Wait."""
        del name, args, context
        return Suspend()


class _Watched(MemoryJournal):
    """A store in which something happens just before a run is pruned; it notes the digests that a run has then."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.digests: dict[str, tuple[bytes, ...]] = {}

    def prune(self, head: Head, pruned: bytes) -> bool:
        """Let happen what does, and prune the run."""
        self.meanwhile.pop(head.run, lambda: None)()
        digests = tuple(one.digest for one in self.read(head.run))
        is_done = super().prune(head, pruned)
        if is_done:
            self.digests[head.run] = digests
        return is_done


def _at_once(work: Coroutine[Any, Any, Any]) -> None:
    """Do the work of another machine whose store does not block, within a call of the store."""
    with suppress(StopIteration, DeliveryRefused):
        while True:
            work.send(None)


def _program(name: str, *, most: int, waits: bool, hides: bool = True) -> Program:
    steps: list[dict[str, Any]] = [{"id": "wait", "type": "tool", "tool": "sign"}] if waits else []
    steps += [{"id": f"s{number}", "type": "set", "set": {"v": number}} for number in range(2)]
    return Program.from_dict(
        {
            "name": name,
            "inputs": {"card": {"type": "string", "sensitive": hides}},
            "tools": {"sign": {"effect": "none", "suspends": True}},
            "max_steps": most,
            "steps": steps,
        }
    )


class PrunedTooEarly(Attack):
    """Runs end around the time before which runs are pruned; some are erased after it, some wait still, some are
    continued by runs that end before it or after it, or only while the store is pruned. Then it is pruned again."""

    family = Family.HASHES
    surface = "time of pruning"
    action = "the very end of a run, one that stands on another, and one that waits"
    invariant = Invariant.KEPT
    defence = "a run is pruned that ended before the time, with its values, unless one that stays stands on it"
    severity = "high"
    weight = 4
    draws = True
    enumerates = "the ends of runs and of chains around the time of pruning"

    def play(self, case: Case) -> Outcome:
        """Check what is pruned, what is kept of it, and that the rest stays as it is."""
        from hypothesis import strategies as st

        clock, store = ManualClock(tick=0), _Watched()
        at = clock.time + 2 * HOUR
        machine = case.machine(_World(), None, store, clock=clock, key=case.key)
        due = _Runs(case, machine, clock, at)
        due.make()
        clock.time = at + HOUR
        due.race(store)
        before = {run: _content(store, run) for run in due.stays}
        once = case.pick("pruned once", st.booleans())
        for turn in range(2 - once):
            case.act("prune what has ended before the time")
            outcomes = case.do(machine.prune(at / 1e6, by=BY))
            expected = set[str]() if turn else set(due.goes)
            self._hold(case, store, due, {one.run for one in outcomes if one.why is None} ^ expected)
        for run, content in before.items():
            case.hold(_content(store, run) == content, self.invariant, f"pruning changed {due.stays[run]}")
        return Outcome.ABSORBED

    def _hold(self, case: Case, store: _Watched, due: _Runs, odd: set[str]) -> None:
        names = {**due.goes, **due.stays}
        case.hold(not odd, self.invariant, f"{', '.join(sorted(names[run] for run in odd))}: pruned or not")
        for run, name in due.goes.items():
            left = store.head(run) or store.vault.get(run)
            case.hold(not left, Invariant.ERASURE, f"records or values of {name} are left")
            pruned = Pruned.from_bytes(store.kept(run) or b"")
            found = pruned.run, pruned.by, pruned.status, pruned.ended
            expected = run, BY, *due.ended[run]
            case.hold(found == expected, Invariant.HISTORY, f"of {name}, {found} is kept, and not {expected}")
            is_whole = pruned.digests == store.digests[run]
            case.hold(
                is_whole, Invariant.HISTORY, f"of {name}, {len(pruned.digests)} digests are kept, and not its own"
            )


class _Runs:
    """The runs of the store: those that are to be pruned, and those that stay, with the words for each."""

    def __init__(self, case: Case, machine: ExecutionVM, clock: ManualClock, at: int) -> None:
        self.case = case
        self.machine = machine
        self.clock = clock
        self.at = at
        self.goes: dict[str, str] = {}
        self.stays: dict[str, str] = {}
        self.ended: dict[str, tuple[str, int]] = {}

    def make(self) -> None:
        """Make all runs."""
        for name, ends in ENDS.items():
            self._note(self._ended(self.at + ends), f"one that ended {name}", is_old=ends < 0)
        waits = self._waiting()
        self.stays[waits.id] = "one that waits"
        self._chain("one that another one continued before", -HOUR)
        self._chain("one that another one continued after", HOUR // 2)
        self._races()
        self.clock.time = self.at + 9
        for run, name in self.goes.items():
            if "erased" in name:
                self.case.do(self.machine.erase(run))
            elif "cancelled" in name:
                self.case.do(self.machine.cancel(run))

    def _races(self) -> None:
        """Make a run that changes while it is pruned, one that is continued then, and one that goes before both."""
        waits = self._start(_program("races", most=9, waits=True, hides=False))
        self.clock.time = self.at - HOUR
        self._token = waits.suspensions[0].token
        self._changing = self.case.do(self.machine.resume(self._token, 1))
        self._note(self._changing, "one that changed meanwhile", is_old=True)
        self._interrupted = self._start(_program("races", most=1, waits=False, hides=False))
        self._note(self._interrupted, "one that another one continues meanwhile", is_old=False)
        self._first = self._start(_program("races", most=9, waits=False, hides=False))

    def race(self, store: _Watched) -> None:
        """Prune three runs, two of which change just then: both stay for the time being."""
        rest = _program("rest", most=5, waits=False, hides=False)
        machine, (first, second, third) = self.machine, (self._first.id, self._interrupted.id, self._changing.id)
        store.meanwhile = {
            first: lambda: _at_once(machine.continue_run(second, rest, {"card": "card"}, grant={"steps": 5})),
            third: lambda: _at_once(machine.resume(self._token, 1)),
        }
        self.case.act("prune three runs: one is continued meanwhile, and one gets a token again")
        pruned = self.case.do(machine.prune(self.at / 1e6, program="races", by=BY))
        outcomes = [(one.run, one.why is None, one.is_fault) for one in pruned]
        due = [(first, True, False), (second, False, False), (third, False, True)]
        self.case.hold(
            outcomes == due, Invariant.KEPT, f"of runs that change meanwhile is told {outcomes}, and not {due}"
        )

    def _note(self, run: Run, name: str, *, is_old: bool) -> None:
        (self.goes if is_old else self.stays)[run.id] = name
        self.ended[run.id] = run.status, self.clock.time

    def _start(self, program: Program) -> Run:
        self.clock.time = self.at - 2 * HOUR
        return self.case.do(self.machine.run(program, {"card": SECRET}, run_id=self.case.run_id()))

    def _waiting(self) -> Run:
        return self._start(_program("waits", most=9, waits=True))

    def _ended(self, at: int) -> Run:
        run = self._waiting()
        self.clock.time = at
        return self.case.do(self.machine.resume(run.suspensions[0].token, 1))

    def _chain(self, name: str, ends: int) -> None:
        """Make a run that has ended early, and another one that continues it and ends at some time."""
        first = self._start(_program("short", most=1, waits=False))
        self._note(first, name, is_old=ends < 0)
        rest = _program("rest", most=5, waits=False)
        self.clock.time = self.at + ends
        work = self.machine.continue_run(first.id, rest, {"card": "card"}, grant={"steps": 5})
        self._note(self.case.do(work), f"the continuation of {name}", is_old=ends < 0)


def _content(store: Journal, run: str) -> tuple[Any, ...]:
    return store.row(run), store.head(run), store.read(run), store.vault.get(run)
