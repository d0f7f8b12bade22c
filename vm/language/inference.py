"""From every use of a name to its type: what an undeclared name must be, the machine enforces like a declaration.

Arithmetic and order need numbers, text operators text, a comparison the type of its other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepward.vm.expressions.operands import kind_of, needs, result_kinds
from stepward.vm.expressions.operators import ANY, ARRAY, BOOLEAN, OPERATORS, STRING, Kinds
from stepward.vm.expressions.syntax import Compare, Constant, Defined, Expression, Reference, walk
from stepward.vm.language.clauses import Clause
from stepward.vm.language.name_types import ITEMS, Location, Typing, Use, static_kinds
from stepward.vm.language.names import Source
from stepward.vm.reading.source import Path

_IMPLIED_ITEMS: Final = (ITEMS,)


def infer(typing: Typing, clauses: Iterable[Clause]) -> Typing:
    """Return the typing of a program's names, which has learnt from every use of them in expressions by then."""
    collector = _Collector(typing)
    # What a `set` assigns comes first: a use that does not fit it is then the one that is reported.
    for number, step in enumerate(typing.program.steps):
        for name, value in step.assigns.items():
            if not isinstance(value, str):
                path: Path = ("steps", number, "set", name)
                typing.need((Source("set", name, path, number), ()), Use(kind_of(value), path, 0, 0))
    for clause in sorted(clauses, key=lambda clause: clause.is_condition):
        if clause.tree is not None:
            collector.clause(clause, clause.tree)
    collector.finish()
    return typing


class _Collector:
    """Walks expressions and tells the typing what each use needs."""

    def __init__(self, typing: Typing) -> None:
        self.typing = typing
        self.path: Path = ()
        self.known: list[tuple[Location, Location, Use]] = []
        self._undeclared: dict[tuple[str, ...], list[Location]] = {}

    def clause(self, clause: Clause, tree: Expression) -> None:
        self.path = clause.path
        if clause.is_condition:
            self.need(tree, BOOLEAN)
        else:
            source = Source("set", str(clause.path[-1]), clause.path, clause.step)
            self.equate((source, ()), tree)
        for node in walk(tree):
            self.node(node)

    def node(self, node: Expression) -> None:
        match node:
            case Reference(names=names):
                for location in self.locations(names) if len(names) > 1 else ():  # only a field has an owner
                    self.typing.note_read(location, asked_only=False)
            case Defined(reference=reference):
                for location in self.locations(reference.names):
                    self.typing.note_read(location, asked_only=True)
            case Compare():
                self.comparison(node)
        for operand, kinds, _ in needs(node):
            self.need(operand, kinds)

    def comparison(self, node: Compare) -> None:
        """Note what the operands of a comparison say of one another."""
        match OPERATORS[node.operator].takes:
            case "alike":
                self.equal(node.left, node.right)
            case "member":
                self.need(node.right, ARRAY)
                self.member(node.left, node.right)
            case "contains":
                self.contains(node)

    def contains(self, node: Compare) -> None:
        """`contains` is a text operator, unless what is contained is certainly no text."""
        if isinstance(node.right, Constant) and not isinstance(node.right.value, str):
            self.need(node.left, ARRAY)
            self.member(node.right, node.left)
        elif (isinstance(node.left, Reference) and self.kinds(node.left) == ARRAY) or (
            isinstance(node.left, Constant) and isinstance(node.left.value, tuple)
        ):
            self.member(node.right, node.left)
        else:
            self.need(node.left, STRING)
            self.need(node.right, STRING)

    def member(self, item: Expression, array: Expression) -> None:
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            for value in array.value[:1]:
                self.need(item, kind_of(value))
        elif isinstance(array, Reference):
            for source, way in self.locations(array.names):
                self.typing.note_read((source, way + _IMPLIED_ITEMS), asked_only=False)
                self.equate((source, way + _IMPLIED_ITEMS), item)

    def equal(self, left: Expression, right: Expression) -> None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Reference):
                # A declared type learns nothing from a constant; from another reference that one may.
                for location in self.locations(one.names) if isinstance(other, Reference) else self.open(one.names):
                    self.equate(location, other)

    def equate(self, location: Location, other: Expression) -> None:
        """The two have one type: note it for an undeclared location."""
        if isinstance(other, Constant) and other.value is None:
            self.typing.admit_null(location)
        elif isinstance(other, Reference):
            use = Use(ANY, self.path, other.start, other.end)
            for twin in self.locations(other.names):
                self.known.append((location, twin, use))
        elif self.typing.spec(location) is None:
            self.typing.need(location, Use(result_kinds(other), self.path, other.start, other.end))

    def finish(self) -> None:
        """Unite what is undeclared on both sides, then pass declared types over to the undeclared side."""
        typing = self.typing
        for left, right, _ in self.known:
            if typing.spec(left) is None and typing.spec(right) is None:
                typing.unite(left, right)
        for left, right, use in self.known:
            for one, other in ((left, right), (right, left)):
                # A field that a type can't have gives nothing, so it says nothing of what it is assigned to.
                spec = None if typing.is_impossible(other) else typing.spec(other)
                if spec is not None and typing.spec(one) is None:
                    kinds = static_kinds(spec.kinds)
                    if "null" in kinds and len(kinds) > 1:
                        typing.admit_null(one)
                        kinds -= {"null"}
                    typing.need(one, Use(kinds, use.path, use.start, use.end))

    def need(self, operand: Expression, kinds: Kinds) -> None:
        if isinstance(operand, Reference):
            for location in self.open(operand.names):
                self.typing.need(location, Use(kinds, self.path, operand.start, operand.end))

    def open(self, names: tuple[str, ...]) -> list[Location]:
        """Return the locations that a reference speaks of and nobody declares: only their types are inferred."""
        found = self._undeclared.get(names)
        if found is None:
            found = [location for location in self.locations(names) if self.typing.spec(location) is None]
            self._undeclared[names] = found
        return found

    def kinds(self, reference: Reference) -> frozenset[str]:
        meant = self.typing.names.meaning(reference.names)
        # Not `view`: it remembers its answers, and uses are still being collected.
        return self.typing.fresh_view(meant).kinds if meant else ANY

    def locations(self, names: tuple[str, ...]) -> list[Location]:
        meant = self.typing.names.meaning(names)
        return [(source, meant.fields) for source in meant.sources] if meant is not None else []
