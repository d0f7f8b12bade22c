"""Skipped transitions: the journal has other branches than those that ran, or has them too early."""

from __future__ import annotations

from stepward.sabotage.attack import Need
from stepward.sabotage.attacks.rewriting import Forged, rewriting
from stepward.sabotage.attacks.transitions import picked
from stepward.sabotage.invariants import Invariant
from stepward.sabotage.needs import FORKS
from stepward.sabotage.playing.places import frame_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.vm.machine.keys import FrameName, shown
from stepward.vm.machine.plan import Plan


def _is_start(record: Data) -> bool:
    """Return whether a branch starts with a record."""
    frame = frame_of(record["body"])
    return record["kind"] == "item" and isinstance(frame[-1][3], str)


def _join_of(records: list[Data], frame: FrameName) -> int | None:
    """Return the number of the record that joins a branch, None if the run ended before that."""
    step, visit = frame[-1][:2]
    for record in records:
        body = record["body"]
        is_here = (body.get("step"), body.get("visit"), frame_of(body)) == (step, visit, frame[:-1])
        if record["kind"] == "joined" and is_here:
            return int(record["seq"])
    return None


def _named(frame: FrameName) -> str:
    return f"`{shown(frame[:-1], frame[-1][0])}[{frame[-1][3]}]`"


@rewriting(
    surface="records of a branch",
    action="all of them removed",
    invariant=Invariant.KEPT,
    defence="branches are joined when all of them have ended",
    needs=(FORKS,),
)
def branch_skipped(trial: Trial, records: list[Data]) -> Forged:
    """All records of a branch are removed, so that its siblings are joined without it."""

    def is_joined(record: Data) -> bool:
        return _is_start(record) and _join_of(records, frame_of(record["body"])) is not None

    frame = frame_of(records[picked(trial.case, records, is_joined)]["body"])
    join = _join_of(records, frame)
    assert join is not None, "it was picked for that"
    left = [one for one in records[:join] if frame_of(one["body"])[: len(frame)] != frame]
    trial.case.log(f"drop the records of the branch {_named(frame)}")
    return Forged([*left, *records[join:]], len(left) + 1)


@rewriting(
    surface="start of a branch",
    action="written before the end of a branch that it depends on",
    defence="a branch starts when all that it depends on have succeeded",
    needs=(
        Need(
            "no branch depends on another",
            lambda target: any(any(fork.needs) for fork in target.program.layout.forks.values()),
        ),
    ),
)
def branch_too_early(trial: Trial, records: list[Data]) -> Forged:
    """The start of a branch is put before the record with which a branch ended that it depends on."""
    case, plan = trial.case, trial.target.plan
    seq = picked(case, records, lambda record: _is_start(record) and bool(_before(plan, records, record)))
    first = max(_before(plan, records, records[seq]))
    case.log(f"start the branch {_named(frame_of(records[seq]['body']))} before record {first}")
    moved = [*records[:first], records[seq], *records[first:seq], *records[seq + 1 :]]
    return Forged(moved, seq + 1)


def _before(plan: Plan, records: list[Data], start: Data) -> list[int]:
    """Return the numbers of the last records of the branches on which one depends, directly."""
    frame = frame_of(start["body"])
    step, visit, turn, name = frame[-1]
    fork = next(fork for at, fork in plan.program.layout.forks.items() if plan.steps[at].id == step)
    names = [plan.steps[position].id for position in fork.branches]
    needed = [(*frame[:-1], (step, visit, turn, names[one])) for one in fork.needs[names.index(str(name))]]
    lasts = ([one["seq"] for one in records if frame_of(one["body"])[: len(frame)] == other] for other in needed)
    return [max(found) for found in lasts if found]
