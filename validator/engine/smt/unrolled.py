"""Bounded search: the block formula of a system whose back edges are taken at most K times, K = 0, 1, 2, 4, 8, ...

Every node is copied for each number of back edges taken before; the copies have no cycle, so that the formula of K is
unsatisfiable iff no path that takes at most K back edges leads to BAD, and what it finds is a path of the system. A
system without cycles is decided by K = 0; else the absence of short paths proves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt import blocks
from stepward.validator.engine.smt.answers import Answer, unknown
from stepward.validator.engine.smt.plans import useful
from stepward.validator.engine.systems.system import BAD, ENTRY, Edge, Path, System, back_edges
from stepward.validator.engine.values.domains import Domains
from stepward.validator.findings import Verdict

LAYER: Final = "bounded search"

MAX_NODES: Final = 20_000
"""Copies of nodes in one formula."""


def search(system: System, domains: Domains, *, units: int, clock: Clock, nodes: int = MAX_NODES) -> Answer:
    """Look for a path to BAD that takes few back edges; `units` and `nodes` bound the work."""
    back = back_edges(system)
    left, bound, done = units, 0, "no path was searched"
    while True:
        copies = _Copies(system, back, bound, nodes)
        if copies.are_too_many:
            return unknown(LAYER, f"{done}; more would take over {nodes:,} nodes", units - left)
        answer = blocks.explore(copies.system, domains, left, clock, LAYER, system.references)
        left -= answer.units
        if answer.path is not None:
            assert answer.is_exact, "a system without cycles has no loop whose doing is guessed"
            return replace(answer, path=copies.original(answer.path), units=units - left)
        if copies.are_all:
            return replace(answer, units=units - left)
        if answer.verdict is Verdict.UNKNOWN:
            return unknown(LAYER, f"{done}; then {answer.reason}", units - left)
        done = f"no violation on paths that return at most {bound} times to where they have been"
        bound = bound * 2 or 1


class _Copies:
    """Copies of a system's nodes, one for each number of back edges taken before, and the system that they form."""

    def __init__(self, system: System, back: frozenset[tuple[int, int]], bound: int, nodes: int) -> None:
        alive = useful(system)
        self.are_all = True
        """Whether every path is one of the copies'."""
        self._number: dict[tuple[int, int], int] = {(ENTRY, 0): ENTRY}
        self._origin: list[tuple[int, list[Edge]]] = []
        pending = [(ENTRY, 0)]
        edges: list[tuple[Edge, ...]] = []
        for node, taken in pending:  # grows while it is read
            if len(pending) > nodes:
                break
            copied, kept = [], []
            for position, edge in enumerate(system.edges[node]):
                after = (edge.target, taken + ((node, position) in back))
                if edge.target not in alive:
                    continue
                if after[1] > bound:
                    self.are_all = False
                    continue
                if edge.target != BAD and after not in self._number:
                    self._number[after] = len(pending)
                    pending.append(after)
                copied.append(edge if edge.target == BAD else edge._replace(target=self._number[after]))
                kept.append(edge)
            edges.append(tuple(copied))
            self._origin.append((node, kept))
        self.are_too_many = len(pending) > nodes
        self.system = replace(system, edges=tuple(edges))

    def original(self, path: Path) -> Path:
        """Return the path of the system that a path of the copies is."""
        steps = []
        for step in path.steps:
            node, kept = self._origin[step.node]
            position = next(number for number, edge in enumerate(self.system.edges[step.node]) if edge is step.edge)
            steps.append(step._replace(node=node, edge=kept[position]))
        return path._replace(steps=tuple(steps))
