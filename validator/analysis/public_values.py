"""Which prompts certainly hold no sensitive value: the machine refuses any other one, and its step does not start.

What is not certain counts as sensitive: the machine also seals texts and numbers from outside that repeat a sensitive
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.syntax import all_references
from stepward.vm.expressions.template import embedded
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.steps import ComputeStep, ForEachStep, InvokeStep, LlmCall, ToolCall
from stepward.vm.language.types import TypeSpec, is_sensitive

_NEVER_SEALED: Final = frozenset({"boolean", "null"})


class PublicValues:
    """The values of one program of which no part is sensitive in any run."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._steps = meaning.flow.steps

    def are_all_in(self, call: LlmCall) -> bool:
        """Return whether the prompt and the system text of a call certainly hold no sensitive value."""
        if not self._has_sensitive:
            return True
        read = [found.reference.names for one in call.templates for found in embedded(one.value)]
        return all(self._is_public(self._meaning.names.meaning(names), set()) for names in read)

    @cached_property
    def _has_sensitive(self) -> bool:
        return any(spec is not None and is_sensitive(spec) for spec in self._types())

    def _types(self) -> Iterator[TypeSpec | None]:
        yield from (self._meaning.program.inputs or {}).values()
        for _, _, call, _ in self._meaning.calls:
            yield self._meaning.tool(call.tool).returns if isinstance(call, ToolCall) else call.returns
        for step in self._steps:
            if isinstance(step, ComputeStep):
                yield step.returns
            elif isinstance(step, InvokeStep):
                yield from step.declared.values()

    def _is_public(self, resolution: Resolution | None, visited: set[tuple[Source, tuple[str, ...]]]) -> bool:
        """Return whether all that gives a reference values is public; names that copy one another add nothing."""
        return resolution is not None and all(
            self._gives(source, resolution.fields, visited) for source in resolution.sources
        )

    def _gives(self, source: Source, fields: tuple[str, ...], visited: set[tuple[Source, tuple[str, ...]]]) -> bool:
        if (source, fields) in visited:
            return True
        visited.add((source, fields))
        match source.kind:
            case "input":
                return not _is_marked((self._meaning.program.inputs or {}).get(source.name), fields)
            case "output":
                return not fields and self._is_never_sealed(source)
            case "set" | "item":
                return self._is_made_public(source, visited)
            case _:
                return source.kind != "errors"  # texts of errors are redacted

    def _is_never_sealed(self, source: Source) -> bool:
        """Return whether an output is of a type in which the machine does not look for sensitive values."""
        spec = self._meaning.typing.effective(source)
        if spec is None or is_sensitive(spec):
            return False
        step = None if source.step is None else self._steps[source.step]
        part = step if step is None or source.sub is None else step.sub_steps[source.sub]
        return isinstance(part, LlmCall | ToolCall) and (spec.enum is not None or spec.kinds <= _NEVER_SEALED)

    def _is_made_public(self, source: Source, visited: set[tuple[Source, tuple[str, ...]]]) -> bool:
        """Return whether what the program assigns, or lists as items, is made of public values alone."""
        assert source.step is not None
        step = self._steps[source.step]
        if source.kind == "item":
            owner = self._steps[self._meaning.flow.layout.body_of(source.step).owner]
            assert isinstance(owner, ForEachStep)
            read = [found.reference.names for found in embedded(owner.items)]
        else:
            if isinstance(step, InvokeStep) and _is_marked(step.type_of(source.name), ()):
                return False
            clauses = [one for one in self._meaning.clauses_of.get(source.step, ()) if one.name == source.name]
            if any(one.tree is None for one in clauses):
                return False
            read = [found.names for one in clauses if one.tree is not None for found in all_references(one.tree)]
        return all(self._is_public(self._meaning.names.meaning(names), visited) for names in read)


def _is_marked(spec: TypeSpec | None, fields: tuple[str, ...]) -> bool:
    """Return whether a field of a value, a value around it, or a part of it is marked as sensitive."""
    for name in fields:
        if spec is None or spec.sensitive:
            return spec is not None
        rest = spec.additional_properties
        additional = rest if isinstance(rest, TypeSpec) else None
        spec = spec.items if index_of(name) is not None else (spec.properties or {}).get(name, additional)
    return spec is not None and is_sensitive(spec)
