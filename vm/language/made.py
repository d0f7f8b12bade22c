"""Values that `set` makes of others: lists and objects that it builds, and arrays that `+` joins."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.vm.expressions.building import built
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.inside import Leaf, leaves
from stepward.vm.expressions.operands import kind_of, result_kinds
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, children
from stepward.vm.language.names import Names, Resolution
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.views import View


def made_of(tree: Expression | None, fields: tuple[str, ...]) -> list[Leaf]:
    """Return the expressions that give some fields of a built value, or of the items of a joined array.

    None for any other expression: what it copies or computes is known otherwise.
    """
    if isinstance(tree, Built):
        found = [(leaf, made_of(leaf.tree, leaf.fields) if leaf.fields else []) for leaf in leaves(tree, fields)]
        return [one for leaf, inner in found for one in (inner or [leaf])]
    if fields[:1] != (ITEMS,):
        return []
    parts = (part for part in joined_parts(tree) if isinstance(part, Built | Constant | Reference))
    return [leaf for part in parts for leaf in leaves(part, fields)]


def written_list(step: ForEachStep) -> Built | None:
    """Return the list that is written down in a for_each step; None for any other list."""
    if not isinstance(step.items, tuple):
        return None
    parts = tuple(built(one) for one in step.items)
    return Built(0, 0, tuple(f"[{number}]" for number in range(len(parts))), parts, is_list=True)


def meaning_of(names: Names, tree: Expression | None) -> Resolution | None:
    """Return what a reference resolves to; None for any other expression."""
    return names.meaning(tree.names) if isinstance(tree, Reference) else None


def is_joined(tree: Expression | None) -> bool:
    """Return whether an expression is a `+` of language 2."""
    return isinstance(tree, Arithmetic) and bool(tree.joins)


def joined_parts(tree: Expression | None) -> list[Expression]:
    """Return the operands of a `+` of language 2, those inside of it too; none for any other expression."""
    return list(joined_operands(tree)) if tree is not None and is_joined(tree) else []


def joined_operands(array: Expression) -> Iterator[Expression]:
    """Yield the arrays that a `+` joins, or the array itself."""
    if isinstance(array, Arithmetic):
        for part in children(array):
            yield from joined_operands(part)
    else:
        yield array


def leaf_view(leaf: Leaf) -> View:
    """Return the view of a part of a built value that is no reference, or of its fields."""
    if leaf.fields and is_joined(leaf.tree):
        return View(optional=True, is_known=False)
    if leaf.tree is None or leaf.fields:
        return View(never=True)
    return View(kind_of(leaf.tree.value) if isinstance(leaf.tree, Constant) else result_kinds(leaf.tree))
