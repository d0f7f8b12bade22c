"""What needs `language: 2`: without it a program is refused with a help that, done literally, is right."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program
from stepward.vm.errors import ProgramError
from stepward.vm.expressions.operators import FUNCTIONS
from stepward.vm.reading.source import Correction, Place

INPUTS = {"t": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}}


def written(word: str) -> str:
    row = FUNCTIONS[word]  # type: ignore[index]
    operand = "$l" if row.takes == {"array"} else "$t"
    call = f"{word}({operand}, {row.literal[1]})" if row.literal else f"{word}({operand})"
    return call if row.gives == {"boolean"} else f"{call} == 'a'"


def assigns(text: str) -> dict[str, Any]:
    return {"inputs": INPUTS, "steps": [{"id": "s", "type": "set", "set": {"x": text}}]}


def problem_of(data: dict[str, Any]) -> Any:
    with pytest.raises(ProgramError) as caught:
        Program.from_dict(data)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("word", [word for word, row in FUNCTIONS.items() if row.language == 2])
def test_a_function_needs_language_2(word: str) -> None:
    data = assigns(written(word))
    problem = problem_of(data)
    assert (problem.code, problem.message) == ("SW002", f"the function `{word}` needs language 2")
    assert (problem.help, problem.step) == ("add `language: 2` to the program", "s")
    assert problem.place.path == ("steps", 0, "set", "x")
    assert problem.correction == Correction(Place(), "2", "language", is_number=True)
    assert Program.from_dict({**data, "language": 2}).to_dict()["language"] == 2
    findings = ProgramValidator(Program.from_dict({**data, "language": 2})).validate().findings
    assert {one.code for one in findings} <= {"SW205", "SW212"}  # never 'a', and nobody reads it


@pytest.mark.parametrize(
    ("text", "feature"),
    [("$l[0] == 'a'", "an index"), ("defined($l[1])", "an index"), ('$o["a b"] > 1', "a field in brackets")],
)
def test_brackets_need_language_2(text: str, feature: str) -> None:
    problem = problem_of(assigns(text))
    assert (problem.code, problem.message) == ("SW002", f"{feature} needs language 2")
    assert problem.correction == Correction(Place(), "2", "language", is_number=True)


SPECS = {
    "const": {"const": "a"},
    "exclusiveMinimum": {"type": "number", "exclusiveMinimum": 0},
    "exclusiveMaximum": {"type": "number", "exclusiveMaximum": 0},
    "minLength": {"type": "string", "minLength": 1},
    "minItems": {"type": "array", "minItems": 1},
    "maxItems": {"type": "array", "maxItems": 1},
}


@pytest.mark.parametrize("word", SPECS)
def test_a_type_word_needs_language_2_wherever_it_stands(word: str) -> None:
    nested = {"type": "object", "properties": {"f": {"type": "array", "items": {"additionalProperties": SPECS[word]}}}}
    inside = ("properties", "f", "items", "additionalProperties", word)
    ask = {"id": "s", "type": "llm", "prompt": "?", "returns": nested}
    both = {"id": "p", "type": "parallel", "parallel_steps": [ask]}
    end = {"id": "e", "type": "end"}
    for data, path in (
        ({"inputs": {"x": nested}, "steps": [end]}, ("inputs", "x", *inside)),
        ({"tools": {"t": {"args": {"x": nested}}}, "steps": [end]}, ("tools", "t", "args", "x", *inside)),
        ({"tools": {"t": {"returns": nested}}, "steps": [end]}, ("tools", "t", "returns", *inside)),
        ({"steps": [ask]}, ("steps", 0, "returns", *inside)),
        ({"steps": [both]}, ("steps", 0, "parallel_steps", 0, "returns", *inside)),
    ):
        problem = problem_of(data)
        assert problem.message == f"the type word `{word}` needs language 2"
        assert problem.place == Place(path, key=True)
        said = Program.from_dict({**data, "language": 2})
        assert Program.from_dict(said.to_dict()) == said


def test_every_expression_is_searched() -> None:
    asks = "lower($t) == 'a'"
    end = {"id": "e", "type": "end"}
    tools = {"t": {"effect": "write"}}
    call = {"id": "e", "type": "tool", "tool": "t"}
    rule = {"name": "r", "never": {"tool": "t"}, "when": asks}
    for data, path in (
        ({"steps": [{"id": "c", "type": "condition", "condition": asks, "then": "e"}, end]}, ("steps", 0, "condition")),
        (
            {"steps": [{"id": "c", "type": "condition", "cases": [{"when": asks, "then": "e"}]}, end]},
            ("steps", 0, "cases", 0, "when"),
        ),
        ({"steps": [call], "tools": tools, "guardrails": [rule]}, ("guardrails", 0, "when")),
    ):
        problem = problem_of({"inputs": INPUTS, **data})
        assert problem.place == Place(path, within=(0, 9))
        assert problem.step == ("c" if path[0] == "steps" else None)


def test_only_the_first_use_is_reported_and_no_text_that_looks_like_one() -> None:
    steps = [
        {"id": "a", "type": "set", "set": {"x": "'lower(this)'", "y": "$t starts_with 'trim('"}},
        {"id": "b", "type": "set", "set": {"x": "upper($t)", "y": "trim($t)"}},
    ]
    assert problem_of({"inputs": INPUTS, "steps": steps}).step == "b"
    Program.from_dict({"inputs": INPUTS, "steps": steps[:1]})


def test_a_policy_may_use_everything() -> None:
    spec = {"type": "string", "minLength": 1}
    rule = {"name": "r", "never": {"tool": "t"}, "when": "lower($args.x) == 'a'"}
    policy = {"policy": "p", "tools": {"t": {"effect": "write", "args": {"x": spec}}}, "guardrails": [rule]}
    call = {"id": "c", "type": "tool", "tool": "t", "args": {"x": "A"}}
    report = ProgramValidator(Program.from_dict({"steps": [call]}), [Policy.from_dict(policy)]).validate()
    assert "SW403" in {one.code for one in report.findings}


def test_a_program_that_says_language_1_is_told_to_change_it() -> None:
    problem = problem_of({"language": 1, **assigns("trim($t)")})
    assert problem.help == "write `language: 2` instead of `language: 1`"
    assert problem.correction is None


def test_language_2_changes_nothing_in_a_program_of_language_1() -> None:
    data = assigns("$t == 'a'")
    one, two = Program.from_dict(data), Program.from_dict({**data, "language": 2})
    assert "language" not in one.to_dict()
    assert two.to_dict() == {**one.to_dict(), "language": 2}


def test_another_language_is_refused_in_words() -> None:
    assert problem_of({"language": 3, **assigns("1")}).message == "`language` can't be `3`"


@pytest.mark.parametrize(
    "text", ["$t in ['a', $t]", "len([$l, $l]) == 2", "['b',\n $t] contains $t", "$l + [$t] contains 'a'"]
)
def test_a_reference_in_a_list_needs_language_2(text: str) -> None:
    problem = problem_of(assigns(text))
    assert (problem.code, problem.message) == ("SW002", "a reference in a list needs language 2")
    assert problem.correction == Correction(Place(), "2", "language", is_number=True)
    assert Program.from_dict({**assigns(text), "language": 2}).language == 2
