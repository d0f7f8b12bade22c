"""How often each code comes, in place of the findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepward.validator.report.text import summary

if TYPE_CHECKING:
    from stepward.validator.gate.checking import RunResult


def render(result: RunResult) -> str:
    """Return a line for each code that comes, the most frequent first, and the summary."""
    counts = Counter((finding.code, finding.severity, finding.name) for finding in result.findings)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"{count:>6}  {code}  {severity:<7}  {name}" for (code, severity, name), count in ordered]
    return "".join(f"{line}\n" for line in [*rows, *([""] if rows else []), summary(result)])
