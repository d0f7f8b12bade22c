"""A program under its policies as this checker reads it: nothing here is taken from another analysis.

It shares with the machine and with the engine what a program *is*: parsed steps, expressions, guardrails and policies.
What follows from these (where control goes, what a name speaks of, which types hold, what a selector matches) is worked
out here once for all properties of a program.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.recheck.definite import Definite, assigned_by
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.tracked import plain

if TYPE_CHECKING:
    from stepward.validator.recheck.names import Names
    from stepward.vm.expressions.syntax import Expression


class Reading(Parsed):
    """A program and what follows from it; each is worked out when it is first asked for."""

    @cached_property
    def boundary(self) -> Boundary:
        """The types that the machine enforces on what comes from outside."""
        return Boundary(self)

    @cached_property
    def origins(self) -> Origins:
        """What references can be by the types of what gives their values."""
        return Origins(self, self.boundary)

    @cached_property
    def definite(self) -> Definite:
        """Which references certainly have a value where a step begins."""
        return Definite(self, self.origins)

    @cached_property
    def assigned(self) -> list[frozenset[Names]]:
        """What each step assigns, its sub-steps included."""
        return [assigned_by(step) for step in self.steps]

    def plain(self, tree: Expression, step: int) -> Expression:
        """Return a condition that says the same where a step begins, with what has one value compared with itself."""
        return plain(tree, lambda left, right: self.definite.is_one_value(left, right, step))

    def plain_expressions(self, number: int) -> list[Expression] | None:
        """Return the expressions of a step so; None where one can't be read."""
        if number not in self._plain:
            trees = self.expressions(number)
            known = [self.plain(tree, number) for tree in trees if tree is not None]
            self._plain[number] = known if len(known) == len(trees) else None
        return self._plain[number]

    @cached_property
    def _plain(self) -> dict[int, list[Expression] | None]:
        return {}
