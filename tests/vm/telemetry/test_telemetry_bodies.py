"""The spans of for_each steps: the steps of all items are below the step, also where a run waits in an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from machines import Bench
from spans import Seen, close_all
from stepward.vm import Program, Suspend

pytestmark = pytest.mark.filterwarnings("ignore")

BODY: list[dict[str, Any]] = [
    {"id": "call", "type": "tool", "tool": "t"},
    {"id": "large", "type": "condition", "condition": "$x > 1", "then": "good", "otherwise": "bad"},
    {"id": "good", "type": "end", "output": "$call.output"},
    {"id": "bad", "type": "end", "outcome": "failure"},
]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


def program(**more: Any) -> Program:
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 4, "steps": BODY, **more}
    steps = [each, {"id": "z", "type": "end"}]
    inputs = {"l": {"type": "array", "items": {"type": "number"}, "maxItems": 4}}
    tools = {"t": {"effect": "write", "idempotent": True, "suspends": True, "returns": {"type": "number"}}}
    return Program.from_dict({"name": "n", "language": 2, "inputs": inputs, "tools": tools, "steps": steps})


GOOD = ["    step call success", "      execute_tool t success", "    step large success", "    step good success"]
BAD = [*GOOD[:3], "    step bad success"]


def test_the_steps_of_all_items_are_below_the_step() -> None:
    seen = Seen()
    Bench({"t": [7, 8]}, observer=seen).run(program(on_item_error="skip"), l=[1, 2])
    assert seen.tree() == ["invoke_workflow n SUCCESS", "  step each success", *BAD, *GOOD, "  step z success"]
    items = [span.attributes.get("stepward.step.item") for span in seen.spans() if span.name == "step call"]
    assert sorted(items) == [0, 1]


def test_a_failed_item_fails_the_step() -> None:
    seen = Seen()
    Bench({"t": [7]}, observer=seen).run(program(on_error="skip"), l=[1, 2])
    assert seen.tree() == ["invoke_workflow n SUCCESS", "  step each skipped !failed", *BAD, "  step z success"]


def test_a_new_round_is_below_the_same_step() -> None:
    seen = Seen()
    Bench({"t": [7, 8]}, observer=seen).run(program(on_error="retry", max_retries=2), l=[1])
    assert seen.tree() == ["invoke_workflow n FAILED !error", "  step each failed !failed", *BAD, *BAD]


def test_a_run_that_waits_in_an_item_goes_on_below_the_step() -> None:
    seen = Seen()
    bench = Bench({"t": [Suspend({}), 8]}, observer=seen)
    run = bench.run(program(), l=[2, 3])
    bench.resume(run, 7)
    waits = ["  step each suspended", "    step call suspended", "      execute_tool t suspended"]
    first = ["    step call success", "      resume call", *GOOD[2:]]
    again = [
        "  invoke_workflow n SUCCESS",
        *("  " + line for line in ("  step each success", *first, *GOOD, "  step z success")),
    ]
    assert seen.tree() == ["invoke_workflow n SUSPENDED", *waits, *again]


def test_a_run_that_is_ended_in_an_item_ends_the_step_too() -> None:
    seen = Seen()
    limited = Program.from_dict({**program().to_dict(), "max_steps": 2})
    Bench({"t": [7]}, observer=seen).run(limited, l=[2])
    tree = ["invoke_workflow n BUDGET_EXCEEDED !max_steps", "  step each ended", *GOOD[:2]]
    assert seen.tree() == tree
