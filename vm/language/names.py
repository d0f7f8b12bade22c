"""Names: the sources of variables, and the resolution of references."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from stepward.vm.expressions.paths import Paths
from stepward.vm.language.layout import Layout
from stepward.vm.language.program import Program
from stepward.vm.language.steps import Failing, ForEachStep, InvokeStep, parts
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path

_Kind = Literal["input", "output", "set", "error", "error_name", "item", "index", "errors"]


def assigned_path(layout: Layout, step: int, name: str) -> Path:
    """Return the path of a variable that a step assigns by `set` or `carry`, or of an argument of a call.

    If `set` assigns fields of the variable, it is that of the first of them.
    """
    owner = layout.steps[step]
    if isinstance(owner, InvokeStep):
        return (*layout.path(step), "args", name.rpartition("/")[2])
    value = owner.assigns.get(name)
    word = "carry" if isinstance(owner, ForEachStep) else "set"
    return (*layout.path(step), word, next(iter(value)) if isinstance(value, Paths) else name)


class Source(NamedTuple):
    """A source of values: an input, an output, an error, the name of an error, or one name of a `set` or `carry`.

    Of a for_each step: its item, the index of that, or the errors of its items. `step` is the position of the step in
    the layout of the program, `sub` that of a sub-step in it; `path` is its path in the document.
    """

    kind: _Kind
    name: str
    path: Path
    step: int | None = None
    sub: int | None = None


class Resolution(NamedTuple):
    """A resolved reference: the sources of its first names, and the fields below."""

    sources: tuple[Source, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """Every name of a program. Without an `inputs` section, a name that nobody assigns is an input.

    `silent` are the ids of the steps that have neither output nor error: conditions, `set` and `end`. `listed` are
    those of the steps with errors of items. In a program of language 2, errors have names.
    """

    variables: dict[str, list[Source]] = field(default_factory=dict)
    outputs: dict[str, Source] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    listed: dict[str, Source] = field(default_factory=dict)
    declares_inputs: bool = True
    has_error_names: bool = False
    _meanings: dict[tuple[str, ...], Resolution | None] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Names:
        """Collect the names of a program."""
        names = cls(declares_inputs=program.inputs is not None, has_error_names=program.language == 2)
        for name in program.inputs or ():
            names._bind(name, Source("input", name, ("inputs", name)))
        layout = program.layout
        for number, step in enumerate(layout.steps):
            for name in step.assigns:
                names._bind(name, Source("set", name, assigned_path(layout, number, name), number))
            if not step.has_output:
                names.silent.add(step.id)
            if isinstance(step, ForEachStep) and not step.is_once:
                names._bind_items(step, layout, number)
            for sub, part in parts(step):
                if isinstance(part, Failing):
                    output = Source("output", part.id, layout.path(number, sub), number, sub)
                    names.outputs.setdefault(part.id, output)
                    if part.output_key is not None:
                        names._bind(part.output_key, output)
        return names

    def _bind_items(self, step: ForEachStep, layout: Layout, number: int) -> None:
        """Bind what a for_each step gives to each item, which the stage before the item assigns."""
        stage, path = layout.bodies[number].next, layout.path(number)
        self._bind(step.item_name, Source("item", step.item_name, (*path, "as"), stage))
        if step.index_as is not None:
            self._bind(step.index_as, Source("index", step.index_as, (*path, "index_as"), stage))
        self.listed[step.id] = Source("errors", step.id, path, number)

    def _bind(self, name: str, source: Source) -> None:
        self.variables.setdefault(name, []).append(source)

    def meaning(self, names: tuple[str, ...]) -> Resolution | None:
        """Return what a reference resolves to, or None if nothing ever defines it."""
        if names not in self._meanings:
            self._meanings[names] = self._meaning(names)
        return self._meanings[names]

    def _meaning(self, names: tuple[str, ...]) -> Resolution | None:
        found = self.locate(names)
        if found is None:
            return None
        key, fields = found
        if len(key) == 2 and key[1] == "errors":
            return Resolution((self.listed[key[0]],), fields)
        if len(key) == 2:
            source = self.outputs[key[0]]
            return Resolution((source if key[1] == "output" else source._replace(kind=key[1]),), fields)  # type: ignore[arg-type]
        sources = self.variables.get(key[0])
        return Resolution((Source("input", key[0], ()),) if sources is None else tuple(sources), fields)

    def locate(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Split a reference into its variable, `(step, "output")` or another value of a step, and the fields below.

        This defines the lookup order (specs/language.md, "Data"). Returns None if nothing ever defines the reference.
        """
        first = names[0]
        if len(names) > 1 and names[1] in ("output", "error"):
            if first in self.outputs:
                return names[:2], names[2:]
            if first in self.silent:
                return None
        if len(names) > 1 and names[1] == "errors" and first in self.listed:
            return names[:2], names[2:]
        if first in self.variables:
            return names[:1], names[1:]
        if self.has_error_names and len(names) > 1 and names[1] == "error_name" and first in self.outputs:
            return names[:2], names[2:]
        # The checker uses a name with a dollar sign for an undefined value, and a called program declares its inputs.
        is_input = not (self.declares_inputs or first in self.outputs or first.startswith("$") or "/" in first)
        return (names[:1], names[1:]) if is_input else None

    def known(self) -> set[str]:
        """Return the references to which a misspelt one is compared, without the dollar sign."""
        return set(self.variables) | {f"{step}.output" for step in self.outputs}


def input_of_call(layout: Layout, source: Source) -> TypeSpec | None:
    """Return the declared type of a source that is an input of a called program, None for any other source."""
    step = None if source.step is None else layout.steps[source.step]
    return step.type_of(source.name) if isinstance(step, InvokeStep) else None
