"""Whether every value of a reference is of a type: values from outside, and what the program copies of them.

The machine holds the output of a call to its type. What a `set` copies or puts into an object, and what the `end` steps
of a branch give, is of the types of what it was made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from stepward.validator.analysis.filled_texts import Given, filled_type
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

    def are_of(self, resolution: Resolution | None, spec: TypeSpec) -> bool:
        """Return whether all values of a reference, while it has one, are certainly of a type."""
        return all(_is_of(given, spec) for given in self.behind(resolution))

    def is_filled_of(self, text: str, spec: TypeSpec) -> bool:
        """Return whether a text is certainly of a type when its references are replaced."""
        filled = filled_type(text, lambda names: self.behind(self._meaning.names.meaning(names)))
        return implies(filled if spec.pattern is not None else filled.model_copy(update={"pattern": None}), spec)

    def behind(self, resolution: Resolution | None) -> Iterator[Given]:
        """Yield types and constants that have all values of a reference, while it has one; None for any value."""
        if resolution is None:
            yield None
        else:
            yield from self._behind(resolution, set())

    def _behind(self, resolution: Resolution, visited: set[Location]) -> Iterator[Given]:
        for source in resolution.sources:
            yield from self._of_location((source, resolution.fields), visited)

    def _of_location(self, location: Location, visited: set[Location]) -> Iterator[Given]:
        """Yield what gives a location its values; names that copy one another add no values."""
        source, fields = location
        stated = self._meaning.typing.spec(location)
        if stated is not None or location in visited:
            yield from () if stated is None else (stated,)
            return
        if len(fields) > DEEPEST:
            yield None
            return
        visited.add(location)
        if source.kind == "item":
            listed = self._meaning.typing.copied(source)
            yield from [None] if listed is None else self._behind(_below(listed, fields), visited)
            return
        trees = list(self.trees(source, fields))
        if not trees:
            yield None
        for tree, inner in trees:
            yield from self._of_tree(tree, inner, visited)

    def _of_tree(self, tree: Expression, fields: tuple[str, ...], visited: set[Location]) -> Iterator[Given]:
        for leaf in leaves(tree, fields):
            match leaf.tree:
                case Reference(names=names) if not leaf.fields:
                    resolution = self._meaning.names.meaning(names)
                    yield from [None] if resolution is None else self._behind(resolution, visited)
                case Constant() as constant if not leaf.fields:
                    yield constant
                case None:
                    pass  # there is no value
                case _:
                    yield None

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


def _below(resolution: Resolution, fields: tuple[str, ...]) -> Resolution:
    return resolution._replace(fields=(*resolution.fields, *fields))


def _is_of(value: Given, spec: TypeSpec) -> bool:
    """Return whether all values of a type, or a constant, are of another type."""
    match value:
        case None:
            return False
        case Constant(value=constant):
            return fits(constant, spec)
        case TypeSpec():
            return implies(value, spec)
        case _:
            assert_never(value)
