"""Differential: the reference in lockstep with the machine on random programs with calls; planted mistakes are found.

`STEPWARD_LOCKSTEP_CALLS=200` tries that many.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from sizes import size
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import Parted
from stepward.sabotage.playing.variants import call_in, calls_in, step_in
from stepward.vm.machine import apply, bodies, decide, items
from stepward.vm.machine.plan import NOWHERE

COUNT = int(os.environ.get("STEPWARD_LOCKSTEP_CALLS", "24"))


def endings(first: int, last: int) -> set[tuple[str, str]]:
    found = set()
    for seed in range(first, last):
        case = drawn_case("calls", str(seed))
        assert case is not None
        found.add(lockstep(case).ending)
    return found


def finds(first: int, last: int) -> bool:
    try:
        endings(first, last)
    except Parted:
        return True
    return False


def test_in_lockstep_on_programs_with_calls() -> None:
    found = endings(0, COUNT)
    assert {("SUCCESS", "declared"), ("FAILED", "error"), ("BUDGET_EXCEEDED", "max_steps")} <= found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(24, size(24, 204), 60))
def test_in_lockstep_on_many_programs_with_calls(first: int) -> None:
    assert endings(first, first + 60)


def test_attacks_find_the_steps_of_called_programs() -> None:
    """A variant of a program under attack changes a step of a program that is called by its path."""
    inner = {"steps": [{"id": "b", "type": "tool", "tool": "t"}]}
    outer = {"programs": {"q": inner}, "steps": [{"id": "d", "type": "call", "program": "q"}]}
    data = {"programs": {"p": outer}, "steps": [{"id": "c", "type": "call", "program": "p"}]}
    call_in(data, "c/d/b")["timeout_seconds"] = 1
    assert inner["steps"][0]["timeout_seconds"] == 1
    assert step_in(data, "c/d")["program"] == "q"
    assert [one["id"] for one in calls_in(data)] == ["b"]


def takes_any_argument(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "completed", lambda given, specs: (given, None))


def takes_any_output(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_unfit", lambda *_: None)


def keeps_the_inputs(patch: pytest.MonkeyPatch) -> None:
    """The second call finds what the first one was given."""
    patch.setattr(items, "UNDEFINED", 1)


def keeps_the_variables(patch: pytest.MonkeyPatch) -> None:
    """What a call assigned, and its visits, are there in the next round."""
    patch.setattr(bodies, "cleared", lambda body: ())


def writes_where_nothing_is(patch: pytest.MonkeyPatch) -> None:
    """A call that is refused undefines the last slot of the state: a mistake that the machine once had."""
    patch.setattr(apply, "NOWHERE", NOWHERE - 1)


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake", [takes_any_argument, takes_any_output, keeps_the_inputs, keeps_the_variables, writes_where_nothing_is]
)
def test_a_planted_mistake_is_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    assert finds(0, 120)
