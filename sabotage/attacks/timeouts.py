"""The time that a run may take: a continuation that wants more, and a journal that says more."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.continuations import Interrupted
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, with_note
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.vm.language.steps.wait import LONGEST_WAIT

LIMITED: Final = Need(
    "runs may take any time", lambda target: [1] if target.program.timeout_seconds is not None else []
)


class TimeAskedAgain(Attack):
    """A run with a time limit is interrupted, and the program that continues it states a longer time, or none."""

    family = Family.LOAD
    surface = "continuation"
    action = "a time limit that is longer than what is left"
    invariant = Invariant.BOUNDS
    defence = "a continuation has at most the time that the run before had left, unless the operator grants more"
    weight = 2
    needs = (LIMITED,)

    def play(self, case: Case) -> Outcome:
        """Interrupt a run, continue it by a program that waits for years, and look until when that may."""
        from hypothesis import strategies as st

        broken = Interrupted(case)
        ends_by = broken.history.state.ends_by
        left = ends_by - broken.history.records[-1].at
        case.needs([left] if left > 0 else [])
        granted = case.pick("seconds that the operator grants", st.sampled_from((0, 3_600)))
        lasts = case.pick("the time that it states", st.sampled_from((None, LONGEST_WAIT)))
        steps: list[Data] = [{"id": "for_years", "type": "wait", "seconds": LONGEST_WAIT}]
        more = {} if lasts is None else {"timeout_seconds": lasts}
        grant = {"steps": 5} | ({"time": granted} if granted else {})
        run = case.needs(broken.continued(broken.program(steps=steps, **more), grant=grant))
        most = left + granted * 1_000_000
        start = broken.trial.clock.time
        allowed = run.due is not None and run.due * 1e6 <= start + most + 1
        case.hold(allowed, Invariant.BOUNDS, f"a chain that had {left} microseconds left may go on until {run.due}")
        return Outcome.BLOCKED


def _later(records: list[Data]) -> Forged:
    return changed(records, 0, with_note(records[0], due=records[0]["note"]["due"] + 1_000_000))


def _endless(records: list[Data]) -> Forged:
    note = {name: value for name, value in records[0]["note"].items() if name != "due"}
    return changed(records, 0, records[0] | {"note": note})


def _too_soon(records: list[Data]) -> Forged:
    time = records[0]["note"]["due"] - 1
    ending = {"kind": "ended", "body": {"ends": "BUDGET_EXCEEDED", "reason": "time"}, "note": {"time": time}}
    return Forged([records[0], records[0] | ending], 2)


_FORGERIES: Final = {
    "a second more for the run": _later,
    "no end of its time": _endless,
    "an ending a microsecond before its time": _too_soon,
}


@rewriting(
    surface="time of a run in the journal",
    action="changed, so that the run may go on, or is over too soon",
    defence="a replay computes when the time of a run is over from its start and its program",
    needs=(LIMITED,),
    invariant=Invariant.BOUNDS,
)
def time_rewritten(trial: Trial, records: list[Data]) -> Forged:
    """The first record says another end of the run's time, or a run ends for its time before that."""
    names = list(_FORGERIES)
    name = names[pick_index(trial.case, "forgery", len(names))]
    trial.case.log(f"write {name} into the journal")
    return _FORGERIES[name](records)
