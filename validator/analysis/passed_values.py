"""How values pass through bodies: the sources of items, and the sources of outputs of bodies.

An item of a for_each step is one of its list. The output of a body is what its `end` steps give, or the call of `do`: a
branch and a called program give one value, a for_each step a list of them, and a step with branches an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.validator.analysis.readings import Reading
from stepward.vm.expressions.facts import Facts
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import EndStep, ForEachStep
from stepward.vm.values import MAX_DEPTH

if TYPE_CHECKING:
    from stepward.validator.analysis.assignment import Assignment
    from stepward.vm.language.name_types import Location
    from stepward.vm.language.names import Resolution, Source

Fields = tuple[str, ...]

_OUTPUT: Final = "output"


class Passed(NamedTuple):
    """A reference whose value becomes an item or an output, or a part of one.

    `reading` has the fields below the reference that are asked for. `is_text` says that the value is in a longer text.
    """

    reading: Reading
    is_text: bool = False

    @property
    def resolution(self) -> Resolution:
        """What the reference resolves to."""
        assert self.reading.resolution is not None
        return self.reading.resolution


class Passing:
    """The values that pass through the bodies of one program."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._layout = assignment.flow.layout

    def passes(self, source: Source) -> bool:
        """Return whether a source is an item or the output of a body."""
        is_of_body = source.step in self._layout.bodies or source.step in self._layout.forks
        return source.kind == "item" or (source.kind == _OUTPUT and source.sub is None and is_of_body)

    def into(self, source: Source, fields: Fields) -> Iterator[Passed]:
        """Yield what gives an item, or the output of a body, its value at some fields; nothing for other sources."""
        step = source.step
        if step is None or not self.passes(source) or len(fields) > MAX_DEPTH:
            return
        if source.kind == "item":
            yield from self._written(self._layout.body_of(step).owner, "items", (ITEMS, *fields))
        elif step in self._layout.forks:
            for branch in self._layout.forks[step].branches:
                if not fields or own_name(self._layout.steps[branch].id) == fields[0]:
                    yield from self._given(branch, fields[1:])
        else:
            each = self._layout.steps[step]
            assert isinstance(each, ForEachStep)
            if each.is_once:
                yield from self._given(step, fields)
            elif not fields or fields[0][:1] == "[":
                yield from self._given(step, fields[1:])

    def sources(self, step: int) -> set[Source]:
        """Return the sources of all that a step reads, also through `set` steps and bodies."""
        locations: set[Location] = set()
        waiting = [one.resolution for one in self._assignment.readings_of.get(step, ())]
        while waiting:
            resolution = waiting.pop()
            new = (
                {(one, resolution.fields) for one in resolution.sources} - locations
                if resolution is not None
                else set()
            )
            locations |= new
            for source, fields in new:
                if source.kind == "set":
                    readings = self._assignment.readings_of.get(source.step or 0, ())
                    waiting += [one.resolution for one in readings if one.path == source.path and one.is_in(fields)]
                waiting += [one.resolution for one in self.into(source, fields)]
        return {source for source, _ in locations}

    def _given(self, owner: int, fields: Fields) -> Iterator[Passed]:
        """Yield what a body gives: by its `end` steps, or by the call of `do`."""
        step = self._layout.steps[owner]
        if isinstance(step, ForEachStep) and step.do is not None:
            yield self._of_do(owner, step.do.id, fields)
        for end in self._ends.get(owner, ()):
            yield from self._written(end, _OUTPUT, fields)

    def _of_do(self, owner: int, id: str, fields: Fields) -> Passed:
        names = (id, _OUTPUT, *fields)
        body = self._layout.bodies[owner]
        reference = Reference(0, 0, names)
        resolution = self._assignment.names.meaning(names)
        return Passed(Reading(body.next, None, self._layout.path(owner), reference, resolution, Facts()))

    def _written(self, number: int, field: str, fields: Fields) -> Iterator[Passed]:
        """Yield the references that give a written value its value at some fields."""
        path = (*self._layout.path(number), field)
        for reading in self._assignment.readings_of.get(number, ()):
            if reading.resolution is None or reading.path[: len(path)] != path:
                continue
            text = getattr(self._layout.steps[number], field)
            for key in reading.path[len(path) :]:
                text = text[key]
            own_path = tuple(f"[{key}]" if isinstance(key, int) else str(key) for key in reading.path[len(path) :])
            below, is_text = fields[len(own_path) :], lone_reference(text) is None
            if _meet(own_path, fields) and not (below and is_text):
                yield Passed(_below(reading, below), is_text)

    @cached_property
    def _ends(self) -> dict[int, list[int]]:
        """The steps that end each body with success."""
        ends: dict[int, list[int]] = {}
        for number, step in enumerate(self._layout.steps):
            owner = self._layout.owner(number)
            if owner is not None and isinstance(step, EndStep) and step.outcome == "success":
                ends.setdefault(owner, []).append(number)
        return ends


def _meet(left: Fields, right: Fields) -> bool:
    """Return whether one path leads to, or into, what another one leads to."""
    return all(first == second or ITEMS in (first, second) for first, second in zip(left, right, strict=False))


def _below(reading: Reading, fields: Fields) -> Reading:
    assert reading.resolution is not None
    whole, resolution = reading.reference, reading.resolution
    if not fields:
        return reading
    return reading._replace(
        reference=Reference(whole.start, whole.end, (*whole.names, *fields)),
        resolution=resolution._replace(fields=(*resolution.fields, *fields)),
    )
