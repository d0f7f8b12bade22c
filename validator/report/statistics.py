"""Statistics in place of findings: the number of findings of each code, and the bounds of each program."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from stepward.validator.findings import Verdict
from stepward.validator.report import table
from stepward.validator.report.table import Column
from stepward.validator.report.text import counted, safe, summary

if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import Most, ProgramBounds
    from stepward.validator.result import RunResult

MAX_SKIPPED: Final = 100
"""Skipped and excluded files that are listed."""

_COLUMNS: Final = (
    Column("file"),
    Column("program"),
    Column("fewest steps", is_number=True),
    Column("most steps", is_number=True),
    Column("model calls", is_number=True),
    Column("why"),
    Column("tool calls"),
    Column("model calls by step"),
)


def render(result: RunResult) -> str:
    """Return a line for each code that occurs, the most frequent first, one for each program, and the summary."""
    counts = Counter((finding.code, finding.severity, finding.name) for finding in result.findings)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"{count:>6}  {code}  {severity:<7}  {name}" for (code, severity, name), count in ordered]
    codes = "".join(f"{row}\n" for row in rows)
    per_file = Counter(entry.file for entry in result.bounds)
    measured = [_bounds(entry, is_alone=per_file[entry.file] == 1) for entry in result.bounds]
    bounds = table.render(_COLUMNS, measured) if measured else ""
    end = summary(result, lists_all=True) + "\n"
    return "\n".join(block for block in (codes, bounds, _properties(result), _left_out(result), end) if block)


def _left_out(result: RunResult) -> str:
    """Return a line for each finding that a policy waives, stale entry of a baseline, and file that is no program
    or excluded."""
    waived = [
        f"waived: {finding.code} in {finding.file}, rule {finding.policy}: {reason}"
        for finding, kind, reason in result.suppressed
        if kind == "waiver"
    ]
    stale = [
        f"stale: {entry['code']} in {entry['file']}, {entry['baseline']} lists it: {entry['message']}"
        + (f" ({entry['count']} times)" if entry["count"] > 1 else "")
        for entry in result.stale
    ]
    left_out = [f"excluded: {file}" for file in result.excluded] + [f"skipped: {file}" for file in result.skipped_files]
    skipped = left_out[:MAX_SKIPPED]
    more = len(left_out) - len(skipped)
    rest = [f"skipped: {counted(more, 'more file')}"] if more else []
    return "".join(f"{safe(line)}\n" for line in (*waived, *stale, *skipped, *rest))


def _properties(result: RunResult) -> str:
    """Return a line that counts the verdicts on the properties of all programs."""
    verdicts = Counter(one.verdict for one in result.properties)
    if not verdicts:
        return ""
    rechecked = sum(one.rechecked for one in result.properties)
    proved = f"{verdicts[Verdict.PROVED]} proved ({rechecked} rechecked)"
    return f"properties: {proved}, {verdicts[Verdict.VIOLATED]} violated, {verdicts[Verdict.UNKNOWN]} unknown\n"


def _bounds(entry: ProgramBounds, *, is_alone: bool) -> list[str]:
    name = "" if is_alone else entry.program
    fewest = str(entry.shortest.steps) if entry.shortest else "-"
    tools = ", ".join(f"{tool} {_count(most.attempts)}" for tool, most in entry.tools.items())
    each = entry.model_steps if len(entry.model_steps) > 1 else {}  # of one step, the sum says it
    models = ", ".join(f"{step} {_count(most)}" for step, most in each.items())
    return [entry.file, name, fewest, _count(entry.steps), _count(entry.model_calls), entry.reason, tools, models]


def _count(most: Most) -> str:
    if most.count is None:
        return "no bound" if most.loop else "-"
    return str(most.count)
