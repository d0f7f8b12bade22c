"""Skipped transitions: forged deliveries, edited or removed intents, and steps after the end of a run."""

from __future__ import annotations

from collections.abc import Callable

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.rewriting import FROM_OUTSIDE, Forged, changed, rewriting, with_body, with_note
from stepward.sabotage.attacks.tampering import Honest, must_find, must_not_go_on, must_refuse, pick_index, receipt_for
from stepward.sabotage.attacks.transitions import picked, succeeded
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import INTENT, WRITE
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data, Forger, entry_of
from stepward.vm.journal.store import Append


@rewriting(
    surface="outcomes in the journal",
    action="replaced by a resumption or reconciliation when nothing was suspended or in doubt",
    invariant=Invariant.DELIVERY,
    defence="only a suspended step is resumed, and only a step in doubt is reconciled",
)
def forged_delivery(trial: Trial, records: list[Data]) -> Forged:
    """The outcome of a call is replaced by a resumption or reconciliation for which the run did not wait."""
    case = trial.case
    seq = picked(case, records, lambda record: record["kind"] == "attempt" and succeeded(record))
    kind, note = [("resumed", {}), ("reconciled", {"verdict": "done"})][pick_index(case, "kind", 2)]
    case.log(f"write `{kind}` into record {seq} in place of an attempt")
    return changed(records, seq, records[seq] | {"kind": kind, "note": note})


_FORGED_INTENTS: dict[str, Callable[[Data], Data]] = {
    "key": lambda intent: with_note(intent, key="0" * 64),
    "performance": lambda intent: with_note(intent, performance=intent["note"]["performance"] + 1),
    "arguments": lambda intent: with_body(intent, args=intent["body"]["args"] | {"another": 1}),
    "tool": lambda intent: with_body(intent, tool="another"),
    "policies": lambda intent: with_body(intent, policies=["0" * 64]),
}


@rewriting(
    surface="an intent in the journal",
    action="its key, performance, arguments, tool or policies edited",
    invariant=Invariant.ONCE,
    defence="a replay computes every intent again before a machine continues the run",
    needs=(INTENT,),
)
def intent_forged(trial: Trial, records: list[Data]) -> Forged:
    """An intent is edited: its step, key or performance, so that the effect is performed under another key."""
    case = trial.case
    from hypothesis import strategies as st

    seq = picked(case, records, lambda record: record["kind"] == "intent")
    what = case.pick("field", st.sampled_from(list(_FORGED_INTENTS)))
    case.log(f"edit the {what} of the intent in record {seq}")
    return changed(records, seq, _FORGED_INTENTS[what](records[seq]))


MAX_EFFECTS = 2
"""The number of effects after which the process may die. Most runs have no more."""


class _AfterAnEffect(Points):
    """Kills a process after an effect, before it gets the answer. `left` is the number of effects that it survives."""

    def __init__(self, case: Case, left: int) -> None:
        super().__init__(None, case.log)
        self.step = ""
        self._ways = {f"after {call.tool} was asked by `{call.id}`": call.id for call in case.target.writes}
        self._left = left

    async def pass_by(self, name: str) -> None:
        """Go past a point."""
        if not self.is_dead and name in self._ways:
            self._left -= 1
            if self._left < 0:
                self.step = self._ways[name]
                self.target = len(self.passed)
        await super().pass_by(name)


class OpenIntentRemoved(Attack):
    """The process dies during an effect, and the intent is removed, so that the next process would start the effect
    again.

    The attacker has no signature of the shorter journal. With a stored signature from that time, the attacker could
    roll back the run, and only a receipt would reveal it; see `journal-rolled-back`.
    """

    family = Family.TRANSITIONS
    surface = "end of the journal of a run whose process died"
    action = "cut off before the intent of an effect that is in progress"
    invariant = Invariant.ONCE
    defence = "a machine with a key continues only runs that this key has signed"
    weight = 2
    needs = (WRITE,)

    def play(self, case: Case) -> Outcome:
        """Kill the process after an effect, remove the intent, and recover the run."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        points = _AfterAnEffect(case, pick_index(case, "effects before", MAX_EFFECTS))
        try:
            trial.carry_on(trial.start(trial.machine(points)), trial.machine(points))
            return Outcome.NOT_APPLICABLE
        except Killed:
            run = trial.reload()
        forger = Forger(trial)
        entries, records = forger.store.read(run.id), forger.records()
        seq = next(r["seq"] for r in reversed(records) if r["kind"] == "intent" and r["body"]["step"] == points.step)
        head = forger.store.head(run.id)
        is_kept = case.pick("signature kept", st.booleans())
        case.log(f"cut off the intent of `{points.step}` and what follows, and write the head anew")
        forger.put_with_head(entries[:seq], head.signature if head is not None and is_kept else None)
        must_find(trial, "somebody with the key", (), trusts_key=True)
        must_refuse(case, trial, trial.machine(), Honest(run, forger.snapshot(), receipt_for(run)))
        return Outcome.DETECTED


class StepAfterTheEnd(Attack):
    """A record of an earlier step is appended to an ended run through the store's own interface, with a correct number
    and link.
    """

    family = Family.TRANSITIONS
    surface = "interface of the store"
    action = "a record appended to a run that has ended"
    invariant = Invariant.ENDINGS
    defence = "nothing happens in a run after its ending"
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Append a record after the end."""
        trial = Trial(case, faults=False)
        unsigned = trial.machine(key=None)
        run = trial.carry_on(trial.start(unsigned), unsigned)
        case.needs(run.is_over)
        forger = Forger(trial)
        records, last = forger.records(), forger.store.read(run.id)[-1]
        again = [record for record in records if record["kind"] not in FROM_OUTSIDE]
        again.append(records[0] | {"kind": "cancel", "body": {}, "note": {}})
        record = again[pick_index(case, "record", len(again))]
        case.log(f"append `{record['kind']}` of `{record['body'].get('step', '')}` again, behind the end")
        entry = entry_of(record, last.digest, last.seq + 1)
        case.count()
        forger.store.append(Append(run.id, last.seq, [entry], "RUNNING", 0.0, True), None)
        must_find(trial, "somebody without a key", (), trusts_key=False)
        must_not_go_on(case, trial, trial.machine(key=None), run)
        return Outcome.DETECTED
