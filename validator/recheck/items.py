"""What the block of a value says of the fields and items of the value."""

from __future__ import annotations

from stepward.validator.recheck.cells import Block
from stepward.vm.expressions.fields import index_of


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


def item_of(owner: Block, name: str) -> Block | None:
    """Return the block of the item at an index; None where nothing is known of it."""
    number = index_of(name)
    if number is None or owner.contents is None or number >= len(owner.contents):
        return None
    return owner.contents[number]
