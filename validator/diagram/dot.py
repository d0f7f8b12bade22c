"""The picture as DOT text, the language of Graphviz."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.diagram.picture import Badge, Box, Edge, EdgeKind, Kind, Line, Node, Picture, Tone
from stepward.validator.diagram.words import wrapped
from stepward.validator.report.text import columns_of, safe

if TYPE_CHECKING:
    from graphviz import Digraph

_FONT: Final = "Helvetica"
_POINTS: Final = 11
_EM_INCHES: Final = _POINTS / 72
_CHARACTER_EM: Final = 0.64
"""Width of a character in the widest usual font: the viewer of the picture may not have the font that we name."""

_PATH: Final = "#c4007a"
_RED: Final = "#b02a2a"
_GREY: Final = "#999999"

_END: Final = {"shape": "box", "style": "rounded,filled", "peripheries": "2"}
_STYLES: Final[dict[Kind, dict[str, str]]] = {
    "start": {
        "shape": "circle",
        "style": "filled",
        "fillcolor": "#444444",
        "width": "0.16",
        "height": "0.16",
        "label": "",
    },
    "llm": {"shape": "box", "style": "rounded,filled", "fillcolor": "#e8e4fb", "color": "#5b4bb4"},
    "read": {"shape": "box", "style": "filled", "fillcolor": "#eef4fb", "color": "#3a6ea5"},
    "write": {"shape": "box", "style": "filled", "fillcolor": "#ffe3c2", "color": "#c25a00", "penwidth": "2"},
    "condition": {"shape": "hexagon", "style": "filled", "fillcolor": "#fff8d6", "color": "#8a7400", "margin": "0,0"},
    "set": {"shape": "note", "style": "filled", "fillcolor": "#f3f3f3", "color": "#666666"},
    "success": {**_END, "fillcolor": "#dcf3dc", "color": "#2d7d2d"},
    "failure": {**_END, "fillcolor": "#fbdcdc", "color": _RED},
    "broken": {"shape": "octagon", "style": "filled", "fillcolor": "#fbdcdc", "color": _RED},
    "sign": {"shape": "plaintext", "margin": "0.05,0.02"},
    "bar": {"shape": "box", "style": "filled", "fillcolor": "#444444", "height": "0.06", "width": "1.2", "label": ""},
}
_DEAD: Final = {"style": "dashed", "fillcolor": "white", "color": _GREY, "fontcolor": "#808080", "penwidth": "1"}
_ARROWS: Final[dict[EdgeKind, dict[str, str]]] = {
    "next": {"weight": "4"},
    "branch": {"weight": "2"},
    "error": {"style": "dashed", "color": _RED},
    "visits": {"style": "dotted", "color": "#666666"},
}
_TONES: Final[dict[Tone, str]] = {
    "name": "<b>{}</b>",
    "text": "{}",
    "write": "<b>{}</b>",
    "retry": '<font color="#7a4f00">{}</font>',
    "error": f'<font color="{_RED}">{{}}</font>',
    "rule": '<font color="#1d5f5a">{}</font>',
    "faint": '<font color="#666666">{}</font>',
}
_TABLE: Final = '<table border="0" cellborder="0" cellspacing="{}" cellpadding="1">{}</table>'
_BADGES: Final = {"path": _PATH, "error": _RED, "warning": "#8a6d00"}


def to_dot(picture: Picture) -> str:
    """Return a picture as DOT text: the same text for the same picture."""
    from graphviz import Digraph

    common = {"fontname": _FONT, "fontsize": str(_POINTS)}
    graph = Digraph(
        "program",
        graph_attr={"label": _heading(picture), "labelloc": "t", "labeljust": "l", "fontname": _FONT, "fontsize": "12",
                    "nodesep": "0.3", "ranksep": "0.4", "pad": "0.3", "tooltip": safe(picture.title)},
        node_attr={**common, "margin": "0.14,0.07", "height": "0.3"},
        edge_attr={**common, "fontsize": "10", "arrowsize": "0.8"},
    )  # fmt: skip
    for node in picture.nodes:
        if isinstance(node, Box):
            _box(graph, node)
        else:
            _node(graph, node)
    for edge in picture.edges:
        _edge(graph, edge)
    return str(graph.source)


def _heading(picture: Picture) -> str:
    lines = [
        f'<font point-size="16"><b>{_text(line)}</b></font>' for line in wrapped(picture.title, 80, 3, by_clause=False)
    ]
    for note in picture.notes:
        heading, *rest = note.lines
        lines += [" ", f"<b>{_text(heading)}</b>", *(_text(_roomy(line)) for line in rest)]
    return "<" + "".join(f'{line}<br align="left"/>' for line in [*lines, " "]) + ">"


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(graph: Digraph, node: Node) -> None:
    style: dict[str, str] = dict(_STYLES[node.kind])
    if node.is_dead:
        style |= _DEAD
    if node.is_walked:
        style |= {"color": _PATH, "penwidth": "3"}
    if node.lines:
        style |= {"label": _label(node.lines, node.badges, is_dead=node.is_dead), "width": _width(node)}
    if node.hint:
        style["tooltip"] = _escaped(node.hint)
    graph.node(node.name, **style)


def _width(node: Node) -> str:
    longest = max(columns_of(line.text) for line in node.lines)
    return f"{longest * _CHARACTER_EM * _EM_INCHES + 0.28:.2f}"


def _label(lines: Sequence[Line], badges: Sequence[Badge], *, is_dead: bool = False, is_left: bool = False) -> str:
    """Return an HTML-like label: the badges on a row of their own, then the lines."""
    end = '<br align="left"/>' if is_left else "<br/>"
    text = end.join(_toned(line, is_dead=is_dead) for line in lines) + (end if is_left else "")
    if not badges:
        return f"<{text}>"
    # A row is as wide as the text below it, and would stretch badges without a fixed size.
    cells = "".join(
        f'<td fixedsize="true" width="{columns_of(badge.text) * _CHARACTER_EM * _POINTS + 10:.0f}" height="17" '
        f'bgcolor="{_BADGES[badge.kind]}"><font color="white"><b>{_text(badge.text)}</b></font></td>'
        for badge in badges
    )
    row = f"<td>{_TABLE.format(3, f'<tr>{cells}</tr>')}</td>"
    align = ' align="left" balign="left"' if is_left else ""
    return f"<{_TABLE.format(0, f'<tr>{row}</tr><tr><td{align}>{text}</td></tr>')}>"


def _toned(line: Line, *, is_dead: bool = False) -> str:
    tone: Tone = "text" if is_dead and line.tone != "name" else line.tone
    return _TONES[tone].format(_text(line.text))


def _box(graph: Digraph, box: Box) -> None:
    """Draw a box with a bar where the sub-steps start and one where they join."""
    color = _PATH if box.is_walked else _GREY if box.is_dead else "#444444"
    style = {"style": "rounded,dashed" if box.is_dead else "rounded", "color": color}
    if box.is_walked:
        style["penwidth"] = "3"
    lines = [Line(_roomy(line.text), line.tone) for line in box.lines]
    bar: dict[str, Any] = {**_STYLES["bar"], **({"fillcolor": _GREY, "color": _GREY} if box.is_dead else {})}
    with graph.subgraph(name=f"cluster_{box.name}") as inside:
        label = _label(lines, box.badges, is_dead=box.is_dead, is_left=True)
        inside.attr(label=label, labeljust="l", fontsize=str(_POINTS), **style)
        inside.node(box.fork, **bar)
        for part in box.parts:
            _node(inside, part)
        inside.node(box.join, **bar)
        # Heavy edges center the bars over the sub-steps.
        arrow = {"arrowsize": "0.6", "weight": "10", **({"color": _GREY} if box.is_dead else {})}
        for part in box.parts:
            inside.edge(box.fork, part.name, **arrow)
            inside.edge(part.name, box.join, **arrow)


# -- edges -------------------------------------------------------------------------------------------------------------


def _edge(graph: Digraph, edge: Edge) -> None:
    style: dict[str, str] = dict(_ARROWS[edge.kind])
    if edge.is_dead:
        style |= {"style": "dashed", "color": _GREY}
    if edge.is_walked:
        style |= {"color": _PATH, "penwidth": "2.5"}
    if edge.lines:
        # Space at both ends: fonts differ, and a label must not touch its neighbours.
        lines = [Line(f" {_roomy(line.text, 12)}", line.tone) for line in edge.lines]
        style["label"] = _label(lines, (), is_dead=edge.is_dead)
        if edge.is_dead:
            style["fontcolor"] = "#808080"
    graph.edge(edge.start, edge.end, **style)


# -- text --------------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    return html.escape(safe(text))


def _roomy(line: str, share: int = 6) -> str:
    """Return a line with space at its end, for fonts that are wider than the assumed one."""
    return line + " " * (len(line) // share + 1)


def _escaped(text: str) -> str:
    lines: Iterable[str] = map(safe, text.split("\n"))
    return "\\n".join(line.replace("\\", "\\\\") for line in lines)
