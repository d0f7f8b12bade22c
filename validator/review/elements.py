"""Elements of the page. Texts become text nodes, so that nothing that a user wrote can become markup or script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

Child = Element | str | None

# HTML has no way to write these characters, and ElementTree writes them as they are.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def plain_text(text: str) -> str:
    """Return a text without characters that a page can't hold; each becomes a replacement character."""
    return _FORBIDDEN.sub("\ufffd", text)


def element(tag: str, *children: Child, **attributes: str | float | None) -> Element:
    """Return an element with its children, in order; an attribute of None is left out.

    In the name of an attribute a `_` stands for `-`, and one at the end is dropped: `class_`, `data_step`.
    """
    found = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            found.set(name.rstrip("_").replace("_", "-"), plain_text(str(value)))
    for child in children:
        add(found, child)
    return found


def add(parent: Element, child: Child) -> None:
    """Append an element or a text; None adds nothing."""
    if child is None:
        return
    if isinstance(child, Element):
        parent.append(child)
    elif len(parent):
        last = parent[-1]
        last.tail = (last.tail or "") + plain_text(child)
    else:
        parent.text = (parent.text or "") + plain_text(child)


def coded(text: str) -> list[Child]:
    """Return the parts of a message: what it has in back-ticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a back-tick without its other half stays as it is
        parts[-2:] = [f"{parts[-2]}`{parts[-1]}"]
    return [element("code", part) if number % 2 else part for number, part in enumerate(parts) if part]


def add_all(parent: Element, children: Iterable[Child]) -> Element:
    """Append several children, and return the parent."""
    for child in children:
        add(parent, child)
    return parent


def table(headings: Iterable[str], rows: Iterable[Iterable[Child]], caption: str) -> Element:
    """Return a table with a caption."""
    found = element("table", element("caption", caption))
    head = SubElement(SubElement(found, "thead"), "tr")
    add_all(head, (element("th", heading, scope="col") for heading in headings))
    body = SubElement(found, "tbody")
    for row in rows:
        add_all(SubElement(body, "tr"), (element("td", cell) for cell in row))
    return found


def html(root: Element) -> str:
    """Return the text of a document."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"
