"""Conditions that read one reference once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepward.vm.expressions.syntax import Compare, Constant, Defined, Expression, Logic, Negation, Reference, walk

_BY_BLOCK: Final = (Reference, Defined, Constant, Compare, Negation, Logic)
"""The nodes whose results for some blocks are those for each of the blocks."""


def reads_once(trees: Sequence[Expression]) -> bool:
    """Return whether there is one expression that compares one reference: then its blocks can be evaluated together."""
    if len(trees) != 1:
        return False
    nodes = list(walk(trees[0]))
    is_one = sum(isinstance(node, Reference | Defined) for node in nodes) == 1
    return is_one and all(isinstance(node, _BY_BLOCK) for node in nodes)
