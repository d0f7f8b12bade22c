"""Collapses a picture: a parallel step becomes one node, and so does a chain of steps without a branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from stepward.validator.diagram.picture import (
    MAX_BADGES,
    Badge,
    Box,
    Edge,
    Ending,
    Group,
    Kind,
    Line,
    Node,
    Picture,
    holders,
)
from stepward.validator.diagram.words import shortened, wrapped
from stepward.validator.report.text import columns_of, counted

COLUMNS: Final = 22
"""Columns of a line in a node."""

_FLOW: Final = ("next", "branch")
_STRONGEST: Final[tuple[Kind, ...]] = ("write", "llm", "read", "condition", "loop", "set", "item", "success", "failure")


def collapsed(picture: Picture) -> Picture:
    """Return the first level of a picture: groups in place of parallel steps and chains, and short texts.

    A group has the marks of all that it stands for: badges, numbers of the path, how many guardrails.
    """
    holder = holders(picture.nodes)
    nodes = {node.name: _closed(node) if isinstance(node, Box) else node for node in picture.nodes}
    edges = [edge._replace(start=holder[edge.start], end=holder[edge.end]) for edge in picture.edges]
    chains = list(_chains(nodes, edges))
    first = {node.name: chain[0].name for chain in chains for node in chain}
    inside = {(before.name, after.name) for chain in chains for before, after in pairwise(chain)}
    shown = (
        _brief_edge(edge, first)
        for edge in edges
        if (edge.start, edge.end) not in inside  # the only edge to its end
    )
    return picture._replace(nodes=tuple(map(_node, chains)), edges=tuple(dict.fromkeys(shown)), is_brief=True)


def _brief_edge(edge: Edge, first: Mapping[str, str]) -> Edge:
    lines = [line for line in edge.lines if line.tone not in ("text", "rule")]
    return edge._replace(
        start=first[edge.start], end=first[edge.end], lines=(*lines, *_guardrails(edge.rules)), rules=()
    )


# -- chains ------------------------------------------------------------------------------------------------------------


def _chains(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> Iterator[list[Node]]:
    """Yield every node once, those of a chain together: each leads to the next alone, and nothing else leads there."""
    leaving: dict[str, list[Edge]] = {}
    entering: Counter[str] = Counter()
    for edge in edges:
        entering[edge.end] += 1
        if edge.kind in _FLOW:
            leaving.setdefault(edge.start, []).append(edge)
    following: dict[str, str] = {}
    for name, ways in leaving.items():
        end = ways[0].end
        if len(ways) == 1 and entering[end] == 1 and end != name and _may_join(nodes[name], nodes[end]):
            following[name] = end
    inner = set(following.values())
    for name in nodes:
        if name not in inner:
            chain = [name]
            while chain[-1] in following:
                chain.append(following[chain[-1]])
            yield [nodes[one] for one in chain]


def _may_join(node: Node, following: Node) -> bool:
    if node.is_dead != following.is_dead or node.is_focus or node.kind in ("start", "condition", "sign"):
        return False
    return following.kind in ("success", "failure") or (bool(following.step) and not following.is_focus)


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(chain: Sequence[Node]) -> Node:
    """Return the node of a chain; a single step, an ending or a stub gets a short text."""
    first, last = chain[0], chain[-1]
    steps = [node for node in chain if node.step]
    ending = _ending(last) if len(chain) > 1 else None
    if len(steps) <= 1:
        return _brief_node(first, ending)
    rules = tuple(dict.fromkeys(rule for node in steps for rule in node.rules))
    lines = (
        *_chain_name(first.step, steps[-1].step, len(steps)),
        *_effect(steps, ending),
        *_guardrails(rules),
    )
    return first._replace(
        kind=_strongest(node.kind for node in steps),
        lines=lines,
        badges=_merged(badge for node in steps for badge in node.badges),
        hint="\n".join(part for node in steps for part in (node.step, node.hint) if part),
        is_walked=any(node.is_walked for node in chain),
        rules=rules,
        group=Group(len(steps), steps[-1].step),
    )


def _chain_name(first: str, last: str, count: int) -> Iterator[Line]:
    *lines, end = wrapped(f"{first} … {last},", COLUMNS, by_clause=False)
    words = f"{count} steps"
    ends = [f"{end} {words}"] if columns_of(f"{end} {words}") <= COLUMNS + 2 else [end, words]
    yield from (Line(line, "name") for line in (*lines, *ends))


def _brief_node(node: Node, ending: Ending | None) -> Node:
    if not node.step:
        return node
    names = (line for line in node.lines if line.tone == "name")
    dead = (line for line in node.lines[-1:] if node.is_dead)
    what = _what(node) if node.group is None else (line for line in node.lines if line.tone == "text")
    lines = (*names, *what, *_effect([node], ending), *_guardrails(node.rules), *dead)
    group = Group(1, node.step) if ending else None
    return node._replace(lines=lines, group=node.group or group)


def _what(node: Node) -> Iterator[Line]:
    """Yield what a step does or asks, on one line."""
    texts = [line.text for line in node.lines if line.tone == "text"]
    if texts and node.kind != "set":
        yield Line(shortened(" ".join(texts) if node.kind == "condition" else texts[0], COLUMNS))


def _effect(steps: Iterable[Node], ending: Ending | None) -> Iterator[Line]:
    """Yield a line that says how many calls write, and how the run ends there."""
    writes = sum(node.writes for node in steps)
    words = ["WRITES" if writes == 1 else f"WRITES ×{writes}"] if writes else []
    words += [f"end: {ending}"] if ending else []
    if words:
        yield Line(", ".join(words), "write" if writes else "text")


def _guardrails(rules: Sequence[str]) -> Iterator[Line]:
    if rules:
        yield Line(counted(len(rules), "guardrail"), "rule")


def _ending(node: Node) -> Ending | None:
    match node.kind:
        case "success" | "failure":
            return node.kind
        case _:
            return None


def _strongest(kinds: Iterable[Kind]) -> Kind:
    return min(kinds, key=_STRONGEST.index)


def _closed(box: Box) -> Node:
    """Return a parallel step as one node."""
    names = (line for line in box.lines if line.tone == "name")
    dead = (line for line in box.lines[-1:] if box.is_dead)
    return Node(
        box.name,
        _strongest(part.kind for part in box.parts) if box.parts else "read",
        (*names, Line(f"{len(box.parts)} in parallel"), *dead),
        _merged([*box.badges, *(badge for part in box.parts for badge in part.badges)]),
        "\n".join(part for node in box.parts for part in (node.step, node.hint) if part),
        box.is_dead,
        box.is_walked or any(part.is_walked for part in box.parts),
        box.step,
        tuple(dict.fromkeys([*box.rules, *(rule for part in box.parts for rule in part.rules)])),
        box.is_focus,
        Group(len(box.parts), box.step),
        sum(part.writes for part in box.parts),
    )


# -- badges ------------------------------------------------------------------------------------------------------------


def _merged(badges: Iterable[Badge]) -> tuple[Badge, ...]:
    """Return the badges of a group: one for the numbers on the path, then one for each code, errors first."""
    marks = list(badges)
    numbers = sorted({int(part) for badge in marks if badge.kind == "path" for part in _words(badge)})
    codes: Counter[tuple[str, str]] = Counter()
    for badge in marks:
        if badge.kind != "path":
            code, *times = _words(badge)
            codes[badge.kind, code] += int(times[0]) if times else 1
    found = [Badge(_range(numbers), "path")] if numbers else []
    for (kind, code), count in sorted(codes.items())[:MAX_BADGES]:
        text = f"{code} ×{count}" if count > 1 else code
        found.append(Badge(text, "error" if kind == "error" else "warning"))
    if len(codes) > MAX_BADGES or any(badge.text.endswith(" …") for badge in marks):
        found[-1] = found[-1]._replace(text=f"{found[-1].text} …")
    return tuple(found)


def _words(badge: Badge) -> list[str]:
    """Return the numbers of a badge of the path; of another one its code and, if there is one, its count."""
    return badge.text.removesuffix(" …").replace("×", "").replace(",", "").split()


def _range(numbers: Sequence[int]) -> str:
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}–{numbers[-1]}"
    return ", ".join(map(str, numbers[:MAX_BADGES])) + " …" * (len(numbers) > MAX_BADGES)
