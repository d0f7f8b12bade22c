"""A program under its policies, analysed by this checker alone.

It shares with the machine and with the engine what a program *is*: parsed steps, expressions, guardrails and policies.
What follows from these (control flow, resolution of names, types, matches of selectors) is computed here, once for all
properties of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.recheck.asked_lengths import AskedLengths
from stepward.validator.recheck.branches import in_branches, require_readable
from stepward.validator.recheck.definite import Definite, changed_between, decided_by, overwritten, read_by, touched
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.flow import Control
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.joined import joined_outputs
from stepward.validator.recheck.origins import Origins, prefixes
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.tracked import plain
from stepward.vm.expressions.syntax import Compare, walk
from stepward.vm.language.steps import ConditionStep, SetStep

if TYPE_CHECKING:
    from stepward.validator.recheck.names import Names
    from stepward.vm.expressions.syntax import Expression


class Comparison(NamedTuple):
    """A comparison in an expression of a step, with the references that it reads."""

    step: int
    tree: Compare
    names: frozenset[Names]


def compared(step: int, tree: Expression) -> Iterator[Comparison]:
    """Yield the comparisons in an expression of a step."""
    return (Comparison(step, one, frozenset(references([one]))) for one in walk(tree) if isinstance(one, Compare))


def _inverted(names: Iterable[frozenset[Names]]) -> dict[Names, list[int]]:
    """Return for each name the steps that have it in their sets of names."""
    steps: dict[Names, list[int]] = {}
    for number, known in enumerate(names):
        for name in known:
            steps.setdefault(name, []).append(number)
    return steps


class Reading(Parsed):
    """A program with its analyses. Each is computed on first use."""

    @cached_property
    def control(self) -> Control:
        """The control flow; raises Unreadable where it is not well defined."""
        control = Control(self.layout)
        if self.in_branches:
            require_readable(self, control)
        return control

    @cached_property
    def in_branches(self) -> frozenset[int]:
        """The steps of branches, and their starts: those of a sibling on a path need not have been performed."""
        return in_branches(self.layout)

    @cached_property
    def boundary(self) -> Boundary:
        """The types that the machine enforces on values from outside."""
        return Boundary(self)

    @cached_property
    def origins(self) -> Origins:
        """The possible values of references by the types of their sources."""
        return Origins(self, self.boundary)

    @cached_property
    def asked_lengths(self) -> AskedLengths:
        """The least lengths of lists, by the conditions that ask for them."""
        return AskedLengths(self)

    @cached_property
    def definite(self) -> Definite:
        """The references that certainly have a value at the start of each step."""
        return Definite(self, self.origins)

    @cached_property
    def assigned(self) -> list[frozenset[Names]]:
        """The names that each step assigns, its sub-steps included, by whatever transition it is left."""
        return [overwritten(self, number) for number in range(len(self.steps))]

    @cached_property
    def touched(self) -> list[frozenset[Names]]:
        """The names that each step may assign."""
        return [touched(self, number) for number in range(len(self.steps))]

    def changed(self, number: int, kind: str) -> frozenset[Names]:
        """Return the names that a step may assign by a kind of transition."""
        if kind != "item":
            return self.touched[number]
        if number not in self._between:
            self._between[number] = changed_between(self, number)
        return self._between[number]

    @cached_property
    def _between(self) -> dict[int, frozenset[Names]]:
        return {}

    @cached_property
    def assigners(self) -> dict[Names, list[int]]:
        """The steps that assign each name, or make it undefined, by whatever transition they are left."""
        return _inverted(self.assigned)

    @cached_property
    def touchers(self) -> dict[Names, list[int]]:
        """The steps that may assign each name."""
        return _inverted(self.touched)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons in conditions and `set` steps, as they are written and in the plain form."""
        comparisons: list[Comparison] = []
        for number, step in enumerate(self.steps):
            plain = self.plain_expressions(number) if isinstance(step, ConditionStep | SetStep) else None
            for tree in plain or ():
                comparisons += compared(number, tree)
            # Another step may ask the same where the two are not known to be one value.
            for written in () if plain is None else self.expressions(number):
                if written is not None and not any(written is one for one in plain or ()):
                    comparisons += compared(number, written)
        return tuple(comparisons)

    def plain(self, tree: Expression, step: int) -> Expression:
        """Return an equivalent condition at the start of a step, in which references of the same value are compared
        with themselves."""
        return plain(
            tree,
            lambda left, right: self.definite.is_one_value(left, right, step),
            lambda names: self.definite.made_of(names, step),
        )

    def plain_expressions(self, number: int) -> list[Expression] | None:
        """Return the expressions of a step in that form; None where one does not parse."""
        if number not in self._plain:
            trees = self.expressions(number)
            known = [self.plain(tree, number) for tree in trees if tree is not None]
            self._plain[number] = known if len(known) == len(trees) else None
        return self._plain[number]

    def names_read(self, number: int) -> tuple[Names, ...]:
        """Return the references that decide how a step is left."""
        if number not in self._read:
            step = self.steps[number]
            names = [*references(self.plain_expressions(number) or []), *decided_by(self, number)]
            names += joined_outputs(self, number)
            for part in (step, *step.sub_steps):
                names.extend(read_by(part))
            self._read[number] = tuple(names)
        return self._read[number]

    @cached_property
    def readers(self) -> dict[Names, list[int]]:
        """The steps that read each reference, or a field of it."""
        readers: dict[Names, list[int]] = {}
        for number in range(len(self.steps)):
            for name in {one for names in self.names_read(number) for one in prefixes(names)}:
                readers.setdefault(name, []).append(number)
        return readers

    @cached_property
    def _read(self) -> dict[int, tuple[Names, ...]]:
        return {}

    @cached_property
    def _plain(self) -> dict[int, list[Expression] | None]:
        return {}
