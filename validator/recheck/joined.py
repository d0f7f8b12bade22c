"""The outputs of parallel steps: objects with the outputs of sub-steps or branches ("Parallel", "Branches")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepward.validator.recheck.names import Names
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Built, Expression, Reference
from stepward.vm.language.steps import AnyPart, AnyStep, EndStep, ForEachStep, ParallelStep
from stepward.vm.language.types import TypeSpec


class Part(NamedTuple):
    """A field of the object of a step with branches: the output that it is, and whether that may be lacking."""

    output: Names
    may_lack: bool


def closing(reading: Parsed, owner: int) -> Iterator[int]:
    """Yield the steps that may end a body with success."""
    for number in reading.layout.inside(owner):
        closes = {one.closes for one in reading.control.transitions[number]}
        if reading.layout.owner(number) == owner and "SUCCESS" in closes:
            yield number


def always_ends_with_output(reading: Parsed, owner: int) -> bool:
    """Return whether a body that succeeds always has an output, because only `end` steps end it."""
    return all(isinstance(reading.steps[number], EndStep) for number in closing(reading, owner))


def end_trees(reading: Parsed, owner: int) -> list[Expression]:
    """Return what the `end` steps of a body give, in which each text is a template."""
    ends = [reading.steps[number] for number in closing(reading, owner)]
    return [built(one.output) for one in ends if isinstance(one, EndStep)]


def written_items(step: AnyStep) -> list[Expression]:
    """Return the items of a list that is written down in its for_each step; none of any other list."""
    return [built(one) for one in step.items] if isinstance(step, ForEachStep) and isinstance(step.items, tuple) else []


def parts_of(reading: Parsed, owner: int) -> dict[str, Part]:
    """Return the fields that the object of a step with branches can have; a branch without an `end` gives none."""
    fields: dict[str, Part] = {}
    for branch in reading.layout.forks[owner].branches:
        is_sure = always_ends_with_output(reading, branch)
        if is_sure or any(isinstance(reading.steps[number], EndStep) for number in closing(reading, branch)):
            name = reading.steps[branch].id
            fields[_last(name)] = Part((name, "output"), not is_sure)
    return fields


def object_of(reading: Parsed, owner: int) -> Built:
    """Return the object of a step with branches, built of what these give."""
    parts = parts_of(reading, owner)
    return Built(0, 0, tuple(parts), tuple(Reference(0, 0, one.output) for one in parts.values()), is_list=False)


def joined_outputs(reading: Parsed, number: int) -> tuple[Names, ...]:
    """Return the outputs that a stage puts into an object: those of the branches that it joins. Other stages have
    none."""
    fork = reading.layout.fork_of(number)
    return () if fork is None else tuple(one.output for one in parts_of(reading, fork.owner).values())


def type_of_branches(reading: Parsed, owner: int) -> TypeSpec:
    """Return the type of the object of a step with branches, each of which may give a value of any type."""
    parts = parts_of(reading, owner)
    return _object(dict.fromkeys(parts, None), [name for name, one in parts.items() if not one.may_lack])


def type_of_sub_steps(step: ParallelStep, output: Callable[[AnyPart], TypeSpec | None]) -> TypeSpec:
    """Return the type of the object of a step with sub-steps; `output` returns the type of one sub-step."""
    always = [_last(one.id) for one in step.parallel_steps if one.on_error != "skip"]
    return _object({_last(one.id): output(one) for one in step.parallel_steps}, always)


def _object(fields: dict[str, TypeSpec | None], always: list[str]) -> TypeSpec:
    return TypeSpec.model_construct(
        type=("object",),
        properties={name: spec or TypeSpec.model_construct() for name, spec in fields.items()},
        required=tuple(always),
        additional_properties=False,
    )


def _last(name: str) -> str:
    """Return the name that a step or a branch has in the program that it stands in."""
    return name.rsplit("/", maxsplit=1)[-1]
