"""Which prompts may hold a sensitive value, so that the machine refuses them (specs/language.md, "Policies").

A value is public if nothing that it is made of can be sensitive. An output may repeat a sensitive value, and is sealed
then, unless its type is that of a boolean or lists its values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import field_type
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.types import words
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import ComputeStep, ForEachStep, InvokeStep, LlmCall, ToolCall
from stepward.vm.language.types import TypeSpec

_SHORT: Final = {"boolean", "null"}


def may_hold_sensitive(reading: Parsed, boundary: Boundary, call: LlmCall) -> bool:
    """Return whether the prompt or the system text of a call may hold a sensitive value."""
    if not any(map(_has_mark, _marking(reading))):
        return False
    pending: list[Names | None] = [*read_by(call)]
    visited: set[Names] = set()
    while pending:
        names = pending.pop()
        resolution = None if names is None else reading.lookup.resolve(names)
        if names is None or resolution is None:
            return True
        if names in visited:
            continue
        visited.add(names)
        for source in resolution.sources:
            if _is_sealed(reading, boundary, source, resolution.fields):
                return True
            pending += _made_of(reading, source)
    return False


def _marking(reading: Parsed) -> list[TypeSpec | None]:
    """Return the types that mark the values of inputs and outputs."""
    types: list[TypeSpec | None] = [*(reading.program.inputs or {}).values()]
    for _, _, call in reading.calls:
        if isinstance(call, ToolCall):
            types.append(reading.tool(call.tool).returns)
        elif isinstance(call, LlmCall):
            types.append(call.returns)
    for step in reading.steps:
        if isinstance(step, ComputeStep):
            types.append(step.returns)
        elif isinstance(step, InvokeStep):
            types += step.declared.values()
    return types


def _has_mark(spec: TypeSpec | None) -> bool:
    if spec is None:
        return False
    inner: list[object] = [*(spec.properties or {}).values(), spec.items, spec.additional_properties]
    return spec.sensitive or any(_has_mark(one) for one in inner if isinstance(one, TypeSpec))


def _is_sealed(reading: Parsed, boundary: Boundary, source: Source, fields: Names) -> bool:
    """Return whether a source may give a sensitive value by its own type, apart from the values that it is made of."""
    if source.kind == "input":
        spec = (reading.program.inputs or {}).get(source.name)
        around = [field_type(spec, fields[:depth])[0] for depth in range(len(fields))]
        return any(one is not None and one.sensitive for one in around) or _has_mark(field_type(spec, fields)[0])
    if source.kind == "set":
        step = reading.steps[source.step]
        declared = step.declared.items() if isinstance(step, InvokeStep) else ()
        return any(_has_mark(spec) for name, spec in declared if source.name == f"{step.id}/{name}")
    if source.kind == "output":
        spec = boundary.spec(source)
        is_call = isinstance(reading.part(source.step, source.sub), LlmCall | ToolCall)
        if not is_call or fields or spec is None or _has_mark(spec):
            return True
        return spec.enum is None and not words(spec) <= _SHORT
    return source.kind == "errors"  # the text of one error is redacted


def _made_of(reading: Parsed, source: Source) -> Iterable[Names | None]:
    """Return the references that a `set` or a list of items reads; None for a text that can't be read."""
    if source.kind == "item":
        owner = reading.steps[reading.layout.body_of(source.step).owner]
        assert isinstance(owner, ForEachStep)
        return [found.reference.names for found in embedded(owner.items)]
    if source.kind != "set":
        return ()
    tree = reading.put_by_set(source.step).get(source.name)
    return [None] if tree is None else references([tree])
