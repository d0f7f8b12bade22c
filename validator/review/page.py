"""The page as a whole: one file that a browser opens without a network, and in which no text of a user is run."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

from stepward.validator.report.text import counted
from stepward.validator.review.elements import element, html
from stepward.validator.review.sections import program_section, runs_section, sabotage_section

if TYPE_CHECKING:
    from stepward.validator.review.programs import ProgramView
    from stepward.validator.review.runs import RunsView

_HERE: Final = "stepward.validator.review"


def page(
    programs: Sequence[ProgramView],
    *,
    others: Sequence[Mapping[str, str]] = (),
    sabotage: Mapping[str, Any] | None = None,
    runs: RunsView | None = None,
    measures: Element | None = None,
) -> str:
    """Return the page as HTML.

    `others` are findings of no program: their `file`, `code`, `message` and `help`; `measures` is the section of them.
    """
    style, script = _own("page.css"), _own("page.js")
    sections = [program_section(view, number) for number, view in enumerate(programs)]
    sections += [_others(others)] if others else []
    sections += [sabotage_section(sabotage)] if sabotage is not None else []
    sections += [runs_section(runs, programs)] if runs is not None else []
    sections += [] if measures is None else [measures]
    data = _data("runs-data", [list(row) for row in runs.rows] if runs is not None else [])
    header = [element("p", _summary(programs)), _menu(programs, sections)]
    return document("Stepward report", header, sections, style, script, data)


def document(
    title: str,
    header: Sequence[Element],
    sections: Sequence[Element],
    style: str,
    script: str = "",
    data: Element | None = None,
) -> str:
    """Return a page of these sections with one style and, where it is not empty, one script, which may read `data`."""
    head = [
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": _policy(style, script)}),
        element("style", style),
    ]
    return framed(title, head, header, sections, [data, element("script", script) if script else None])


def framed(
    title: str,
    head: Sequence[Element],
    header: Sequence[Element],
    sections: Sequence[Element],
    scripts: Sequence[Element | None],
) -> str:
    """Return a page of these sections. `head` has its styles and its policy, `scripts` come last."""
    frame = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        *head,
    )
    body = element("body", element("header", element("h1", title), *header), element("main", *sections), *scripts)
    return html(element("html", frame, body, lang="en"))


def _summary(programs: Sequence[ProgramView]) -> str:
    findings = sum(len(view.findings) for view in programs)
    proved = sum(one.verdict == "proved" for view in programs for one in view.properties)
    total = sum(len(view.properties) for view in programs)
    return f"{counted(len(programs), 'program')}, {counted(findings, 'finding')}, {proved} of {total} properties proved"


def _menu(programs: Sequence[ProgramView], sections: Sequence[Element]) -> Element:
    names = [f"{view.program.name} ({len(view.findings)})" for view in programs]
    links = [
        element(
            "a", names[number] if number < len(names) else (section.findtext("h2") or ""), href=f"#{section.get('id')}"
        )
        for number, section in enumerate(sections)
    ]
    return element("nav", *links, aria_label="sections", class_="menu")


def _others(others: Sequence[Mapping[str, str]]) -> Element:
    items = [
        element("li", element("b", one["code"]), f" {one['file']}: {one['message']} ", element("i", one["help"]))
        for one in others
    ]
    return element("section", element("h2", "Files without a program to draw"), element("ul", *items), id="others")


def _policy(style: str, script: str) -> str:
    """Return the content security policy: only this style and this script, if any, and nothing from a network."""
    scripts = f"'{_digest(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {scripts}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _data(id: str, data: Any) -> Element:
    """Return data for the script; no text in it can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c").replace("&", "\\u0026")
    return element("script", text, type="application/json", id=id)


def _own(name: str) -> str:
    return files(_HERE).joinpath(name).read_text(encoding="utf-8")
