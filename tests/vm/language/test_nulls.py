"""Fields that are null: one that the language knows counts as absent, and one that it does not know is refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from stepward.vm import Policy, Program
from stepward.vm.errors import DocumentError

PROGRAM: dict[str, Any] = {
    "language": 2,
    "inputs": {
        "x": {
            "type": "object",
            "properties": {"p": {"type": "string"}},
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        }
    },
    "tools": {"t": {"args": {"a": {"type": "number"}}, "returns": {"type": "boolean"}, "errors": ["Late"]}},
    "steps": [
        {"id": "s", "type": "tool", "tool": "t", "args": {"a": 1}, "retry": [{"errors": ["Late"]}]},
        {"id": "u", "type": "tool", "tool": "t", "args": {"a": 2}, "catch": [{"errors": ["any"], "then": "e"}]},
        {"id": "c", "type": "condition", "cases": [{"when": "true", "then": "p"}], "otherwise": "e"},
        {
            "id": "p",
            "type": "parallel",
            "parallel_steps": [{"id": "q", "type": "tool", "tool": "t", "args": {"a": 3}}],
        },
        {
            "id": "f",
            "type": "for_each",
            "items": "[1, 2]",
            "as": "i",
            "max_items": 2,
            "do": {"id": "d", "type": "tool", "tool": "t", "args": {"a": "$i"}},
        },
        {
            "id": "g",
            "type": "for_each",
            "items": "[1, 2]",
            "as": "j",
            "max_items": 2,
            "steps": [{"id": "b", "type": "set", "set": {"y": "$j"}}],
            "guardrails": [{"name": "never-here", "never": {"tool": "t"}}],
        },
        {"id": "e", "type": "end"},
    ],
    "guardrails": [
        {"name": "needs", "protects": {"tool": "t"}, "requires": {"any_of": [{"step": "c", "branch": "p"}]}},
        {"name": "behind", "followed_by": {"first": {"tool": "t"}, "then": {"step": "e"}}},
    ],
    "programs": {"inner": {"steps": [{"id": "z", "type": "end"}]}},
}
POLICY: dict[str, Any] = {
    "policy": "money",
    "tools": {"t": {"args": {"a": {"type": "number"}}, "returns": {"type": "boolean"}}},
    "allow": [{"tool": "t"}],
    "guardrails": [{"name": "needs", "protects": {"tool": "t"}, "requires": {"step": "c", "branch": "p"}}],
    "waivers": [{"program": "p", "rule": "r", "reason": "known", "expiry": "2099-01-01"}],
}
LEVELS = {
    "program": (PROGRAM, (), "max_steps", "max_stepz"),
    "input": (PROGRAM, ("inputs", "x"), "required", "requird"),
    "property": (PROGRAM, ("inputs", "x", "properties", "p"), "pattern", "patern"),
    "additional properties": (PROGRAM, ("inputs", "x", "additionalProperties"), "maxItems", "maxItemz"),
    "items": (PROGRAM, ("inputs", "x", "additionalProperties", "items"), "enum", "enums"),
    "tool": (PROGRAM, ("tools", "t"), "effect", "efect"),
    "argument": (PROGRAM, ("tools", "t", "args", "a"), "maximum", "maximun"),
    "output": (PROGRAM, ("tools", "t", "returns"), "enum", "enun"),
    "step": (PROGRAM, ("steps", 0), "output_key", "outputkey"),
    "field of another step": (PROGRAM, ("steps", 6), "output_key", "outputkey"),
    "retry": (PROGRAM, ("steps", 0, "retry", 0), "backoff", "back_of"),
    "catch": (PROGRAM, ("steps", 1, "catch", 0), "then", "next"),
    "case": (PROGRAM, ("steps", 2, "cases", 0), "name", "nam"),
    "sub-step": (PROGRAM, ("steps", 3, "parallel_steps", 0), "output_key", "ouput_key"),
    "do": (PROGRAM, ("steps", 4, "do"), "output_key", "ouput_key"),
    "body": (PROGRAM, ("steps", 5, "steps", 0), "next_step", "next_stp"),
    "rule of a body": (PROGRAM, ("steps", 5, "guardrails", 0), "when", "whenn"),
    "rule": (PROGRAM, ("guardrails", 0), "fresh", "frehs"),
    "selector": (PROGRAM, ("guardrails", 0, "protects"), "step", "sttep"),
    "requirement": (PROGRAM, ("guardrails", 0, "requires", "any_of", 0), "tool", "tol"),
    "followed_by": (PROGRAM, ("guardrails", 1, "followed_by"), "ends", "endz"),
    "called program": (PROGRAM, ("programs", "inner"), "inputs", "inputz"),
    "step of a called program": (PROGRAM, ("programs", "inner", "steps", 0), "output", "outptu"),
    "policy": (POLICY, (), "description", "descripton"),
    "tool of a policy": (POLICY, ("tools", "t"), "suspends", "suspend"),
    "argument of a policy": (POLICY, ("tools", "t", "args", "a"), "maximum", "maximun"),
    "allowed tool": (POLICY, ("allow", 0), "when", "wen"),
    "rule of a policy": (POLICY, ("guardrails", 0), "fresh", "frehs"),
    "waiver": (POLICY, ("waivers", 0), "reason", "reson"),
}


def _read(data: dict[str, Any]) -> Any:
    return (Policy if "policy" in data else Program).from_dict(data)


def _with(whole: dict[str, Any], path: tuple[Any, ...], name: str) -> dict[str, Any]:
    data = deepcopy(whole)
    part: Any = data
    for key in path:
        part = part[key]
    part.setdefault(name, None)
    return data


@pytest.mark.parametrize("level", LEVELS)
def test_a_known_field_that_is_null_is_absent_and_an_unknown_one_is_refused(level: str) -> None:
    whole, path, known, unknown = LEVELS[level]
    plain = _read(whole)
    assert _read(_with(whole, path, known)) == plain
    for name in (unknown, "Here you are"):
        with pytest.raises(DocumentError) as refused:
            _read(_with(whole, path, name))
        problems = [(one.code, one.place.path, one.place.key) for one in refused.value.problems]
        assert problems == [("SW002", (*path, name), True)]
        assert f"`{name}`" in refused.value.problems[0].message


def test_the_help_for_an_unknown_field_that_is_null_names_the_field_that_is_meant() -> None:
    with pytest.raises(DocumentError) as refused:
        Program.from_dict({"steps": PROGRAM["steps"][-1:], "guardrials": None})
    problem = refused.value.problems[0]
    assert (problem.message, problem.help) == (
        "unknown field `guardrials` in the document",
        "did you mean `guardrails`?",
    )
