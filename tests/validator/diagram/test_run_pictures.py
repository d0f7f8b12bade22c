"""The picture of a run shows the steps that its records have, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator.diagram.chains import draw_chain
from stepward.validator.runs.chains import chain_of
from stepward.vm import ExecutionVM, MemoryJournal, Program, Suspend

STEPS: list[dict[str, Any]] = [
    {"id": "first", "type": "set", "set": {"x": 1}, "next_step": "ask"},
    {"id": "ask", "type": "tool", "tool": "ask", "next_step": "done"},
    {"id": "done", "type": "end"},
]


@pytest.mark.parametrize(
    ("answer", "max_steps", "cancels", "status", "taken"),
    [
        (5, 9, False, "SUCCESS", {"first", "ask", "done"}),
        (5, 2, False, "BUDGET_EXCEEDED", {"first", "ask"}),
        (5, 1, False, "BUDGET_EXCEEDED", {"first"}),
        (Suspend("?"), 9, False, "SUSPENDED", {"first", "ask"}),
        (Suspend("?"), 9, True, "CANCELLED", {"first", "ask"}),
    ],
)
def test_only_steps_that_began_are_taken(
    answer: Any, max_steps: int, cancels: bool, status: str, taken: set[str]
) -> None:
    tools = {"ask": {"effect": "none", "suspends": True}}
    program = Program.from_dict({"name": "x", "inputs": {}, "tools": tools, "max_steps": max_steps, "steps": STEPS})
    journal = MemoryJournal()
    machine = ExecutionVM({"ask": lambda: answer}, None, journal, checker=None)
    run = machine.run_sync(program, {}, run_id="r")
    if cancels:
        run = machine.cancel_sync("r")
    picture = draw_chain(chain_of(journal, "r"))
    assert run.status == status
    assert {node.step for node in picture.nodes if node.step and node.is_walked} == taken
