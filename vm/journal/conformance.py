"""Tests whether a store meets the contract of `store.py`. Run each of `CHECKS` against your store, or all by `check`.

    from stepward.vm.journal.conformance import check

    check(lambda: MyJournal("somewhere"))

The given function opens the same store again at each call, as another process would. Checks make runs of their own, so
they may share a store with each other and with other users. A check that fails raises AssertionError.
No check can test that durable appends are durable, because that takes a loss of power.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final, NamedTuple

from stepward.vm.journal.store import Append, AppendConflict, Entry, Head, Journal, JournalError, Lease, LeaseLost, Row
from stepward.vm.journal.trials import (
    NOW,
    TTL,
    at_once,
    behind,
    created,
    entries,
    entry,
    first,
    following,
    fresh_name,
    picture,
    refused,
    row_of,
    wins,
)
from stepward.vm.journal.upkeep import UPKEEP

Opener = Callable[[], Journal]

AT_ONCE: Final = 20
"""The number of concurrent callers in a race."""


class Check(NamedTuple):
    """One demand of the contract: `demand` is its text, and `body` tests it on stores that an Opener opens."""

    name: str
    demand: str
    body: Callable[[Opener], None]

    def run(self, make: Opener) -> None:
        """Test the store that `make` opens; raises AssertionError if it does not meet the demand."""
        if not __debug__:
            raise RuntimeError("`python -O` drops assertions, and with them every check; run without it")
        with ExitStack() as stack:
            try:
                self.body(lambda: stack.enter_context(closing(make())))
            except JournalError as error:
                raise AssertionError(f"a call that must succeed raised {type(error).__name__}: {error}") from error


def check(make: Opener) -> None:
    """Test all demands on the store that `make` opens; raises AssertionError at the first that it does not meet."""
    for one in CHECKS:
        one.run(make)


def create_once(make: Opener) -> None:
    """Of many callers that create one run at once, one gets a lease, and its entries are those of the run."""
    run = fresh_name()
    stores = [make() for _ in range(AT_ONCE)]
    leases = at_once(lambda i: stores[i].create(first(run, entries(2, f"by {i}")), "p", f"h{i}", TTL), AT_ONCE)
    winners = [i for i, lease in enumerate(leases) if lease is not None]
    assert len(winners) == 1, f"{len(winners)} of {AT_ONCE} callers made the run"
    assert make().read(run) == entries(2, f"by {winners[0]}"), "the run's entries are not those of who made it"


def create_again(make: Opener) -> None:
    """Creating a run that exists returns None and changes nothing, not even for its own holder."""
    store, run = make(), fresh_name()
    lease = store.create(first(run, status="running"), "p", "a", TTL)
    assert lease is not None, "a new run was not made"
    assert (lease.run, lease.expires) == (run, NOW + TTL), f"the lease of a new run is {lease}"
    before = picture(store, run)
    for holder in ("a", "b"):
        again = first(run, entries(3, "other"), status="other")
        assert make().create(again, "other", holder, 9 * TTL) is None, "a run was made twice"
    assert picture(store, run) == before, "creating a run again changed it"


def append_in_order(make: Opener) -> None:
    """Every opened store reads entries in order, from any number on; reading past the end returns none."""
    store, other = make(), make()
    run, fence = created(store)
    stored = entries(1)
    for size in (1, 3, 2):
        batch = following(stored, size)
        store.append(behind(run, stored, batch, durable=size != 3), fence)
        stored += batch
        assert other.read(run) == stored, "what was read is not what was added"
    for start in range(len(stored) + 2):
        assert other.read(run, start) == stored[start:], f"reading from number {start} on went wrong"


def conflict(make: Opener) -> None:
    """An append after anything but the last entry raises AppendConflict and changes nothing; the next one works."""
    store = make()
    run, fence = created(store, entries(3))
    before = picture(store, run)
    for expected in (-1, 0, 1, 3, 7):
        late = [entry(expected + 1 + i, "late") for i in range(3)]
        for with_fence in (fence, None):
            append = Append(run, expected, late, "late", NOW + 1, True, b"late")
            refused(AppendConflict, lambda a=append, f=with_fence: store.append(a, f))  # type: ignore[misc]
        assert picture(make(), run) == before, f"a refused append behind entry {expected} left something behind"
    store.append(behind(run, entries(3), following(entries(3), 1)), fence)
    assert len(make().read(run)) == 4, "after a refused append the store does not take a good one"


def append_race(make: Opener) -> None:
    """Of many concurrent appends after one entry, exactly one happens, whole; the others raise AppendConflict."""
    store = make()
    run, _ = created(store)
    stores = [make() for _ in range(AT_ONCE)]
    batches = [following(entries(1), 2, f"by {i}") for i in range(AT_ONCE)]
    results = at_once(lambda i: wins(lambda: stores[i].append(behind(run, entries(1), batches[i]), None)), AT_ONCE)
    winners = [i for i, won in enumerate(results) if won]
    assert len(winners) == 1, f"{len(winners)} of {AT_ONCE} appends behind one entry happened"
    assert store.read(run) == entries(1) + batches[winners[0]], "the run does not hold what the winner added"


def append_whole(make: Opener) -> None:
    """A reader sees all entries of a concurrent append or none."""
    store = make()
    run, fence = created(store)
    is_done = threading.Event()

    def write() -> None:
        stored = entries(1)
        try:
            for _ in range(50):
                batch = following(stored, 4)
                store.append(behind(run, stored, batch, durable=False), fence)
                stored += batch
        finally:
            is_done.set()

    def watch(reader: Journal) -> None:
        while not is_done.is_set():
            seen = len(reader.read(run))
            assert seen % 4 == 1, f"a reader saw {seen} entries, a part of an append"

    readers = [make(), store]
    at_once(lambda i: write() if i == 2 else watch(readers[i]), 3)
    assert len(store.read(run)) == 201, "not all that was added is there"


def one_store_many_threads(make: Opener) -> None:
    """One opened store serves several threads at once."""
    store = make()
    runs = [created(store) for _ in range(8)]

    def work(i: int) -> None:
        run, fence = runs[i]
        stored = entries(1)
        for _ in range(10):
            batch = following(stored, 1, run)
            store.append(behind(run, stored, batch, durable=False), fence)
            stored += batch
            assert store.read(run) == stored, "a thread does not read what it added"

    at_once(work, len(runs))
    for run, _ in runs:
        assert len(store.read(run)) == 11, "threads of one store lost entries"


def fences(make: Opener) -> None:
    """An append with a fencing number needs the newest one; without one it needs only the last entry."""
    worker, rescuer = make(), make()
    run, stale = created(worker)
    lease = rescuer.acquire(run, "b", NOW + TTL + 1, TTL)
    assert lease is not None, "a lease that had expired was not given to somebody else"
    before = picture(worker, run)
    batch = following(entries(1), 1)
    refused(LeaseLost, lambda: worker.append(behind(run, entries(1), batch), stale))
    refused(LeaseLost, lambda: worker.append(behind(run, entries(1), batch), lease.fence + 1))
    assert picture(worker, run) == before, "an append under a lost lease left something behind"
    rescuer.append(behind(run, entries(1), batch), lease.fence)
    worker.append(behind(run, entries(2), following(entries(2), 1)), None)
    assert worker.read(run) == entries(3), "an append without a fencing number did not happen"
    refused(LeaseLost, lambda: worker.append(behind(run, entries(1), batch), stale))


def fences_rise(make: Opener) -> None:
    """Each lease of a run has a fencing number one higher than the one before, for any holder."""
    store = make()
    run, fence = created(store)
    other_run, other_fence = created(store)

    def leased(holder: str, now: float) -> Lease:
        nonlocal fence
        lease = make().acquire(run, holder, now, TTL)
        assert lease is not None, f"`{holder}` did not get a lease that was free"
        assert lease.fence == fence + 1, f"after the fencing number {fence} came {lease.fence}"
        assert (lease.run, lease.expires) == (run, now + TTL), f"the lease is {lease}"
        fence = lease.fence
        return lease

    lease = leased("a", NOW + 1)
    store.release(lease)
    lease = leased("a", NOW + 2)
    store.release(store.renew(lease, NOW + 3, TTL))
    leased("b", NOW + 4)
    leased("c", NOW + 4 + TTL + 1)
    store.append(behind(other_run, entries(1), following(entries(1), 1)), other_fence)


def lease_lasts(make: Opener) -> None:
    """Nobody else gets a lease before it expires by the given `now`; a refused attempt changes nothing."""
    store = make()
    run, fence = created(store)
    before = picture(store, run)
    for now in (NOW, NOW + TTL / 2, NOW + TTL - 0.001):
        assert make().acquire(run, "b", now, TTL) is None, f"a second lease was given {NOW + TTL - now} s too early"
    assert picture(store, run) == before, "a refused try to lease changed the run"
    store.append(behind(run, entries(1), following(entries(1), 1)), fence)
    assert make().acquire(run, "b", NOW + TTL + 0.001, TTL) is not None, "a lease that had expired was not given"


def lease_race(make: Opener) -> None:
    """Of many concurrent callers that want a free lease, one gets it."""
    run, _ = created(make())
    stores = [make() for _ in range(AT_ONCE)]
    leases = at_once(lambda i: stores[i].acquire(run, f"h{i}", NOW + 2 * TTL, TTL), AT_ONCE)
    leases_given = [lease for lease in leases if lease is not None]
    assert len(leases_given) == 1, f"{len(leases_given)} of {AT_ONCE} got the lease"


def renew(make: Opener) -> None:
    """A renewed lease lasts from that time on; renewing one that somebody else has taken over raises LeaseLost."""
    store = make()
    run, fence = created(store)
    lease = store.renew(Lease(run, fence, NOW + TTL), NOW + 30, TTL)
    assert lease == Lease(run, fence, NOW + 30 + TTL), f"the renewed lease is {lease}"
    assert make().acquire(run, "b", NOW + TTL + 1, TTL) is None, "a renewed lease was given to somebody else"
    assert make().acquire(run, "b", NOW + 30 + TTL + 1, TTL) is not None, "a renewed lease never expires"
    before = picture(store, run)
    refused(LeaseLost, lambda: store.renew(lease, NOW + 30 + TTL + 2, 9 * TTL))
    assert picture(store, run) == before, "renewing a lost lease changed the run"


def release(make: Opener) -> None:
    """A released lease is free at once; releasing one that was taken over since does nothing."""
    store = make()
    run, fence = created(store)
    first = Lease(run, fence, NOW + TTL)
    store.release(first)
    assert row_of(store, run).expires == 0.0, "the list of runs shows a lease that was given back"
    second = make().acquire(run, "b", NOW + 1, TTL)
    assert second is not None, "a lease that was given back was not free"
    store.release(first)
    assert row_of(store, run).expires == second.expires, "a lost lease, given back, ended somebody else's"
    assert make().acquire(run, "c", NOW + 2, TTL) is None, "a lost lease, given back, freed the run"


def claims(make: Opener) -> None:
    """A claim leases runs that are due and free, those due first, and no others; an append says when a run is due."""
    store, program = make(), fresh_name()
    runs = [fresh_name() for _ in range(6)]
    for run, due in zip(runs, (NOW, NOW - 2, None, NOW + 1, NOW - 1, NOW - 3), strict=True):
        ttl = TTL if run is runs[5] else 0.0
        assert store.create(first(run)._replace(due=due), program, "a", ttl), "a run could not be made"

    def claimed(now: float, limit: int = 9, **more: Any) -> list[Lease]:
        return make().claim(fresh_name(), now, TTL, limit, **{"programs": [program, "b"], **more})

    assert claimed(NOW - 9) == claimed(NOW, programs=[fresh_name()]) == [], "what is not due or not wanted was claimed"
    assert make().due(NOW).get(program) == 3, "the number of runs that are due is wrong"
    assert claimed(NOW, 1, passed={runs[1]: 0}) == [Lease(runs[4], 2, NOW + TTL)], "a run to pass over was claimed"
    assert claimed(NOW, passed={runs[1]: 1, runs[0]: 0}) == [Lease(runs[1], 2, NOW + TTL)], "a wrong run was claimed"
    refused(LeaseLost, lambda: store.append(behind(runs[1], entries(1), following(entries(1), 1)), 1))
    assert claimed(NOW) == [Lease(runs[0], 2, NOW + TTL)], "a run that was free was not claimed"
    assert claimed(NOW) == [], "a run was claimed twice"
    assert program not in make().due(NOW), "a claimed run counts as one that is free"
    assert store.acquire(runs[1], "b", NOW, TTL) is None, "a claimed run was leased to somebody else"
    # Until a run is due again; one that is not due any more is not claimed when its lease expires.
    store.append(behind(runs[1], entries(1), following(entries(1), 1)), 2)
    store.append(behind(runs[2], entries(1), following(entries(1), 1))._replace(due=NOW + TTL), None)
    left = [runs[5], runs[4], runs[0], runs[3], runs[2]]
    assert [lease.run for lease in claimed(NOW + TTL)] == left, (
        "after their leases had expired, wrong runs were claimed"
    )


def claim_race(make: Opener) -> None:
    """Of many concurrent claims each gets other runs, and together they get all that are due."""
    program, runs = fresh_name(), [fresh_name() for _ in range(AT_ONCE + 5)]
    stores = [make() for _ in range(AT_ONCE)]
    for run in runs:
        assert stores[0].create(first(run)._replace(due=NOW), program, "a", 0.0), "a run could not be made"
    some = at_once(lambda i: stores[i].claim(f"h{i} {program}", NOW, TTL, 2, [program]), AT_ONCE)
    found = [lease.run for leases in some for lease in leases]
    assert len(found) == len(set(found)), "two callers got one run"
    assert sorted(found) == sorted(runs), f"{len(found)} of {len(runs)} runs were claimed"


def unknown_run(make: Opener) -> None:
    """A run that does not exist has no entries, no head and no values; it can't be leased or added to."""
    store, run = make(), fresh_name()
    assert store.read(run) == [], "a run that does not exist has entries"
    assert store.head(run) is None, "a run that does not exist has a head"
    assert store.vault.get(run) == {}, "a run that does not exist has values"
    assert store.vault.erase(run) == 0, "a run that does not exist had values"
    refused(JournalError, lambda: store.acquire(run, "a", NOW, TTL))
    refused(JournalError, lambda: store.append(Append(run, 0, [entry(1)], "s", NOW, True), None))
    refused(JournalError, lambda: store.append(first(run), None))
    assert store.head(run) is None, "what was refused has made a run"


def bytes_survive(make: Opener) -> None:
    """Records, signatures, documents and values are read unchanged: zeros, no UTF-8, a mebibyte, no bytes at all."""
    store = make()
    strange = [b"", b"\0", b"a\0b\0", bytes(range(256)), b"\xff\xfe\xc3\x28", b"\\x00'\"%s", bytes(range(256)) * 4096]
    run, fence = created(store)
    batch = [Entry(1 + i, content, hashlib.sha256(content).digest()) for i, content in enumerate(strange)]
    store.append(Append(run, 0, batch, "s", NOW, True, signature=bytes(range(255, -1, -1))), fence)
    assert make().read(run, 1) == batch, "a record or a digest came back changed"
    head = make().head(run)
    assert head is not None, "a run has no head"
    assert head.signature == bytes(range(255, -1, -1)), "a signature came back changed"
    for i, content in enumerate(strange):
        digest = f"{run}-{i}"
        store.put_document(digest, content)
        assert make().document(digest) == content, "a document came back changed"
    values = {f"value {i}": content for i, content in enumerate(strange)}
    store.vault.put(run, values)
    assert make().vault.get(run) == values, "a value came back changed"


def strange_names(make: Opener) -> None:
    """A run's id is any text without zeros, and two ids that differ in any character are two runs."""
    store, name = make(), fresh_name()
    endings = ["", *" aA\u00e9'\"`\\%_\n", "e\u0301", "/../", ";--", "\u6f22\U0001f642"]
    runs = [name + ending for ending in endings] + [" " + name, name + "x" * (200 - len(name))]
    for i, run in enumerate(runs):
        assert store.create(first(run, entries(1, f"run {i}")), "p", "a", TTL), f"the run {run!r} could not be made"
        store.vault.put(run, {run: str(i).encode()})
    for i, run in enumerate(runs):
        assert make().read(run) == entries(1, f"run {i}"), f"the run {run!r} holds another's entries"
        assert make().vault.get(run) == {run: str(i).encode()}, f"the run {run!r} holds another's values"
    assert {row.run for row in store.rows()} >= set(runs), "the list of runs leaves one out"


def rows(make: Opener) -> None:
    """The list of runs is sorted by start, shows the last append of each run, and can be filtered."""
    store, status = make(), fresh_name()
    runs = sorted(fresh_name() for _ in range(4))  # in another order than they start in
    for run, started in zip(runs, (30.0, 10.5, 40.0, 20.0), strict=True):
        append = Append(run, -1, entries(2), f"{status} made", started, True)
        assert store.create(append, f"program of {run}", "a", TTL), "a run could not be made"
    done = Append(runs[1], 1, following(entries(2), 3), f"{status} done", 77.25, True)
    store.append(done, None)
    expected = [
        Row(runs[1], f"program of {runs[1]}", f"{status} done", 4, 10.5, 77.25, 10.5 + TTL),
        Row(runs[3], f"program of {runs[3]}", f"{status} made", 1, 20.0, 20.0, 20.0 + TTL),
        Row(runs[0], f"program of {runs[0]}", f"{status} made", 1, 30.0, 30.0, 30.0 + TTL),
        Row(runs[2], f"program of {runs[2]}", f"{status} made", 1, 40.0, 40.0, 40.0 + TTL),
    ]
    other = make()
    assert [row for row in other.rows() if row.run in runs] == expected, "the list of runs is wrong"
    for names in ([f"{status} done"], {f"{status} made"}, iter([f"{status} done", f"{status} made", "no such"])):
        statuses = list(names)
        found = other.rows(iter(statuses))
        assert found == [row for row in expected if row.status in statuses], f"the runs of {statuses} are wrong"
    assert other.rows([]) == [], "runs of no status were asked for, and some were found"
    by_status = [f"{status} made", f"{status} done"]
    for more, left in (
        ({"program": f"program of {runs[3]}"}, expected[1:2]),
        ({"since": 20.0}, expected[1:]),
        ({"limit": 2}, expected[2:]),
        ({"limit": 0}, []),
        ({"since": 15.0, "limit": 3, "program": f"program of {runs[0]}"}, expected[2:3]),
    ):
        assert other.rows(by_status, **more) == left, f"the runs with {more} are wrong"
    assert [other.row(row.run) for row in expected] == expected, "the line of a run is wrong"
    assert other.row(fresh_name()) is None, "there is a line of a run that does not exist"
    assert [name for name in other.names() if name in runs] == runs, "the names of the runs are wrong"


def heads(make: Opener) -> None:
    """The head is the last entry of the last append, with that append's signature or none."""
    store = make()
    stored = entries(2)
    run, fence = created(store, stored, signature=b"first")
    expected: list[bytes | None] = [b"first", None, b"third"]
    for number, signature in enumerate(expected):
        if number:
            batch = following(stored, 2)
            store.append(behind(run, stored, batch, signature=signature), fence)
            stored += batch
        head = make().head(run)
        assert head == Head(run, stored[-1].seq, stored[-1].digest, signature), f"the head is {head}"


def documents(make: Opener) -> None:
    """A document is stored under its digest from the first time on; putting it again changes nothing, even at once."""
    store, digest = make(), fresh_name()
    assert store.document(digest) is None, "a document that was never put is there"
    stores = [make() for _ in range(AT_ONCE)]
    at_once(lambda i: stores[i].put_document(digest, b"text"), AT_ONCE)
    assert make().document(digest) == b"text", "a document is not what was put"
    assert store.document(digest.upper()) is None, "a document is there under another digest"


def vault(make: Opener) -> None:
    """Values are stored by run and reference; a second put replaces the first; an erasure lasts, for one run only."""
    store, other = make(), make()
    mine, theirs = fresh_name(), fresh_name()
    store.vault.put(mine, {"a": b"1", "b": b"2"})
    store.vault.put(theirs, {"a": b"3"})
    store.vault.put(mine, {"b": b"4", "c": b"5"})
    store.vault.put(mine, {})
    assert other.vault.get(mine) == {"a": b"1", "b": b"4", "c": b"5"}, "values are not those that were put"
    count = other.vault.erase(mine)
    assert count == 3, f"three values were erased, and {count} were reported"
    for reader in (store, other, make()):
        assert reader.vault.get(mine) == {}, "an erased value came back"
        assert reader.vault.get(theirs) == {"a": b"3"}, "erasing a run's values changed another's"
    assert store.vault.erase(mine) == 0, "values were erased twice"
    none = fresh_name()
    assert other.vault.erase(none) == 0, "a run that does not exist had values"
    for run in (mine, none):
        refused(LeaseLost, partial(store.vault.put, run, {"d": b"6"}))
        assert other.vault.get(run) == {}, "after an erasure the vault took values of that run"


def vault_apart(make: Opener) -> None:
    """Values are only in the vault, which also takes those of a run that does not exist yet."""
    store, run, value = make(), fresh_name(), b"7a1c-the-sensitive-value"
    store.vault.put(run, {"a": value})
    assert store.create(first(run), "p", "a", TTL), "values that were put first kept the run from being made"
    journal_text = repr((store.read(run), store.head(run), row_of(store, run))).encode()
    assert value not in journal_text, "a sensitive value is in the journal"
    store.vault.erase(run)
    assert store.read(run) == entries(1), "erasing values changed the entries"


def reopened(make: Opener) -> None:
    """A store that is closed and opened again has the same content, and continues the fencing numbers."""
    run = fresh_name()
    with closing(make()) as store:
        lease = store.create(first(run), "p", "a", TTL)
        assert lease is not None, "a run could not be made"
        store.append(behind(run, entries(1), following(entries(1), 2), durable=False, signature=b"s"), lease.fence)
        store.put_document(run, b"text")
        store.vault.put(run, {"a": b"1"})
        before = picture(store, run)
    store = make()
    assert picture(store, run) == before, "a store that was opened again shows something else"
    assert store.document(run) == b"text", "a document was gone"
    assert store.vault.get(run) == {"a": b"1"}, "a value was gone"
    again = store.acquire(run, "a", NOW, TTL)
    assert again == Lease(run, lease.fence + 1, NOW + TTL), f"after {lease} came {again}"


CHECKS: Final = tuple(
    Check(body.__name__, " ".join((body.__doc__ or "").split()), body)
    for body in (
        create_once,
        create_again,
        append_in_order,
        conflict,
        append_race,
        append_whole,
        one_store_many_threads,
        fences,
        fences_rise,
        lease_lasts,
        lease_race,
        renew,
        release,
        claims,
        claim_race,
        unknown_run,
        bytes_survive,
        strange_names,
        rows,
        heads,
        *UPKEEP,
        documents,
        vault,
        vault_apart,
        reopened,
    )
)
