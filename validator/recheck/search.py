"""A search of this checker's own, beside a formula: does its own reading of the language find a way to break the rule?

A formula says nothing of the program by itself. Where the states are few, all of them are looked at here, with cells
that are cut at the constants of the program's expressions; what can't be broken in any of them is ruled out without a
word of the engine. A way that is found shows nothing, for cells may stand for more values than there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from stepward.validator.recheck.cells import OPEN, Cell, Refused, cut
from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.origins import Names, Origins, prefixes
from stepward.validator.recheck.rules import NeverWatcher, Watcher
from stepward.validator.recheck.steps import Followed
from stepward.validator.recheck.tables import Pair, Places, Walk, told_apart
from stepward.vm.expressions.syntax import Constant, Expression, walk
from stepward.vm.language.meaning import Meaning

MAX_STATES: Final = 4_000
"""States that are looked at."""

MAX_POINTS: Final = 12
"""Whole numbers of a type that are each a cell."""


def searched(meaning: Meaning, watcher: Watcher) -> Places | None:
    """Return what is not ruled out by looking at all states; None where they are too many."""
    walk_ = Walk(meaning, watcher)
    trees = [clause.tree for clause in meaning.clauses if clause.tree is not None]
    if isinstance(watcher, NeverWatcher) and watcher.when is not None:
        trees.append(watcher.when)
    names = _followed(meaning, trees)
    origins = Origins(meaning)
    constants = {_key(one): one for tree in trees for one in _constants(tree)}
    followed = Followed(names, [_cells(origins, name, constants.values()) for name in names])
    steps = walk_.steps(followed)
    first = tuple(
        OPEN if origins.is_input(origins.root(name)) else followed.gone[slot] for slot, name in enumerate(names)
    )
    try:
        seen: set[tuple[Pair, tuple[int, ...]]] = {(walk_.first(counts=True), first)}
        pending = list(seen)
        while pending:
            pair, written = pending.pop()
            for state in told_apart(steps, pair.step, written):
                for target, changes, _ in walk_.targets(steps, pair, state, 0):
                    moved = list(state)
                    for slot, cell in changes:
                        moved[slot] = cell
                    after = (target, tuple(moved))
                    if after not in seen:
                        seen.add(after)
                        pending.append(after)
                        if len(seen) > MAX_STATES:
                            return None
    except Refused:
        return None
    return walk_.broken


def _followed(meaning: Meaning, trees: list[Expression]) -> list[Names]:
    """Return the references that expressions and arguments read, and what holds them."""
    found: dict[Names, None] = {}
    for name in (*references(trees), *(name for site in meaning.calls for name in read_by(site.call))):
        meant = meaning.names.meaning(name)
        if meant is not None:
            depth = len(name) - len(meant.fields)
            found.update(dict.fromkeys(one for one in prefixes(name) if len(one) >= depth))
    return list(found)


def _constants(tree: Expression) -> Iterable[Any]:
    for node in walk(tree):
        if isinstance(node, Constant):
            yield from node.value if isinstance(node.value, tuple) else (node.value,)


def _key(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value


def _cells(origins: Origins, name: Names, constants: Iterable[Any]) -> tuple[Cell, ...]:
    """Return the cells of a reference: cut at all constants, and at each of the few values of its type."""
    origin = origins.of(name)
    values = [*constants, *(cell.value for cell in origin.cells if cell.single)]
    for cell in origin.cells:
        low, high = cell.low, cell.high
        if cell.kind == "number" and cell.whole and low is not None and high is not None and high - low <= MAX_POINTS:
            values += range(int(low) + 1, int(high))
    kinds = {cell.kind for cell in origin.cells}
    texts = [one for one in values if isinstance(one, str) and "string" in kinds]
    numbers = [one for one in values if isinstance(one, int | Decimal) and type(one) is not bool and "number" in kinds]
    return cut([Cell("number", True, one) for one in numbers] + [Cell("string", True, one) for one in texts])
