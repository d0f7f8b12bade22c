"""Measures of runs, one by one or many together; specs/analysis.md has their definitions and units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log, log2
from typing import Final, NamedTuple

from stepward.validator.dynamics.course import AGAIN, Call, Course, Move, Work


class Measures(NamedTuple):
    """The measures of some runs together. Rates are shares from 0 to 1; the last four are means per step."""

    runs: int
    steps: int
    entropy: float
    rollback_density: float
    tool_churn: float
    edit_cycles: float
    violation_rate: float
    retries: float
    tokens: float
    cost: float
    seconds: float


UNITS: Final[Mapping[str, str]] = {
    "entropy": "bits",
    "rollback_density": "share of steps",
    "tool_churn": "share of calls",
    "edit_cycles": "share of calls",
    "violation_rate": "per step",
    "retries": "per step",
    "tokens": "per step",
    "cost": "per step",
    "seconds": "per step",
}
"""The unit of each measure, in the order in which they are shown."""


def measures_of(courses: Sequence[Course]) -> Measures:
    """Return the measures of some runs together; all are 0 where there is nothing to divide by."""
    steps = sum(len(course.moves) for course in courses)
    calls = [marked for course in courses for marked in repetitions(course.calls)]
    work = [one for course in courses for one in course.work.values()]
    again = sum(move.action == AGAIN for course in courses for move in course.attempts)
    return Measures(
        runs=len(courses),
        steps=steps,
        entropy=entropy(move for course in courses for move in course.moves),
        rollback_density=_share(sum(rollbacks(course.moves) for course in courses), steps),
        tool_churn=_share(sum(one != NEW for one in calls), len(calls)),
        edit_cycles=_share(sum(one == CYCLE for one in calls), len(calls)),
        violation_rate=_share(sum(course.violations for course in courses), steps),
        retries=_share(again, steps),
        tokens=_share(sum(one.tokens for one in work), steps),
        cost=_share(float(sum(one.cost for one in work)), steps),
        seconds=_share(sum(one.took for one in work) / 1e6, steps),
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def entropy(moves: Iterable[Move]) -> float:
    """Return the transition entropy H(A|S) in bits: how uncertain the action is where the state is known.

    The entropy of each state has the correction of Miller and Madow, (actions - 1) / (2 n ln 2), and is at most the
    logarithm of the number of its actions. A state with one action has 0.
    """
    states: dict[str, Counter[str]] = {}
    for move in moves:
        states.setdefault(move.state, Counter())[move.action] += 1
    total = sum(counts.total() for counts in states.values())
    return sum(counts.total() / total * _corrected(counts) for counts in states.values()) if total else 0.0


def _corrected(counts: Counter[str]) -> float:
    n, actions = counts.total(), len(counts)
    plain = -sum(count / n * log2(count / n) for count in counts.values())
    return min(plain + (actions - 1) / (2 * n * log(2)), log2(actions))


def rollbacks(moves: Sequence[Move]) -> int:
    """Return how many moves of a run lead back to a state that it has left before."""
    left, found = set(), 0
    for move in moves:
        left.add(move.state)
        found += move.action in left
    return found


NEW: Final = "new"
REPEATED: Final = "repeated"
CYCLE: Final = "cycle"
"""What a call of a tool is in its run: see `repetitions`."""


def repetitions(calls: Sequence[Call]) -> list[str]:
    """Return what each call of a run is.

    `repeated` has the arguments of the call of this tool just before it. `cycle` has the arguments of an earlier call
    of this tool, with others between: something was changed, and changed back.
    """
    seen: set[Call] = set()
    last: dict[str, Call] = {}
    found = []
    for call in calls:
        found.append(NEW if call not in seen else REPEATED if last[call.tool] == call else CYCLE)
        seen.add(call)
        last[call.tool] = call
    return found


def work_by_step(courses: Iterable[Course]) -> dict[str, Work]:
    """Return what each step took in all runs together."""
    found: dict[str, Work] = {}
    for course in courses:
        for step, work in course.work.items():
            found[step] = found.get(step, Work()).plus(work)
    return found
