"""The picture as DOT text, the language of Graphviz."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.diagram.picture import Badge, Box, Edge, EdgeKind, Group, Kind, Line, Node, Picture, Tone
from stepward.validator.diagram.words import wrapped
from stepward.validator.report.text import columns_of, safe

if TYPE_CHECKING:
    from graphviz import Digraph

_FONT: Final = "Helvetica"


class _Look(NamedTuple):
    """Sizes of fonts in points, the width of a character in ems; the space between nodes and between ranks in inches.

    The characters are those of a wide font: who looks at the picture may not have the font that we name.
    """

    points: float
    label_points: float
    heading_points: int
    em: float
    node_space: str
    rank_space: str
    margin: str

    def width(self, columns: int) -> float:
        """Return the width of so many characters in points."""
        return columns * self.em * self.points


_WHOLE: Final = _Look(11, 10, 16, 0.64, "0.3", "0.4", "0.14,0.07")
_BRIEF: Final = _Look(7.5, 7.5, 11, 0.55, "0.08", "0.07", "0.05,0.02")

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
    "condition": {
        "shape": "hexagon",
        "style": "filled",
        "fillcolor": "#fff8d6",
        "color": "#8a7400",
        "margin": "0.02,0.0",
    },
    "set": {"shape": "note", "style": "filled", "fillcolor": "#f3f3f3", "color": "#666666"},
    "loop": {
        "shape": "parallelogram",
        "style": "filled",
        "fillcolor": "#e0f2ef",
        "color": "#2f7d73",
        "margin": "0.0,0.0",
    },
    "item": {"shape": "box", "style": "rounded,filled", "fillcolor": "#e0f2ef", "color": "#2f7d73"},
    "success": {**_END, "fillcolor": "#dcf3dc", "color": "#2d7d2d"},
    "failure": {**_END, "fillcolor": "#fbdcdc", "color": _RED},
    "broken": {"shape": "octagon", "style": "filled", "fillcolor": "#fbdcdc", "color": _RED},
    "sign": {"shape": "box", "style": "rounded", "color": "#aaaaaa", "margin": "0.06,0.02", "height": "0.2"},
    "bar": {"shape": "box", "style": "filled", "fillcolor": "#444444", "height": "0.06", "width": "1.2", "label": ""},
}
_DEAD: Final = {"style": "dashed", "fillcolor": "white", "color": _GREY, "fontcolor": "#808080", "penwidth": "1"}
_ARROWS: Final[dict[EdgeKind, dict[str, str]]] = {
    "next": {"weight": "4"},
    "branch": {"weight": "2"},
    "error": {"style": "dashed", "color": _RED},
    "visits": {"style": "dotted", "color": "#666666"},
}
_FOCUS: Final = {"color": "#000000", "penwidth": "3"}
_UPRIGHT: Final = {"height": "1.0", "width": "0.06"}
_LABEL: Final = {"shape": "plaintext", "margin": "0.04,0.01", "height": "0.1", "width": "0.1"}
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

    look = _BRIEF if picture.is_brief else _WHOLE
    common = {"fontname": _FONT, "fontsize": str(look.points)}
    direction = {"rankdir": "LR"} if picture.is_sideways else {}
    graph = Digraph(
        "program",
        graph_attr={"label": _heading(picture, look), "labelloc": "t", "labeljust": "l", "fontname": _FONT,
                    "fontsize": str(look.points + 1), "nodesep": look.node_space, "ranksep": look.rank_space,
                    "pad": "0.3" if look is _WHOLE else "0.06", "tooltip": _escaped(picture.title), **direction},
        node_attr={**common, "margin": look.margin, "height": "0.3" if look is _WHOLE else "0.2"},
        edge_attr={**common, "fontsize": str(look.label_points), "arrowsize": "0.8" if look is _WHOLE else "0.6"},
    )  # fmt: skip
    for node in picture.nodes:
        if isinstance(node, Box):
            _box(graph, node, look, is_sideways=picture.is_sideways)
        else:
            _node(graph, node, look)
    for number, edge in enumerate(picture.edges):
        _edge(graph, edge, f"e{number}", look)
    _order(graph, picture)
    return str(graph.source)


def _order(graph: Digraph, picture: Picture) -> None:
    """Keep the columns in their order, and what stands aside at the far end."""
    for before, after in pairwise(picture.heads):
        graph.edge(before, after, style="invis", constraint="false")
    if not picture.aside:
        return
    first = [node.name for node in picture.nodes if node.name == "start"]
    for rank, names in (("min", [*first, *picture.heads[1:]]), ("max", picture.aside)):
        with graph.subgraph(graph_attr={"rank": rank}) as level:
            for name in names:
                level.node(name)


def _heading(picture: Picture, look: _Look) -> str:
    lines = [
        f'<font point-size="{look.heading_points}"><b>{_text(line)}</b></font>'
        for line in wrapped(picture.title, 80, 3, by_clause=False)
    ]
    for note in picture.notes:
        heading, *rest = note.lines
        lines += [" ", f"<b>{_text(heading)}</b>"] if heading else []
        lines += (_text(_roomy(line)) for line in rest)
    return "<" + "".join(f'{line}<br align="left"/>' for line in [*lines, *([" "] if look is _WHOLE else [])]) + ">"


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(graph: Digraph, node: Node, look: _Look) -> None:
    style: dict[str, str] = dict(_STYLES[node.kind])
    if node.is_dead:
        style |= _DEAD
    if node.group is not None:
        style |= _group(node.group)
    if node.is_focus:
        style |= _FOCUS
    if node.is_walked:
        style |= {"color": _PATH, "penwidth": "3"}
    if node.lines:
        style |= {"label": _label(node.lines, node.badges, look, is_dead=node.is_dead), "width": _width(node, look)}
    if node.hint:
        style["tooltip"] = _escaped(node.hint)
    graph.node(node.name, **style)


def _group(group: Group) -> dict[str, str]:
    """Return what the style of a node gets where the node stands for more than a step."""
    return (
        {"shape": "box", "style": "filled,diagonals", "margin": "0.07,0.025"}
        if group.size != 1
        else {"peripheries": "2"}
    )


def _width(node: Node, look: _Look) -> str:
    longest = max(columns_of(line.text) for line in node.lines)
    return f"{look.width(longest) / 72 + 2 * float(look.margin.split(',')[0]):.2f}"


def _label(
    lines: Sequence[Line], badges: Sequence[Badge], look: _Look, *, is_dead: bool = False, is_left: bool = False
) -> str:
    """Return an HTML-like label: the badges on a row of their own, then the lines."""
    end = '<br align="left"/>' if is_left else "<br/>"
    text = end.join(_toned(line, is_dead=is_dead) for line in lines) + (end if is_left else "")
    if not badges:
        return f"<{text}>"
    # A row is as wide as the text below it, and would stretch badges without a fixed size.
    cells = "".join(
        f'<td fixedsize="true" width="{look.width(columns_of(badge.text)) + 10:.0f}" height="{look.points + 6:.0f}" '
        f'bgcolor="{_BADGES[badge.kind]}"><font color="white"><b>{_text(badge.text)}</b></font></td>'
        for badge in badges
    )
    row = f"<td>{_TABLE.format(3, f'<tr>{cells}</tr>')}</td>"
    align = ' align="left" balign="left"' if is_left else ""
    return f"<{_TABLE.format(0, f'<tr>{row}</tr><tr><td{align}>{text}</td></tr>')}>"


def _toned(line: Line, *, is_dead: bool = False) -> str:
    tone: Tone = "text" if is_dead and line.tone != "name" else line.tone
    return _TONES[tone].format(_text(line.text))


def _box(graph: Digraph, box: Box, look: _Look, *, is_sideways: bool) -> None:
    """Draw a box with a bar where the sub-steps start and one where they join."""
    color = _PATH if box.is_walked else _FOCUS["color"] if box.is_focus else _GREY if box.is_dead else "#444444"
    style = {"style": "rounded,dashed" if box.is_dead else "rounded", "color": color}
    if box.is_walked or box.is_focus:
        style["penwidth"] = "3"
    lines = [Line(_roomy(line.text), line.tone) for line in box.lines]
    bar: dict[str, Any] = {
        **_STYLES["bar"],
        **(_UPRIGHT if is_sideways else {}),
        **({"fillcolor": _GREY, "color": _GREY} if box.is_dead else {}),
    }
    with graph.subgraph(name=f"cluster_{box.name}") as inside:
        label = _label(lines, box.badges, look, is_dead=box.is_dead, is_left=True)
        inside.attr(label=label, labeljust="l", fontsize=str(look.points), **style)
        inside.node(box.fork, **bar)
        for part in box.parts:
            _node(inside, part, look)
        inside.node(box.join, **bar)
        # Heavy edges center the bars over the sub-steps.
        arrow = {"arrowsize": "0.6", "weight": "10", **({"color": _GREY} if box.is_dead else {})}
        for start, end in box.arrows:
            inside.edge(start, end, **arrow)


# -- edges -------------------------------------------------------------------------------------------------------------


def _edge(graph: Digraph, edge: Edge, name: str, look: _Look) -> None:
    style: dict[str, str] = dict(_ARROWS[edge.kind])
    if edge.is_dead:
        style |= {"style": "dashed", "color": _GREY}
    if edge.is_walked:
        style |= {"color": _PATH, "penwidth": "2.5"}
    if not edge.lines:
        graph.edge(edge.start, edge.end, **style)
        return
    # A label is a node on its edge: no other edge is drawn over a node.
    lines = [Line(_roomy(line.text, 12), line.tone) for line in edge.lines]
    label = {
        "label": _label(lines, (), look, is_dead=edge.is_dead),
        **({"fontcolor": "#808080"} if edge.is_dead else {}),
    }
    graph.node(name, **_LABEL, fontsize=str(look.label_points), **label)
    graph.edge(edge.start, name, **style, arrowhead="none")
    graph.edge(name, edge.end, **style)


# -- text --------------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    return html.escape(safe(text))


def _roomy(line: str, share: int = 6) -> str:
    """Return a line with space at its end, for fonts that are wider than the assumed one."""
    return line + " " * (len(line) // share + 1)


def _escaped(text: str) -> str:
    """Return the text of an attribute: without escapes of DOT, and never taken for markup, also between `<` and `>`."""
    from graphviz import nohtml

    lines: Iterable[str] = map(safe, text.split("\n"))
    quoted: str = nohtml("\\n".join(line.replace("\\", "\\\\") for line in lines))
    return quoted
