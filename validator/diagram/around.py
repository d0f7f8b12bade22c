"""Cuts the neighbourhood of a step out of a picture: what leads there, and where it leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from stepward.validator.diagram.picture import Box, Edge, Line, Node, Note, Picture, holders
from stepward.validator.diagram.words import wrapped
from stepward.validator.report.text import counted

_NAMED: Final = 3
"""Steps that are cut off and named; more of them are counted."""


def around(picture: Picture, step: str, distance: int) -> Picture:
    """Return the step with the id `step`, and the steps from which it is reached, or that it reaches, in so many steps.

    The id may be that of a sub-step, which stands for its parallel step. What is cut off is a stub that counts it.
    Raises KeyError for an id that no step has.
    """
    focus = _holder_of(picture, step)
    holder = holders(picture.nodes)
    pairs = [(holder[edge.start], holder[edge.end]) for edge in picture.edges]
    steps = {node.name for node in picture.nodes if node.step}
    near = {focus, *_within(focus, pairs, distance), *_within(focus, [pair[::-1] for pair in pairs], distance)}
    near |= {end for start, end in pairs if start in near and end not in steps}  # endings are parts of their steps
    inside = [edge for edge in picture.edges if holder[edge.start] in near and holder[edge.end] in near]
    nodes: list[Node | Box] = []
    edges: list[Edge] = []
    for node in picture.nodes:
        if node.name in near:
            stubs = list(_stubs(node, picture, holder, near))
            nodes += [node._replace(is_focus=node.name == focus), *(stub for stub, _ in stubs)]
            edges += (edge for _, edge in stubs)
    count = f"{len(near & steps)} of {counted(len(steps), 'step')}"
    words = f"{count}: those up to {counted(distance, 'step')} before or after `{step}`"
    notes = (Note(("part of the program", f"  {words}")), *picture.notes)
    return picture._replace(notes=notes, nodes=tuple(nodes), edges=(*inside, *edges))


def _holder_of(picture: Picture, step: str) -> str:
    for node in picture.nodes:
        if node.step == step or (isinstance(node, Box) and any(part.step == step for part in node.parts)):
            return node.name
    raise KeyError(step)


def _within(start: str, pairs: Sequence[tuple[str, str]], distance: int) -> set[str]:
    """Return what the pairs lead to from a node in at most so many of them."""
    after: dict[str, list[str]] = {}
    for before, end in pairs:
        after.setdefault(before, []).append(end)
    found, last = {start}, {start}
    for _ in range(distance):
        last = {end for name in last for end in after.get(name, ())} - found
        if not last:
            break
        found |= last
    return found


def _stubs(
    node: Node | Box, picture: Picture, holder: Mapping[str, str], near: Iterable[str]
) -> Iterator[tuple[Node, Edge]]:
    """Yield a stub and its edge for the steps before a node that are cut off, and for those after it."""
    steps = {one.name: one.step for one in picture.nodes}
    into, out = (node.fork, node.join) if isinstance(node, Box) else (node.name, node.name)
    before = [edge for edge in picture.edges if holder[edge.end] == node.name and holder[edge.start] not in near]
    after = [edge for edge in picture.edges if holder[edge.start] == node.name and holder[edge.end] not in near]
    if before:
        names = [steps[holder[edge.start]] or "the start" for edge in before]
        stub = Node(f"{node.name}before", "sign", _counted_lines("from", names))
        yield stub, _merged(before)._replace(start=stub.name, end=into)
    if after:
        stub = Node(f"{node.name}after", "sign", _counted_lines("to", [steps[holder[edge.end]] for edge in after]))
        yield stub, _merged(after)._replace(start=out, end=stub.name)


def _counted_lines(word: str, names: Iterable[str]) -> tuple[Line, ...]:
    different = list(dict.fromkeys(names))
    more = ", …" if len(different) > _NAMED else ""
    words = f"{word} {counted(len(different), 'more step')}: {', '.join(different[:_NAMED])}{more}"
    return tuple(Line(line) for line in wrapped(words, most=3, by_clause=False))


def _merged(edges: Sequence[Edge]) -> Edge:
    """Return one edge for several, without a label."""
    kinds = {edge.kind for edge in edges}
    return Edge(
        "",
        "",
        edges[0].kind if len(kinds) == 1 else "next",
        is_dead=all(edge.is_dead for edge in edges),
        is_walked=any(edge.is_walked for edge in edges),
    )
