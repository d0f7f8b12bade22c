"""Finite classes: every reference cut into the classes that its conditions tell apart, and states as bits of integers.

A number is cut at the constants that it is compared with, a text by the literals that are looked for in it; members of
an `enum` are classes of their own. Conditions are then Boolean algebra on masks, exact and without a solver.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple

from stepward.validator.engine.domains import Domain, Domains, Names, Range
from stepward.validator.engine.numbers import between, simplicity
from stepward.validator.engine.states import State, references_of, with_owners
from stepward.validator.engine.texts import Atom, Question, classes, parts_of
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import compare, evaluate
from stepward.vm.expressions.syntax import (
    Compare,
    Constant,
    Defined,
    Expression,
    Length,
    Logic,
    Negation,
    Reference,
)
from stepward.vm.values import FrozenMap, Number

MAX_STATES: Final = 1 << 16
"""Combinations of classes that a step may have here; a step with more is for the solver."""

MAX_CLASSES: Final = 1 << 12
"""Classes of one reference."""

MAX_LENGTH: Final = 10_000
"""Code points of a text that stands for a length."""

MAX_PARTS: Final = 64
"""Parts of a literal that a text is held against, where a literal is asked whether it contains the text."""

UNDEFINED: Final = object()

_ASKED: Final[dict[str, Question]] = {
    "contains": "contains",
    "not contains": "contains",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
}


class TooMany(Exception):  # noqa: N818 - no error: the next layer is asked
    """The conditions can't be cut into few finite classes."""


class Outcome(NamedTuple):
    """The states in which a condition holds, and those in which it fails; in all others it is false."""

    holds: int
    fails: int


@dataclass
class _Cuts:
    """What conditions ask of one reference."""

    numbers: set[Number] = field(default_factory=set)
    atoms: dict[Atom, None] = field(default_factory=dict)
    lengths: set[Number] = field(default_factory=set)
    members: bool = False
    whole: bool = False

    @property
    def asks_length(self) -> bool:
        return bool(self.lengths)


class Slot:
    """One reference: its classes, each with a value that stands for it, and its place among the bits of a state."""

    def __init__(self, names: Names, values: list[Any], numbers: tuple[int, list[Number]]) -> None:
        self.names = names
        self.values = values
        self.first_number, self.numbers = numbers
        self.stride = 1
        self.repeats: int | None = None
        self.index = {value: number for number, value in enumerate(values) if isinstance(value, str)}
        self.asked: dict[Any, Outcome] = {}

    def number_range(self, operator: str, bound: Number) -> tuple[int, int]:
        """Return the run of classes whose numbers compare so with `bound`, at which they are cut."""
        start, numbers = self.first_number, self.numbers
        low, high = bisect_left(numbers, bound), bisect_right(numbers, bound)
        ends = {
            "<": (0, low),
            "<=": (0, high),
            ">": (high, len(numbers)),
            ">=": (low, len(numbers)),
            "==": (low, high),
        }[operator]
        return start + ends[0], start + ends[1]


class Space:
    """All states of some conditions' references, as classes. Raises TooMany where there are too many of them."""

    def __init__(self, trees: Iterable[Expression], domains: Domains) -> None:
        trees = tuple(trees)
        self.domains = domains
        self.names = with_owners(references_of(trees), domains)
        self._cuts = {name: _Cuts() for name in self.names}
        for tree in trees:
            self._collect(tree)
        self.slots: dict[Names, Slot] = {}
        size = 1
        for name in self.names:
            slot = self.slots[name] = self._slot(name)
            slot.stride = size
            size *= len(slot.values)
            if size > MAX_STATES:
                raise TooMany
        self.size = size
        self.all = (1 << size) - 1

    # -- cutting ---------------------------------------------------------------------------------------------------

    def _collect(self, tree: Expression) -> None:
        match tree:
            case Constant() | Reference() | Defined():
                pass
            case Negation(operand=operand):
                self._collect(operand)
            case Logic(operands=operands):
                for operand in operands:
                    self._collect(operand)
            case Compare(operator=operator, left=left, right=right):
                single = _single(tree)
                if single is None:
                    self._need_whole(tree)
                elif isinstance(left, Constant):
                    self._cut_by_left(operator, left.value, self._cuts[single.names], right)
                else:
                    assert isinstance(right, Constant)
                    self._cut_by_right(operator, right.value, single.names, left)
            case _:
                self._need_whole(tree)

    def _need_whole(self, tree: Expression) -> None:
        for name in references_of([tree]):
            self._cuts[name].whole = True

    def _cut_by_right(self, operator: str, value: Any, names: Names, left: Expression) -> None:
        cuts, domain = self._cuts[names], self.domains.of(names)
        if isinstance(left, Length):
            cuts.lengths.update(_numbers(value))
            cuts.lengths.add(0)
            return
        cuts.numbers.update(_numbers(value))
        if operator in ("contains", "not contains") and domain.array:
            cuts.members = True
        for text in _texts(value):
            if operator in ("contains", "not contains"):
                cuts.atoms[Atom("contains", text)] = None
            elif operator == "starts_with":
                cuts.atoms[Atom("starts_with", text)] = None
            elif operator == "ends_with":
                cuts.atoms[Atom("ends_with", text)] = None
            else:
                cuts.atoms[Atom("is", text)] = None

    def _cut_by_left(self, operator: str, value: Any, cuts: _Cuts, right: Expression) -> None:
        if isinstance(right, Length):
            cuts.lengths.update(_numbers(value))
            cuts.lengths.add(0)
            return
        cuts.numbers.update(_numbers(value))
        if operator in ("in", "not in"):
            cuts.members = True
        for text in _texts(value):
            parts = [text]
            if isinstance(value, str) and operator in _ASKED:
                parts = parts_of(_ASKED[operator], text)
            if len(parts) > MAX_PARTS:
                cuts.whole = True
            else:
                cuts.atoms.update(dict.fromkeys(Atom("is", part) for part in parts))

    def _slot(self, names: Names) -> Slot:
        domain, cuts, owner = self.domains.of(names), self._cuts[names], self.domains.parent(names)
        values: list[Any] = []
        if domain.undefined or (owner is not None and _may_be_none(self.domains.of(owner), self.slots[owner])):
            values.append(UNDEFINED)
        if domain.null:
            values.append(None)
        values.extend(sorted(domain.booleans))
        numbers = list(_number_classes(domain, cuts)) if domain.ranges else []
        first_number = len(values)
        values.extend(numbers)
        values.extend(_text_classes(domain, cuts))
        if domain.array:
            values.extend(_array_classes(domain, cuts))
        if domain.is_object:
            values.append(FrozenMap())
        if len(values) > MAX_CLASSES:
            raise TooMany
        return Slot(names, values, (first_number, numbers))

    @cached_property
    def possible(self) -> int:
        """The states in which every field has its owner, and every object the fields that it must have."""
        mask = self.all
        for name, slot in self.slots.items():
            owner = self.domains.parent(name)
            if owner is None:
                continue
            holder = self.slots[owner]
            is_object = self._expand(holder, _bits(isinstance(value, dict) for value in holder.values))
            is_defined = self._expand(slot, _bits(value is not UNDEFINED for value in slot.values))
            mask &= is_object | (self.all & ~is_defined)
            if not self.domains.of(name).undefined:
                mask &= is_defined | (self.all & ~is_object)
        return mask

    # -- evaluating ------------------------------------------------------------------------------------------------

    def outcome(self, tree: Expression) -> Outcome:
        """Return the states in which a condition holds and fails; exact in each."""
        match tree:
            case Constant(value=value):
                return Outcome(self.all if value is True else 0, 0 if isinstance(value, bool) else self.all)
            case Reference(names=names):
                return self._ask(self.slots[names], "boolean", _truth)
            case Defined(reference=reference):
                return self._ask(self.slots[reference.names], "defined", lambda value: value is not UNDEFINED)
            case Negation(operand=operand):
                inner = self.outcome(operand)
                return Outcome(self.all & ~inner.holds & ~inner.fails, inner.fails)
            case Logic(operator=operator, operands=operands):
                return self._logic(operands, decisive=operator == "or")
            case Compare():
                single = _single(tree)
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
            if len(slot.values) > 32 and tree.operator in ("<", "<=", ">", ">=", "==", "!="):
                quick = self._quick(slot, tree.operator, value)
                if quick is not None:
                    return quick
            question = (tree.operator, repr(value))
            return self._ask(slot, question, lambda one: compare(tree.operator, _defined(one), value))
        parts = [repr(side.value) if isinstance(side, Constant) else type(side).__name__ for side in (left, right)]
        return self._ask(slot, (tree.operator, *parts), lambda one: _evaluated(tree, {names: one}))

    def _quick(self, slot: Slot, operator: str, value: Any) -> Outcome | None:
        """Answer for a slot of many classes of one kind, without looking at each."""
        count = len(slot.values)
        if isinstance(value, str) and len(slot.index) == count and operator in ("==", "!="):
            at = slot.index.get(value)
            run = (0, 0) if at is None else (at, at + 1)
        elif isinstance(value, int | Decimal) and type(value) is not bool and len(slot.numbers) == count:
            run = slot.number_range("==" if operator == "!=" else operator, value)
        else:
            return None
        holds = self._run(slot, *run)
        return Outcome(self.all & ~holds if operator == "!=" else holds, 0)

    def _ask(self, slot: Slot, key: Any, question: Callable[[Any], bool]) -> Outcome:
        known = slot.asked.get(key)
        if known is None:
            holds = fails = 0
            for number, value in enumerate(slot.values):
                try:
                    holds |= question(value) << number
                except EvaluationError:
                    fails |= 1 << number
            known = slot.asked[key] = Outcome(self._expand(slot, holds), self._expand(slot, fails))
        return known

    def _combined(self, tree: Expression) -> Outcome:
        """Evaluate what reads several references; their classes are single values, or `_slot` had refused."""
        slots = [self.slots[name] for name in references_of([tree])]
        combinations: list[dict[Names, Any]] = [{}]
        masks = [self.all]
        for slot in slots:
            if len(combinations) * len(slot.values) > MAX_CLASSES:
                raise TooMany
            each = [self._expand(slot, 1 << number) for number in range(len(slot.values))]
            masks = [mask & one for mask in masks for one in each]
            combinations = [{**state, slot.names: value} for state in combinations for value in slot.values]
        holds = fails = 0
        for state, mask in zip(combinations, masks, strict=True):
            try:
                holds |= mask if _truth(_evaluated(tree, state)) else 0
            except EvaluationError:
                fails |= mask
        return Outcome(holds, fails)

    def _expand(self, slot: Slot, classes: int) -> int:
        """Return the states in which the reference is in one of the classes."""
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
        """Return the states in which the reference is in one of the classes from `start` to before `end`."""
        if end <= start:
            return 0
        block = ((1 << (end - start) * slot.stride) - 1) << start * slot.stride
        if slot.repeats is None:
            slot.repeats = self.all // ((1 << slot.stride * len(slot.values)) - 1)
        return block * slot.repeats

    # -- states ----------------------------------------------------------------------------------------------------

    def state(self, mask: int) -> State:
        """Return the simplest of the states of a mask that is not empty."""
        assert mask, "an empty mask has no state"
        found: dict[Names, Any] = {}
        for name, slot in self.slots.items():
            for number in sorted(range(len(slot.values)), key=lambda number: simplicity(slot.values[number])):
                narrowed = mask & self._run(slot, number, number + 1)
                if narrowed:
                    mask = narrowed
                    if slot.values[number] is not UNDEFINED:
                        found[name] = slot.values[number]
                    break
        return found


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << number for number, flag in enumerate(flags) if flag)


def _may_be_none(owner: Domain, slot: Slot) -> bool:
    """Whether an owner may be no object, so that its fields are undefined."""
    return owner.kinds != {"object"} or UNDEFINED in slot.values


def _single(tree: Compare) -> Reference | None:
    """Return the one reference of a comparison with a constant, or None where it compares something else."""
    left, right = tree.left, tree.right
    side, other = (right, left) if isinstance(left, Constant) else (left, right)
    inner = side.operand if isinstance(side, Length) else side
    return inner if isinstance(inner, Reference) and isinstance(other, Constant) else None


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _numbers(value: Any) -> Iterator[Number]:
    return (item for item in _items(value) if isinstance(item, int | Decimal) and not isinstance(item, bool))


def _texts(value: Any) -> Iterator[str]:
    return (item for item in _items(value) if isinstance(item, str))


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("a condition needs true or false")
    return value


def _defined(value: Any) -> Any:
    if value is UNDEFINED:
        raise UndefinedReferenceError("")
    return value


def _evaluated(tree: Expression, state: dict[Names, Any]) -> Any:
    return evaluate(tree, lambda names: _defined(state[names]))


def _number_classes(domain: Domain, cuts: _Cuts) -> Iterator[Number]:
    """Yield a number for each class, in ascending order: the constants, and what lies between two of them."""
    bounds = {bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None}
    if cuts.whole and not all(one.low == one.high is not None for one in domain.ranges):
        raise TooMany
    points = sorted(bounds | cuts.numbers)
    for low, high in zip([None, *points], [*points, None], strict=True):
        inside = [
            one
            for one in domain.ranges
            if (one.low is None or (low is not None and one.low <= low))
            and (one.high is None or (high is not None and one.high >= high))
        ]
        found = [between(low, high, integral=one.integral) for one in inside]
        numbers = [number for number in found if number is not None]
        if numbers:
            yield min(numbers, key=simplicity)
        elif any(not one.integral for one in inside):
            raise TooMany  # two constants that lie too close for a number of few digits between them
        if high is not None and any(one.holds(high) for one in domain.ranges):
            yield high


def _text_classes(domain: Domain, cuts: _Cuts) -> list[str]:
    if not domain.any_text:
        return list(domain.texts)
    if cuts.whole or (cuts.atoms and cuts.asks_length):
        raise TooMany
    if cuts.asks_length:
        lengths = _length_classes(cuts, domain.max_length)
        return ["x" * length for length in lengths]
    found = classes(cuts.atoms, MAX_CLASSES)
    if found is None:
        raise TooMany
    if domain.max_length is not None and max(map(len, found)) > domain.max_length:
        if any(atom.question != "is" for atom in cuts.atoms):
            raise TooMany  # a shorter text may do
        found = [text for text in found if len(text) <= domain.max_length]
    return found


def _length_classes(cuts: _Cuts, longest: int | None) -> list[int]:
    probe = Domain(ranges=(Range(0, longest, integral=True),))
    found = [int(number) for number in _number_classes(probe, _Cuts(numbers=set(cuts.lengths)))]
    if max(found) > MAX_LENGTH:
        raise TooMany
    return found


def _array_classes(domain: Domain, cuts: _Cuts) -> list[tuple[Any, ...]]:
    """Arrays are told apart by their length only; their members are for the solver."""
    if cuts.members or cuts.whole:
        raise TooMany
    if not cuts.asks_length:
        return [()]
    if domain.any_text or domain.texts:
        raise TooMany
    item = _an_item(domain.items)
    if item is UNDEFINED:
        return [()]
    return [(item,) * length for length in _length_classes(cuts, None)]


def _an_item(items: Domain | None) -> Any:
    """Return a value that an array can hold; UNDEFINED where it can hold none."""
    if items is None or items.null:
        return None
    if items.texts or items.any_text:
        return items.texts[0] if items.texts else ""
    if items.booleans:
        return min(items.booleans)
    if items.ranges:
        return next(_number_classes(items, _Cuts(numbers={0})), UNDEFINED)
    return () if items.array else FrozenMap() if items.is_object else UNDEFINED
