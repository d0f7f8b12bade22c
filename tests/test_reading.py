"""From text to data and back: YAML 1.2 and JSON, what is refused and where, and the places that findings point at."""

from __future__ import annotations

import codecs
import json
import math
import re
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document
from stepward.vm.reading.files import decode, read_file
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.limits import MAX_ALIASED_NODES, MAX_DEPTH, MAX_NUMBER
from stepward.vm.reading.source import Place, Span
from stepward.vm.reading.yaml_format import read_yaml
from stepward.vm.reading.yaml_writer import to_yaml
from stepward.vm.values import freeze, to_json
from strategies import json_values, texts


def yaml_document(text: str) -> Document:
    (document,) = read_yaml("test", text)
    return document


def data_of(text: str) -> Any:
    document = yaml_document(text)
    assert document.problems == ()
    return document.data


def problem_of(text: str, *, is_json: bool = False) -> Problem:
    with pytest.raises(ProgramError) as caught:
        read_json("test", text) if is_json else read_yaml("test", text)
    (problem,) = caught.value.problems
    assert problem.message
    assert problem.help
    return problem


def stretch(text: str, span: Span) -> str:
    """Return what a span covers, counted by hand: lines end with a line feed and nothing else."""
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]
    return text[starts[span.line - 1] + span.column - 1 : starts[span.end_line - 1] + span.end_column - 1]


# -- scalars --------------------------------------------------------------------------------------------------------


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


# -- keys -----------------------------------------------------------------------------------------------------------


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


# -- anchors and aliases --------------------------------------------------------------------------------------------


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


# -- limits and encodings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opening", "inner", "closing", "is_json"),
    [
        ("[", "1", "]", False),
        ("{a: ", "1", "}", False),
        ("- ", "1", "", False),
        ("[", "1", "]", True),
        ('{"a":', "1", "}", True),
    ],
)
def test_depth_is_bounded_alike_in_both_formats(opening: str, inner: str, closing: str, is_json: bool) -> None:
    def read(levels: int) -> Any:
        text = opening * levels + inner + closing * levels
        return read_json("test", text) if is_json else read_yaml("test", text)

    read(MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ProgramError) as caught:
            read(levels)
        (problem,) = caught.value.problems
        assert (problem.code, problem.message) == ("SW004", "nested deeper than 100 levels")
        assert problem.span is not None
        assert (problem.span.line, problem.span.column - 1) == (1, MAX_DEPTH * len(opening))


def test_json_that_is_wide_is_not_deep() -> None:
    document = read_json("test", "[" + ",".join(["[[]]"] * 10_000) + "]")
    assert len(document.data) == 10_000


@pytest.mark.parametrize(
    ("text", "is_json", "line", "column"),
    [
        ("é😀: a\x00b\n", False, 1, 6),
        ("a: 1\nb: \x07\n", False, 2, 4),
        ('{"a":\n "é\x00"}', True, 2, 4),
        ("a: \ud800\n", False, 1, 4),
        ('["\\ud800"]', True, 1, 3),
        ('["\\\\\\udc00"]', True, 1, 5),
        ('"\udfff"', True, 1, 2),
        ('"\\ud800"', False, 1, 4),
    ],
)
def test_signs_that_are_no_text_are_refused_where_they_stand(text: str, is_json: bool, line: int, column: int) -> None:
    problem = problem_of(text, is_json=is_json)
    assert problem.code == "SW001"
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (line, column)
    if "\x00" in text:
        assert "NUL" in problem.help


def test_pairs_of_escapes_in_json_are_one_character() -> None:
    assert read_json("test", '["\\ud83d\\ude00", "\\\\ud800"]').data == ["😀", "\\ud800"]


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b"a: \xff\n", 1, 4),
        ("é: 1\n".encode() + b"b: \xc3\x28", 2, 4),
        (b"\xed\xa0\x80", 1, 1),
        ("a: é".encode("latin-1"), 1, 4),
    ],
)
def test_bytes_that_are_not_utf_8_are_refused_where_they_stand(content: bytes, line: int, column: int) -> None:
    with pytest.raises(ProgramError) as caught:
        decode(content, "test")
    (problem,) = caught.value.problems
    assert (problem.code, problem.help) == ("SW001", "save the file as UTF-8")
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (line, column)


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: FilePath, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(codecs.BOM_UTF8 + b'{"a": "x"}')
    (document,) = read_file(file)
    assert document.data == {"a": "x"}
    place = Place(("a",))
    assert document.locate([place]) == {place: Span(1, 7, 1, 10)}


def test_a_byte_order_mark_in_a_yaml_text_moves_nothing() -> None:
    document = yaml_document("\ufeffa: x\na: y\n")
    place = Place(("a",), within=(0, 1))
    assert document.locate([place]) == {place: Span(2, 4, 2, 5)}
    assert document.problems[0].span == Span(2, 1, 2, 2)


def test_utf_16_is_told_as_what_it_is_not(tmp_path: FilePath) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(ProgramError, match="is not UTF-8"):
        read_file(file)


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n  b: 1\n\tc: 2\n"])
def test_a_tab_in_the_indentation_is_named(text: str) -> None:
    problem = problem_of(text)
    assert problem.code == "SW001"
    assert "spaces" in problem.help


def test_a_text_with_a_colon_is_to_be_quoted() -> None:
    problem = problem_of("a: b: c\n")
    assert "quotes" in problem.help
    assert problem.span == Span(1, 5, 1, 6)


def test_a_tab_within_a_line_is_a_space() -> None:
    assert data_of("a:\t1\nb: [1,\t2]\t# c\n") == {"a": 1, "b": [1, 2]}


def test_documents_of_one_file_are_told_apart() -> None:
    text = "a: 1\n---\n# two\na: 2\na: 3\n...\n---\n- x\n"
    first, second, third = read_yaml("test", text)
    assert (first.data, second.data, third.data) == ({"a": 1}, {"a": 3}, ["x"])
    assert (len(first.problems), len(second.problems), len(third.problems)) == (0, 1, 0)
    assert [document.locate([Place(("a",))])[Place(("a",))].line for document in (first, second)] == [1, 5]
    assert third.locate([Place((0,))])[Place((0,))] == Span(8, 3, 8, 4)
    assert [document.data for document in read_yaml("test", "---\n---\n1\n")] == [None, 1]
    assert read_yaml("test", "") == read_yaml("test", "# only a comment\n") == []


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ('{"a": 1,}', "expecting property name", 1, 9),
        ('{"a": 1\n "b": 2}', "expecting ',' delimiter", 2, 2),
        ("{'a': 1}", "expecting property name", 1, 2),
        ('{"a": 01}', "expecting ',' delimiter", 1, 8),
        ("", "expecting value", 1, 1),
        ('{"a": 1} x', "extra data", 1, 10),
        ('{"é😀": tru}', "expecting value", 1, 8),
        ('{"a": "b\nc"}', "invalid control character", 1, 9),
        ("{a: 1}", "expecting property name", 1, 2),
        ("[1, // no\n2]", "expecting value", 1, 5),
    ],
)
def test_json_errors_have_a_place(text: str, message: str, line: int, column: int) -> None:
    problem = problem_of(text, is_json=True)
    assert problem.code == "SW001"
    assert message in problem.message.lower()
    assert problem.span is not None
    assert problem.span.line == line
    assert abs(problem.span.column - column) <= 1  # Python 3.13 points at the comma, not behind it


@pytest.mark.parametrize("number", ["1" * 5_000, "1." + "1" * 5_000, "1e99999999999999999999"])
def test_a_number_in_json_that_is_too_long_is_refused(number: str) -> None:
    assert problem_of(f'{{"a": {number}}}', is_json=True).code == "SW004"


def test_numbers_in_json_are_exact() -> None:
    assert read_json("test", "[0.1, 1e2, 12345678901234567890.5]").data == [
        Decimal("0.1"),
        Decimal(100),
        Decimal("12345678901234567890.5"),
    ]


# -- round trips ----------------------------------------------------------------------------------------------------


@given(json_values())
@settings(max_examples=300, deadline=None)
def test_what_is_written_as_yaml_is_read_again(value: Any) -> None:
    text = to_yaml(value)
    document = yaml_document(text)
    assert document.problems == ()
    assert freeze(document.data) == freeze(value)
    assert to_json(freeze(document.data)) == to_json(freeze(value))


@given(json_values())
@settings(max_examples=200, deadline=None)
def test_what_is_written_as_json_is_read_again_by_both_readers(value: Any) -> None:
    frozen = freeze(value)
    for indent in (0, 2):
        text = to_json(frozen, indent)
        assert to_json(freeze(read_json("test", text).data)) == to_json(frozen)


@pytest.mark.parametrize(
    "word",
    ["yes", "on", "1e3", "0o17", "0x1F", "1_000", "~", "null", "", " x ", "a: b", "# c", "-", "1" * 5_000, "é\u2028"],
)
def test_a_word_that_a_reader_could_take_for_something_else_stays_text(word: str) -> None:
    text = to_yaml({"k": word, word: "v"})
    assert data_of(text) == {"k": word, word: "v"}
    assert yaml.safe_load(text) == {"k": word, word: "v"}


@given(json_values(st.one_of(st.none(), st.booleans(), st.integers(), st.text("abc 1.5~\n:#", max_size=10))))
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_alike_by_a_yaml_1_1_reader(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


# -- places ---------------------------------------------------------------------------------------------------------

words = st.text(st.sampled_from("abcXYZ 09.,'\"\\\n$é😀ü-:#\t"), max_size=40)
trees = st.recursive(
    words,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", "ключ", "k 😀"]), inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
dumps = st.sampled_from(
    [
        {"default_style": None, "width": 30},
        {"default_style": "'", "width": 25},
        {"default_style": '"', "width": 25},
        {"default_style": '"', "width": 40, "allow_unicode": False},
        {"default_style": "|"},
        {"default_style": ">", "width": 20},
        {"default_flow_style": True, "width": 40},
        {"default_flow_style": True, "default_style": '"', "width": 20},
        {"indent": 6, "width": 15},
    ]
)


def text_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:
    if isinstance(value, str):
        return [(path, value)]
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for key, item in entries for found in text_paths(item, (*path, key))]


def decoded(source: str, whole: str) -> str:
    """Read a stretch of a scalar as its style says; `whole` is the scalar from its first sign on."""
    if whole.startswith('"'):
        return str(yaml.safe_load(f'"{source}"'))
    return source.replace("''", "'") if whole.startswith("'") else source


def squeezed(text: str) -> str:
    return "".join(text.split())


def check_slice(document: Document, path: tuple[Any, ...], value: str, slice_: tuple[int, int]) -> None:
    start, end = slice_
    inner, outer = Place(path, within=(start, end)), Place(path)
    spans = document.locate([inner, outer])
    source = stretch(document.text, spans[inner])
    whole = stretch(document.text, spans[outer])
    found = json.loads(f'"{source}"') if document.format == "json" else decoded(source, whole)
    assert squeezed(found) == squeezed(value[start:end]), (document.text, path, slice_, source)
    if not value[start].isspace() and not value[end - 1].isspace():
        assert not source[0].isspace()
        assert not source[-1].isspace()


@st.composite
def located(draw: st.DrawFn) -> tuple[Any, tuple[Any, ...], str, tuple[int, int]]:
    data = draw(trees)
    candidates = [(path, value) for path, value in text_paths(data) if value.strip()]
    assume(candidates)
    path, value = draw(st.sampled_from(candidates))
    start = draw(st.integers(0, len(value) - 1))
    return data, path, value, (start, draw(st.integers(start + 1, len(value))))


@given(located(), dumps, st.booleans())
@settings(max_examples=500, deadline=None)
def test_a_stretch_of_a_yaml_text_is_found_in_the_source(
    case: tuple[Any, tuple[Any, ...], str, tuple[int, int]], how: dict[str, Any], crlf: bool
) -> None:
    data, path, value, slice_ = case
    text = yaml.dump(data, Dumper=Plain, **{"allow_unicode": True, "sort_keys": False, **how})
    if crlf:
        text = text.replace("\n", "\r\n")
    document = yaml_document(text)
    assume(document.data == data)  # PyYAML folds some texts so that they are read as others
    check_slice(document, path, value, slice_)


class Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@given(located(), st.booleans(), st.sampled_from([None, 1]))
@settings(max_examples=200, deadline=None)
def test_a_stretch_of_a_json_text_is_found_in_the_source(
    case: tuple[Any, tuple[Any, ...], str, tuple[int, int]], ascii_only: bool, indent: int | None
) -> None:
    data, path, value, slice_ = case
    document = read_json("test", json.dumps(data, ensure_ascii=ascii_only, indent=indent))
    check_slice(document, path, value, slice_)


@pytest.mark.parametrize(
    ("text", "within", "source"),
    [
        ("k: hello world\n", (6, 11), "world"),
        ("k: 'it''s so'\n", (2, 4), "''s"),
        ('k: "a\\tb\\u00e9c"\n', (1, 4), "\\tb\\u00e9"),
        ('k: "a\\\n   bc"\n', (1, 2), "b"),
        ("k: one\n   two\n", (4, 7), "two"),
        ("k: |\n  a\n    b\n  c\n", (4, 5), "b"),
        ("k: >\n  one\n  two\n\n  three\n", (8, 13), "three"),
        ("k: |2-\n   x y\n", (1, 2), "x"),
        ("k: &anchor 'aaa x'\n", (4, 5), "x"),
        ("k: &anchor 'aaa x'\n", (0, 3), "aaa"),
        ("k: !!str &b x1\n", (1, 2), "1"),
        ("k: &a\n  # remark\n  text\n", (0, 4), "text"),
        ("k: &a |\n  one\n  two\n", (4, 7), "two"),
        ("k: |\r\n  a\r\n\r\n  b\r\n", (3, 4), "b"),
        ("k: 'é😀x'\n", (2, 3), "x"),
        ("{k: [1], j: 'x'}", (0, 1), "x"),
        ("k: 'abc'\n", (1, 99), "bc"),
    ],
)
def test_a_stretch_in_every_style(text: str, within: tuple[int, int], source: str) -> None:
    document = yaml_document(text)
    place = Place(("j",) if "j" in document.data else ("k",), within=within)
    assert stretch(text, document.locate([place])[place]) == source


def test_values_keys_and_what_has_no_text() -> None:
    text = "a:\n  - x: 1\n    y: [b, c]\nlong: |\n  one\n  two\nshared: &s {k: v}\nalias: *s\n"
    document = yaml_document(text)
    expected = {
        Place(("a",), key=True): "a",
        Place(("a", 0, "x")): "1",
        Place(("a", 0, "y"), key=True): "y",
        Place(("a", 0, "y", 1)): "c",
        Place(("a", 0, "y", 7)): "y",
        Place(("a", 0, "nothing", "below")): "x: 1",
        Place(("a", 0), key=True): "x: 1",
        Place(("a",)): "- x: 1",
        Place(("long",)): "|",
        Place(("alias",)): "*s",
        Place(("shared", "k")): "v",
        Place(("gone",)): "a:",
        Place(()): "a:",
    }
    spans = document.locate(expected)
    assert {place: stretch(text, span) for place, span in spans.items()} == expected


def test_values_and_keys_in_json() -> None:
    text = '{"a": [{"x": 1.50, "y": ["b"]}],\n "a\\"b": null, "e": {}, "f": [[], 2]}'
    document = read_json("test", text)
    expected = {
        Place(("a", 0, "x")): "1.50",
        Place(("a", 0, "x"), key=True): '"x"',
        Place(("a", 0, "y", 0)): '"b"',
        Place(('a"b',)): "null",
        Place(("e",)): "{}",
        Place(("f", 0)): "[]",
        Place(("f", 1)): "2",
    }
    assert {place: stretch(text, span) for place, span in document.locate(expected).items()} == expected


def test_an_alias_below_has_the_place_of_the_alias() -> None:
    text = "a: &s {k: v}\nb: *s\n"
    place = Place(("b", "k"))
    assert stretch(text, yaml_document(text).locate([place])[place]) == "b"


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_is_data_or_a_program_error(text: str) -> None:
    for is_json in (False, True):
        try:
            documents = [read_json("test", text)] if is_json else read_yaml("test", text)
        except ProgramError:
            continue
        for document in documents:
            document.locate([Place(()), Place(("a",)), Place((0,), within=(0, 1))])


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                ": ",
                "- ",
                "[",
                "]",
                "{",
                "}",
                ", ",
                "&x ",
                "*x",
                "!!str ",
                "!t ",
                "? ",
                "\n",
                "  ",
                "'",
                '"',
                "|",
                ">",
                "#",
                "---\n",
                "<<",
                "1",
            ]
        ),
        max_size=20,
    )
)
@settings(max_examples=500, deadline=None)
def test_arbitrary_rows_of_yaml_signs_are_data_or_a_program_error(signs: list[str]) -> None:
    try:
        documents = read_yaml("test", "".join(signs))
    except ProgramError as error:
        assert all(problem.code in ("SW001", "SW004") for problem in error.problems)  # noqa: PT017 - an oracle
        return
    for document in documents:
        places = [Place(path, within=(0, 1)) for path, _ in text_paths_of_anything(document.data)]
        assert set(document.locate(places)) == set(places)


def text_paths_of_anything(value: Any) -> list[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return [((key, *path), text) for key, item in entries for path, text in text_paths_of_anything(item)]
    return [((), value)] if isinstance(value, str) else []


@given(texts)
def test_any_text_survives_as_a_key_and_as_a_value(text: str) -> None:
    assert data_of(to_yaml({text: text})) == {text: text}
