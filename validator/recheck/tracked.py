"""Reaching definitions and copies: the facts about a variable that hold on every path.

Forward data flow with one set of facts. Where paths meet, the facts of both remain, as for the references that
certainly have a value (`definite`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Final, Literal

from stepward.validator.recheck.equivalence import are_equivalent, is_end, is_itself, text_of
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import Origins, below
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
    Template,
    children,
    with_children,
)
from stepward.vm.language.steps import Call, ComputeStep, SetStep

MAX_EQUAL: Final = 50
"""The most references that are known to have one value: a field that copies a field of itself has no end."""

_ARGUMENTS: Final = "args"
"""In a rule this name means the arguments of a call, even if a variable has it. So it has no facts."""


class Tracked:
    """The facts about the variables of one program, each a bit of an integer.

    For each source of a variable: it did not give the current value. For each `w` that some step
    makes a copy of `x`: `w` has no value, or the value of `x`. Each may be a field: `b: {f: $t}` copies `t` to `b.f`. A
    call copies its output to its `output_key`.
    """

    def __init__(
        self,
        reading: Parsed,
        origins: Origins,
        assigned: list[frozenset[Names]],
        touched: Callable[[int], frozenset[Names]],
    ) -> None:
        self.steps, self.layout = reading.steps, reading.layout
        self.origins = origins
        self._assigned, self._touched = assigned, touched
        computed = dict.fromkeys(pair for number in range(len(self.steps)) for pair in self._computed(number))
        variables = reading.lookup.variables.items()
        several = [(name, source) for name, sources in variables for source in dict.fromkeys(sources)]
        copies = dict.fromkeys(pair for number in range(len(self.steps)) for pair in self._copied(number))
        self._source = {one: 1 << number for number, one in enumerate(several)}
        self._copy = {pair: 1 << number for number, pair in enumerate(copies, start=len(several))}
        self._made = {pair: 1 << number for number, pair in enumerate(computed, start=len(several) + len(copies))}
        self.count = len(several) + len(copies) + len(computed)
        self._changes: dict[tuple[int, bool], tuple[int, int]] = {}

    @cached_property
    def at_entry(self) -> int:
        """The facts at the start of a run: only inputs have values."""
        inputs = [bit for (_, source), bit in self._source.items() if source.kind == "input"]
        copies = [bit for (name, _), bit in self._copy.items() if self.origins.is_input(name[:1])]
        computed = [bit for (name, _), bit in self._made.items() if self.origins.is_input(name[:1])]
        return ~sum(inputs) & ~sum(copies) & ~sum(computed) & (1 << self.count) - 1

    def after(self, number: int, transition: Transition, facts: int) -> int:
        """Return the facts after a transition."""
        if not self.count:
            return facts
        is_done = transition.kind in ("success", "fallback")
        change = self._changes.get((number, is_done))
        if change is None:
            change = self._changes[number, is_done] = self._changed(number, is_done=is_done)
        removed, added = change
        return facts & ~removed if transition.kind == "visits" else facts & ~removed | added

    def forgotten(self, names: Iterable[str], facts: int) -> int:
        """Return the facts without those about some variables, whose values may be earlier ones again."""
        for name in names:
            facts &= ~self._pairs_with.get((name,), 0)
            for _, bit in self._by_name.get(name, ()):
                facts &= ~bit
        return facts

    def sources(self, name: str, facts: int) -> tuple[Source, ...] | None:
        """Return the sources that may have given the current value of a variable; None for all."""
        known = self._by_name.get(name)
        return None if known is None else tuple(source for source, bit in known if not facts & bit)

    def is_one_value(self, left: Names, right: Names, facts: int) -> bool:
        """Return whether two references have the same value wherever both have one."""
        if left == right:
            return True
        if _ARGUMENTS in (left[0], right[0]):
            return False
        return not self._equal_to(left, facts).isdisjoint(self._equal_to(right, facts))

    def made_of(self, names: Names, facts: int) -> list[Expression]:
        """Return expressions that have the value of a reference whenever both have one."""
        equal = self._equal_to(names, facts)
        return [
            tree
            for (name, number), bit in self._made.items()
            if facts & bit and name in equal and self.origins.root(name) == name[:1]
            for tree in (self._trees[name, number],)
        ]

    def _equal_to(self, names: Names, facts: int) -> set[Names]:
        """Return the reference and those that have its value whenever they have one; a copy has the same fields."""
        equal, pending = {names}, [names]
        while pending and len(equal) < MAX_EQUAL:
            reference = pending.pop()
            is_variable = (
                self.origins.root(reference) == reference[:1]
            )  # and not the output of a step that has its name
            for copy, origin, bit in self._copies_of.get(reference[0], ()) if is_variable else ():
                source_name = (*origin, *reference[len(copy) :])
                is_field = reference[: len(copy)] == copy and self.origins.root(source_name) == self.origins.root(
                    origin
                )
                if facts & bit and is_field and source_name not in equal:
                    equal.add(source_name)
                    pending.append(source_name)
        return equal

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[Source, int]]]:
        sources: dict[str, list[tuple[Source, int]]] = {}
        for (name, source), bit in self._source.items():
            sources.setdefault(name, []).append((source, bit))
        return sources

    @cached_property
    def _copies_of(self) -> dict[str, list[tuple[Names, Names, int]]]:
        copies: dict[str, list[tuple[Names, Names, int]]] = {}
        for (name, origin), bit in self._copy.items():
            copies.setdefault(name[0], []).append((name, origin, bit))
        return copies

    @cached_property
    def _pairs_with(self) -> dict[Names, int]:
        """The copy facts that mention each variable or output."""
        pairs: dict[Names, int] = {}
        for names, bit in self._mentioning:
            for root in {self.origins.root(name) for name in names}:
                pairs[root] = pairs.get(root, 0) | bit
        return pairs

    @cached_property
    def _mentioning(self) -> list[tuple[tuple[Names, ...], int]]:
        """Each fact that two values are equal, with the references in it."""
        mentions: list[tuple[tuple[Names, ...], int]] = list(self._copy.items())
        for (name, number), bit in self._made.items():
            mentions.append(((name, *references([self._trees[name, number]])), bit))
        return mentions

    @cached_property
    def _trees(self) -> dict[tuple[Names, int], Expression]:
        return {}

    def _computed(self, number: int) -> Iterator[tuple[Names, int]]:
        """Yield each name or field of which a step computes the value, with the step."""
        step = self.steps[number]
        for name in step.assigns if isinstance(step, SetStep) else ():
            yield from self._put_computed((name,), self.origins.tree(Source("set", name, number)), number)

    def _put_computed(self, name: Names, tree: Expression | None, number: int) -> Iterator[tuple[Names, int]]:
        if isinstance(tree, Built):
            for field, part in zip(tree.names, tree.parts, strict=True):
                yield from self._put_computed((*name, field), part, number)
        elif isinstance(tree, Arithmetic | Template | FunctionCall | Minus):
            read = references([tree])
            if name[0] != _ARGUMENTS and not any(one[0] in (_ARGUMENTS, name[0]) for one in read):
                self._trees[name, number] = tree
                yield name, number

    def _copied(self, number: int) -> Iterator[tuple[Names, Names]]:
        """Yield pairs of a name or field that a step makes a copy, and the reference that it copies."""
        step = self.steps[number]
        if isinstance(step, SetStep):
            for name in step.assigns:
                yield from self._put((name,), self.origins.tree(Source("set", name, number)))
        elif isinstance(step, Call | ComputeStep) and step.output_key is not None:
            yield (step.output_key,), (step.id, "output")

    def _put(self, name: Names, tree: Expression | None) -> Iterator[tuple[Names, Names]]:
        if isinstance(tree, Built):
            for field, part in zip(tree.names, tree.parts, strict=True):
                yield from self._put((*name, field), part)
        elif isinstance(tree, Reference) and tree.names != name and _ARGUMENTS not in (name[0], tree.names[0]):
            yield name, tree.names

    def _changed(self, number: int, *, is_done: bool) -> tuple[int, int]:
        """Return the facts that a step removes, and those that it adds; `is_done` says that the step has its output.

        An input may be the current value where the step ended otherwise: then sub-steps may have overwritten nothing.
        """
        step = self.steps[number]
        names = {names[0] for names in self._assigned[number] if len(names) == 1}
        # A step with bodies binds its outputs and errors behind them, and an error where it fails before them.
        outputs = set() if isinstance(step, SetStep) else {names for names in self._touched(number) if len(names) > 1}
        if isinstance(step, SetStep):
            names -= {name for name in names if self._keeps(number, name)}
        removed = added = 0
        # A variable of which a field is changed has its value from this step and from those before.
        paths = [one for one in self._assigned[number] if len(one) > 1 and isinstance(step, SetStep)]
        changed = {path[0] for path in paths}
        for mentioned, bit in self._mentioning if paths else ():
            removed |= bit if any(below(one, path) or below(path, one) for one in mentioned for path in paths) else 0
        for root in outputs:
            removed |= self._pairs_with.get(root, 0)
        for name in changed:
            removed |= sum(bit for source, bit in self._by_name.get(name, ()) if source.step == number)
        # Behind its branches, a parallel step has its output.
        source_step = next((owner for owner, fork in self.layout.forks.items() if fork.join == number), number)
        for name in names:
            removed |= self._pairs_with.get((name,), 0)
            for source, bit in self._by_name.get(name, ()):
                if source.step == source_step and source.kind != "input":
                    removed |= bit
                elif is_done or isinstance(step, Call):
                    added |= bit
        overwritten = {(name,) for name in names | changed}
        if is_done or isinstance(step, SetStep):
            added |= self._of_one_value(number, overwritten)
        return removed, added

    def _of_one_value(self, number: int, overwritten: Collection[Names]) -> int:
        """Return the facts of equal values that a step adds; `overwritten` are the variables that it changes."""
        added = 0
        for pair in self._copied(number):
            if self.origins.root(pair[1]) not in overwritten:
                added |= self._copy[pair]
        for name, _ in self._computed(number):
            if not any(self.origins.root(one) in overwritten for one in references([self._trees[name, number]])):
                added |= self._made[name, number]
        return added

    def _keeps(self, number: int, name: str) -> bool:
        """Return whether a `set` assigns a name to itself."""
        tree = self.origins.tree(Source("set", name, number))
        return isinstance(tree, Reference) and tree.names == (name,)


_ALIKE: Final[Mapping[str, Literal["==", "<="]]] = {
    **dict.fromkeys(("==", "!="), "=="),
    **dict.fromkeys(("<", "<=", ">", ">="), "<="),
}
"""The operator that compares a value with itself instead: it holds for every value of the right kind."""


MadeOf = Callable[[Names], Iterable[Expression]]
"""Returns expressions that have the value of a reference whenever both have one."""


def plain(tree: Expression, are_same: Callable[[Names, Names], bool], made_of: MadeOf) -> Expression:
    """Return an equivalent condition, in which expressions of the same value are compared with themselves."""
    match tree:
        case Negation() | Logic():
            result = with_children(tree, lambda child: plain(child, are_same, made_of))
            return tree if all(map(operator.is_, children(result), children(tree))) else result
        case Compare(left=left, right=right) if tree.operator in _ENDS:
            return _plain_end(tree, are_same, made_of)
        case Compare(left=left, right=right) if tree.operator in _ALIKE:
            if isinstance(left, Constant) or is_itself(left, right) or not _is_one(left, right, are_same, made_of):
                return tree
            # Both are read: one of them may be undefined.
            relation = _ALIKE[tree.operator]
            comparisons = tuple(Compare(tree.start, tree.end, relation, one, one) for one in (left, right))
            same = Logic(tree.start, tree.end, "and", comparisons)
            return same if tree.operator in ("==", "<=", ">=") else Negation(tree.start, tree.end, same)
    return tree


_ENDS: Final[Mapping[str, str]] = {
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "contains": "contains",
    "not contains": "contains",
}
"""The questions about two texts that the pieces of both may answer."""


MAX_INNER: Final = 4
"""How often the pieces of a text are looked for in those of another one."""


def _written(tree: Expression, made_of: MadeOf) -> list[Expression]:
    """Return an expression, and those that have its value."""
    return [tree, *(made_of(tree.names) if isinstance(tree, Reference) else ())]


def _pieces(tree: Expression, made_of: MadeOf) -> list[list[Expression]]:
    """Return the pieces of a text, with and without those of its pieces; none where it may be no text."""
    outer = text_of(tree)
    if outer is None:
        return []
    known = [outer]
    for _ in range(MAX_INNER):
        inner = [_inner(one, made_of) for one in known[-1]]
        known.append([piece for pieces in inner for piece in pieces])
    return known


def _inner(piece: Expression, made_of: MadeOf) -> list[Expression]:
    texts = (text_of(one) for one in (made_of(piece.names) if isinstance(piece, Reference) else ()))
    return next((pieces for pieces in texts if pieces is not None), [piece])


def _is_one(left: Expression, right: Expression, are_same: Callable[[Names, Names], bool], made_of: MadeOf) -> bool:
    """Return whether two expressions have one value whenever both have one."""
    for first, second in product(_written(left, made_of), _written(right, made_of)):
        if are_equivalent(first, second, are_same):
            return True
        for pieces, others in product(_pieces(first, made_of), _pieces(second, made_of)):
            if len(pieces) == len(others) and is_end("starts_with", pieces, others, are_same):
                return True
    return False


def _plain_end(tree: Compare, are_same: Callable[[Names, Names], bool], made_of: MadeOf) -> Expression:
    """Return an equivalent condition where the pieces of two texts say that one is a part of the other: it holds if
    both are texts, and else it fails."""
    if isinstance(tree.right, Constant):
        return tree
    for whole, inner in product(_written(tree.left, made_of), _written(tree.right, made_of)):
        alone: list[list[Expression]] = [[inner]] if isinstance(inner, Reference | FunctionCall) else []
        for pieces, part in product(_pieces(whole, made_of), [*alone, *_pieces(inner, made_of)]):
            if is_end(_ENDS[tree.operator], pieces, part, are_same):
                texts = [FunctionCall(side.start, side.end, "lower", side) for side in (tree.left, tree.right)]
                comparisons = tuple(Compare(tree.start, tree.end, "==", text, text) for text in texts)
                same = Logic(tree.start, tree.end, "and", comparisons)
                return Negation(tree.start, tree.end, same) if tree.operator == "not contains" else same
    return tree
