"""What gives an item of a list its value, wherever the program has copied the list from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from stepward.validator.recheck.built import FieldValue, spread
from stepward.validator.recheck.joined import parts_of
from stepward.validator.recheck.names import ITEMS, Names, Source
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.syntax import Expression, Reference
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.steps import ForEachStep

MAX_SOURCES: Final = 200
"""The most sources that are followed behind one item."""

ANY: Final = FieldValue(None, is_any=True)


class Location(NamedTuple):
    """Some fields of the values of a source, which the machine holds to its type; `[]` stands for every item."""

    source: Source
    fields: Names


class Sources(Protocol):
    """What is known of the sources of values of a program."""

    reading: Parsed

    def is_made(self, source: Source) -> bool:
        """Return whether the program makes the values of a source."""

    def is_joined(self, source: Source) -> bool:
        """Return whether a source is the object of a step with branches."""

    def trees(self, source: Source) -> list[Expression]:
        """Return the expressions that give a source its values."""


def list_of(reading: Parsed, source: Source) -> Names | None:
    """Return the reference to the list of an item; None where the list is written down."""
    step = reading.steps[reading.layout.body_of(source.step).owner]
    assert isinstance(step, ForEachStep)
    return lone_reference(step.items)


def behind_item(sources: Sources, source: Source, fields: Names) -> Iterator[Location | FieldValue]:
    """Yield the sources of the values of an item, or of a field of it: values from outside, and expressions of the
    program."""
    pending, visited = [(source, fields)], set[tuple[Source, Names]]()
    while pending:
        location = pending.pop()
        if location in visited:
            continue
        if len(visited) == MAX_SOURCES:
            yield ANY
            return
        visited.add(location)
        for part in _given(sources, *location):
            names = part.tree.names if isinstance(part, FieldValue) and isinstance(part.tree, Reference) else None
            if names is None:
                yield part
                continue
            end = names.index(ITEMS) if ITEMS in names else len(names)
            resolution = sources.reading.lookup.resolve(names[:end])
            if resolution is None:
                yield ANY
            else:
                pending += [(inner, (*resolution.fields, *names[end:])) for inner in resolution.sources]


def _given(known: Sources, source: Source, fields: Names) -> Iterator[Location | FieldValue]:
    """Yield the values of a source at some fields; a reference stands for a value that the source copies."""
    names = list_of(known.reading, source) if source.kind == "item" else None
    if names is not None:
        yield FieldValue(Reference(0, 0, (*names, ITEMS, *fields)))
    elif known.is_joined(source) and fields:
        part = parts_of(known.reading, source.step).get(fields[0])
        yield ANY if part is None else FieldValue(Reference(0, 0, (*part.output, *fields[1:])))
    elif not known.is_made(source):
        yield Location(source, fields)
    else:
        trees = known.trees(source)
        yield from [] if trees else [ANY]
        for tree in trees:
            yield from spread(tree, fields)
