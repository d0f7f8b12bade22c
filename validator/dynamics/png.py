"""The plots of fleets as one PNG picture, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Final

from stepward.validator.dynamics.series import series_of

if TYPE_CHECKING:
    from stepward.validator.dynamics.analysis import Fleet

MOST_FLEETS: Final = 12
"""Fleets in one picture; with more it can't be read."""


def png(fleets: Sequence[Fleet]) -> bytes:
    """Return the plots of the first fleets below each other; alarms are shaded."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plots = [(fleet, one) for fleet in fleets[:MOST_FLEETS] for one in series_of(fleet)]
    figure = Figure(figsize=(9, 0.6 + 1.7 * max(len(plots), 1)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for number, (fleet, series) in enumerate(plots, start=1):
        axes = figure.add_subplot(len(plots), 1, number)
        axes.plot([at for at, _ in series.points], [value for _, value in series.points], linewidth=0.8)
        for alarm in fleet.alarms:
            last = len(fleet.courses) - 1 if alarm.until is None else alarm.until
            axes.axvspan(alarm.since - 0.5, last + 0.5, color="#a8102a", alpha=0.15)
        if series.limit is not None:
            axes.axhline(series.limit, color="#a8102a", linestyle="--", linewidth=0.8)
        name = f"{fleet.program} {fleet.family}".strip().replace("$", r"\$")  # matplotlib takes `$` for formulas
        axes.set_title(f"{name}: {series.title}, {series.unit}", fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
        axes.margins(x=0.01)
    out = BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()
