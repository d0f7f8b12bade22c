"""Definite assignment: which names are certainly defined where they are read, by plain data flow.

A forward analysis over the transitions of the program: a name is certainly defined at a step when it is so on every
path of edges to it, whatever the conditions on the path say. Where one dominating assignment decides, the answer comes
from the dominator tree. The rest runs as bit sets, a bounded number of names at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from stepward.validator.analysis.bodies import own_names
from stepward.validator.analysis.changed_fields import changed_paths, lost_by_set, outside
from stepward.validator.analysis.readings import Names, PossiblyUndefined, Reading
from stepward.vm.expressions.facts import Facts, certain_reads, facts, reads
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.operators import OBJECT
from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import lone_reference, parts, texts
from stepward.vm.language.names import Resolution
from stepward.vm.language.required import required
from stepward.vm.language.steps import (
    AnyStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    ForEachStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolStep,
    WaitStep,
)
from stepward.vm.language.steps import parts as all_parts
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.facts import ProgramFacts

NAMES_AT_ONCE = 512
"""Bits of one pass of the data flow. More bits take more memory, and not more time."""


_UNASKED: Final = -1
_NULL_OR_OBJECT: Final = frozenset({"null", "object"})
_NOTHING_KNOWN: Final = Facts()


class Effect(NamedTuple):
    """The effect of a transition on names: `undefined` are undefined after it, `defined` are certainly defined."""

    defined: frozenset[Names]
    undefined: frozenset[Names]


_NO_EFFECT: Final = Effect(frozenset(), frozenset())


class Assignment:
    """The references that steps read, and whether each is certainly defined at that point."""

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts
        self.names = facts.meaning.names
        self.typing = facts.meaning.typing
        self.flow = facts.flow
        self._gates: dict[int, int | None] = {}

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every reference that a step reads, in the order of the list."""
        return tuple(reading for number in range(len(self.flow.steps)) for reading in self.readings_at(number))

    def readings_at(self, number: int) -> Iterator[Reading]:
        """Yield the references that one step reads, without looking at any other."""
        meaning = self.names.meaning
        for clause in self.facts.meaning.clauses_of.get(number, ()):
            for node, known in reads(clause.tree) if clause.tree is not None else ():
                yield Reading(number, None, clause.path, node, meaning(node.names), known, clause)
        for sub, path, value in self.flow.steps[number].templates:
            for text_path, text in texts(value, (*self.flow.layout.path(number), *path)):
                # A problem of a name is reported once for each text that contains the name.
                for node in _first_of_each(parts(text)):
                    yield Reading(number, sub, text_path, node, meaning(node.names), _NOTHING_KNOWN)

    # -- keys: the names that the data flow tracks -------------------------------------------------------------------

    def keys(self, reading: Reading) -> list[Names]:
        """Return the names that must be defined for a reading: its variable, and every field in its path that may be
        absent."""
        assert reading.resolution is not None
        names = reading.reference.names
        if not reading.resolution.fields:
            return [] if self._is_always_there(reading.resolution) else [names]
        depth = len(names) - len(reading.resolution.fields)
        keys = [] if self._is_always_there(reading.resolution) else [names[:depth]]
        for end in range(depth + 1, len(names) + 1):
            resolution = Resolution(reading.resolution.sources, names[depth:end])
            if self.typing.view(resolution).may_lack or self.facts.body_outputs.may_lack(resolution):
                keys.append(names[:end])
        return keys

    def _is_reported(self, key: Names, reading: Reading) -> bool:
        """Return whether a name that may be undefined is to be reported.

        It is not if the type of the object that has the field is unknown. Nor where the field comes with its owner, by
        the types of both: what is to be reported then is the owner.
        """
        assert reading.resolution is not None
        depth = len(key) - len(reading.reference.names) + len(reading.resolution.fields)
        if depth == 0:
            return True
        resolution = reading.resolution._replace(fields=reading.resolution.fields[:depth])
        if not (self.typing.view(resolution).optional or self.facts.body_outputs.may_lack(resolution)):
            return False
        owner = self.typing.view(resolution._replace(fields=resolution.fields[:-1]))
        return owner.kinds != OBJECT or key[-1] not in self.required(key[:-1])

    @staticmethod
    def _is_always_there(resolution: Resolution) -> bool:
        """Return whether a variable is an input that no call writes to: a call that fails would undefine it."""
        first, *others = resolution.sources  # of the sources of a name an input is the first
        return first.kind == "input" and all(source.kind == "set" for source in others)

    def _is_input(self, name: str) -> bool:
        return any(source.kind == "input" for source in self.names.variables.get(name, ()))

    @cached_property
    def doubtful(self) -> tuple[PossiblyUndefined, ...]:
        """The readings of names that may be undefined, because some path of edges does not define them."""
        pending: dict[Names, list[int]] = {}
        open_readings: list[Reading] = []
        undefined: dict[int, list[Names]] = {}
        reachable = self.facts.graph.reachable
        for reading in self.readings:
            resolution = reading.resolution
            if resolution is None or reading.step not in reachable or self._never_exists(reading):
                continue
            earlier = self.earlier(reading.step, reading.sub)
            for key in self.keys(reading):
                root = key[: len(reading.reference.names) - len(resolution.fields)]
                if root in earlier.defined or root in earlier.undefined:
                    # What the step begins with does not count: siblings that come before have assigned it.
                    if key not in earlier.defined:
                        undefined.setdefault(len(open_readings), []).append(key)
                elif not self._settled(key, reading) and not self._is_known(key, reading):
                    pending.setdefault(key, []).append(len(open_readings))
            open_readings.append(reading)
        for number, key in self._undefined_readings(pending, open_readings):
            undefined.setdefault(number, []).append(key)
        return tuple(self._doubt(open_readings[number], undefined[number]) for number in sorted(undefined))

    def _doubt(self, reading: Reading, keys: list[Names]) -> PossiblyUndefined:
        """Return a doubt for the first of the names that are to be reported, if one of them is."""
        reported = [key for key in keys if self._is_reported(key, reading)]
        return PossiblyUndefined(reading, min(reported or keys, key=len), bool(reported))

    def earlier(self, step: int, sub: int | None) -> Effect:
        """Return the names that siblings define and undefine before a sub-step with `depends_on` starts."""
        order = self.facts.meaning.orders.get(step)
        if order is None or sub is None or not order.before[sub]:
            return _NO_EFFECT
        parts = [self.flow.steps[step].sub_steps[one] for one in order.before[sub]]
        undefined = frozenset((part.id, what) for part in parts for what in ("error", "error_name"))
        return Effect(frozenset().union(*map(output_names, parts)), undefined)

    def _is_known(self, key: Names, reading: Reading) -> bool:
        """Return whether the facts where a key is read say that it is defined: an object has its required fields."""
        known = reading.known
        if self._may_be_text(key):
            return False
        return known.knows_defined(key) or (key[:-1] in known.not_null and key[-1] in self.required(key[:-1]))

    def _may_be_text(self, key: Names) -> bool:
        """Return whether a key is an item of what may be a text: its length says nothing about items."""
        resolution = self.names.meaning(key[:-1]) if index_of(key[-1]) is not None else None
        return resolution is not None and "string" in self.typing.view(resolution).kinds

    def required(self, names: Names) -> frozenset[str]:
        """Return the fields that a reference always has when it is an object; none if it may be anything but an object
        or null."""
        resolution = self.names.meaning(names)
        if resolution is None or not self.typing.view(resolution).kinds <= _NULL_OR_OBJECT:
            return frozenset()
        first, *others = (required(self.typing, (source, resolution.fields)) for source in resolution.sources)
        may_lack = self.facts.body_outputs.may_lack
        common = first.intersection(*others)
        return frozenset(
            name for name in common if not may_lack(resolution._replace(fields=(*resolution.fields, name)))
        )

    @cached_property
    def doubtful_steps(self) -> frozenset[int]:
        """The steps that may fail before they start, because something that they read may be undefined."""
        never = {reading.step for reading in self.never_defined}
        return frozenset(never.union(doubt.reading.step for doubt in self.doubtful))

    @cached_property
    def never_defined(self) -> tuple[Reading, ...]:
        """The readings of names that nothing ever defines."""
        return tuple(reading for reading in self.readings if reading.resolution is None or self._never_exists(reading))

    def _never_exists(self, reading: Reading) -> bool:
        assert reading.resolution is not None
        return bool(reading.resolution.fields) and self.typing.view(reading.resolution).never

    def _settled(self, key: Names, reading: Reading) -> bool:
        """Return whether the only assignment of a name lies on every path to the reading."""
        assert reading.resolution is not None
        sources = reading.resolution.sources
        if len(sources) != 1 or len(key) != len(reading.reference.names) - len(reading.resolution.fields):
            return False
        source = sources[0]
        if source.step is None or source.kind in ("error", "error_name") or source.step == reading.step:
            return False
        if source.step in self.flow.layout.bodies:  # its success is that of its last item; to start it gives nothing
            return False
        if source.step in self.flow.layout.forked:
            return False
        if source.sub is not None and self.flow.steps[source.step].sub_steps[source.sub].on_error == "skip":
            return False
        return self._success_dominates(source.step, reading.step)

    def _success_dominates(self, number: int, below: int) -> bool:
        gate = self._gates.get(number, _UNASKED)
        if gate is _UNASKED:
            gate = self._gates[number] = self._gate(number)
        if gate is None or (gate == number and number == below):
            return False
        return self.facts.graph.dominators.dominates(gate, below)

    def _gate(self, number: int) -> int | None:
        """Return the step that can only be reached after a step succeeded; the step itself if all its transitions are
        successes."""
        transitions = self.flow.transitions[number]
        good: set[int] = set()
        otherwise: set[int] = set()
        for transition in transitions:
            if transition.to >= 0:
                (good if transition.kind in ("success", "fallback") else otherwise).add(transition.to)
        if len(good) != 1:
            return None
        if not otherwise:
            return number
        (target,) = good
        is_only_target = target not in otherwise
        return target if is_only_target and self.flow.predecessors[target] == [number] and target != 0 else None

    # -- the data flow ---------------------------------------------------------------------------------------------

    def _undefined_readings(
        self, pending: dict[Names, list[int]], readings: list[Reading]
    ) -> Iterator[tuple[int, Names]]:
        """Yield the numbers of the readings before which a required name may be undefined, each with that name."""
        keys, effect = list(pending), cache(self.effect)
        for start in range(0, len(keys), NAMES_AT_ONCE):
            batch = keys[start : start + NAMES_AT_ONCE]
            inputs = [key for key in batch if len(key) == 1 and self._is_input(key[0])]
            states = self.states(batch, effect, inputs)
            for bit, key in enumerate(batch):
                for number in pending[key]:
                    defined = states[readings[number].step]
                    if defined is not None and not defined >> bit & 1:
                        yield number, key

    def states(
        self, keys: list[Names], effect: Callable[[int, Transition], Effect], at_first: Iterable[Names] = ()
    ) -> list[int | None]:
        """Return, for each step, the set of keys that are given on every path to it; None for steps that no path
        reaches.

        `at_first` are the keys that are given before the first step.
        """
        bits = {key: 1 << number for number, key in enumerate(keys)}
        below: dict[Names, int] = {}
        for key, bit in bits.items():
            for end in range(1, len(key) + 1):
                below[key[:end]] = below.get(key[:end], 0) | bit
        effects = [
            [
                (transition.to, *self._masks(effect(number, transition), bits, below))
                for transition in transitions
                if transition.to >= 0
            ]
            for number, transitions in enumerate(self.flow.transitions)
        ]
        state: list[int | None] = [None] * len(effects)
        state[0] = sum(bits[key] for key in at_first)
        pending, queued = [0], bytearray(len(effects))
        while pending:
            number = pending.pop()
            queued[number] = 0
            before = state[number]
            assert before is not None
            for target, defined, unaffected in effects[number]:
                arriving, known = before & unaffected | defined, state[target]
                merged = arriving if known is None else known & arriving
                if merged != known:
                    state[target] = merged
                    if not queued[target]:
                        queued[target] = 1
                        pending.append(target)
        return state

    @staticmethod
    def _masks(effect: Effect, bits: dict[Names, int], below: dict[Names, int]) -> tuple[int, int]:
        defined = undefined = 0
        for name in effect.undefined:
            undefined |= below.get(name, 0)
        for name in effect.defined:
            defined |= bits.get(name, 0)
            if len(name) > 1:
                for end in range(1, len(name)):
                    defined |= bits.get(name[:end], 0)
        return defined, ~undefined

    def effect(self, number: int, transition: Transition) -> Effect:
        """Return the names that one transition of a step defines and undefines."""
        effect = self._own_effect(number, transition)
        ending = transition.ending
        owner = self.facts.bodies.reverts(number, ending.status if ending is not None else None)
        if owner is None:
            return effect
        cleared = self.facts.bodies.may_lose(owner)  # the values from before the item may be none
        return Effect(effect.defined - cleared, effect.undefined | cleared)

    def _own_effect(self, number: int, transition: Transition) -> Effect:
        step = self.flow.steps[number]
        match step:
            case SetStep():
                names = frozenset((name,) for name in step.assigns)
                cleared = lost_by_set(self.facts.meaning, number)
                still_defined = outside(self._read_for_certain(number), cleared)
                return Effect(names.union(changed_paths(self.facts.meaning, number), still_defined), cleared)
            case ConditionStep():
                known = self.branch_facts(number, step, transition)
                fields = ((*names, name) for names in known.not_null for name in self.required(names))
                defined = frozenset(one for one in known.defined if not self._may_be_text(one))
                return Effect(defined.union(fields), frozenset())
            case ParallelStep() if step.branches:
                errors = {(step.id, "error"), (step.id, "error_name")} if transition.kind == "visits" else set()
                return Effect(frozenset(errors), frozenset(_own_names(step)))
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                return self._call_effect(number, step, transition)
            case WaitStep() | EndStep():
                return Effect(frozenset(), frozenset())
            case ForEachStep():
                return self._started(number, step, transition)
            case Stage():
                return self._between(number, transition)
            case _:
                assert_never(step)

    def _started(self, number: int, step: ForEachStep, transition: Transition) -> Effect:
        """Return the effect of the start of a for_each step: its carried variables get their first values."""
        carried = {(name,) for name in step.carry}
        undefined = frozenset(own_names(step) | carried)
        if transition.kind != "success":
            return Effect(frozenset({(step.id, "error"), (step.id, "error_name")}), undefined)
        return Effect(outside(self._read_for_certain(number), undefined) | carried, undefined)

    def _between(self, number: int, transition: Transition) -> Effect:
        """Return the effect of a stage: the body leaves nothing, and an item or the whole step begins or ends."""
        bodies = self.facts.bodies
        whole = bodies.joined(number)
        if whole is not None:
            names: set[Names] = {(whole.id, "error"), (whole.id, "error_name")}
            names = output_names(whole) if transition.kind == "success" else names
            defined = {(one, "output") for one in self._with_output(number)} if transition.kind == "success" else set()
            return Effect(frozenset(names | defined), frozenset(_own_names(whole)))
        body, step = bodies.of_stages[number], bodies.step_of(number)
        undefined = set(bodies.locals(body.owner))
        carried = {(name,) for name in step.carry}
        if transition.kind == "item":
            return Effect(bodies.item_names(step), frozenset(undefined))
        if transition.kind == "again":
            return Effect(frozenset(carried), frozenset(undefined | carried))
        undefined |= own_names(step)
        if step.is_once and transition.kind == "success":
            outputs = output_names(step) if self.flow.gives(body.owner) == "always" else set()
            return Effect(frozenset(outputs), frozenset(undefined))
        if transition.kind == "success":
            return Effect(frozenset(output_names(step) | {(step.id, "errors")}), frozenset(undefined))
        defined = {(step.id, what) for what in ("error", "error_name", "errors")}
        return Effect(frozenset(defined), frozenset(undefined | carried))

    def _with_output(self, join: int) -> Iterable[str]:
        """Return the branches that certainly have an output where all of them have succeeded."""
        fork = self.flow.layout.fork_of(join)
        assert fork is not None
        return [self.flow.steps[one].id for one in fork.branches if self.flow.gives(one) == "always"]

    def _call_effect(
        self, number: int, step: LlmStep | ToolStep | ParallelStep | ComputeStep, transition: Transition
    ) -> Effect:
        undefined = _own_names(step)
        # What was read is defined, unless the step itself undefines it.
        defined = set(self._read_for_certain(number)) if transition.kind in ("success", "fallback") else set()
        own_names = undefined.union(*map(_own_names, step.sub_steps))
        defined = set(outside(defined, own_names))
        # Outputs bind in list order: a later sibling that was skipped undefines what an earlier one defined.
        for part in step.sub_steps:
            undefined |= _own_names(part)
            if transition.kind == "success" and part.on_error != "skip":
                defined |= output_names(part)
            else:
                defined -= output_names(part)
        if transition.kind in ("success", "fallback"):
            defined |= output_names(step)
        else:
            defined -= output_names(step)
            defined |= {(step.id, "error"), (step.id, "error_name")}
        return Effect(frozenset(defined), frozenset(undefined))

    def _read_for_certain(self, number: int) -> frozenset[Names]:
        """Return the names that must have been defined for the step to succeed, except those that only skippable
        sub-steps read."""
        step = self.flow.steps[number]
        if isinstance(step, SetStep | ForEachStep):
            trees = [clause.tree for clause in self.facts.meaning.clauses_of.get(number, ())]
            certain = frozenset[Names]().union(*(certain_reads(tree) for tree in trees if tree is not None))
            items = [names for _, _, value in step.templates if (names := lone_reference(value)) is not None]
            return certain.union(items)
        return frozenset(
            reading.reference.names
            for reading in self.readings_of.get(number, ())
            if reading.sub is None or step.sub_steps[reading.sub].on_error != "skip"
        )

    @cached_property
    def readings_of(self) -> dict[int, list[Reading]]:
        """The readings of each step that has some."""
        result: dict[int, list[Reading]] = {}
        for reading in self.readings:
            result.setdefault(reading.step, []).append(reading)
        return result

    def branch_facts(self, number: int, step: ConditionStep, transition: Transition) -> Facts:
        """Return the facts that hold after a condition took a branch: its references could be read, or were tested."""
        if transition.kind != "branch":
            return _NOTHING_KNOWN
        trees = [clause.tree for clause in self.facts.meaning.clauses_of.get(number, ())]
        if step.condition is not None:
            return facts(trees[0], transition.branch == "then") if trees[0] is not None else _NOTHING_KNOWN
        result = Facts()
        for case, tree in enumerate(trees, start=1):
            if tree is not None:
                result |= facts(tree, transition.branch == case)
            if transition.branch == case:
                break
        return result


def _first_of_each(pieces: Iterable[str | Reference]) -> Iterable[Reference]:
    """Return the references among the parts of a text, each name once."""
    first: dict[Names, Reference] = {}
    for piece in pieces:
        if isinstance(piece, Reference):
            first.setdefault(piece.names, piece)
    return first.values()


def _own_names(step: Failing) -> set[Names]:
    return {(step.id, "error"), (step.id, "error_name")} | output_names(step)


def output_names(step: Failing) -> set[Names]:
    """Return the names that refer to the output of a step or sub-step."""
    names: set[Names] = {(step.id, "output")}
    if step.output_key is not None:
        names.add((step.output_key,))
    return names


def assigned_names(step: AnyStep) -> set[Names]:
    """Return the names that a step assigns when it starts: outputs, errors and `set` names, sub-steps included."""
    names: set[Names] = {(name,) for name in step.assigns}
    if isinstance(step, Stage):
        return names
    for _, part in all_parts(step):
        if isinstance(part, Failing):
            names |= _own_names(part)
    return names
