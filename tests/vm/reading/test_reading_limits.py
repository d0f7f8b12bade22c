"""Texts at the limits of reading: depth, signs, encodings, several documents, JSON that is none."""

from __future__ import annotations

import codecs
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import pytest

from readings import data_of, problem_of, yaml_document
from stepward.vm.errors import ProgramError
from stepward.vm.reading.files import decode, read_file
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.limits import MAX_DEPTH
from stepward.vm.reading.source import Place, Span
from stepward.vm.reading.yaml_format import read_yaml


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
