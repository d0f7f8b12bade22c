"""The texts of bodies and notes are those of their values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from machines import TOOLS
from stepward.vm import Program
from stepward.vm.journal.canonical import canonical, portable, read_canonical
from stepward.vm.journal.records import NO_DIGEST
from stepward.vm.journal.store import Entry
from stepward.vm.machine.events import Event, entry_of, make_event
from stepward.vm.machine.plan import Plan
from stepward.vm.values import freeze
from strategies import json_values

ids = st.text(st.characters(codec="utf-8", exclude_characters="$.'\"`"), min_size=1, max_size=6).filter(
    lambda text: not any(map(str.isspace, text))
) | st.sampled_from(["%s", "%", "#v", "##", "\x00", "😀", "\ue000", "visit", "null"])
frames = st.lists(st.tuples(ids, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9) | ids), max_size=2).map(tuple)
values = json_values() | st.sampled_from([0, -1, 2**53 - 1, 2**53, -(2**60), Decimal("0.1"), "#n1", [], {}, False])


@given(ids, ids, ids, values, st.integers(1, 2**53 - 1), frames)
@example("#v", "##", "#", {"😀": 1, "\ue000": "#"}, 1, (("#", 1, 1, "%s"),))
def test_the_text_of_a_body_is_that_of_its_values(
    step: str, tool: str, following: str, value: Any, visit: int, frame: tuple[Any, ...]
) -> None:
    said = {"kind": "success", "next": following, "step": step, "tool": tool, "output": freeze(value)}
    place = {"visit": visit} | ({"frame": frame} if frame else {})
    text = make_event("attempt", said | place, {"took": 1}).text
    assert text == canonical(portable(said) | place)
    assert read_canonical(text.encode())["output"] == portable(freeze(value))


numbers = st.integers(0, 2**53 - 1)
NOTES = {
    "times": {"attempt": numbers, "performance": numbers, "started": numbers, "took": numbers},
    "key": {"attempt": numbers, "key": st.binary(min_size=32, max_size=32).map(bytes.hex), "performance": numbers},
    "tokens": dict.fromkeys(("attempt", "performance", "started", "took", "tokens"), numbers) | {"model": ids},
    "due": {"attempt": numbers, "performance": numbers, "started": numbers, "took": numbers, "due": numbers},
    "by": {"by": ids},
    "none": {},
}


@pytest.mark.parametrize("kind", NOTES)
def test_a_note_is_written_as_all_notes_are(kind: str) -> None:
    @given(st.fixed_dictionaries(NOTES[kind]))
    def is_canonical(note: dict[str, Any]) -> None:
        entry = entry_of(Event("attempt", {}, note, "{}"), Entry(0, b"", NO_DIGEST), 5)
        assert f'"note":{canonical(note)},'.encode() in entry.record
        assert json.loads(entry.record)["note"] == note

    is_canonical()


WAIT = {"id": "w", "type": "wait", "seconds": 1}
ASK = {"id": "a", "type": "tool", "tool": "ask"}
INNER = {"id": "each", "type": "for_each", "items": "$list", "as": "one", "max_items": 2}


@pytest.mark.parametrize(
    ("steps", "waits"),
    [
        ([ASK], False),
        ([{**ASK, "deadline_seconds": 5}], True),
        ([WAIT], True),
        ([{**INNER, "steps": [{**ASK, "deadline_seconds": 5}]}], True),
        ([{**INNER, "steps": [WAIT]}], True),
        ([{**INNER, "steps": [ASK]}], False),
    ],
)
def test_a_plan_knows_whether_its_runs_can_wait_for_a_time(steps: list[Any], waits: bool) -> None:
    inputs = {"list": {"type": "array"}}
    data = {"name": "waits", "language": 2, "inputs": inputs, "tools": TOOLS, "steps": steps}
    assert Plan(Program.from_dict(data)).waits is waits
