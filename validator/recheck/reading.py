"""A program under its policies as this checker reads it: nothing here is taken from another analysis.

It shares with the machine and with the engine what a program *is*: parsed steps, expressions, guardrails and policies.
What follows from these (where control goes, what a name speaks of, which types hold, what a selector matches) is worked
out here once for all properties of a program.
"""

from __future__ import annotations

from functools import cached_property

from stepward.validator.recheck.definite import Definite, assigned_by
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.parsed import Parsed


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
