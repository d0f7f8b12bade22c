"""Texts that are read, and where something stands in them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document
from stepward.vm.reading.json_format import read_json
from stepward.vm.reading.source import Span
from stepward.vm.reading.yaml_format import read_yaml


def yaml_document(text: str) -> Document:
    (document,) = read_yaml("test", text)
    return document


def data_of(text: str) -> Any:
    document = yaml_document(text)
    assert document.problems == ()
    return document.data


def problem_of(text: str, *, is_json: bool = False) -> Problem:
    with pytest.raises(ProgramError) as caught:
        read_json("test", text) if is_json else read_yaml("test", text)
    (problem,) = caught.value.problems
    assert problem.message
    assert problem.help
    return problem


def stretch(text: str, span: Span) -> str:
    """Return what a span covers, counted by hand: lines end with a line feed and nothing else."""
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]
    return text[starts[span.line - 1] + span.column - 1 : starts[span.end_line - 1] + span.end_column - 1]
