"""The picture as Mermaid text, for pages that render it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stepward.validator.diagram.picture import Badge, Box, Edge, EdgeKind, Kind, Line, Node, Picture, all_nodes
from stepward.validator.diagram.words import wrapped
from stepward.validator.report.text import safe

_SHAPES: Final[dict[Kind, tuple[str, str]]] = {
    "start": ("((", "))"),
    "llm": ("(", ")"),
    "read": ("[", "]"),
    "write": ("[[", "]]"),
    "condition": ("{{", "}}"),
    "set": (">", "]"),
    "loop": ("[/", "/]"),
    "item": ("(", ")"),
    "success": ("([", "])"),
    "failure": ("([", "])"),
    "broken": ("[/", "\\]"),
    "sign": ("(", ")"),
    "bar": ("[", "]"),
}
_CLASSES: Final = {
    "start": "fill:#444,stroke:#444",
    "llm": "fill:#e8e4fb,stroke:#5b4bb4,color:#000",
    "read": "fill:#eef4fb,stroke:#3a6ea5,color:#000",
    "write": "fill:#ffe3c2,stroke:#c25a00,stroke-width:2px,color:#000",
    "condition": "fill:#fff8d6,stroke:#8a7400,color:#000",
    "set": "fill:#f3f3f3,stroke:#666,color:#000",
    "loop": "fill:#e0f2ef,stroke:#2f7d73,color:#000",
    "item": "fill:#e0f2ef,stroke:#2f7d73,color:#000",
    "success": "fill:#dcf3dc,stroke:#2d7d2d,stroke-width:2px,color:#000",
    "failure": "fill:#fbdcdc,stroke:#b02a2a,stroke-width:2px,color:#000",
    "broken": "fill:#fbdcdc,stroke:#b02a2a,color:#000",
    "sign": "fill:#fff,stroke:#aaa,color:#000",
    "bar": "fill:#444,stroke:#444,color:#fff",
    "note": "fill:none,stroke:#bbb,text-align:left",
    "box": "fill:none,stroke:#444",
    "dead": "fill:none,stroke:#999,stroke-dasharray:4 3,color:#808080",
    "focus": "stroke:#000,stroke-width:4px",
    "walked": "stroke:#c4007a,stroke-width:4px",
}
_HEAD: Final = '%%{init: {"flowchart": {"wrappingWidth": 480}}}%%'
_ARROWS: Final[dict[EdgeKind, str]] = {"next": "-->", "branch": "-->", "error": "-.->", "visits": "-.->"}
_LINKS: Final[dict[EdgeKind, str]] = {"error": "stroke:#b02a2a", "visits": "stroke:#666"}

# Characters that Mermaid, its Markdown or a page around it may not take for text. Entities without a number are safe
# too, but not every version knows them.
_SPECIAL: Final = re.compile(r"[\"#&<>;:`*%|\\{}\[\]~^]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|//|@|\u200b")
# Mermaid finds formulas and icons after it has replaced entities: an invisible character prevents that.
_BETWEEN_SIGNS: Final = re.compile(r"(?<=\$)(?=\$)|(?<=:)(?=fa-)", re.IGNORECASE)
_INVISIBLE: Final = "\u200b"
_LIST: Final = re.compile(r"^(\d+)([.)])")


def to_mermaid(picture: Picture) -> str:
    """Return a picture as a Mermaid flowchart: the same text for the same picture."""
    lines = [_HEAD, f"flowchart {'LR' if picture.is_sideways else 'TD'}", *_notes(picture)]
    classes: dict[str, list[str]] = {}
    for node in picture.nodes:
        lines += _box(node, classes) if isinstance(node, Box) else [_node(node)]
    for node in all_nodes(picture.nodes):
        _classify(node.name, "dead" if node.is_dead else node.kind, node, classes)
    edges = [edge for node in picture.nodes if isinstance(node, Box) for edge in _inner(node)]
    edges += picture.edges
    lines += map(_edge, edges)
    lines += _links(edges)
    classes = {"note": ["notes"], **classes}
    lines += (f"classDef {name} {_CLASSES[name]}" for name in _CLASSES if name in classes)
    lines += (f"class {','.join(classes[name])} {name}" for name in _CLASSES if name in classes)
    directive, head, *rest = lines
    return "\n".join([directive, head, *(f"  {line}" for line in rest)]) + "\n"


def _notes(picture: Picture) -> Iterator[str]:
    lines = [f"<b>{_text(line)}</b>" for line in wrapped(picture.title, 80, 3, by_clause=False)]
    for note in picture.notes:
        heading, *rest = note.lines
        lines += ["", f"<b>{_text(heading)}</b>"] if heading else []
        lines += map(_text, _unwrapped(rest))
    yield f'notes["{"<br/>".join(lines)}"]'


def _unwrapped(lines: Iterable[str]) -> list[str]:
    """Return the entries of a note, each on one line, because Mermaid wraps lines."""
    entries: list[str] = []
    for line in lines:
        if line.startswith("    ") and entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    return entries


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(node: Node) -> str:
    opening, closing = _SHAPES[node.kind]
    return f'{node.name}{opening}"{_label(node.lines, node.badges)}"{closing}'


def _label(lines: Sequence[Line], badges: Sequence[Badge]) -> str:
    row = [f"<b>{_text(_badge(badge))}</b>" for badge in badges]
    text = [f"<b>{_text(line.text)}</b>" if line.tone in ("name", "write") else _text(line.text) for line in lines]
    return "<br/>".join([*([" · ".join(row)] if row else []), *text]) or " "


def _badge(badge: Badge) -> str:
    return f"path {badge.text}" if badge.kind == "path" else badge.text


def _box(box: Box, classes: dict[str, list[str]]) -> Iterator[str]:
    # A title is one line high: a second line would be drawn over the first bar.
    title = " · ".join(_label((line,), ()) for line in box.lines)
    row = "".join(f"<b>{_text(_badge(badge))}</b> · " for badge in box.badges)
    yield f'subgraph {box.name} ["{row}{title}"]'
    for part in (Node(box.fork, "bar"), *box.parts, Node(box.join, "bar")):
        yield f"  {_node(part)}"
    yield "end"
    _classify(box.name, "dead" if box.is_dead else "box", box, classes)
    for bar in (box.fork, box.join):
        _classify(bar, "dead" if box.is_dead else "bar", Node(bar, "bar"), classes)


def _inner(box: Box) -> Iterator[Edge]:
    return (Edge(start, end, is_dead=box.is_dead) for start, end in box.arrows)


def _classify(name: str, kind: str, node: Node | Box, classes: dict[str, list[str]]) -> None:
    classes.setdefault(kind, []).append(name)
    if node.is_focus:
        classes.setdefault("focus", []).append(name)
    if node.is_walked:
        classes.setdefault("walked", []).append(name)


# -- edges -------------------------------------------------------------------------------------------------------------


def _edge(edge: Edge) -> str:
    arrow = "==>" if edge.is_walked else "-.->" if edge.is_dead else _ARROWS[edge.kind]
    label = f'|"{_label(edge.lines, ())}"|' if edge.lines else ""
    return f"{edge.start} {arrow}{label} {edge.end}"


def _links(edges: Iterable[Edge]) -> Iterator[str]:
    """Yield the styles of edges, which Mermaid addresses by number."""
    styles: dict[str, list[int]] = {}
    for number, edge in enumerate(edges):
        style = "stroke:#c4007a" if edge.is_walked else "stroke:#999" if edge.is_dead else _LINKS.get(edge.kind)
        if style is not None:
            styles.setdefault(style, []).append(number)
    for style, numbers in styles.items():
        yield f"linkStyle {','.join(map(str, numbers))} {style}"


# -- text --------------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Return a text in which every character with a meaning for Mermaid is an entity."""
    shown = _LIST.sub(
        lambda match: f"{match[1]}#{ord(match[2])};", _SPECIAL.sub(_entity, _BETWEEN_SIGNS.sub(_INVISIBLE, safe(text)))
    )
    return _entity_of(shown[0]) + shown[1:] if shown[:1] in ("-", "+", "=", "(", "/") else shown


def _entity(match: re.Match[str]) -> str:
    return "".join(map(_entity_of, match[0]))


def _entity_of(character: str) -> str:
    return f"#{ord(character)};"
