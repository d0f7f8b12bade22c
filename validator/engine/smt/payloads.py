"""The meaning of solver terms: truths, values by kind, and the texts, arrays and slots of references."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepward.validator.engine.values.domains import Domain, Form, Names
from stepward.validator.engine.values.texts import Atom
from stepward.vm.expressions.syntax import Expression

Term = Any
"""A Boolean term of Z3, or True or False where it is known."""


class Truth(NamedTuple):
    """The conditions under which an expression holds and fails; otherwise it is false."""

    holds: Term
    fails: Term


class Value(NamedTuple):
    """The value of an expression: when it fails, and for each possible kind its condition and its payload."""

    fails: Term
    kinds: dict[str, tuple[Term, Any]]


@dataclass(eq=False)
class Text:
    """The text of a reference: one of `members` by its number, or any text with known atoms.

    With `forms`, it matches one of them or is one of the `known` texts. `halves` are the texts that `+` joined.
    """

    names: Names
    members: tuple[str, ...] | None
    number: Any = None
    atoms: dict[Atom, Any] = field(default_factory=dict)
    length: Any = None
    max_length: int | None = None
    forms: tuple[Form, ...] = ()
    known: tuple[str, ...] = ()
    halves: tuple[Any, Any] | None = None


@dataclass(eq=False)
class Array:
    """The array of a reference: the literals that it contains, and its length. `lookups` are items that are not
    literals; `halves` are the arrays that `+` joined, `parts` the values of which a list is built."""

    names: Names
    items: Domain | None
    length: Any
    holds: dict[tuple[str, Any], Any] = field(default_factory=dict)
    fails: dict[tuple[str, Any], Any] = field(default_factory=dict)
    lookups: list[tuple[Expression, Any, Any]] = field(default_factory=list)
    halves: tuple[Any, Any] | None = None
    indexed: list[Slot] = field(default_factory=list)
    """The items that a reference reads by their index."""
    parts: tuple[Value, ...] | None = None


@dataclass(eq=False)
class Slot:
    """The value of a reference: its condition for each of `kinds` (`undefined` may be one), and a payload for each."""

    names: Names
    kinds: tuple[str, ...]
    guards: dict[str, Term]
    number: Any = None
    boolean: Any = None
    text: Text | None = None
    array: Array | None = None

    def value(self) -> Value:
        """Return its value."""
        payloads = {
            "null": None,
            "boolean": self.boolean,
            "number": self.number,
            "string": self.text,
            "array": self.array,
            "object": self.names,
        }
        kinds = {kind: (self.guards[kind], payloads[kind]) for kind in self.kinds if kind != "undefined"}
        return Value(self.guards.get("undefined", False), kinds)


def never_too_long(_: Expression) -> bool:
    """Return that no calculation has a result of too many digits."""
    return False


def compares(items: Domain | None, kind: str) -> bool:
    """Return whether every item can be compared with a value of this kind, so that a search can't fail."""
    return kind == "null" or (items is not None and items.kinds <= {kind, "null"} and kind not in ("array", "object"))
