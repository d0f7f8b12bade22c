"""Property: a program that is written as YAML or JSON and read again is the same program."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paths import ROOT
from programs import programs
from sizes import size
from stepward.vm import Meaning, Place, Program
from stepward.vm.reading.files import read_file

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [
        "yes",
        "no",
        "on",
        "null",
        "~",
        "1e3",
        "0o17",
        "0x1F",
        "1.0",
        ".inf",
        "- a",
        "a: b",
        "#x",
        "'",
        '"',
        "$a",
        "$$",
        " x ",
        "\t",
    ]
)
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3).map(Decimal)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def decorated(draw: st.DrawFn) -> dict[str, Any]:
    """A random program with random texts and values wherever the language takes any."""
    data: dict[str, Any] = draw(programs())
    data["description"] = draw(TEXTS)
    for step in data["steps"]:
        if step["type"] == "tool":
            step["args"] = draw(st.dictionaries(TEXTS, VALUES, max_size=3))
        elif step["type"] == "llm":
            step["prompt"] = draw(TEXTS)
        elif step["type"] == "end":
            step["output"] = draw(VALUES)
        elif step["type"] == "set":
            step["set"] = {**step["set"], "v": draw(VALUES)}
    return data


@settings(max_examples=size(30, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(decorated())
def test_a_program_survives_yaml_and_json(data: dict[str, Any]) -> None:
    program = Program.from_dict(data)
    assert Program.from_dict(program.to_dict()) == program
    assert Program.from_json(program.to_json()) == program
    assert Program.from_yaml(program.to_yaml()) == program


@settings(max_examples=size(20, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(decorated())
def test_data_given_to_a_program_is_not_kept(data: dict[str, Any]) -> None:
    program = Program.from_dict(data)
    before = program.to_json()
    for step in data["steps"]:
        step.clear()
    assert program.to_json() == before


@pytest.mark.parametrize(
    "path", sorted((ROOT / "specs/programs").glob("[gu]*/*.[yj]*")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_an_example_program_survives_and_its_spans_point_at_its_names(path: Path) -> None:
    (document,) = read_file(path)
    program = Program.from_document(document)
    assert Program.from_yaml(program.to_yaml()) == Program.from_json(program.to_json()) == program
    lines = document.text.splitlines()
    places = {Place(("steps", number, "id")): step.id for number, step in enumerate(program.steps)}
    for place, span in document.locate(places).items():
        assert span.line == span.end_line
        assert lines[span.line - 1][span.column - 1 : span.end_column - 1].strip("\"'") == places[place]


@pytest.mark.parametrize("path", sorted((ROOT / "specs/programs/good").glob("*.[yj]*")), ids=lambda path: path.name)
def test_the_spans_of_references_in_conditions_point_at_their_text(path: Path) -> None:
    from stepward.vm.expressions.syntax import references

    (document,) = read_file(path)
    wanted = {
        Place(clause.path, within=(node.start, node.end)): node.text()
        for clause in Meaning(Program.from_document(document)).clauses
        if clause.tree is not None and clause.path[0] != "programs"  # texts of called programs are not as written
        if not clause.is_of_fields  # it has the trees of several texts
        for node in references(clause.tree)
    }
    lines = document.text.splitlines()
    for place, span in document.locate(wanted).items():
        assert span.line == span.end_line
        assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == wanted[place]
