"""Definite assignment: which names are certainly defined where they are read, by plain data flow.

A forward analysis over the transitions of the program: a name is certainly defined at a step when it is so on every
path of edges to it, whatever the conditions on the way say. What one dominating assignment settles is answered from
the dominator tree; the rest runs as bit sets, a bounded number of names at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.expressions.facts import Facts, Read, certain_reads, facts, reads
from stepward.vm.expressions.syntax import Defined, Expression, Reference, walk
from stepward.vm.expressions.template import embedded
from stepward.vm.language.flow import Transition
from stepward.vm.language.names import Meant
from stepward.vm.language.steps import (
    AnyStep,
    ConditionStep,
    EndStep,
    Failing,
    LlmCall,
    ParallelStep,
    SetStep,
    ToolCall,
)
from stepward.vm.reading.source import Path, Place

if TYPE_CHECKING:
    from stepward.validator.analysis.context import Context

Names = tuple[str, ...]

NAMES_AT_ONCE = 512
"""Bits of one pass of the data flow: more takes more memory at once, not more time in all."""


class Reading(NamedTuple):
    """A reference that a step reads: where it stands, what it speaks of, and what is certain by then.

    `sub` is the position of the sub-step that reads it.
    """

    step: int
    sub: int | None
    place: Place
    reference: Reference
    meant: Meant | None
    known: Facts = Facts()


class Doubt(NamedTuple):
    """A reading of something that may be undefined: `key` is the variable, or the field of it that may be absent."""

    reading: Reading
    key: Names


@dataclass(frozen=True, slots=True)
class Effect:
    """What a transition does to names: `gone` are undefined after it, `given` certainly defined."""

    given: frozenset[Names]
    gone: frozenset[Names]


class Assignment:
    """Who reads what, and whether it is certainly defined by then."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.names = context.meaning.names
        self.typing = context.meaning.typing
        self.flow = context.flow
        self._gates: dict[int, int | None] = {}

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every reference that a step reads, in the order of the list."""
        return tuple(reading for number, step in enumerate(self.flow.steps) for reading in self._readings(number, step))

    def readings_at(self, number: int) -> tuple[Reading, ...]:
        """Return the references that one step reads, without looking at any other."""
        return tuple(self._readings(number, self.flow.steps[number]))

    def _readings(self, number: int, step: AnyStep) -> Iterator[Reading]:
        path: Path = ("steps", number)
        if step.type in ("tool", "llm"):
            assert isinstance(step, ToolCall | LlmCall)
            yield from self._call_readings(number, None, step, path)
        elif isinstance(step, ConditionStep | SetStep):
            for clause in self.context.meaning.clauses_of.get(number, ()):
                if clause.tree is not None:
                    for read in reads(clause.tree):
                        yield self._read(number, read, clause.path)
        elif isinstance(step, EndStep):
            yield from self._embedded(number, None, step.output, (*path, "output"))
        elif isinstance(step, ParallelStep):
            for sub, part in enumerate(step.parallel_steps):
                yield from self._call_readings(number, sub, part, (*path, "parallel_steps", sub))

    def _read(self, number: int, read: Read, path: Path) -> Reading:
        node = read.reference
        return Reading(
            number, None, Place(path, within=(node.start, node.end)), node, self.names.meaning(node.names), read.known
        )

    def _call_readings(self, number: int, sub: int | None, call: LlmCall | ToolCall, path: Path) -> Iterator[Reading]:
        if isinstance(call, LlmCall):
            yield from self._embedded(number, sub, call.prompt, (*path, "prompt"))
            yield from self._embedded(number, sub, call.system, (*path, "system"))
        elif call.args:
            yield from self._embedded(number, sub, call.args, (*path, "args"))

    def _embedded(self, number: int, sub: int | None, value: object, path: Path) -> Iterator[Reading]:
        seen: set[tuple[Path, Names]] = set()
        for found in embedded(value, path):
            node = found.reference
            if (found.path, node.names) in seen:
                continue  # what is wrong with a name is said once for each text that holds it
            seen.add((found.path, node.names))
            place = Place(found.path, within=(node.start, node.end))
            yield Reading(number, sub, place, node, self.names.meaning(node.names))

    # -- keys: what is followed through the program ----------------------------------------------------------------

    def keys(self, reading: Reading) -> list[Names]:
        """Return what must be defined for a reading: its variable, and every field on the way that may be absent."""
        assert reading.meant is not None
        names = reading.reference.names
        depth = len(names) - len(reading.meant.fields)
        keys = [] if self._is_input(reading.meant) else [names[:depth]]
        for end in range(depth + 1, len(names) + 1):
            meant = Meant(reading.meant.sources, names[depth:end])
            if self.typing.view(meant).optional:
                keys.append(names[:end])
        return keys

    @staticmethod
    def _is_input(meant: Meant) -> bool:
        return any(source.kind == "input" for source in meant.sources)

    @cached_property
    def doubtful(self) -> tuple[Doubt, ...]:
        """The readings of names that may be undefined: on some path of edges nothing has defined them."""
        asked: dict[Names, list[int]] = {}
        open_readings: list[Reading] = []
        for reading in self.readings:
            if reading.meant is None or not self.flow.reachable[reading.step] or self._never_exists(reading):
                continue
            for key in self.keys(reading):
                if not reading.known.knows_defined(key) and not self._settled(key, reading):
                    asked.setdefault(key, []).append(len(open_readings))
            open_readings.append(reading)
        found: dict[int, Names] = {}
        for number, key in self._undefined_readings(asked, open_readings):
            found[number] = min(key, found.get(number, key), key=len)
        return tuple(Doubt(open_readings[number], found[number]) for number in sorted(found))

    @cached_property
    def doubtful_steps(self) -> frozenset[int]:
        """The steps that may fail before they start, because something that they read may be undefined."""
        never = {reading.step for reading in self.readings if reading.meant is None or self._never_exists(reading)}
        return frozenset(never | {doubt.reading.step for doubt in self.doubtful})

    def _never_exists(self, reading: Reading) -> bool:
        assert reading.meant is not None
        return bool(reading.meant.fields) and self.typing.view(reading.meant).never

    def _settled(self, key: Names, reading: Reading) -> bool:
        """Return whether the one assignment of a name stands on every path to the reading."""
        assert reading.meant is not None
        sources = reading.meant.sources
        if len(sources) != 1 or len(key) != len(reading.reference.names) - len(reading.meant.fields):
            return False
        source = sources[0]
        if source.step is None or source.kind == "error" or source.step == reading.step:
            return False
        if source.sub is not None:
            step = self.flow.steps[source.step]
            assert isinstance(step, ParallelStep)
            if step.parallel_steps[source.sub].on_error == "skip":
                return False
        return self._success_dominates(source.step, reading.step)

    def _success_dominates(self, number: int, below: int) -> bool:
        if number not in self._gates:
            self._gates[number] = self._gate(number)
        gate = self._gates[number]
        if gate is None or (gate == number and number == below):
            return False
        return self.context.graph.dominators.dominates(gate, below)

    def _gate(self, number: int) -> int | None:
        """Return the step behind which a step has certainly succeeded: itself, if it does not go on otherwise."""
        ways = [way for way in self.flow.transitions[number] if way.to >= 0]
        good = {way.to for way in ways if way.kind in ("success", "fallback")}
        if not good or len(good) > 1:
            return None
        if all(way.kind in ("success", "fallback") for way in ways):
            return number
        (target,) = good
        is_only_way = target not in {way.to for way in ways if way.kind not in ("success", "fallback")}
        return target if is_only_way and self.flow.predecessors[target] == [number] and target != 0 else None

    # -- the data flow ---------------------------------------------------------------------------------------------

    def _undefined_readings(
        self, asked: dict[Names, list[int]], readings: list[Reading]
    ) -> Iterator[tuple[int, Names]]:
        """Yield the numbers of the readings before which a name that they ask for may be undefined, and the name."""
        keys = list(asked)
        for start in range(0, len(keys), NAMES_AT_ONCE):
            batch = keys[start : start + NAMES_AT_ONCE]
            states = self._pass(batch)
            for bit, key in enumerate(batch):
                for number in asked[key]:
                    defined = states[readings[number].step]
                    if defined is not None and not defined >> bit & 1:
                        yield number, key

    def _pass(self, keys: list[Names]) -> list[int | None]:
        """Return, for each step, the set of keys defined on every path to it; None where no path leads."""
        bits = {key: 1 << number for number, key in enumerate(keys)}
        below: dict[Names, int] = {}
        for key, bit in bits.items():
            for end in range(1, len(key) + 1):
                below[key[:end]] = below.get(key[:end], 0) | bit
        effects = [
            [(way.to, *self._masks(self.effect(number, way), bits, below)) for way in ways if way.to >= 0]
            for number, ways in enumerate(self.flow.transitions)
        ]
        state: list[int | None] = [None] * len(effects)
        state[0] = 0
        pending, queued = [0], bytearray(len(effects))
        while pending:
            number = pending.pop()
            queued[number] = 0
            before = state[number]
            assert before is not None
            for target, given, kept in effects[number]:
                arriving, there = before & kept | given, state[target]
                met = arriving if there is None else there & arriving
                if met != there:
                    state[target] = met
                    if not queued[target]:
                        queued[target] = 1
                        pending.append(target)
        return state

    @staticmethod
    def _masks(effect: Effect, bits: dict[Names, int], below: dict[Names, int]) -> tuple[int, int]:
        given = gone = 0
        for name in effect.gone:
            gone |= below.get(name, 0)
        for name in effect.given:
            given |= bits.get(name, 0)
            if len(name) > 1:
                for end in range(1, len(name)):
                    given |= bits.get(name[:end], 0)
        return given, ~gone

    def effect(self, number: int, way: Transition) -> Effect:
        """Return what one way out of a step defines and undefines."""
        step = self.flow.steps[number]
        if isinstance(step, SetStep):
            names = frozenset((name,) for name in step.set)
            return Effect(names | self._read_for_certain(number), names)
        if isinstance(step, ConditionStep):
            return Effect(self._branch_facts(number, step, way), frozenset())
        if isinstance(step, Failing):
            return self._call_effect(number, step, way)
        return Effect(frozenset(), frozenset())

    def _call_effect(self, number: int, step: Failing, way: Transition) -> Effect:
        gone = _own_names(step)
        given: set[Names] = set()
        # Outputs bind in the order of the list: a later sibling that was skipped takes away what an earlier one gave.
        for part in step.parallel_steps if isinstance(step, ParallelStep) else ():
            gone |= _own_names(part)
            if way.kind == "success" and part.on_error != "skip":
                given |= _output_names(part)
            else:
                given -= _output_names(part)
        if way.kind in ("success", "fallback"):
            given |= _output_names(step) | self._read_for_certain(number)
        else:
            given -= _output_names(step)
            given.add((step.id, "error"))
        return Effect(frozenset(given), frozenset(gone))

    def _read_for_certain(self, number: int) -> frozenset[Names]:
        """Return the names whose reading the step survived; those of sub-steps that may be skipped do not count."""
        step = self.flow.steps[number]
        if isinstance(step, SetStep):
            trees = [clause.tree for clause in self.context.meaning.clauses_of.get(number, ())]
            return frozenset().union(*(certain_reads(tree) for tree in trees if tree is not None))
        return frozenset(
            reading.reference.names
            for reading in self.readings_of.get(number, ())
            if reading.sub is None
            or (isinstance(step, ParallelStep) and step.parallel_steps[reading.sub].on_error != "skip")
        )

    @cached_property
    def readings_of(self) -> dict[int, list[Reading]]:
        """The readings of each step that has any."""
        result: dict[int, list[Reading]] = {}
        for reading in self.readings:
            result.setdefault(reading.step, []).append(reading)
        return result

    def _branch_facts(self, number: int, step: ConditionStep, way: Transition) -> frozenset[Names]:
        """Return the names that are defined when a condition took a branch: it could read them, or it asked."""
        trees = [clause.tree for clause in self.context.meaning.clauses_of.get(number, ())]
        if step.condition is not None:
            return facts(trees[0], way.branch == "then").defined if trees[0] is not None else frozenset()
        result = Facts()
        for case, tree in enumerate(trees, start=1):
            if tree is not None:
                result |= facts(tree, way.branch == case)
            if way.branch == case:
                break
        return result.defined


def _own_names(step: Failing) -> set[Names]:
    return {(step.id, "error")} | _output_names(step)


def _output_names(step: Failing) -> set[Names]:
    names: set[Names] = {(step.id, "output")}
    if step.output_key is not None:
        names.add((step.output_key,))
    return names


def assigned_names(step: AnyStep) -> set[Names]:
    """Return the names that a step assigns when it starts: outputs, errors and `set` names, sub-steps included."""
    if isinstance(step, SetStep):
        return {(name,) for name in step.set}
    if not isinstance(step, Failing):
        return set()
    names = _own_names(step)
    for part in step.parallel_steps if isinstance(step, ParallelStep) else ():
        names |= _own_names(part)
    return names


def read_roots(trees: Iterable[Expression | None], assignment: Assignment) -> set[Names]:
    """Return the names that expressions read or ask for, without their fields."""
    roots: set[Names] = set()
    for tree in trees:
        for node in walk(tree) if tree is not None else ():
            reference = node if isinstance(node, Reference) else node.reference if isinstance(node, Defined) else None
            meant = assignment.names.meaning(reference.names) if reference is not None else None
            if reference is not None and meant is not None:
                roots.add(reference.names[: len(reference.names) - len(meant.fields)])
    return roots
