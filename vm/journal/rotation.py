"""Changes the key of a store: the heads of its runs are signed anew, so that nobody needs the key of before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from stepward.vm.journal.pruning import Pruned, verify_pruned
from stepward.vm.journal.signing import SigningKey, VerifyKey, signer_of
from stepward.vm.journal.store import Head, Journal
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import Replay, verify

TRIES: Final = 10
"""How often a head is signed again that a machine changes meanwhile."""

MOVING: Final = "machines append to it all the time: let them sign with the new key, and sign again"


class Signed(NamedTuple):
    """What became of a run: whether the new key has signed its head by now, and else why it has not."""

    run: str
    is_new: bool
    faults: tuple[Fault, ...] = ()


def sign_anew(
    journal: Journal,
    key: SigningKey,
    old: Sequence[VerifyKey],
    replay: Callable[[str], Replay] | None = None,
) -> Iterator[Signed]:
    """Sign the head of each run with `key` that one of the `old` keys has signed, and yield what became of each run.

    What is kept of pruned runs is signed, too. A run is verified first, with `replay` also its meaning; one with a
    fault is left as it is. `is_new` is false for a run that `key` had signed already. Runs may go on meanwhile. Raises
    JournalError if the store can't be used.
    """
    for run in journal.pruned():
        yield _sign_pruned(journal, run, key, old)
    for run in journal.names():
        yield _sign_one(journal, run, key, old, None if replay is None else replay(run))


def _sign_pruned(journal: Journal, run: str, key: SigningKey, old: Sequence[VerifyKey]) -> Signed:
    kept = journal.kept(run) or b""
    if not verify_pruned(run, kept, [key.public], ()).faults:
        return Signed(run, False)
    faults = verify_pruned(run, kept, old, ()).faults
    if faults:
        return Signed(run, False, faults)
    pruned = Pruned.from_bytes(kept)
    return Signed(run, journal.prune(pruned.head, pruned.signed(key).to_bytes()))


def _sign_one(journal: Journal, run: str, key: SigningKey, old: Sequence[VerifyKey], replay: Replay | None) -> Signed:
    for _ in range(TRIES):
        if signer_of(run, journal.head(run), [key.public]) is not None:
            return Signed(run, False)
        verdict = verify(journal, run, keys=old, replay=replay)
        head = verdict.head
        if verdict.faults or head is None:
            if signer_of(run, journal.head(run), [key.public]) is not None:
                return Signed(run, False)  # a machine with the new key went on with it meanwhile
            return Signed(run, False, verdict.faults)
        signature = key.sign_head(run, head.seq, head.digest)
        if journal.sign(Head(run, head.seq, head.digest, signature)):
            return Signed(run, True)
    return Signed(run, False, (Fault(run, None, f"the head of run `{run}` changed {TRIES} times", MOVING),))
