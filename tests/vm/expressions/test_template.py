"""`$refs` in prompts, arguments and outputs: one pass, types kept, data never read as code."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluations import lookup_in
from stepward.vm.errors import UndefinedReferenceError
from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import embedded, fill, parts
from stepward.vm.values import FrozenMap, as_text, freeze
from strategies import json_values, texts


def filled(value: Any, /, **state: Any) -> Any:
    return fill(value, lookup_in(state))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", ""),
        ("no reference", "no reference"),
        ("Hello $name!", "Hello Ada!"),
        ("$name $name", "Ada Ada"),
        ("$name$name", "AdaAda"),
        ("$$name", "$name"),
        ("$$$name", "$Ada"),
        ("$$$$name", "$$name"),
        ("$$", "$"),
        ("$$$$", "$$"),
        ("$", "$"),
        ("$ $1 $. $-", "$ $1 $. $-"),
        ("costs 5$", "costs 5$"),
        ("5$$", "5$"),
        ("$name.", "Ada."),
        ("$o.x.", "1."),
        ("($o.x)", "(1)"),
        ("$name-$o.x", "Ada-1"),
        ("${name}", "${name}"),
        ("\\$name", "\\Ada"),
        ("$größe und $名前", "3.5 und Ωmega"),
        ("a $flag b $nothing c $list d $o", 'a true b null c [1, "x"] d {"x": 1}'),
    ],
)
def test_text_with_references(text: str, result: str) -> None:
    state = {"größe": Decimal("3.5"), "名前": "Ωmega", "flag": True, "nothing": None}
    assert filled(text, name="Ada", o=freeze({"x": 1}), list=(1, "x"), **state) == result


@pytest.mark.parametrize("value", [None, True, 1, Decimal("0.5"), "text", "", (1, 2), freeze({"a": {"b": 1}})])
def test_a_value_that_is_one_reference_keeps_its_type(value: Any) -> None:
    for template in ("$v", {"deep": ["$v"]}, ["$v"]):
        found = filled(template, v=value)
        found = found["deep"][0] if isinstance(template, dict) else found[0] if isinstance(template, list) else found
        assert found is value


@pytest.mark.parametrize("template", [" $v", "$v ", "$v$v", "$v$$", "$v."])
def test_inside_longer_text_it_is_written_as_text(template: str) -> None:
    assert isinstance(filled(template, v=7), str)


@given(texts, texts)
def test_data_is_never_read_again(data: str, other: str) -> None:
    hostile = f"$other ${data} $$ $data.x {{{{other}}}}"
    assert filled("[$data|$other]", data=hostile, other=other) == f"[{hostile}|{other}]"


def test_data_with_a_reference_in_it_stays_as_it_is() -> None:
    assert filled("$a and $b", a="$b", b="$a") == "$b and $a"
    assert filled({"k": "$a"}, a="$b", b=1) == {"k": "$b"}
    assert filled("$a", a=("$b", freeze({"x": "$$"})), b=1) == ("$b", {"x": "$$"})


def test_keys_of_objects_are_not_read() -> None:
    assert filled({"$a": "$a"}, a=1) == {"$a": 1}
    assert [found.path for found in embedded({"$a": "$a"})] == [("$a",)]


def test_values_without_references_come_back_equal_and_frozen() -> None:
    value = {"n": 1, "list": [True, None, "x", {"y": Decimal("0.5")}]}
    found = filled(value)
    assert found == freeze(value)
    assert type(found) is FrozenMap
    assert type(found["list"][3]) is FrozenMap


@pytest.mark.parametrize("template", ["$gone", "a $gone", "$o.gone", "$o.x.y", ["$gone"], {"k": {"l": "$gone"}}])
def test_an_undefined_reference_is_an_error_never_null_or_its_own_text(template: Any) -> None:
    with pytest.raises(UndefinedReferenceError):
        filled(template, o=freeze({"x": 1}))


def test_a_reference_takes_as_many_fields_as_are_written() -> None:
    (reference,) = parts("$a.b.c")
    assert reference == Reference(0, 6, ("a", "b", "c"))
    assert parts("$a.b.1") == (Reference(0, 4, ("a", "b")), ".1")


@given(st.text(st.sampled_from("$ab.é 😀\n_1{"), max_size=20))
def test_parts_cover_the_text_and_stand_where_they_say(text: str) -> None:
    pieces = parts(text)
    written = ["$" * 2 if piece == "$" else piece for piece in pieces]
    assert all(pieces)
    assert len("".join(piece if isinstance(piece, str) else piece.text() for piece in written)) <= len(
        text
    ) + text.count("$")
    for piece in pieces:
        if isinstance(piece, Reference):
            assert text[piece.start : piece.end] == piece.text()
    if "$" not in text:
        assert pieces == ((text,) if text else ())
    assert fill(text, ".".join) == parts_by_hand(text)


def parts_by_hand(text: str) -> str:
    """Fill a text sign by sign: a second reading of the rule, in which each reference becomes its own name."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "$":
            out, at = out + text[at], at + 1
        elif text.startswith("$$", at):
            out, at = out + "$", at + 2
        else:
            end = name_end(text, at + 1)
            while end > at + 1 and text.startswith(".", end) and name_end(text, end + 1) > end + 1:
                end = name_end(text, end + 1)
            out, at = out + (text[at + 1 : end] or "$"), end
    return out


def name_end(text: str, at: int) -> int:
    if at >= len(text) or not (text[at].isalpha() or text[at] == "_"):
        return at
    while at < len(text) and (text[at].isalnum() or text[at] == "_"):
        at += 1
    return at


@given(json_values(st.one_of(st.integers(), st.text("$ab x", max_size=8))))
def test_embedded_finds_every_reference_and_whether_it_is_the_whole(value: Any) -> None:
    for found in embedded(value):
        holder: Any = value
        for step in found.path:
            holder = holder[step]
        stretch = holder[found.reference.start : found.reference.end]
        assert stretch == found.reference.text()
        assert found.whole == (stretch == holder)
    count = sum(1 for _ in embedded(value))
    looked_up: list[tuple[str, ...]] = []
    fill(value, lambda names: looked_up.append(names) or 0)
    assert len(looked_up) == count


@given(json_values())
def test_a_value_in_text_is_what_as_text_writes(value: Any) -> None:
    frozen = freeze(value)
    assert filled("<$v>", v=frozen) == f"<{as_text(frozen)}>"
