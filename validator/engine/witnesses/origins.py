"""Where values come from: the inputs, and the answers of calls, that the steps of a program copy them from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN
from stepward.validator.engine.witnesses.choices import Location
from stepward.validator.findings import Move
from stepward.vm.expressions.building import built
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.syntax import Expression, Reference, all_references
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.steps import EndStep, ForEachStep

MAX_CHASED: Final = 8
"""The longest chain of copies that is followed to the source of a value."""

START: Final = -1
"""The position of inputs, which are there before a path begins."""


class Origin(NamedTuple):
    """An input, or the answer of a call at a position on a path, and the fields of it that a value is."""

    position: int
    source: Source
    fields: tuple[str, ...]


def origin_at(
    facts: ProgramFacts, path: Sequence[Move], position: int, names: tuple[str, ...], left: int = MAX_CHASED
) -> Origin | None:
    """Return where the value comes from that a reference has before a position of a path; None if it is no copy."""
    resolution = facts.meaning.names.meaning(names)
    positions = (
        [(_last(facts, path, position, source), source) for source in resolution.sources]
        if resolution is not None
        else []
    )
    known = [(at, source) for at, source in positions if at is not None]
    if resolution is None or not known or left == 0:
        return None
    at, source = max(known, key=lambda one: one[0])
    if is_outside(facts, source):
        return Origin(at, source, resolution.fields)
    tree, fields = facts.meaning.typing.tree(source), resolution.fields
    if source.kind == "output":
        tree = _ended(facts, facts.flow.position[path[at].step])
    elif source.kind == "item" and source.step is not None:
        each = facts.bodies.step_of(source.step)
        at, number = _round(path, at, each.id)
        tree, fields = built(each.items), (f"[{number}]", *fields)
    part = None if tree is None else leaf(tree, fields).tree
    return origin_at(facts, path, at, part.names, left - 1) if isinstance(part, Reference) else None


def is_outside(facts: ProgramFacts, source: Source) -> bool:
    """Return whether a witness says the values of a source: it is an input, or the output of a call from outside."""
    step = facts.flow.steps[source.step] if source.step is not None else None
    return source.kind == "input" or (source.kind == "output" and not isinstance(step, ForEachStep))


def _last(facts: ProgramFacts, path: Sequence[Move], position: int, source: Source) -> int | None:
    """Return the last position before another one at which a source gives a value; None if it has given none."""
    if source.kind == "input":
        return START
    if source.step is None or source.kind not in ("output", "set", "item"):
        return None
    steps = {facts.flow.steps[source.step].id}
    if not is_outside(facts, source) and source.kind == "output":
        body = [one for one in facts.flow.layout.bodies if one == source.step]
        steps = {facts.flow.steps[number].id for owner in body for number in facts.flow.layout.inside(owner)}
    for at in range(position - 1, -1, -1):
        move = path[at]
        if move.step in steps and (source.kind != "item" or move.how == ON_TO_ITEM):
            return at if source.kind != "output" or is_outside(facts, source) or move.closes else None
    return None


def _ended(facts: ProgramFacts, number: int) -> Expression | None:
    """Return what a step gives that ends the body of a call or of a branch; None if it gives nothing."""
    step = facts.flow.steps[number]
    return built(step.output) if isinstance(step, EndStep) else None


def _round(path: Sequence[Move], item: int, each: str) -> tuple[int, int]:
    """Return the position at which a for_each step was started or tried again, and the index of an item since then."""
    count = 0
    for at in range(item - 1, -1, -1):
        move = path[at]
        if move.step == each or (move.step == f"{each} failed" and move.how == TRIES_AGAIN):
            return at, count
        count += move.step == f"{each} next" and move.how == ON_TO_ITEM
    return 0, count


# -- on all paths ------------------------------------------------------------------------------------------------------


def origins(facts: ProgramFacts, resolution: Resolution | None) -> Iterator[Location]:
    """Yield where the value of a reference may come from, also what it is calculated from; an item is any of its
    list."""
    visited: set[Resolution | None] = {None}
    pending = [resolution]
    for _ in range(MAX_CHASED):
        following: list[Resolution | None] = []
        for current in pending:
            if current is None or current in visited:
                continue
            visited.add(current)
            for source in current.sources:
                if is_outside(facts, source):
                    yield source, current.fields
                else:
                    following += _copied(facts, source, current.fields)
        pending = following


def _copied(facts: ProgramFacts, source: Source, fields: tuple[str, ...]) -> Iterator[Resolution | None]:
    """Yield what a value is copied from, or the references from which it is calculated."""
    names, typing = facts.meaning.names, facts.meaning.typing
    copied = typing.copied(source)
    if copied is not None:
        yield copied._replace(fields=(*copied.fields, *fields))
        return
    trees = [typing.tree(source)]
    if source.kind == "output" and source.step in facts.flow.layout.bodies:
        trees = [_ended(facts, number) for number in facts.flow.layout.inside(source.step)]
    for tree in trees:
        part = leaf(tree, fields).tree if tree is not None and ITEMS not in fields else tree
        yield from (names.meaning(one.names) for one in (all_references(part) if part is not None else ()))
