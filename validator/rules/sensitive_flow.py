"""Taint analysis of sensitive values: through `set`, fields and bodies, and through tools that may repeat arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from stepward.validator.analysis.readings import Reading
from stepward.validator.context import Context
from stepward.vm.expressions.fields import ITEMS, index_of
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.operators import NUMBER, STRING
from stepward.vm.expressions.syntax import Arithmetic, Constant, Expression, Reference, Template
from stepward.vm.language.name_types import Location
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.steps import (
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
from stepward.vm.reading.source import Path, Place

LEAST: Final = 6
"""The fewest characters of a sensitive value that the machine searches outputs for."""

_SMALL: Final = 10 ** (LEAST - 1)
"""Whole numbers below it have fewer characters than LEAST."""

_NUMBER: Final = frozenset({"number"})
_ANY: Final = frozenset({"string", "number"})


class Origin(NamedTuple):
    """Where a value is marked sensitive, and how it was passed on.

    `kinds` are the kinds of its texts and numbers that an output could repeat; `tool` is the last tool that may have
    repeated it, or empty.
    """

    place: Place
    kinds: frozenset[str]
    tool: str = ""


class SensitiveFlow:
    """The tainted values of a program: those of `set` and `compute`, and outputs of tools with a sensitive argument."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sets: dict[str, dict[tuple[Path, int], tuple[Reading, Origin]]] = {}
        """By variable: each reading that gives it, or a part of it, a sensitive value."""
        self._echoes: dict[str, Origin] = {}
        self._computed: dict[str, Origin] = {}
        readings = [one for one in context.analyses.assignment.readings if one.resolution is not None]
        passing = [one for one in readings if self._may_pass(one)]
        changed = True
        while changed:
            changed = False
            for reading in passing:
                changed = self._propagate(reading) or changed

    def _may_pass(self, reading: Reading) -> bool:
        """Return whether a step may pass on what it reads: `set`, `compute`, or a tool that may repeat it."""
        reader = self._context.analyses.reader(reading)
        match reader:
            case SetStep() | ComputeStep() | InvokeStep():
                return True
            case ForEachStep():
                return reading.clause is not None  # the first value of a carried variable
            case ToolCall():
                return self._context.facts.meaning.tool(reader.tool).echoes
            case LlmCall() | ConditionStep() | ParallelStep() | WaitStep() | EndStep() | Stage():
                return False
            case _:
                assert_never(reader)

    def _propagate(self, reading: Reading) -> bool:
        """Record the taint that a reading passes on; return whether it is new."""
        assert reading.resolution is not None
        call = self._context.analyses.reader(reading)
        if not isinstance(call, ToolCall | ComputeStep):
            return self._assign(reading)
        known, name = (self._echoes if isinstance(call, ToolCall) else self._computed), call.id
        if name in known:
            return False
        origin = self.origin(reading.resolution)
        if origin is None:
            return False
        if isinstance(call, ToolCall):
            if not origin.kinds:
                return False
            origin = origin._replace(tool=call.tool)
        else:
            origin = origin._replace(kinds=_ANY)
        known[name] = origin
        return True

    def _assign(self, reading: Reading) -> bool:
        """Record the taint of a variable that a `set` assigns, or of the part of it that is built from a reading."""
        assert reading.clause is not None
        assert reading.resolution is not None
        if reading.clause.is_base(reading.reference.start):
            return False  # what a variable keeps it has from its other sources
        known, key = self._sets.setdefault(reading.clause.name, {}), (reading.path, reading.reference.start)
        origin = self.origin(reading.resolution) if key not in known else None
        if origin is not None:
            known[key] = reading, origin._replace(kinds=self._kinds_after(reading, origin))
        return origin is not None

    @staticmethod
    def _kinds_after(reading: Reading, origin: Origin) -> frozenset[str]:
        """Return the kinds after `set` read a sensitive value: a copy has all of them, a calculation gives a
        number, and `+` a text or an array that repeats what it joined, as a template does."""
        clause = reading.clause
        tree: Expression | None = clause.tree if clause is not None else None
        if clause is not None and tree is not None:
            tree = leaf(tree, clause.part(reading.reference.start)).tree
        if tree is None or isinstance(tree, Reference):
            return origin.kinds
        if isinstance(tree, Constant):
            return frozenset()
        if isinstance(tree, Template):
            return STRING
        if "array" in result_kinds(tree):
            return origin.kinds
        joined = STRING if isinstance(tree, Arithmetic) and "string" in origin.kinds else frozenset()
        return result_kinds(tree) & (NUMBER | joined)

    def origin(self, resolution: Resolution) -> Origin | None:
        """Return the origin of a sensitive value that a reference may read, or None.

        An origin of a value that is certainly sensitive comes before one that a tool may only repeat.
        """
        origins = self._of_reference(resolution, set())
        return min(origins, key=lambda origin: bool(origin.tool), default=None)

    def fields_to_show(self, text: str, resolution: Resolution) -> list[str]:
        """Return references to the declared fields that are not sensitive of what a reference with this text reads.

        Of a copy by `set`, these are fields of what was copied: all of the copy counts as sensitive.
        """
        visited: set[Path] = set()
        while any(source.kind == "set" for source in resolution.sources):
            copied = self._copied(resolution)
            if copied is None or copied.path in visited or copied.resolution is None:
                return []
            visited.add(copied.path)
            text, resolution = copied.reference.text(), copied.resolution
        specs = [self._context.facts.meaning.typing.root_spec(source) for source in resolution.sources]
        parts = [_part(spec, resolution.fields) for spec in specs]
        declared = [set() if part is None else set(part.properties or {}) for part in parts]
        return [
            f"{text}.{name}"
            for name in sorted(set.intersection(*declared) if declared else ())
            if name.isidentifier() and all(_marked(spec, (), (*resolution.fields, name)) is None for spec in specs)
        ]

    def _copied(self, resolution: Resolution) -> Reading | None:
        """Return the reading of the one `set` that gave a variable its value, if it is a plain copy."""
        if len(resolution.sources) != 1 or resolution.fields:
            return None
        (source,) = resolution.sources
        readings = [one for one in self._context.analyses.assignment.readings if one.path == source.path]
        steps = self._context.facts.meaning.clauses_of
        trees = [clause.tree for one in readings for clause in steps.get(one.step, ()) if clause.path == source.path]
        return readings[0] if len(readings) == 1 and isinstance(trees[0], Reference) else None

    def _of_reference(self, resolution: Resolution, visited: set[Location]) -> Iterator[Origin]:
        """Yield the origins of what a reference may read; `visited` are the locations that were asked."""
        for location in [(source, resolution.fields) for source in resolution.sources]:
            if location in visited:
                continue
            visited.add(location)
            yield from self._origins(*location)
            for passed in self._context.analyses.passing.into(*location):
                origins = self._of_reference(passed.resolution, visited)
                yield from (one._replace(kinds=STRING) if passed.is_text else one for one in origins)

    def _origins(self, source: Source, fields: tuple[str, ...]) -> Iterator[Origin]:
        """Yield the origins of a value that does not come out of a body."""
        if source.kind == "set":
            known = self._sets.get(source.name, {})
            yield from (origin for reading, origin in known.values() if reading.is_in(fields))
            steps = self._context.facts.flow.steps
            step = None if source.step is None else steps[source.step]
            if isinstance(step, InvokeStep):  # the called program says more of its input
                path = (*step.home, "inputs", source.name.removeprefix(step.inside("")))
                marked = _marked(self._context.facts.meaning.typing.root_spec(source), path, fields)
                if marked is not None:
                    yield marked
            return
        spec = self._context.facts.meaning.typing.root_spec(source)
        marked = _marked(spec, _spec_path(self._context, source), fields)
        if marked is not None:
            yield marked
        if source.kind == "output":
            yield from self._repeated(source, fields)

    def _repeated(self, source: Source, fields: tuple[str, ...]) -> Iterator[Origin]:
        call = self._context.facts.call_of(source)
        if call.id in self._computed:
            yield self._computed[call.id]  # the machine seals the whole value
        parts = [(call, fields)]
        if isinstance(call, ParallelStep):
            parts = [(part, fields[1:]) for part in call.parallel_steps if not fields or part.id == fields[0]]
        for part, below in parts:
            origin = self._echoes.get(part.id)
            if origin is not None and isinstance(part, ToolCall):
                returns = self._context.facts.meaning.tool(part.tool).returns
                if _may_hold(_part(returns, below), origin.kinds):
                    yield origin


def is_marked(context: Context) -> bool:
    """Return whether any type of the program is marked sensitive, or has a part that is."""
    meaning = context.facts.meaning
    specs: list[TypeSpec | None] = [*(context.facts.program.inputs or {}).values()]
    specs += [tool.returns for tool in meaning.manifest.values()]
    specs += [site.call.returns for site in meaning.calls if isinstance(site.call, LlmCall)]
    specs += [step.returns for step in context.facts.flow.steps if isinstance(step, ComputeStep)]
    calls = [step for step in context.facts.flow.steps if isinstance(step, InvokeStep)]
    specs += [spec for step in calls for spec in step.declared.values()]
    return any(_marked(spec, (), ()) is not None for spec in specs)


def _spec_path(context: Context, source: Source) -> tuple[str | int, ...]:
    call = context.facts.call_of(source) if source.kind == "output" else None
    if isinstance(call, ToolCall):
        return ("tools", call.tool, "returns")
    return (*source.path, "returns") if isinstance(call, LlmCall | ComputeStep) else source.path


def _marked(spec: TypeSpec | None, path: tuple[str | int, ...], fields: tuple[str, ...]) -> Origin | None:
    """Return where the value at `fields`, a value around it, or a part of it is marked sensitive."""
    for number, name in enumerate(fields):
        if spec is None:
            return None
        if spec.sensitive:
            return Origin(Place((*path, "sensitive")), _searched_kinds(_part(spec, fields[number:])))
        if name == ITEMS or index_of(name) is not None:
            spec, path = spec.items, (*path, "items")
        elif name in (spec.properties or {}):
            spec, path = (spec.properties or {})[name], (*path, "properties", name)
        else:
            spec, path = _rest(spec), (*path, "additionalProperties")
    pending = [(spec, path)] if spec is not None else []
    first, kinds = None, frozenset[str]()
    while pending:
        inner, inner_path = pending.pop()
        if inner.sensitive:
            first = first or Place((*inner_path, "sensitive"))
            kinds |= _searched_kinds(inner)
            continue
        pending.extend((below, (*inner_path, "properties", name)) for name, below in (inner.properties or {}).items())
        rest = _rest(inner)
        pending.extend([(rest, (*inner_path, "additionalProperties"))] if rest is not None else ())
        pending.extend([(inner.items, (*inner_path, "items"))] if inner.items is not None else ())
    return None if first is None else Origin(first, kinds)


def _part(spec: TypeSpec | None, fields: tuple[str, ...]) -> TypeSpec | None:
    """Return the type of a field of a value; None where it is not declared."""
    for name in fields:
        if spec is None:
            return None
        is_item = name == ITEMS or index_of(name) is not None
        spec = spec.items if is_item else (spec.properties or {}).get(name, _rest(spec))
    return spec


def _rest(spec: TypeSpec) -> TypeSpec | None:
    """Return the type of the fields of an object that are not named."""
    return spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None


def _searched_kinds(spec: TypeSpec | None) -> frozenset[str]:
    """Return the kinds of the values of a type that are long enough to be searched for, at any depth."""
    return frozenset(kind for kind in _ANY if _may_hold(spec, frozenset({kind}), exactly=True))


def _may_hold(spec: TypeSpec | None, kinds: frozenset[str], *, exactly: bool = False) -> bool:
    """Return whether a value of a type may contain a text or number of these kinds.

    A text may contain a number, too, unless `exactly` is set.
    """
    if spec is None or not kinds:
        return bool(kinds)
    if spec.enum is not None:
        return False
    texts = kinds & {"string"} if exactly else kinds
    if texts and spec.admits("string") and (spec.max_length is None or spec.max_length >= LEAST):
        return True
    if "number" in kinds and (spec.admits("number") or (spec.admits("integer") and not _is_small(spec))):
        return True
    if spec.admits("array") and _may_hold(spec.items, kinds, exactly=exactly):
        return True
    return spec.admits("object") and any(_may_hold(one, kinds, exactly=exactly) for one in _fields(spec))


def _fields(spec: TypeSpec) -> Iterator[TypeSpec | None]:
    """Yield the types of an object's fields; None stands for undeclared fields, unless the object is closed."""
    yield from (spec.properties or {}).values()
    rest = spec.additional_properties
    if isinstance(rest, TypeSpec):
        yield rest
    elif rest is not False:
        yield None


def _is_small(spec: TypeSpec) -> bool:
    low, high = spec.minimum, spec.maximum
    return low is not None and high is not None and low > -_SMALL // 10 and high < _SMALL
