"""Scopes: which names belong to the body of a step, and which ones a body must not assign (specs/language.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.language.layout import Layout
from stepward.vm.language.names import assigned_path
from stepward.vm.language.steps import AnyStep, Failing, ForEachStep, parts
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.vm.language.program import Program


class Binding(NamedTuple):
    """A name that a body or a list of steps binds: the position of the step, and the path of the name.

    `of_item`: a for_each step binds it for each item, by `as` or `index_as`.
    """

    name: str
    step: int
    path: Path
    of_item: bool = False


class Crossing(NamedTuple):
    """A name that a body binds although it belongs to the world around; `around` is where that binds it."""

    binding: Binding
    around: Path


def bound_by(layout: Layout, number: int) -> Iterator[Binding]:
    """Yield the names that a step binds in its own list: by `set`, `carry` and `output_key`."""
    step = layout.steps[number]
    for name in step.assigns:
        yield Binding(name, number, assigned_path(layout, number, name))
    for sub, part in parts(step):
        if isinstance(part, Failing) and part.output_key is not None:
            yield Binding(part.output_key, number, (*layout.path(number, sub), "output_key"))


def bound_in(layout: Layout, owner: int | None) -> Iterator[Binding]:
    """Yield the names that a body binds for itself, or the program's own list; those of bodies in it are not among
    them."""
    if owner is not None:
        yield from item_bindings(layout, owner)
    for number in range(len(layout.steps)) if owner is None else layout.inside(owner):
        if layout.owner(number) == owner:
            yield from bound_by(layout, number)


def item_bindings(layout: Layout, owner: int) -> Iterator[Binding]:
    """Yield the names that a for_each step binds for each item."""
    step = layout.steps[owner]
    assert isinstance(step, ForEachStep)
    if step.is_once:
        return
    yield Binding(step.item_name, owner, (*layout.path(owner), "as"), of_item=True)
    if step.index_as is not None:
        yield Binding(step.index_as, owner, (*layout.path(owner), "index_as"), of_item=True)


def carried(step: AnyStep) -> frozenset[str]:
    """Return the variables that the items of a step carry on."""
    return frozenset(step.carry) if isinstance(step, ForEachStep) else frozenset()


def local_names(layout: Layout, owner: int) -> frozenset[str]:
    """Return the variables of a body, those of bodies in it included, without those that its items carry on."""
    names = {binding.name for binding in bound_in(layout, owner)}
    for number in layout.inside(owner):
        if number in layout.bodies:
            names |= local_names(layout, number)
    return frozenset(names) - carried(layout.steps[owner])


def crossings(program: Program) -> Iterator[Crossing]:
    """Yield the names that a body binds although they are inputs, or the steps around assign them."""
    layout = program.layout
    inputs: dict[str, Path] = {name: ("inputs", name) for name in program.inputs or ()}
    known: dict[int | None, dict[str, Path]] = {}
    for owner in layout.bodies:
        around = dict(inputs)
        for outer in (None, *layout.owners_of(owner)):
            if outer not in known:
                known[outer] = {binding.name: binding.path for binding in bound_in(layout, outer)}
            around |= known[outer]
        free = carried(layout.steps[owner])
        for binding in bound_in(layout, owner):
            if binding.name in around and (binding.of_item or binding.name not in free):
                yield Crossing(binding, around[binding.name])
