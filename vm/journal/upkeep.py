"""The checks of `conformance.py` for what operators do with a store: keys that change, and copies."""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.journal.store import Head, Journal, Lease
from stepward.vm.journal.trials import NOW, TTL, behind, created, entries, first, following, fresh_name, picture

Opener = Callable[[], Journal]


def signed_anew(make: Opener) -> None:
    """The signature of a head is replaced if the head is still that one, and nothing else of the run is changed."""
    store, held = make(), entries(2)
    run, fence = created(store, held, signature=b"first")
    before, last = picture(store, run), held[-1]
    assert store.sign(Head(run, last.seq, last.digest, b"second")), "a head was not signed anew"
    after = picture(make(), run)
    assert after[1] == Head(run, last.seq, last.digest, b"second"), f"the head is {after[1]}"
    assert (after[0], after[2]) == (before[0], before[2]), "signing a head anew changed more than its signature"
    batch = following(held, 1)
    store.append(behind(run, held, batch, signature=b"third"), fence)
    for late in (
        Head(run, last.seq, last.digest, b"late"),
        Head(run, batch[-1].seq, last.digest, b"late"),
        Head(run, last.seq, batch[-1].digest, b"late"),
        Head(fresh_name(), batch[-1].seq, batch[-1].digest, b"late"),
    ):
        assert not store.sign(late), "a head was signed that is not the head of the run"
    kept = Head(run, batch[-1].seq, batch[-1].digest, b"third")
    assert make().head(run) == kept, "a head that was signed too late was changed"
    lease = Lease(run, fence + 1, NOW + TTL + TTL)
    assert store.acquire(run, "b", NOW + TTL, TTL) == lease, "signing a head anew changed the lease"


def snapshots(make: Opener) -> None:
    """A snapshot shows runs and documents as they were when it was taken, and keeps nobody from writing."""
    store, other, held = make(), make(), entries(2)
    run, fence = created(store, held, signature=b"first")
    document, late = fresh_name(), fresh_name()
    store.put_document(document, b"text")
    store.vault.put(run, {"a": b"1"})
    with store.frozen() as still:
        before = picture(still, run)
        assert before == picture(store, run), "a snapshot shows another run than the store"
        other.append(behind(run, held, following(held, 2), signature=b"second"), fence)
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
    shown = make().head(run)
    assert shown == Head(run, 3, following(held, 2)[-1].digest, b"second"), f"after a snapshot the head is {shown}"
    with store.frozen() as later:
        assert later.head(run) == shown, "a second snapshot is of the moment of the first"
