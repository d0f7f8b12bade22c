"""The rest of a program: what is left of it once a step was left, as a program of its own.

A run that moves to a new version of its program goes on with the rest of that version. The values that the run has so
far are the inputs of the rest. Its first step assigns those that the rest assigns again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Reference, all_references
from stepward.vm.expressions.template import parts as pieces_of
from stepward.vm.expressions.template import texts
from stepward.vm.language.flow import Flow
from stepward.vm.language.loading import build_program
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.node import plain
from stepward.vm.language.program import Program
from stepward.vm.language.scopes import local_names
from stepward.vm.language.steps import Failing, ForEachStep, Routed, parts
from stepward.vm.reading.source import Path

ENTRY: Final = "moved"
"""The id of the first step of a rest, and the variable that it assigns if it has to assign no other."""


class RunSoFar(NamedTuple):
    """What a run has so far: the step that it leaves, its values by reference with their types, and visits of steps.

    The types are plain data, as a program has them. `sources` are the references under which a value is found that
    another run had under its own.
    """

    step: str
    types: Mapping[str, Any]
    visits: Mapping[str, int]
    sources: Mapping[str, str]


class Rest(NamedTuple):
    """The rest of a program, and the reference that each of its inputs reads."""

    program: Program
    reads: Mapping[str, str]


class NoRestError(Exception):
    """A program has no rest that could go on; the message says why."""


def rest_of(program: Program, left: RunSoFar) -> Rest:
    """Return the rest of a program once `left.step` has succeeded; raises NoRestError, and ProgramError for its shape.

    Guardrails of the program are no part of it: they have seen what was before.
    """
    return _Cutting(program, left).rest()


class _Cutting:
    """Cuts one program."""

    def __init__(self, program: Program, left: RunSoFar) -> None:
        self.program, self.left = program, left
        self.meaning = Meaning(program, ())
        self.flow: Flow = self.meaning.flow
        self.layout = program.layout
        position = self.flow.position.get(left.step)
        if position is None or not self._is_own(position):
            raise NoRestError(f"it has no step `{left.step}` in its own list")
        self.leaving = next(one for one in self.flow.transitions[position] if one.kind == "success")
        self.own = self.layout.steps[position]
        self.kept = self._reachable(self.leaving.to)
        self.names: dict[tuple[str, ...], str] = {}
        self.taken = {part.id for step in self.layout.steps for _, part in parts(step)}
        self.taken |= {*self.meaning.names.variables, *left.types}

    def _reachable(self, first: int) -> set[int]:
        found, todo = set[int](), [first] if first >= 0 else []
        while todo:
            number = todo.pop()
            if number not in found:
                found.add(number)
                todo += self.flow.successors[number]
        return found

    def _free(self, name: str) -> str:
        """Return a name that nothing has yet."""
        number, free = 1, name
        while free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        return free

    def rest(self) -> Rest:
        """Return the rest."""
        data = plain(self.program.to_data())
        self._rename(data)
        steps = [self._step(data, number) for number in sorted(self.kept) if self._is_own(number)]
        carried = self._carried()
        assigned, local = self._assigned()
        inputs, reads, values = dict[str, Any](), dict[str, str](), dict[str, str]()
        for name, source in carried.items():
            if name in local:
                continue
            entered = name
            if name in assigned:
                entered = self._free(f"{name}_before")
                values[name] = f"${entered}"
            stated = (self.program.inputs or {}).get(name)
            inputs[entered] = plain(stated.to_data()) if stated is not None else self.left.types[source]
            inputs[entered].pop("default", None)
            reads[entered] = self.left.sources.get(source, source)
        for name, spec in (self.program.inputs or {}).items():
            if name not in carried and name in self._read():
                if not spec.has_default:
                    raise NoRestError(f"its input `{name}` is new, and has no default")
                inputs[name] = plain(spec.to_data())
        entry: dict[str, Any] = {"id": self._free(ENTRY), "type": "set"}
        entry["set"] = values or {self._free(ENTRY): True}
        if self.leaving.to >= 0:
            entry["next_step"] = self.layout.steps[self.leaving.to].id
        else:
            entry["is_terminal"] = True
            if self.leaving.ending is not None and self.leaving.ending.status != "SUCCESS":
                entry["outcome"] = "failure"
        data |= {"inputs": inputs, "steps": [entry, *steps]}
        data.pop("guardrails", None)
        return Rest(build_program(data, None), reads)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _is_own(self, number: int) -> bool:
        """Return whether a step is in the program's own list; what stands for a part of one is not."""
        return len(self.layout.path(number)) == 2 and self.layout.steps[number].type != "stage"

    def _step(self, data: dict[str, Any], number: int) -> dict[str, Any]:
        """Return a step of the program's own list, with its successor by name and the visits that are left."""
        step = self.layout.steps[number]
        found: dict[str, Any] = data["steps"][self.layout.path(number)[1]]
        if isinstance(step, Routed):
            following = self.layout.after(number)
            if step.next_step is None and not step.is_terminal:
                if step.id in self.flow.arms or following is None:
                    found["is_terminal"] = True
                else:
                    found["next_step"] = self.layout.steps[following].id
            if step.max_visits is not None:
                found["max_visits"] = step.max_visits - self.left.visits.get(step.id, 0)
                if found["max_visits"] <= 0:
                    raise NoRestError(f"`{step.id}` has used up the visits of its `max_visits`")
        return found

    def _assigned(self) -> tuple[set[str], set[str]]:
        """Return the variables that the rest assigns, and the names of bodies."""
        found, local = {self.names[name] for name in self.names if self._is_kept(name[0])}, set[str]()
        for number in self.kept:
            step = self.layout.steps[number]
            if step.type == "stage":
                continue
            found |= {part.output_key for _, part in parts(step) if isinstance(part, Failing) and part.output_key}
            found |= set(getattr(step, "assigns", ())) | {getattr(step, "output_key", None) or ""}
            if isinstance(step, ForEachStep):
                found |= set(step.carry)
        for owner in self.layout.bodies:
            local |= local_names(self.layout, owner)
        return found - {""}, local

    def _is_kept(self, name: str) -> bool:
        number = self.flow.position.get(name)
        return number is not None and number in self.kept

    # -- values --------------------------------------------------------------------------------------------------------

    def _carried(self) -> dict[str, str]:
        """Return the variables that the rest begins with, each with the reference whose value it has."""
        found = {name: name for name in self.left.types if "." not in name}
        found |= {name: ".".join(key) for key, name in self.names.items()}
        key = getattr(self.own, "output_key", None)
        output = f"{self.left.step}.output"
        if key is not None and output in self.left.types:
            found[key] = output
        return dict(sorted(found.items()))

    def _read(self) -> set[str]:
        """Return the variables that the rest reads."""
        return {names[0] for _, found in self._texts(plain(self.program.to_data())) for names in _names(found)}

    def _rename(self, data: dict[str, Any]) -> None:
        """Make variables of the outputs and errors of earlier steps, where the rest reads them."""
        for path, text in list(self._texts(data)):
            changed = text.text
            for reference in sorted(text.references, key=lambda one: one.start, reverse=True):
                renamed = self._renamed(reference)
                if renamed is not None:
                    key, written = renamed
                    end = reference.start + len("$" + ".".join(key))
                    changed = f"{changed[: reference.start]}${written}{changed[end:]}"
            if changed != text.text:
                _put(data, path, changed)
        for key, name in self.names.items():
            if self._is_kept(key[0]):
                step: Any = data["steps"][self.layout.path(self.flow.position[key[0]])[1]]
                step["output_key"] = name

    def _renamed(self, reference: Reference) -> tuple[tuple[str, ...], str] | None:
        located = self.meaning.names.locate(reference.names)
        if located is None or len(located[0]) < 2 or ".".join(located[0]) not in self.left.types:
            return None
        key = located[0]
        if self._is_kept(key[0]):
            number = self.flow.position[key[0]]
            step: Any = self.layout.steps[number]
            is_plain = self._is_own(number) and isinstance(step, Failing) and step.output_key is None
            if key[1] != "output" or not is_plain:
                return None
        elif key[0] in self.flow.position and not self._is_own(self.flow.position[key[0]]):
            return None
        if key not in self.names:
            self.names[key] = self._free("_".join(key))
        return key, self.names[key]

    def _texts(self, data: dict[str, Any]) -> Iterator[tuple[Path, _Text]]:
        """Yield the texts with references in the steps of the rest, each with its path in the program."""
        expressions = {path for clause in self.meaning.clauses for path in clause.texts()}
        own = [number for number in sorted(self.kept) if self._is_own(number)]
        for path in dict.fromkeys(self.layout.path(number) for number in own):
            for below, text in texts(data["steps"][path[1]], path):
                if self.program.language == 1 and below[2] == "set" and len(below) > 4:
                    continue  # it stands for itself
                is_expression = below in expressions or below[-1] == "when"
                yield below, _text_of(text, self.program.language, is_expression=is_expression)


class _Text(NamedTuple):
    text: str
    references: tuple[Reference, ...]


def _text_of(text: str, language: int, *, is_expression: bool) -> _Text:
    if not is_expression:
        return _Text(text, tuple(piece for piece in pieces_of(text) if isinstance(piece, Reference)))
    try:
        return _Text(text, tuple(all_references(parse(text, language))))
    except ExpressionError:
        return _Text(text, ())


def _names(found: _Text) -> Iterator[tuple[str, ...]]:
    return (reference.names for reference in found.references)


def _put(data: Any, path: Path, value: str) -> None:
    for part in path[:-1]:
        data = data[part]
    data[path[-1]] = value
