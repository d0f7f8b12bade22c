"""What a branch or a call gives: the output of the `end` that its body reaches (specs/language.md, "Branches").

Its output changes where a step ends its body with success: to the value of an `end`, to nothing at any other step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from stepward.validator.recheck.assigned_names import written_by
from stepward.validator.recheck.blocks import FAILS, OBJECT, UNDEFINED, meet
from stepward.validator.recheck.definite import ended_by
from stepward.validator.recheck.describing import of_built
from stepward.validator.recheck.evaluation import Environment, references, values
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.followed import Changes, DescribeField, State, Test
from stepward.validator.recheck.joined import object_of, parts_of
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.reading import Reading
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Expression
from stepward.vm.language.steps import EndStep, ForEachStep, InvokeStep, ParallelStep


class Steps(Protocol):
    """The steps of a program, as far as the ends of bodies need them."""

    reading: Reading
    is_blind: bool

    def environment(self, names: Iterable[Names], step: int, state: State) -> Environment:
        """Return the possible blocks of references at the start of a step in a state."""

    def valued(self, roots: Sequence[Names], describe: DescribeField) -> Iterator[Changes]:
        """Yield the changes of roots that all get the same value."""

    def typed(self, source: Source) -> DescribeField:
        """Describe a value of the type of a source."""

    def together(self, choices: Sequence[Iterable[Changes]]) -> Iterator[Changes]:
        """Yield every combination of changes that are applied one after the other."""

    def undefined(self, root: Names) -> Iterator[Changes]:
        """Yield the change that makes a root undefined."""


def outputs_of(reading: Reading, number: int) -> list[tuple[Names, Expression]]:
    """Return the names that an `end` gives a value because it ends a branch or a call, each with that value."""
    owner, end = ended_by(reading, number), reading.steps[number]
    if owner is None or not isinstance(end, EndStep):
        return []
    return [(name, built(end.output)) for name in _roots(owner)]


def trees_of(reading: Reading, source: Source) -> list[Expression]:
    """Return the expressions that give a source its values: of a `set`, of the ends of a branch or a call, or of
    branches."""
    if source.kind == "set":
        tree = reading.origins.tree(source)
        return [] if tree is None else [tree]
    if source.kind == "output" and source.step in reading.layout.forks:
        return [object_of(reading, source.step)]
    if source.kind != "output" or source.sub is not None or source.step not in reading.layout.bodies:
        return []
    return [
        tree
        for number in reading.layout.inside(source.step)
        if reading.layout.owner(number) == source.step
        for _, tree in outputs_of(reading, number)[:1]
    ]


def _roots(owner: ForEachStep) -> list[Names]:
    return [root for root in written_by(owner) if root[0] not in owner.assigns]


def given_by_body(steps: Steps, number: int, state: State, exit_: Exit) -> Iterator[Exit]:
    """Yield an exit with the output of the branch or the call that it ends; none where its caller takes no output."""
    owner = ended_by(steps.reading, number) if exit_.transition.closes == "SUCCESS" else None
    if owner is None or steps.is_blind:
        yield exit_
        return
    roots = _roots(owner)
    end = steps.reading.steps[number]
    if not isinstance(end, EndStep):
        outputs = steps.together([steps.undefined(root) for root in roots])
    else:
        outputs = _of_end(steps, number, end, state, owner, roots)
    for change in outputs:
        yield from (exit_._replace(changes=both) for both in steps.together([[exit_.changes], [change]]))


def given_by_branches(steps: Steps, owner: int, step: ParallelStep, state: State) -> Iterator[Changes]:
    """Yield the changes by which a step with branches gets its output: an object with what these have given."""
    parts = parts_of(steps.reading, owner)

    def describe(fields: Names, _: bool) -> tuple[Test, bool]:
        if not fields:
            return lambda block: meet(block, OBJECT), False
        part = parts.get(fields[0])
        if part is None:
            return lambda _: False, True
        name = (*part.output, *fields[1:])
        blocks = steps.environment([name], join, state)[name]
        is_sure = not fields[1:] and not part.may_lack
        return lambda block: any(meet(block, one) for one in blocks), UNDEFINED in blocks and not is_sure

    join = steps.reading.layout.forks[owner].join
    yield from steps.valued(written_by(step), describe)


def _of_end(
    steps: Steps, number: int, end: EndStep, state: State, owner: ForEachStep, roots: list[Names]
) -> Iterator[Changes]:
    """Yield the changes by which a body gets the output of an `end`, in which each text is a template."""
    tree = built(end.output)
    results = values(tree, steps.environment(references([tree]), number, state)) - {FAILS}
    described = of_built(tree, results, lambda names: steps.environment(names, number, state))
    if isinstance(owner, InvokeStep):  # the machine refuses what is not of the type that the caller takes
        typed = steps.typed(Source("output", owner.id, *steps.reading.lookup.calls[owner.id]))
        if not any(map(typed((), False)[0], results)):
            return
        described = _both(described, typed)
    yield from steps.valued(roots, described)


def _both(left: DescribeField, right: DescribeField) -> DescribeField:
    """Describe a value of which two descriptions are right."""

    def describe(fields: Names, is_inside: bool) -> tuple[Test, bool]:
        (first, may_lack), (second, may_too) = left(fields, is_inside), right(fields, is_inside)
        return lambda block: first(block) and second(block), may_lack and may_too

    return describe
