"""Tables of stores: filters in pairs, runs that are due, and each short sequence of requests to one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from stepward.sabotage.recorded.stores.requests import quick
from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.vm.journal.memory import MemoryJournal, MemoryVault
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import NOBODY, Append, Entry, Head, Journal, Lease, Row, Switch

TTL: Final = 10.0
_TOOL: Final = "tool:pay"

# -- a store with some runs --------------------------------------------------------------------------------------------

_RUNS: Final[tuple[tuple[str, str, str, float, float | None, int], ...]] = (
    ("r3", "p", "RUNNING", 1.0, 1.0, 1),
    ("r1", "q", "RUNNING", 1.0, 1.0, 2),
    ("r2", "p", "SUCCESS", 2.0, None, 1),
    ("r5", "p", "SUSPENDED", 2.0, 0.0, 3),
    ("r4", "", "FAILED", 0.0, 2.0, 1),
    ("r0", "q", "RUNNING", 3.0, 1.0, 1),
)


def _entries(start: int, count: int, mark: str = "") -> list[Entry]:
    return [Entry(seq, f"{seq}{mark}".encode(), bytes([seq]) * 32) for seq in range(start, start + count)]


def _journal(stack: ExitStack, kind: str) -> Journal:
    if kind == "memory":
        return MemoryJournal()
    store = SQLiteJournal(Path(stack.enter_context(TemporaryDirectory())) / "runs.db")
    stack.callback(store.close)
    quick(store._file)
    return store


def _filled(store: Journal) -> Journal:
    """Put runs into a store, of which some are leased until 5.0."""
    for name, program, status, now, due, count in _RUNS:
        append = Append(name, -1, _entries(0, count), status, now, False, None, due)
        store.create(append, program, "ann", 5.0 - now if name == "r1" else -now)
    return store


def _show_rows(kind: str, statuses: Any) -> Any:
    with ExitStack() as stack:
        store = _filled(_journal(stack, kind))
        found: list[Any] = []
        limits = (None, 0, 1, 2, 6, 9)
        for program, since, limit in product((None, "", "p", "none"), (None, 0.0, 1.0, 2.0, 3.5), limits):
            rows = store.rows(statuses, program=program, since=since, limit=limit)
            found.append([row.run for row in rows])
        found += [list(store.names()), store.rows(), store.row("r5"), store.row("none"), store.head("none")]
        found += [store.read("r5", start) for start in (0, 1, 2, 3, 9)]
        return found


_PASSED: Final = (NOBODY, {"r3": 0}, {"r3": 1, "r0": 0}, {"r5": 2, "none": 0})


def _show_claims(kind: str, programs: Any, passed: int) -> Any:
    found: list[Any] = []
    for now, limit in product((0.0, 0.5, 1.0, 2.0, 4.9, 5.0), (0, 1, 2, 3, 9) if kind == "memory" else (2,)):
        with ExitStack() as stack:
            store = _filled(_journal(stack, kind))
            found.append(store.due(now))
            for holder, time in (("x", now), ("y", now), ("x", now + TTL - 0.5), ("z", now + TTL)):
                found.append(store.claim(holder, time, TTL, limit, programs, _PASSED[passed]))
            found.append([(row.run, row.expires) for row in store.rows()])
    return found


def _claims() -> Iterator[tuple[Any, ...]]:
    programs = (None, (), ("p",), ("q", "p"), ("",), ("none",))
    yield from product(("memory",), programs, range(len(_PASSED)))
    yield from product(("file",), (None, ("q",)), (0, 1))


# -- requests to one run -----------------------------------------------------------------------------------------------


class _One:
    """A run in a store, and the leases and heads of before."""

    def __init__(self, store: Journal) -> None:
        self.store = store
        self.leases = [Lease("r", 1, TTL)]
        self.now = 1.0
        store.create(Append("r", -1, _entries(0, 1), "RUNNING", 0.0, False, None, 0.0), "p", "ann", TTL)

    def append(self, back: int = 0, fence: int | None = None, due: float | None = 1.0) -> Any:
        seq = len(self.store.read("r")) - 1 - back
        more = Append("r", seq, _entries(seq + 1, 2, "x"), "SUSPENDED", self.now, False, b"s", due)
        return self.store.append(more, fence)

    def lease(self, holder: str, now: float) -> Any:
        found = self.store.acquire("r", holder, now, TTL)
        self.leases += [] if found is None else [found]
        return found

    def claim(self, now: float) -> Any:
        found = self.store.claim("cat", now, TTL, 2)
        self.leases += found
        return found

    def head(self, *, is_right: bool = True) -> Head:
        found = self.store.head("r") or Head("r", 0, bytes(32), None)
        return found._replace(signature=b"new") if is_right else found._replace(seq=found.seq + 1)

    def switch(self, name: str, *, is_open: bool) -> Any:
        return self.store.switch(Switch(name, is_open, self.now, "why", "ann"))

    def again(self) -> Any:
        return self.store.create(Append("r", -1, _entries(0, 1), "RUNNING", 0.0, False), "p", "ann", TTL)

    def shown(self) -> Any:
        store, run = self.store, "r"
        there = store.row(run), store.head(run), len(store.read(run)), store.kept(run), list(store.pruned())
        dues = [store.due(time) for time in (0.0, 1.0, 9.5, 10.0, 11.0)]
        return there, dues, sorted(store.opened()), len(store.switches()), store.vault.get(run)


_ACTS: Final[dict[str, Callable[[_One], Any]]] = {
    "append": lambda one: one.append(),
    "append as holder": lambda one: one.append(fence=one.leases[-1].fence),
    "append as first": lambda one: one.append(fence=1, due=None),
    "append late": lambda one: one.append(back=1),
    "append late as first": lambda one: one.append(back=1, fence=1),
    "same": lambda one: one.lease("ann", 5.0),
    "other before": lambda one: one.lease("bob", 9.5),
    "other at": lambda one: one.lease("bob", 10.0),
    "claim at": lambda one: one.claim(10.0),
    "renew": lambda one: one.store.renew(one.leases[-1], 5.0, TTL),
    "renew first": lambda one: one.store.renew(one.leases[0], 5.0, TTL),
    "release": lambda one: one.store.release(one.leases[-1]),
    "release first": lambda one: one.store.release(one.leases[0]),
    "open": lambda one: one.switch(_TOOL, is_open=True),
    "open other": lambda one: one.switch("tool:mail", is_open=True),
    "close": lambda one: one.switch(_TOOL, is_open=False),
    "close other": lambda one: one.switch("tool:mail", is_open=False),
    "hold": lambda one: one.store.hold(one.leases[-1], _TOOL),
    "hold first": lambda one: one.store.hold(one.leases[0], _TOOL),
    "sign": lambda one: one.store.sign(one.head()),
    "sign wrong": lambda one: one.store.sign(one.head(is_right=False)),
    "prune": lambda one: one.store.prune(one.head(), b"kept"),
    "prune wrong": lambda one: one.store.prune(one.head(is_right=False), b"kept"),
    "create": lambda one: one.again(),
    "put": lambda one: one.store.vault.put("r", {"a": b"1"}),
    "put other": lambda one: one.store.vault.put("r", {"a": b"2", "b": b""}),
    "erase": lambda one: one.store.vault.erase("r"),
    "erase all": lambda one: one.store.vault.erase_all(["r", "s", "r"]),
    "frozen": lambda one: _frozen(one.store),
}


def _frozen(store: Journal) -> Any:
    with store.frozen() as still:
        before = still.row("r"), len(still.read("r")), still.kept("r"), list(still.pruned()), sorted(still.opened())
        outcome(lambda: store.append(Append("r", len(store.read("r")) - 1, _entries(1, 1), "s", 1.0, False), None))
        return before, still.row("r"), len(still.read("r")), still.switches()


_THIRD: Final = ("append as first", "claim at", "create", "append as holder", "hold", "close", "frozen", "prune")
_FILED: Final = ("append", "append as first", "other at", "claim at", "release first", "open", "close", "hold", "prune")


def _show_sequence(kind: str, first: str, second: str) -> Any:
    """Show what each third request comes to after two others."""
    found = []
    with ExitStack() as stack:
        for number, third in enumerate(_THIRD if kind == "memory" else _THIRD[:3]):
            one = _One(_journal(stack, kind))
            for act in (first, second):
                result = outcome(partial(_ACTS[act], one))
                found += [] if number else [result, one.shown()]
            found += [outcome(partial(_ACTS[third], one)), one.shown()]
    return found


def _sequences() -> Iterator[tuple[Any, ...]]:
    yield from product(("memory",), _ACTS, _ACTS)
    yield from (("file", *pair) for pair in product(_FILED[:1] + _FILED[4:], repeat=2) if pair[0] != pair[1])


# -- switches, rows and vaults -----------------------------------------------------------------------------------------


def _show_switches(kind: str, run: str) -> Any:
    """Show a run that is held by one of two breakers, which are opened and closed."""
    with ExitStack() as stack:
        store, found = _journal(stack, kind), []
        for name in ("r", "s"):
            append = Append(name, -1, _entries(0, 1), "RUNNING", 0.0, False, None, 0.0)
            store.create(append, "p", "ann", TTL)
        for at, letter in enumerate(run):
            name = _TOOL if letter in "ox" else "program:p"
            if letter in "hH":
                lease = Lease("r" if letter == "h" else "s", 1, TTL)
                found.append(outcome(lambda lease=lease: store.hold(lease, _TOOL)))  # type: ignore[misc]
            else:
                found.append(store.switch(Switch(name, letter in "oO", float(at), letter, "ann")))
            found += [store.due(9.0), sorted(store.opened())]
        found += [store.switches(), store.switches(_TOOL), store.switches("")]
        return found


def _switches() -> Iterator[tuple[Any, ...]]:
    yield from (("memory", "".join(run)) for run in product("oxOXhH", repeat=4))
    yield from (("file", run) for run in ("ohxo", "ohHx", "oOhX", "ohox", "hoxh", "ohxx"))


_FIELDS: Final[tuple[Any, ...]] = ("r", "p", "s", 1, 2.0, 3.0, 4.0)


def _show_row(at: int, value: Any) -> Any:
    values = [*_FIELDS[:at], value, *_FIELDS[at + 1 :]]
    return Row.read(values), Row.read([value, *values[1:]])


def _rows() -> Iterator[tuple[Any, ...]]:
    yield from product(range(len(_FIELDS)), (None, 0, 1, -1, 0.0, 1.5, "", "x", b"x", True, False))


def _show_vault(first: int, second: int, last: str) -> Any:
    vault = MemoryVault()
    values: tuple[dict[str, bytes], ...] = ({}, {"a": b""}, {"a": b"1"}, {"b": b"2", "c": b"3"})
    found: list[Any] = []
    for values_put in (values[first], values[second]):
        found += [outcome(lambda values_put=values_put: vault.put("r", values_put)), vault.get("r")]  # type: ignore[misc]
    vault.put("s", {"z": b"9"})
    questions: dict[str, Callable[[], int]] = {
        "erase": lambda: vault.erase("r"),
        "all": lambda: vault.erase_all(["s", "r"]),
        "none": lambda: 0,
    }
    found += [questions[last](), vault.get("r"), vault.get("s"), questions[last]()]
    return [*found, outcome(lambda: vault.put("r", {"a": b"4"})), vault.get("r")]


_STATUSES: Final[tuple[Any, ...]] = (None, [], ["RUNNING"], ["SUCCESS", "RUNNING", "SUCCESS"], ["none"])

TABLES: Final = (
    Table("rows", lambda: product(("memory", "file"), _STATUSES), _show_rows),
    Table("claims", _claims, _show_claims),
    Table("sequences", _sequences, _show_sequence),
    Table("switches", _switches, _show_switches),
    Table("row", _rows, _show_row),
    Table("vault", lambda: product(range(4), range(4), ("erase", "all", "none")), _show_vault),
)
