"""Helpers of the checks in `conformance.py`: fresh runs, entries, races, and snapshots to compare."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from stepward.vm.journal.store import Append, AppendConflict, Entry, Head, Journal, JournalError, Row

T = TypeVar("T")

NOW: Final = 1_000.0
TTL: Final = 60.0


def fresh_name() -> str:
    """Return a name that no store has yet."""
    return f"conformance-{uuid.uuid4().hex}"


def entry(seq: int, mark: str = "") -> Entry:
    """Return an entry whose content has its number and `mark`."""
    record = f"record {seq} {mark}".encode()
    return Entry(seq, record, hashlib.sha256(record).digest())


def entries(count: int, mark: str = "") -> list[Entry]:
    """Return the first `count` entries of a run."""
    return [entry(seq, mark) for seq in range(count)]


def following(before: Sequence[Entry], count: int, mark: str = "") -> list[Entry]:
    """Return the `count` entries that follow `before`."""
    return [entry(len(before) + i, mark) for i in range(count)]


def first(run: str, content: Sequence[Entry] = (), status: str = "running", signature: bytes | None = None) -> Append:
    """Return the append that creates a run, with one entry unless others are given."""
    return Append(run, -1, content or entries(1), status, NOW, True, signature)


def behind(
    run: str, before: Sequence[Entry], batch: Sequence[Entry], *, durable: bool = True, signature: bytes | None = None
) -> Append:
    """Return the append that adds `batch` after `before`."""
    return Append(run, len(before) - 1, batch, "running", NOW + 1, durable, signature)


def created(store: Journal, content: Sequence[Entry] = (), signature: bytes | None = None) -> tuple[str, int]:
    """Create a run leased to `a` until NOW + TTL, and return its name and fencing number."""
    run = fresh_name()
    lease = store.create(first(run, content, signature=signature), "program", "a", TTL)
    assert lease is not None, "a new run was not made"
    return run, lease.fence


def row_of(store: Journal, run: str) -> Row:
    """Return a run's row in the list of runs."""
    found = [row for row in store.rows() if row.run == run]
    assert len(found) == 1, f"the list of runs names a run {len(found)} times"
    return found[0]


def picture(store: Journal, run: str) -> tuple[list[Entry], Head | None, Row]:
    """Return all that a store has of a run, to be compared later."""
    return store.read(run), store.head(run), row_of(store, run)


def refused(error: type[JournalError], call: Callable[[], object]) -> None:
    """Check that a call raises `error`."""
    try:
        call()
    except error:
        return
    except JournalError as other:
        raise AssertionError(f"{type(other).__name__} was raised, not {error.__name__}: {other}") from other
    raise AssertionError(f"a call that must raise {error.__name__} did what it was asked")


def wins(call: Callable[[], object]) -> bool:
    """Make a call that competes with others; return False if it raises AppendConflict."""
    try:
        call()
    except AppendConflict:
        return False
    return True


def at_once(call: Callable[[int], T], count: int) -> list[T]:
    """Make `count` calls in as many threads, as simultaneously as possible; return their results in order."""
    barrier = threading.Barrier(count)

    def one(number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
