"""Types at the boundary: what inputs and outputs have to be, as declared, and inferred from uses where nothing is.

It follows the table of "Types, Inference" row by row: each use of a name says what kinds its places may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from stepward.sabotage.reference.expressions import FUNCTIONS, TAKEN
from stepward.sabotage.reference.facts import (
    Tool,
    all_parts,
    expressions_of,
    has_output,
    undeclared_inputs,
)
from stepward.sabotage.reference.places import ALL, ITEMS, Place, Places, Shape
from stepward.sabotage.reference.plain import kind
from stepward.sabotage.reference.types import hidden_ways
from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Program
    from stepward.vm.language.types import TypeSpec


class Types:
    """The types that are enforced on what comes from outside."""

    def __init__(self, program: Program, tools: Callable[[str], Tool]) -> None:
        self._program = program
        self._parts = {part.id: part for part in all_parts(program) if has_output(part)}
        names = undeclared_inputs(program) if program.inputs is None else list(program.inputs)
        self._written: dict[tuple[str, ...], TypeSpec | None] = {
            ("input", name): (program.inputs or {}).get(name) for name in names
        }
        for part in self._parts.values():
            self._written["output", part.id] = _declared_output(part, tools)
        self._uses = _Uses(program, self._written, self._parts)
        self.inputs = {name: self._uses.enforced(Place(("input", name))) for name in names}
        self._outputs = {name: self._uses.enforced(Place(("output", name))) for name in self._parts}

    def output(self, part: str) -> TypeSpec | None:
        """Return the type of the output of a step or sub-step; None where any value is admitted."""
        return self._outputs[part]

    def hidden_input(self, name: str, value: Any) -> set[tuple[str, ...]]:
        """Return which fields of an input are sensitive."""
        return hidden_ways(self.inputs.get(name), value)

    def hidden_output(self, part: str, value: Any) -> set[tuple[str, ...]]:
        """Return which fields of an output are sensitive."""
        return hidden_ways(self._outputs[part], value)


def _declared_output(part: Any, tools: Callable[[str], Tool]) -> TypeSpec | None:
    """An `llm` step without `returns` gives a string ("Types, Inference"); a parallel step has what its parts have."""
    from stepward.vm.language.types import TypeSpec

    if part.type == "tool":
        return tools(part.tool).returns
    if part.type == "parallel":
        return TypeSpec(type=("object",))
    return part.returns if part.returns is not None else TypeSpec(type=("string",))


class _Uses(Places):
    """All uses of all names: places that hold values of one type share a `group`, each group has its kinds."""

    def __init__(
        self, program: Program, written: dict[tuple[str, ...], TypeSpec | None], parts: dict[str, Any]
    ) -> None:
        super().__init__(program, written, parts)
        self._group: dict[Place, Place] = {}
        self._kinds: dict[Place, frozenset[str]] = {}
        self._nullable: set[Place] = set()
        self._read: set[Place] = set()
        self._asked_for: set[Place] = set()
        later: list[syntax.Compare] = []
        # What is assigned comes first: which array is known then is the same to all.
        for step in sorted(program.steps, key=lambda step: step.type == "condition"):
            for tree in expressions_of(step):
                self._note(tree, later)
                if step.type == "condition":
                    self._need(self._shape(tree), {"boolean"})
        self._assignments()
        for compared in later:  # an array on the left has to be known by then
            self._contains(compared)

    # -- uses ----------------------------------------------------------------------------------------------------------

    def _note(self, root: syntax.Expression, later: list[syntax.Compare]) -> None:
        for node in syntax.walk(root):
            match node:
                case syntax.Reference(names=names):
                    self._note_read(self._places(names), is_read=True)
                case syntax.Defined(reference=reference):
                    self._note_read(self._places(reference.names), is_read=False)
                case syntax.Arithmetic(first=first, rest=rest):
                    for operand in (first, *(one for _, one in rest)):
                        self._need(self._shape(operand), {"number"})
                case syntax.Minus(operand=operand):
                    self._need(self._shape(operand), {"number"})
                case syntax.FunctionCall(function=word, operand=operand):
                    self._need(self._shape(operand), FUNCTIONS[word][0])
                case syntax.Negation(operand=operand):
                    self._need(self._shape(operand), {"boolean"})
                case syntax.Logic(operands=operands):
                    for operand in operands:
                        self._need(self._shape(operand), {"boolean"})
                case syntax.Compare():
                    self._compare(node, later)

    def _compare(self, node: syntax.Compare, later: list[syntax.Compare]) -> None:
        left, right = self._shape(node.left), self._shape(node.right)
        match node.operator:
            case "==" | "!=":
                self._alike(left, right)
            case "in" | "not in":
                self._need(right, {"array"})
                self._touch_items(node.right)
                self._alike(left, self._items(node.right))
            case "contains" | "not contains":
                later.append(node)
            case word:
                self._need(left, TAKEN[word])
                self._need(right, TAKEN[word])

    def _contains(self, node: syntax.Compare) -> None:
        left, right = self._shape(node.left), self._shape(node.right)
        is_array = left.kinds - {"null"} == {"array"} or any(
            self._kinds.get(self._find(place), ALL) == {"array"} for place in left.places
        )
        if is_array or (isinstance(node.right, syntax.Constant) and not isinstance(node.right.value, str)):
            self._need(left, {"array"})
            self._touch_items(node.left)
            self._alike(self._items(node.left), right)
        else:
            self._need(left, {"string"})
            self._need(right, {"string"})

    def _touch_items(self, tree: syntax.Expression) -> None:
        if isinstance(tree, syntax.Reference):
            self._read |= {place.below(ITEMS) for place in self._places(tree.names)}

    def _assignments(self) -> None:
        """`set` gives the type of what is assigned; what it names holds for both ("Types, Inference")."""
        for (step, name), value in self._sets.items():
            tree = parse(value) if isinstance(value, str) else None
            shape = Shape(frozenset({kind(value)})) if tree is None else self._shape(tree)
            self._alike(Shape(places=(Place(("set", step, name)),)), shape)

    def _note_read(self, places: list[Place], *, is_read: bool) -> None:
        """A field makes its owner an object; it is required where it is read, optional where `defined` asks for it."""
        for place in places:
            for depth in range(1, len(place.way) + 1):
                here, owner = Place(place.source, place.way[:depth]), Place(place.source, place.way[: depth - 1])
                self._need(self._shape_of([owner]), {"object"})
                (self._read if is_read else self._asked_for).add(here)

    def _alike(self, left: Shape, right: Shape) -> None:
        """Let each side have the kinds of the other; `null` on one side is admitted on the other."""
        for one, other in ((left, right), (right, left)):
            if other.kinds and not other.kinds >= ALL:
                if other.kinds - {"null"}:
                    self._need(one, set(other.kinds - {"null"}))
                if "null" in other.kinds:
                    self._nullable |= {self._find(place) for place in one.places}
        places = (*left.places, *right.places)
        if left.places and right.places:
            for place in places[1:]:
                self._unite(places[0], place)

    def _need(self, shape: Shape, kinds: set[str]) -> None:
        for place in shape.places:
            group = self._find(place)
            narrowed = self._kinds.get(group, ALL) & kinds
            self._kinds[group] = narrowed or self._kinds[group]  # what conflicts is SW203

    def _find(self, place: Place) -> Place:
        while place in self._group:
            place = self._group[place]
        return place

    def _unite(self, left: Place, right: Place) -> None:
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        self._group[b] = a
        if b in self._kinds:
            self._need(Shape(places=(a,)), set(self._kinds.pop(b)))
        if b in self._nullable:
            self._nullable.add(a)

    # -- what is enforced ----------------------------------------------------------------------------------------------

    def enforced(self, place: Place) -> TypeSpec | None:
        """Return the type that a place has to have: as declared, with what is inferred where nothing is."""
        from stepward.vm.language.types import TypeSpec

        written, group = self._spec(place), self._find(place)
        changes: dict[str, Any] = {}
        is_open = not self._is_declared(place)
        if is_open and group in self._kinds and self._kinds[group] != ALL:
            nulls = {"null"} if group in self._nullable else set()
            changes["type"] = tuple(sorted({*self._kinds[group], *nulls}))
        inner = [
            name for name in sorted(set(self._directly_below(place))) if not self._is_impossible(place.below(name))
        ]
        fields = {name: self.enforced(place.below(name)) for name in inner if name != ITEMS}
        known = {name: spec for name, spec in fields.items() if spec is not None}
        if known:
            changes["properties"] = {**((written and written.properties) or {}), **known}
        if ITEMS in inner:
            items = self.enforced(place.below(ITEMS))
            if items is not None:
                changes["items"] = items
        if fields and is_open:
            changes["required"] = tuple(name for name in fields if place.below(name) not in self._asked_for)
        if not changes:
            return written
        return (written or TypeSpec()).model_copy(update=changes)

    def _directly_below(self, place: Place) -> Iterator[str]:
        depth = len(place.way)
        for other in self._read | self._asked_for:
            if other.source == place.source and len(other.way) > depth and other.way[:depth] == place.way:
                yield other.way[depth]
