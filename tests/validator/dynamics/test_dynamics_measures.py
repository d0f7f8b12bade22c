"""Fast: the measures of runs, against values that are computed by hand."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.validator.dynamics.course import AGAIN, SETTLED, Call, Course, Move, Work
from stepward.validator.dynamics.measures import (
    CYCLE,
    NEW,
    REPEATED,
    entropy,
    measures_of,
    repetitions,
    rollbacks,
    work_by_step,
)


def along(*states: str) -> tuple[Move, ...]:
    """Return the moves of a run along these states."""
    return tuple(Move(state, action) for state, action in pairwise(states))


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_a_deterministic_program_has_no_entropy_however_long_it_is(steps: int) -> None:
    linear = along(*(f"s{number}" for number in range(steps + 1)))
    assert entropy(linear) == entropy(linear * 5) == 0.0


def test_a_fair_branch_has_the_entropy_of_a_coin_with_the_correction_but_no_more_than_a_bit() -> None:
    assert entropy([Move("a", "b")] * 8 + [Move("a", "c")] * 8) == 1.0
    skewed = entropy([Move("a", "b")] * 12 + [Move("a", "c")] * 4)
    assert skewed == pytest.approx(0.811278 + 1 / (2 * 16 * log(2)), abs=1e-6)


def test_the_entropy_is_that_of_the_states_by_how_often_they_occur() -> None:
    assert entropy([Move("a", "b")] * 30 + [Move("b", "a")] * 5 + [Move("b", "c")] * 5) == pytest.approx(0.25)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=40))
def test_the_entropy_is_between_nothing_and_the_logarithm_of_the_actions(pairs: list[tuple[str, str]]) -> None:
    assert 0.0 <= entropy(Move(*pair) for pair in pairs) <= log(3, 2) + 1e-9


def test_a_rollback_leads_to_a_state_that_was_left() -> None:
    assert rollbacks(along("plan", "edit", "test", "edit", "test", "done")) == 2
    assert rollbacks(along("a", "a", "b")) == 1
    assert rollbacks(()) == 0


def test_a_call_is_new_repeated_or_the_end_of_a_cycle() -> None:
    calls = [
        Call("edit", "1"),
        Call("edit", "1"),
        Call("test", ""),
        Call("edit", "2"),
        Call("edit", "1"),
        Call("test", ""),
    ]
    assert repetitions(calls) == [NEW, REPEATED, NEW, NEW, CYCLE, REPEATED]


def test_all_measures_of_one_run() -> None:
    course = Course(
        "r", "p", "", "", 0, "SUCCESS",
        moves=along("a", "b", "a", "b", "end"),
        attempts=(Move("a", AGAIN), Move("a", SETTLED), Move("b", SETTLED)),
        calls=(Call("t", "1"), Call("t", "2"), Call("t", "1")),
        violations=1,
        work={"a": Work(2, 30, Decimal("0.5"), 2_000_000), "b": Work(1, 10, Decimal("0.5"), 0)},
    )  # fmt: skip
    found = measures_of([course])
    assert found._asdict() == {
        "runs": 1, "steps": 4, "entropy": 0.5, "rollback_density": 0.5, "tool_churn": pytest.approx(1 / 3),
        "edit_cycles": pytest.approx(1 / 3), "violation_rate": 0.25, "retries": 0.25, "tokens": 10.0, "cost": 0.25,
        "seconds": 0.5,
    }  # fmt: skip
    assert measures_of([course, course]).tool_churn == found.tool_churn, "a call is repeated in its own run only"
    assert work_by_step([course, course])["a"] == Work(4, 60, Decimal("1.0"), 4_000_000)


def test_nothing_has_measures_of_nothing() -> None:
    assert set(measures_of([])._asdict().values()) == {0}
