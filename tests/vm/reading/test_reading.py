"""From text to data: YAML 1.2 and JSON, scalars, keys and aliases, what is refused and where."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import data_of, problem_of, stretch, yaml_document
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.limits import MAX_ALIASED_NODES, MAX_NUMBER


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n", "Y", "tRUE", "nUll", "None")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("null", "Null", "NULL", "~", "")),
        ("0o17", 15),
        ("0x1F", 31),
        ("0xff", 255),
        ("017", 17),
        ("0b11", "0b11"),
        ("-0x1F", "-0x1F"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("2024-01-31", "2024-01-31"),
        ("+12", 12),
        ("-7", -7),
        ("1e3", Decimal(1000)),
        ("1E-2", Decimal("0.01")),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
        ("-.5e1", Decimal(-5)),
        ("0.1", Decimal("0.1")),
        ("1.0", Decimal(1)),
        ("1.2.3", "1.2.3"),
        ("e3", "e3"),
        (".", "."),
        ("+", "+"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("+.INF", math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        (".nAn", ".nAn"),
        ("=", "="),
        ("<<", "<<"),
        ("１２", "１２"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("!!int 1", 1),
        ("!!float 1", 1),
        ("!!null ''", None),
        ("!!bool true", True),
    ],
)
def test_scalars_are_those_of_yaml_1_2(written: str, value: Any) -> None:
    (found,) = data_of(f"- {written}\n")
    assert found == value
    assert type(found) is type(value) or {type(found), type(value)} == {int, Decimal}


def test_nan_is_no_number_of_text() -> None:
    (found,) = data_of("[.nan]")
    assert math.isnan(found)


@pytest.mark.parametrize(
    "number", ["1" * (MAX_NUMBER + 1), "0." + "1" * MAX_NUMBER, "0x" + "f" * MAX_NUMBER, "1e99999999999999999999"]
)
def test_a_number_that_is_too_long_is_refused_where_it_stands(number: str) -> None:
    problem = problem_of(f"a: 1\nb: {number}\n")
    assert problem.code == "SW004"
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (2, 4)
    assert data_of(f"'{number}'") == number
    assert problem_of(f"{number}: 1").code == "SW004"
    assert problem_of(f"!!int {number}").code == "SW004"


@pytest.mark.parametrize(
    "written", ["!!int x", "!!int 1.5", "!!bool yes", "!!null x", "!!float abc", "!mine 1", "!!binary aGk="]
)
def test_a_tag_that_does_not_fit_is_refused(written: str) -> None:
    problem = problem_of(f"a: {written}\n")
    assert problem.code == "SW001"
    assert "tag" in problem.message


@pytest.mark.parametrize(
    "written", ["!mine [1]", "!!set {a}", "!!python/object/apply:os.system ['true']", "!!map [1]", "!!seq {}"]
)
def test_a_tag_on_a_list_or_a_mapping_is_refused(written: str) -> None:
    assert "is not known" in problem_of(f"a: {written}\n").message
    assert data_of("a: !!map {b: !!seq [1]}") == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "key", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3\n", "a", 3, 1),
        ("x:\n  - {a: 1, a: 2}\n", "a", 2, 12),
        ('a: 1\n"a": 2\n', "a", 2, 1),
        ("é😀: {ü: 1, ü: 2}\n", "ü", 1, 12),
        ("x: 'a\u2028b'\ny: 1\ny: 2\n", "y", 3, 1),
    ],
)
def test_a_key_that_comes_twice_is_told_with_its_place(text: str, key: str, line: int, column: int) -> None:
    (problem,) = yaml_document(text).problems
    assert problem.code == "SW003"
    assert f"`{key}`" in problem.message
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (line, column)
    assert stretch(text, problem.span).strip("\"'") == key


def test_a_key_in_json_that_comes_twice_is_told_with_its_place() -> None:
    text = '{"a": {"k": [1, {"x": 1}], "j": 2,\n "k": 3}, "\\u0061": 4, "b": {"k": 1}}'
    first, second = read_json("test", text).problems
    assert [problem.code for problem in (first, second)] == ["SW003", "SW003"]
    assert first.span is not None
    assert second.span is not None
    assert (first.span.line, first.span.column, stretch(text, first.span)) == (2, 2, '"k"')
    assert stretch(text, second.span) == '"\\u0061"'


class _Pairs(tuple[tuple[str, Any], ...]):
    """The entries of an object as they are written, one key perhaps twice."""

    __slots__ = ()


_JSON_KEYS = st.sampled_from(["a", "b", ":", 'c":', "d :", "\\"])

_JSON_TREES = st.recursive(
    st.sampled_from(["x", "x: y", 'x": y', "x :", "\t:", ":", 1]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_JSON_KEYS, inner), max_size=3).map(_Pairs),
    max_leaves=12,
)


def _written(tree: Any, space: str) -> str:
    if isinstance(tree, _Pairs):
        return "{" + ",".join(f"{json.dumps(key)}{space}:{_written(value, space)}" for key, value in tree) + "}"
    return "[" + ",".join(_written(item, space) for item in tree) + "]" if type(tree) is list else json.dumps(tree)


def _repeated(tree: Any) -> int:
    if isinstance(tree, _Pairs):
        return len(tree) - len(dict(tree)) + sum(_repeated(value) for _, value in tree)
    return sum(map(_repeated, tree)) if type(tree) is list else 0


@given(_JSON_TREES, st.sampled_from(["", " ", "\n", "\r\n\t"]))
def test_every_key_in_json_that_comes_twice_is_told_whatever_colons_stand_beside_it(tree: Any, space: str) -> None:
    document = read_json("test", _written(tree, space))
    assert len(document.problems) == _repeated(tree)
    assert document.data == json.loads(document.text)


@pytest.mark.parametrize("key", ["1", "true", "null", "~", "", "1.5", "0o17", ".inf"])
def test_a_key_that_is_not_text_is_told(key: str) -> None:
    (problem,) = yaml_document(f"{{? {key} : x}}").problems
    assert (problem.code, problem.message) == ("SW002", f"the key `{key}` is not text")
    assert data_of(f'"{key}": x') == {key: "x"}


def test_yes_and_on_are_keys() -> None:
    assert data_of("{yes: 1, no: 2, on: 3, off: 4}") == {"yes": 1, "no": 2, "on": 3, "off": 4}


def test_a_merge_key_is_told_and_a_quoted_one_is_text() -> None:
    (problem,) = yaml_document("a: &a {x: 1}\nb:\n  <<: *a\n").problems
    assert problem.code == "SW002"
    assert "merge" in problem.message
    assert data_of('"<<": 1') == {"<<": 1}


@pytest.mark.parametrize("text", ["? [a]\n: 1\n", "{{a: 1}: 2}", "&x a: 1\n*x : 2\n", "? - a\n: 1\n"])
def test_a_key_is_written_as_text(text: str) -> None:
    assert problem_of(text).code == "SW001"


def test_an_alias_stands_for_what_was_anchored() -> None:
    assert data_of("a: &x [1, &y {k: &z v}]\nb: *x\nc: *y\nd: *z\n") == {
        "a": [1, {"k": "v"}],
        "b": [1, {"k": "v"}],
        "c": {"k": "v"},
        "d": "v",
    }
    assert data_of("- &a 1\n- *a\n- &a 2\n- *a\n") == [1, 1, 2, 2]
    assert data_of("&k key: *k\n") == {"key": "key"}


@pytest.mark.parametrize("text", ["a: *x\n", "a: &x [*x]\n", "--- &x 1\n--- *x\n"])
def test_an_alias_without_an_anchor_before_it_is_refused(text: str) -> None:
    problem = problem_of(text)
    assert problem.code == "SW001"
    assert "`*x`" in problem.message


def test_aliases_are_counted_before_they_are_expanded() -> None:
    bomb = "a0: &a0 [" + ", ".join("x" * 10) + "]\n"
    bomb += "".join(f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]\n" for n in range(1, 10))
    problem = problem_of(bomb)
    assert problem.code == "SW004"
    assert problem.span is not None
    assert problem.span.line == 5
    wide = "a: &a [1]\nb: [" + ", ".join(["*a"] * (MAX_ALIASED_NODES // 2 + 1)) + "]\n"
    assert problem_of(wide).code == "SW004"
    data_of("a: &a [1]\nb: [" + ", ".join(["*a"] * (MAX_ALIASED_NODES // 2)) + "]\n")


@pytest.mark.parametrize(
    ("escape", "help"),
    [
        *((one, "half of a surrogate pair") for one in (r"\ud800", r"\uDFFF", r"\ud83d\ude00", r"\U0000d800")),
        *((one, r"above `\U0010FFFF`") for one in (r"\U00110000", r"\Uffffffff")),
        *((one, "write `\\\\` for a backslash") for one in (r"\q", r"\'", r"\d", r"\8")),
        *((one, "two hexadecimal digits after") for one in (r"\x4", r"\xg0", r"\u12", r"\U0001f60")),
    ],
)
@pytest.mark.parametrize("before", ["a: ", "a: [{b: x, c: ", "- "])
def test_an_escape_that_is_none_is_explained(escape: str, help: str, before: str) -> None:
    problem = problem_of(f'{before}"x{escape} y"\n')
    assert problem.code == "SW001"
    assert help in problem.help
    assert "indentation" not in problem.help
