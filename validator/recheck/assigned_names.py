"""The names that steps and bodies assign."""

from __future__ import annotations

from stepward.validator.recheck.names import Names
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.language.steps import AnyPart, Failing, ForEachStep, Stage, parts


def written_by(part: AnyPart) -> tuple[Names, ...]:
    """Return the variables that a step or sub-step assigns, and the names of its output."""
    names: tuple[Names, ...] = tuple((name,) for name in part.assigns)
    if isinstance(part, Failing):
        names += ((part.id, "output"), *(((part.output_key,),) if part.output_key is not None else ()))
    return names


def listed_by(part: AnyPart) -> tuple[Names, ...]:
    """Return the name of the errors of the items of a for_each step; none of any other step."""
    return ((part.id, "errors"),) if isinstance(part, ForEachStep) and not part.is_once else ()


def assigned_by(step: AnyPart) -> frozenset[Names]:
    """Return all names that a step assigns, its sub-steps included."""
    members = [part for _, part in parts(step)]
    errors = [(part.id, what) for part in members if isinstance(part, Failing) for what in ("error", "error_name")]
    return frozenset((*(name for part in members for name in written_by(part)), *errors, *listed_by(step)))


def _assigned_inside(reading: Parsed, owner: int) -> set[Names]:
    """Return all names that the steps of a body assign, with the items of steps in it."""
    names: set[Names] = set()
    for number in reading.layout.inside(owner):
        inner = reading.steps[number]
        if isinstance(inner, Stage):
            continue
        names |= assigned_by(inner)
        if isinstance(inner, ForEachStep):
            names.add((inner.item_name,))
            names |= {(inner.index_as,)} if inner.index_as is not None else set()
    return names


def body_names(reading: Parsed, owner: int) -> frozenset[Names]:
    """Return the names that belong to a body: what its steps assign and its items are, but not what these carry on."""
    step = reading.steps[owner]
    assert isinstance(step, ForEachStep)
    own = {(step.item_name,), *(((step.index_as,),) if step.index_as is not None else ())}
    return frozenset((_assigned_inside(reading, owner) | own) - {(name,) for name in step.carry})


def given_back(reading: Parsed, owner: int) -> tuple[str, ...]:
    """Return the carried variables that can have other values than before an item: some step of the body assigns
    them."""
    step = reading.steps[owner]
    if not isinstance(step, ForEachStep) or not step.carry:
        return ()
    assigned = {names[0] for names in _assigned_inside(reading, owner)}
    return tuple(name for name in step.carry if name in assigned)


def whole_names(step: ForEachStep) -> frozenset[Names]:
    """Return the names that a for_each step binds when it ends."""
    return assigned_by(step) - {(name,) for name in step.carry}
