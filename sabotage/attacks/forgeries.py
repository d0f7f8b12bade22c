"""Hash corruption: heads, signatures, receipts, documents and sensitive values are forged or rolled back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.hashes import tail_of
from stepward.sabotage.attacks.tampering import Honest, must_find, pick_index, receipt_for, tampering
from stepward.sabotage.invariants import Invariant, NotApplicable, Outcome
from stepward.sabotage.needs import SENSITIVE
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Forger, StoreSnapshot, flipped, plant, stranger
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import Head
from stepward.vm.machine.run import Run

FIRST_POINT, LAST_POINT = 4, 12
"""The range of points at which a process is killed: the run exists already, and most programs are still running."""


class Halfway(NamedTuple):
    """An interrupted run, the store's snapshot of it with its head, and its end in another process."""

    trial: Trial
    snapshot: StoreSnapshot
    head: Head
    ended: Run


def halfway(case: Case) -> Halfway:
    """Kill a process, take a snapshot, and let another process end the run. Raises NotApplicable if the first one
    reached the end."""
    trial = Trial(case, faults=False)
    number = FIRST_POINT + pick_index(case, "points passed", LAST_POINT - FIRST_POINT)
    try:
        trial.start(trial.machine(Points(number, case.log)))
    except Killed:
        head = case.needs(trial.store.inner.head(trial.run))
        snapshot = Forger(trial).snapshot()
        ended = trial.carry_on(_released(trial))
        case.needs(ended.seq != snapshot.entries[-1].seq)
        return Halfway(trial, snapshot, head, ended)
    raise NotApplicable


def _released(trial: Trial) -> Run:
    """Return the run after the lease of the dead process has expired."""
    trial.clock.time += 1_000_000_000
    return trial.reload()


class Fork(Attack):
    """A run is copied halfway, and both copies are continued, each by a machine with the key.

    Both are sound and signed. Only the receipt of one refutes the other.
    """

    family = Family.HASHES
    surface = "copies of a store"
    action = "a run continued in two of them"
    invariant = Invariant.TAMPERING
    defence = "a receipt contains the digest of its record"
    severity = "high"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """End the run twice from the same middle state."""
        was = halfway(case)
        store = MemoryJournal()
        twin = Trial(case, faults=False, store=store)
        twin.run = was.trial.run
        plant(store, twin.run, was.snapshot.entries, was.snapshot, signature=was.head.signature)
        twin.oracle.rest()
        case.log("copy the store as it was when the process was killed, and carry on with the copy too, a day later")
        twin.clock.time += 86_400_000_000
        ended = twin.carry_on(twin.reload())
        case.hold(not twin.faults(), Invariant.REPLAY, "an honest journal is called damaged")
        # Both wait for one time, perhaps, and go on in the same microsecond: then they are no two branches.
        case.needs(ended.head != was.ended.head)
        receipt = receipt_for(was.ended)
        must_find(twin, "somebody with a receipt of the other branch", (receipt,), trusts_key=False)
        signed = receipt_for(ended, case.key)
        must_find(was.trial, "somebody with the key and a receipt of the copy", (signed,), trusts_key=True)
        return Outcome.DETECTED


@tampering(
    surface="signature of the head",
    action="made with another key, for a changed journal",
    defence="only signatures of the given keys are accepted",
    by_itself=False,
)
def strange_signature(case: Case, forger: Forger, honest: Honest) -> None:
    """The journal is changed and rehashed, and its head is signed with the attacker's own key."""
    entries, records = list(honest.snapshot.entries), forger.records()
    seq = pick_index(case, "record", len(entries))
    case.log(f"write another time into record {seq}, hash the rest anew, and sign the head with another key")
    records[seq]["at"] += 1
    forged = [*entries[:seq], *tail_of(records, seq)]
    forger.put_with_head(forged, stranger().sign_head(forger.run, forged[-1].seq, forged[-1].digest))


_EDITS: dict[str, Callable[[Receipt], dict[str, Any]]] = {
    "status": lambda receipt: {"status": "FAILED" if receipt.status == "SUCCESS" else "SUCCESS"},
    "trace": lambda receipt: {"trace": flipped(receipt.trace, 0)},
    "digest": lambda receipt: {"digest": flipped(receipt.digest, 0)},
    "seq": lambda receipt: {"seq": receipt.seq - 1},
    "run": lambda receipt: {"run": f"{receipt.run}0"},
}
_SIGNED_EDITS: dict[str, Callable[[Receipt], dict[str, Any]]] = {
    **_EDITS,
    "key": lambda _: {"key": stranger().id},
    "signature": lambda receipt: {"signature": flipped(receipt.signature or b"", 0)},
    "both removed": lambda _: {"key": None, "signature": None},
}


class ReceiptEdited(Attack):
    """The holder of a receipt edits one of its fields; the journal is sound."""

    family = Family.HASHES
    surface = "a receipt"
    action = "one of its fields edited"
    invariant = Invariant.TAMPERING
    defence = "the signature covers every field, and the records contain the status and the trace"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Edit a field of a receipt, signed or not, and verify the run with it."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = trial.start()
        if not run.is_over and case.pick("carried to its end", st.booleans()):
            run = trial.carry_on(run)
        is_signed = case.pick("signed", st.booleans())
        receipt = receipt_for(run, case.key if is_signed else None)
        edits = _SIGNED_EDITS if is_signed else _EDITS
        case.hold(not trial.faults((receipt,), trusts_key=is_signed), Invariant.REPLAY, "a good receipt is refused")
        name = case.pick("field", st.sampled_from(list(edits)))
        case.act(f"edit the {name} of the receipt")
        edited = Receipt.from_json(replace(receipt, **edits[name](receipt)).to_json())
        must_find(trial, "somebody with the edited receipt", (edited,), trusts_key=is_signed)
        return Outcome.DETECTED


def _document_edited_trial(case: Case) -> Trial:
    """Return a trial in its own store, because runs of a store share documents."""
    return Trial(case, faults=False, store=MemoryJournal())


@tampering(
    surface="program and policies in the store",
    action="edited without a change of the digests",
    defence="a document must have the digest that the first record names",
    trial=_document_edited_trial,
)
def document_edited(case: Case, forger: Forger, honest: Honest) -> None:
    """The stored document of a run's program or policy is edited."""
    from hypothesis import strategies as st

    digest = forger.documents[pick_index(case, "document", len(forger.documents))]
    text = honest.snapshot.documents[digest]
    if case.pick("still a document", st.sampled_from([True, False])):
        data = json.loads(text)
        data["policy" if "policy" in data else "name"] = "another"
        changed = canonical(data).encode()
    else:
        changed = flipped(text, pick_index(case, "bit", len(text) * 8))
    case.log(f"edit the document {digest[:8]}")
    forger.put_document(digest, changed)


@tampering(
    surface="vault",
    action="a value or its salt edited, removed or swapped with another",
    defence="the record contains a commitment to the value and its salt",
    needs=(SENSITIVE,),
)
def sensitive_value_edited(case: Case, forger: Forger, honest: Honest) -> None:
    """The vault is edited: a value or its salt is changed, two values are swapped, or one is removed."""
    from hypothesis import strategies as st

    secrets = dict(honest.snapshot.secrets)
    # References are random, so a script identifies a value by the order of the records.
    text = b"".join(entry.record for entry in honest.snapshot.entries)
    names = sorted((name for name in secrets if not name.startswith("token:")), key=lambda n: text.find(n.encode()))
    case.needs(names)
    name = names[pick_index(case, "value", len(names))]
    how = case.pick("change", st.sampled_from(["value", "salt", "removed", "swapped"]))
    case.log(f"change a sensitive value in the vault: {how}")
    if how == "removed":
        del secrets[name]
    elif how == "swapped":
        other = names[pick_index(case, "with value", len(names))]
        secrets[name], secrets[other] = secrets[other], secrets[name]
    else:
        bit = 0 if how == "salt" else len(secrets[name]) * 8 - 1
        secrets[name] = flipped(secrets[name], bit)
    forger.put_secrets(secrets)
