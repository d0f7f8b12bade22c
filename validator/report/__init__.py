"""The formats of the report: one module each, and the list of them.

To add a format, write a module with `render(result: RunResult) -> str`, and a line of FORMATS: the command takes its
options from there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from stepward.validator.failures import Failures
    from stepward.validator.reasons import UnknownReason
    from stepward.validator.result import RunResult


class Format(NamedTuple):
    """An output format, and what it needs from a run."""

    module: str
    """The module of this folder that has `render`."""
    title: str = ""
    """The name of a format for other programs; the command can write such a file beside the report."""
    is_text: bool = False
    """Whether it is text for people."""
    has_color: bool = False
    """Whether `render` takes `color`."""
    has_fixes: bool = False
    """Whether it shows the fixes of findings."""
    has_bounds: bool = False
    """Whether it shows the bounds of programs."""


FORMATS: Final[dict[str, Format]] = {
    "full": Format("full", is_text=True, has_color=True),
    "concise": Format("concise", is_text=True),
    "model": Format("model", is_text=True, has_fixes=True),
    "json": Format("json_report", "JSON", has_fixes=True, has_bounds=True),
    "sarif": Format("sarif", "SARIF 2.1.0", has_fixes=True),
    "github": Format("github"),
    "gitlab": Format("gitlab", "GitLab code quality"),
    "junit": Format("junit", "JUnit's XML"),
}
"""The formats that a user can ask for."""

OUTPUTS: Final = tuple(name for name, format in FORMATS.items() if format.title)
"""The formats that can be written to a file of their own, beside the report."""


def render(result: RunResult, format: str, *, color: bool = False) -> str:
    """Return a run in a format, a key of FORMATS; `color` adds the codes of terminals, if the format has color."""
    known = FORMATS[format]
    module = import_module(f"{__name__}.{known.module}")
    text: str = module.render(result, color=color) if known.has_color else module.render(result)
    return text


def safely_rendered(result: RunResult, format: str, failures: Failures, *, color: bool = False) -> str:
    """Return a run in a format; where an internal error prevents that, return a report of the error in the same format.

    For people that is a line for each finding; for programs a document which says that nothing was decided, or an empty
    one where even that can't be written.
    """

    def broken(why: UnknownReason) -> str:
        if format == "full":
            return safely_rendered(result, "concise", failures, color=color)
        from stepward.validator.failures import REPORT_IT, Failures
        from stepward.validator.result import AdvisedError, undecided

        error = AdvisedError(f"the report can't be written: {why.reason}", REPORT_IT)
        return Failures().attempt("", lambda: render(undecided(error), format, color=color), lambda _: "")

    return failures.attempt(f"the report as {format}", lambda: render(result, format, color=color), broken)
