"""Waits and deadlines: a run that goes on before its time, because of a clock that somebody sets or of what a journal
says, and an answer that comes too late."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, with_note
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.places import place_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.vm import DeliveryRefused
from stepward.vm.language.steps import WaitStep

DATED: Final = Need("no call has a deadline", lambda target: any(call.deadline for call in target.calls.values()))
TIMED: Final = Need(
    "no step waits for a time, or has a deadline",
    lambda target: DATED.is_met(target) or any(isinstance(step.step, WaitStep) for step in target.plan.steps),
)

SHARES: Final = (1, 2, 1_000, 1_000_000)
"""Into how many parts a wait is cut: the attacker comes one part before its end."""


class TakenUpBeforeItsTime(Attack):
    """A process whose clock shows a time before the end of a wait, or before a deadline, takes up all runs; later one
    does at the very end."""

    family = Family.TIME
    surface = "clock of a process that takes up runs"
    action = "set to a time before a wait is over, and then to its end"
    invariant = Invariant.GRAPH
    defence = "the journal keeps when a wait is over, and nobody ends it before that by its own clock"
    needs = (TIMED,)

    def play(self, case: Case) -> Outcome:
        """Play until the run waits, come too early, and let it go on at its time."""
        from hypothesis import strategies as st

        trial = Trial(case)
        run = trial.start()
        for _ in range(20):
            if run.is_over or (run.due and run.status == "SUSPENDED"):
                break
            run = trial.deliver(run, trial.machine())
        due = int((case.needs(None if run.is_over else run.due)) * 1e6)
        length = max(due - trial.clock.time, 1)
        share = case.pick("share of the wait", st.sampled_from(SHARES))
        trial.clock.time = due - 1 - length // share
        case.act(f"take up all runs {due - trial.clock.time} microseconds before the end of the wait")
        with trial.alone():
            case.do(trial.machine().recover_all())
        case.do(trial.machine().recover(run.id))
        early = trial.reload()
        case.hold(early.seq == run.seq, Invariant.GRAPH, f"`{run.step}` goes on before its wait is over")
        trial.clock.time = due + 1  # a float in the list of runs may be off by less than a microsecond
        case.act("take up all runs at the end of the wait")
        with trial.alone():
            recovered, failures = case.do(trial.machine().recover_all())
        case.hold(not failures and len(recovered) == 1, Invariant.KEPT, f"nobody goes on with `{run.step}`: {failures}")
        trial.oracle.judge(trial.carry_on(recovered[0]))
        return Outcome.ABSORBED


_ENDS: Final = ("waited", "expired")


def _begins(record: Data) -> bool:
    """Return whether a record says when a wait is over, or a deadline passes."""
    is_held = record["kind"] == "waiting" or record["body"].get("kind") == "suspended"
    return is_held and "due" in record["note"]


class AnswerAfterTheDeadline(Attack):
    """Somebody answers after the deadline has passed, before any process has noticed that, or after one has; and a
    process whose clock is set back gets the answer again."""

    family = Family.TIME
    surface = "token of a call whose deadline has passed"
    action = "used to answer all the same"
    invariant = Invariant.DELIVERY
    defence = "whoever takes an answer first records which deadlines have passed by its clock"
    needs = (DATED,)

    def play(self, case: Case) -> Outcome:
        """Play until a call has a deadline, let it pass, and answer."""
        from hypothesis import strategies as st

        trial = Trial(case)
        run = trial.start()
        for _ in range(20):
            if run.is_over or (run.suspensions and run.due):
                break
            run = trial.deliver(run, trial.machine())
        case.needs(not run.is_over and run.suspensions and run.due)
        (held, *_), due = run.suspensions, int((run.due or 0.0) * 1e6)
        payload = case.pick("answer", trial.target.output(trial.target.calls[held.step]))
        trial.clock.time = due + 1
        case.act(f"answer `{held.step}` after the deadline")
        try:
            case.do(trial.machine().resume(held.token, payload))
        except DeliveryRefused:
            pass
        else:
            raise Breach(Invariant.DELIVERY, f"`{held.step}` takes an answer after its deadline")
        if case.pick("by a clock that is set back", st.booleans()):
            trial.clock.time = due - 1_000_000
        try:
            case.do(trial.machine().resume(held.token, payload))
        except DeliveryRefused:
            pass
        else:
            raise Breach(Invariant.DELIVERY, f"`{held.step}` takes an answer after its deadline was recorded")
        trial.clock.time = due + 2
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED


@rewriting(
    surface="times of a wait in the journal",
    action="changed, so that the wait was over sooner",
    defence="a replay computes when a wait is over from the program, and refuses an end before that",
    needs=(TIMED,),
)
def wait_cut_short(trial: Trial, records: list[Data]) -> Forged:
    """The record of a wait or of a deadline says another end, or the record of its end another time."""
    case = trial.case
    kinds = case.needs([record["seq"] for record in records if _begins(record) or record["kind"] in _ENDS])
    seq = kinds[pick_index(case, "record", len(kinds))]
    record = records[seq]
    if _begins(record):
        case.log(f"write into record {seq} that the wait is over a second sooner")
        return changed(records, seq, with_note(record, due=record["note"]["due"] - 1_000_000))
    place = place_of(record["body"])
    begun = next(one for one in reversed(records[:seq]) if _begins(one) and place_of(one["body"]) == place)
    case.log(f"write into record {seq} that the wait ended a microsecond too soon")
    return changed(records, seq, with_note(record, time=begun["note"]["due"] - 1))
