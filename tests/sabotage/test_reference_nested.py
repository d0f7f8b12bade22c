"""Fast: values that a program nests deeper and deeper, on the machine and on the reference; by day to the edge."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from machines import unchecked
from sizes import MANY
from stepward.sabotage.reference import Reference, Returned
from stepward.vm import MemoryJournal, Program
from stepward.vm.machine.replay import replay

LOOP: Final = [
    {"id": "begin", "type": "set", "set": {"v": 0, "n": 0}},
    {"id": "put", "type": "set", "set": {"v": "PUT", "n": "$n + 1"}, "next_step": "more"},
    {"id": "more", "type": "condition", "condition": "$n < ROUNDS", "then": "put", "otherwise": "done"},
    {"id": "done", "type": "end"},
]
ITEMS: Final = {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}


def _filled(value: Any, put: Any, rounds: int) -> Any:
    if isinstance(value, dict):
        return {name: _filled(one, put, rounds) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, put, rounds) for one in value]
    if value == "PUT":
        return put
    return value.replace("ROUNDS", str(rounds)) if isinstance(value, str) else value


def _loop(put: Any, rounds: int) -> dict[str, Any]:
    return {"steps": _filled(LOOP, put, rounds)}


def _items(put: Any, rounds: int) -> dict[str, Any]:
    """Return a program whose items carry the value on; one that fails leaves it as it was."""
    body = [{"id": "put", "type": "set", "set": {"v": put}}]
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "i", "carry": {"v": 0}, "steps": body}
    steps = [{**each, "on_item_error": "skip"}, {"id": "done", "type": "end", "output": "$each.errors"}]
    return {"steps": steps, "inputs": {"l": ITEMS}}


def _outputs(put: Any, rounds: int) -> dict[str, Any]:
    """Return a program whose items give the value."""
    body = [
        {"id": "put", "type": "set", "set": {"v": put}},
        {"id": "out", "type": "end", "output": {"found": "$v"}},
    ]
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "i", "carry": {"v": 0}, "steps": body}
    return {"steps": [{**each, "error_step": "done"}, {"id": "done", "type": "end"}], "inputs": {"l": ITEMS}}


PLACES: Final = {"a loop": _loop, "items": _items, "outputs of items": _outputs}
PUTS: Final[dict[str, Any]] = {"a list": ["$v"], "an object": {"in": "$v"}, "both": [{"in": "$v"}, 1]}


ROUNDS: Final = (63, 64, 127, 128)
AT_THE_EDGE: Final = [("both", 63), ("both", 64), *product(("a list", "an object"), (127, 128))]
"""What is put in, and how often, so that the last round has 127 to 129 levels: 128 are allowed."""


@pytest.mark.parametrize(("put", "rounds"), [*product(PUTS, ROUNDS)] if MANY else AT_THE_EDGE)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_nested_too_deep_fails_the_step(place: str, put: str, rounds: int) -> None:
    program = Program.from_dict({"name": "p", "language": 2, "inputs": {}, **PLACES[place](PUTS[put], rounds)})
    inputs = {"l": list(range(rounds))} if "l" in (program.inputs or {}) else {}
    journal = MemoryJournal()
    run = unchecked(None, None, journal).run_sync(program, inputs, run_id="r")
    reference = Reference(program, ())
    reference.start(inputs)
    while reference.asked:
        reference.answer(reference.asked[0].step, Returned(None))
    assert (run.status, run.reason, run.steps) == (reference.status, reference.reason, reference.steps)
    played = replay(journal, "r")
    assert played is not None
    assert played.faults == ()
    levels = 1 + rounds * (2 if put == "both" else 1)
    if place == "a loop":
        assert run.status == ("SUCCESS" if levels <= 128 else "FAILED")
    elif place == "items":
        assert bool(run.output) is (levels > 128), "the errors of the items that failed"
