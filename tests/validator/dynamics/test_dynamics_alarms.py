"""Fast: baselines of healthy runs, alarms and their words, distances, change points; all draws have seeds."""

from __future__ import annotations

import json

import pytest

from otlp_fleets import HEALTHY, fleet
from stepward.validator.dynamics.alarms import Alarm, watch
from stepward.validator.dynamics.analysis import analyzed, fleets_of
from stepward.validator.dynamics.baseline import (
    LEAST,
    Baseline,
    BaselineRefused,
    baselines_text,
    learn,
    read_baselines,
)
from stepward.validator.dynamics.course import Course, Move
from stepward.validator.dynamics.distance import distance
from stepward.validator.dynamics.segments import change_points
from stepward.validator.report.dynamics import render_fleet

NEVER = 10**9


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return learn(list(fleet(HEALTHY, 8, 400, NEVER)))


def alarms_of(baseline: Baseline, name: str, seed: int, runs: int, changes_at: int) -> tuple[Alarm, ...]:
    return watch(baseline, list(fleet(name, seed, runs, changes_at))).alarms


def linear(number: int, *states: str) -> Course:
    moves = tuple(Move(state, action) for state, action in zip(states, [*states[1:], "SUCCESS"], strict=True))
    return Course(f"run-{number:03}", "line", "", "", number, "SUCCESS", moves)


def test_a_baseline_is_read_as_it_was_written_and_is_the_same_each_time(baseline: Baseline) -> None:
    text = baselines_text([baseline])
    (read,) = read_baselines(text)
    assert baselines_text([read]) == text
    few = list(fleet(HEALTHY, 8, 60, NEVER))
    assert baselines_text([learn(few)]) == baselines_text([learn(few)])


def test_the_healthy_fleet_has_easy_and_hard_tasks_and_its_bursts_raise_no_alarm(baseline: Baseline) -> None:
    assert len(baseline.kinds.weights) >= 2
    assert alarms_of(baseline, HEALTHY, 4, 250, NEVER) == ()


@pytest.mark.parametrize(
    ("name", "within", "cell"),
    [
        ("retry storms", 10, ("attempts", "", "again")),
        ("changed model", 60, ("moves", "plan", "edit")),
        ("tool oscillation", 60, ("calls", "4 to 7", "cycle")),
    ],
)
def test_a_change_is_noticed_with_its_beginning_and_its_transitions(
    baseline: Baseline, name: str, within: int, cell: tuple[str, str, str]
) -> None:
    courses = list(fleet(name, 8, 180, 100))
    alarm = next(alarm for alarm in watch(baseline, courses).alarms if alarm.kind == "drift")
    assert 100 <= alarm.noticed < 100 + within
    assert alarm.earliest - 15 <= 100 <= alarm.latest + 15
    assert alarm.earliest <= alarm.since <= alarm.latest <= alarm.noticed
    assert alarm.sure is not None
    assert alarm.sure > 0.5
    assert alarm.until is None
    shift = next(shift for shift in alarm.shifts if shift.cell == cell)
    assert shift.low <= shift.now <= shift.high
    assert shift.now > 1.5 * shift.was
    assert 1 <= len(alarm.look_at) <= 5
    assert all(alarm.since <= number < 180 for number in alarm.look_at)


def test_an_alarm_ends_where_the_fleet_is_healthy_again_and_the_next_change_is_another(baseline: Baseline) -> None:
    storm = list(fleet("retry storms", 5, 140, 100))
    calm = list(fleet(HEALTHY, 6, 150, NEVER))
    alarms = [one for one in watch(baseline, [*storm, *calm, *storm[100:]]).alarms if one.kind == "drift"]
    assert len(alarms) == 2
    assert alarms[0].until is not None
    assert 120 <= alarms[0].until < 200
    assert alarms[1].noticed >= 290


def test_a_deterministic_program_is_quiet_until_it_does_something_new() -> None:
    healthy = learn([linear(number, "a", "b", "c") for number in range(LEAST)])
    assert watch(healthy, [linear(number, "a", "b", "c") for number in range(300)]).alarms == ()
    changed = [linear(number, *(("a", "c", "b") if number >= 20 else ("a", "b", "c"))) for number in range(40)]
    (alarm,) = [one for one in watch(healthy, changed).alarms if one.kind == "drift"]
    assert 20 <= alarm.noticed <= 23
    assert alarm.since in (19, 20, 21)
    assert {("moves", "a", "(other)"), ("moves", "a", "b")} <= {shift.cell for shift in alarm.shifts}


def test_too_few_healthy_runs_are_no_baseline() -> None:
    with pytest.raises(BaselineRefused, match=f"59 healthy runs, and a baseline needs {LEAST}"):
        learn([linear(number, "a") for number in range(LEAST - 1)])


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(version=3),
        lambda data: data.pop("baselines"),
        lambda data: data["baselines"][0]["kinds"][0]["shares"].pop(),
        lambda data: data["baselines"][0]["kinds"][0].update(weight=-1),
        lambda data: data["baselines"][0]["actions"].reverse() or data["baselines"][0]["actions"][0].append("x"),
        lambda data: data["baselines"][0].update(kinds=[]),
        lambda data: data["baselines"][0].update(drift="high"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(baseline: Baseline, change: object) -> None:
    data = json.loads(baselines_text([baseline]))
    change(data)  # type: ignore[operator]
    with pytest.raises(BaselineRefused):
        read_baselines(json.dumps(data))
    with pytest.raises(BaselineRefused):
        read_baselines("{")


def test_the_distance_of_a_run_is_to_the_nearest_kind_and_a_new_state_counts_whole(baseline: Baseline) -> None:
    healthy = [distance(baseline, course) for course in fleet(HEALTHY, 2, 60, NEVER)]
    assert {one.kind for one in healthy} == set(range(len(baseline.kinds.weights)))
    assert all(0.0 <= one.bits < 0.6 for one in healthy)
    assert distance(baseline, linear(0, "x", "y")).bits == 1.0


def test_the_offline_look_finds_where_stretches_begin() -> None:
    courses = [*fleet(HEALTHY, 7, 80, NEVER), *list(fleet("retry storms", 8, 160, 0))]
    fleet_ = analyzed([c._replace(run=f"r{n}", started=n) for n, c in enumerate(courses)], None, 50)
    assert fleet_.change_points is not None
    assert any(70 <= point <= 95 for point in fleet_.change_points)
    assert change_points(fleet_.runs[:10]) == []
    assert change_points(analyzed([linear(n, "a", "b") for n in range(50)], None, 50).runs) == []


def test_runs_are_divided_by_program_and_family_in_the_order_of_their_starts() -> None:
    a, b = linear(2, "a"), linear(1, "a")._replace(family="x")
    assert [[one.run for one in found] for found in fleets_of([a, b, linear(1, "a")])] == [
        ["run-001", "run-002"],
        ["run-001"],
    ]


def test_the_report_says_that_the_program_is_another_one(baseline: Baseline) -> None:
    courses = [course._replace(version="new") for course in fleet(HEALTHY, 2, 10, NEVER)]
    text = render_fleet(analyzed(courses, baseline._replace(versions=("old",)), 50))
    assert "another version of the program" in text
    assert "another version" not in render_fleet(analyzed(courses, baseline._replace(versions=("new",)), 50))
