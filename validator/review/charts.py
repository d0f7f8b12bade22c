"""Plots as SVG elements of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from stepward.validator.report.dynamics import number
from stepward.validator.review.elements import element

if TYPE_CHECKING:
    from stepward.validator.dynamics.series import Series

WIDTH: Final = 720
HEIGHT: Final = 110
LEFT: Final = 84
"""Units of the drawing that the scale takes."""


def chart(series: Series, runs: int, alarms: Sequence[tuple[int, int]]) -> Element:
    """Return the plot of one measure over the runs; `alarms` are the first and the last run of what is shaded."""
    values = [value for _, value in series.points]
    limits = [] if series.limit is None else [series.limit]
    low, high = min(values + limits), max(values + limits)

    def x(at: float) -> float:
        return round(LEFT + (at + 0.5) / runs * (WIDTH - LEFT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - 8 - (value - low) / (high - low) * (HEIGHT - 16), 1)

    shaded = [
        element(
            "rect", x=x(first - 0.5), y=0, width=max(x(last + 0.5) - x(first - 0.5), 2), height=HEIGHT, class_="alarm"
        )
        for first, last in alarms
    ]
    line = element("polyline", points=" ".join(f"{x(at)},{y(value)}" for at, value in series.points), class_="curve")
    scale = [
        element("text", number(value), x=LEFT - 6, y=y(value) + 4, **{"text-anchor": "end"}) for value in (low, high)
    ]
    limit = [element("line", x1=LEFT, x2=WIDTH, y1=y(one), y2=y(one), class_="limit") for one in limits]
    title = f"{series.title}, {series.unit}"
    drawing = element(
        "svg", *shaded, *limit, line, *scale, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img",
        aria_label=f"{title}: from {number(low)} to {number(high)}",
    )  # fmt: skip
    return element("figure", element("figcaption", title), drawing, class_="plot")
