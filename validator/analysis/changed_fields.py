"""The fields of objects that `set` assigns: an object keeps its others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stepward.vm.expressions.inside import assigned_paths
from stepward.vm.language.meaning import Meaning

Names = tuple[str, ...]


def changed_paths(meaning: Meaning, number: int) -> frozenset[Names]:
    """Return the paths that a `set` assigns: a variable, and fields below it."""
    clauses = [one for one in meaning.clauses_of.get(number, ()) if one.is_of_fields]
    return frozenset(path for one in clauses if one.tree is not None for path in assigned_paths(one.tree))


def lost_by_set(meaning: Meaning, number: int) -> frozenset[Names]:
    """Return the names of which nothing is known any more behind a `set`: variables, or fields of which it assigns."""
    paths = changed_paths(meaning, number)
    names = frozenset((name,) for name in meaning.flow.steps[number].assigns)
    return names.difference(path[:1] for path in paths).union(paths)


def outside(names: Iterable[Names], changed: Collection[Names]) -> frozenset[Names]:
    """Return the names that are not among the changed ones, nor fields below one of these."""
    return frozenset(name for name in names if not any(name[: len(one)] == one for one in changed))
