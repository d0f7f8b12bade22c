"""A program under its policies as this checker reads it: nothing here is taken from another analysis.

It shares with the machine and with the engine what a program *is*: parsed steps, expressions, guardrails and policies.
What follows from these (where control goes, what a name speaks of, which types hold, what a selector matches) is worked
out here once for all properties of a program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepward.validator.recheck.definite import Definite, assigned_by
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.syntax import Compare, Logic, Negation, Reference
from stepward.vm.language.steps import SetStep

if TYPE_CHECKING:
    from stepward.vm.expressions.syntax import Expression

_ARGUMENTS: Final[Names] = ("args",)
"""In a rule this speaks of the arguments of a call, whatever variable has that name."""


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

    @cached_property
    def copies(self) -> dict[Names, Names]:
        """The variables that are given nothing but one input, each with that input: where defined, they are equal."""
        found: dict[Names, Names] = {}
        for name in {(one,) for step in self.steps if isinstance(step, SetStep) for one in step.set}:
            inputs = {self._input_copied(source) for source in self._sources(name)}
            origin = inputs.pop() if len(inputs) == 1 else None
            if origin is not None and _ARGUMENTS not in (name, origin):
                found[name] = origin
        return found

    def _sources(self, name: Names) -> tuple[Source, ...]:
        meant = self.lookup.meaning(name)
        return () if meant is None or meant.fields else tuple(meant.sources)

    def _input_copied(self, source: Source) -> Names | None:
        """Return the input that a source copies, if nothing but the start of a run ever gives that input a value."""
        if source.kind != "set":
            return None
        tree = self.origins.tree(source)
        if not isinstance(tree, Reference) or len(tree.names) != 1:
            return None
        return tree.names if [one.kind for one in self._sources(tree.names)] == ["input"] else None

    def plain(self, tree: Expression) -> Expression:
        """Return a condition that says the same, with a copy and what it was copied from each compared with itself."""
        if isinstance(tree, Negation):
            return replace(tree, operand=self.plain(tree.operand))
        if isinstance(tree, Logic):
            return replace(tree, operands=tuple(map(self.plain, tree.operands)))
        if not isinstance(tree, Compare) or tree.operator not in ("==", "!="):
            return tree
        left, right = tree.left, tree.right
        if not isinstance(left, Reference) or not isinstance(right, Reference) or left.names == right.names:
            return tree
        if self.copies.get(left.names, left.names) != self.copies.get(right.names, right.names):
            return tree
        same = Logic(
            tree.start,
            tree.end,
            "and",
            tuple(Compare(tree.start, tree.end, "==", one, one) for one in (left, right)),
        )
        return same if tree.operator == "==" else Negation(tree.start, tree.end, same)
