"""The time that a run may take: a continuation that wants more, and a journal that says more."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from typing import Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.continuations import Interrupted
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, with_note
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import calls_in, variant
from stepward.sabotage.playing.world import Asking
from stepward.sabotage.stores.forging import Data
from stepward.sabotage.target import Target
from stepward.vm.language.steps.wait import LONGEST_WAIT
from stepward.vm.machine.run import Run

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


TOOK: Final = (1, 7, 0)
"""Seconds that each call takes."""

PAUSES: Final = (5, 60, 0)
"""Seconds before an attempt that is not the first."""

FAILING: Final = (1, 2, 0)
"""The number of attempts that fail of each call that is tried again."""

BESIDE: Final = Decimal("0.001")
"""Seconds before and after a start."""


class TimeAtTheEdge(Attack):
    """Calls take time, fail and are tried again after pauses. The time of the run ends at any moment: just before and
    after each start, and in the midst of each call and pause."""

    family = Family.LOAD
    surface = "time of a run"
    action = "over before, in and after each call and each pause"
    invariant = Invariant.BOUNDS
    defence = "no call starts once the time of the run is over, and until then the run goes on"
    severity = "high"
    enumerates = "the moments just before and after every start of the run, and between two of them"
    weight = 10
    needs = (Need("it makes no call", lambda target: target.calls),)

    def play(self, case: Case) -> Outcome:
        """Play a run without a limit, then with one that ends at each moment."""
        from hypothesis import strategies as st

        took = case.pick("seconds of each call", st.sampled_from(TOOK))
        pause = case.pick("seconds before an attempt again", st.sampled_from(PAUSES))
        failing = case.pick("attempts that fail", st.sampled_from(FAILING))
        target = variant(case.target, "tried again", _tried_again)
        how = (took, pause, failing)
        _, starts = self._timed(case, target, None, how)
        begins = [Decimal(at) / 1_000_000 for at in starts]
        between = [(one + other) / 2 for one, other in pairwise(begins)]
        edges = [one + beside for one in begins for beside in (-BESIDE, BESIDE)]
        moments = sorted({round(one, 3) for one in (*edges, *between) if one >= BESIDE})
        outcome = Outcome.ABSORBED
        for most in case.each("the time is over at moment", moments):
            limited = variant(target, f"{self.name} {most}", lambda data: data.update(language=2, timeout_seconds=most))  # noqa: B023
            ended, _ = self._timed(case, limited, most, how)
            outcome = Outcome.BLOCKED if ended.reason == "time" else outcome
        return outcome

    def _timed(
        self, case: Case, target: Target, most: Decimal | None, how: tuple[int, int, int]
    ) -> tuple[Run, list[int]]:
        """Play a run. Return it, and when its calls started, in microseconds since its start."""
        took, pause, failing = how
        trial = Trial(case, faults=False, target=target)
        starts: list[int] = []

        def decide(asking: Asking) -> CallAnswer | None:
            first = json.loads(trial.store.inner.read(trial.run)[0].record)["at"]
            starts.append(trial.clock.time - first)
            late = None if most is None else starts[-1] - int(most * 1_000_000)
            case.hold(late is None or late < 0, self.invariant, f"`{asking.call.id}` starts when the time is over")
            trial.clock.time += took * 1_000_000
            is_tried = asking.attempt <= min(failing, asking.call.attempts - 1)
            return CallAnswer("fails", "it is down") if is_tried else None

        trial.world.decides.append(decide)
        ends = "without a limit" if most is None else f"of {most} s"
        case.log(f"a run {ends}: calls take {took} s, and pauses {pause} s")
        return trial.finish(trial.machine(retry_delay=lambda _: float(pause))), starts


def _tried_again(data: Data) -> None:
    """Let each call that says nothing of failures be tried three times."""
    for call in calls_in(data):
        if not {"on_error", "retry", "max_retries", "catch"} & call.keys():
            call.update(on_error="retry", max_retries=3)


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
