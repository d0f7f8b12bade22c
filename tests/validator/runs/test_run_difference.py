"""Fast: how two runs differ, by their records alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepward.validator.runs.difference import Difference, differences

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


def test_a_second_visit_is_another_event() -> None:
    again = record(1, "attempt", "a")
    again["body"]["visit"] = 2
    found = differences([record(0, "attempt", "a")], [record(0, "attempt", "a"), again])
    assert [(one.visit, one.missing) for one in found] == [(2, 1)]
