"""The table of functions: one row for each, with its name, its numbers of arguments and what it does.

The functions stand in the files of this package, by subject. Each gets the context and its arguments. It returns its
value; one that calls other functions is a generator. The table of specs/lisp.md is made from these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from stepward.vm.lisp.callables import Native
from stepward.vm.lisp.functions.function_table import FunctionEntry
from stepward.vm.lisp.limits import Limits, Meter


@cache
def rows() -> Mapping[str, FunctionEntry]:
    """Return all functions by name."""
    from stepward.vm.lisp.functions import (
        aggregates,
        arithmetic,
        collections,
        combinators,
        formatting,
        higher_order,
        json_texts,
        maps,
        ordering,
        patterns,
        predicates,
        sequences,
        sets,
        strings,
        walking,
    )

    shelves = (
        collections.SHELF,
        sequences.SHELF,
        higher_order.SHELF,
        combinators.SHELF,
        maps.SHELF,
        sets.SHELF,
        aggregates.SHELF,
        ordering.SHELF,
        predicates.SHELF,
        arithmetic.SHELF,
        strings.SHELF,
        formatting.SHELF,
        patterns.SHELF,
        json_texts.SHELF,
        walking.SHELF,
    )
    found: dict[str, FunctionEntry] = {}
    for shelf in shelves:
        for row in shelf.rows:
            assert row.name not in found, f"{row.name} has two rows"
            found[row.name] = row
    return found


_FREE: Final = Limits(memory=1 << 40)


@cache
def natives() -> Mapping[str, Native]:
    """Return the functions as values; they belong to no evaluation."""
    meter = Meter(_FREE)
    return {row.name: Native(meter, row.name, row.run, row.least, row.most, row.usage) for row in rows().values()}
