"""Whether all numbers that a reference can have are whole: sums and products of whole numbers are."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from stepward.validator.engine.values.domains import Domains, Names
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.operators import FUNCTIONS
from stepward.vm.expressions.paths import Paths
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Constant,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    children,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Source
from stepward.vm.values import freeze

MAX_SOURCES: Final = 200
"""The most sources that are followed: a field may copy a field of itself without end."""


def is_whole(meaning: Meaning, domains: Domains, names: Names) -> bool:
    """Return whether every number of a reference is certainly whole, by everything that it is computed from."""
    trees: list[Expression] = [Reference(0, 0, names)]
    visited = set[tuple[Source, tuple[str, ...]]]()
    while trees:
        match trees.pop():
            case Constant(value=value):
                if isinstance(value, Decimal):
                    return False
            case FunctionCall(function=function):
                if FUNCTIONS[function].asks != "length":
                    return False
            case Arithmetic() | Minus() as node:
                trees += children(node)
            case Reference(names=read):
                resolution = meaning.names.meaning(read)
                locations = [] if resolution is None else [(source, resolution.fields) for source in resolution.sources]
                for location in locations:
                    sources = [] if location in visited else _given(meaning, domains, *location)
                    visited.add(location)
                    if sources is None or len(visited) > MAX_SOURCES:
                        return False
                    trees += sources
            case _:
                pass  # no number: it fails where one is required
    return True


def _given(meaning: Meaning, domains: Domains, source: Source, fields: tuple[str, ...]) -> list[Expression] | None:
    """Return the expressions that give a source its value; None where some number of it may not be whole."""
    if source.kind != "set":
        return [] if all(one.integral for one in domains.given(source, fields).ranges) else None
    assert source.step is not None
    tree, value = meaning.typing.tree(source), meaning.flow.steps[source.step].assigns[source.name]
    if tree is None:
        if isinstance(value, str | Paths):
            return None
        tree = Constant(0, 0, freeze(value))
    part = leaf(tree, fields)
    if part.tree is not None and part.fields:
        return None
    return [] if part.tree is None else [part.tree]
