"""A program under its policies, analysed by this checker alone.

It shares with the machine and with the engine what a program *is*: parsed steps, expressions, guardrails and policies.
What follows from these (control flow, resolution of names, types, matches of selectors) is computed here, once for all
properties of a program.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.recheck.apart import in_branches, require_readable
from stepward.validator.recheck.definite import Definite, overwritten, touched
from stepward.validator.recheck.flow import Control
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.tracked import plain

if TYPE_CHECKING:
    from stepward.validator.recheck.names import Names
    from stepward.vm.expressions.syntax import Expression


class Reading(Parsed):
    """A program with its analyses. Each is computed on first use."""

    @cached_property
    def control(self) -> Control:
        """The control flow; raises Unreadable where it is not well defined."""
        found = Control(self.layout)
        if self.in_branches:
            require_readable(self, found)
        return found

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

    def plain(self, tree: Expression, step: int) -> Expression:
        """Return an equivalent condition at the start of a step, in which references of the same value are compared
        with themselves."""
        return plain(tree, lambda left, right: self.definite.is_one_value(left, right, step))

    def plain_expressions(self, number: int) -> list[Expression] | None:
        """Return the expressions of a step in that form; None where one does not parse."""
        if number not in self._plain:
            trees = self.expressions(number)
            known = [self.plain(tree, number) for tree in trees if tree is not None]
            self._plain[number] = known if len(known) == len(trees) else None
        return self._plain[number]

    @cached_property
    def _plain(self) -> dict[int, list[Expression] | None]:
        return {}
