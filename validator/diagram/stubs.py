"""Thins a picture out: an edge that would cross much of it, or crowd one step, ends in a stub and begins at another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from stepward.validator.diagram.columns import columns_of
from stepward.validator.diagram.picture import Box, Edge, EdgeKind, Line, Node, Picture, Tone, holders
from stepward.validator.diagram.ranks import BOX_RANKS, ranks_of
from stepward.validator.diagram.words import COLUMNS, shortened, wrapped

MAX_ERROR_EDGES: Final = 3
"""Error routes to one step that are drawn as edges; if there are more, each is a line of the node it starts from."""

MAX_EDGES: Final = 6
"""Other edges to one step; if there are more, all but the nearest are cut."""

MAX_SPAN: Final = 10
"""Ranks that an edge may lead down or up; a longer one is cut."""

_NAMES: Final = 2
"""Steps that a stub names; it counts more of them."""

_ERRORS: Final[tuple[EdgeKind, ...]] = ("error", "visits")


def with_stubs(picture: Picture) -> Picture:
    """Return a picture without the edges that are hard to follow: stubs at both ends, or lines, stand for them.

    The edges of the path that is drawn, and of the step that the picture is about, are only cut between columns.
    """
    holder = holders(picture.nodes)
    between = _between(picture)
    free = {edge for edge in picture.edges if edge.is_walked or not between >= {holder[edge.start], holder[edge.end]}}
    listed = set(_listed(picture, holder)) - free
    drawn = [edge for edge in picture.edges if edge not in listed]
    shared = dict.fromkeys(holder[edge.end] for edge in picture.edges if edge in listed)
    to_shared = (edge for edge in drawn if picture.is_brief and holder[edge.end] in shared)
    cut = {*to_shared, *_crowding(picture, drawn, holder)} - free
    drawn = [edge for edge in drawn if edge not in cut]
    ranks = ranks_of(picture.nodes, drawn)
    cut.update(edge for edge in drawn if edge not in free and _is_long(edge, ranks, holder))
    columns = columns_of(picture, [edge for edge in drawn if edge not in cut], ranks)
    column = {name: number for number, names in enumerate(columns) for name in names}
    cut.update(edge for edge in drawn if column.get(holder[edge.start]) != column.get(holder[edge.end]))
    drawn = [edge for edge in drawn if edge not in cut]
    tops = [_top(names, drawn, holder, ranks) for names in columns]
    lonely = shared.keys() - {holder[edge.end] for edge in drawn}
    return _Thinned(picture, listed, cut).picture(tops)._replace(aside=_aside(picture, lonely, holder))


def _top(names: Sequence[str], drawn: Iterable[Edge], holder: Mapping[str, str], ranks: Mapping[str, int]) -> str:
    """Return the first node of the largest connected part of a column."""
    joined: dict[str, set[str]] = {name: {name} for name in names}
    for edge in drawn:
        one, other = joined.get(holder[edge.start]), joined.get(holder[edge.end])
        if one is not None and other is not None and one is not other:
            one |= other
            joined.update(dict.fromkeys(other, one))
    largest = max(joined.values(), key=len)
    return min((name for name in names if name in largest), key=ranks.__getitem__)


# -- what is cut -------------------------------------------------------------------------------------------------------


def _between(picture: Picture) -> set[str]:
    """Return the nodes between which edges may be cut: steps, but for the one that the picture is about."""
    return {node.name for node in picture.nodes if node.step and not node.is_focus}


def _listed(picture: Picture, holder: Mapping[str, str]) -> Iterator[Edge]:
    """Yield the error routes that are lines and not edges."""
    routes = [edge for edge in picture.edges if edge.kind in _ERRORS]
    for target, edges in _by_target(routes, holder).items():
        if len({edge.start for edge in edges}) > MAX_ERROR_EDGES and _is_step(picture, target):
            yield from edges


def _crowding(picture: Picture, drawn: Iterable[Edge], holder: Mapping[str, str]) -> Iterator[Edge]:
    """Yield the edges to crowded steps, but for the nearest."""
    position = {node.name: number for number, node in enumerate(picture.nodes) if node.step}
    edges = [edge for edge in drawn if edge.kind not in _ERRORS and holder[edge.start] in position]
    for target, entering in _by_target(edges, holder).items():
        starts = {holder[edge.start] for edge in entering}
        if len(starts) <= MAX_EDGES:
            continue
        at = position[target]
        nearest = min(starts, key=lambda start: (abs(position[start] - at), position[start]))
        yield from (edge for edge in entering if holder[edge.start] != nearest)


def _is_long(edge: Edge, ranks: Mapping[str, int], holder: Mapping[str, str]) -> bool:
    start, end = holder[edge.start], holder[edge.end]
    height = BOX_RANKS - 1 if start != edge.start else 0
    return abs(ranks[end] - ranks[start] - height) > MAX_SPAN


def _aside(picture: Picture, shared: Collection[str], holder: Mapping[str, str]) -> tuple[str, ...]:
    """Return the last nodes of those shared steps that end the run: the step itself, or the ending that it leads to."""
    endings = {node.name for node in picture.nodes if isinstance(node, Node) and not node.step}
    leaving: dict[str, list[str]] = {node.name: [] for node in picture.nodes if node.name in shared}
    for edge in picture.edges:
        if holder[edge.start] in leaving:
            leaving[holder[edge.start]].append(edge.end)
    return tuple(
        ends[0] if ends else name for name, ends in leaving.items() if len(ends) <= 1 and endings.issuperset(ends)
    )


def _by_target(edges: Iterable[Edge], holder: Mapping[str, str]) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(holder[edge.end], []).append(edge)
    return found


def _is_step(picture: Picture, name: str) -> bool:
    return any(node.name == name and node.step for node in picture.nodes)


# -- what stands for it ------------------------------------------------------------------------------------------------


class _Thinned:
    def __init__(self, picture: Picture, listed: Collection[Edge], cut: Collection[Edge]) -> None:
        self.whole, self.listed, self.cut = picture, listed, cut
        self.holder = holders(picture.nodes)
        self.nodes = {node.name: node for node in picture.nodes}
        self.leaving: dict[str, list[Edge]] = {}
        self.entering: dict[str, list[Edge]] = {}
        for edge in picture.edges:
            self.leaving.setdefault(self.holder[edge.start], []).append(edge)
            self.entering.setdefault(self.holder[edge.end], []).append(edge)

    def picture(self, tops: Iterable[str]) -> Picture:
        """Return the picture with stubs, each beside its step; `tops` are the nodes at the tops of columns."""
        nodes: list[Node | Box] = []
        edges = [edge for edge in self.whole.edges if edge not in self.listed and edge not in self.cut]
        heads: dict[str, str] = {}
        for node in self.whole.nodes:
            entries, exits = dict(self._entries(node)), dict(self._exits(node))
            nodes += [*entries, self._with_lines(node), *exits]
            edges += [*entries.values(), *exits.values()]
            heads[node.name] = next((stub.name for stub in entries), node.name)
        return self.whole._replace(nodes=tuple(nodes), edges=tuple(edges), heads=tuple(heads[top] for top in tops))

    def _exits(self, node: Node | Box) -> Iterator[tuple[Node, Edge]]:
        """Yield a stub and its edge for each cut edge of a node; it has the label of the edge."""
        edges = [edge for edge in self.leaving.get(node.name, ()) if edge in self.cut]
        for target, leading in _by_target(edges, self.holder).items():
            name = f"{node.name}to{target[1:]}"
            words = Line(f"→ {shortened(self.nodes[target].step, COLUMNS)}", "name")
            for number, edge in enumerate(dict.fromkeys(leading)):
                stub = Node(f"{name}x{number}" if number else name, "sign", (*edge.lines, words), is_dead=edge.is_dead)
                yield stub, edge._replace(end=stub.name, lines=())

    def _entries(self, node: Node | Box) -> Iterator[tuple[Node, Edge]]:
        """Yield a stub and its edge for what leads to a node and is not drawn: one for errors, one for the others."""
        into = node.fork if isinstance(node, Box) else node.name
        entering = self.entering.get(node.name, [])
        if any(edge in self.listed for edge in entering):
            count = len({edge.start for edge in entering if edge.kind in _ERRORS})
            stub = Node(f"{node.name}errors", "sign", (Line(f"on error: from {count} steps", "error"),))
            yield stub, Edge(stub.name, into, "error", is_dead=node.is_dead)
        starts = dict.fromkeys(self.holder[edge.start] for edge in entering if edge in self.cut)
        if starts:
            names = [self._last(self.nodes[start]) for start in starts]
            words = " and ".join(names) if len(names) <= _NAMES else f"{len(names)} steps"
            lines = tuple(Line(line) for line in wrapped(f"from {words}", 30))
            stub = Node(f"{node.name}from", "sign", lines)
            yield stub, Edge(stub.name, into, is_dead=node.is_dead)

    @staticmethod
    def _last(node: Node | Box) -> str:
        return node.group.last if isinstance(node, Node) and node.group else node.step

    def _with_lines(self, node: Node | Box) -> Node | Box:
        """Return a node with a line for each error route of it that is not drawn."""
        edges = [edge for edge in self.leaving.get(node.name, ()) if edge in self.listed]
        lines = tuple(_line(edge.kind, self.nodes[self.holder[edge.end]].step) for edge in edges)
        return node._replace(lines=(*node.lines, *dict.fromkeys(line for one in lines for line in one)))


def _line(kind: EdgeKind, target: str) -> tuple[Line, ...]:
    words = "on error" if kind == "error" else "after the last visit"
    tone: Tone = "error"
    return tuple(Line(line, tone) for line in wrapped(f"{words} → {target}"))
