"""How a run is told: one module per format, and the list of them. To add one, write `render` and name it here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepward.validator.gate.checking import RunResult

FORMATS: Final[dict[str, str]] = {
    "full": "stepward.validator.report.full",
    "concise": "stepward.validator.report.concise",
    "json": "stepward.validator.report.json_report",
    "sarif": "stepward.validator.report.sarif",
    "github": "stepward.validator.report.github",
    "gitlab": "stepward.validator.report.gitlab",
    "junit": "stepward.validator.report.junit",
}
"""The formats that a user can ask for, and the module that writes each."""


def render(result: RunResult, format: str, *, color: bool = False) -> str:
    """Return a run told in a format, a key of FORMATS; with `color`, with the codes that terminals know."""
    text: str = import_module(FORMATS[format]).render(result, color=color)
    return text
