"""What a campaign of attacks found: the matrix as text, as data, and as JUnit's XML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from stepward.sabotage.invariants import Outcome
from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, safe

if TYPE_CHECKING:
    from stepward.sabotage.campaign import Matrix, Row

VERSION: Final = 1
OUTCOMES: Final = (Outcome.BLOCKED, Outcome.DETECTED, Outcome.ABSORBED, Outcome.BREACHED, Outcome.NOT_APPLICABLE)

_COLUMNS: Final = (
    Column("family"),
    Column("attack"),
    Column("outcome"),
    *(Column(str(outcome).replace("_", " "), is_number=True) for outcome in OUTCOMES),
    Column("events", is_number=True),
    Column("CPU s", is_number=True),
)


def to_text(matrix: Matrix, saved: Mapping[str, str], *, color: bool = False) -> str:
    """Return the matrix as a table, every breach with its story, and the line that sums it up.

    `saved` has the file of each breach, by the name of its attack.
    """
    played = [row for row in matrix.rows if row.misses is None]
    text = render(_COLUMNS, [_cells(row) for row in played], color=color)
    missed = [row for row in matrix.rows if row.misses is not None]
    if missed:
        text += "\nno hold on this program:\n"
        text += "".join(f"  {row.attack.name}: {safe(row.misses or '')}\n" for row in missed)
    for row in matrix.rows:
        if row.breach is not None:
            text += "\n" + _breach(row, saved.get(row.attack.name))
    return f"{text}\n{_summary(matrix)}\n"


def _cells(row: Row) -> list[str]:
    counts = [str(row.outcomes[outcome] or "") for outcome in OUTCOMES]
    outcome = str(row.outcome).replace("_", " ")
    return [str(row.attack.family), row.attack.name, outcome, *counts, str(row.events), f"{row.seconds:.1f}"]


def _breach(row: Row, file: str | None) -> str:
    assert row.breach is not None, "a breach has a script"
    attack, script = row.attack, row.breach
    lines = [
        f"breach[{attack.name}] {script.what}",
        f"  = invariant: {attack.invariant.value}" if script.invariant == attack.invariant.key else "",
        f"  = defence that should have held: {attack.defence}",
        "  = the smallest case:",
        *(f"      {number}. {line}" for number, line in enumerate(script.story, start=1)),
        *(f"      with {name} = {json.dumps(value, default=str)}" for name, value in script.choices.items()),
        "" if file is None else f"  = help: play it again with `stepward sabotage --replay {file}`",
    ]
    return "".join(f"{safe(line)}\n" for line in lines if line)


def _summary(matrix: Matrix) -> str:
    broken = len(matrix.breaches)
    verdict = f"{broken} breach{'es' * (broken > 1)}" if broken else "no breach"
    cases = sum(row.cases for row in matrix.rows)
    rest = f"; the time did not suffice for {counted(matrix.left, 'shard')}" if matrix.left else ""
    return (
        f"{verdict}: {counted(len(matrix.rows), 'attack')} on `{safe(matrix.program)}`, {counted(cases, 'case')},"
        f" {counted(matrix.events, 'event')} in {matrix.seconds:.1f} s, seed {matrix.seed}{rest}"
    )


def to_data(matrix: Matrix, saved: Mapping[str, str]) -> dict[str, Any]:
    """Return the matrix as plain data for JSON."""
    return {
        "version": VERSION,
        "program": matrix.program,
        "seed": matrix.seed,
        "examples": matrix.examples,
        "attacks": [_row_data(row, saved.get(row.attack.name)) for row in matrix.rows],
        "summary": {
            "attacks": len(matrix.rows),
            "cases": sum(row.cases for row in matrix.rows),
            "events": matrix.events,
            "breaches": len(matrix.breaches),
            "seconds": round(matrix.seconds, 3),
            "shards_left": matrix.left,
        },
    }


def _row_data(row: Row, file: str | None) -> dict[str, Any]:
    attack = row.attack
    data: dict[str, Any] = {
        "name": attack.name,
        "family": str(attack.family),
        "surface": attack.surface,
        "action": attack.action,
        "invariant": attack.invariant.key,
        "defence": attack.defence,
        "severity": attack.severity,
        "enumerates": attack.enumerates or None,
        "misses": row.misses,
        "outcome": str(row.outcome),
        "cases": row.cases,
        **{str(outcome): row.outcomes[outcome] for outcome in OUTCOMES},
        "events": row.events,
        "seconds": round(row.seconds, 3),
        "breach": None,
    }
    if row.breach is not None:
        script = row.breach
        story = list(script.story)
        data["breach"] = {"invariant": script.invariant, "what": script.what, "story": story, "file": file}
    return data


def to_junit(matrix: Matrix) -> str:
    """Return the matrix as JUnit's XML: a suite for each family, a test for each attack."""
    root = Element("testsuites", name="stepward sabotage")
    for family in dict.fromkeys(row.attack.family for row in matrix.rows):
        rows = [row for row in matrix.rows if row.attack.family is family]
        suite = SubElement(root, "testsuite", name=str(family))
        for row in rows:
            _add_case(suite, row)
        suite.set("tests", str(len(rows)))
        suite.set("failures", str(sum(row.breach is not None for row in rows)))
        suite.set("skipped", str(sum(row.misses is not None for row in rows)))
        suite.set("errors", "0")
        suite.set("time", f"{sum(row.seconds for row in rows):.3f}")
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add_case(suite: Element, row: Row) -> None:
    case = SubElement(suite, "testcase", name=row.attack.name, classname=f"{row.attack.family}")
    case.set("time", f"{row.seconds:.3f}")
    if row.misses is not None:
        SubElement(case, "skipped", message=safe(row.misses))
    if row.breach is not None:
        failure = SubElement(case, "failure", type=row.breach.invariant, message=safe(row.breach.what))
        failure.text = "\n".join(safe(line) for line in row.breach.story)
