"""What the uses of undeclared names need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stepward.vm.expressions.operators import ANY
from stepward.vm.reading.source import Path


class Use(NamedTuple):
    """The kinds that a use of a name needs, and the location of the use."""

    kinds: frozenset[str]
    path: Path
    start: int
    end: int


class Conflict(NamedTuple):
    """Two uses of one undeclared name that no value can serve."""

    name: str
    first: Use
    second: Use


@dataclass(slots=True)
class TypeVariable:
    """What the uses of the locations of one type need."""

    uses: list[Use] = field(default_factory=list)
    kinds: frozenset[str] = ANY
    may_be_null: bool = False
