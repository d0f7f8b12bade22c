"""The types of a program's names: declared, or inferred from their uses (`inference.py`).

A *location* is a source of values and a path into its values: names of fields, and `[]` for the items of an array.
Undeclared locations of one type share a type variable (union-find); each use narrows it, and two uses that no value can
serve are a conflict (SW203).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Literal, assert_never

from stepward.vm.expressions.fields import ITEMS, index_of, is_indexed, of_type, written
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.operators import ANY, OBJECT
from stepward.vm.expressions.paths import Paths
from stepward.vm.expressions.syntax import Built, Constant, Expression
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.clauses import Clause
from stepward.vm.language.failures import names_of
from stepward.vm.language.flow import Gives
from stepward.vm.language.items import MAX_COPIES, kinds_inside, lacks
from stepward.vm.language.lists import ListTypes
from stepward.vm.language.made import is_joined, leaf_view, made_of, meaning_of, written_list
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.names import Names, Resolution, Source, input_of_call
from stepward.vm.language.program import Program
from stepward.vm.language.read_paths import ReadPaths
from stepward.vm.language.required import required
from stepward.vm.language.stated import NEVER, TEXT, reply
from stepward.vm.language.steps import (
    AnyPart,
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
from stepward.vm.language.steps.catching import VISITS
from stepward.vm.language.together import Together
from stepward.vm.language.types import TypeSpec
from stepward.vm.language.uses import Conflict, TypeVariable, Use
from stepward.vm.language.views import NO_VALUE, View, static_kinds, union
from stepward.vm.values import MAX_DEPTH

COPIES: Final = ("set", "item")
"""The kinds of sources whose values are made by the program: a `set`, and an item of a list."""

Location = tuple[Source, tuple[str, ...]]

MAX_PATHS: Final = 100
"""Paths into one `set` name whose copies are followed. Copies of fields of copies can ask for exponentially many."""


class Typing:
    """The types of all names of a program."""

    def __init__(
        self,
        program: Program,
        names: Names,
        clauses_of: Mapping[int, list[Clause]],
        tool: Callable[[str], ToolSpec],
        gives: Callable[[int], Gives],
    ) -> None:
        self.program, self.names = program, names
        self._clauses_of, self._tool = clauses_of, tool
        self._together = Together(program.layout, gives)
        self.lists = ListTypes(program.layout, tool, self)
        self._parents: dict[Location, Location] = {}
        self._variables: dict[Location, TypeVariable] = {}
        self.reads = ReadPaths()
        self._error_names: dict[Source, TypeSpec] = {}
        self._settled: dict[Location, View] = {}
        """Cached views of `set` names, cleared by each new use."""
        self._views: dict[tuple[Resolution, tuple[str, ...]], View] = {}
        self.conflicts: list[Conflict] = []

    # -- what is declared ------------------------------------------------------------------------------------------

    def root_spec(self, source: Source) -> TypeSpec | None:
        """Return the declared type of a source; None if there is none."""
        if source.kind == "error":
            return TEXT
        if source.kind == "error_name":
            return self._error_name(source)
        if source.kind == "input":
            return (self.program.inputs or {}).get(source.name)
        if source.kind in ("index", "errors"):
            return self.lists.of(source)
        if source.kind in COPIES or source.step is None:
            return input_of_call(self.program.layout, source)
        return self._output(self._part(source.step, source.sub))

    def _part(self, number: int, sub: int | None) -> AnyPart:
        step = self.program.layout.steps[number]
        return step if sub is None else step.sub_steps[sub]

    def _error_name(self, source: Source) -> TypeSpec:
        """Return the type of the name of an error: one of those with which the step or sub-step can fail."""
        assert source.step is not None
        if source not in self._error_names:
            names = names_of(self._part(source.step, source.sub), self._tool)
            whole = self.program.layout.steps[source.step]
            if source.sub is not None and whole.max_visits is not None:
                names = (*names, VISITS)  # sub-steps of a step whose visits are used up
            self._error_names[source] = TypeSpec(type=("string",), enum=names) if names else TEXT
        return self._error_names[source]

    def _output(self, part: AnyPart) -> TypeSpec | None:
        match part:
            case LlmCall():
                return reply(part)
            case ToolCall():
                return self._tool(part.tool).returns
            case ParallelStep():
                return self._together.of(part, self._output)
            case ComputeStep() | InvokeStep():
                return part.returns
            case ForEachStep():
                return None if part.is_once else self.lists.output(part)
            case ConditionStep() | SetStep() | WaitStep() | EndStep() | Stage():
                raise AssertionError(f"`{part.id}` has no output")
            case _:
                assert_never(part)

    def spec(self, location: Location) -> TypeSpec | None:
        """Return the declared type at a location; None if there is none, NEVER for a field that can't exist."""
        source, path = location
        spec = self._stated_spec(location) if path else self.root_spec(source)
        # A type that does not restrict the kinds of values counts as undeclared: they are inferred.
        return spec if spec is not None and (spec.type is not None or spec.enum is not None) else None

    def is_impossible(self, location: Location) -> bool:
        """Return whether a location is a field that the declared type of its owner can't have."""
        return bool(location[1]) and self._stated_spec(location) is NEVER

    def _stated_spec(self, location: Location) -> TypeSpec | None:
        """Return the type stated for a location, even if it does not restrict the kinds of values."""
        source, path = location
        spec = self.root_spec(source)
        for name in path:
            if spec is None:
                return None
            if name == ITEMS:
                spec = spec.items
            elif index_of(name) is not None:
                spec = spec.items if "array" in spec.kinds else NEVER
            elif spec.properties is not None and name in spec.properties:
                spec = spec.properties[name]
            elif spec.additional_properties is False or "object" not in spec.kinds:
                return NEVER
            else:
                spec = spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None
        return spec

    def view(self, resolution: Resolution, *inside: str) -> View:
        """Return the view of a reference's values, from all its sources; `inside` is a path below them. Cached."""
        key = (resolution, inside)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self.fresh_view(resolution, *inside)
        return view

    def fresh_view(self, resolution: Resolution, *inside: str) -> View:
        """Return the view of a reference's values by the uses noted so far; not cached."""
        return self._view_of(resolution._replace(fields=(*resolution.fields, *inside)), MAX_COPIES)

    def _view_of(self, resolution: Resolution, copies: int) -> View:
        return union([self._view_below(source, resolution.fields, copies) for source in resolution.sources])

    def _view_below(self, source: Source, fields: tuple[str, ...], copies: int) -> View:
        """Return the view of the values at some fields of a source; an item may be missing where an array is short."""
        if not is_indexed(fields):
            return self._view_at((source, fields))
        tree, below = self.made(source, fields)
        if isinstance(tree, Built) and copies:
            found = []
            for leaf in made_of(tree, below):
                resolution = meaning_of(self.names, leaf.tree)
                found.append(leaf_view(leaf) if resolution is None else self._view_of(resolution, copies - 1))
            return union(found) if found else View(never=True)
        constant = self._assigned(source) if source.kind == "set" else None
        if isinstance(constant, list | tuple | dict):
            return kinds_inside(constant, fields)
        view = self._view_at((source, of_type(fields)))
        may_be_missing, is_missing = lacks(self, source, fields, MAX_COPIES)
        return view._replace(optional=view.optional or may_be_missing, never=view.never or is_missing)

    def _view_at(self, location: Location) -> View:
        source, path = location
        if source.kind in COPIES:
            return self._set_view(location)
        spec = self.spec(location)
        if spec is NEVER:
            return View(never=True)
        lacks = [why for depth, name in enumerate(path) if name != ITEMS and (why := self._lacks(source, path, depth))]
        optional, unstated = "optional" in lacks, "unstated" in lacks
        if spec is not None:
            return View(static_kinds(spec.kinds), spec.enum, optional, unstated=unstated)
        variable = self._variables.get(self._find(location))
        if variable is None or (variable.kinds == ANY and not variable.uses):
            return View(optional=optional, is_known=False, unstated=unstated)
        kinds = variable.kinds | (frozenset({"null"}) if variable.may_be_null else frozenset())
        return View(kinds, None, optional, unstated=unstated)

    def _lacks(self, source: Source, path: tuple[str, ...], depth: int) -> Literal["optional", "unstated"] | None:
        """Return why one field of a path may be absent; None if it may not."""
        owner, here = self.spec((source, path[:depth])), (source, path[: depth + 1])
        if owner is NEVER:
            return None
        if owner is not None:  # a value of another kind has no fields
            return "optional" if path[depth] not in owner.required or owner.kinds != OBJECT else None
        variable = self._variables.get(self._find((source, path[:depth])))
        if self.reads.is_only_asked(here) or (variable is not None and variable.may_be_null):
            return "optional"
        is_given = self._is_made_by_body(source) or path[depth] in required(self, (source, path[:depth]))
        return None if self.reads.has(here) or is_given else "unstated"

    def _is_made_by_body(self, source: Source) -> bool:
        """Return whether the ends of a body say what a value has, and no type holds it."""
        step = self.program.layout.steps[source.step] if source.kind == "output" and source.step is not None else None
        is_fork = isinstance(step, ParallelStep) and bool(step.branches) and source.sub is None
        return is_fork or (isinstance(step, ForEachStep) and not isinstance(step, InvokeStep))

    def _set_view(self, location: Location) -> View:
        """Return the view of a `set` name: that of the reference that it copies, else by its uses and constants."""
        if location not in self._settled:
            self._settle(location)
        view = self._settled[location]
        return self._used_view(location) if view == NO_VALUE else view

    def _settle(self, start: Location) -> None:
        """Cache the views of a `set` name and of all that it copies: their least fixed point.

        Copies may form loops. So each name starts without values, and is computed again when a name that it copies has
        changed. Beyond MAX_PATHS paths into one name, its values are what their uses say.
        """
        readers: dict[Location, list[Location]] = {}
        found = {start: None}
        paths = Counter([start[0]])
        pending = deque(found)
        while pending:
            here = pending.popleft()
            for copied in self.copied_locations(here):
                if copied[0].kind not in COPIES:
                    continue
                readers.setdefault(copied, []).append(here)
                if copied in self._settled or copied in found:
                    continue
                paths[copied[0]] += 1
                if paths[copied[0]] > MAX_PATHS:
                    self._settled[copied] = self._used_view(copied)
                else:
                    found[copied] = None
                    pending.append(copied)
        self._settled.update(dict.fromkeys(found, NO_VALUE))
        waiting = dict.fromkeys(reversed(found))
        while waiting:
            here = next(iter(waiting))
            del waiting[here]
            view = self._view_of_copied(here)
            if view != self._settled[here]:
                self._settled[here] = view
                waiting.update(dict.fromkeys(readers.get(here, ())))

    def copied_locations(self, location: Location) -> list[Location]:
        """Return the locations that a `set` name copies; empty if its expression is not a lone reference."""
        source, path = location
        copied = self.copied(source)
        if copied is None:
            resolutions = [meaning_of(self.names, leaf.tree) for leaf in made_of(*self.made(source, path))]
            return [(one, of_type(each.fields)) for each in resolutions if each is not None for one in each.sources]
        if len(copied.fields) + len(path) > MAX_DEPTH:  # no value is that deep
            return []
        return [(one, of_type(copied.fields) + path) for one in copied.sources]

    def _view_of_copied(self, location: Location) -> View:
        """Return the view of a `set` name by the present views of the locations that it copies."""
        if self.copied(location[0]) is None:
            tree, path = self.made(*location)
            is_made = isinstance(tree, Built) or (is_joined(tree) and path[:1] == (ITEMS,))
            return self._view_of_made(location, tree, path) if is_made else self._stated_view(location)
        copied = self.copied_locations(location)
        if not copied:
            return NO_VALUE
        view = union([self._present(one) for one in copied])
        if not location[1]:  # what is copied was there
            view = view._replace(optional=False, unstated=False)
        if not view.is_known:  # a field that the declared type of an owner does not list may be absent in a copy, too
            return self._used_view(location)._replace(optional=view.optional, unstated=view.unstated)
        if not (view.never and location[1]) and (view.never or not view.kinds):  # what is not there is not copied
            return NO_VALUE
        return view

    def _view_of_made(self, location: Location, tree: Expression | None, path: tuple[str, ...]) -> View:
        """Return the view of a built value, of a field of it, or of the items of arrays that `+` joins.

        It is of any kind, unless all the parts are known. A field of an object has the type of what it is built from.
        """
        if isinstance(tree, Built) and not path:
            return View(result_kinds(tree))
        found: list[View] = []
        for leaf in made_of(tree, path):
            resolution = meaning_of(self.names, leaf.tree)
            if resolution is None:
                is_sum = is_joined(leaf.tree) and not leaf.fields
                found.append(self._used_view(location) if is_sum else leaf_view(leaf))
                continue
            views = [self._present((one, of_type(resolution.fields))) for one in resolution.sources]
            # What a value is built from was defined then.
            found += views if leaf.is_field else [view._replace(optional=False, unstated=False) for view in views]
        known = [view for view in found if view != NO_VALUE]
        if not all(view.is_known for view in known):
            used = View(is_known=False) if ITEMS in path else self._used_view(location)
            optional, unstated = any(view.optional for view in known), any(view.unstated for view in known)
            return used._replace(optional=used.optional or optional, unstated=unstated)
        return union(known)._replace(enum=None) if known else NO_VALUE

    def _present(self, location: Location) -> View:
        return self._settled[location] if location[0].kind in COPIES else self._view_at(location)

    def _stated_view(self, location: Location) -> View:
        """Return the view of a `set` name that copies nothing; of its fields and items, that of the constants there."""
        return kinds_inside(self._assigned(location[0]), location[1]) if location[1] else self._used_view(location)

    def _used_view(self, location: Location) -> View:
        """Return the view of a `set` name by its uses and constants, of an input of a call by its declared type."""
        spec, variable = self.spec(location), self._variables.get(self._find(location))
        if spec is not None and spec is not NEVER:
            return View(static_kinds(spec.kinds), spec.enum)
        if variable is not None and variable.kinds != ANY:
            return View(variable.kinds | (frozenset({"null"}) if variable.may_be_null else frozenset()))
        return View(is_known=False)

    def _assigned(self, source: Source) -> object:
        """Return the constant that a `set` assigns; None, which has no fields, for an expression that calculates."""
        assert source.step is not None
        value = self.program.layout.steps[source.step].assigns.get(source.name)
        tree = self.tree(source)
        if tree is None:
            return None if isinstance(value, str | Paths) else value
        return tree.value if isinstance(tree, Constant) else None

    def constant(self, source: Source) -> Constant:
        """Return the constant that a `set` assigns; null, which has no fields, for an expression that calculates."""
        return Constant(0, 0, self._assigned(source))

    def tree(self, source: Source) -> Expression | None:
        """Return the expression of a `set` name; None for another source, and for a value that stands for itself."""
        clauses = self._clauses_of.get(source.step if source.step is not None else -1, ())
        return next((clause.tree for clause in clauses if clause.path == source.path), None)

    def made(self, source: Source, fields: tuple[str, ...]) -> tuple[Expression | None, tuple[str, ...]]:
        """Return the expression of a `set` name or of the written list of an item, and where in it some fields are."""
        if source.kind == "item" and source.step is not None:
            return written_list(self._each(source.step)), (ITEMS, *fields)
        return self.tree(source), fields

    def copied(self, source: Source) -> Resolution | None:
        """Return the resolved reference that a `set` name copies, or None if its expression is not a lone reference.

        An item of a for_each step copies an item of its list.
        """
        if source.kind != "item" or source.step is None:
            return meaning_of(self.names, self.tree(source))
        names = lone_reference(self._each(source.step).items)
        resolution = None if names is None else self.names.meaning(names)
        return None if resolution is None else resolution._replace(fields=(*resolution.fields, ITEMS))

    def _each(self, stage: int) -> ForEachStep:
        step = self.program.layout.steps[self.program.layout.body_of(stage).owner]
        assert isinstance(step, ForEachStep)
        return step

    def enforced(self, location: Location) -> TypeSpec | None:
        """Return the type that the machine enforces on the values at a location; None if it enforces none."""
        source, path = location
        return None if source.kind in COPIES else self._effective((source, path))

    # -- union-find ------------------------------------------------------------------------------------------------

    def _find(self, location: Location) -> Location:
        root = location
        while root in self._parents:
            root = self._parents[root]
        while location != root:
            self._parents[location], location = root, self._parents[location]
        return root

    def root(self, location: Location) -> Location:
        """Return the location that stands for all that share a type with one."""
        return self._find(location)

    def kinds_at(self, location: Location) -> frozenset[str]:
        """Return the kinds that a location can have by what is declared and by the uses noted so far, without null."""
        source, path = location
        if source.kind == "set" and path:  # it may be a field of a copy
            return self.fresh_view(Resolution((source,), path)).kinds - {"null"} or ANY
        spec = None if self.is_impossible(location) else self.spec(location)
        if spec is not None:
            return static_kinds(spec.kinds)
        variable = self._variables.get(self._find(location))
        return ANY if variable is None else variable.kinds

    def _variable(self, location: Location) -> TypeVariable:
        return self._variables.setdefault(self._find(location), TypeVariable())

    def unite(self, left: Location, right: Location) -> None:
        """Note that two locations hold values of one type."""
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        self._settled.clear()
        variable, merged = self._variable(a), self._variables.pop(b, TypeVariable())
        self._parents[b] = a
        for use in merged.uses:
            self._add(a, variable, use)
        variable.may_be_null |= merged.may_be_null

    def need(self, location: Location, use: Use) -> None:
        """Note the kinds that a use needs of an undeclared location; a declared one is checked, not inferred."""
        if self.spec(location) is None:
            self._add(location, self._variable(location), use)

    def _add(self, location: Location, variable: TypeVariable, use: Use) -> None:
        self._settled.clear()
        narrowed = variable.kinds & use.kinds
        if narrowed:
            variable.kinds = narrowed
            variable.uses.append(use)
        else:
            first = next(earlier for earlier in variable.uses if not earlier.kinds & use.kinds or earlier.kinds != ANY)
            self.conflicts.append(Conflict(_location_text(location), first, use))

    def note_null(self, location: Location) -> None:
        """Note that the program compares an undeclared location with null."""
        if self.spec(location) is None:
            self._settled.clear()
            self._variable(location).may_be_null = True

    def note_read(self, location: Location, *, asked_only: bool) -> None:
        """Note that a location is read, or only tested by `defined`, which makes a field optional."""
        source, path = location
        self._settled.clear()
        self.reads.note(location, asked_only=asked_only)
        for depth in range(1, len(path) + 1):
            owner = (source, path[: depth - 1])
            if path[depth - 1] != ITEMS and self.spec(owner) is None:
                self._variable(owner).kinds &= (
                    OBJECT if self._variable(owner).kinds & OBJECT else self._variable(owner).kinds
                )
                self._variable(owner).uses.append(Use(OBJECT, (), 0, 0))

    def effective(self, source: Source) -> TypeSpec | None:
        """Return the type that the machine enforces on the values of a source: the declared parts, else inferred."""
        return self._effective((source, ()))

    def _effective(self, location: Location) -> TypeSpec | None:
        source, path = location
        spec = self.spec(location)
        inner = self.reads.fields(location)
        if spec is not None and not inner:
            return spec
        if spec is None:
            variable = self._variables.get(self._find(location))
            stated = self._stated_spec(location)
            if variable is None or (variable.kinds == ANY and not inner):
                return stated if stated is not None and stated.model_fields_set else None
            kinds = variable.kinds | (frozenset({"null"}) if variable.may_be_null else frozenset())
            words = None if kinds == ANY else tuple(sorted(kinds))
            spec = (stated or TypeSpec()).model_copy(update={"type": words})
        update: dict[str, object] = {}
        properties = dict(spec.properties or {})
        for name in inner:
            below = self._effective((source, (*path, name)))
            if name == ITEMS:
                update["items"] = below or spec.items
            elif below is not None and below is not NEVER and spec is not NEVER:
                properties[name] = below
        fields = [name for name in inner if name != ITEMS]
        if fields and self.spec(location) is None:
            update["required"] = self.reads.asked_of(location)
        if properties:
            update["properties"] = properties
        return spec.model_copy(update=update) if update else spec


def _location_text(location: Location) -> str:
    source, path = location
    return "$" + written((f"{source.name}.output" if source.kind == "output" else source.name, *path))
