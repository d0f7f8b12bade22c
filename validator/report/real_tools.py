"""What attacks on the user's own tools found: the matrix as text, as data, and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from stepward.sabotage.real.questions import QUESTIONS
from stepward.sabotage.real.study import Outcome
from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, safe

if TYPE_CHECKING:
    from stepward.sabotage.real.campaign import Matrix, Row

VERSION: Final = 1


def to_text(matrix: Matrix, *, details: bool = False, color: bool = False) -> str:
    """Return the matrix of tools and questions, every breach with its story, what was not seen, and the sum of it.

    With `details` it says of every question why it came to what it did.
    """
    asked = [question for question in QUESTIONS if any(row.question is question for row in matrix.rows)]
    columns = [Column("tool"), *(Column(question.name) for question in asked)]
    tools = list(dict.fromkeys(row.tool for row in matrix.rows))
    cells = {(row.tool, row.question.name): _words(row) for row in matrix.rows}
    rows = [[tool, *(cells.get((tool, question.name), "-") for question in asked)] for tool in tools]
    text = render(columns, rows, color=color) + "\n" if rows else ""
    for row in (*matrix.of(Outcome.BREACHED), *matrix.of(Outcome.UNCONFIRMED)):
        text += _breach(row) + "\n"
    shown = (Outcome.NOT_OBSERVED, Outcome.NOT_RUN, *([Outcome.HELD] if details else []))
    for outcome in shown:
        text += _reasons(matrix.of(outcome))
    return f"{text}{_summary(matrix)}\n"


def _reasons(rows: Sequence[Row]) -> str:
    """Return why questions came to what they did, those together that have the same reason."""
    alike: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        alike.setdefault(f"{_words(row)}: {row.verdict.why}", {}).setdefault(row.tool, []).append(row.question.name)
    text = ""
    for reason, tools in alike.items():
        lines = [reason, *(f"  `{tool}`: {', '.join(names)}" for tool, names in tools.items())]
        text += "".join(f"{safe(line)}\n" for line in lines) + "\n"
    return text


def _words(row: Row) -> str:
    return str(row.verdict.outcome).replace("_", " ")


def _breach(row: Row) -> str:
    question, verdict = row.question, row.verdict
    lines = [
        f"{_words(row)}[{question.name}] `{row.tool}`: {verdict.why}",
        f"  = the question: {question.asks}",
        f"  = what it means: {question.means}",
        "  = the case:" if verdict.story else "",
        *(f"      {number}. {line}" for number, line in enumerate(verdict.story, start=1)),
    ]
    return "".join(f"{safe(line)}\n" for line in lines if line)


def _summary(matrix: Matrix) -> str:
    broken = len(matrix.of(Outcome.BREACHED))
    parts = [counted(broken, "breach", "breaches") if broken else "no breach"]
    for outcome in (Outcome.UNCONFIRMED, Outcome.NOT_OBSERVED, Outcome.NOT_RUN):
        if matrix.of(outcome):
            parts.append(f"{len(matrix.of(outcome))} {outcome.replace('_', ' ')}")
    tools = counted(len({row.tool for row in matrix.rows}), "tool")
    return (
        f"{', '.join(parts)}: {len(matrix.of(Outcome.HELD))} of {counted(len(matrix.rows), 'question')} held,"
        f" {tools} of `{safe(matrix.program)}`, {counted(sum(row.cases for row in matrix.rows), 'case')}"
        f" in {matrix.seconds:.1f} s, seed {matrix.orders.seed}"
    )


def to_data(matrix: Matrix) -> dict[str, Any]:
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
            **{str(outcome): len(matrix.of(outcome)) for outcome in Outcome},
            "cases": sum(row.cases for row in matrix.rows),
            "seconds": round(matrix.seconds, 3),
        },
    }


def _row_data(row: Row) -> dict[str, Any]:
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


def to_junit(matrix: Matrix) -> str:
    """Return the matrix as JUnit's XML: a suite for each tool, a test for each question."""
    root = Element("testsuites", name="stepward sabotage --call-real-tools")
    for tool in dict.fromkeys(row.tool for row in matrix.rows):
        rows = [row for row in matrix.rows if row.tool == tool]
        suite = SubElement(root, "testsuite", name=safe(tool))
        for row in rows:
            _add_case(suite, row)
        suite.set("tests", str(len(rows)))
        suite.set("failures", str(_count(rows, Outcome.BREACHED)))
        suite.set("skipped", str(_count(rows, Outcome.NOT_RUN, Outcome.NOT_OBSERVED)))
        suite.set("errors", str(_count(rows, Outcome.UNCONFIRMED)))
        suite.set("time", f"{sum(row.seconds for row in rows):.3f}")
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _count(rows: Sequence[Row], *outcomes: Outcome) -> int:
    return sum(row.verdict.outcome in outcomes for row in rows)


def _add_case(suite: Element, row: Row) -> None:
    test = SubElement(suite, "testcase", name=row.question.name, classname=safe(row.tool))
    test.set("time", f"{row.seconds:.3f}")
    verdict = row.verdict
    why = safe(verdict.why)
    match verdict.outcome:
        case Outcome.BREACHED:
            failure = SubElement(test, "failure", type=row.question.name, message=why)
            failure.text = "\n".join(safe(line) for line in verdict.story)
        case Outcome.UNCONFIRMED:
            SubElement(test, "error", type=row.question.name, message=f"a fresh process could not repeat it: {why}")
        case Outcome.NOT_OBSERVED | Outcome.NOT_RUN:
            SubElement(test, "skipped", message=f"{_words(row)}: {why}")
        case Outcome.HELD:
            pass
