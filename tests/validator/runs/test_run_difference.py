"""Fast: how two runs differ, by their records alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import Bench
from stepward.validator.report.trace import trace_data
from stepward.validator.runs.difference import Difference, differences
from stepward.vm import Program, Suspend
from stepward.vm.machine.history import load

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def record(seq: int, kind: str, step: str = "", **body: Any) -> dict[str, Any]:
    own = {"step": step, "visit": 1} if step else {}
    return {"seq": seq, "kind": kind, "body": {**own, **body}, "note": {"took": seq, "attempt": 1}}


def set_at(value: Any, path: tuple[str | int, ...], new: Difference) -> Any:
    """Return a value with one difference taken over."""
    if not path:
        return new.after
    if isinstance(value, Mapping):
        changed = dict(value)
        if len(path) == 1 and new.missing == 2:
            del changed[str(path[0])]
        else:
            changed[str(path[0])] = set_at(value.get(path[0]), path[1:], new)
        return changed
    items, number = list(value), path[0]
    assert isinstance(number, int)
    if len(path) == 1 and new.missing == 2:
        return items[:number]  # items are missing from some number on, and the others follow
    items[number : number + 1] = [set_at(items[number] if number < len(items) else None, path[1:], new)]
    return items


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; in Python, true equals 1."""
    return repr(one) == repr(other) if not isinstance(one, dict | list) else one == other and str(one) == str(other)


@given(VALUES, VALUES)
def test_the_differences_turn_one_value_into_the_other(before: Any, after: Any) -> None:
    found = differences(
        [record(0, "assigned", "s", values={"x": before})], [record(0, "assigned", "s", values={"x": after})]
    )
    value: Any = {"values": {"x": before}}
    for one in found:
        value = set_at(value, one.path, one)
    assert value == {"values": {"x": after}}
    if not found:
        assert sorted(str(before)) == sorted(str(after))


def test_true_is_not_one() -> None:
    (found,) = differences(
        [record(0, "assigned", "s", values={"x": True})], [record(0, "assigned", "s", values={"x": 1})]
    )
    assert (found.path, found.before, found.after) == (("values", "x"), True, 1)


def test_what_one_run_lacks_is_one_difference_and_the_rest_is_aligned() -> None:
    first = [
        record(0, "started"),
        record(1, "branched", "c", branch="then"),
        record(2, "attempt", "a"),
        record(3, "ended"),
    ]
    second = [record(0, "started"), record(1, "branched", "c", branch="otherwise"), record(2, "ended")]
    found = differences(first, second)
    assert [(one.step, one.path, one.seq, one.missing) for one in found] == [
        ("c", ("branch",), (1, 1), 0),
        ("a", (), (2, None), 2),
    ]
    assert [one.is_of_control for one in found] == [True, True]


def test_times_and_keys_are_no_differences() -> None:
    one, other = record(0, "intent", "a"), record(0, "intent", "a")
    other["note"] |= {"took": 99, "key": "k", "started": 7}
    one["note"]["key"] = "j"
    assert differences([one], [other]) == []


ASK = {"id": "a", "type": "tool", "tool": "ask"}
TIMED: dict[str, dict[str, Any]] = {
    "a wait": {"steps": [{"id": "w", "type": "wait", "seconds": 5}]},
    "a limit": {"timeout_seconds": 60, "steps": [{"id": "a", "type": "tool", "tool": "get"}]},
    "a limit that is over": {"timeout_seconds": 4, "steps": [{"id": "w", "type": "wait", "seconds": 5}]},
    "a deadline": {"steps": [{**ASK, "deadline_seconds": 60}]},
    "a deadline that is over": {
        "steps": [{**ASK, "deadline_seconds": 3, "error_step": "e"}, {"id": "e", "type": "end"}]
    },
    "a delay": {
        "steps": [
            {
                "id": "a",
                "type": "tool",
                "tool": "fail",
                "retry": [{"errors": ["any"], "max_attempts": 2, "delay_seconds": 1}],
            }
        ]
    },
    "items": {
        "steps": [
            {
                "id": "f",
                "type": "for_each",
                "items": [1],
                "as": "n",
                "max_items": 1,
                "steps": [{**ASK, "deadline_seconds": 60}],
            }
        ]
    },
}


@pytest.mark.parametrize("what", TIMED)
def test_a_run_a_week_later_has_no_difference(what: str) -> None:
    """Whatever the machine writes down by the clock is left out."""
    tools = {"ask": {"effect": "none", "suspends": True}, "get": {"effect": "read"}, "fail": {"effect": "read"}}
    made = Program.from_dict({"name": "p", "language": 2, "tools": tools, **TIMED[what]})
    bench = Bench({"ask": lambda: Suspend(None), "get": lambda: 1, "fail": _fail})
    data = []
    for name in ("first", "second"):
        bench.vm.run_sync(made, {}, run_id=name)
        bench.clock.time += 7 * 86_400 * 1_000_000
        bench.vm.recover_sync()
        found = load(bench.journal, name, bench.stored)
        assert found is not None
        data.append(trace_data(found))
    assert differences(*data) == []


def _fail() -> None:
    raise ValueError("no")


def test_a_second_visit_is_another_event() -> None:
    again = record(1, "attempt", "a")
    again["body"]["visit"] = 2
    found = differences([record(0, "attempt", "a")], [record(0, "attempt", "a"), again])
    assert [(one.visit, one.missing) for one in found] == [(2, 1)]
