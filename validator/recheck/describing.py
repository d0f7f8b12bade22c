"""What a value that a step gives has at each of its fields: plain data, and lists and objects that are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepward.validator.recheck.blocks import FAILS, UNDEFINED, Block, meet, of_value
from stepward.validator.recheck.built import field_at
from stepward.validator.recheck.evaluation import (
    Environment,
    references,
    values,
)
from stepward.validator.recheck.followed import DescribeField, Test
from stepward.validator.recheck.names import ABSENT, Names, inside
from stepward.vm.expressions.syntax import Expression, Reference


def written(value: Any) -> DescribeField:
    """Describe plain data."""

    def describe(fields: Names, _: bool) -> tuple[Test, bool]:
        field: Any = value
        for name in fields:
            field = inside(field, name)
        if field is ABSENT:
            return lambda _: False, True
        return lambda block: meet(block, of_value(field)), False

    return describe


def of_built(
    tree: Expression, whole: Iterable[Block], environment: Callable[[Iterable[Names]], Environment]
) -> DescribeField:
    """Describe a built value: each of its fields is what was put in there.

    `whole` are the blocks of the value itself; `environment` gives those of references.
    """
    wholes = tuple(whole)

    def describe(fields: Names, _: bool) -> tuple[Test, bool]:
        if not fields:
            return lambda block: any(meet(block, one) for one in wholes), False
        part, is_field, is_any = field_at(tree, fields)
        if part is None:
            return lambda _: is_any, True
        read = environment(references([part]))
        blocks = set(read[part.names]) if isinstance(part, Reference) else values(part, read) - {FAILS}
        return lambda block: any(meet(block, one) for one in blocks), is_field and UNDEFINED in blocks

    return describe
