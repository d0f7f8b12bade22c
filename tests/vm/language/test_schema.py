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


@pytest.mark.parametrize("path", documents("specs/programs/good"))
def test_a_good_program_is_valid(path: Path) -> None:
    (document,) = read_file(path)
    Draft202012Validator(schema("program")).validate(plain(document.data))


@pytest.mark.parametrize("path", documents("specs/policies"))
def test_a_policy_is_valid(path: Path) -> None:
    (document,) = read_file(path)
    Draft202012Validator(schema("policy")).validate(plain(document.data))


NO_SCHEMA_SAYS = {"no-such-amount.yaml": "that a bound is below another"}


@pytest.mark.parametrize("path", documents("specs/programs/bad/SW002"))
def test_what_the_loader_refuses_the_schema_refuses_too(path: Path) -> None:
    (document,) = read_file(path)
    try:
        Program.from_document(document)
    except DocumentError:
        is_valid = Draft202012Validator(schema("program")).is_valid(plain(document.data))
        assert is_valid is (path.name in NO_SCHEMA_SAYS)
