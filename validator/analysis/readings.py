"""The references that steps read, and the doubts about them."""

from __future__ import annotations

from typing import NamedTuple

from stepward.vm.expressions.facts import Facts
from stepward.vm.expressions.syntax import Reference
from stepward.vm.language.clauses import Clause
from stepward.vm.language.names import Resolution
from stepward.vm.reading.source import Path, Place

Names = tuple[str, ...]


class Reading(NamedTuple):
    """A reference that a step reads: its position, its meaning, and the facts that are certain at that point.

    `sub` is the position of the sub-step that reads it, `path` leads to the text or the clause that contains it.
    """

    step: int
    sub: int | None
    path: Path
    reference: Reference
    resolution: Resolution | None
    known: Facts
    clause: Clause | None = None

    @property
    def place(self) -> Place:
        """The location of the reference. It is made on demand, since most references are never reported."""
        if self.clause is not None:
            return self.clause.place(self.reference.start, self.reference.end)
        return Place(self.path, within=(self.reference.start, self.reference.end))

    def is_in(self, fields: Names) -> bool:
        """Return whether the value at some fields of what a `set` assigns may come from this reading."""
        return self.clause is None or self.clause.is_from(self.reference.start, fields)


class PossiblyUndefined(NamedTuple):
    """A use of a value that may be undefined: `key` is the variable, or the field that may be absent.

    `is_reported` says whether it is to be reported.
    """

    reading: Reading
    key: Names
    is_reported: bool
