"""The picture, independent of its format: nodes, boxes, edges and notes, with wrapped and cut texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["start", "llm", "read", "write", "condition", "set", "success", "failure", "broken", "sign", "bar"]
"""What a node is: a step by its type, a tool by its effect, an ending by its outcome.

`broken` is where a run has nowhere to go; a `sign` stands for a step that is drawn elsewhere; a `bar` forks or joins.
"""

Tone = Literal["name", "text", "write", "retry", "error", "rule", "faint"]
"""The subject of a line of a node, which decides its style."""

EdgeKind = Literal["next", "branch", "error", "visits"]
"""Why control goes along an edge: on success, by a branch, after a failure, after the last visit."""


class Line(NamedTuple):
    """One line of a node."""

    text: str
    tone: Tone = "text"


class Badge(NamedTuple):
    """A mark on a step: its numbers on the path that is drawn, or the code of a finding."""

    text: str
    kind: Literal["path", "error", "warning"]


class Node(NamedTuple):
    """One node. `hint` is the full text of cut `lines`; `is_dead` says that no run reaches the node."""

    name: str
    kind: Kind
    lines: tuple[Line, ...] = ()
    badges: tuple[Badge, ...] = ()
    hint: str = ""
    is_dead: bool = False
    is_walked: bool = False


class Box(NamedTuple):
    """A parallel step: a box around its sub-steps, with a bar where they start and one where they join."""

    name: str
    lines: tuple[Line, ...]
    parts: tuple[Node, ...]
    badges: tuple[Badge, ...] = ()
    is_dead: bool = False
    is_walked: bool = False

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


class Note(NamedTuple):
    """A paragraph beside the picture, wrapped; its first line is its heading."""

    lines: tuple[str, ...]


class Picture(NamedTuple):
    """The diagram of a program, in the order of the program; it only depends on the program and its marks."""

    title: str
    notes: tuple[Note, ...]
    nodes: tuple[Node | Box, ...]
    edges: tuple[Edge, ...]


def all_nodes(nodes: Iterable[Node | Box]) -> list[Node]:
    """Return every node, including those in boxes."""
    return [node for one in nodes for node in (one.parts if isinstance(one, Box) else (one,))]
