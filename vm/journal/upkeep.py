"""The checks of `conformance.py` for what operators do with a store: keys that change."""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.journal.store import Head, Journal, Lease
from stepward.vm.journal.trials import NOW, TTL, behind, created, entries, following, fresh_name, picture

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
