"""Type inference: the type of an undeclared name follows from its uses, and the machine enforces it.

Arithmetic and order need numbers, text operators need texts, and a comparison needs the type of its other side. In
language 2, `+` needs the kind of its other operand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stepward.vm.expressions.fields import ITEMS, index_of, of_type
from stepward.vm.expressions.inside import assigned_paths
from stepward.vm.expressions.operands import kind_of, needs, result_kinds
from stepward.vm.expressions.operators import ANY, ARRAY, BOOLEAN, FUNCTIONS, NUMBER, OPERATORS, STRING, Kinds
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Reference,
    children,
    walk,
)
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.clauses import Clause
from stepward.vm.language.name_types import Location, Typing
from stepward.vm.language.names import Source, assigned_path
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.uses import Use
from stepward.vm.language.views import static_kinds
from stepward.vm.reading.source import Path

_IMPLIED_ITEMS: Final = (ITEMS,)


def infer(typing: Typing, clauses: Iterable[Clause]) -> Typing:
    """Add to `typing` what every expression of the program needs of its names, and return it."""
    collector = _Collector(typing)
    # The constants of `set` come first: of a conflict, the use that comes later is reported.
    layout = typing.program.layout
    for number, step in enumerate(layout.steps):
        for name, value in step.assigns.items():
            if not isinstance(value, str):
                path = assigned_path(layout, number, name)
                typing.need((Source("set", name, path, number), ()), Use(kind_of(value), path, 0, 0))
    for clause in sorted(clauses, key=lambda clause: clause.is_condition):
        if clause.tree is not None:
            collector.clause(clause, clause.tree)
    for sources in typing.names.variables.values():
        for source in sources:
            if source.kind == "item" and source.step is not None:
                owner = layout.steps[layout.body_of(source.step).owner]
                assert isinstance(owner, ForEachStep)
                collector.item(source, owner)
    collector.finish()
    return typing


@dataclass(eq=False, slots=True)
class _Sum:
    """A `+` of language 2: where it stands, with the kinds that it can give, and the locations that have its kind."""

    use: Use
    locations: list[Location] = field(default_factory=list)


class _Collector:
    """Walks expressions and notes in the typing what each use needs."""

    def __init__(self, typing: Typing) -> None:
        self.typing = typing
        self.path: Path = ()
        self.here: Clause | None = None
        self.equalities: list[tuple[Location, Location, Use]] = []
        self.sums: dict[int, _Sum] = {}
        self._undeclared: dict[tuple[str, ...], list[Location]] = {}

    def clause(self, clause: Clause, tree: Expression) -> None:
        self.path, self.here = clause.path, clause
        if clause.is_condition:
            self.need(tree, BOOLEAN)
        else:
            source = Source("set", clause.name, clause.path, clause.step)
            self.equate((source, ()), tree)
            self.built((source, ()), tree)
            for names in assigned_paths(tree):  # what comes from elsewhere may lack the field
                for location in self.locations(names):
                    self.typing.note_read(location, asked_only=True)
        for node in walk(tree):
            self.node(node)

    def use(self, kinds: Kinds, node: Expression) -> Use:
        """Return a use that stands where a node of the present clause stands."""
        assert self.here is not None
        place = self.here.place(node.start, node.end)
        return Use(kinds, place.path, *(place.within or (0, 0)))

    def built(self, location: Location, tree: Expression) -> None:
        """Note that each field of a built object has the type of what it is built from."""
        if not isinstance(tree, Built) or tree.is_list:
            return
        source, path = location
        for name, part in zip(tree.names, tree.parts, strict=True):
            self.equate((source, (*path, name)), part)
            self.built((source, (*path, name)), part)

    def node(self, node: Expression) -> None:
        match node:
            case Reference(names=names):
                self.arrays(node)
                for location in self.locations(names) if len(names) > 1 else ():  # only a field has an owner
                    self.typing.note_read(location, asked_only=False)
            case Defined(reference=reference):
                self.arrays(reference)
                for location in self.locations(reference.names):
                    self.typing.note_read(location, asked_only=True)
            case Compare():
                self.comparison(node)
            case FunctionCall(function=function, operand=Reference(names=names)):
                self.items(names, FUNCTIONS[function].items)
            case FunctionCall(function=function, operand=Built(parts=parts)):
                for part in parts if FUNCTIONS[function].items is not None else ():
                    self.need(part, FUNCTIONS[function].items or ANY)
            case Arithmetic(joins=joins) if joins:
                self.sum(node)
        for operand, kinds, _ in needs(node):
            self.need(operand, kinds)

    def arrays(self, reference: Reference) -> None:
        """Note that what has an index is an array."""
        for depth, name in enumerate(reference.names):
            if index_of(name) is not None:
                self.need(Reference(reference.start, reference.end, reference.names[:depth]), ARRAY)

    def items(self, names: tuple[str, ...], kinds: Kinds | None) -> None:
        """Note what a function needs of the items of its array, None where it takes any."""
        for source, path in self.locations(names) if kinds is not None else ():
            location = (source, path + _IMPLIED_ITEMS)
            self.typing.note_read(location, asked_only=False)
            if self.typing.spec(location) is None:
                self.typing.need(location, Use(kinds or ANY, self.path, 0, 0))

    def comparison(self, node: Compare) -> None:
        """Note what the operands of a comparison imply for each other."""
        match OPERATORS[node.operator].takes:
            case "alike":
                self.equal(node.left, node.right)
            case "member":
                self.need(node.right, ARRAY)
                self.member(node.left, node.right)
            case "contains":
                self.contains(node)

    def contains(self, node: Compare) -> None:
        """Note a `contains`: it is a text operator, unless one of its operands certainly isn't a text."""
        if isinstance(node.right, Constant) and not isinstance(node.right.value, str):
            self.need(node.left, ARRAY)
            self.member(node.right, node.left)
        elif (
            isinstance(node.left, Built)
            or (isinstance(node.left, Reference) and self.kinds(node.left) == ARRAY)
            or (isinstance(node.left, Constant) and isinstance(node.left.value, tuple))
        ):
            self.member(node.right, node.left)
        else:
            self.need(node.left, STRING)
            self.need(node.right, STRING)

    def member(self, item: Expression, array: Expression) -> None:
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            for value in array.value[:1]:
                self.need(item, kind_of(value))
        elif isinstance(array, Built):
            for part in array.parts:
                self.equal(item, part)
        elif isinstance(array, Reference):
            for source, path in self.locations(array.names):
                self.typing.note_read((source, path + _IMPLIED_ITEMS), asked_only=False)
                self.equate((source, path + _IMPLIED_ITEMS), item)

    def equal(self, left: Expression, right: Expression) -> None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Reference):
                # A constant adds nothing to a declared type; a reference may get its type from the declared one.
                for location in (
                    self.locations(one.names) if isinstance(other, Reference) else self.undeclared(one.names)
                ):
                    self.equate(location, other)

    def equate(self, location: Location, other: Expression) -> None:
        """Note that a location and an expression have one type."""
        if isinstance(other, Constant) and other.value is None:
            self.typing.note_null(location)
        elif isinstance(other, Reference):
            use = self.use(ANY, other)
            for other_location in self.locations(other.names):
                self.equalities.append((location, other_location, use))
        elif self.typing.spec(location) is None:
            self.typing.need(location, self.use(result_kinds(other), other))
            if isinstance(other, Arithmetic) and other.joins:
                self.sum(other).locations.append(location)

    def sum(self, node: Arithmetic) -> _Sum:
        """Return what is known of a `+` of language 2, noted once for each; those inside of it count as its own."""
        found = self.sums.get(id(node))
        if found is None:
            found = self.sums[id(node)] = _Sum(self.use(node.joins, node))
            pending: list[Expression] = [node]
            while pending:
                one = pending.pop()
                if isinstance(one, Arithmetic) and one.joins:
                    pending += children(one)
                elif isinstance(one, Reference):
                    found.locations += self.locations(one.names)
        return found

    def settle_sums(self) -> None:
        """Give the operands of each `+` one kind, which the other operands have; a number where none is known."""
        typing, sums = self.typing, list(self.sums.values())
        readers: dict[Location, list[_Sum]] = {}
        for one in sums:
            for location in one.locations:
                readers.setdefault(typing.root(location), []).append(one)
        waiting: dict[int, _Sum] = {id(one): one for one in sums}
        for last in (None, *sums):
            if last is not None and len(known := self.known_of(last)) > 1 and known >= NUMBER:
                last.use = last.use._replace(kinds=NUMBER)
                waiting[id(last)] = last
            while waiting:
                one = waiting.pop(next(iter(waiting)))
                kinds = self.known_of(one)
                for location in one.locations if kinds else ():
                    before = typing.kinds_at(location)
                    if not before <= kinds and typing.spec(location) is None:
                        typing.need(location, one.use._replace(kinds=kinds))
                        if typing.kinds_at(location) != before:  # a field of a copy has the kinds of what was copied
                            waiting.update((id(other), other) for other in readers[typing.root(location)])

    def known_of(self, one: _Sum) -> Kinds:
        """Return the kinds that all operands of a `+` can have; none where they contradict one another."""
        return one.use.kinds.intersection(*map(self.typing.kinds_at, one.locations))

    def item(self, source: Source, step: ForEachStep) -> None:
        """Note that an item of a for_each step has the type of the items of its list."""
        names = lone_reference(step.items)
        for listed, path in self.locations(names) if names is not None else ():
            if self.typing.spec((listed, path)) is None:
                self.typing.need((listed, path), Use(ARRAY, (*source.path[:-1], "items"), 0, 0))
            self.typing.note_read((listed, (*path, ITEMS)), asked_only=False)
            self.equalities.append(((source, ()), (listed, (*path, ITEMS)), Use(ANY, source.path, 0, 0)))

    def finish(self) -> None:
        """Unite the type variables of equal undeclared locations, then pass declared types to the undeclared side."""
        typing = self.typing
        for left, right, _ in self.equalities:
            if typing.spec(left) is None and typing.spec(right) is None:
                typing.unite(left, right)
        for left, right, use in self.equalities:
            for one, other in ((left, right), (right, left)):
                # A field that a type can't have has no values, so nothing follows for the other side.
                spec = None if typing.is_impossible(other) else typing.spec(other)
                if spec is not None and typing.spec(one) is None:
                    kinds = static_kinds(spec.kinds)
                    if "null" in kinds and len(kinds) > 1:
                        typing.note_null(one)
                        kinds -= {"null"}
                    typing.need(one, Use(kinds, use.path, use.start, use.end))
        self.settle_sums()

    def need(self, operand: Expression, kinds: Kinds) -> None:
        if isinstance(operand, Reference):
            for location in self.undeclared(operand.names):
                self.typing.need(location, self.use(kinds, operand))

    def undeclared(self, names: tuple[str, ...]) -> list[Location]:
        """Return the undeclared locations of a reference: only their types are inferred."""
        found = self._undeclared.get(names)
        if found is None:
            found = [location for location in self.locations(names) if self.typing.spec(location) is None]
            self._undeclared[names] = found
        return found

    def kinds(self, reference: Reference) -> frozenset[str]:
        resolution = self.typing.names.meaning(reference.names)
        # Not `view`: it caches its results, and uses are still being collected.
        return self.typing.fresh_view(resolution).kinds if resolution else ANY

    def locations(self, names: tuple[str, ...]) -> list[Location]:
        resolution = self.typing.names.meaning(names)
        return [(source, of_type(resolution.fields)) for source in resolution.sources] if resolution is not None else []
