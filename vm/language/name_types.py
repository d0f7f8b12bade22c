"""The types of a program's names: as declared, or as `inference.py` finds them in every use.

A *location* is a source of values and a way into it: `("amount",)` of an input, `[]` for the items of an array. What
several undeclared locations share is one cell (union-find); each use narrows it, and what can't be had at once is a
conflict (SW203).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

from stepward.vm.expressions.operators import ANY, OBJECT, kind
from stepward.vm.expressions.syntax import Constant, Reference
from stepward.vm.language.clauses import Clause
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.names import Meant, Names, Source
from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyPart, ConditionStep, EndStep, LlmCall, ParallelStep, SetStep, ToolCall
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path
from stepward.vm.values import MAX_DEPTH, to_json

ITEMS: Final = "[]"
Location = tuple[Source, tuple[str, ...]]


class Use(NamedTuple):
    """What a use of a name needs of its values, and where it stands."""

    kinds: frozenset[str]
    path: Path
    start: int
    end: int


class Conflict(NamedTuple):
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


_NOTHING: Final = View(frozenset(), ())
"""What a name gives that nothing is ever assigned to: no value."""


def _union(views: Sequence[View]) -> View:
    """Return what is known of values that come from any of several sources."""
    if len(views) == 1:
        return views[0]
    enums = [view.enum for view in views]
    present = [view for view in views if not view.never] or views
    members = None if None in enums else {to_json(member): member for enum in enums for member in enum or ()}
    return View(
        kinds=frozenset().union(*(view.kinds for view in present)),
        enum=None if members is None else tuple(members.values()),
        optional=any(view.optional or view.never for view in views),
        never=all(view.never for view in views),
        is_known=all(view.is_known for view in views),
    )


@lru_cache(maxsize=128)
def static_kinds(kinds: frozenset[str]) -> frozenset[str]:
    """Return kinds of values as names have them: an integer is a number, which of the two is not followed."""
    return frozenset("number" if word == "integer" else word for word in kinds)


class Typing:
    """The types of all names of a program."""

    def __init__(
        self, program: Program, names: Names, clauses_of: Mapping[int, list[Clause]], tool: Callable[[str], ToolSpec]
    ) -> None:
        self.program, self.names = program, names
        self._clauses_of, self._tool = clauses_of, tool
        self._parents: dict[Location, Location] = {}
        self._cells: dict[Location, _Cell] = {}
        self._only_asked: set[Location] = set()
        self._ways: dict[Source, set[tuple[str, ...]]] = {}
        """The ways into each source that are read or asked for."""
        self._settled: dict[Location, View] = {}
        """The views of `set` names, until more uses are known."""
        self._views: dict[tuple[Meant, tuple[str, ...]], View] = {}
        self._declared_views: dict[tuple[int, bool], tuple[TypeSpec, View]] = {}
        self.conflicts: list[Conflict] = []

    # -- what is declared ------------------------------------------------------------------------------------------

    def root_spec(self, source: Source) -> TypeSpec | None:
        """Return the declared type of what a source gives; None where nobody declares it."""
        if source.kind == "error":
            return _TEXT
        if source.kind == "input":
            return (self.program.inputs or {}).get(source.name)
        if source.kind == "set" or source.step is None:
            return None
        step = self.program.steps[source.step]
        return self._output(step if source.sub is None else step.sub_steps[source.sub])

    def _output(self, part: AnyPart) -> TypeSpec | None:
        match part:
            case LlmCall():
                return _reply(part)
            case ToolCall():
                return self._tool(part.tool).returns
            case ParallelStep():
                return self._joined(part)
            case ConditionStep() | SetStep() | EndStep():
                raise AssertionError(f"`{part.id}` has no output")
            case _:
                assert_never(part)

    def _joined(self, step: ParallelStep) -> TypeSpec:
        """The output of a parallel step: an object by sub-step id, without those that were skipped."""
        parts = {part.id: self._output(part) or TypeSpec() for part in step.parallel_steps}
        always = tuple(part.id for part in step.parallel_steps if part.on_error != "skip")
        return TypeSpec(type=("object",), properties=parts, required=always, additionalProperties=False)

    def spec(self, location: Location) -> TypeSpec | None:
        """Return the declared type at a location; None where nobody declares it, _NEVER where there is nothing."""
        source, way = location
        spec = self._written(location) if way else self.root_spec(source)
        # A type that says nothing about the kind of value is not declared, but inferred.
        return spec if spec is not None and (spec.type is not None or spec.enum is not None) else None

    def is_impossible(self, location: Location) -> bool:
        """Return whether a location is a field that the declared type of its owner can't have."""
        return bool(location[1]) and self._written(location) is _NEVER

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
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self.fresh_view(meant, *inside)
        return view

    def fresh_view(self, meant: Meant, *inside: str) -> View:
        """Return what is known of a reference's values by now."""
        return _union([self._view_at((source, (*meant.fields, *inside))) for source in meant.sources])

    def _view_at(self, location: Location) -> View:
        source, way = location
        if source.kind == "set":
            return self._set_view(location)
        spec = self.spec(location)
        if spec is _NEVER:
            return View(never=True)
        optional = bool(way) and self._is_optional(location)
        if spec is not None:
            return self._declared_view(spec, optional)
        cell = self._cells.get(self._find(location))
        if cell is None or (cell.kinds == ANY and not cell.uses):
            return View(optional=optional, is_known=False)
        return View(cell.kinds | (frozenset({"null"}) if cell.admits_null else frozenset()), None, optional)

    def _declared_view(self, spec: TypeSpec, optional: bool) -> View:
        """Return the view of a declared type, one for all names that have it."""
        known = self._declared_views.get((id(spec), optional))
        if known is None:
            # The type is kept beside its view: its number is its own only as long as it lives.
            known = spec, View(static_kinds(spec.kinds), spec.enum, optional)
            self._declared_views[id(spec), optional] = known
        return known[1]

    def _is_optional(self, location: Location) -> bool:
        """Return whether some field on the way may be absent."""
        source, way = location
        for depth, name in enumerate(way):
            if name == ITEMS:
                continue
            owner, here = self.spec((source, way[:depth])), (source, way[: depth + 1])
            if owner is None:
                cell = self._cells.get(self._find((source, way[:depth])))
                if here in self._only_asked or (cell is not None and cell.admits_null):
                    return True
            elif owner is not _NEVER and (name not in owner.required or owner.kinds != OBJECT):
                return True  # what is no object has no fields
        return False

    def required(self, location: Location) -> frozenset[str]:
        """Return the fields that an object at a location always has; of what is no object nothing is said."""
        source, way = location
        spec = self.spec(location)
        if spec is not None:
            return frozenset(spec.required)
        depth = len(way)
        asked = {here[depth] for here in self._ways.get(source, ()) if len(here) > depth and here[:depth] == way}
        return frozenset(name for name in asked if (source, (*way, name)) not in self._only_asked and name != ITEMS)

    def _set_view(self, location: Location) -> View:
        """A `set` name has the type of its expression: that of what it copies, or what its uses and constants say."""
        if location not in self._settled:
            self._settle(location)
        view = self._settled[location]
        return self._used_view(location) if view == _NOTHING else view

    def _settle(self, start: Location) -> None:
        """Find the views of a `set` name and of all that it copies: the least that fit together.

        Copies may form loops. So each name begins with no value, and is followed again when what it copies has more.
        """
        readers: dict[Location, list[Location]] = {}
        found = {start: None}
        pending = deque(found)
        while pending:
            here = pending.popleft()
            for copied in self._copied_locations(here):
                if copied[0].kind == "set":
                    readers.setdefault(copied, []).append(here)
                    if copied not in self._settled and copied not in found:
                        found[copied] = None
                        pending.append(copied)
        self._settled.update(dict.fromkeys(found, _NOTHING))
        waiting = dict.fromkeys(reversed(found))
        while waiting:
            here = next(iter(waiting))
            del waiting[here]
            view = self._followed(here)
            if view != self._settled[here]:
                self._settled[here] = view
                waiting.update(dict.fromkeys(readers.get(here, ())))

    def _copied_locations(self, location: Location) -> list[Location]:
        """Return what a `set` name copies as it is; empty when its expression is no lone reference."""
        source, way = location
        copied = self._copied(source)
        if copied is None or len(copied.fields) + len(way) > MAX_DEPTH:  # no value is that deep
            return []
        return [(one, copied.fields + way) for one in copied.sources]

    def _followed(self, location: Location) -> View:
        """Return the view of a `set` name by the views that there are of what it copies."""
        if self._copied(location[0]) is None:
            return self._stated_view(location)
        copied = self._copied_locations(location)
        if not copied:
            return _NOTHING
        view = _union([self._settled[one] if one[0].kind == "set" else self._view_at(one) for one in copied])
        if not view.is_known:
            return self._used_view(location)
        if view.never or not view.kinds:
            return _NOTHING
        return view._replace(optional=view.optional and bool(location[1]))

    def _stated_view(self, location: Location) -> View:
        """Return what is known of a `set` name that copies nothing: of its fields and items what is written there."""
        return self._within(*location) if location[1] else self._used_view(location)

    def _used_view(self, location: Location) -> View:
        """Return what the uses of a `set` name and its constants say."""
        cell = self._cells.get(self._find(location))
        if cell is not None and cell.kinds != ANY:
            return View(cell.kinds | (frozenset({"null"}) if cell.admits_null else frozenset()))
        return View(is_known=False)

    def _within(self, source: Source, way: tuple[str, ...]) -> View:
        """Return what is known of the fields or items of what a `set` assigns that copies nothing: all there is."""
        values, lacks = [self._assigned(source)], False
        for name in way:
            held: list[object] = []
            for value in values:
                if name == ITEMS:
                    held += value if isinstance(value, list | tuple) else ()
                elif isinstance(value, dict) and name in value:
                    held.append(value[name])
                else:
                    lacks = True
            values = held
        kinds = frozenset(kind(value) for value in values)
        return View(kinds, optional=lacks, never=lacks and not kinds)

    def _assigned(self, source: Source) -> object:
        """Return the value that a `set` writes out; of an expression that calculates None, which has no fields."""
        assert source.step is not None
        step = self.program.steps[source.step]
        assert isinstance(step, SetStep)
        value = step.set[source.name]
        if not isinstance(value, str):
            return value
        for clause in self._clauses_of.get(source.step, ()):
            if clause.path == source.path and isinstance(clause.tree, Constant):
                return clause.tree.value
        return None

    def _copied(self, source: Source) -> Meant | None:
        """Return what a `set` name copies as it is, or None when its expression is no lone reference."""
        for clause in self._clauses_of.get(source.step if source.step is not None else -1, ()):
            if clause.path == source.path and isinstance(clause.tree, Reference):
                return self.names.meaning(clause.tree.names)
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

    def unite(self, left: Location, right: Location) -> None:
        """Note that two locations hold values of one type."""
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        self._settled.clear()
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
        self._settled.clear()
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
            self._settled.clear()
            self._cell(location).admits_null = True

    def note_read(self, location: Location, *, asked_only: bool) -> None:
        """Note that a location is read, or only asked for by `defined`: the latter makes a field optional."""
        source, way = location
        self._settled.clear()
        for depth in range(1, len(way) + 1):
            here = (source, way[:depth])
            self._ways.setdefault(source, set()).add(way[:depth])
            if asked_only and depth == len(way):
                self._only_asked.add(here)
            owner = (source, way[: depth - 1])
            if way[depth - 1] != ITEMS and self.spec(owner) is None:
                self._cell(owner).kinds &= OBJECT if self._cell(owner).kinds & OBJECT else self._cell(owner).kinds
                self._cell(owner).uses.append(Use(OBJECT, (), 0, 0))

    # -- what the boundary enforces --------------------------------------------------------------------------------

    def effective(self, source: Source) -> TypeSpec | None:
        """Return the type that the machine enforces on what a source gives: declared, and inferred where it is not."""
        return self._effective((source, ()))

    def _effective(self, location: Location) -> TypeSpec | None:
        source, way = location
        spec = self.spec(location)
        depth = len(way)
        ways = self._ways.get(source, ())
        inner = sorted({here[depth] for here in ways if len(here) > depth and here[:depth] == way})
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
            elif below is not None and below is not _NEVER and spec is not _NEVER:
                properties[name] = below
        fields = [name for name in inner if name != ITEMS]
        if fields and self.spec(location) is None:
            update["required"] = tuple(name for name in fields if (source, (*way, name)) not in self._only_asked)
        if properties:
            update["properties"] = properties
        return spec.model_copy(update=update) if update else spec


# Constructed, not validated: a validator that is built on import would cost every start.
_TEXT: Final = TypeSpec.model_construct(type=("string",))
_NEVER: Final = TypeSpec.model_construct(type=("null",), enum=(None,))


def _reply(call: LlmCall) -> TypeSpec:
    if call.returns is not None:
        return call.returns
    return _TEXT if call.allowed_outputs is None else TypeSpec(type=("string",), enum=call.allowed_outputs)


def _location_text(location: Location) -> str:
    source, way = location
    name = f"{source.name}.output" if source.kind == "output" else source.name
    return "$" + ".".join((name, *way)).replace("." + ITEMS, ITEMS)
