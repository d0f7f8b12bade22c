"""A program with fields added to some of its steps, wherever they are written: in its list, in bodies, in calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepward.vm.language.layout import Layout
from stepward.vm.language.node import Node
from stepward.vm.language.program import Program
from stepward.vm.language.record import Record
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap


def written_id(layout: Layout, number: int) -> str:
    """Return the id of a step as its own program writes it: that of a called program has no calls before it."""
    calls = [layout.steps[owner] for owner in layout.owners_of(number)]
    inner = next((call for call in reversed(calls) if isinstance(call, InvokeStep)), None)
    return layout.steps[number].id.removeprefix(f"{inner.id}/" if inner is not None else "")


def with_fields(program: Program, layout: Layout, changes: Mapping[int, Mapping[str, object]]) -> Program:
    """Return a program some of whose steps, by their position in its layout, have other fields, too.

    A step of a called program changes for all calls of it. The fields are not validated.
    """
    for number, fields in changes.items():
        path = tuple(_own(part) for part in layout.path(number))
        program = _changed(program, path, fields)
    return program


def _own(part: str | int) -> str | int:
    """Return a part of a path as the document has it: names of a called program have its calls before them."""
    return part.rpartition("/")[2] if isinstance(part, str) else part


def _changed(whole: Any, path: Path, fields: Mapping[str, object]) -> Any:
    """Return a part of a program in which the step at a path has other fields."""
    if not path:
        return whole.replace(**fields)
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        return tuple(_changed(one, rest, fields) if at == first else one for at, one in enumerate(whole))
    if isinstance(whole, Node):
        return whole.model_copy(update={first: _changed(getattr(whole, first), rest, fields)})
    if isinstance(whole, Record):
        return whole.replace(**{first: _changed(getattr(whole, first), rest, fields)})
    return FrozenMap((name, _changed(one, rest, fields) if name == first else one) for name, one in whole.items())
