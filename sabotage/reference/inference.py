"""Types at the boundary: what inputs and outputs have to be, as declared, and inferred from uses where nothing is.

"The program" 4 is "Types, Inference" on the page: each row of its table is one function here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.reference.facts import (
    Tool,
    all_parts,
    expressions_of,
    has_output,
    holder,
    undeclared_inputs,
)
from stepward.sabotage.reference.plain import kind
from stepward.sabotage.reference.types import hidden_ways
from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Program
    from stepward.vm.language.types import TypeSpec

ITEMS: Final = "[]"
ALL: Final = frozenset({"boolean", "number", "string", "array", "object"})


class Place(NamedTuple):
    """A place that holds values: an input, an output or an assignment, and the fields (or items) below it."""

    source: tuple[str, ...]
    way: tuple[str, ...] = ()

    def below(self, *names: str) -> Place:
        """Return the place below."""
        return Place(self.source, (*self.way, *names))


class Shape(NamedTuple):
    """What is known of an expression before it runs: the kinds of its declared parts, and its undeclared places."""

    kinds: frozenset[str] = frozenset()
    places: tuple[Place, ...] = ()


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

    def hidden_input(self, name: str) -> set[tuple[str, ...]]:
        """Return which fields of an input are sensitive."""
        return hidden_ways(self.inputs.get(name))

    def hidden_output(self, part: str) -> set[tuple[str, ...]]:
        """Return which fields of an output are sensitive."""
        return hidden_ways(self._outputs[part])


def _declared_output(part: Any, tools: Callable[[str], Tool]) -> TypeSpec | None:
    """An `llm` step without `returns` gives a string ("Types, Inference"); a parallel step has what its parts have."""
    from stepward.vm.language.types import TypeSpec

    if part.type == "tool":
        return tools(part.tool).returns
    if part.type == "parallel":
        return TypeSpec(type=("object",))
    return part.returns if part.returns is not None else TypeSpec(type=("string",))


class _Uses:
    """All uses of all names: places that hold values of one type share a `group`, each group has its kinds."""

    def __init__(
        self, program: Program, written: dict[tuple[str, ...], TypeSpec | None], parts: dict[str, Any]
    ) -> None:
        self._program = program
        self._written = written
        self._parts = parts
        self._sets = {
            (step.id, name): value for step in program.steps if step.type == "set" for name, value in step.set.items()
        }
        self._group: dict[Place, Place] = {}
        self._kinds: dict[Place, frozenset[str]] = {}
        self._nullable: set[Place] = set()
        self._read: set[Place] = set()
        self._asked_for: set[Place] = set()
        later: list[syntax.Compare] = []
        for step in program.steps:
            for tree in expressions_of(step):
                self._note(tree, later)
                if step.type == "condition":
                    self._need(self._shape(tree), {"boolean"})
        self._assignments()
        for compared in later:  # an array on the left has to be known by then
            self._contains(compared)

    # -- places --------------------------------------------------------------------------------------------------------

    def _places(self, names: tuple[str, ...], seen: frozenset[tuple[str, ...]] = frozenset()) -> list[Place]:
        """Return the places that a reference may read; a variable that is set to a reference is what that names."""
        where, fields = holder(names, self._program)
        if where[1:] == ("error",):
            return [Place(("error", where[0]))]
        if where[1:] == ("output",):
            return [self._inside(Place(("output", where[0]), fields))] if where[0] in self._parts else []
        found = [Place(("input", where[0]), fields)] if ("input", where[0]) in self._written else []
        for part in self._parts.values():
            if part.output_key == where[0]:
                found.append(self._inside(Place(("output", part.id), fields)))
        for step, name in self._sets:
            if name == where[0] and ("set", step, name) not in seen:
                found += self._assigned(step, name, fields, seen | {("set", step, name)})
        return found

    def _assigned(self, step: str, name: str, fields: tuple[str, ...], seen: frozenset[tuple[str, ...]]) -> list[Place]:
        value = self._sets[step, name]
        tree = parse(value) if isinstance(value, str) else None
        if isinstance(tree, syntax.Reference):
            return self._places((*tree.names, *fields), seen)
        return [Place(("set", step, name), fields)]

    def _inside(self, place: Place) -> Place:
        """A field of a parallel step's output is the output of that sub-step ("Parallel" 3)."""
        part = self._parts[place.source[1]]
        if part.type == "parallel" and place.way and place.way[0] in self._parts:
            return Place(("output", place.way[0]), place.way[1:])
        return place

    def _spec(self, place: Place) -> TypeSpec | None:
        """Return what is written of a place."""
        spec = self._written.get(place.source)
        for name in place.way:
            if spec is None:
                return None
            others = None if isinstance(spec.additional_properties, bool) else spec.additional_properties
            spec = spec.items if name == ITEMS else (spec.properties or {}).get(name, others)
        return spec

    def _is_declared(self, place: Place) -> bool:
        """A type without `type` and `enum` is not declared ("Types, Choices")."""
        spec = self._spec(place)
        return place.source[0] == "error" or (spec is not None and (spec.type is not None or spec.enum is not None))

    def _shape(self, tree: syntax.Expression) -> Shape:
        match tree:
            case syntax.Reference(names=names):
                return self._shape_of(self._places(names))
            case syntax.Constant(value=value):
                return Shape(frozenset({kind(value)}))
            case syntax.Arithmetic() | syntax.Minus() | syntax.Length():
                return Shape(frozenset({"number"}))
        return Shape(frozenset({"boolean"}))

    def _shape_of(self, places: Iterable[Place]) -> Shape:
        kinds: frozenset[str] = frozenset()
        open_places = []
        for place in places:
            if not self._is_declared(place):
                open_places.append(place)
            elif place.source[0] == "error":
                kinds |= {"string"}
            else:
                kinds |= _kinds_of(self._spec(place))
        return Shape(kinds, tuple(open_places))

    def _items(self, tree: syntax.Expression) -> Shape:
        """Return the shape of the items of an array."""
        if isinstance(tree, syntax.Constant) and isinstance(tree.value, tuple):
            return Shape(frozenset(kind(item) for item in tree.value))
        if isinstance(tree, syntax.Reference):
            return self._shape_of(place.below(ITEMS) for place in self._places(tree.names))
        return Shape()

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
                case syntax.Length(operand=operand):
                    self._need(self._shape(operand), {"string", "array"})
                case syntax.Negation(operand=operand):
                    self._need(self._shape(operand), {"boolean"})
                case syntax.Logic(operands=operands):
                    for operand in operands:
                        self._need(self._shape(operand), {"boolean"})
                case syntax.Compare():
                    self._compare(node, later)

    def _compare(self, node: syntax.Compare, later: list[syntax.Compare]) -> None:
        left, right = self._shape(node.left), self._shape(node.right)
        if node.operator in ("==", "!="):
            self._alike(left, right)
        elif node.operator in ("in", "not in"):
            self._need(right, {"array"})
            self._touch_items(node.right)
            self._alike(left, self._items(node.right))
        elif node.operator in ("contains", "not contains"):
            later.append(node)
        else:
            wanted = {"string"} if node.operator in ("starts_with", "ends_with") else {"number"}
            self._need(left, wanted)
            self._need(right, wanted)

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
            if not isinstance(tree, syntax.Reference):
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
        inner = sorted(set(self._directly_below(place)))
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


def _kinds_of(spec: TypeSpec | None) -> frozenset[str]:
    """An integer is a number here; an `enum` without `type` counts for every kind ("Types, Choices")."""
    if spec is None or spec.type is None:
        return ALL
    return frozenset("number" if word == "integer" else word for word in spec.type)
