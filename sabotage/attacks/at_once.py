"""Time: two processes or threads call one store at the same time, one between the statements of the other."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.stores.between import BetweenStatements
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry, Head, Journal, JournalError, Lease, Switch

NOW: Final = 1_000_000.0
LEASE: Final = 60.0
LATE: Final = NOW + 1_000.0
"""A time at which every lease is over."""

MOST_STATEMENTS: Final = 10
"""More statements than one call has."""

STATES: Final = ("free", "leased", "leased by a dead process", "held by a breaker")
"""The states of the first run. A second one is always free."""


class _Stage(NamedTuple):
    """Two runs in a store: their program, which no other stage has, and the newest lease of the first run."""

    program: str
    lease: Lease

    def run(self, name: str = "one") -> str:
        """Return the id of a run."""
        return f"{self.program}-{name}"

    @property
    def breaker(self) -> str:
        """The breaker that concerns the runs."""
        return f"program:{self.program}"


class _Process(NamedTuple):
    """A process or a thread: its name, its connection to the store, and the runs that it calls for."""

    name: str
    store: Journal
    stage: _Stage

    def added(self, expected: int, *, run: str = "one", signature: bytes | None = None) -> Append:
        """Return an append by this process."""
        record = f"by {self.name} after {expected}".encode()
        entry = Entry(expected + 1, record, digest_of(record))
        return Append(self.stage.run(run), expected, [entry], "RUNNING", NOW, True, signature, 0.0)

    def head(self) -> Head:
        """Return the head of the first run before anything happens, signed by this process."""
        return Head(self.stage.run(), 0, digest_of(FIRST), self.name.encode())

    def switched(self, *, is_open: bool) -> Switch:
        """Return that this process switches the breaker."""
        return Switch(self.stage.breaker, is_open, NOW, "", self.name)


FIRST: Final = b"the first record"

CALLS: Final[Mapping[str, Callable[[_Process], Any]]] = {
    "claim a run": lambda own: own.store.claim(own.name, NOW, LEASE, 1, [own.stage.program]),
    "claim all runs": lambda own: own.store.claim(own.name, NOW, LEASE, 9, [own.stage.program]),
    "lease the run": lambda own: own.store.acquire(own.stage.run(), own.name, NOW, LEASE),
    "hold the run": lambda own: own.store.hold(own.stage.lease, own.stage.breaker),
    "close the breaker": lambda own: own.store.switch(own.switched(is_open=False)),
    "open the breaker": lambda own: own.store.switch(own.switched(is_open=True)),
    "erase its values": lambda own: own.store.vault.erase(own.stage.run()),
    "put a value": lambda own: own.store.vault.put(own.stage.run(), {"x": own.name.encode()}),
    "append with the lease": lambda own: own.store.append(own.added(0), own.stage.lease.fence),
    "append without a lease": lambda own: own.store.append(own.added(0), None),
    "prune the run": lambda own: own.store.prune(own.head(), own.name.encode()),
    "create another run": lambda own: own.store.create(own.added(-1, run="new"), own.stage.program, own.name, LEASE),
    "sign the head": lambda own: own.store.sign(own.head()),
    "renew the lease": lambda own: own.store.renew(own.stage.lease, NOW + 1.0, LEASE),
    "release the lease": lambda own: own.store.release(own.stage.lease),
}
"""The calls that change a store. First the SEVERAL of which a store has to do several things."""

SEVERAL: Final = 9


class CallsAtOnce(Attack):
    """Two processes call the store in a file at the same time: the whole call of one is made between two statements of
    the other, at each place. Answers and content have to be those of one call after the other, in one of both orders.
    """

    family = Family.TIME
    surface = "calls of the store in a file"
    action = "by two processes at the same time, one between the statements of the other"
    invariant = Invariant.DRIVER
    defence = "each call of a store takes effect at one moment"
    enumerates = "every call of the other process, between all statements of the first"
    store = "sqlite"
    weight = 8
    draws = True  # what breaks is reported alone, and a smaller case would play all others, too

    def play(self, case: Case) -> Outcome:
        """Make each call between the statements of one that has several."""
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
            stores = [SQLiteJournal(os.path.join(folder, "runs.db")) for _ in range(2)]
            for store in stores:
                stack.callback(store.close)
                store.vault.put("any", {"opens": b"the file"})
            for file in (stores[1]._file, stores[1]._values._file()):
                # A call that has to wait is made afterwards: nobody else could end the first one.
                file._connection.execute("PRAGMA busy_timeout = 0")
            first = list(CALLS)[case.seed() % SEVERAL]
            pairs = [(state, second) for state in STATES for second in CALLS]
            for state, second in case.each(f"somebody wants to {first}, and then", pairs):
                _meet(case, _Meeting(case, stores, state, first, second))
        return Outcome.ABSORBED


def _meet(case: Case, meeting: _Meeting) -> None:
    """Make the second call at each place within the first one. Raises Breach for what no order of the two comes to."""
    orders = {meeting.after(), meeting.before()}
    for number in case.each("before statement", range(1, MOST_STATEMENTS)):
        case.act(f"the run is {meeting.state}; before statement {number} of `{meeting.first}`: `{meeting.second}`")
        got = meeting.within(number)
        if got is None:
            return
        what = f"`{meeting.second}` within `{meeting.first}` comes to what no order of the two does: {got}"
        case.hold(got in orders, Invariant.DRIVER, what)


class ThreadsAtOnce(Attack):
    """Two threads call the store in memory at the same time: the whole call of one is made wherever the other one asks
    for a lock, or has just given it back. Answers and content have to be those of one call after the other."""

    family = Family.TIME
    surface = "calls of the store in memory"
    action = "by two threads at the same time, one wherever the other has no lock"
    invariant = Invariant.DRIVER
    defence = "each call of a store holds one lock for all that it does"
    enumerates = "every two calls"
    weight = 8
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make each call within each other one."""
        from hypothesis import strategies as st

        store = MemoryJournal()
        state = case.pick("the run is", st.sampled_from(STATES[::-1]))
        every = [(first, second) for first in CALLS for second in CALLS]
        for first, second in case.each("two threads want to", every):
            _meet(case, _MeetingThreads(case, [store, store], state, first, second))
        return Outcome.ABSORBED


class _Meeting:
    """Two calls of two processes, each time on fresh runs in a state. Results are texts without the names of runs."""

    def __init__(self, case: Case, stores: Sequence[Journal], state: str, first: str, second: str) -> None:
        self.case = case
        self.stores = stores
        self.state = state
        self.first = first
        self.second = second

    def after(self) -> str:
        """Make the second call after the first."""
        one, other = self._processes()
        return self._outcome(one, _answer(self.first, one), _answer(self.second, other))

    def before(self) -> str:
        """Make the second call before the first."""
        one, other = self._processes()
        second = _answer(self.second, other)
        return self._outcome(one, _answer(self.first, one), second)

    def within(self, number: int) -> str | None:
        """Make the second call before a statement of the first; None if the first has fewer statements."""
        one, other = self._processes()
        answers: list[str | None] = []
        with self._between(one.store, number, lambda: answers.append(_answer(self.second, other))):
            first = _answer(self.first, one)
        if not answers:
            return None
        second = _answer(self.second, other) if answers[0] is None else answers[0]
        return self._outcome(one, first, second)

    @contextmanager
    def _between(self, store: Journal, number: int, act: Callable[[], None]) -> Iterator[None]:
        """Act before a statement on either file of the store."""
        assert isinstance(store, SQLiteJournal)
        between = [BetweenStatements(file, number, act) for file in (store._file, store._values._file())]
        yield
        for file in between:
            file.restore()

    def _processes(self) -> tuple[_Process, _Process]:
        stage = _staged(self.stores[0], self.case.run_id(), self.state)
        one, other = self.stores
        return _Process("ann", one, stage), _Process("bob", other, stage)

    def _outcome(self, one: _Process, first: str | None, second: str | None) -> str:
        text = f"{first}; {second}; {_content(self.stores[1], one.stage)}"
        return text.replace(one.stage.program, "")


class _MeetingThreads(_Meeting):
    """The same of two threads, which share a store in memory."""

    @contextmanager
    def _between(self, store: Journal, number: int, act: Callable[[], None]) -> Iterator[None]:
        assert isinstance(store, MemoryJournal)
        parts: tuple[Any, ...] = (store, store.vault)
        locks = [part._lock for part in parts]
        between = _BetweenLocks(number, act)
        for part, lock in zip(parts, locks, strict=True):
            part._lock = between.around(lock)
        yield
        for part, lock in zip(parts, locks, strict=True):
            part._lock = lock


class _BetweenLocks:
    """Acts once, at the place of a number: before a lock is taken, and after it was given back."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()

    def around(self, lock: Any) -> Any:
        """Return a lock around another one."""

        @contextmanager
        def interrupted() -> Iterator[None]:
            self._pass()
            with lock:
                yield
            self._pass()

        class Lock:
            def __enter__(self) -> None:
                self._held = interrupted()
                self._held.__enter__()

            def __exit__(self, *error: Any) -> bool | None:
                return self._held.__exit__(*error)

        return Lock()


def _staged(store: Journal, program: str, state: str) -> _Stage:
    """Make two runs, the first one in a state."""
    entry = Entry(0, FIRST, digest_of(FIRST))
    for name in ("one", "two"):
        append = Append(f"{program}-{name}", -1, [entry], "RUNNING", NOW, False, None, 0.0)
        lease = store.create(append, program, "maker", 0.0)
        assert lease is not None, "no other run has its name"
    stage = _Stage(program, Lease(f"{program}-one", 1, NOW))
    if state == "free":
        return stage
    ends = NOW - 1.0 if state == "leased by a dead process" else NOW + LEASE
    leased = store.acquire(stage.run(), "holder", NOW, ends - NOW)
    assert leased is not None, "it was free"
    if state == "held by a breaker":
        store.switch(Switch(stage.breaker, True, NOW, "", "somebody"))
        store.hold(leased, stage.breaker)
    return stage._replace(lease=leased)


def _answer(call: str, own: _Process) -> str | None:
    """Make a call, and return its answer as text; None if it has to wait for the other process."""
    try:
        return repr(CALLS[call](own))
    except JournalError as error:
        cause = error.__cause__
        if isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            return None
        return type(error).__name__


def _content(store: Journal, stage: _Stage) -> str:
    """Return what the store has of the runs, and at the end who may have them, with which numbers."""
    runs = [stage.run(name) for name in ("one", "two", "new")]
    content: list[Any] = [store.opened() & {stage.breaker}, store.switches(stage.breaker)]
    for run in runs:
        content += [store.row(run), store.head(run), store.read(run), store.kept(run), store.vault.get(run)]
    content.append(store.claim("later", LATE, LEASE, 9, [stage.program]))
    for run in runs:
        try:
            content.append(store.acquire(run, "later", LATE, LEASE))
        except JournalError as error:
            content.append(type(error).__name__)
    return repr(content)
