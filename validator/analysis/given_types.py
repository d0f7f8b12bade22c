"""Whether every value of a reference is of a type: values from outside, and what the program copies of them.

The machine holds the output of a call to its type. What a `set` copies or puts into an object, and what the `end` steps
of a branch give, is of the types of what it was made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.vm.expressions.building import built
from stepward.vm.expressions.inside import leaves
from stepward.vm.expressions.syntax import Constant, Expression, Reference
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.name_types import COPIES, Location
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import BranchStep, EndStep, SetStep
from stepward.vm.language.types import TypeSpec, fits, implies

DEEPEST: Final = 50
"""The most fields below a name that are followed. A list that is an item of itself has no end of them."""


class GivenTypes:
    """The types of the values that the names of one program are given."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning, self._layout = meaning, meaning.flow.layout

    def are_of(self, meant: Resolution | None, spec: TypeSpec) -> bool:
        """Return whether all values of a reference, while it has one, are certainly of a type."""
        return self._are_of(meant, spec, set())

    def _are_of(self, meant: Resolution | None, spec: TypeSpec, seen: set[Location]) -> bool:
        return meant is not None and all(self._gives((source, meant.fields), spec, seen) for source in meant.sources)

    def _gives(self, location: Location, spec: TypeSpec, seen: set[Location]) -> bool:
        """Return whether all values at a location are of a type; names that copy one another add no values."""
        source, fields = location
        stated = self._meaning.typing.spec(location)
        if stated is not None or location in seen:
            return stated is None or implies(stated, spec)
        if len(fields) > DEEPEST:
            return False
        seen.add(location)
        if source.kind == "item":
            listed = self._meaning.typing.copied(source)
            return listed is not None and self._are_of(_below(listed, fields), spec, seen)
        trees = list(self.trees(source, fields))
        return bool(trees) and all(self._tree_gives(tree, inner, spec, seen) for tree, inner in trees)

    def _tree_gives(self, tree: Expression, fields: tuple[str, ...], spec: TypeSpec, seen: set[Location]) -> bool:
        for leaf in leaves(tree, fields):
            match leaf.tree:
                case Reference(names=names) if not leaf.fields:
                    if not self._are_of(self._meaning.names.meaning(names), spec, seen):
                        return False
                case Constant(value=value) if not leaf.fields:
                    if not fits(value, spec):
                        return False
                case None:
                    pass  # there is no value
                case _:
                    return False
        return True

    def trees(self, source: Source, fields: tuple[str, ...]) -> Iterator[tuple[Expression, tuple[str, ...]]]:
        """Yield the expressions that give a source its values, each with the fields below it that are asked for.

        There are none for values from outside, and none for those of a called program.
        """
        if source.kind in COPIES:
            tree = self._meaning.typing.tree(source) or self._written(source)
            if tree is not None:
                yield tree, fields
        elif source.kind == "output" and source.step is not None and source.sub is None:
            branch = self._branch(source.step, fields)
            if branch is not None:
                rest = fields[1:] if source.step in self._layout.forks else fields
                yield from ((built(end.output), rest) for end in self._ends(branch))

    def _written(self, source: Source) -> Expression | None:
        """Return the value without an expression that a `set` step gives to a whole variable; None for any other."""
        step = self._layout.steps[source.step] if source.step is not None else None
        if not isinstance(step, SetStep) or source.path[-2:] != ("set", source.name) or source.name not in step.set:
            return None
        return Constant(0, 0, step.set[source.name])

    def _branch(self, step: int, fields: tuple[str, ...]) -> int | None:
        """Return the branch whose output a step gives; of a step with branches, the one that the first field names."""
        if isinstance(self._layout.steps[step], BranchStep):
            return step
        fork = self._layout.forks.get(step)
        branches = fork.branches if fork is not None and fields else ()
        return next((one for one in branches if own_name(self._layout.steps[one].id) == fields[0]), None)

    def _ends(self, branch: int) -> Iterator[EndStep]:
        """Yield the steps that end a branch with success."""
        for number in self._layout.inside(branch):
            step = self._layout.steps[number]
            if self._layout.owner(number) == branch and isinstance(step, EndStep) and step.outcome == "success":
                yield step


def _below(meant: Resolution, fields: tuple[str, ...]) -> Resolution:
    return meant._replace(fields=(*meant.fields, *fields))
