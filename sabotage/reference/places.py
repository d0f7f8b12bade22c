"""The slots that hold values (inputs, outputs, assignments and their fields) with their declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from stepward.sabotage.reference.expressions import FUNCTIONS
from stepward.sabotage.reference.facts import WITH_BODY, all_steps, holder, items_named
from stepward.sabotage.reference.fields import by_variable, put_at
from stepward.sabotage.reference.plain import kind
from stepward.sabotage.reference.templates import alone, is_built, names_in
from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Program
    from stepward.vm.language.types import TypeSpec

ITEMS: Final = "[]"
ALL: Final = frozenset({"boolean", "number", "string", "array", "object"})


class Slot(NamedTuple):
    """A slot for values: an input, an output or an assignment, and a path of fields (or items) below it."""

    source: tuple[str, ...]
    path: tuple[str, ...] = ()

    def below(self, *names: str) -> Slot:
        """Return the slot of a field below."""
        return Slot(self.source, (*self.path, *names))


def of_items(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return fields with every index as any item: all items of an array have one type ("Types")."""
    return tuple(ITEMS if name.startswith("[") else name for name in fields)


class Shape(NamedTuple):
    """Static knowledge of an expression: the kinds of its declared slots, and its undeclared slots."""

    kinds: frozenset[str] = frozenset()
    slots: tuple[Slot, ...] = ()


class SlotResolver:
    """Resolves references to slots. `written` has the declared types of inputs and outputs."""

    def __init__(
        self, program: Program, written: dict[tuple[str, ...], TypeSpec | None], parts: dict[str, Any]
    ) -> None:
        self._program = program
        self._written = written
        self._parts = parts
        steps = list(all_steps(program.whole_steps))
        self._sets = {(step.id, name): value for step in steps for name, value in _assigned_values(step).items()}
        self._lists = {(step.id, items_named(step)[0]): step.items for step in steps if step.type == "for_each"}
        """The items of for_each steps, by step and name."""
        self._indices = {name for step in steps for name in items_named(step)[1:]}

    def _slots(self, names: tuple[str, ...], seen: frozenset[tuple[str, ...]] = frozenset()) -> list[Slot]:
        """Return the slots that a reference may read."""
        where, fields = holder(names, self._program)
        fields = of_items(fields)
        if where[1:] in (("error",), ("error_name",)):
            return [Slot(("error", where[0]))]
        if where[1:] == ("errors",):
            return [Slot(("errors", where[0]), fields)]
        if where[1:] == ("output",):
            return [self._inside(Slot(("output", where[0]), fields))] if where[0] in self._parts else []
        found = [Slot(("input", where[0]), fields)] if ("input", where[0]) in self._written else []
        for part in self._parts.values():
            if part.output_key == where[0]:
                found.append(self._inside(Slot(("output", part.id), fields)))
        for step, name in self._sets:
            if name == where[0] and ("set", step, name) not in seen:
                found += self._assigned(step, name, fields, seen | {("set", step, name)})
        if where[0] in self._indices:
            found.append(Slot(("index", where[0]), fields))
        for step, name in self._lists:
            if name == where[0] and ("item", step, name) not in seen:
                found += self._item(step, name, fields, seen | {("item", step, name)})
        return found

    def _item(self, step: str, name: str, fields: tuple[str, ...], seen: frozenset[tuple[str, ...]]) -> list[Slot]:
        """Return the slots of an item: those of the items of its list if declared, else a new one."""
        inside = (slot.below(ITEMS, *fields) for slot in self._listed(step, name, seen))
        declared = [slot for slot in inside if self._is_declared(slot)]
        return declared or [Slot(("item", step, name), fields)]

    def _listed(self, step: str, name: str, seen: frozenset[tuple[str, ...]]) -> list[Slot]:
        """Return the slots of the list of a for_each step, if that is one reference."""
        text = self._lists[step, name]
        names = list(names_in(text)) if isinstance(text, str) else []
        is_alone = len(names) == 1 and text == "$" + ".".join(names[0])
        return self._slots(names[0], seen) if is_alone else []

    def _assigned(self, step: str, name: str, fields: tuple[str, ...], seen: frozenset[tuple[str, ...]]) -> list[Slot]:
        """Return the slots of a variable of a `set`: those of the assigned reference if declared, else a new one."""
        own = Slot(("set", step, name), fields)
        if self._is_declared(own):  # an input of a called program
            return [own]
        value = self._sets[step, name]
        put = put_at(value, fields)
        if put is None:  # the variable keeps the field
            declared = [slot for slot in self._slots((name, *fields), seen) if self._is_declared(slot)]
            return declared or [own]
        value, below = put
        tree = parse(value, self._program.language) if isinstance(value, str) else None
        names = (*tree.names, *below) if isinstance(tree, syntax.Reference) else self._inside_built(value, below)
        named = self._slots(names, seen) if names else []
        declared = [slot for slot in named if self._is_declared(slot)]
        return declared or [Slot(("set", step, name), fields)]

    def _inside_built(self, value: Any, fields: tuple[str, ...]) -> tuple[str, ...]:
        """Return the reference that a field of a built object is; empty where it is none."""
        below = list(fields) if is_built(value, self._program.language) else []
        while below and isinstance(value, Mapping) and below[0] in value:
            value = value[below.pop(0)]
        names = alone(value) if len(below) < len(fields) else None
        return (*names, *below) if names is not None else ()

    def _inside(self, slot: Slot) -> Slot:
        """Return the sub-step's slot for a field of a parallel step's output, which has the type declared there
        ("Types, Choices")."""
        part = self._parts[slot.source[1]]
        if part.type == "parallel" and slot.path and slot.path[0] in self._parts:
            inner = Slot(("output", slot.path[0]), slot.path[1:])
            return inner if self._is_declared(inner) else slot
        return slot

    def _spec(self, slot: Slot) -> TypeSpec | None:
        """Return the declared type of a slot."""
        spec = self._written.get(slot.source)
        for name in slot.path:
            if spec is None:
                return None
            others = None if isinstance(spec.additional_properties, bool) else spec.additional_properties
            spec = spec.items if name == ITEMS else (spec.properties or {}).get(name, others)
        return spec

    def _is_declared(self, slot: Slot) -> bool:
        """Whether the type of a slot is declared: it has `type` or `enum` ("Types, Choices")."""
        if slot.source[0] in ("error", "index") or self._is_impossible(slot):
            return True
        spec = self._spec(slot)
        return spec is not None and (spec.type is not None or spec.enum is not None)

    def _is_impossible(self, slot: Slot) -> bool:
        """Whether a slot is a field that its type can't have (SW201), for which nothing is inferred."""
        owners = [self._spec(Slot(slot.source, slot.path[:depth])) for depth in range(len(slot.path))]
        return any(
            owner is not None
            and name != ITEMS
            and owner.additional_properties is False
            and name not in (owner.properties or {})
            for owner, name in zip(owners, slot.path, strict=True)
        )

    def _shape(self, tree: syntax.Expression) -> Shape:
        match tree:
            case syntax.Reference(names=names):
                return self._shape_of(self._slots(names))
            case syntax.Constant(value=value):
                return Shape(frozenset({kind(value)}))
            case syntax.Arithmetic(joins=joins) if joins:
                return Shape(joins)
            case syntax.Arithmetic() | syntax.Minus():
                return Shape(frozenset({"number"}))
            case syntax.FunctionCall(function=word):
                return Shape(frozenset({FUNCTIONS[word][1]}))
            case syntax.Built(is_list=is_list):
                return Shape(frozenset({"array" if is_list else "object"}))
            case syntax.Template():
                return Shape(frozenset({"string"}))
            case syntax.Defined() | syntax.Negation() | syntax.Logic() | syntax.Compare():
                return Shape(frozenset({"boolean"}))
            case _:
                assert_never(tree)

    def _shape_of(self, slots: Iterable[Slot]) -> Shape:
        kinds: frozenset[str] = frozenset()
        open_slots = []
        for slot in slots:
            if not self._is_declared(slot):
                open_slots.append(slot)
            elif slot.source[0] in ("error", "index"):
                kinds |= {"string" if slot.source[0] == "error" else "number"}
            else:
                kinds |= _kinds_of(self._spec(slot))
        return Shape(kinds, tuple(open_slots))

    def _items(self, tree: syntax.Expression) -> Shape:
        """Return the shape of the items of an array."""
        if isinstance(tree, syntax.Constant) and isinstance(tree.value, tuple):
            return Shape(frozenset(kind(item) for item in tree.value))
        if isinstance(tree, syntax.Reference):
            return self._shape_of(slot.below(ITEMS) for slot in self._slots(tree.names))
        if isinstance(tree, syntax.Built):
            shapes = [self._shape(part) for part in tree.parts]
            kinds = frozenset[str]().union(*(one.kinds for one in shapes))
            return Shape(kinds, tuple(slot for one in shapes for slot in one.slots))
        return Shape()


def _assigned_values(step: Any) -> dict[str, Any]:
    """Return what a step assigns by `set` or `carry`."""
    if step.type == "set":
        return by_variable(step.set)
    return dict(step.carry) if step.type in WITH_BODY else {}


def _kinds_of(spec: TypeSpec | None) -> frozenset[str]:
    """Return the kinds of a type. An integer is a number; an `enum` without `type` has every kind ("Types,
    Choices")."""
    if spec is None or spec.type is None:
        return ALL
    return frozenset("number" if word == "integer" else word for word in spec.type)
