"""Where the parts of an expression stand, and in which order."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings

from stepward.vm.expressions import fields
from stepward.vm.expressions.facts import reads
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Compare, Constant, Expression, children, references, walk
from strategies import conditions


def moved(tree: Expression, by: int) -> Expression:
    """Return the tree as if its text began `by` code points further on."""

    def move(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(move(item) for item in part)
        return moved(part, by) if dataclasses.is_dataclass(part) else part

    fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    inner = {name: value if isinstance(tree, Constant) else move(value) for name, value in fields.items()}
    return type(tree)(**{**inner, "start": tree.start + by, "end": tree.end + by})


@given(conditions())
@settings(deadline=None)
def test_every_node_is_what_the_text_at_its_place_says(text: str) -> None:
    for node in walk(parse(text)):
        stretch = text[node.start : node.end]
        assert stretch == stretch.strip()
        assert moved(parse(stretch), node.start) == node


def test_a_parenthesis_belongs_to_the_node_around_it() -> None:
    text = "(($a) + 1) * (2) == ($b)"
    tree = parse(text)
    assert isinstance(tree, Compare)
    stretches = [text[node.start : node.end] for node in walk(tree)]
    assert stretches == [text, "(($a) + 1) * (2)", "($a) + 1", "$a", "1", "2", "$b"]


def test_a_place_counts_code_points() -> None:
    text = "'😀' == $größe"
    assert [text[node.start : node.end] for node in walk(parse(text))] == [text, "'😀'", "$größe"]


def test_children_come_in_the_order_of_the_text() -> None:
    for node in walk(parse("len($a) - -$b * 2 < 3 and (not $c or defined($d)) and $e in [1]")):
        starts = [child.start for child in children(node)]
        assert starts == sorted(starts)


def test_references_asked_for_by_defined_are_no_reads() -> None:
    tree = parse("defined($a) and $b.c == $d")
    assert [reference.text() for reference in references(tree)] == ["$b.c", "$d"]
    assert [reference.text() for reference, _ in reads(tree)] == ["$b.c", "$d"]


@pytest.mark.parametrize(
    "names",
    [("x",), ("x", "y"), ("x", "[0]", "[12]"), ("step", "output", "[3]", "a b"), ("x", ""), ("x", 'a"b', "c\\d")]
    + [("x", f"a{letter}b") for letter in "\t\n\r'.]$\u2028é "],
)
def test_a_reference_is_read_as_it_is_written(names: tuple[str, ...]) -> None:
    text = fields.written(names)
    assert fields.names_in(text) == names
    assert not {"\t", "\n", "\r"} & set(text)
