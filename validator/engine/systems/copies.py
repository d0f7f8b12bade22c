"""The copies between references of a system, and the constants that it assigns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stepward.validator.engine.systems.system import AnyValue, Assign, Computed, Literal, System
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.states import with_owners, within
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference

MAX_REFERENCES: Final = 64
"""The default limit of references in all groups."""

MAX_DEPTH: Final = 64
"""The limit of fields of one reference: `b: {f: $b.f.f}` copies each field from a deeper one, without end."""


def equivalence_groups(system: System, domains: Domains, most: int = MAX_REFERENCES) -> list[list[Names]]:
    """Return the groups of references that are copied from one another, restricted to references that are read.

    Raises TooMany where there are too many, or where one is too deep.
    """
    from networkx.utils import UnionFind

    copies: dict[Names, list[Expression]] = {}
    for assign in assigns(system):
        if isinstance(assign.value, Computed) and isinstance(assign.value.tree, Reference | Built):
            copies.setdefault(assign.root, []).append(assign.value.tree)
    classes: UnionFind[Names] = UnionFind()
    # An object is copied with its fields, so the fields share their cuts as well.
    names = dict.fromkeys(with_owners(system.references, domains))
    pending = list(names)
    while pending:
        name = pending.pop()
        root = domains.root(name)
        for tree in copies.get(root, ()):
            origin = leaf(tree, name[len(root) :]).tree
            if not isinstance(origin, Reference):
                continue
            source = origin.names
            if len(source) > MAX_DEPTH:
                raise TooMany
            classes.union(source, name)
            for related in with_owners([source], domains):
                if related not in names:
                    names[related] = None
                    pending.append(related)
        if len(names) > most:
            raise TooMany
    groups: dict[Names, list[Names]] = {}
    for name in classes:
        groups.setdefault(classes[name], []).append(name)
    return list(groups.values())


def constants(system: System, domains: Domains, groups: list[list[Names]]) -> Iterator[tuple[Names, Any]]:
    """Yield the values that are assigned to references, and the texts that only some of their sources have."""
    set_to: dict[Names, list[Assign]] = {}
    for assign in assigns(system):
        set_to.setdefault(assign.root, []).append(assign)
    for name in dict.fromkeys((*system.references, *(name for group in groups for name in group))):
        root = domains.root(name)
        for assign in set_to.get(root, ()):
            fields = name[len(root) :]
            if isinstance(assign.value, Literal):
                yield name, within(assign.value.value, fields)
            elif isinstance(assign.value, Computed) and isinstance(assign.value.tree, Built):
                part = leaf(assign.value.tree, fields).tree
                yield from [(name, part.value)] if isinstance(part, Constant) else ()
            elif isinstance(assign.value, AnyValue):
                yield name, domains.given(assign.value.source, fields).texts


def assigns(system: System) -> dict[Assign, None]:
    """Return every assignment of a system, once."""
    return dict.fromkeys(one for edges in system.edges for edge in edges for one in edge.assigns)
