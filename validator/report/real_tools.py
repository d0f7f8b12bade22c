"""The results of attacks on the user's own tools: the matrix as text, as data, and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.real.questions import QUESTIONS
from stepward.sabotage.real.study import ToolOutcome
from stepward.validator.report.junit import Mark, Test, suites
from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, safe

if TYPE_CHECKING:
    from stepward.sabotage.real.campaign import ToolMatrix, ToolRow

VERSION: Final = 1


def to_text(matrix: ToolMatrix, *, details: bool = False, color: bool = False) -> str:
    """Return the matrix of tools and questions, every breach with its story, what was not observed, and a summary.

    `details` adds the reason of every outcome.
    """
    questions = [question for question in QUESTIONS if any(row.question is question for row in matrix.rows)]
    columns = [Column("tool"), *(Column(question.name) for question in questions)]
    tools = list(dict.fromkeys(row.tool for row in matrix.rows))
    cells = {(row.tool, row.question.name): _words(row) for row in matrix.rows}
    rows = [[tool, *(cells.get((tool, question.name), "-") for question in questions)] for tool in tools]
    text = render(columns, rows, color=color) + "\n" if rows else ""
    for row in (*matrix.of(ToolOutcome.BREACHED), *matrix.of(ToolOutcome.UNCONFIRMED)):
        text += _breach(row) + "\n"
    shown = (ToolOutcome.NOT_OBSERVED, ToolOutcome.NOT_RUN, *([ToolOutcome.HELD] if details else []))
    for outcome in shown:
        text += _reasons(matrix.of(outcome))
    return f"{text}{_summary(matrix)}\n"


def _reasons(rows: Sequence[ToolRow]) -> str:
    """Return the reasons of outcomes, each with the questions that have it."""
    alike: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        alike.setdefault(f"{_words(row)}: {row.verdict.why}", {}).setdefault(row.tool, []).append(row.question.name)
    text = ""
    for reason, tools in alike.items():
        lines = [reason, *(f"  `{tool}`: {', '.join(names)}" for tool, names in tools.items())]
        text += "".join(f"{safe(line)}\n" for line in lines) + "\n"
    return text


def _words(row: ToolRow) -> str:
    return str(row.verdict.outcome).replace("_", " ")


def _breach(row: ToolRow) -> str:
    question, verdict = row.question, row.verdict
    lines = [
        f"{_words(row)}[{question.name}] `{row.tool}`: {verdict.why}",
        f"  = the question: {question.asks}",
        f"  = what it means: {question.means}",
        "  = the case:" if verdict.story else "",
        *(f"      {number}. {line}" for number, line in enumerate(verdict.story, start=1)),
    ]
    return "".join(f"{safe(line)}\n" for line in lines if line)


def _summary(matrix: ToolMatrix) -> str:
    broken = len(matrix.of(ToolOutcome.BREACHED))
    parts = [counted(broken, "breach", "breaches") if broken else "no breach"]
    for outcome in (ToolOutcome.UNCONFIRMED, ToolOutcome.NOT_OBSERVED, ToolOutcome.NOT_RUN):
        if matrix.of(outcome):
            parts.append(f"{len(matrix.of(outcome))} {outcome.replace('_', ' ')}")
    tools = counted(len({row.tool for row in matrix.rows}), "tool")
    return (
        f"{', '.join(parts)}: {len(matrix.of(ToolOutcome.HELD))} of {counted(len(matrix.rows), 'question')} held,"
        f" {tools} of `{safe(matrix.program)}`, {counted(sum(row.cases for row in matrix.rows), 'case')}"
        f" in {matrix.seconds:.1f} s, seed {matrix.orders.seed}"
    )


def to_data(matrix: ToolMatrix) -> dict[str, Any]:
    """Return the matrix as plain data for JSON."""
    return {
        "version": VERSION,
        "program": matrix.program,
        "tools": matrix.tools,
        "seed": matrix.orders.seed,
        "examples": matrix.orders.examples,
        "questions": [_row_data(row) for row in matrix.rows],
        "summary": {
            "questions": len(matrix.rows),
            **{str(outcome): len(matrix.of(outcome)) for outcome in ToolOutcome},
            "cases": sum(row.cases for row in matrix.rows),
            "seconds": round(matrix.seconds, 3),
        },
    }


def _row_data(row: ToolRow) -> dict[str, Any]:
    return {
        "tool": row.tool,
        "name": row.question.name,
        "asks": row.question.asks,
        "means": row.question.means,
        "outcome": str(row.verdict.outcome),
        "why": row.verdict.why,
        "story": list(row.verdict.story),
        "cases": row.cases,
        "seconds": round(row.seconds, 3),
    }


def to_junit(matrix: ToolMatrix) -> str:
    """Return the matrix as JUnit's XML: a suite for each tool, a test for each question."""
    tools: dict[str, list[Test]] = {}
    for row in matrix.rows:
        tools.setdefault(row.tool, []).append(Test(row.question.name, row.seconds, list(_marks(row))))
    return suites("stepward sabotage --call-real-tools", tools)


def _marks(row: ToolRow) -> Iterator[Mark]:
    name, verdict = row.question.name, row.verdict
    match verdict.outcome:
        case ToolOutcome.BREACHED:
            yield Mark("failure", verdict.why, name, verdict.story)
        case ToolOutcome.UNCONFIRMED:
            yield Mark("error", f"a fresh process could not repeat it: {verdict.why}", name)
        case ToolOutcome.NOT_OBSERVED | ToolOutcome.NOT_RUN:
            yield Mark("skipped", f"{_words(row)}: {verdict.why}")
        case ToolOutcome.HELD:
            pass
