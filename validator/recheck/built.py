"""What a built value of a `set` has at a field, as the language's page says it ("Steps")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple

from stepward.validator.recheck.cells import ARRAY, FAILS, OBJECT, TEXT, Block, joined_texts, list_of, of_value
from stepward.validator.recheck.names import ABSENT, Names, inside
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference

MAX_LISTS: Final = 64
"""The most lists, or texts, that are told apart by the blocks of what they are built from."""


class Held(NamedTuple):
    """The expression of a field, None where there is none; `is_field`: it is a field of what was put in."""

    tree: Expression | None
    is_field: bool = False


def held(tree: Expression, fields: Names) -> Held:
    """Return what a value has at some fields."""
    found: Expression | None = tree
    is_field = False
    for name in fields:
        match found:
            case Built(names=names, parts=parts):
                found = dict(zip(names, parts, strict=True)).get(name)
            case Reference(names=names):
                found, is_field = Reference(found.start, found.end, (*names, name)), True
            case Constant(value=value):
                value = inside(value, name)
                found = None if value is ABSENT else Constant(found.start, found.end, value)
            case _:
                return Held(None)
    return Held(found, is_field)


def together(parts: Sequence[set[Block]], *, is_list: bool) -> set[Block]:
    """Return the results of a list or an object; it fails if a part of it does."""
    failing: set[Block] = {FAILS} if any(FAILS in part for part in parts) else set()
    known = [part - {FAILS} for part in parts]
    if not all(known):
        return failing
    if not is_list:
        return {OBJECT, *failing}
    if prod(map(len, known)) > MAX_LISTS:
        anything = ARRAY._replace(low=len(known) - 1, high=len(known) + 1, items=frozenset().union(*known))
        return {anything, *failing}
    return {*map(list_of, product(*known)), *failing}


def filled(parts: Sequence[set[Block]]) -> set[Block]:
    """Return the texts of a template: known as far as its references are texts."""
    total: set[Block] = {of_value("")}
    for part in parts:
        texts = {block if block.kind in ("string", FAILS.kind) else TEXT for block in part}
        joined = {
            FAILS if FAILS in (left, right) else joined_texts(left, right) for left, right in product(total, texts)
        }
        total = joined if len(joined) <= MAX_LISTS else {TEXT, *(joined & {FAILS})}
    return total
