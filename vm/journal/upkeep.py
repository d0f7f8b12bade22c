"""The checks of `conformance.py` for what operators do with a store: new keys, copies, runs that are pruned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from stepward.vm.journal.store import AppendConflict, Head, Journal, JournalError, Lease, LeaseLost, Switch
from stepward.vm.journal.trials import (
    NOW,
    TTL,
    at_once,
    behind,
    created,
    entries,
    first,
    following,
    fresh_name,
    picture,
    refused,
)

Opener = Callable[[], Journal]


def signed_anew(make: Opener) -> None:
    """The signature of a head is replaced if the head is still that one, and nothing else of the run is changed."""
    store, stored = make(), entries(2)
    run, fence = created(store, stored, signature=b"first")
    before, last = picture(store, run), stored[-1]
    assert store.sign(Head(run, last.seq, last.digest, b"second")), "a head was not signed anew"
    after = picture(make(), run)
    assert after[1] == Head(run, last.seq, last.digest, b"second"), f"the head is {after[1]}"
    assert (after[0], after[2]) == (before[0], before[2]), "signing a head anew changed more than its signature"
    batch = following(stored, 1)
    store.append(behind(run, stored, batch, signature=b"third"), fence)
    for late in (
        Head(run, last.seq, last.digest, b"late"),
        Head(run, batch[-1].seq, last.digest, b"late"),
        Head(run, last.seq, batch[-1].digest, b"late"),
        Head(fresh_name(), batch[-1].seq, batch[-1].digest, b"late"),
    ):
        assert not store.sign(late), "a head was signed that is not the head of the run"
    signed = Head(run, batch[-1].seq, batch[-1].digest, b"third")
    assert make().head(run) == signed, "a head that was signed too late was changed"
    lease = Lease(run, fence + 1, NOW + TTL + TTL)
    assert store.acquire(run, "b", NOW + TTL, TTL) == lease, "signing a head anew changed the lease"


def snapshots(make: Opener) -> None:
    """A snapshot shows runs and documents as they were when it was taken, and keeps nobody from writing."""
    store, other, stored = make(), make(), entries(2)
    run, fence = created(store, stored, signature=b"first")
    document, late = fresh_name(), fresh_name()
    store.put_document(document, b"text")
    store.vault.put(run, {"a": b"1"})
    with store.frozen() as still:
        before = picture(still, run)
        assert before == picture(store, run), "a snapshot shows another run than the store"
        other.append(behind(run, stored, following(stored, 2), signature=b"second"), fence)
        assert other.create(first(late), "p", "a", TTL), "while there was a snapshot, no run could be made"
        other.put_document(late, b"late")
        other.vault.put(run, {"b": b"2"})
        assert picture(still, run) == before, "a snapshot changed with the store"
        assert still.head(late) is None, "a run of after the snapshot is in it"
        assert still.read(late) == [], "a run of after the snapshot has entries in it"
        assert late not in set(still.names()), "a run of after the snapshot is named in it"
        assert still.document(late) is None, "a document of after the snapshot is in it"
        assert still.document(document) == b"text", "a document is not in the snapshot"
        assert still.vault.get(run).get("a") == b"1", "a value is not in the snapshot"
    snapshot_head = make().head(run)
    assert snapshot_head == Head(run, 3, following(stored, 2)[-1].digest, b"second"), (
        f"after a snapshot the head is {snapshot_head}"
    )
    with store.frozen() as later:
        assert later.head(run) == snapshot_head, "a second snapshot is of the moment of the first"


def prunes(make: Opener) -> None:
    """A pruned run is not there, its id stays taken, and what was kept in its place stays; all others are as before."""
    store, stored = make(), entries(3)
    run, fence = created(store, stored, signature=b"first")
    stays, _ = created(store)
    other, head = picture(store, stays), Head(run, 2, stored[-1].digest, None)
    assert store.kept(run) is None, "before it was pruned, something was kept of a run"
    for late in (head._replace(seq=1), head._replace(digest=stored[0].digest), head._replace(run=fresh_name())):
        assert not store.prune(late, b"late"), "a run was pruned that has another head"
    assert store.prune(head, b"kept"), "a run was not pruned"
    for reader in (store, make()):
        _require_gone(reader, run)
        assert reader.kept(run) == b"kept", "what was kept is not what was given"
        assert run in set(reader.pruned()), "a pruned run is not named as one"
        assert stays not in set(reader.pruned()), "a run is named as pruned that was not"
        assert reader.kept(stays) is None, "something was kept of a run that was not pruned"
        assert picture(reader, stays) == other, "pruning one run changed another"
    for known in (fence, None):
        refused(AppendConflict, partial(store.append, behind(run, stored, following(stored, 1)), known))
    refused(LeaseLost, lambda: store.renew(Lease(run, fence, NOW + TTL), NOW, TTL))
    refused(JournalError, lambda: store.acquire(run, "b", NOW + TTL, TTL))
    assert not store.sign(head._replace(signature=b"late")), "the head of a pruned run was signed"
    assert store.prune(head, b"kept anew"), "what was kept could not be replaced"
    assert make().kept(run) == b"kept anew", "what was kept was not replaced"
    _require_gone(make(), run)


def _require_gone(store: Journal, run: str) -> None:
    leases = [store.create(first(run, entries(1, f"again {i}")), "p", f"h{i}", TTL) for i in range(2)]
    assert leases == [None, None], "a run was made with the id of one that was pruned"
    assert store.read(run) == [], "a pruned run has entries"
    assert store.head(run) is None, "a pruned run has a head"
    assert store.row(run) is None, "a pruned run has a line in the list"
    assert run not in {row.run for row in store.rows()}, "a pruned run is in the list"
    assert run not in set(store.names()), "a pruned run is named"


def pruned_race(make: Opener) -> None:
    """Of callers that create a run again and again while it is pruned, none makes it."""
    stores = [make() for _ in range(4)]
    for _ in range(3):
        run, _ = created(stores[0])
        head, is_over = Head(run, 0, entries(1)[0].digest, None), threading.Event()

        def act(number: int, run: str = run, head: Head = head, is_over: threading.Event = is_over) -> bool:
            if number == 0:
                try:
                    return not stores[0].prune(head, b"kept")
                finally:
                    is_over.set()
            lease = None
            while lease is None and not is_over.is_set():
                lease = stores[number].create(first(run), "p", f"h{number}", TTL)
            return lease is not None

        assert not any(at_once(act, len(stores))), "a run was made again while it was pruned, or could not be pruned"


def erases_many(make: Opener) -> None:
    """Several runs are erased at once as one by one: their values are gone, and no more are taken."""
    store, runs = make(), [fresh_name() for _ in range(3)]
    for number, run in enumerate(runs):
        store.vault.put(run, {f"{i}": b"1" for i in range(number + 1)})
    count = store.vault.erase_all(runs[1:])
    assert count == 5, f"five values were erased, and {count} were reported"
    assert [len(make().vault.get(run)) for run in runs] == [1, 0, 0], "the wrong values were erased"
    for run in runs[1:]:
        refused(LeaseLost, partial(store.vault.put, run, {"a": b"1"}))


def breakers(make: Opener) -> None:
    """A run that an open breaker holds is due to nobody until it is closed; who switched it is told in order."""
    store, name, other = make(), f"tool:{fresh_name()}", f"tool:{fresh_name()}"
    opened = Switch(name, True, NOW, "five failures", "machine")
    closed = Switch(name, False, NOW + 1, "it works again", "ann")
    run, fence = created(store)
    lease = Lease(run, fence, NOW + TTL)
    assert not store.switch(closed), "a breaker was closed that was not open"
    assert not store.hold(lease, name), "a breaker that is not open held a run"
    assert store.switch(opened), "a breaker was not opened"
    assert not make().switch(opened), "a breaker was opened twice"
    assert store.switch(opened._replace(name=other)), "a second breaker was not opened"
    assert {name, other} <= make().opened(), "an open breaker is not named"
    refused(LeaseLost, partial(store.hold, lease._replace(fence=fence + 1), name))
    assert store.hold(lease, name), "an open breaker did not hold a run"
    late = NOW + 10 * TTL
    claimed = {one.run for one in make().claim("b", late, TTL, 1_000, ["program"])}
    assert run not in claimed, "a run that is held was claimed"
    again = store.acquire(run, "b", late, TTL)
    assert again == Lease(run, fence + 1, late + TTL), f"a run that is held could not be leased by its name: {again}"
    store.release(again)
    assert store.switch(closed._replace(name=other)), "a breaker was not closed"
    assert run not in {one.run for one in store.claim("c", late, TTL, 1_000)}, "the wrong breaker let a run go"
    assert store.switch(closed), "a breaker was not closed"
    assert name not in make().opened(), "a breaker that was closed is open"
    assert run in {one.run for one in make().claim("d", late, TTL, 1_000)}, (
        "a run was not due when its breaker was closed"
    )
    assert make().switches(name) == [opened, closed], "what was switched is not told as it was"
    pruned_run, fence = created(store)
    assert store.switch(opened), "a breaker was not opened again"
    assert store.hold(Lease(pruned_run, fence, NOW + TTL), name), "an open breaker did not hold a second run"
    assert store.prune(Head(pruned_run, 0, entries(1)[0].digest, None), b"kept"), "a run that is held was not pruned"
    assert store.switch(closed), "a breaker was not closed again"
    found = {one.run for one in store.claim("e", late + 10 * TTL, TTL, 1_000)}
    assert pruned_run not in found, "a run that was pruned while it was held was claimed"


UPKEEP: Final = (signed_anew, snapshots, prunes, pruned_race, erases_many, breakers)
