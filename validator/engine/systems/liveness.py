"""Live references of a system at each node."""

from __future__ import annotations

from typing import Final

from stepward.validator.engine.systems.system import BAD, Computed, Edge, System
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.syntax import Built, Reference

MAX_NAMES: Final = 16
"""The most names of a reference; deeper fields are not followed, and so may be anything."""


class Liveness:
    """The references that are live at each node: some path reads them before their root is assigned."""

    def __init__(self, system: System, domains: Domains) -> None:
        self.domains = domains
        self._roots: dict[Names, Names] = {}
        self.at: dict[int, set[Names]] = {BAD: set()}
        before: dict[int, set[int]] = {}
        for node, edges in enumerate(system.edges):
            self.at[node] = set()
            for edge in edges:
                before.setdefault(edge.target, set()).add(node)
        pending = list(range(len(system.edges)))  # processed from its end
        waiting = set(pending)
        while pending:
            node = pending.pop()
            waiting.discard(node)
            live = self.at[node].union(*(self._through(edge) for edge in system.edges[node]))
            if len(live) > len(self.at[node]):
                self.at[node] = live
                for source in sorted(before.get(node, ())):
                    if source not in waiting:
                        waiting.add(source)
                        pending.append(source)

    def _root(self, names: Names) -> Names:
        if names not in self._roots:
            self._roots[names] = self.domains.root(names)
        return self._roots[names]

    def _through(self, edge: Edge) -> set[Names]:
        """Return the live references before an edge."""
        live = self.at[edge.target]
        for assign in reversed(edge.assigns):
            killed = {names for names in live if self._root(names) == assign.root}
            live = live - killed
            if isinstance(assign.value, Computed):
                tree = assign.value.tree
                live |= set(references_of([tree]))
                if isinstance(tree, Reference | Built):
                    copied = (leaf(tree, names[len(assign.root) :]).tree for names in killed)
                    live |= {one.names for one in copied if isinstance(one, Reference) and len(one.names) <= MAX_NAMES}
        trees = [tree for guard in edge.guards for tree in guard.decision.trees]
        return live.union(references_of(trees))
