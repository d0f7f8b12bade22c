"""What the second checker knows to be defined is found in few looks at each step, and by few operations on sets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepward.validator.recheck.definite import Definite
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.reading import Reading
from stepward.vm import Program

RUNGS = 60


def _diamond(number: int) -> list[dict[str, Any]]:
    """Return a condition round two calls; the one that it takes when `$flag` holds gives `n` a value."""
    name, following = f"r{number}", f"r{number + 1}"
    return [
        {"id": name, "type": "condition", "condition": "$flag", "then": f"a{number}", "otherwise": f"b{number}"},
        {"id": f"a{number}", "type": "tool", "tool": "note", "output_key": f"n{number}", "next_step": following},
        {"id": f"b{number}", "type": "tool", "tool": "note", "output_key": f"m{number}", "next_step": following},
    ]


def _loop(number: int) -> list[dict[str, Any]]:
    """Return a loop that gives its variable a value before it is asked."""
    name, following = f"r{number}", f"r{number + 1}"
    return [
        {
            "id": name,
            "type": "tool",
            "tool": "note",
            "output_key": f"n{number}",
            "max_visits": 3,
            "next_step": f"c{number}",
        },
        {"id": f"c{number}", "type": "condition", "condition": "$flag", "then": following, "otherwise": name},
    ]


def _reading(rung: Any) -> Reading:
    steps = [step for number in range(RUNGS) for step in rung(number)]
    steps.append({"id": f"r{RUNGS}", "type": "end"})
    inputs = {"flag": {"type": "boolean"}}
    return Reading(Program.from_dict({"name": "long", "inputs": inputs, "steps": steps}))


@pytest.mark.parametrize(("rung", "looks"), [(_diamond, 1), (_loop, 2)])
def test_a_step_is_looked_at_as_often_as_loops_go_through_it(
    rung: Any, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = _reading(rung)
    seen: Counter[tuple[int, Transition]] = Counter()
    after = Definite._after

    def counted(self: Definite, number: int, way: Transition, before: int, takes: Any) -> int | None:
        seen[number, way] += 1
        return after(self, number, way, before, takes)

    monkeypatch.setattr(Definite, "_after", counted)
    assert all(reading.definite.may_get_to(step) for step in range(len(reading.steps)))
    assert max(seen.values()) <= looks


def test_what_one_branch_alone_gives_a_value_is_not_sure_behind_both() -> None:
    definite = _reading(_diamond).definite
    inside, behind = 1, 3
    assert not definite.is_sure(("n0",), inside), "the step has not run yet"
    assert not definite.is_sure(("n0",), behind)
    assert not definite.is_sure(("m0",), behind)
    looped = _reading(_loop).definite
    assert not looped.is_sure(("n0",), 0)
    assert looped.is_sure(("n0",), 1)
