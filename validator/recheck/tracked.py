"""Reaching definitions and copies: the facts about a variable that hold on every path.

Forward data flow with one set of facts. Where paths meet, the facts of both remain, as for the references that
certainly have a value (`definite`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, Literal

from stepward.validator.recheck.alike import are_alike, is_itself
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import Origins, below
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.syntax import (
    Built,
    Compare,
    Constant,
    Expression,
    Logic,
    Negation,
    Reference,
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

    For each source of a variable with several sources: it did not give the current value. For each `w` that some step
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
        variables = reading.lookup.variables.items()
        several = [
            (name, source) for name, sources in variables if len(sources) > 1 for source in dict.fromkeys(sources)
        ]
        copies = dict.fromkeys(pair for number in range(len(self.steps)) for pair in self._copied(number))
        self._source = {one: 1 << number for number, one in enumerate(several)}
        self._copy = {pair: 1 << number for number, pair in enumerate(copies, start=len(several))}
        self.count = len(several) + len(copies)
        self._changes: dict[tuple[int, bool], tuple[int, int]] = {}

    @cached_property
    def at_entry(self) -> int:
        """The facts at the start of a run: only inputs have values."""
        given = [bit for (_, source), bit in self._source.items() if source.kind == "input"]
        copies = [bit for (name, _), bit in self._copy.items() if self.origins.is_input(name[:1])]
        return ~sum(given) & ~sum(copies) & (1 << self.count) - 1

    def after(self, number: int, transition: Transition, facts: int) -> int:
        """Return the facts after a transition."""
        if not self.count:
            return facts
        is_done = transition.kind in ("success", "fallback")
        change = self._changes.get((number, is_done))
        if change is None:
            change = self._changes[number, is_done] = self._changed(number, is_done=is_done)
        gone, come = change
        return facts & ~gone if transition.kind == "visits" else facts & ~gone | come

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

    def _equal_to(self, names: Names, facts: int) -> set[Names]:
        """Return the reference and those that have its value whenever they have one; a copy has the same fields."""
        found, pending = {names}, [names]
        while pending and len(found) < MAX_EQUAL:
            one = pending.pop()
            is_variable = self.origins.root(one) == one[:1]  # and not the output of a step that has its name
            for copy, origin, bit in self._copies_of.get(one[0], ()) if is_variable else ():
                other = (*origin, *one[len(copy) :])
                is_field = one[: len(copy)] == copy and self.origins.root(other) == self.origins.root(origin)
                if facts & bit and is_field and other not in found:
                    found.add(other)
                    pending.append(other)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[Source, int]]]:
        found: dict[str, list[tuple[Source, int]]] = {}
        for (name, source), bit in self._source.items():
            found.setdefault(name, []).append((source, bit))
        return found

    @cached_property
    def _copies_of(self) -> dict[str, list[tuple[Names, Names, int]]]:
        found: dict[str, list[tuple[Names, Names, int]]] = {}
        for (name, origin), bit in self._copy.items():
            found.setdefault(name[0], []).append((name, origin, bit))
        return found

    @cached_property
    def _pairs_with(self) -> dict[Names, int]:
        """The copy facts that mention each variable or output."""
        found: dict[Names, int] = {}
        for pair, bit in self._copy.items():
            for root in {self.origins.root(name) for name in pair}:
                found[root] = found.get(root, 0) | bit
        return found

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
        gone = come = 0
        # A variable of which a field is changed has its value from this step and from those before.
        paths = [one for one in self._assigned[number] if len(one) > 1 and isinstance(step, SetStep)]
        changed = {path[0] for path in paths}
        for pair, bit in self._copy.items() if paths else ():
            gone |= bit if any(below(one, path) or below(path, one) for one in pair for path in paths) else 0
        for root in outputs:
            gone |= self._pairs_with.get(root, 0)
        for name in changed:
            gone |= sum(bit for source, bit in self._by_name.get(name, ()) if source.step == number)
        # Behind its branches, a parallel step has its output.
        own = next((owner for owner, fork in self.layout.forks.items() if fork.join == number), number)
        for name in names:
            gone |= self._pairs_with.get((name,), 0)
            for source, bit in self._by_name.get(name, ()):
                if source.step == own and source.kind != "input":
                    gone |= bit
                elif is_done or isinstance(step, Call):
                    come |= bit
        lost = {(name,) for name in names | changed}
        for pair in self._copied(number) if is_done or isinstance(step, SetStep) else ():
            if self.origins.root(pair[1]) not in lost:
                come |= self._copy[pair]
        return gone, come

    def _keeps(self, number: int, name: str) -> bool:
        """Return whether a `set` assigns a name to itself."""
        tree = self.origins.tree(Source("set", name, number))
        return isinstance(tree, Reference) and tree.names == (name,)


_ALIKE: Final[Mapping[str, Literal["==", "<="]]] = {
    **dict.fromkeys(("==", "!="), "=="),
    **dict.fromkeys(("<", "<=", ">", ">="), "<="),
}
"""The operator that compares a value with itself instead: it holds for every value of the right kind."""


def plain(tree: Expression, are_same: Callable[[Names, Names], bool]) -> Expression:
    """Return an equivalent condition, in which expressions of the same value are compared with themselves."""
    match tree:
        case Negation() | Logic():
            found = with_children(tree, lambda child: plain(child, are_same))
            return tree if all(map(operator.is_, children(found), children(tree))) else found
        case Compare(left=left, right=right) if tree.operator in _ALIKE:
            if isinstance(left, Constant) or is_itself(left, right) or not are_alike(left, right, are_same):
                return tree
            # Both are read: one of them may be undefined.
            asked = _ALIKE[tree.operator]
            both = tuple(Compare(tree.start, tree.end, asked, one, one) for one in (left, right))
            same = Logic(tree.start, tree.end, "and", both)
            return same if tree.operator in ("==", "<=", ">=") else Negation(tree.start, tree.end, same)
    return tree
