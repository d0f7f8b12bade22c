"""The page of `stepward analyze`: measures, plots and alarms of each fleet."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from stepward.validator.dynamics.series import series_of
from stepward.validator.report.dynamics import HEADINGS, MEANINGS, alarm_lines, cells_of, day, number
from stepward.validator.report.text import counted
from stepward.validator.review.charts import chart
from stepward.validator.review.elements import add_all, element, table
from stepward.validator.review.page import document

if TYPE_CHECKING:
    from stepward.validator.dynamics.analysis import Fleet

MOST_STEPS: Final = 100
"""Steps in the table of what they took."""


def analysis_page(fleets: Sequence[Fleet], notes: Sequence[str]) -> str:
    """Return the page as HTML."""
    sections = [fleet_section(fleet, at) for at, fleet in enumerate(fleets)]
    alarms = sum(len(fleet.alarms) for fleet in fleets)
    runs = sum(len(fleet.courses) for fleet in fleets)
    summary = f"{counted(runs, 'run')}, {counted(len(fleets), 'fleet')}, {counted(alarms, 'alarm')}"
    links = [element("a", _name(fleet), href=f"#fleet{at}") for at, fleet in enumerate(fleets)]
    header = [element("p", ". ".join((summary, *notes))), element("nav", *links, aria_label="fleets", class_="menu")]
    style = files("stepward.validator.review").joinpath("page.css").read_text(encoding="utf-8")
    return document("Stepward analysis", header, [element("section", legend()), *sections], style)


def measures_section(fleets: Sequence[Fleet]) -> Element:
    """Return the section of the review page about the runs of a journal that ended last."""
    runs = sum(len(fleet.courses) for fleet in fleets)
    what = f"{counted(runs, 'run')} that ended last. `stepward analyze` compares all runs with healthy ones."
    parts = [fleet_section(fleet, at) for at, fleet in enumerate(fleets)]
    return element("section", element("h2", "Measures"), element("p", what), legend(), *parts, id="measures")


def _name(fleet: Fleet) -> str:
    return f"{fleet.program} ({fleet.family})" if fleet.family else fleet.program


def fleet_section(fleet: Fleet, at: int) -> Element:
    """Return the measures, plots and alarms of one fleet."""
    runs = fleet.courses
    last = len(runs) - 1
    shaded = [(one.since, last if one.until is None else one.until) for one in fleet.alarms]
    rows = [["all", "", *cells_of(fleet.whole)]]
    rows += [
        [f"{one.first}–{one.last}", day(runs[one.first].started), *cells_of(one.measures)]
        for one in fleet.windows
        if len(fleet.windows) > 1
    ]
    work = sorted(fleet.work.items(), key=lambda item: (-item[1].took, item[0]))[:MOST_STEPS]
    return element(
        "section",
        element("h2", _name(fleet), " ", element("small", counted(len(runs), "run"))),
        *_alarms(fleet),
        *(chart(one, len(runs), shaded) for one in series_of(fleet)),
        _wide(table(("runs", "from", *HEADINGS.values()), rows, "Measures of all its runs, and of some at a time")),
        _wide(
            table(
                ("step", "attempts", "tokens", "cost", "seconds"),
                [
                    [step, str(one.attempts), str(one.tokens), number(float(one.cost)), number(one.took / 1e6)]
                    for step, one in work
                ],
                "What its steps took in all runs",
            )
        ),
        id=f"fleet{at}",
        class_="fleet",
    )


def _wide(content: Element) -> Element:
    """Return a table in a frame that scrolls where the page is narrow."""
    return element("div", content, class_="wide", tabindex=0, role="region", aria_label=content.findtext("caption"))


def legend() -> Element:
    """Return what the headings of measures mean, to be opened."""
    found = element("dl")
    for name, heading in HEADINGS.items():
        add_all(found, (element("dt", heading), element("dd", MEANINGS[name])))
    return element("details", element("summary", "What the columns mean"), found, class_="legend")


def _alarms(fleet: Fleet) -> list[Element]:
    if fleet.watched is None:
        return [element("p", "No baseline: measures only.")]
    if not fleet.alarms:
        return [element("p", "No alarm: these runs behave as the healthy ones.", class_="good")]
    found = []
    for alarm in fleet.alarms:
        first, *rest = alarm_lines(alarm, fleet)
        items = [element("li", line.removeprefix("  = ")) for line in rest]
        found.append(
            element("article", element("h3", first, class_="error"), add_all(element("ul"), items), class_="alarm")
        )
    return found
