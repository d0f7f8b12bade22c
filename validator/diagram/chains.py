"""The picture of a chain: the programs of the runs that continue one another, with the path that each run took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.diagram.drawing import draw
from stepward.validator.diagram.marks import Marks, Walk, walk_of
from stepward.validator.diagram.picture import Box, Edge, Line, Node, Picture
from stepward.validator.diagram.words import wrapped
from stepward.validator.engine.witnesses.observed import Record, moves_of
from stepward.validator.findings import Move
from stepward.validator.runs.chains import link_words
from stepward.vm.machine.chains import link_of
from stepward.vm.machine.turns import is_turn

if TYPE_CHECKING:
    from stepward.vm.machine.history import History


def draw_chain(chain: Sequence[History], *, is_brief: bool = False) -> Picture:
    """Return the picture of the runs of a chain, in order. A sign with the id of a run stands where it begins.

    `is_brief` says that the picture will be collapsed.
    """
    nodes: list[Node | Box] = []
    edges: list[Edge] = []
    last: Node | Box | None = None
    for number, history in enumerate(chain):
        facts = ProgramFacts(history.plan.program)
        alone = draw(facts, Marks(walk=_walk(facts, history)), is_brief=is_brief)
        picture = _named(alone, f"r{number}", _beginning(history))
        if last is not None:
            edges.append(Edge(_end_of(last), picture.nodes[0].name, lines=_ending(chain[number - 1]), is_walked=True))
        last = _last(picture, history) or picture.nodes[0]
        nodes += picture.nodes
        edges += picture.edges
    return Picture(
        f"{chain[0].run}, {len(chain)} runs" if len(chain) > 1 else chain[0].run, (), tuple(nodes), tuple(edges)
    )


def _walk(facts: ProgramFacts, history: History) -> Walk:
    """Return the path that a run took. The step at which it is now is on it, but not one before which it has ended."""
    layout = history.plan.program.layout
    owners = {part.id: step.id for step in layout.steps for part in step.sub_steps}
    each = frozenset(layout.steps[number].id for number in layout.bodies)
    records = tuple(Record(one.kind, one.body, one.note) for one in history.events)
    moves = [move for move in moves_of(records, owners, each) if move.step in facts.flow.position]
    stopped = history.plan.steps[history.state.at].id
    if (not moves or moves[-1].step != stopped) and (not history.state.is_over or _last_of(history) == stopped):
        moves.append(Move(stopped, "starts"))
    return walk_of(facts.flow, moves, history.run)


def _last_of(history: History) -> str | None:
    """Return the step that the last record with a step is about: a run can end before the next one starts."""
    layout = history.plan.program.layout
    owners = {part.id: step.id for step in layout.steps for part in step.sub_steps}
    found = (str(one.body["step"]) for one in reversed(history.events) if "step" in one.body)
    return next((owners.get(step, step) for step in found), None)


def _beginning(history: History) -> tuple[Line, ...]:
    """Return the lines of the sign where a run begins: its id, its program, and what it has of the run before."""
    link = link_of(history)
    texts = [f"program {history.plan.program.name}", *([] if link is None or is_turn(history) else [link_words(link)])]
    name = tuple(Line(line, "name") for line in wrapped(history.run))
    return (*name, *(Line(line, "faint") for text in texts for line in wrapped(text)))


def _ending(history: History) -> tuple[Line, ...]:
    state = history.state
    text = f"{state.status} ({state.reason})" if state.reason else state.status
    return tuple(Line(line, "name") for line in wrapped(text))


def _named(picture: Picture, prefix: str, lines: tuple[Line, ...]) -> Picture:
    """Return a picture whose names begin with a prefix, and whose start is a sign with these lines."""

    def renamed(node: Node) -> Node:
        named = node._replace(name=f"{prefix}{node.name}")
        return named._replace(kind="sign", lines=lines, is_walked=True) if node.kind == "start" else named

    def nodes() -> Iterator[Node | Box]:
        for node in picture.nodes:
            if isinstance(node, Box):
                yield node._replace(name=f"{prefix}{node.name}", parts=tuple(map(renamed, node.parts)))
            else:
                yield renamed(node)

    edges = (edge._replace(start=f"{prefix}{edge.start}", end=f"{prefix}{edge.end}") for edge in picture.edges)
    return picture._replace(nodes=tuple(nodes()), edges=tuple(edges))


def _last(picture: Picture, history: History) -> Node | Box | None:
    """Return the node of the last step of a run."""
    at, last = history.plan.steps[history.state.at].id, _last_of(history)
    steps = (last, at) if history.state.is_over else (at,)
    return next((node for step in steps for node in picture.nodes if node.step == step), None)


def _end_of(node: Node | Box) -> str:
    return node.join if isinstance(node, Box) else node.name
