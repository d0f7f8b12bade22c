"""The picture, independent of its format: nodes, boxes, edges and notes, with wrapped and cut texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "start", "llm", "read", "write", "condition", "set", "loop", "item", "success", "failure", "broken", "sign", "bar"
]
"""What a node is: a step by its type, a tool by its effect, an ending by its outcome.

A `loop` goes on with the next item of a list, an `item` ends the present one.
`broken` is where a run has nowhere to go; a `sign` stands for a step that is drawn elsewhere; a `bar` forks or joins.
"""

Tone = Literal["name", "text", "write", "retry", "error", "rule", "faint"]
"""The subject of a line of a node, which decides its style."""

EdgeKind = Literal["next", "branch", "error", "visits"]
"""Why control goes along an edge: on success, by a branch, after a failure, after the last visit."""


Ending = Literal["success", "failure"]

MAX_BADGES: Final = 4
"""Badges of findings on one node; the last says that there are more."""


class Line(NamedTuple):
    """One line of a node."""

    text: str
    tone: Tone = "text"


class Badge(NamedTuple):
    """A mark on a step: its numbers on the path that is drawn, or the code of a finding."""

    text: str
    kind: Literal["path", "error", "warning"]


class Group(NamedTuple):
    """What a node of a collapsed picture stands for: how many steps, and the id of the last."""

    size: int
    last: str


class Node(NamedTuple):
    """One node. `hint` is the full text of cut `lines`; `is_dead` says that no run reaches the node.

    `step` is the id of the step that the node shows, and empty for a node that is no step. `rules` are the guardrails
    that protect the step or ask for it. `is_focus` marks the step that the picture is about. `writes` is how many calls
    of the step have a write effect.
    """

    name: str
    kind: Kind
    lines: tuple[Line, ...] = ()
    badges: tuple[Badge, ...] = ()
    hint: str = ""
    is_dead: bool = False
    is_walked: bool = False
    step: str = ""
    rules: tuple[str, ...] = ()
    is_focus: bool = False
    group: Group | None = None
    writes: int = 0


class Box(NamedTuple):
    """A parallel step: a box around its sub-steps, with a bar where they start and one where they join.

    `needs` are the positions of the parts that each part depends on; empty if no part depends on another.
    """

    name: str
    lines: tuple[Line, ...]
    parts: tuple[Node, ...]
    badges: tuple[Badge, ...] = ()
    is_dead: bool = False
    is_walked: bool = False
    step: str = ""
    rules: tuple[str, ...] = ()
    is_focus: bool = False
    needs: tuple[frozenset[int], ...] = ()

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """The names of the nodes from which and to which an arrow leads inside of the box."""
        needs = self.needs or (frozenset(),) * len(self.parts)
        needed = frozenset().union(*needs)
        found: list[tuple[str, str]] = []
        for number, part in enumerate(self.parts):
            earlier = [self.parts[one].name for one in sorted(needs[number])]
            found += [(start, part.name) for start in earlier or [self.fork]]
            found += [] if number in needed else [(part.name, self.join)]
        return tuple(found)

    @property
    def fork(self) -> str:
        """The name of the node at which the sub-steps start."""
        return f"{self.name}fork"

    @property
    def join(self) -> str:
        """The name of the node at which the sub-steps join."""
        return f"{self.name}join"


class Edge(NamedTuple):
    """An edge from one node to another; `is_dead` says that no run takes it."""

    start: str
    end: str
    kind: EdgeKind = "next"
    lines: tuple[Line, ...] = ()
    is_dead: bool = False
    is_walked: bool = False
    rules: tuple[str, ...] = ()


class Note(NamedTuple):
    """A paragraph beside the picture, wrapped; its first line is its heading, which may be empty."""

    lines: tuple[str, ...]


class Picture(NamedTuple):
    """The diagram of a program, in the order of the program; it only depends on the program and its marks.

    `is_sideways` says that it runs from left to right, `is_brief` that it is collapsed. `heads` are the nodes at which
    the columns start, if there are several; `aside` are the steps that errors of many others lead to, for the far end.
    """

    title: str
    notes: tuple[Note, ...]
    nodes: tuple[Node | Box, ...]
    edges: tuple[Edge, ...]
    is_sideways: bool = False
    is_brief: bool = False
    heads: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


def holders(nodes: Iterable[Node | Box]) -> dict[str, str]:
    """Return for each name that an edge can start or end at the name of the node or box that has it."""
    found: dict[str, str] = {}
    for one in nodes:
        names = (one.fork, one.join, *(part.name for part in one.parts)) if isinstance(one, Box) else (one.name,)
        found.update(dict.fromkeys(names, one.name))
    return found


def all_nodes(nodes: Iterable[Node | Box]) -> list[Node]:
    """Return every node, including those in boxes."""
    return [node for one in nodes for node in (one.parts if isinstance(one, Box) else (one,))]
