"""Deadlines and waits that are over within a leap of the clock, on the machine and on the reference in lockstep."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from sizes import size
from stepward.sabotage.drawn import passing
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import DrawnCase, Parted
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Policy, Program

TOOLS: Final = {
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "string"}},
    "look": {"effect": "read"},
}
MANNER: Final = Manner(weights=((1, 0, 0, 0, 0, 9), (5, 1, 0, 2, 0, 9)))
"""Answers of which most let a call wait."""

ASKS: Final = {"type": "tool", "tool": "ask", "deadline_seconds": 864_000, "on_error": "skip"}
LOOKS: Final = {"type": "tool", "tool": "look", "on_error": "skip"}


def branch(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [*steps, {"id": f"{name}_last", **LOOKS}, {"id": f"{name}_end", "type": "end", "output": 1}]}


def parallel(**more: Any) -> list[dict[str, Any]]:
    return [{"id": "all", "type": "parallel", "on_error": "skip", **more}, {"id": "last", **LOOKS}]


def resting(name: str) -> dict[str, Any]:
    return {"id": name, "type": "wait", "seconds": 864_000}


STEPS: Final = {
    "sub-steps": parallel(parallel_steps=[{"id": one, **ASKS} for one in "abc"]),
    "an order": parallel(
        parallel_steps=[
            {"id": "l", **LOOKS},
            {"id": "a", **ASKS},
            {"id": "b", **ASKS, "depends_on": ["l"]},
            {"id": "c", **ASKS},
        ]
    ),
    "branches": parallel(branches={f"in_{one}": branch(one, {"id": one, **ASKS}) for one in "abc"}),
    "waits": parallel(
        branches={f"in_{one}": branch(one, {"id": f"{one}_first", **LOOKS}, resting(one)) for one in "abc"}
    ),
}
"""Steps of which several parts wait for about as long as each other."""


def played(what: str, number: int) -> str:
    data = {"name": "time", "language": 2, "inputs": {}, "tools": TOOLS, "steps": STEPS[what]}
    return lockstep(DrawnCase(Program.from_dict(data), f"{what} {number}", manner=MANNER)).ending[0]


@pytest.mark.parametrize("what", STEPS)
def test_machine_and_reference_agree_on_times_that_are_over_within_a_leap(what: str) -> None:
    endings = Counter(played(what, number) for number in range(size(6, 100)))
    assert endings["SUCCESS"] > size(2, 5)


def test_a_time_that_is_over_within_a_leap_would_part_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of these cases do leap over a second deadline, unless that passes together with the first."""
    monkeypatch.setattr(passing, "TOGETHER", passing.A_SECOND)
    with pytest.raises(Parted):
        Counter(played("an order", number) for number in range(60))


WAIVED: Final = {"program": "passing", "rule": "four_eyes", "reason": "r", "expiry": "2026-01-01"}


def test_a_waiver_expires_while_a_call_waits() -> None:
    """The reference took the day on which the run had begun."""
    steps = [{"id": one, **ASKS} for one in "abc"]
    data = {"name": "passing", "language": 2, "tools": TOOLS, "inputs": {}, "steps": steps}
    program = Program.from_dict(data)
    policy = {"four_eyes": ["ask"], "waivers": [WAIVED]}
    first, later = (Policy.from_dict({"policy": name, **policy}) for name in ("p", "q"))
    met: Counter[str] = Counter()
    for seed in range(size(20, 400)):
        case = DrawnCase(program, f"expires {seed}", [first], [later], MANNER)
        met.update(lockstep(case).met)
    assert {"time passed", "taken"} <= met.keys()
