"""The schemas for editors: generated, fresh, and of one mind with the loader on every example."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from paths import ROOT
from stepward.validator.cli import main
from stepward.vm import DocumentError, Policy, Program
from stepward.vm.language.steps import STEP_MODELS, SUB_STEP_MODELS, BaseStep
from stepward.vm.reading.files import read_file

KINDS = {"program": Program, "policy": Policy}


def schema(kind: str) -> Any:
    return json.loads((ROOT / f"specs/{kind}.schema.json").read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    """Turn exact decimals into floats: a schema knows no others."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def documents(folder: str) -> list[Any]:
    paths = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".yaml", ".json")]
    return [pytest.param(path, id=str(path.relative_to(ROOT / folder))) for path in paths]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_fresh(kind: str) -> None:
    """`make docs` writes it again."""
    assert json.loads(CliRunner().invoke(main, ["schema", kind]).output) == schema(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_a_schema(kind: str) -> None:
    Draft202012Validator.check_schema(schema(kind))


@pytest.mark.parametrize("model", [*STEP_MODELS.values(), *SUB_STEP_MODELS.values()], ids=lambda model: model.__name__)
def test_an_editor_can_say_what_a_field_of_a_step_is(model: type[BaseStep]) -> None:
    fields = schema("program")["$defs"][model.__name__]["properties"]
    lacking = [name for name, field in fields.items() if name != "type" and "description" not in field]
    assert not lacking, f"validator/schema.py has to say what these are: {lacking}"


@pytest.mark.parametrize("path", documents("specs/programs/good"))
def test_a_good_program_is_valid(path: Path) -> None:
    (document,) = read_file(path)
    Draft202012Validator(schema("program")).validate(plain(document.data))


@pytest.mark.parametrize("path", documents("specs/policies"))
def test_a_policy_is_valid(path: Path) -> None:
    (document,) = read_file(path)
    Draft202012Validator(schema("policy")).validate(plain(document.data))


NO_SCHEMA_SAYS = {
    "no-such-amount.yaml": "that a bound is below another",
    "language-1.yaml": "that a function needs `language: 2`",
}


@pytest.mark.parametrize("path", documents("specs/programs/bad/SW002"))
def test_what_the_loader_refuses_the_schema_refuses_too(path: Path) -> None:
    (document,) = read_file(path)
    try:
        Program.from_document(document)
    except DocumentError:
        is_valid = Draft202012Validator(schema("program")).is_valid(plain(document.data))
        assert is_valid is (path.name in NO_SCHEMA_SAYS)


# -- where an editor marks a mistake -----------------------------------------------------------------------------------

STEPS: dict[str, dict[str, Any]] = {
    "llm": {"id": "a", "type": "llm", "prompt": "x", "output_key": "o", "next_step": "b"},
    "tool": {"id": "a", "type": "tool", "tool": "t", "args": {"x": 1}, "error_step": "b"},
    "condition": {"id": "a", "type": "condition", "condition": "$x > 1", "then": "b", "otherwise": "b"},
    "parallel": {
        "id": "a",
        "type": "parallel",
        "parallel_steps": [{"id": "p", "type": "tool", "tool": "t"}],
        "next_step": "b",
    },
    "set": {"id": "a", "type": "set", "set": {"x": 1}, "max_visits": 3},
    "end": {"id": "a", "type": "end", "outcome": "failure"},
}
SUB_STEPS = {kind: {key: STEPS[kind][key] for key in ("id", "type", *keys)} for kind, keys in
             {"llm": ("prompt", "output_key"), "tool": ("tool", "args")}.items()}  # fmt: skip
RULES: dict[str, dict[str, Any]] = {
    "requires": {"name": "r", "protects": {"tool": "t"}, "requires": {"step": "a", "branch": "then"}},
    "all of": {"name": "r", "protects": {"effect": "write"}, "requires": {"all_of": [{"any_of": [{"step": "a"}]}]}},
    "never": {"name": "r", "never": {"tool": "t"}, "when": "$x > 1"},
    "at_most_once": {"name": "r", "at_most_once": {"step": "a"}},
    "followed_by": {"name": "r", "followed_by": {"first": {"tool": "t"}, "then": {"tool": "u"}}},
    "exclusive": {"name": "r", "exclusive": [{"tool": "t"}, {"step": "a"}]},
}


def marks(kind: str, document: Any) -> dict[tuple[Any, ...], str]:
    """Return what an editor marks, with the keyword: a field that is not known, or what an error is about."""
    found: dict[tuple[Any, ...], str] = {}
    for error in Draft202012Validator(schema(kind)).iter_errors(document):
        assert error.validator not in ("oneOf", "anyOf"), error.message
        path = tuple(error.absolute_path)
        if error.validator == "additionalProperties":
            known = set(error.schema.get("properties", ()))
            found |= {(*path, name): "additionalProperties" for name in error.instance if name not in known}
        else:
            found[path] = error.validator
    return found


def misspelt(data: dict[str, Any], name: str) -> dict[str, Any]:
    return {f"{key}x" if key == name else key: value for key, value in data.items()}


def fields(examples: dict[str, dict[str, Any]], *, but: str = "") -> list[Any]:
    return [
        pytest.param(data, name, id=f"{kind}-{name}") for kind, data in examples.items() for name in data if name != but
    ]


@pytest.mark.parametrize("has_type", [True, False])
@pytest.mark.parametrize(("step", "name"), fields(STEPS, but="type"))
def test_one_misspelt_field_of_a_step_is_marked_and_not_the_step(
    step: dict[str, Any], name: str, has_type: bool
) -> None:
    """Every step needs its type: without it the step is marked for that, and the field is marked all the same."""
    wrong = {key: value for key, value in misspelt(step, name).items() if has_type or key != "type"}
    found = marks("program", {"name": "p", "steps": [STEPS["end"], wrong]})
    assert found.pop(("steps", 1, f"{name}x")) == "additionalProperties"
    assert found in ({}, {("steps", 1): "required"}), "it may be missing where it belongs"
    assert has_type or found


@pytest.mark.parametrize(("step", "name"), fields(SUB_STEPS, but="type"))
def test_one_misspelt_field_of_a_sub_step_is_marked(step: dict[str, Any], name: str) -> None:
    parallel = {"id": "a", "type": "parallel", "parallel_steps": [misspelt(step, name)]}
    found = marks("program", {"name": "p", "steps": [parallel]})
    assert found.pop(("steps", 0, "parallel_steps", 0, f"{name}x")) == "additionalProperties"
    assert set(found) <= {("steps", 0, "parallel_steps", 0)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rule", "name"), fields(RULES))
def test_one_misspelt_field_of_a_guardrail_is_marked_which_has_no_type(
    rule: dict[str, Any], name: str, kind: str
) -> None:
    document = {"name": "p", "steps": [STEPS["end"]]} if kind == "program" else {"policy": "p"}
    found = marks(kind, {**document, "guardrails": [misspelt(rule, name)]})
    assert found.pop(("guardrails", 0, f"{name}x")) == "additionalProperties"
    assert found in ({}, {("guardrails", 0): "required"})


@pytest.mark.parametrize(
    ("rule", "mark"),
    [
        ({"name": "r", "never": {"tol": "t"}}, {("never", "tol"): "additionalProperties"}),
        ({"name": "r", "never": {"tool": 3}}, {("never", "tool"): "type"}),
        ({"name": "r", "never": "t"}, {("never",): "type"}),
        ({"name": "r"}, {(): "minProperties"}),
        ({"name": "r", "when": "$x"}, {(): "required"}),
        (
            {"name": "r", "protects": {"tool": "t"}, "requires": {"step": "a", "brunch": "then"}},
            {("requires", "brunch"): "additionalProperties"},
        ),
        (
            {"name": "r", "protects": {"tool": "t"}, "requires": {"any_of": [{"tool": "t"}, {"stp": "a"}]}},
            {("requires", "any_of", 1, "stp"): "additionalProperties"},
        ),
    ],
)
def test_a_mistake_deep_in_a_guardrail_is_marked_where_it_is(
    rule: dict[str, Any], mark: dict[tuple[Any, ...], str]
) -> None:
    found = marks("program", {"name": "p", "steps": [STEPS["end"]], "guardrails": [rule]})
    found = {place: word for place, word in found.items() if word != "minProperties" or not mark.keys() - {()}}
    assert found == {("guardrails", 0, *place): word for place, word in mark.items()}


@pytest.mark.parametrize(
    ("step", "mark"),
    [
        ({"id": "a", "type": "tol", "tool": "t"}, {("type",): "enum"}),
        ({"id": "a", "type": "condition", "then": "b", "condition": "$x", "cases": [{"when": "$x", "then": "b"}]},
         {(): None}),  # an editor marks a property whose schema is `false`; this validator does not say which it is
        ({"id": "a", "type": "condition", "cases": [{"wen": "$x", "then": "b"}]},
         {("cases", 0, "wen"): "additionalProperties", ("cases", 0): "required"}),
        ({"id": "a", "type": "llm", "prompt": 3}, {("prompt",): "type"}),
        ("a", {(): "type"}),
    ],
)  # fmt: skip
def test_another_mistake_of_a_step_is_marked_where_it_is(step: Any, mark: dict[tuple[Any, ...], Any]) -> None:
    assert marks("program", {"name": "p", "steps": [step]}) == {
        ("steps", 0, *place): word for place, word in mark.items()
    }


def test_a_misspelt_field_of_a_permission_or_a_type_is_marked() -> None:
    assert marks("policy", {"policy": "p", "allow": ["t", {"tool": "t", "wen": "$x"}]}) == {
        ("allow", 1, "wen"): "additionalProperties"
    }
    inputs = {"a": {"type": "object", "additionalProperties": {"typ": "string"}}}
    assert marks("program", {"name": "p", "inputs": inputs, "steps": [STEPS["end"]]}) == {
        ("inputs", "a", "additionalProperties", "typ"): "additionalProperties"
    }
