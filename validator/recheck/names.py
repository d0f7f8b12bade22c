"""The resolution of references, written from the language's page (specs/language.md, "Data")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from stepward.vm.expressions.fields import index_of
from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyStep, Failing, ForEachStep, InvokeStep, Stage, parts
from stepward.vm.language.types import TypeSpec

Names = tuple[str, ...]

ITEMS: Final = "[]"
"""In a path, stands for every item of an array."""

ABSENT: Final = object()
"""Stands for a field or an item that a value does not have."""


def inside(value: Any, name: str) -> Any:
    """Return a field of an object, or the item of an array at the index `name`; ABSENT where there is none."""
    number = index_of(name)
    if number is None:
        return value[name] if isinstance(value, dict) and name in value else ABSENT
    return value[number] if isinstance(value, tuple) and len(value) > number else ABSENT


class Source(NamedTuple):
    """A source of values: an input, the output, the error or its name of a step or sub-step, or one name of a `set`.

    Of a for_each step: an item, its index, or the errors of its items. `name` is the name of the input, of the `set` or
    of the item, or the id of the step; `step` and `sub` are positions, for an item and its index that of the stage.
    """

    kind: Literal["input", "output", "error", "error_name", "set", "item", "index", "errors"]
    name: str
    step: int = -1
    sub: int | None = None


class Resolution(NamedTuple):
    """A resolved reference: the root that holds its value, the sources of that root, and the fields below it."""

    root: Names
    sources: tuple[Source, ...]
    fields: Names


class Lookup:
    """The lookup order: outputs and errors of steps, then variables, names of errors, and undeclared inputs."""

    def __init__(self, program: Program) -> None:
        self.declares_inputs = program.inputs is not None
        self._names_errors = program.language == 2
        self.variables: dict[str, list[Source]] = {}
        self.calls: dict[str, tuple[int, int | None]] = {}
        """The positions of the steps and sub-steps that have an output."""
        self._silent: set[str] = set()
        self._known: dict[Names, Resolution | None] = {}
        for name in program.inputs or ():
            self._gives(name, Source("input", name))
        self._listed: dict[str, int] = {}
        layout = program.layout
        for number, step in enumerate(layout.steps):
            if isinstance(step, ForEachStep) and not step.is_once:
                self._listed[step.id] = number
                stage = layout.bodies[number].next
                self._gives(step.item_name, Source("item", step.item_name, stage))
                if step.index_as is not None:
                    self._gives(step.index_as, Source("index", step.index_as, stage))
            if not isinstance(step, Stage):
                self._note(number, step)

    def _note(self, number: int, step: AnyStep) -> None:
        for name in step.assigns:
            self._gives(name, Source("set", name, number))
        if not step.has_output:
            self._silent.add(step.id)
        for sub, part in parts(step):
            if isinstance(part, Failing):
                self.calls.setdefault(part.id, (number, sub))
                if part.output_key is not None:
                    self._gives(part.output_key, Source("output", part.id, number, sub))

    def _gives(self, name: str, source: Source) -> None:
        self.variables.setdefault(name, []).append(source)

    def resolve(self, names: Names) -> Resolution | None:
        """Return a resolved reference; None where nothing ever gives it a value."""
        if names not in self._known:
            self._known[names] = self._resolve(names)
        return self._known[names]

    def _resolve(self, names: Names) -> Resolution | None:
        first = names[0]
        if len(names) > 1 and names[1] in ("output", "error"):
            if first in self.calls:
                kind: Literal["output", "error"] = "output" if names[1] == "output" else "error"
                return Resolution(names[:2], (Source(kind, first, *self.calls[first]),), names[2:])
            if first in self._silent:
                return None
        if len(names) > 1 and names[1] == "errors" and first in self._listed:
            return Resolution(names[:2], (Source("errors", first, self._listed[first]),), names[2:])
        sources: Sequence[Source] = self.variables.get(first, ())
        if self._names_errors and not sources and names[1:2] == ("error_name",) and first in self.calls:
            return Resolution(names[:2], (Source("error_name", first, *self.calls[first]),), names[2:])
        if not sources and not self.declares_inputs and first not in self.calls and "/" not in first:
            sources = (Source("input", first),)
        return Resolution(names[:1], tuple(sources), names[1:]) if sources else None


def taken_by_call(step: AnyStep, name: str) -> TypeSpec | None:
    """Return the type of an input of a called program that a call assigns, None for another step or name."""
    return step.declared.get(name[len(step.id) + 1 :]) if isinstance(step, InvokeStep) else None
