"""Whether all numbers of a reference are whole, by all that it is computed from, as this checker sees it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from stepward.validator.recheck.blocks import of_type
from stepward.validator.recheck.built import field_at
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import Origins, field_type
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Constant,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    children,
)

MAX_FOLLOWED: Final = 200
"""The most sources of a reference that are followed."""


def has_whole_numbers(origins: Origins, names: Names) -> bool:
    """Return whether a reference never is a number with decimal places."""
    pending, visited = [names], {names}
    while pending:
        resolution = origins.lookup.resolve(pending.pop())
        for source in resolution.sources if resolution is not None else ():
            read = _read(origins, source, resolution.fields) if resolution is not None else []
            if read is None or len(visited) > MAX_FOLLOWED:
                return False
            pending += [one for one in read if one not in visited]
            visited.update(read)
    return True


def _read(origins: Origins, source: Source, fields: Names) -> list[Names] | None:
    """Return the references whose numbers are whole only if those of a source are; None where others are not."""
    if source.kind != "set":
        blocks = of_type(field_type(origins.spec(source), fields)[0])
        numbers = [one for one in blocks if one.kind == "number"]
        return [] if all(one.whole or isinstance(one.value, int) for one in numbers) else None
    tree = origins.tree(source)
    if tree is None:
        return None
    if isinstance(tree, Built | Reference | Constant) and fields:
        part = field_at(tree, fields)
        return None if part.is_any else _of_tree(part.tree)
    return None if fields else _of_tree(tree)


def _of_tree(tree: Expression | None) -> list[Names] | None:
    match tree:
        case Constant(value=value):
            return None if isinstance(value, Decimal) else []
        case Reference(names=names):
            return [names]
        case Arithmetic() | Minus():
            references: list[Names] = []
            for part in children(tree):
                read = _of_tree(part)
                if read is None:
                    return None
                references += read
            return references
        case FunctionCall(function=function):
            return [] if function == "len" else None
    return []  # it is no number
