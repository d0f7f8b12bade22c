"""The places of values, keys and stretches of text, in YAML of every style and in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from readings import stretch, yaml_document
from sizes import size
from stepward.vm.reading.document import Document
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.source import Place

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
@settings(max_examples=size(150, 500), deadline=None)
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
@settings(max_examples=size(80, 200), deadline=None)
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


def test_a_value_that_is_not_wanted_is_passed_over_in_json() -> None:
    unwanted = '"m": {"x": "}, \\"x\\": 1"}, "l": [1, "]", {"x": 2}] , "s" : "a:b",\n"t": true, "f" :-1.5e3, "o": {}'
    for text in (f'{{{unwanted}, "x":\t"y", "n": null}}', f'{{ "x" : "y",{unwanted}}}'):
        document = read_json("test", text)
        assert [stretch(text, span) for span in document.locate([Place(("x",))]).values()] == ['"y"']


def test_an_alias_below_has_the_place_of_the_alias() -> None:
    text = "a: &s {k: v}\nb: *s\n"
    place = Place(("b", "k"))
    assert stretch(text, yaml_document(text).locate([place])[place]) == "b"
