"""The types of inputs and outputs: declared, or inferred from uses if nothing is declared.

It follows the table of "Types, Inference" row by row: each use of a name restricts the kinds of its slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepward.sabotage.reference.expressions import FUNCTIONS, JOINED, TAKEN
from stepward.sabotage.reference.facts import (
    Tool,
    all_parts,
    all_steps,
    expressions_of,
    has_output,
    undeclared_inputs,
)
from stepward.sabotage.reference.fields import Fields, paths_in
from stepward.sabotage.reference.places import ALL, ITEMS, Shape, Slot, SlotResolver
from stepward.sabotage.reference.plain import kind
from stepward.sabotage.reference.templates import alone, is_built
from stepward.sabotage.reference.types import hidden_paths
from stepward.vm.expressions import syntax
from stepward.vm.expressions.operators import FunctionName
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Program
    from stepward.vm.language.types import TypeSpec


class Types:
    """The types that are enforced on values from outside."""

    def __init__(self, program: Program, tools: Callable[[str], Tool]) -> None:
        self._program = program
        self._parts = {part.id: part for part in all_parts(program) if has_output(part)}
        names = undeclared_inputs(program) if program.inputs is None else list(program.inputs)
        self._written: dict[tuple[str, ...], TypeSpec | None] = {
            ("input", name): (program.inputs or {}).get(name) for name in names
        }
        for part in self._parts.values():
            self._written["output", part.id] = _declared_output(part, tools)
        for step in all_steps(program.whole_steps):
            for name, spec in step.declared.items() if step.type == "call" else ():
                self._written["set", step.id, f"{step.id}/{name}"] = spec
        self._uses = _Uses(program, self._written, self._parts)
        self.inputs = {name: self._uses.enforced(Slot(("input", name))) for name in names}
        self._outputs = {name: self._uses.enforced(Slot(("output", name))) for name in self._parts}

    def output(self, part: str) -> TypeSpec | None:
        """Return the output type of a step or sub-step, or None if it accepts any value."""
        return self._outputs[part]

    def most_items(self, step: Any) -> int:
        """Return how many items a for_each step takes at most: `max_items`, or what the type of its list says."""
        if step.max_items is not None:
            return int(step.max_items)
        if isinstance(step.items, tuple):
            return len(step.items)
        return max(self._uses.most_items(step.id, vars(step)["as"]))

    def hidden_input(self, name: str, value: Any) -> set[tuple[str, ...]]:
        """Return the sensitive fields of an input."""
        return hidden_paths(self.inputs.get(name), value)

    def hidden_output(self, part: str, value: Any) -> set[tuple[str, ...]]:
        """Return the sensitive fields of an output."""
        return hidden_paths(self._outputs[part], value)


def _declared_output(part: Any, tools: Callable[[str], Tool]) -> TypeSpec | None:
    """Return the declared output type. An `llm` step without `returns` returns a string ("Types, Inference")."""
    from stepward.vm.language.types import TypeSpec

    if part.type == "tool":
        return tools(part.tool).returns
    if part.type == "parallel":
        return TypeSpec(type=("object",))
    if part.type == "compute":
        return part.returns  # type: ignore[no-any-return]
    if part.type == "call":
        return part.returns  # type: ignore[no-any-return]
    if part.type == "for_each":
        return TypeSpec(type=("array",))
    return part.returns if part.returns is not None else TypeSpec(type=("string",))


@dataclass
class _Sum:
    """A `+` of language 2: the kinds that it can give, and the slots that have its kind."""

    kinds: frozenset[str]
    slots: list[Slot]


class _Uses(SlotResolver):
    """The uses of all names. Slots with one type share a `group`, and each group has its possible kinds."""

    def __init__(
        self, program: Program, written: dict[tuple[str, ...], TypeSpec | None], parts: dict[str, Any]
    ) -> None:
        super().__init__(program, written, parts)
        self._group: dict[Slot, Slot] = {}
        self._kinds: dict[Slot, frozenset[str]] = {}
        self._nullable: set[Slot] = set()
        self._read: set[Slot] = set()
        self._asked_for: set[Slot] = set()
        self._sums: dict[int, _Sum] = {}
        later: list[syntax.Compare] = []
        # Assignments come first, so that every use sees the same known arrays.
        for step in sorted(all_steps(program.whole_steps), key=lambda step: step.type == "condition"):
            for tree in expressions_of(step, program.language):
                self._note(tree, later)
                if step.type == "condition":
                    self._need(self._shape(tree), {"boolean"})
        self._assignments()
        for compared in later:  # an array on the left must be known first
            self._contains(compared)
        self._settle_sums()

    # -- uses ----------------------------------------------------------------------------------------------------------

    def _note(self, root: syntax.Expression, later: list[syntax.Compare]) -> None:
        for node in syntax.walk(root):
            match node:
                case syntax.Reference(names=names):
                    self._note_read(self._slots(names), is_read=True)
                case syntax.Defined(reference=reference):
                    self._note_read(self._slots(reference.names), is_read=False)
                case syntax.Arithmetic():
                    self._calculation(node)
                case syntax.Minus(operand=operand):
                    self._need(self._shape(operand), {"number"})
                case syntax.FunctionCall(function=word, operand=operand):
                    self._called(word, operand)
                case syntax.Negation(operand=operand):
                    self._need(self._shape(operand), {"boolean"})
                case syntax.Logic(operands=operands):
                    for operand in operands:
                        self._need(self._shape(operand), {"boolean"})
                case syntax.Compare():
                    self._compare(node, later)

    def _calculation(self, node: syntax.Arithmetic) -> None:
        if node.joins:
            self._sum(node)
            return
        for operand in syntax.children(node):
            self._need(self._shape(operand), {"number"})

    def _sum(self, node: syntax.Arithmetic) -> _Sum:
        """Return a `+` of language 2, noted once. One in parentheses inside of it has its kind."""
        if id(node) not in self._sums:
            slots: list[Slot] = []
            parts: list[syntax.Expression] = [node]
            for one in parts:
                if isinstance(one, syntax.Arithmetic) and one.joins:
                    parts += syntax.children(one)
                elif isinstance(one, syntax.Reference):
                    slots += self._slots(one.names)
            self._sums[id(node)] = _Sum(node.joins, slots)
            self._need(Shape(slots=tuple(slots)), set(JOINED))
        return self._sums[id(node)]

    def _has_kind_of(self, slots: Iterable[Slot], tree: syntax.Expression | None) -> None:
        """Record that undeclared slots are compared with a `+`, or assigned from it."""
        if isinstance(tree, syntax.Arithmetic) and tree.joins:
            self._sum(tree).slots += slots

    def _settle_sums(self) -> None:
        """Give the operands of each `+` the kind that one of them is known to have, else at last a number."""
        self._spread()
        for one in self._sums.values():
            kinds = self._common(one)
            if len(kinds) > 1 and "number" in kinds:
                one.kinds = frozenset({"number"})
                self._spread()

    def _spread(self) -> None:
        before = None
        while before != self._kinds:
            before = dict(self._kinds)
            for one in self._sums.values():
                kinds = self._common(one)
                if kinds:
                    self._need(
                        Shape(slots=tuple(slot for slot in one.slots if not self._is_declared(slot))), set(kinds)
                    )

    def _common(self, one: _Sum) -> frozenset[str]:
        found = one.kinds
        for slot in one.slots:
            found &= self._shape_of([slot]).kinds if self._is_declared(slot) else self._kinds.get(self._find(slot), ALL)
        return found

    def _called(self, word: FunctionName, operand: syntax.Expression) -> None:
        self._need(self._shape(operand), FUNCTIONS[word][0])
        if word == "join":
            self._touch_items(operand)
            self._need(self._items(operand), {"string"})

    def _compare(self, node: syntax.Compare, later: list[syntax.Compare]) -> None:
        left, right = self._shape(node.left), self._shape(node.right)
        match node.operator:
            case "==" | "!=":
                self._share_kinds(left, right)
                self._has_kind_of(left.slots, node.right)
                self._has_kind_of(right.slots, node.left)
            case "in" | "not in":
                self._need(right, {"array"})
                self._touch_items(node.right)
                self._share_kinds(left, self._items(node.right))
                self._has_kind_of(self._items(node.right).slots, node.left)
            case "contains" | "not contains":
                later.append(node)
            case word:
                self._need(left, TAKEN[word])
                self._need(right, TAKEN[word])

    def _contains(self, node: syntax.Compare) -> None:
        left, right = self._shape(node.left), self._shape(node.right)
        is_array = left.kinds - {"null"} == {"array"} or any(
            self._kinds.get(self._find(slot), ALL) == {"array"} for slot in left.slots
        )
        if is_array or (isinstance(node.right, syntax.Constant) and not isinstance(node.right.value, str)):
            self._need(left, {"array"})
            self._touch_items(node.left)
            self._share_kinds(self._items(node.left), right)
            self._has_kind_of(self._items(node.left).slots, node.right)
        else:
            self._need(left, {"string"})
            self._need(right, {"string"})

    def _touch_items(self, tree: syntax.Expression) -> None:
        if isinstance(tree, syntax.Reference):
            self._read |= {slot.below(ITEMS) for slot in self._slots(tree.names)}

    def _assignments(self) -> None:
        """Unite the type of a `set` variable with that of a plain reference assigned to it ("Types, Inference")."""
        for (step, name), value in self._sets.items():
            tree = parse(value, self._program.language) if isinstance(value, str) else None
            self._has_kind_of([Slot(("set", step, name))], tree)
            shape = Shape(frozenset({kind(value)})) if tree is None else self._shape(tree)
            self._share_kinds(self._shape_of([Slot(("set", step, name))]), shape)
            for names in paths_in((name,), value):  # what comes from elsewhere may lack the field
                self._note_read(self._slots(names), is_read=False)
            if is_built(value, self._program.language) or isinstance(value, Fields):
                self._built(Slot(("set", step, name)), value)
        for step, name in self._lists:
            listed = self._listed(step, name, frozenset())
            self._need(self._shape_of(listed), {"array"})
            items = [slot.below(ITEMS) for slot in listed]
            self._read |= set(items)
            self._share_kinds(Shape(slots=(Slot(("item", step, name)),)), self._shape_of(items))

    def _built(self, slot: Slot, value: Any) -> None:
        """Give each field of a built object the type of what was put in; lists say nothing of their items."""
        for name, part in value.items() if isinstance(value, Mapping) else ():
            is_text = isinstance(value, Fields) and isinstance(part, str)  # an expression, and no template
            tree, names = parse(part, self._program.language) if is_text else None, alone(part)
            self._has_kind_of([slot.below(name)], tree)
            shape = Shape(frozenset({kind(part)})) if names is None else self._shape_of(self._slots(names))
            shape = shape if tree is None else self._shape(tree)
            self._share_kinds(Shape(slots=(slot.below(name),)), shape)
            self._built(slot.below(name), part)

    def _note_read(self, slots: list[Slot], *, is_read: bool) -> None:
        """Make the owners of fields objects. A field is required if it is read, and optional under `defined`."""
        for slot in slots:
            for depth in range(1, len(slot.path) + 1):
                here, owner = Slot(slot.source, slot.path[:depth]), Slot(slot.source, slot.path[: depth - 1])
                is_item = slot.path[depth - 1] == ITEMS
                self._need(self._shape_of([owner]), {"array"} if is_item else {"object"})
                (self._read if is_read else self._asked_for).add(here)

    def _share_kinds(self, left: Shape, right: Shape) -> None:
        """Restrict each side to the kinds of the other; `null` on one side is allowed on the other."""
        for one, other in ((left, right), (right, left)):
            if other.kinds and not other.kinds >= ALL:
                if other.kinds - {"null"}:
                    self._need(one, set(other.kinds - {"null"}))
                if "null" in other.kinds:
                    self._nullable |= {self._find(slot) for slot in one.slots}
        slots = (*left.slots, *right.slots)
        if left.slots and right.slots:
            for slot in slots[1:]:
                self._unite(slots[0], slot)

    def _need(self, shape: Shape, kinds: set[str]) -> None:
        for slot in shape.slots:
            group = self._find(slot)
            narrowed = self._kinds.get(group, ALL) & kinds
            self._kinds[group] = narrowed or self._kinds[group]  # a conflict is SW203

    def _find(self, slot: Slot) -> Slot:
        while slot in self._group:
            slot = self._group[slot]
        return slot

    def _unite(self, left: Slot, right: Slot) -> None:
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        self._group[b] = a
        if b in self._kinds:
            self._need(Shape(slots=(a,)), set(self._kinds.pop(b)))
        if b in self._nullable:
            self._nullable.add(a)

    def most_items(self, step: str, name: str) -> list[int]:
        """Return the most items of each list of a for_each step."""
        specs = [self._spec(slot) for slot in self._listed(step, name, frozenset())]
        return [spec.max_items for spec in specs if spec is not None and spec.max_items is not None]

    # -- enforced types ------------------------------------------------------------------------------------------------

    def enforced(self, slot: Slot) -> TypeSpec | None:
        """Return the type of a slot: declared, completed by inference."""
        from stepward.vm.language.types import TypeSpec

        written, group = self._spec(slot), self._find(slot)
        changes: dict[str, Any] = {}
        is_open = not self._is_declared(slot)
        if is_open and group in self._kinds and self._kinds[group] != ALL:
            nulls = {"null"} if group in self._nullable else set()
            changes["type"] = tuple(sorted({*self._kinds[group], *nulls}))
        inner = [name for name in sorted(set(self._directly_below(slot))) if not self._is_impossible(slot.below(name))]
        fields = {name: self.enforced(slot.below(name)) for name in inner if name != ITEMS}
        known = {name: spec for name, spec in fields.items() if spec is not None}
        if known:
            changes["properties"] = {**((written and written.properties) or {}), **known}
        if ITEMS in inner:
            items = self.enforced(slot.below(ITEMS))
            if items is not None:
                changes["items"] = items
        if fields and is_open:
            changes["required"] = tuple(name for name in fields if slot.below(name) not in self._asked_for)
        if not changes:
            return written
        return (written or TypeSpec()).model_copy(update=changes)

    def _directly_below(self, slot: Slot) -> Iterator[str]:
        depth = len(slot.path)
        for other in self._read | self._asked_for:
            if other.source == slot.source and len(other.path) > depth and other.path[:depth] == slot.path:
                yield other.path[depth]
