"""How a run is told: one module per format, and the list of them. To add one, write `render` and name it here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepward.validator.failures import Failures
    from stepward.validator.result import RunResult

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


def safely_rendered(result: RunResult, format: str, failures: Failures, *, color: bool = False) -> str:
    """Return a run told in a format. Where an internal error keeps it from that, say so in the same format.

    People then get the findings on a line each, and programs a document that says that nothing was decided, or an empty
    one where not even that can be written.
    """

    def broken(reason: str) -> str:
        if format == "full":
            return safely_rendered(result, "concise", failures, color=color)
        from stepward.validator.failures import REPORT_IT, Failures
        from stepward.validator.result import AdvisedError, undecided

        error = AdvisedError(f"the report can't be written: {reason}", REPORT_IT)
        return Failures().attempt("", lambda: render(undecided(error), format, color=color), lambda _: "")

    return failures.attempt(f"the report as {format}", lambda: render(result, format, color=color), broken)
