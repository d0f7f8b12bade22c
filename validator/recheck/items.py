"""What the block of a value says of the fields and items of the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stepward.validator.recheck.blocks import Block
from stepward.validator.recheck.names import Names
from stepward.vm.expressions.fields import index_of

Blocks = Sequence[Block]


def may_have(owner: Block, name: str) -> bool:
    """Return whether some value of a block can have a field, or an item at an index."""
    number = index_of(name)
    if number is None:
        return owner.kind == "object"
    return owner.kind == "array" and (owner.high is None or owner.high - 1 > number)


def surely_has(owner: Block, name: str) -> bool:
    """Return whether every array of a block has an item at an index."""
    number = index_of(name)
    return number is not None and owner.kind == "array" and owner.low is not None and owner.low + 1 > number


def split_by_length(fields: Iterable[Names], environment: Mapping[Names, Blocks]) -> dict[Names, Blocks]:
    """Return an environment with two blocks for an array of which an item is read: with that item, and without it."""
    split = dict(environment)
    for *owner, field in fields:
        if index_of(field) is not None and split[tuple(owner)]:
            split[tuple(owner)] = tuple(part for block in split[tuple(owner)] for part in _parts(block, field))
    return split


def _parts(owner: Block, field: str) -> Blocks:
    number = index_of(field)
    is_open = owner.kind == "array" and not owner.single and owner.contents is None
    if number is None or not is_open or surely_has(owner, field) or not may_have(owner, field):
        return (owner,)
    return owner._replace(high=number + 1), owner._replace(low=number)


def item_of(owner: Block, name: str) -> Block | None:
    """Return the block of the item at an index; None where nothing is known of it."""
    number = index_of(name)
    if number is None or owner.contents is None or number >= len(owner.contents):
        return None
    return owner.contents[number]
