"""Of several expressions in a mapping that fail, the first one in the order of the names counts.

A stored program has its names in order, so a replay, or another process, would come to another error.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from machines import Bench
from stepward.vm import Program
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer

UNDEFINED: Final = "$u.x == 1"
BAD: Final = "$x == true"
"""Expressions that fail in two ways: `Undefined` and `BadValue`."""

KINDS: Final = ("set", "fields", "items", "items at once", "branch", "carry")


def steps_of(kind: str, failing: dict[str, str]) -> list[dict[str, Any]]:
    """Return steps of which the expressions fail."""
    put = {"id": "put", "type": "set", "set": failing}
    each = {"id": "all", "type": "for_each", "items": [1, 2], "as": "it", "error_step": "end", "steps": [put]}
    end = {"id": "end", "type": "end"}
    match kind:
        case "set":
            return [put, end]
        case "fields":
            empty = {"id": "empty", "type": "set", "set": {"o": {}}}
            return [empty, put | {"set": {f"o.{name}": text for name, text in failing.items()}}, end]
        case "items":
            return [each, end]
        case "items at once":
            return [each | {"max_concurrency": 2, "on_item_error": "skip"}, end]
        case "branch":
            return [{"id": "all", "type": "parallel", "branches": {"one": {"steps": [put]}}, "error_step": "end"}, end]
        case _:
            empty = {"id": "put", "type": "set", "set": {"w": 1}}
            return [each | {"carry": failing, "steps": [empty]}, end]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["Undefined", "BadValue"])
@pytest.mark.parametrize("is_written_in_order", [True, False])
def test_the_first_failure_is_that_of_the_first_name(kind: str, first: str, is_written_in_order: bool) -> None:
    texts = (UNDEFINED, BAD) if first == "Undefined" else (BAD, UNDEFINED)
    pairs = list(zip("ab", texts, strict=True))
    failing = dict(pairs if is_written_in_order else reversed(pairs))
    data = {
        "name": "p",
        "language": 2,
        "inputs": {"x": {"type": "number"}, "u": {"type": "object"}},
        "steps": steps_of(kind, failing),
        "max_steps": 50,
    }
    bench = Bench()
    bench.run(Program.from_dict(data), x=1, u={})
    said = next(body["error"] for body in bench.bodies() if "error" in body)
    assert ("is undefined" in said) == (first == "Undefined"), said
    assert not verify(bench.journal, "run", replay=replayer(bench.journal, "run")).faults
