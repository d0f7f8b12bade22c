"""The diagram of a program as an element of the page, whose nodes can be chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, fromstring

from stepward.validator.diagram.dot import to_dot
from stepward.validator.diagram.picture import Box, Picture, all_nodes
from stepward.validator.diagram.rendering import render

_KEPT: Final = frozenset({
    "viewBox", "transform", "d", "points", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "rx", "ry", "r",
    "width", "height",
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity",
    "text-anchor", "font-family", "font-weight", "font-style", "font-size",
})  # fmt: skip
"""The attributes of the drawing that are kept. Ids would occur once for each diagram, and a style is not allowed."""

_DRAWN: Final = frozenset({"svg", "g", "polygon", "polyline", "path", "ellipse", "circle", "rect", "line", "text"})
_WHITE: Final = re.compile(r"[ \t\n]+")


def drawn(picture: Picture) -> Element:
    """Return the drawing of a picture; raises DiagramError if there is no program to draw it.

    The group of a step has `data-step` and can have the focus of the keyboard.
    """
    steps = {node.name: node.step for node in all_nodes(picture.nodes) if node.step}
    steps |= {f"cluster_{one.name}": one.step for one in picture.nodes if isinstance(one, Box)}
    root = fromstring(render(to_dot(picture), "svg"))
    copy = _copied(root, steps)
    copy.set("role", "group")
    copy.set("aria-label", f"steps of {picture.title}")
    return copy


def _copied(source: Element, steps: Mapping[str, str]) -> Element:
    """Return the drawing without everything that is no shape or text: links, titles, styles, scripts."""
    copy = Element(_local(source.tag))
    for name, value in source.attrib.items():
        if name in _KEPT:
            copy.set(name, value)
    if copy.tag == "text":
        copy.text = "".join(source.itertext()).replace("\xa0", " ")
        return copy
    for child in source:
        tag = _local(child.tag)
        if tag == "title":
            step = steps.get(_WHITE.sub(" ", child.text or "").strip())
            if step is not None and source.get("class") in ("node", "cluster"):
                copy.set("class", "step")
                copy.set("data-step", step)
                copy.set("tabindex", "0")
                copy.set("role", "button")
        elif tag == "a":  # a link of a tooltip: what is inside is drawn
            copy.extend(_copied(child, steps))
        elif tag in _DRAWN:
            copy.append(_copied(child, steps))
    return copy


def _local(tag: object) -> str:
    return str(tag).rpartition("}")[2]
