"""How many runs pass before a change is noticed: `stepward analyze` beside fixed thresholds and another analyser.

    python benchmarks/drift.py             # tunes on the seeds below 5,000, reports on those from 5,000 on

All sides are tuned on healthy runs for one false alarm in 1,000 runs. The other analyser is that of llm-nano-vm
(`pip install 'stepward[peers]'`); without it its rows are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from statistics import mean, median
from typing import Final, NamedTuple

from fleets import FLEETS, fleet

from stepward.validator.dynamics.alarms import watch
from stepward.validator.dynamics.baseline import Baseline, learn
from stepward.validator.dynamics.course import AGAIN, Course
from stepward.validator.dynamics.detector import Detector
from stepward.validator.dynamics.measures import measures_of

HEALTHY: Final = next(iter(FLEETS))
NEVER: Final = 10**9
RATE: Final = 1 / 1_000
TUNING: Final = 1
"""The first seed of the healthy runs for the baseline and the thresholds."""

REPORTED: Final = 5_000
"""The first seed that nobody looks at while tuning."""

BEFORE: Final = 100
AFTER: Final = 1_000
"""Runs before the change, and after it; what is not noticed by then counts as one run more."""

FEW: Final = (100, 300, 1_000)
"""Healthy runs of baselines whose false alarms are reported, too."""

MEASURES: Final = ("entropy", "rollback_density", "tool_churn", "edit_cycles", "retries")

Scores = Callable[[Course], Sequence[float]]


class Side(NamedTuple):
    """One contender: returns for each run of a fleet whether it raises an alarm there."""

    name: str
    alarms: Callable[[Sequence[Course]], list[bool]]


def own(baseline: Baseline) -> Side:
    def alarms(courses: Sequence[Course]) -> list[bool]:
        noticed = {alarm.noticed for alarm in watch(baseline, courses).alarms}
        return [number in noticed for number in range(len(courses))]

    return Side("stepward analyze", alarms)


def thresholds(name: str, scores: Scores, healthy: Iterable[Course]) -> Side:
    """Return fixed thresholds: one for each score, all exceeded equally seldom, together at the common rate."""
    values = [list(scores(course)) for course in healthy]
    columns = [sorted(column, reverse=True) for column in zip(*values, strict=True)]
    allowed = int(RATE * len(values))
    limits = [column[0] for column in columns]
    for rank in range(len(values)):
        looser = [column[rank] for column in columns]
        if sum(_exceeds(row, looser) for row in values) > allowed:
            break
        limits = looser
    return Side(name, lambda courses: [_exceeds(scores(course), limits) for course in courses])


def _exceeds(row: Sequence[float], limits: Sequence[float]) -> bool:
    return any(value > limit for value, limit in zip(row, limits, strict=True))


def measured(course: Course) -> list[float]:
    """Return the measures of one run that can tell that something is wrong."""
    found = measures_of([course])
    return [float(getattr(found, name)) for name in MEASURES]


def surprise(baseline: Baseline) -> Scores:
    """Return the surprise of one run alone, by the same baseline."""
    detector = Detector(baseline.kinds, baseline.runs)

    def score(course: Course) -> list[float]:
        detector.restart()
        return [detector.add(baseline.table.numbers(course)).excess]

    return score


def nano(reference: Course) -> Scores:
    """Return the measures of llm-nano-vm's analyser for one run; `reference` is its baseline, which is one run.

    Its formulas: `rollback_density` retried steps / steps; `tool_churn_rate` repeated step ids / steps;
    `invariant_violation_rate` failed steps / steps; `transition_sequence_variance` the share of pairs of steps that
    only one of run and reference has; `transition_entropy` the entropy of the pairs of steps, which is joint, so that a
    linear program of n different steps has log2(n - 1) bits.
    """
    from nano_vm.analyzer import TraceAnalyzer

    base = _trace(reference)

    def score(course: Course) -> list[float]:
        found = TraceAnalyzer(_trace(course), base)
        return [
            found.rollback_density(),
            found.tool_churn_rate(),
            found.invariant_violation_rate(),
            found.transition_sequence_variance() or 0.0,
            found.transition_entropy(),
        ]

    return score


def _trace(course: Course):  # type: ignore[no-untyped-def]
    from nano_vm.models import StepResult, StepStatus, Trace

    trace = Trace(program_name=course.program)
    attempts = iter(course.attempts)
    for move in course.moves[:-1]:
        tried = 0
        for attempt in attempts:
            if attempt.action != AGAIN:
                break
            tried += 1
        trace.steps.append(StepResult(step_id=move.state, status=StepStatus.SUCCESS, retries=tried))
    return trace


def delays(side: Side, name: str, seeds: Iterable[int]) -> list[int]:
    """Return for each seed how many runs after the change the first alarm comes; the run of the change is 1."""
    found = []
    for seed in seeds:
        courses, raised = list(fleet(name, seed, BEFORE + AFTER, BEFORE)), [False]
        for runs in (50, 200, 500, AFTER):  # no alarm depends on later runs
            raised = side.alarms(courses[: BEFORE + runs])[BEFORE:]
            if True in raised:
                break
        found.append(raised.index(True) + 1 if True in raised else AFTER + 1)
    return found


def false_alarms(side: Side, seeds: Iterable[int], runs: int) -> tuple[int, int]:
    """Return how many alarms healthy runs raise, and how many runs these are."""
    raised = [side.alarms(list(fleet(HEALTHY, seed, runs, NEVER))) for seed in seeds]
    return sum(map(sum, raised)), sum(map(len, raised))


def sides(learnt: int, tuned: int) -> list[Side]:
    """Return all contenders, tuned on healthy runs."""
    baseline = learn(list(fleet(HEALTHY, TUNING, learnt, NEVER)))
    apart = list(fleet(HEALTHY, TUNING + 1, tuned, NEVER))
    found = [
        own(baseline),
        thresholds("fixed thresholds on the measures of a run", measured, apart),
        thresholds("a fixed threshold on its surprise", surprise(baseline), apart),
    ]
    if find_spec("nano_vm") is not None:
        reference = max(islice(apart, 200), key=lambda course: -abs(len(course.moves) - 8))
        found.append(thresholds("llm-nano-vm, thresholds tuned", nano(reference), apart))
    return found


def _rate(side: Side, seeds: Iterable[int], runs: int) -> str:
    if not runs:
        return ""
    raised, counted = false_alarms(side, seeds, runs)
    return f"{1_000 * raised / counted:.2f} / 1,000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learnt", type=int, default=2_000, help="healthy runs of the baseline")
    parser.add_argument("--tuned", type=int, default=10_000, help="separate healthy runs for the fixed thresholds")
    parser.add_argument("--seeds", type=int, default=24, help="fleets of each sort")
    parser.add_argument(
        "--healthy", type=int, default=1_500, help="runs of each healthy fleet; 0 counts no false alarms"
    )
    parser.add_argument("--fleet", action="append", choices=[name for name in FLEETS if name != HEALTHY])
    parser.add_argument("--first", type=int, default=REPORTED, help="the first seed")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    names = options.fleet or [name for name in FLEETS if name != HEALTHY]
    print(f"{'':44}{'false alarms':>14}" + "".join(f"{name:>20}" for name in names))
    for side in sides(options.learnt, options.tuned):
        sys.stdout.write(f"{side.name:44}{_rate(side, seeds, options.healthy):>14}")
        for name in names:
            found = delays(side, name, seeds)
            missed = sum(delay > AFTER for delay in found)
            words = f"{median(found):g} ({mean(found):.0f}" + (f", {missed} not)" if missed else ")")
            sys.stdout.write(f"{words:>20}")
            sys.stdout.flush()
        print()
    for learnt in FEW if options.healthy else ():
        baseline = learn(list(fleet(HEALTHY, TUNING, learnt, NEVER)))
        print(f"false alarms with a baseline of {learnt} healthy runs: {_rate(own(baseline), seeds, 500)}")
    print(f"\nruns until a change is noticed: median (mean; not noticed in {AFTER} runs count as {AFTER + 1})")


if __name__ == "__main__":
    main()
