"""The page of the studio: the frame that the script fills with what the server sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from stepward.validator.review.elements import add_all, element
from stepward.validator.review.page import framed
from stepward.validator.studio.tour import tour_section

STATUSES: Final = (
    "RUNNING", "SUSPENDED", "IN_DOUBT", "SUCCESS", "FAILED", "BUDGET_EXCEEDED", "STALLED", "CANCELLED",
)  # fmt: skip


def studio_page(journal: str, files: Sequence[str], *, tour: bool = False) -> str:
    """Return the page as HTML. `journal` is its name for people, without a password; `files` have programs.

    With `tour` it begins with the guided tour.
    """
    head = [element("link", rel="stylesheet", href=f"/{name}") for name in ("page.css", "studio.css")]
    scripts = [element("script", src=f"/{name}") for name in ("page.js", "studio.js")]
    sections = [tour_section() if tour else None, _desk(), _sandboxes(), _analysis(), _programs(files)]
    links = [element("a", text, href=f"#{id}") for id, text in _LINKS.items() if id != "programs" or files]
    links += [element("button", "Begin the tour", type="button", id="tour-again", hidden="hidden")] if tour else []
    header = [
        element("p", "Journal ", element("b", journal)),
        element("output", "connecting…", id="live", aria_live="off"),
        element("nav", *links, aria_label="sections", class_="menu"),
        _token_form(),
    ]
    return framed("Stepward studio", head, header, [one for one in sections if one is not None], scripts)


_LINKS: Final = {"runs": "Runs", "sandboxes": "Sandboxes", "analysis": "Analysis", "programs": "Programs"}


def _token_form() -> Element:
    field = element("input", type="password", id="token", autocomplete="off", spellcheck="false")
    return element(
        "form",
        element("label", "Operator's token ", field, class_="only-watching"),
        element("button", "Use it", type="submit", class_="only-watching"),
        element("label", "Your name ", element("input", id="by", autocomplete="off", maxlength=200)),
        element("output", "You only watch.", id="may-act", aria_live="polite"),
        id="token-form",
        class_="filters",
    )


def _desk() -> Element:
    """Return the section of runs: what waits, the list, and the run that is chosen."""
    lists = element(
        "nav",
        element("h3", "Waits for somebody ", element("small", id="waiting-count")),
        element("div", id="waiting-list", class_="rows"),
        element("h3", "Runs ", element("small", id="rate")),
        _filters(),
        element("div", id="live-list", class_="rows"),
        tabindex=0,
        aria_label="runs",
    )
    chosen = element("div", id="chosen-run")
    hint = element("p", "Choose a run in the list: its diagram is shown here, and its steps light up as it goes.")
    hint.set("class", "hint")
    columns = element("div", lists, element("div", hint, id="picture"), element("div", chosen, class_="chosen"))
    columns.set("class", "columns")
    return element("section", element("h2", "Runs"), columns, id="runs", class_="desk")


def _filters() -> Element:
    every = element("option", "every program", value="")
    options = [element("option", "every status", value="")]
    options += [element("option", status, value=status) for status in STATUSES]
    return element(
        "div",
        element("label", "Search ", element("input", type="search", id="live-text", placeholder="part of an id")),
        element("label", "Program ", element("select", every, id="live-program")),
        element("label", "Status ", add_all(element("select", id="live-status"), options)),
        element("output", id="live-count", for_="live-text live-program live-status"),
        element("button", "show all", type="button", id="live-all", hidden="hidden"),
        class_="filters",
    )


def _sandboxes() -> Element:
    hint = element(
        "p",
        "Nothing was tried yet. Choose a run above, a failure beside its records, and “Try it on a copy”: what the "
        "machine does about it is shown here.",
        class_="hint",
    )
    lists = element("div", id="sandbox-list", class_="rows")
    return element("section", element("h2", "Sandboxes"), lists, element("div", hint, id="sandbox"), id="sandboxes")


def _analysis() -> Element:
    hint = element("p", "Open it to see measures and plots of the runs that ended last, as they change.", class_="hint")
    details = element("details", element("summary", "Measures and plots"), element("div", hint, id="plots"))
    details.set("id", "analysis-details")
    return element("section", element("h2", "Analysis"), details, id="analysis")


def _programs(files: Sequence[str]) -> Element | None:
    if not files:
        return None
    found = [
        element("details", element("summary", file), element("div", class_="part"), data_file=file, class_="file")
        for file in files
    ]
    hint = element("p", "Each is checked when you open it.", class_="hint")
    return element("section", element("h2", "Programs"), hint, *found, id="programs")
