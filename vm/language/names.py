"""Names: who gives a variable its values, and what a reference speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple

from stepward.vm.language.program import Program
from stepward.vm.language.steps import Failing
from stepward.vm.reading.source import Path

_Kind = Literal["input", "output", "set", "error"]


class Source(NamedTuple):
    """Something that gives values: an input, the output of a step or sub-step, or one name of a `set`.

    `step` is the position of the step in the program's list, `sub` that of a sub-step in it; `path` is where it
    stands in the document.
    """

    kind: _Kind
    name: str
    path: Path
    step: int | None = None
    sub: int | None = None


_Parts = tuple[_Kind, str, Path, int | None, int | None]
_source: Final[Callable[[_Parts], Source]] = partial(tuple.__new__, Source)
"""Makes a source; a large program has so many that the class's own way of making one shows."""


class Meant(NamedTuple):
    """What a reference speaks of: the sources of its first names, and the fields below."""

    sources: tuple[Source, ...]
    fields: tuple[str, ...]


_UNASKED: Final = Meant((), ())


@dataclass(frozen=True)
class Names:
    """Every name of a program. Without an `inputs` section, what nobody assigns is an input.

    `silent` are the ids of the steps that have neither output nor error: conditions, `set` and `end`.
    """

    variables: dict[str, list[Source]] = field(default_factory=dict)
    outputs: dict[str, Source] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    declares_inputs: bool = True
    _meanings: dict[tuple[str, ...], Meant | None] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Names:
        """Collect the names of a program."""
        names = cls(declares_inputs=program.inputs is not None)
        for name in program.inputs or ():
            names._bind(name, Source("input", name, ("inputs", name)))
        for number, step in enumerate(program.steps):
            if isinstance(step, Failing):
                names._add_call(step, ("steps", number), number, None)
                for sub, part in enumerate(step.parallel_steps if step.type == "parallel" else ()):
                    names._add_call(part, ("steps", number, "parallel_steps", sub), number, sub)
                continue
            names.silent.add(step.id)
            for name in step.set if step.type == "set" else ():
                names._bind(name, Source("set", name, ("steps", number, "set", name), number))
        return names

    def _add_call(self, step: Failing, path: Path, number: int, sub: int | None) -> None:
        fields = step.__dict__  # a third of the time of asking the model for them
        name, output_key = fields["id"], fields["output_key"]
        output = _source(("output", name, path, number, sub))
        self.outputs.setdefault(name, output)
        if output_key is not None:
            self._bind(output_key, output)

    def _bind(self, name: str, source: Source) -> None:
        self.variables.setdefault(name, []).append(source)

    def meaning(self, names: tuple[str, ...]) -> Meant | None:
        """Return what a reference speaks of, or None when nothing ever defines it."""
        meant = self._meanings.get(names, _UNASKED)
        if meant is _UNASKED:
            meant = self._meanings[names] = self._meaning(names)
        return meant

    def _meaning(self, names: tuple[str, ...]) -> Meant | None:
        found = self.locate(names)
        if found is None:
            return None
        key, fields = found
        if len(key) == 2:
            source = self.outputs[key[0]]
            return Meant((source if key[1] == "output" else source._replace(kind="error"),), fields)
        sources = self.variables.get(key[0])
        return Meant((Source("input", key[0], ()),) if sources is None else tuple(sources), fields)

    def locate(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return what holds a reference's value, `(variable,)`, `(step, "output")` or `(step, "error")`, and fields.

        This is the one lookup order (specs/language.md, "Data"). None when nothing ever defines it.
        """
        first = names[0]
        if len(names) > 1 and names[1] in ("output", "error"):
            if first in self.outputs:
                return names[:2], names[2:]
            if first in self.silent:
                return None
        if first in self.variables or (not self.declares_inputs and first not in self.outputs):
            return names[:1], names[1:]
        return None

    def known(self) -> set[str]:
        """Return every reference that could be meant by a misspelt one, without the dollar sign."""
        return set(self.variables) | {f"{step}.output" for step in self.outputs}
