"""What a built value of a `set` has at a field, as the language's page says it ("Steps")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from math import prod
from typing import Final, NamedTuple

from stepward.validator.recheck.blocks import ARRAY, FAILS, OBJECT, TEXT, Block, joined_texts, list_of, of_value
from stepward.validator.recheck.names import ABSENT, ITEMS, Names, inside
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, children

MAX_LISTS: Final = 64
"""The most lists, or texts, that are told apart by the blocks of what they are built from."""


class FieldValue(NamedTuple):
    """The expression of a field, None where there is none; `is_field`: it is a field of what was put in.

    `is_any`: it may have any value, or none, because it is in an array that is joined.
    """

    tree: Expression | None
    is_field: bool = False
    is_any: bool = False


def field_at(tree: Expression, fields: Names) -> FieldValue:
    """Return the value at some fields of an expression. A changed object has all unchanged fields of its base."""
    part: Expression | None = tree
    is_field = False
    for name in fields:
        match part:
            case Built(names=names, parts=parts, base=base):
                part = dict(zip(names, parts, strict=True)).get(name)
                if part is None and base is not None:
                    part, is_field = Reference(base.start, base.end, (*base.names, name)), True
            case Reference(names=names):
                part, is_field = Reference(part.start, part.end, (*names, name)), True
            case Constant(value=value):
                value = inside(value, name)
                part = None if value is ABSENT else Constant(part.start, part.end, value)
            case Arithmetic(joins=joins) if joins and index_of(name) is not None:
                return FieldValue(None, is_any=True)
            case _:
                return FieldValue(None)
    return FieldValue(part, is_field)


def spread(tree: Expression, fields: Names) -> Iterator[FieldValue]:
    """Yield the values at some fields of an expression; the field `[]` stands for every item of a list."""
    if ITEMS not in fields:
        yield field_at(tree, fields)
        return
    index = fields.index(ITEMS)
    whole, rest = field_at(tree, fields[:index]), fields[index + 1 :]
    match whole.tree:
        case Built(is_list=True, parts=parts):
            for part in parts:
                yield from spread(part, rest)
        case Constant(start=start, end=end, value=value):
            for item in value if isinstance(value, tuple | list) else ():
                yield from spread(Constant(start, end, item), rest)
        case Reference(start=start, end=end, names=names):
            yield FieldValue(Reference(start, end, (*names, ITEMS, *rest)), True)
        case Arithmetic(joins=joins) if joins:
            for part in children(whole.tree):  # an item of what is joined is one of a part
                yield from spread(part, (ITEMS, *rest))
        case None if not whole.is_any:
            pass  # there is no list
        case _:
            yield FieldValue(None, is_any=True)


def changed_paths(tree: Expression | None) -> Iterator[Names]:
    """Yield the paths of a variable that an assignment of fields changes; none for any other assignment."""
    if not isinstance(tree, Built) or tree.base is None:
        return
    for name, part in zip(tree.names, tree.parts, strict=True):
        if isinstance(part, Built) and part.base is not None:
            yield from changed_paths(part)
        else:
            yield (*tree.base.names, name)


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


def changed(base: set[Block], results: set[Block]) -> set[Block]:
    """Return the results of an object of which fields are changed; it fails where its base is no object."""
    are_objects = {block.kind == "object" for block in base}
    return {*(results if True in are_objects else ()), *([FAILS] if False in are_objects else ())}


def filled(parts: Sequence[set[Block]]) -> set[Block]:
    """Return the possible texts of a template, from the texts as which its references are written."""
    total: set[Block] = {of_value("")}
    for part in parts:
        texts = {block if block.kind in ("string", FAILS.kind) else _written(block) for block in part}
        joined = {
            FAILS if FAILS in (left, right) else joined_texts(left, right) for left, right in product(total, texts)
        }
        total = joined if len(joined) <= MAX_LISTS else {TEXT, *(joined & {FAILS})}
    return total


def _written(block: Block) -> Block:
    """Return the text as which values of a block are written in a longer text."""
    text = text_of(block)
    return TEXT if text is None else of_value(text)


def text_of(block: Block) -> str | None:
    """Return the text of the only value of a block; None where it has several, or an object.

    Numbers are in plain digits. A list is JSON, in which texts are in quotes.
    """
    if block.contents is not None:
        items = [text_of(one) for one in block.contents]
        known = [
            json.dumps(text, ensure_ascii=False) if one.kind == "string" else text
            for one, text in zip(block.contents, items, strict=True)
            if text is not None
        ]
        return f"[{', '.join(known)}]" if len(known) == len(items) else None
    if not block.single:
        return None
    match block.kind:
        case "string":
            return str(block.value)
        case "number":
            digits = format(Decimal(block.value), "f")
            return (digits.rstrip("0").rstrip(".") if "." in digits else digits) if block.value else "0"
        case "null":
            return "null"
        case "boolean":
            return "true" if block.value else "false"
    return None
