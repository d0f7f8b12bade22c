"""Finite classes: every reference partitioned into the classes that its conditions distinguish; states as bits of
integers.

A number is cut at the constants that it is compared with, a text by the literals in questions about it; members of an
`enum` are classes of their own. Conditions are then Boolean algebra on masks, exact and without a solver.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, Final, NamedTuple

from stepward.validator.engine.values.cuts import MAX_CLASSES, Cutting, TooMany, single_reference
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.numbers import simplicity
from stepward.validator.engine.values.partition import Partition
from stepward.validator.engine.values.states import UNDEFINED, State, holds, is_required, references_of
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.operators import OPERATORS, Comparison, compare, kind
from stepward.vm.expressions.syntax import (
    Compare,
    Constant,
    Defined,
    Expression,
    Logic,
    Negation,
    Reference,
)
from stepward.vm.values import Number

MAX_STATES: Final = 1 << 16
"""The most combinations of classes; a step with more is left to the solver."""


class Outcome(NamedTuple):
    """The states in which a condition holds, and those in which it fails; in all others it is false."""

    holds: int
    fails: int


class Slot:
    """One reference: its classes, each with a representative value, and its stride in the number of a state."""

    def __init__(self, names: Names, partition: Partition) -> None:
        self.names = names
        self.partition = partition
        self.values = values = partition.values
        numbers = [number for number, value in enumerate(values) if kind_of_class(value) == "number"]
        self.first_number: int = numbers[0] if numbers else 0
        self.numbers: list[Number] = [values[number] for number in numbers]
        self.stride = 1
        self.repeats: int | None = None
        self.index = {value: number for number, value in enumerate(values) if isinstance(value, str)}
        self.answers: dict[Any, Outcome] = {}

    def number_ranges(self, operator: Comparison, bound: Number) -> list[tuple[int, int]]:
        """Return the ranges of classes whose numbers satisfy a comparison with `bound`, which is a cut."""
        start, end = self.first_number, self.first_number + len(self.numbers)
        low, high = start + bisect_left(self.numbers, bound), start + bisect_right(self.numbers, bound)
        runs = ((start, low), (low, high), (high, end))  # of numbers below, at and above it
        return [run for number, run in enumerate(runs) if compare(operator, number, 1)]


class Space:
    """All states of some conditions' references, as classes. Raises TooMany where there are too many."""

    def __init__(
        self,
        trees: Iterable[Expression],
        domains: Domains,
        groups: Iterable[Iterable[Names]] = (),
        constants: Iterable[tuple[Names, Any]] = (),
    ) -> None:
        """Cut the references of conditions.

        The references of one group of `groups` get the same classes, in the same order, so that a class can be copied.
        `constants` are values that are assigned to references; they are cuts as well.
        """
        self.domains = domains
        self.cutting = Cutting(trees, domains, groups, constants)
        self.slots: dict[Names, Slot] = {}
        size = 1
        for name in self.cutting.names:
            slot = self.slots[name] = self._slot(name)
            slot.stride = size
            size *= len(slot.values)
            if size > MAX_STATES:
                raise TooMany
        self.size = size
        self.all = (1 << size) - 1

    def _slot(self, names: Names) -> Slot:
        owner = self.domains.parent(names)
        may_be_missing = owner is not None and not all(holds(one, names[-1]) for one in self.slots[owner].values)
        domain, cuts = self.cutting.domain[names], self.cutting.cuts[names]
        return Slot(names, Partition(domain, cuts, may_be_missing=may_be_missing))

    @cached_property
    def possible(self) -> int:
        """The states in which every field has its owner, every object its required fields, and every array its
        items."""
        mask = self.all
        for name, slot in self.slots.items():
            owner = self.domains.parent(name)
            if owner is None:
                continue
            has_it = self.where(self.slots[owner], partial(holds, name=name[-1]))
            is_defined = self.where(slot, lambda value: value is not UNDEFINED)
            mask &= has_it | (self.all & ~is_defined)
            if is_required(name, self.cutting.domain[name]):
                mask &= is_defined | (self.all & ~has_it)
        return mask

    # -- evaluating ------------------------------------------------------------------------------------------------

    def outcome(self, tree: Expression) -> Outcome:
        """Return the states in which a condition holds and fails; exact in each."""
        match tree:
            case Constant(value=value):
                return Outcome(self.all if value is True else 0, 0 if isinstance(value, bool) else self.all)
            case Reference(names=names):
                return self._ask(self.slots[names], "boolean", lambda one: _evaluated(tree, {names: one}))
            case Defined(reference=reference):
                return self._ask(self.slots[reference.names], "defined", lambda value: value is not UNDEFINED)
            case Negation(operand=operand):
                inner = self.outcome(operand)
                return Outcome(self.all & ~inner.holds & ~inner.fails, inner.fails)
            case Logic(operator=operator, operands=operands):
                return self._logic(operands, decisive=operator == "or")
            case Compare():
                single = single_reference(tree)
                return self._combined(tree) if single is None else self._single(tree, single.names)
            case _:
                return self._combined(tree)

    def _logic(self, operands: tuple[Expression, ...], *, decisive: bool) -> Outcome:
        undecided, decided, fails = self.all, 0, 0
        for operand in operands:
            part = self.outcome(operand)
            fails |= undecided & part.fails
            decided |= undecided & (part.holds if decisive else self.all & ~part.holds & ~part.fails)
            undecided &= ~(decided | fails)
        return Outcome(decided if decisive else undecided, fails)

    def _single(self, tree: Compare, names: Names) -> Outcome:
        slot = self.slots[names]
        left, right = tree.left, tree.right
        if isinstance(right, Constant) and isinstance(left, Reference):
            value = right.value
            if len(slot.values) > 32 and OPERATORS[tree.operator].asks in ("order", "is"):
                quick = self._quick(slot, tree.operator, value)
                if quick is not None:
                    return quick
            question = (tree.operator, repr(value))
            return self._ask(slot, question, lambda one: compare(tree.operator, _defined(one), value))
        return self._ask(slot, repr(tree), lambda one: _evaluated(tree, {names: one}))

    def _quick(self, slot: Slot, operator: Comparison, value: Any) -> Outcome | None:
        """Answer without a loop over the classes, for a slot with many classes of one kind and perhaps an undefined
        one."""
        missing = self._run(slot, 0, 1) if slot.values[0] is UNDEFINED else 0
        count = len(slot.values) - bool(missing)
        takes = OPERATORS[operator].takes
        if takes == "member" and isinstance(value, tuple):
            return self._listed(slot, operator, value, missing)
        if takes == "alike" and isinstance(value, str):
            return self._listed(slot, operator, (value,), missing)
        if takes != "member" and kind_of_class(value) == "number" and len(slot.numbers) == count:
            runs = slot.number_ranges(operator, value)
            return Outcome(reduce(or_, (self._run(slot, *run) for run in runs), 0), missing)
        return None

    def _listed(self, slot: Slot, operator: Comparison, items: tuple[Any, ...], missing: int) -> Outcome | None:
        """Answer whether the value is one of several, for a slot of many texts, or of many numbers."""
        count, classes = len(slot.values) - bool(missing), 0
        if len(slot.index) == count and all(isinstance(item, str) for item in items):
            classes = _bits_at(slot.index[item] for item in items if item in slot.index)
        elif len(slot.numbers) == count and all(kind_of_class(item) == "number" for item in items):
            runs = (run for item in items for run in slot.number_ranges("==", item))
            classes = _bits_at(start for start, end in runs if end > start)
        else:
            return None
        holds = self.expand(slot, classes)
        return Outcome(self.all & ~(holds | missing) if OPERATORS[operator].is_negated else holds, missing)

    def _ask(self, slot: Slot, key: Any, question: Callable[[Any], bool]) -> Outcome:
        known = slot.answers.get(key)
        if known is None:
            holds = fails = 0
            for number, value in enumerate(slot.values):
                try:
                    holds |= question(value) << number
                except EvaluationError:
                    fails |= 1 << number
            known = slot.answers[key] = Outcome(self.expand(slot, holds), self.expand(slot, fails))
        return known

    def _combined(self, tree: Expression) -> Outcome:
        """Evaluate an expression with several references; their classes are single values, or `_slot` would have
        refused."""
        slots = [self.slots[name] for name in references_of([tree])]
        combinations: list[dict[Names, Any]] = [{}]
        masks = [self.all]
        for slot in slots:
            if len(combinations) * len(slot.values) > MAX_CLASSES:
                raise TooMany
            each = [self.expand(slot, 1 << number) for number in range(len(slot.values))]
            masks = [mask & one for mask in masks for one in each]
            combinations = [{**state, slot.names: value} for state in combinations for value in slot.values]
        holds = fails = 0
        for state, mask in zip(combinations, masks, strict=True):
            try:
                holds |= mask if _evaluated(tree, state) else 0
            except EvaluationError:
                fails |= mask
        return Outcome(holds, fails)

    def where(self, slot: Slot, holds: Callable[[Any], bool]) -> int:
        """Return the states in which something holds for the value that represents the class of a reference."""
        return self.expand(slot, sum(1 << number for number, value in enumerate(slot.values) if holds(value)))

    def expand(self, slot: Slot, classes: int) -> int:
        """Return the states in which the reference has one of the classes."""
        mask, start = 0, 0
        while classes >> start:
            rest = classes >> start
            start += (rest & -rest).bit_length() - 1
            rest = classes >> start
            end = start + (~rest & (rest + 1)).bit_length() - 1
            mask |= self._run(slot, start, end)
            start = end
        return mask

    def _run(self, slot: Slot, start: int, end: int) -> int:
        """Return the states in which the reference has one of the classes from `start` to before `end`."""
        if end <= start:
            return 0
        block = ((1 << (end - start) * slot.stride) - 1) << start * slot.stride
        if slot.repeats is None:
            slot.repeats = self.all // ((1 << slot.stride * len(slot.values)) - 1)
        return block * slot.repeats

    def smear(self, slot: Slot, mask: int) -> int:
        """Return the states that differ from one of the mask in this reference only."""
        stride, folded = slot.stride, 0
        for number in range(len(slot.values)):
            folded |= (mask & self._run(slot, number, number + 1)) >> number * stride
        return folded * sum(1 << number * stride for number in range(len(slot.values)))

    # -- states ----------------------------------------------------------------------------------------------------

    def only(self, state: State) -> int:
        """Return the set of the one state with these representative values."""
        mask = self.all
        for name, slot in self.slots.items():
            required = state.get(name, UNDEFINED)
            number = next(
                number
                for number, value in enumerate(slot.values)
                if value is required or (type(value) is type(required) and value == required)
            )
            mask &= self._run(slot, number, number + 1)
        return mask

    def state(self, mask: int) -> State:
        """Return the simplest of the states of a mask that is not empty."""
        assert mask, "an empty mask has no state"
        values: dict[Names, Any] = {}
        for name, slot in self.slots.items():
            for number in sorted(range(len(slot.values)), key=lambda number: simplicity(slot.values[number])):
                narrowed = mask & self._run(slot, number, number + 1)
                if narrowed:
                    mask = narrowed
                    if slot.values[number] is not UNDEFINED:
                        values[name] = slot.values[number]
                    break
        return values


def kind_of_class(value: Any) -> str:
    """Return the kind of the representative of a class, or `undefined`."""
    return "undefined" if value is UNDEFINED else kind(value)


def _bits_at(numbers: Iterable[int]) -> int:
    return reduce(or_, (1 << number for number in numbers), 0)


def _defined(value: Any) -> Any:
    if value is UNDEFINED:
        raise UndefinedReferenceError("")
    return value


def _evaluated(tree: Expression, state: dict[Names, Any]) -> bool:
    return evaluate_condition(tree, lambda names: _defined(state[names]))
