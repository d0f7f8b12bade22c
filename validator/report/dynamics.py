"""What `stepward analyze` found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.dynamics.counts import ATTEMPTS, MOVES
from stepward.validator.dynamics.course import AGAIN
from stepward.validator.dynamics.measures import UNITS
from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, safe
from stepward.validator.report.trace import moment

if TYPE_CHECKING:
    from stepward.validator.dynamics.alarms import Alarm, Shift
    from stepward.validator.dynamics.analysis import Fleet
    from stepward.validator.dynamics.measures import Measures

HEADINGS: Final = {
    "entropy": "H(A|S) bits",
    "rollback_density": "rollback",
    "tool_churn": "churn",
    "edit_cycles": "cycles",
    "violation_rate": "violations",
    "retries": "retries",
    "tokens": "tokens/step",
    "cost": "cost/step",
    "seconds": "s/step",
}
"""The headings of measures; specs/analysis.md defines them."""

MEANINGS: Final = {
    "entropy": "transition entropy in bits: how little a step tells of the next one; 0 if it always decides it",
    "rollback_density": "share of steps that lead back to a step which the run had left",
    "tool_churn": "share of calls that repeat a call of the same tool with the same arguments",
    "edit_cycles": "share of calls that repeat one after another call of the tool: changed, and changed back",
    "violation_rate": "violations of guardrails per step",
    "retries": "attempts per step that are tried again",
    "tokens": "tokens of models per step",
    "cost": "cost of models per step, in the currency of the model's adapter",
    "seconds": "seconds that attempts take per step, without waiting",
}
"""What the measures say, in a line each."""


def fleet_name(fleet: Fleet) -> str:
    """Return the name of a fleet for a heading."""
    return f"`{fleet.program}`" + (f" ({fleet.family})" if fleet.family else "")


def cells_of(measures: Measures) -> list[str]:
    """Return the measures as texts, in the order of HEADINGS."""
    return [number(getattr(measures, name)) for name in HEADINGS]


def number(value: float) -> str:
    """Return a number with three significant digits, and no digits that say nothing."""
    return f"{value:.0f}" if value == 0 or abs(value) >= 1_000 else f"{value:.3g}"


def render_fleet(fleet: Fleet, *, color: bool = False) -> str:
    """Return the analysis of a fleet as text."""
    first, last = fleet.courses[0], fleet.courses[-1]
    text = f"{safe(fleet_name(fleet))}: {counted(len(fleet.courses), 'run')}, "
    text += f"{day(first.started)} to {day(last.started)}\n"
    rows = [["all", "", *cells_of(fleet.whole)]]
    if len(fleet.windows) > 1:
        rows += [
            [f"{one.first}–{one.last}", day(fleet.courses[one.first].started), *cells_of(one.measures)]
            for one in fleet.windows
        ]
    columns = [Column("runs"), Column("from"), *(Column(heading, is_number=True) for heading in HEADINGS.values())]
    text += render(columns, rows, color=color)
    text += "".join(f"{safe(line)}\n" for line in _notes(fleet))
    text += "".join(f"{safe(line)}\n" for alarm in fleet.alarms for line in alarm_lines(alarm, fleet))
    return text


def _notes(fleet: Fleet) -> Iterator[str]:
    if fleet.distances is not None:
        mean = sum(one.bits for one in fleet.distances) / len(fleet.distances)
        yield f"path variance: {number(mean)} bits from the nearest kind of healthy runs, on average"
    if fleet.change_points:
        starts = ", ".join(f"`{fleet.courses[one].run}`" for one in fleet.change_points)
        yield f"stretches, seen from the end: new ones begin at {starts}"
    if fleet.is_other_program:
        yield "note: some runs are of another version of the program than the healthy ones; learn a baseline of it"
    if fleet.watched is not None and not fleet.alarms:
        yield "no alarm: these runs behave as the healthy ones"


def alarm_lines(alarm: Alarm, fleet: Fleet) -> Iterator[str]:
    """Yield the lines that tell an alarm: since when, how sure, what changed, which runs to look at."""
    runs = fleet.courses
    if alarm.kind == "outlier":
        unlike = max(fleet.watched.readings[alarm.noticed].unlike) if fleet.watched is not None else 0.0
        yield f"alarm[outlier]: run `{runs[alarm.since].run}` is unlike the healthy ones"
        yield f"  = by {number(unlike)} bits: so much better do other shares than theirs explain it"
    else:
        until = "" if alarm.until is None else f" until `{runs[alarm.until].run}`"
        yield (
            f"alarm[drift]: these runs behave otherwise since `{runs[alarm.since].run}` "
            f"({day(runs[alarm.since].started)}){until}"
        )
        yield (
            f"  = sure: {percent(alarm.sure or 0.0)}; since some run from `{runs[alarm.earliest].run}` to "
            f"`{runs[alarm.latest].run}` (95 %), noticed at `{runs[alarm.noticed].run}`"
        )
    for shift in alarm.shifts:
        yield f"  = changed: {shift_words(shift)}"
    yield f"  = look at: {', '.join(f'`{runs[one].run}`' for one in alarm.look_at)}"


def shift_words(shift: Shift) -> str:
    """Return in words how the share of an action changed."""
    about, state, action = shift.cell
    if about == MOVES:
        what = f"`{state}` → `{action}`"
    elif about == ATTEMPTS:
        what = "attempts that are tried again" if action == AGAIN else "attempts that settle a call"
    else:
        what = f"calls of a tool that made {state} other calls before: {action}"
    where = f", most of `{'`, `'.join(shift.where)}`" if shift.where else ""
    return (
        f"{what}: {percent(shift.was)}, now {percent(shift.now)} ({percent(shift.low)} to {percent(shift.high)}), "
        f"{shift.seen} of {shift.out_of}{where}"
    )


def percent(share: float) -> str:
    """Return a share in percent; one that is nearly all or nothing is not rounded to all or nothing."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.3g} %"


def day(at: int) -> str:
    """Return the day and the minute of a time in microseconds since the epoch, in UTC."""
    return moment(at)[:16].replace("T", " ")


# -- data --------------------------------------------------------------------------------------------------------------


def analysis_data(fleets: Sequence[Fleet], left_out: int) -> dict[str, Any]:
    """Return the analysis as plain data; `left_out` is the number of runs that have not ended."""
    return {"version": 1, "units": dict(UNITS), "left_out": left_out, "fleets": [_fleet_data(one) for one in fleets]}


def _fleet_data(fleet: Fleet) -> dict[str, Any]:
    learnt, points = fleet.baseline, fleet.change_points
    return {
        "program": fleet.program,
        "family": fleet.family,
        "measures": fleet.whole._asdict(),
        "windows": [
            {"first": fleet.courses[one.first].run, "last": fleet.courses[one.last].run, **one.measures._asdict()}
            for one in fleet.windows
        ],
        "steps": {
            step: {"attempts": work.attempts, "tokens": work.tokens, "cost": str(work.cost), "seconds": work.took / 1e6}
            for step, work in fleet.work.items()
        },
        "runs": [_run_data(fleet, number) for number in range(len(fleet.courses))],
        "baseline": None if learnt is None else {"runs": learnt.runs, "kinds": len(learnt.kinds.weights)},
        "other_program": fleet.is_other_program,
        "change_points": None if points is None else [fleet.courses[one].run for one in points],
        "alarms": [_alarm_data(one, fleet) for one in fleet.alarms],
    }  # fmt: skip


def _run_data(fleet: Fleet, at: int) -> dict[str, Any]:
    course, measures = fleet.courses[at], fleet.runs[at]._asdict()
    del measures["runs"]
    data = {"run": course.run, "started": moment(course.started), "status": course.status, **measures}
    if fleet.distances is not None and fleet.watched is not None:
        reading = fleet.watched.readings[at]
        data |= {
            "path_variance": fleet.distances[at].bits,
            "kind": fleet.distances[at].kind,
            "surprise": reading.excess,
            "odds_of_change": reading.odds,
        }
    return data


def _alarm_data(alarm: Alarm, fleet: Fleet) -> dict[str, Any]:
    def name(at: int | None) -> str | None:
        return None if at is None else fleet.courses[at].run

    return {
        "kind": alarm.kind,
        "since": name(alarm.since),
        "earliest": name(alarm.earliest),
        "latest": name(alarm.latest),
        "noticed": name(alarm.noticed),
        "until": name(alarm.until),
        "sure": alarm.sure,
        "changed": [
            {
                **shift.cell._asdict(),
                **{field: getattr(shift, field) for field in ("was", "now", "low", "high", "seen", "out_of")},
                "where": list(shift.where),
            }
            for shift in alarm.shifts
        ],
        "look_at": [name(one) for one in alarm.look_at],
    }
