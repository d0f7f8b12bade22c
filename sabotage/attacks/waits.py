"""Waits and deadlines: a run that goes on before its time, because of a clock that somebody sets or of what a journal
says, and an answer that comes too late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, with_note
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.places import place_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.vm import DeliveryRefused, MemoryJournal, Program, Suspend
from stepward.vm.language.steps import WaitStep
from stepward.vm.machine.clock import ManualClock

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
        (suspended, *_), due = run.suspensions, int((run.due or 0.0) * 1e6)
        payload = case.pick("answer", trial.target.output(trial.target.calls[suspended.step]))
        trial.clock.time = due + 1
        case.act(f"answer `{suspended.step}` after the deadline")
        try:
            case.do(trial.machine().resume(suspended.token, payload, by=trial.settler))
        except DeliveryRefused:
            pass
        else:
            raise Breach(Invariant.DELIVERY, f"`{suspended.step}` takes an answer after its deadline")
        if case.pick("by a clock that is set back", st.booleans()):
            trial.clock.time = due - 1_000_000
        try:
            case.do(trial.machine().resume(suspended.token, payload, by=trial.settler))
        except DeliveryRefused:
            pass
        else:
            raise Breach(Invariant.DELIVERY, f"`{suspended.step}` takes an answer after its deadline was recorded")
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
    waiting = next(one for one in reversed(records[:seq]) if _begins(one) and place_of(one["body"]) == place)
    case.log(f"write into record {seq} that the wait ended a microsecond too soon")
    return changed(records, seq, with_note(record, time=waiting["note"]["due"] - 1))


SOON, LATE, IN_TIME = 10, 20, 5
"""The seconds after which two calls may not be answered any more, and a time before both."""

TOOLS: Final = {"ask": {"effect": "none", "suspends": True}, "note": {"effect": "read"}}


def _ask(name: str, seconds: int) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "ask", "deadline_seconds": seconds, "on_error": "skip"}


def _rest(seconds: int) -> dict[str, Any]:
    return {"id": "rest", "type": "wait", "seconds": seconds}


def _behind(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [dict(step) for step in steps]}


NOTE: Final = {"id": "note", "type": "tool", "tool": "note"}
WAITING: Final[Mapping[str, dict[str, Any]]] = {
    "sub-steps": {"parallel_steps": [_ask("a", SOON), _ask("b", LATE)]},
    "sub-steps, the later one first": {"parallel_steps": [_ask("a", LATE), _ask("b", SOON)]},
    "branches": {"branches": {"one": _behind(_ask("a", SOON)), "two": _behind(_ask("b", LATE))}},
    "branches, the later one first": {"branches": {"one": _behind(_ask("a", LATE)), "two": _behind(_ask("b", SOON))}},
    "a branch that goes on": {
        "branches": {"one": _behind(_ask("a", SOON), NOTE), "two": _behind(_ask("b", LATE))},
    },
    "a branch that rests": {"branches": {"one": _behind(_rest(SOON), NOTE), "two": _behind(_ask("b", LATE))}},
}
"""What waits for answers at once."""

MOMENTS: Final = (IN_TIME, SOON - 1, SOON + 1, LATE - 1, LATE + 1, LATE + 99)


class AnswersAfterAnother(Attack):
    """Several calls or waits have times of their own. Somebody answers one of them when none of the times is over, or
    one, or all, and nobody has taken up the run meanwhile."""

    family = Family.TIME
    surface = "resume tokens"
    action = "an answer after its deadline, where the time of another one was over before"
    invariant = Invariant.ONCE
    defence = "whoever delivers first records all that is over by the clock"
    severity = "high"
    enumerates = "what waits at once, which call is answered, and when"
    weight = 30
    draws = True

    def play(self, case: Case) -> Outcome:
        """Answer each call at each moment, in a run of its own."""
        for what in case.each("calls wait as", tuple(WAITING)):
            step = {"id": "all", "type": "parallel", **WAITING[what]}
            data = {"name": "answers", "language": 2, "tools": TOOLS, "steps": [step]}
            program = Program.from_dict(data)
            for name in ("a", "b"):
                for moment in MOMENTS:
                    self._play(case, program, what, name, moment)
        return Outcome.BLOCKED

    def _play(self, case: Case, program: Program, what: str, name: str, moment: int) -> None:
        clock = ManualClock(tick=0)
        tools = {"ask": lambda: Suspend("?"), "note": lambda: 1}
        machine = case.machine(tools, None, MemoryJournal(), clock=clock)
        run = case.do(machine.run(program, {}, run_id=case.run_id()))
        token = next((one.token for one in run.suspensions if one.step == name), None)
        if token is None:
            return
        due = SOON if (name == "a") is not what.endswith("the later one first") else LATE
        clock.time += moment * 1_000_000
        case.act(f"answer `{name}` of {what} after {moment} seconds")
        try:
            case.do(machine.resume(token, "yes"))
            is_taken = True
        except DeliveryRefused:
            is_taken = False
        is_due = moment < due
        message = f"of {what} `{name}` is answered after {moment} of {due} seconds: taken is {is_taken}"
        case.hold(is_taken is is_due, self.invariant, message)
