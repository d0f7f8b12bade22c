"""Cuts: the questions of conditions about each reference, and the classes of values that they can't distinguish.

A number is cut at the constants that it is compared with, a text by the literals in questions about it; members of an
`enum` are classes of their own. Each class has one representative: the simplest value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from math import ceil, floor
from typing import Any, Final

from stepward.validator.engine.values.changed_texts import changed, found_in, question_of
from stepward.validator.engine.values.domains import Domain, Domains, Names, Range
from stepward.validator.engine.values.languages import cut_by_automata
from stepward.validator.engine.values.numbers import between, simplicity
from stepward.validator.engine.values.shortest_texts import shortest
from stepward.validator.engine.values.states import UNDEFINED, references_of, with_owners
from stepward.validator.engine.values.texts import Atom, classes, parts_of
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.operators import FUNCTIONS, OPERATORS, Operator
from stepward.vm.expressions.syntax import (
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Negation,
    Reference,
    children,
    walk,
)
from stepward.vm.values import FrozenMap, Number

MAX_CLASSES: Final = 1 << 12
"""The most classes of one reference to any text or array."""

MAX_MEMBERS: Final = 1 << 15
"""The most classes of one reference whose values are numbers or the members of an `enum`."""

MAX_LENGTH: Final = 10_000
"""The most code points of a text that represents a length."""

MAX_PATTERNS: Final = 8
"""The most patterns that one text is asked for in classes."""

FEW_PATTERNS: Final = 3
"""The most patterns that may give any number of classes."""

MAX_OF_MANY: Final = 16
"""The most classes by more patterns than that: those of a choice, few of which match one text. Both checkers would take
long with others."""

MAX_PARTS: Final = 64
"""The most parts of a literal in a question whether the literal contains a text."""

MAX_POINTS: Final = 64
"""The most whole numbers that are each a class, where a number is compared with another reference."""


class TooMany(Exception):  # noqa: N818 - no error: the next layer is asked
    """The conditions can't be cut into few finite classes."""


@dataclass
class Cuts:
    """The questions of conditions about one reference."""

    numbers: set[Number] = field(default_factory=set)
    atoms: dict[Atom, None] = field(default_factory=dict)
    lengths: set[Number] = field(default_factory=set)
    members: bool = False
    whole: bool = False

    def keep_few_patterns(self) -> None:
        """Leave questions by patterns to the solver where they are too many."""
        patterns = [atom for atom in self.atoms if atom.question == "matches"]
        if len(patterns) > MAX_PATTERNS:
            self.whole = True
            for atom in patterns:
                del self.atoms[atom]

    @property
    def most(self) -> int:
        """The most classes of texts that patterns may give."""
        patterns = sum(atom.question == "matches" for atom in self.atoms)
        return MAX_CLASSES if patterns <= FEW_PATTERNS else MAX_OF_MANY

    @property
    def asks_length(self) -> bool:
        """Whether a condition asks for its length."""
        return bool(self.lengths)


class Cutting:
    """The references of some conditions, with their cuts and their domains.

    The references of one of `groups` share their cuts, so that a class of one is a class of the other; `constants` are
    values that are assigned to references, and are cuts as well.
    """

    def __init__(
        self,
        trees: Iterable[Expression],
        domains: Domains,
        groups: Iterable[Iterable[Names]] = (),
        constants: Iterable[tuple[Names, Any]] = (),
    ) -> None:
        trees, groups = tuple(trees), [tuple(group) for group in groups]
        names = dict.fromkeys((*references_of(trees), *(name for group in groups for name in group)))
        self.names = with_owners(names, domains)
        self.cuts = {name: Cuts() for name in self.names}
        self.domain = {name: domains.of(name) for name in self.names}
        for group in groups:
            cuts, values = Cuts(), reduce(Domain.__or__, (domains.of(name) for name in group))
            if any(domains.parent(name) is not None for name in group):
                values = replace(values, undefined=True)
            self.cuts.update(dict.fromkeys(group, cuts))
            self.domain.update(dict.fromkeys(group, values))
        for tree in trees:
            self._collect(tree)
        for name in self.names:
            number, owner = index_of(name[-1]), domains.parent(name)
            if number is not None and owner is not None:
                self.cuts[owner].lengths.update([0, number + 1])
        for cuts in self.cuts.values():
            cuts.keep_few_patterns()
        for name, domain in self.domain.items():
            if domain.forms:  # a known text is a class of its own, apart from texts with a pattern
                self.cuts[name].atoms.update((Atom("is", text), None) for text in domain.texts)
        for name, value in constants:
            if name not in self.cuts:
                continue
            self.cuts[name].numbers.update(_numbers(value))
            self.cuts[name].atoms.update((Atom("is", text), None) for text in _texts(value))

    def _collect(self, tree: Expression) -> None:
        match tree:
            case Constant() | Reference() | Defined():
                pass
            case Negation() | Logic():
                for operand in children(tree):
                    self._collect(operand)
            case FunctionCall(function="matches", operand=operand, literal=pattern):
                self._cut_by_pattern(tree, operand, pattern or "")
            case Compare():
                self._cut_by_comparison(tree)
            case Built(parts=parts, is_list=False):
                for part in parts:
                    self._collect(part)
            case _:
                self._need_whole(tree)

    def _cut_by_pattern(self, tree: Expression, operand: Expression, pattern: str) -> None:
        inner = changed(operand)
        atom = None if inner is None else found_in(inner[1], pattern)
        if inner is None or atom is None:
            self._need_whole(tree)
        else:
            self.cuts[inner[0].names].atoms[atom] = None

    def _cut_by_comparison(self, tree: Compare) -> None:
        single, row = single_reference(tree), OPERATORS[tree.operator]
        left, right = tree.left, tree.right
        constant, operand = (left, right) if isinstance(left, Constant) else (right, left)
        if isinstance(constant, Constant) and self._is_cut_by_changed(row, constant, operand, tree):
            return
        if single is None or not isinstance(constant, Constant):
            self._need_whole(tree)
        elif isinstance(operand, FunctionCall):  # the function asks for a length
            self.cuts[single.names].lengths.update([0, *_numbers(constant.value)])
        elif constant is left:
            self._cut_by_left(row, constant.value, self.cuts[single.names])
        else:
            self._cut_by_right(row, constant.value, single.names)

    def _is_cut_by_changed(self, row: Operator, constant: Constant, operand: Expression, tree: Compare) -> bool:
        """Cut a text by a question about its changed form, if that is one; return whether it is."""
        inner = changed(operand)
        if inner is None or not inner[1] or row.asks is None:
            return False
        question = "is" if row.asks == "order" else row.asks
        questions = [(question, text) for text in _texts(constant.value)]
        if constant is tree.left and row.takes != "member":
            questions = [("is", part) for _, text in questions for part in parts_of(question, text)]
        if len(questions) > MAX_PARTS:
            return False
        if questions:
            patterns = [question_of(inner[1], *one).literal for one in questions]
            any_of = patterns[0] if len(patterns) == 1 else "|".join(f"(?:{one})" for one in patterns)
            self.cuts[inner[0].names].atoms[Atom("matches", any_of)] = None
        return True

    def _need_whole(self, tree: Expression) -> None:
        # Of an object that becomes an item of a list, classes know nothing but that it is one.
        is_built = any(isinstance(node, Built) for node in walk(tree))
        for name in references_of([tree]):
            self.cuts[name].whole = True
            if is_built and self.domain[name].is_object:
                raise TooMany

    def _cut_by_right(self, row: Operator, value: Any, names: Names) -> None:
        cuts, domain = self.cuts[names], self.domain[names]
        cuts.numbers.update(_numbers(value))
        if row.takes == "contains" and domain.array:
            cuts.members = True
        question = "is" if row.asks == "order" else row.asks
        if question is None:
            cuts.whole = True
        else:
            cuts.atoms.update((Atom(question, text), None) for text in _texts(value))

    def _cut_by_left(self, row: Operator, value: Any, cuts: Cuts) -> None:
        cuts.numbers.update(_numbers(value))
        if row.takes == "member":
            cuts.members = True
        for text in _texts(value):
            parts = [text]
            if isinstance(value, str) and row.asks is not None and row.asks != "order":
                parts = parts_of(row.asks, text)
            if row.asks is None or len(parts) > MAX_PARTS:
                cuts.whole = True
            else:
                cuts.atoms.update(dict.fromkeys(Atom("is", part) for part in parts))


def class_values(domain: Domain, cuts: Cuts) -> list[Any]:
    """Return a value for each class of the defined values of a domain; raises TooMany where there are too many."""
    values: list[Any] = [None] if domain.null else []
    values.extend(sorted(domain.booleans))
    values.extend(_number_classes(domain, cuts) if domain.ranges else [])
    values.extend(_text_classes(domain, cuts))
    if domain.array:
        values.extend(_array_classes(domain, cuts))
    if domain.is_object:
        values.append(FrozenMap())
    if len(values) > (MAX_CLASSES if domain.any_text or domain.array else MAX_MEMBERS):
        raise TooMany
    assert values or domain.is_empty, "a missing class would be taken for impossible"
    return values


def single_reference(tree: Compare) -> Reference | None:
    """Return the only reference of a comparison with a constant, or None for another comparison."""
    left, right = tree.left, tree.right
    side, opposite = (right, left) if isinstance(left, Constant) else (left, right)
    inner = side.operand if isinstance(side, FunctionCall) and FUNCTIONS[side.function].asks == "length" else side
    return inner if isinstance(inner, Reference) and isinstance(opposite, Constant) else None


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _numbers(value: Any) -> Iterator[Number]:
    return (item for item in _items(value) if isinstance(item, int | Decimal) and not isinstance(item, bool))


def _texts(value: Any) -> Iterator[str]:
    return (item for item in _items(value) if isinstance(item, str))


def _number_classes(domain: Domain, cuts: Cuts) -> Iterator[Number]:
    """Yield a number for each class, in ascending order: the constants, and one between each two."""
    bounds = {bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None}
    if cuts.whole:
        bounds |= _every_number(domain)
    points = sorted(bounds | cuts.numbers)
    if len(points) > MAX_MEMBERS:
        raise TooMany
    covered = _Covered(points, domain.ranges)
    for number, (low, high) in enumerate(zip([None, *points], [*points, None], strict=True)):
        whole, any_ = covered.gaps[True][number], covered.gaps[False][number]
        candidates = [
            between(low, high, integral=integral) for integral in (True, False) if (whole if integral else any_)
        ]
        numbers = [one for one in candidates if one is not None]
        if numbers:
            yield min(numbers, key=simplicity)
        elif any_:
            raise TooMany  # no number of few digits is between two constants
        if high is not None and (covered.points[False][number] or (covered.points[True][number] and high == int(high))):
            yield high


class _Covered:
    """The number of ranges that contain each point, and each gap around the points; separate for ranges of whole
    numbers."""

    def __init__(self, points: list[Number], ranges: Iterable[Range]) -> None:
        count, index = len(points), {point: number for number, point in enumerate(points)}
        gaps = {integral: [0] * (count + 2) for integral in (True, False)}
        points_covered = {integral: [0] * (count + 2) for integral in (True, False)}
        for range_ in ranges:
            low = -1 if range_.low is None else index[range_.low]
            high = count if range_.high is None else index[range_.high]
            if low > high:
                continue
            points_covered[range_.integral][max(low, 0) + range_.above] += 1
            points_covered[range_.integral][high + 1 - range_.below] -= 1
            if low < high:  # the gap with a number is before the point with that number
                gaps[range_.integral][low + 1] += 1
                gaps[range_.integral][high + 1] -= 1
        self.points = {integral: list(accumulate(each)) for integral, each in points_covered.items()}
        self.gaps = {integral: list(accumulate(each)) for integral, each in gaps.items()}


def _every_number(domain: Domain) -> set[Number]:
    """Return all numbers of a small domain; raises TooMany for a large one."""
    numbers: set[Number] = set()
    for range_ in domain.ranges:
        if range_.low is None or range_.high is None or not (range_.integral or range_.low == range_.high):
            raise TooMany
        if range_.high - range_.low > MAX_POINTS:
            raise TooMany
        numbers.update([range_.low] if range_.low == range_.high else range(ceil(range_.low), floor(range_.high) + 1))
    if len(numbers) > MAX_POINTS:
        raise TooMany
    return numbers


def _text_classes(domain: Domain, cuts: Cuts) -> list[str]:
    if not domain.any_text:
        return list(domain.texts)
    if domain.forms:
        texts = None if cuts.whole else _formed_classes(domain, cuts)
        return _unformed_classes(domain, cuts) if texts is None else texts
    if domain.max_length == 0:
        return [""]
    if cuts.whole:
        raise TooMany
    if cuts.atoms and (cuts.asks_length or any(atom.question == "matches" for atom in cuts.atoms)):
        return _known(cut_by_automata(cuts.atoms, cuts.lengths, None, domain.max_length, cuts.most))
    if cuts.asks_length:
        lengths = _length_classes(cuts, domain.max_length)
        return ["x" * length for length in lengths]
    texts = classes(cuts.atoms, MAX_CLASSES)
    if texts is None:
        raise TooMany
    if domain.max_length is not None and max(map(len, texts)) > domain.max_length:
        if any(atom.question != "is" for atom in cuts.atoms):
            texts = shortest(cuts.atoms, domain.max_length)
            if texts is None:
                raise TooMany
        texts = [text for text in texts if len(text) <= domain.max_length]
    assert texts, "some text is none of the literals"
    return texts


def _formed_classes(domain: Domain, cuts: Cuts) -> list[str] | None:
    """Return a text for each class of the texts that patterns and lengths allow, and the known texts.

    None where the search is too large.
    """
    atoms = (*cuts.atoms, *(Atom("is", text) for text in domain.texts))
    texts = list(domain.texts)
    for form in domain.forms:
        new_texts = cut_by_automata(atoms, cuts.lengths, *form, cuts.most)
        if new_texts is None:
            return None
        texts += [
            text for text in new_texts if not any(_is_same_class(text, one, atoms, cuts.lengths) for one in texts)
        ]
    return texts or None  # the types allow no text at all: continue without patterns


def _unformed_classes(domain: Domain, cuts: Cuts) -> list[str]:
    """Return a text for each class of texts, ignoring patterns, but without literals that the domain excludes."""
    atoms = cuts.atoms | {Atom("is", text): None for text in domain.texts}
    texts = _text_classes(replace(domain, forms=(), texts=()), replace(cuts, atoms=atoms))
    literals = {atom.literal for atom in atoms if atom.question == "is"}
    return [text for text in texts if text not in literals or domain.allows(text)]


def _known(texts: list[str] | None) -> list[str]:
    if texts is None:
        raise TooMany
    return texts


def _is_same_class(text: str, other: str, atoms: Iterable[Atom], lengths: Iterable[Number]) -> bool:
    """Return whether two texts belong to one class."""
    return all((len(text) < one, len(text) > one) == (len(other) < one, len(other) > one) for one in lengths) and all(
        atom.of(text) is atom.of(other) for atom in atoms
    )


def _length_classes(cuts: Cuts, longest: int | None) -> list[int]:
    probe = Domain(ranges=(Range(0, longest, integral=True),))
    lengths = [int(number) for number in _number_classes(probe, Cuts(numbers=set(cuts.lengths)))]
    if max(lengths) > MAX_LENGTH:
        raise TooMany
    return lengths


def _array_classes(domain: Domain, cuts: Cuts) -> list[tuple[Any, ...]]:
    """Return arrays that differ in their length only; their items are left to the solver."""
    if cuts.members or cuts.whole:
        raise TooMany
    item = _an_item(domain.items)
    if not cuts.asks_length:
        return [()] if item is UNDEFINED or not domain.least else [(item,) * min(domain.least, MAX_LENGTH)]
    if domain.any_text or domain.texts:
        raise TooMany
    if item is UNDEFINED:
        return [()]
    return [(item,) * length for length in _array_lengths(cuts, domain)]


def _array_lengths(cuts: Cuts, domain: Domain) -> list[int]:
    """Return a length for each class of the lengths of arrays; the counts of a domain are bounds, and no cuts."""
    points = sorted({0, *cuts.lengths})
    lengths = []
    for low, high in zip(points, [*points[1:], None], strict=True):
        if low == int(low) and domain.least <= low and (domain.most is None or low <= domain.most):
            lengths.append(int(low))
        first = max(floor(low) + 1, domain.least)
        if (high is None or first < high) and (domain.most is None or first <= domain.most) and first > low:
            lengths.append(first)
    lengths = [length for length in lengths if length >= 0]
    if lengths and max(lengths) > MAX_LENGTH:
        raise TooMany
    return lengths


def _an_item(items: Domain | None) -> Any:
    """Return a possible item of an array; UNDEFINED where there is none."""
    if items is None or items.null:
        return None
    if items.texts or items.any_text:
        return items.examples[0] if items.examples else ""
    if items.booleans:
        return min(items.booleans)
    if items.ranges:
        return next(_number_classes(items, Cuts(numbers={0})), UNDEFINED)
    return () if items.array else FrozenMap() if items.is_object else UNDEFINED
