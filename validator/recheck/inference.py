"""The types that the machine enforces on values from outside: declared, or inferred from every use of a name.

Written from the language's page (specs/language.md, "Inference"). A *slot* is a source of values and the fields below
it; `[]` stands for the items of an array. Where it is not certain what is inferred, every value is allowed here: a
proof for more values also holds for fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final, assert_never

from stepward.validator.recheck.built import changed_paths
from stepward.validator.recheck.evaluation import FUNCTIONS, JOINED, TAKEN, result_blocks
from stepward.validator.recheck.failures import all_errors
from stepward.validator.recheck.joined import type_of_branches, type_of_sub_steps
from stepward.validator.recheck.names import ITEMS, Names, Source, taken_by_call
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.sizes import of_errors, of_number, of_outputs
from stepward.validator.recheck.types import WORDS, is_a, words
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
    children,
    walk,
)
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.steps import (
    AnyPart,
    BranchStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
    WaitStep,
)
from stepward.vm.language.types import TypeSpec

KINDS: Final = WORDS - {"integer"}
NOTHING: Final[frozenset[str]] = frozenset()
_TEXT: Final = frozenset({"string"})
_ARRAY: Final = frozenset({"array"})
_OBJECT: Final = frozenset({"object"})
_NUMBER: Final = frozenset({"number"})
_BOOLEAN: Final = frozenset({"boolean"})
_STRING: Final = TypeSpec.model_construct(type=("string",))
_ABSENT: Final = TypeSpec.model_construct(type=("null",), enum=(None,))
"""The type of a field that a declared object can't have."""

Slot = tuple[Source, Names]


class Boundary:
    """The types of the sources of one program."""

    def __init__(self, reading: Parsed) -> None:
        self.reading = reading
        self._known: dict[Source, TypeSpec | None] = {}

    def spec(self, source: Source) -> TypeSpec | None:
        """Return the type that the machine enforces on the values of a source; None where it accepts everything."""
        if source not in self._known:
            self._known[source] = self._enforced((source, ()))
        return self._known[source]

    def _enforced(self, slot: Slot) -> TypeSpec | None:
        source, fields = slot
        written = self._written(slot)
        if written is _ABSENT:
            return written
        spec, uses = written, self._uses
        inner = sorted(uses.below.get(slot, ()))
        is_declared = _says_kind(written)
        if not is_declared:
            kinds = uses.possible_kinds(slot)
            if kinds is None:
                return written if written is not None and written.model_fields_set else None
            if kinds == KINDS and not inner:
                return written if written is not None and written.model_fields_set else None
            spec = (written or TypeSpec.model_construct()).model_copy(
                update={"type": None if kinds == KINDS else tuple(sorted(kinds))}
            )
        assert spec is not None
        update: dict[str, Any] = {}
        properties = dict(spec.properties or {})
        for name in inner:
            inner_spec = self._enforced((source, (*fields, name)))
            if inner_spec is None or inner_spec is _ABSENT:
                continue
            if name == ITEMS:
                update["items"] = inner_spec
            else:
                properties[name] = inner_spec
        if not is_declared:
            tested = uses.tested
            update["required"] = tuple(
                name for name in inner if name != ITEMS and (source, (*fields, name)) not in tested
            )
        if properties:
            update["properties"] = properties
        return spec.model_copy(update=update) if update else spec

    @cached_property
    def _uses(self) -> Uses:
        return Uses(self)

    # -- what is declared ------------------------------------------------------------------------------------------

    def declares(self, slot: Slot) -> bool:
        """Return whether the type declared for a slot restricts the kinds of its values."""
        return _says_kind(self._written(slot))

    def declared(self, slot: Slot) -> TypeSpec | None:
        """Return the type declared for a slot, None where it does not restrict the kinds of values."""
        spec = self._written(slot)
        return spec if _says_kind(spec) else None

    def _written(self, slot: Slot) -> TypeSpec | None:
        source, fields = slot
        spec = self._of_root(source)
        for name in fields:
            if spec is None:
                return None
            if name == ITEMS or index_of(name) is not None:
                spec = spec.items if name == ITEMS or "array" in words(spec) else _ABSENT
            elif spec.properties is not None and name in spec.properties:
                spec = spec.properties[name]
            elif spec.additional_properties is False or "object" not in words(spec):
                return _ABSENT
            else:
                spec = spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None
        return spec

    def _of_root(self, source: Source) -> TypeSpec | None:
        match source.kind:
            case "error":
                return _STRING
            case "error_name":
                part = self.reading.part(source.step, source.sub)
                names = all_errors(part, self.reading.steps[source.step], self.reading.tool)
                return TypeSpec.model_construct(type=("string",), enum=names) if names else _STRING
            case "input":
                return (self.reading.program.inputs or {}).get(source.name)
            case "errors":
                return of_errors(self, self._for_each(source.step))
            case "set" | "item":
                return taken_by_call(self.reading.steps[source.step], source.name)
            case "index":
                return of_number(self, self._for_each(self.reading.layout.body_of(source.step).owner))
            case "output":
                if source.step in self.reading.layout.forks:
                    return type_of_branches(self.reading, source.step)
                return self._output(self.reading.part(source.step, source.sub))

    def _for_each(self, number: int) -> ForEachStep:
        step = self.reading.steps[number]
        assert isinstance(step, ForEachStep)
        return step

    def _output(self, part: AnyPart) -> TypeSpec | None:
        match part:
            case ToolCall():
                return self.reading.tool(part.tool).returns
            case LlmCall():
                if part.returns is not None:
                    return part.returns
                allowed = part.allowed_outputs
                return _STRING if allowed is None else TypeSpec.model_construct(type=("string",), enum=tuple(allowed))
            case ParallelStep():
                return type_of_sub_steps(part, self._output)
            case ComputeStep() | InvokeStep():
                return part.returns
            case ForEachStep():
                return None if isinstance(part, BranchStep) else of_outputs(self, part)
            case ConditionStep() | SetStep() | WaitStep() | EndStep() | Stage():
                raise AssertionError(f"`{part.id}` has no output")
            case _:
                assert_never(part)


def _says_kind(spec: TypeSpec | None) -> bool:
    return spec is not None and (spec.type is not None or spec.enum is not None)


class Uses:
    """The requirements that uses put on the undeclared slots of a program.

    Slots whose values are compared or assigned to one another are *alike*: they share their requirements. `tested` are
    the slots that `defined` tests, `below` the fields that are read of each slot.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.lookup = boundary.reading.lookup
        self.needs: dict[Slot, list[frozenset[str]]] = {}
        self.allows_null: set[Slot] = set()
        self.same_type: dict[Slot, set[Slot]] = {}
        self.tested: set[Slot] = set()
        self.below: dict[Slot, set[str]] = {}
        self._open: dict[Names, list[Slot]] = {}
        self._either: list[tuple[list[Slot], list[Slot]]] = []
        """Both sides of each `contains` whose left side may be a text or an array."""
        self._sums: dict[int, tuple[frozenset[str], list[Slot]]] = {}
        """Each `+` of language 2: the kinds that it can give, and the slots that have its kind."""
        self._groups: dict[Slot, frozenset[str] | None] = {}
        self._collect()
        self._decide_contains()
        self._decide_sums()

    def possible_kinds(self, slot: Slot) -> frozenset[str] | None:
        """Return the possible kinds of a slot by its uses; None where uses contradict one another."""
        if slot not in self._groups:
            group = self._group(slot)
            common = frozenset(KINDS).intersection(*(need for one in group for need in self.needs.get(one, ())))
            known = None if not common else common | (frozenset({"null"}) if group & self.allows_null else NOTHING)
            self._groups.update(dict.fromkeys(group, known))
        return self._groups[slot]

    def _group(self, slot: Slot) -> set[Slot]:
        group, pending = {slot}, [slot]
        while pending:
            for twin in self.same_type.get(pending.pop(), ()):
                if twin not in group:
                    group.add(twin)
                    pending.append(twin)
        return group

    # -- collecting ------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        for number, step in enumerate(self.boundary.reading.steps):
            if isinstance(step, ForEachStep):
                self._items(number, step)
            if not isinstance(step, SetStep | ForEachStep):
                for tree in self.boundary.reading.expressions(number):
                    if tree is not None:
                        self._need(tree, _BOOLEAN)
                        self._nodes(tree)
                continue
            for name, tree in self.boundary.reading.put_by_set(number).items():
                slot: Slot = (Source("set", name, number), ())
                if isinstance(tree, Constant) and not isinstance(step.assigns[name], str):
                    self._add(slot, kind_of(tree.value))
                elif tree is not None:
                    self._equate(slot, tree)
                    self._built(slot, tree)
                    self._nodes(tree)
                    for path in changed_paths(tree):  # what comes from elsewhere may lack the field
                        self._read(path, is_tested=True)

    def _built(self, slot: Slot, tree: Expression) -> None:
        """Record that each field of a built object has the type of what was put in; lists say nothing."""
        if isinstance(tree, Built) and not tree.is_list:
            source, fields = slot
            for name, part in zip(tree.names, tree.parts, strict=True):
                self._equate((source, (*fields, name)), part)
                self._built((source, (*fields, name)), part)

    def _items(self, number: int, step: ForEachStep) -> None:
        """Record that an item has the type of the items of its list."""
        names = lone_reference(step.items)
        stage = self.boundary.reading.layout.bodies[number].next
        for source, fields in self._slots(names) if names is not None else ():
            self._add((source, fields), _ARRAY)
            self._note_below(source, (*fields, ITEMS), is_tested=False)
            self._pair((Source("item", step.item_name, stage), ()), (source, (*fields, ITEMS)))

    def _nodes(self, tree: Expression) -> None:
        for node in walk(tree):
            match node:
                case Reference(names=names) if len(names) > 1:
                    self._read(names, is_tested=False)
                case Defined(reference=reference):
                    self._read(reference.names, is_tested=True)
                case Compare():
                    self._comparison(node)
                case FunctionCall(function=function, operand=operand):
                    self._need(operand, FUNCTIONS[function].takes)
                    self._need_items(operand, FUNCTIONS[function].items)
                case Negation(operand=operand):
                    self._need(operand, _BOOLEAN)
                case Logic():
                    self._need_all(children(node), _BOOLEAN)
                case Arithmetic(joins=joins) if joins:
                    self._sum(node)
                case Arithmetic() | Minus():
                    self._need_all(children(node), _NUMBER)

    def _sum(self, node: Arithmetic) -> list[Slot]:
        """Return the slots that have the kind of a `+` of language 2."""
        if id(node) not in self._sums:
            slots = [slot for one in _joined(node) for slot in self._slots(one.names)]
            self._sums[id(node)] = node.joins, slots
            for slot in slots:
                self._add(slot, JOINED)
        return self._sums[id(node)][1]

    def _decide_sums(self) -> None:
        """Require of each operand of a `+` the kind of the other operands, and a number if no kind is known.

        Require nothing if the kind may be that of a copied field: the machine may infer less.
        """
        known = [one for one in self._sums.values() if not any(slot[0].kind == "set" and slot[1] for slot in one[1])]
        if len(known) < len(self._sums):
            return
        self._spread(known)
        for number, (kinds, slots) in enumerate(known):
            common = self._common(kinds, slots)
            if len(common) > 1 and common >= _NUMBER:
                known[number] = (_NUMBER, slots)
                self._spread(known)

    def _spread(self, sums: list[tuple[frozenset[str], list[Slot]]]) -> None:
        is_stable = False
        while not is_stable:
            is_stable = True
            for kinds, slots in sums:
                common = self._common(kinds, slots)
                for slot in slots if common else ():
                    # Where uses contradict one another, nothing is known, whatever is required once more.
                    if common in self.needs.get(slot, ()) or self.boundary.declares(slot):
                        continue
                    if not (self._static(slot) or KINDS) - {"null"} <= common:
                        self._add(slot, common)
                        self._groups.clear()
                        is_stable = False

    def _common(self, kinds: frozenset[str], slots: list[Slot]) -> frozenset[str]:
        return kinds.intersection(*(self._static(slot) or KINDS for slot in slots))

    def _need_items(self, array: Expression, kinds: frozenset[str] | None) -> None:
        """Record what a function needs of the items of an array, None where it takes any."""
        if kinds is None:
            return
        if isinstance(array, Built):
            self._need_all(array.parts, kinds)
        for source, fields in self._slots(array.names) if isinstance(array, Reference) else ():
            self._note_below(source, (*fields, ITEMS), is_tested=False)
            self._add((source, (*fields, ITEMS)), kinds)

    def _comparison(self, node: Compare) -> None:
        match node.operator:
            case "==" | "!=":
                self._same(node.left, node.right)
            case "in" | "not in":
                self._need(node.right, _ARRAY)
                self._member(node.left, node.right)
            case "contains" | "not contains":
                self._contains(node)
            case operator:
                self._need_all((node.left, node.right), TAKEN[operator])

    def _same(self, left: Expression, right: Expression) -> None:
        for side, opposite in ((left, right), (right, left)):
            for slot in self._slots(side.names) if isinstance(side, Reference) else ():
                self._equate(slot, opposite)

    def _contains(self, node: Compare) -> None:
        if isinstance(node.right, Constant) and not isinstance(node.right.value, str):
            self._need(node.left, _ARRAY)
            self._member(node.right, node.left)
        elif isinstance(node.left, Built) or (isinstance(node.left, Constant) and isinstance(node.left.value, tuple)):
            self._member(node.right, node.left)
        else:
            left = self._slots(node.left.names) if isinstance(node.left, Reference) else []
            right = self._slots(node.right.names) if isinstance(node.right, Reference) else []
            self._either.append((left, right))

    def _decide_contains(self) -> None:
        """Require texts on both sides of a `contains`, unless the left side is known to be an array."""
        for left, right in self._either:
            static_kinds = [self._static(slot) for slot in left]
            if not left or not any(kinds is None or kinds == _ARRAY for kinds in static_kinds):
                needed: frozenset[str] = _TEXT
            elif all(self.boundary.declares(slot) for slot in left):
                continue  # an array: nothing is assumed about its items
            else:
                needed = NOTHING  # it depends on the order of uses: nothing is known about either side
            for slot in (*left, *right):
                self._add(slot, needed)
        self._groups.clear()

    def _static(self, slot: Slot) -> frozenset[str] | None:
        if slot[0].kind == "set" and slot[1]:
            return None  # a field of a possible copy
        spec = self.boundary.declared(slot)
        return self.possible_kinds(slot) if spec is None else _kinds(spec)

    def _member(self, item: Expression, array: Expression) -> None:
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            for value in array.value[:1]:
                self._need(item, kind_of(value))
        elif isinstance(array, Built):
            for part in array.parts:
                self._same(item, part)
        elif isinstance(array, Reference):
            for source, fields in self._slots(array.names):
                self._note_below(source, (*fields, ITEMS), is_tested=False)
                self._equate((source, (*fields, ITEMS)), item)

    def _equate(self, slot: Slot, tree: Expression) -> None:
        """Record that a slot has the type of an expression."""
        match tree:
            case Constant(value=None):
                if not self.boundary.declares(slot):
                    self.allows_null.add(slot)
            case Constant(value=value):
                self._add(slot, kind_of(value))
            case Reference(names=names):
                for twin in self._slots(names):
                    self._pair(slot, twin)
            case _:
                self._add(slot, frozenset(block.kind for block in result_blocks(tree)))
                if isinstance(tree, Arithmetic) and tree.joins:
                    self._sum(tree).append(slot)

    def _pair(self, left: Slot, right: Slot) -> None:
        first, second = self.boundary.declared(left), self.boundary.declared(right)
        if first is None and second is None:
            self.same_type.setdefault(left, set()).add(right)
            self.same_type.setdefault(right, set()).add(left)
        for slot, spec, known in ((left, second, first), (right, first, second)):
            if spec is not None and spec is not _ABSENT and known is None:  # what is absent says nothing
                kinds = _kinds(spec)
                if "null" in kinds and len(kinds) > 1:
                    self.allows_null.add(slot)
                    kinds -= {"null"}
                self._add(slot, kinds)

    def _need_all(self, operands: Iterable[Expression], kinds: frozenset[str]) -> None:
        for operand in operands:
            self._need(operand, kinds)

    def _need(self, operand: Expression, kinds: frozenset[str]) -> None:
        if isinstance(operand, Reference):
            for slot in self._slots(operand.names):
                self._add(slot, kinds)

    def _add(self, slot: Slot, kinds: frozenset[str]) -> None:
        if not self.boundary.declares(slot):
            self.needs.setdefault(slot, []).append(kinds)

    def _read(self, names: Names, *, is_tested: bool) -> None:
        for depth, name in enumerate(names):
            for slot in self._slots(names[:depth]) if index_of(name) is not None else ():
                self._add(slot, _ARRAY)
        for source, fields in self._slots(names):
            self._note_below(source, fields, is_tested=is_tested)

    def _note_below(self, source: Source, fields: Names, *, is_tested: bool) -> None:
        if is_tested:
            self.tested.add((source, fields))
        for depth, name in enumerate(fields):
            owner: Slot = (source, fields[:depth])
            self.below.setdefault(owner, set()).add(name)
            if name != ITEMS:
                self._add(owner, _OBJECT)

    def _slots(self, names: Names) -> list[Slot]:
        if names not in self._open:
            resolution = self.lookup.resolve(names)
            below = () if resolution is None else resolution.fields
            fields = tuple(ITEMS if index_of(name) is not None else name for name in below)
            self._open[names] = [] if resolution is None else [(source, fields) for source in resolution.sources]
        return self._open[names]


def _joined(node: Arithmetic) -> Iterator[Reference]:
    """Yield the references that are operands of a `+`, or of one in parentheses inside of it."""
    for operand in children(node):
        if isinstance(operand, Reference):
            yield operand
        elif isinstance(operand, Arithmetic) and operand.joins:
            yield from _joined(operand)


def kind_of(value: Any) -> frozenset[str]:
    """Return the kind of a value, as a set of one."""
    return next(frozenset({kind}) for kind in KINDS if is_a(value, kind))


def _kinds(spec: TypeSpec) -> frozenset[str]:
    return frozenset("number" if kind == "integer" else kind for kind in words(spec))
