"""Where values are held: inputs, outputs, assignments and their fields, and what is declared of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from stepward.sabotage.reference.expressions import FUNCTIONS
from stepward.sabotage.reference.facts import holder
from stepward.sabotage.reference.plain import kind
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


class Places:
    """The places that references speak of; `written` are the declared types of inputs and outputs."""

    def __init__(
        self, program: Program, written: dict[tuple[str, ...], TypeSpec | None], parts: dict[str, Any]
    ) -> None:
        self._program = program
        self._written = written
        self._parts = parts
        self._sets = {
            (step.id, name): value for step in program.steps if step.type == "set" for name, value in step.set.items()
        }

    def _places(self, names: tuple[str, ...], seen: frozenset[tuple[str, ...]] = frozenset()) -> list[Place]:
        """Return the places that a reference may read."""
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
        """A variable that is set to something declared is that; else it is a place of its own."""
        value = self._sets[step, name]
        tree = parse(value) if isinstance(value, str) else None
        named = self._places((*tree.names, *fields), seen) if isinstance(tree, syntax.Reference) else []
        declared = [place for place in named if self._is_declared(place)]
        return declared or [Place(("set", step, name), fields)]

    def _inside(self, place: Place) -> Place:
        """A field of a parallel step's output has the type that its sub-step declares ("Types, Choices")."""
        part = self._parts[place.source[1]]
        if part.type == "parallel" and place.way and place.way[0] in self._parts:
            inner = Place(("output", place.way[0]), place.way[1:])
            return inner if self._is_declared(inner) else place
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
        if place.source[0] == "error" or self._is_impossible(place):
            return True
        spec = self._spec(place)
        return spec is not None and (spec.type is not None or spec.enum is not None)

    def _is_impossible(self, place: Place) -> bool:
        """A field that the type can't have (SW201) is no place to infer anything of."""
        owners = [self._spec(Place(place.source, place.way[:depth])) for depth in range(len(place.way))]
        return any(
            owner is not None
            and name != ITEMS
            and owner.additional_properties is False
            and name not in (owner.properties or {})
            for owner, name in zip(owners, place.way, strict=True)
        )

    def _shape(self, tree: syntax.Expression) -> Shape:
        match tree:
            case syntax.Reference(names=names):
                return self._shape_of(self._places(names))
            case syntax.Constant(value=value):
                return Shape(frozenset({kind(value)}))
            case syntax.Arithmetic() | syntax.Minus():
                return Shape(frozenset({"number"}))
            case syntax.FunctionCall(function=word):
                return Shape(frozenset({FUNCTIONS[word][1]}))
            case syntax.Defined() | syntax.Negation() | syntax.Logic() | syntax.Compare():
                return Shape(frozenset({"boolean"}))
            case _:
                assert_never(tree)

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


def _kinds_of(spec: TypeSpec | None) -> frozenset[str]:
    """An integer is a number here; an `enum` without `type` counts for every kind ("Types, Choices")."""
    if spec is None or spec.type is None:
        return ALL
    return frozenset("number" if word == "integer" else word for word in spec.type)
