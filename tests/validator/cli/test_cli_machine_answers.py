"""Fast: answers on the command line are JSON, and a word that is none is a text where the type allows one."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator.cli.values import ValueUnreadable, answer_of, value_of
from stepward.vm.language.types import TypeSpec

TYPES: dict[str, Any] = {
    "any": None,
    "text": {"type": "string", "maxLength": 20},
    "enum": {"enum": ["agree", "refuse"]},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "or null": {"type": ["string", "null"]},
    "object": {"type": "object"},
}
ANSWERS = [
    ("text", '"acme"', "acme"),
    ("text", ' "acme"\n', "acme"),
    ("text", '"say \\"hi\\""', 'say "hi"'),
    ("text", "acme", "acme"),
    ("text", "acme & sons", "acme & sons"),
    ("text", "007", "007"),
    ("text", "120", "120"),
    ("text", "true", "true"),
    ("text", "'acme'", "'acme'"),
    ("enum", '"agree"', "agree"),
    ("enum", "agree", "agree"),
    ("enum", '"maybe"', "maybe"),  # the machine refuses it, and names what was given
    ("or null", "null", None),
    ("or null", '"null"', "null"),
    ("or null", "nobody", "nobody"),
    ("number", "12", 12),
    ("number", '"12"', "12"),
    ("boolean", "true", True),
    ("boolean", '"true"', "true"),
    ("object", '{"a": "b"}', {"a": "b"}),
    ("any", '"acme"', "acme"),
    ("any", "true", True),
]


@pytest.mark.parametrize(("kind", "text", "value"), ANSWERS)
def test_an_answer_is_json_and_else_a_text(kind: str, text: str, value: Any) -> None:
    data = TYPES[kind]
    spec = None if data is None else TypeSpec.model_validate(data, strict=False)
    assert answer_of(text, spec, "the payload") == value


def test_what_is_neither_is_refused_and_inputs_stay_as_they_are_written() -> None:
    number = TypeSpec.model_validate({"type": "number"}, strict=False)
    for text in ('{"a": ', '{"a": 1, "a": 2}'):
        with pytest.raises(ValueUnreadable, match="the payload can't be read"):
            answer_of(text, number, "the payload")
    for empty in ("", " "):
        for spec in (None, number):
            with pytest.raises(ValueUnreadable, match="the payload can't be read: it is empty"):
                answer_of(empty, spec, "the payload")
    text = TypeSpec.model_validate({"type": "string"}, strict=False)
    assert value_of('"acme"', text, "input `who`") == '"acme"', "`--input` is no JSON"
