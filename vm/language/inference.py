"""Types of names: as declared, or inferred from all uses and enforced at the boundary like a declared one.

A *location* is a source of values and a way into it: `("amount",)` of an input, `[]` for the items of an array.
Locations that nobody declares are brought together where the program compares them or copies one to the other
(union-find), and each use adds what it needs; what is needed and can't be had at once is a conflict (SW203).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    Length,
    Logic,
    Minus,
    Negation,
    Reference,
    children,
    walk,
)
from stepward.vm.language.names import Meant, Source
from stepward.vm.language.steps import LlmCall, ParallelStep, SetStep, ToolCall
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Clause, Meaning

ITEMS: Final = "[]"
ANY: Final = frozenset({"boolean", "number", "string", "array", "object", "null"})
"""The kinds of values; an integer is a number."""

NUMBER, STRING, BOOLEAN, ARRAY, OBJECT = (
    frozenset({word}) for word in ("number", "string", "boolean", "array", "object")
)
SIZED: Final = frozenset({"string", "array"})

Location = tuple[Source, tuple[str, ...]]

_IMPLIED_ITEMS: Final = (ITEMS,)


@dataclass(frozen=True, slots=True)
class Use:
    """What a use of a name needs of its values, and where it stands."""

    kinds: frozenset[str]
    path: Path
    start: int
    end: int
    words: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two uses of one undeclared name that no value can serve."""

    name: str
    first: Use
    second: Use


@dataclass(slots=True)
class _Cell:
    uses: list[Use] = field(default_factory=list)
    kinds: frozenset[str] = ANY
    admits_null: bool = False


class View(NamedTuple):
    """What is known of the values that a reference can have.

    `optional`: the field may be absent; `never`: nothing ever defines it; `is_known` is false where every value is
    possible because nobody declared anything and no use needs anything.
    """

    kinds: frozenset[str] = ANY
    enum: tuple[object, ...] | None = None
    optional: bool = False
    never: bool = False
    is_known: bool = True


class Typing:
    """The types of all names of a program."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._parents: dict[Location, Location] = {}
        self._cells: dict[Location, _Cell] = {}
        self._only_asked: set[Location] = set()
        self._read: set[Location] = set()
        self._copying: set[Source] = set()
        self._views: dict[tuple[Meant, tuple[str, ...]], View] = {}
        self.conflicts: list[Conflict] = []

    # -- what is declared ------------------------------------------------------------------------------------------

    def root_spec(self, source: Source) -> TypeSpec | None:
        """Return the declared type of what a source gives; None where nobody declares it."""
        program = self._meaning.program
        if source.kind == "error":
            return _TEXT
        if source.kind == "input":
            return (program.inputs or {}).get(source.name)
        if source.kind == "set" or source.step is None:
            return None
        step = program.steps[source.step]
        call = step if source.sub is None else step.parallel_steps[source.sub]  # type: ignore[union-attr]
        if isinstance(call, LlmCall):
            return _reply(call)
        if isinstance(call, ToolCall):
            return self._meaning.tool(call.tool).returns
        assert isinstance(call, ParallelStep)
        return self._joined(call)

    def _joined(self, step: ParallelStep) -> TypeSpec:
        """The output of a parallel step: an object by sub-step id, without those that were skipped."""
        parts = {
            part.id: (_reply(part) if isinstance(part, LlmCall) else self._meaning.tool(part.tool).returns)
            or TypeSpec()
            for part in step.parallel_steps
        }
        always = tuple(part.id for part in step.parallel_steps if part.on_error != "skip")
        return TypeSpec(type=("object",), properties=parts, required=always, additionalProperties=False)

    def spec(self, location: Location) -> TypeSpec | None:
        """Return the declared type at a location; None where nobody declares it, _NEVER where there is nothing."""
        spec = self._written(location)
        return spec if spec is not None and _speaks(spec) else None

    def _written(self, location: Location) -> TypeSpec | None:
        """Return what is written at a location, also where it does not say which kind of value is meant."""
        source, way = location
        spec = self.root_spec(source)
        for name in way:
            if spec is None:
                return None
            if name == ITEMS:
                spec = spec.items
            elif spec.properties is not None and name in spec.properties:
                spec = spec.properties[name]
            elif spec.additional_properties is False or "object" not in spec.kinds:
                return _NEVER
            else:
                spec = spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None
        return spec

    def view(self, meant: Meant, *inside: str) -> View:
        """Return what is known of a reference's values: what any of its sources may give."""
        key = (meant, inside)
        if key not in self._views:
            self._views[key] = self.fresh_view(meant, *inside)
        return self._views[key]

    def fresh_view(self, meant: Meant, *inside: str) -> View:
        """Return what is known of a reference's values by now."""
        if len(meant.sources) == 1:
            return self._view_at((meant.sources[0], (*meant.fields, *inside)))
        views = [self._view_at((source, (*meant.fields, *inside))) for source in meant.sources]
        enums = [view.enum for view in views]
        present = [view for view in views if not view.never] or views
        return View(
            kinds=frozenset().union(*(view.kinds for view in present)),
            enum=None
            if any(enum is None for enum in enums)
            else tuple(member for enum in enums for member in enum or ()),
            optional=any(view.optional or view.never for view in views),
            never=all(view.never for view in views),
            is_known=all(view.is_known for view in views),
        )

    def _view_at(self, location: Location) -> View:
        source, way = location
        optional = self._is_optional(location)
        if source.kind == "set":
            return self._set_view(source, way)
        spec = self.spec(location)
        if spec is _NEVER:
            return View(never=True)
        if spec is not None:
            enum = spec.enum
            return View(frozenset("number" if word == "integer" else word for word in spec.kinds), enum, optional)
        cell = self._cells.get(self._find(location))
        if cell is None or (cell.kinds == ANY and not cell.uses):
            return View(optional=optional, is_known=False)
        return View(cell.kinds | (frozenset({"null"}) if cell.admits_null else frozenset()), None, optional)

    def _is_optional(self, location: Location) -> bool:
        """Return whether some field on the way may be absent."""
        source, way = location
        for depth, name in enumerate(way):
            if name == ITEMS:
                continue
            owner, here = self.spec((source, way[:depth])), (source, way[: depth + 1])
            if owner is None:
                if here in self._only_asked:
                    return True
            elif owner is not _NEVER and name not in owner.required:
                return True
        return False

    def _set_view(self, source: Source, way: tuple[str, ...]) -> View:
        """A `set` name has the type of its expression: that of what it copies, or what its uses and constants say."""
        copied = self._copied(source)
        if copied is not None and source not in self._copying:
            self._copying.add(source)
            view = self.fresh_view(copied, *way)
            self._copying.discard(source)
            if view.is_known and not view.never:
                return view._replace(optional=view.optional and bool(way))
        cell = self._cells.get(self._find((source, way)))
        if cell is not None and cell.kinds != ANY:
            return View(cell.kinds | (frozenset({"null"}) if cell.admits_null else frozenset()))
        return View(is_known=False)

    def _copied(self, source: Source) -> Meant | None:
        """Return what a `set` name copies as it is, or None when its expression is no lone reference."""
        for clause in self._meaning.clauses_of.get(source.step if source.step is not None else -1, ()):
            if clause.path == source.path and isinstance(clause.tree, Reference):
                return self._meaning.names.meaning(clause.tree.names)
        return None

    # -- union-find ------------------------------------------------------------------------------------------------

    def _find(self, location: Location) -> Location:
        root = location
        while root in self._parents:
            root = self._parents[root]
        while location != root:
            self._parents[location], location = root, self._parents[location]
        return root

    def _cell(self, location: Location) -> _Cell:
        return self._cells.setdefault(self._find(location), _Cell())

    def _unite(self, left: Location, right: Location) -> None:
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        kept, merged = self._cell(a), self._cells.pop(b, _Cell())
        self._parents[b] = a
        for use in merged.uses:
            self._add(a, kept, use)
        kept.admits_null |= merged.admits_null

    # -- uses ------------------------------------------------------------------------------------------------------

    def need(self, location: Location, use: Use) -> None:
        """Note what a use needs of an undeclared location; a declared one is checked, not inferred."""
        if self.spec(location) is None:
            self._add(location, self._cell(location), use)

    def _add(self, location: Location, cell: _Cell, use: Use) -> None:
        narrowed = cell.kinds & use.kinds
        if narrowed:
            cell.kinds = narrowed
            cell.uses.append(use)
        else:
            first = next(earlier for earlier in cell.uses if not earlier.kinds & use.kinds or earlier.kinds != ANY)
            self.conflicts.append(Conflict(_location_text(location), first, use))

    def admit_null(self, location: Location) -> None:
        """Note that the program compares an undeclared location with null."""
        if self.spec(location) is None:
            self._cell(location).admits_null = True

    def note_read(self, location: Location, *, asked_only: bool) -> None:
        """Note that a location is read, or only asked for by `defined`: the latter makes a field optional."""
        source, way = location
        for depth in range(1, len(way) + 1):
            here = (source, way[:depth])
            if asked_only and depth == len(way):
                self._only_asked.add(here)
            else:
                self._read.add(here)
            owner = (source, way[: depth - 1])
            if way[depth - 1] != ITEMS and self.spec(owner) is None:
                self._cell(owner).kinds &= OBJECT if self._cell(owner).kinds & OBJECT else self._cell(owner).kinds
                self._cell(owner).uses.append(Use(OBJECT, (), 0, 0, "an object"))

    # -- what the boundary enforces --------------------------------------------------------------------------------

    def effective(self, source: Source) -> TypeSpec | None:
        """Return the type that the machine enforces on what a source gives: declared, and inferred where it is not."""
        return self._effective((source, ()))

    def _effective(self, location: Location) -> TypeSpec | None:
        source, way = location
        spec = self.spec(location)
        inner = sorted({here[1][len(way)] for here in self._read | self._only_asked if _is_below(here, location)})
        if spec is None:
            cell = self._cells.get(self._find(location))
            written = self._written(location)
            if cell is None or (cell.kinds == ANY and not inner):
                return written if written is not None and written.model_fields_set else None
            kinds = cell.kinds | (frozenset({"null"}) if cell.admits_null else frozenset())
            words = None if kinds == ANY else tuple(sorted(kinds))
            spec = (written or TypeSpec()).model_copy(update={"type": words})
        update: dict[str, object] = {}
        properties = dict(spec.properties or {})
        for name in inner:
            below = self._effective((source, (*way, name)))
            if name == ITEMS:
                update["items"] = below or spec.items
            elif below is not None and spec is not _NEVER:
                properties[name] = below
        fields = [name for name in inner if name != ITEMS]
        if fields and self.spec(location) is None:
            update["required"] = tuple(name for name in fields if (source, (*way, name)) not in self._only_asked)
        if properties:
            update["properties"] = properties
        return spec.model_copy(update=update) if update else spec


_TEXT: Final = TypeSpec(type=("string",))
_NEVER: Final = TypeSpec(type=("null",), enum=(None,))


def _speaks(spec: TypeSpec) -> bool:
    """A type that says nothing about the kind of value is not declared, but inferred."""
    return spec.type is not None or spec.enum is not None


def _reply(call: LlmCall) -> TypeSpec:
    if call.returns is not None:
        return call.returns
    return _TEXT if call.allowed_outputs is None else TypeSpec(type=("string",), enum=call.allowed_outputs)


def _is_below(here: Location, location: Location) -> bool:
    return here[0] == location[0] and len(here[1]) > len(location[1]) and here[1][: len(location[1])] == location[1]


def _location_text(location: Location) -> str:
    source, way = location
    name = f"{source.name}.output" if source.kind == "output" else source.name
    return "$" + ".".join((name, *way)).replace("." + ITEMS, ITEMS)


def infer(meaning: Meaning) -> Typing:
    """Return the types of a program's names, from its declarations and from every use in its expressions."""
    typing = Typing(meaning)
    collector = _Collector(meaning, typing)
    # What a `set` assigns comes first: a use that does not fit it is then the one that is reported.
    for number, step in enumerate(meaning.program.steps):
        if isinstance(step, SetStep):
            for name, value in step.set.items():
                if not isinstance(value, str):
                    path: Path = ("steps", number, "set", name)
                    typing.need(
                        (Source("set", name, path, number), ()), Use(kind_of(value), path, 0, 0, "this assignment")
                    )
    for clause in sorted(meaning.clauses, key=lambda clause: clause.is_condition):
        if clause.tree is not None:
            collector.clause(clause, clause.tree)
    collector.finish()
    return typing


def kind_of(value: object) -> frozenset[str]:
    """Return the kind of a constant, as a set of one."""
    from stepward.vm.expressions.evaluator import kind

    return frozenset({kind(value)})


class _Collector:
    """Walks expressions and tells the typing what each use needs."""

    def __init__(self, meaning: Meaning, typing: Typing) -> None:
        self.meaning = meaning
        self.typing = typing
        self.path: Path = ()
        self.known: list[tuple[Location, Location, Use]] = []

    def clause(self, clause: Clause, tree: Expression) -> None:
        self.path = clause.path
        if clause.is_condition:
            self.need(tree, BOOLEAN, "a condition")
        else:
            source = Source("set", str(clause.path[-1]), clause.path, clause.step)
            self.equate((source, ()), tree)
        for node in walk(tree):
            self.node(node)

    def node(self, node: Expression) -> None:
        match node:
            case Reference(names=names):
                for location in self.locations(names):
                    self.typing.note_read(location, asked_only=False)
            case Defined(reference=reference):
                for location in self.locations(reference.names):
                    self.typing.note_read(location, asked_only=True)
            case Length(operand=operand):
                self.need(operand, SIZED, "`len`")
            case Negation(operand=operand):
                self.need(operand, BOOLEAN, "`not`")
            case Logic(operator=operator):
                self.need_all(children(node), BOOLEAN, f"`{operator}`")
            case Arithmetic(rest=rest):
                self.need_all(children(node), NUMBER, f"`{rest[0][0]}`")
            case Minus(operand=operand):
                self.need(operand, NUMBER, "`-`")
            case Compare():
                self.comparison(node)
            case _:
                pass

    def need_all(self, operands: tuple[Expression, ...], kinds: frozenset[str], words: str) -> None:
        for operand in operands:
            self.need(operand, kinds, words)

    def comparison(self, node: Compare) -> None:
        words = f"`{node.operator}`"
        if node.operator in ("<", "<=", ">", ">="):
            self.need(node.left, NUMBER, words)
            self.need(node.right, NUMBER, words)
        elif node.operator in ("starts_with", "ends_with"):
            self.need(node.left, STRING, words)
            self.need(node.right, STRING, words)
        elif node.operator in ("==", "!="):
            self.equal(node.left, node.right, words)
        elif node.operator in ("in", "not in"):
            self.need(node.right, ARRAY, words)
            self.member(node.left, node.right, words)
        else:
            self.contains(node, words)

    def contains(self, node: Compare, words: str) -> None:
        """`contains` is a text operator, unless what is contained is certainly no text."""
        if isinstance(node.right, Constant) and not isinstance(node.right.value, str):
            self.need(node.left, ARRAY, words)
            self.member(node.right, node.left, words)
        elif isinstance(node.left, Reference) and self.kinds(node.left) == ARRAY:
            self.member(node.right, node.left, words)
        else:
            self.need(node.left, STRING, words)
            self.need(node.right, STRING, words)

    def member(self, item: Expression, array: Expression, words: str) -> None:
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            for value in array.value[:1]:
                self.need(item, kind_of(value), words)
        elif isinstance(array, Reference):
            for source, way in self.locations(array.names):
                self.typing.note_read((source, way + _IMPLIED_ITEMS), asked_only=False)
                self.equate((source, way + _IMPLIED_ITEMS), item, words)

    def equal(self, left: Expression, right: Expression, words: str) -> None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Reference):
                for location in self.locations(one.names):
                    self.equate(location, other, words)

    def equate(self, location: Location, other: Expression, words: str = "this assignment") -> None:
        """The two have one type: note it for an undeclared location."""
        use = Use(ANY, self.path, other.start, other.end, words)
        if isinstance(other, Constant) and other.value is None:
            self.typing.admit_null(location)
        elif isinstance(other, Reference):
            for twin in self.locations(other.names):
                self.known.append((location, twin, use))
        else:
            self.typing.need(location, Use(result_kinds(other), self.path, other.start, other.end, words))

    def finish(self) -> None:
        """Unite what is undeclared on both sides, then pass declared types over to the undeclared side."""
        typing = self.typing
        for left, right, _ in self.known:
            if typing.spec(left) is None and typing.spec(right) is None:
                typing._unite(left, right)
        for left, right, use in self.known:
            for one, other in ((left, right), (right, left)):
                spec = typing.spec(other)
                if spec is not None and typing.spec(one) is None:
                    kinds = frozenset("number" if word == "integer" else word for word in spec.kinds)
                    if "null" in kinds and len(kinds) > 1:
                        typing.admit_null(one)
                        kinds -= {"null"}
                    typing.need(one, Use(kinds, use.path, use.start, use.end, use.words))

    def need(self, operand: Expression, kinds: frozenset[str], words: str) -> None:
        if isinstance(operand, Reference):
            for location in self.locations(operand.names):
                self.typing.need(location, Use(kinds, self.path, operand.start, operand.end, words))

    def kinds(self, reference: Reference) -> frozenset[str]:
        meant = self.meaning.names.meaning(reference.names)
        # Not `view`: it remembers its answers, and uses are still being collected.
        return self.typing.fresh_view(meant).kinds if meant else ANY

    def locations(self, names: tuple[str, ...]) -> Iterator[Location]:
        meant = self.meaning.names.meaning(names)
        if meant is not None:
            for source in meant.sources:
                yield source, meant.fields


def result_kinds(tree: Expression) -> frozenset[str]:
    """Return the kind of value that an expression other than a reference gives."""
    match tree:
        case Constant(value=value):
            return kind_of(value)
        case Length() | Arithmetic() | Minus():
            return NUMBER
        case _:
            return BOOLEAN
