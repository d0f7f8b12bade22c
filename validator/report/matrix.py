"""The results of a campaign of attacks: the matrix as text, as data, and as JUnit's XML."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.campaign import ProgramSource
from stepward.sabotage.campaigns.specimen_programs import SPECIMENS, specimen
from stepward.sabotage.families import WORDS
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.validator.report.decision import NotRun, decide, decision_words
from stepward.validator.report.junit import Mark, Test, suites
from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, safe

if TYPE_CHECKING:
    from stepward.sabotage.attack import Attack, Family
    from stepward.sabotage.campaign import Matrix, Row
    from stepward.sabotage.campaigns.script import Script

VERSION: Final = 2
OUTCOMES: Final = (
    Outcome.BLOCKED,
    Outcome.DETECTED,
    Outcome.ABSORBED,
    Outcome.BREACHED,
    Outcome.UNCONFIRMED,
    Outcome.NOT_APPLICABLE,
)

_COLUMNS: Final = (
    Column("family"),
    Column("attack"),
    Column("outcome"),
    *(Column(str(outcome).replace("_", " "), is_number=True) for outcome in OUTCOMES),
    Column("events", is_number=True),
    Column("CPU s", is_number=True),
    Column("on"),
)

_GROUNDS: Final = {ProgramSource.PROGRAM: "program", ProgramSource.BUILT_IN: "built-in", ProgramSource.OWN: "own"}

_ELSEWHERE: Final = {
    ProgramSource.BUILT_IN: "only on built-in programs, because these attacks do not apply to this program",
    ProgramSource.OWN: "only on programs, stores or files that these attacks make themselves",
}


def to_text(matrix: Matrix, saved: Mapping[str, str], *, details: bool = False, color: bool = False) -> str:
    """Return what the campaign means for a release, every breach with its story, a paragraph for each family, and, in
    the last line, how many attacks ran.

    `saved` has the file of each breach by the name of its attack. `details` adds a row for each attack, and names those
    that ran elsewhere, or not at all.
    """
    text = _decision(matrix, details=details) + "\n"
    for rows in _causes(matrix):
        text += _breach(rows, saved) + "\n"
    for row in matrix.rows:
        if row.unconfirmed is not None:
            text += _unconfirmed(row, saved.get(row.attack.name)) + "\n"
    paragraphs = []
    for family in dict.fromkeys(row.attack.family for row in matrix.rows):
        of_family = [row for row in matrix.rows if row.attack.family is family]
        paragraphs.append(_paragraph(family, of_family, details=details))
    text += "\n".join(paragraphs)
    if details and matrix.ran:
        text += "\n" + render(_COLUMNS, [_cells(row) for row in matrix.rows if row.ran], color=color)
    return f"{text}\n{safe(_ran(matrix))}\n"


def _ran(matrix: Matrix) -> str:
    """Return how many attacks ran, on what, and how many did not."""
    left = len(matrix.rows) - matrix.ran
    not_run = f"; {left} {'was' if left == 1 else 'were'} not run" if left else ""
    return f"{matrix.ran} of {counted(len(matrix.rows), 'attack')} ran{_where(matrix)}{not_run}"


def _decision(matrix: Matrix, *, details: bool) -> str:
    """Return the verdict with its reasons, what was played, what was not, and what to do."""
    found, missing = decide(matrix), NotRun.of(matrix.rows)
    cases = sum(row.cases - row.outcomes[Outcome.NOT_APPLICABLE] for row in matrix.rows)
    lines = [
        decision_words(found, matrix.program),
        f"  played: {counted(cases, 'case')} with {counted(matrix.events, 'event')} in {matrix.seconds:.1f} s,"
        f" seed {matrix.seed}",
    ]
    if matrix.left and not missing.no_turn:
        lines.append("  not all cases were played: the time limit was reached before the end")
    if matrix.lost:
        parts = counted(matrix.lost, "part")
        lines.append(f"  given up: {parts} of the campaign, because the workers that played them died")
    if missing.idle:
        idle = counted(missing.idle, "attack")
        which = "it needs" if missing.idle == 1 else "each needs"
        lines.append(f"  {idle} had nothing to attack, because the program lacks the feature that {which}")
    if missing.left_out:
        left_out = counted(missing.left_out, "attack")
        lines.append(f"  left out by `--no-specimens`: {left_out} {_on_own(missing.left_out)}")
    helps = []
    if missing.no_turn:
        helps.append(f"`--examples {matrix.examples}` without `--time` lets every attack have its turn")
    if not details and matrix.ran < len(matrix.rows):
        helps.append("`--details` names the attacks that did not run, and says why")
    lines += [f"  help: {'; '.join(helps)}"] if helps else []
    return "".join(f"{safe(line)}\n" for line in lines)


def _cells(row: Row) -> list[str]:
    assert row.ran_on is not None, "it ran"
    counts = [str(row.outcomes[outcome] or "") for outcome in OUTCOMES]
    outcome = str(row.outcome).replace("_", " ")
    return [
        str(row.attack.family),
        row.attack.name,
        outcome,
        *counts,
        str(row.events),
        f"{row.seconds:.1f}",
        _GROUNDS[row.ran_on],
    ]


def _paragraph(family: Family, rows: Sequence[Row], *, details: bool) -> str:
    """Return a paragraph on a family: what was tried, what held, and what that means for a release."""
    words = WORDS[family]
    ran = [row for row in rows if row.ran]
    broken = [row for row in rows if row.breach is not None]
    cases = sum(row.cases - row.outcomes[Outcome.NOT_APPLICABLE] for row in ran)
    verdict = f"{counted(len(broken), 'breach', 'breaches')}" if broken else "no breach"
    all_of = counted(len(rows), "attack")
    lines = [f"{family}: {verdict}; {len(ran)} of {all_of} ran, in {counted(cases, 'case')}"]
    if not ran:
        lines = [f"{family}: nothing ran, of {all_of}"]
    missing = NotRun.of(rows)
    if ran:
        tried = "tried" if len(ran) == len(rows) else "tried in part"
        lines.append(f"  {tried}: {words.tried}")
        outcome = "held in the attacks that ran" if missing.is_open else "held"
        lines.append(f"  do not release: {words.broken}" if broken else f"  {outcome}: {words.held}")
    if missing.is_open:
        lines.append(f"  not known: {', and '.join(missing.open_words())}")
    lines += _names(rows) if details else []
    return "".join(f"{safe(line)}\n" for line in lines)


def _names(rows: Sequence[Row]) -> list[str]:
    """Return lines with the names of the attacks that ran elsewhere than on the program, or not at all."""
    lines = []
    for source, words in _ELSEWHERE.items():
        names = [row.attack.name for row in rows if row.ran_on is source]
        lines += [f"  {words}: {', '.join(names)}"] if names else []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.why_not is not None:
            reasons.setdefault(row.why_not, []).append(row.attack.name)
    return lines + [f"  not run, because {reason}: {', '.join(names)}" for reason, names in reasons.items()]


def _causes(matrix: Matrix) -> list[list[Row]]:
    """Return the rows with breaches, grouped by the promise that is broken and the words for it."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in matrix.rows:
        if row.breach is not None:
            alike = re.sub(r"`[^`]*`|\d+", "_", row.breach.what)
            groups.setdefault((row.breach.invariant, alike), []).append(row)
    return list(groups.values())


def _breach(rows: Sequence[Row], saved: Mapping[str, str]) -> str:
    row = min(rows, key=lambda row: len(row.breach.story) if row.breach else 0)
    assert row.breach is not None, "a breach has a script"
    attack, script = row.attack, row.breach
    others = [other.attack.name for other in rows if other is not row]
    file = saved.get(attack.name)
    lines = [
        f"breach[{attack.name}] {script.what}",
        *_on(attack, script),
        f"  = broken invariant: {Invariant[script.invariant.upper()].value}",
        f"  = defence that failed: {attack.defence}",
        f"  = found by these attacks too: {', '.join(others)}" if others else "",
        "  = the smallest case:",
        *_case(script),
        "" if file is None else f"  = help: replay it with `stepward sabotage --replay {shlex.quote(file)}`",
    ]
    return "".join(f"{safe(line)}\n" for line in lines if line)


def _source_of(attack: type[Attack], script: Script) -> ProgramSource:
    """Return what a breach was found on."""
    if attack.draws:
        return ProgramSource.OWN
    is_specimen = script.program.get("name") in [specimen(name)["name"] for name in SPECIMENS]
    return ProgramSource.BUILT_IN if is_specimen else ProgramSource.PROGRAM


def _on(attack: type[Attack], script: Script) -> list[str]:
    """Return the line that says on what a breach was found, unless that is the user's program."""
    name, source = script.program.get("name"), _source_of(attack, script)
    if source is ProgramSource.BUILT_IN:
        return [f"  = on: `{name}`, a built-in program"]
    own = f"  = on: a program, store or file that the attack makes itself, and not `{name}`"
    return [own] if source is ProgramSource.OWN else []


def _case(script: Script) -> list[str]:
    return [
        *(f"      {number}. {line}" for number, line in enumerate(script.story, start=1)),
        *(f"      with {name} = {json.dumps(value, default=str)}" for name, value in script.choices.items()),
    ]


def _unconfirmed(row: Row, file: str | None) -> str:
    assert row.unconfirmed is not None, "it has a script"
    lines = [
        f"unconfirmed[{row.attack.name}] {row.unconfirmed.what}",
        *_on(row.attack, row.unconfirmed),
        "  = a new process replayed the same case without a breach: the campaign has a defect, or there is a race",
        "" if file is None else f"  = help: please report it with `{file}`",
    ]
    return "".join(f"{safe(line)}\n" for line in lines if line)


def _where(matrix: Matrix) -> str:
    """Return on what the attacks ran: on the program, or how many on what."""
    count = {source: matrix.ran_on(source) for source in ProgramSource}
    on = f" on `{matrix.program}`"
    if count[ProgramSource.PROGRAM] == matrix.ran:
        return on
    parts = [f"{count[ProgramSource.PROGRAM] or 'none'}{on}"]
    parts += [f"{count[ProgramSource.BUILT_IN]} only on built-in programs"] if count[ProgramSource.BUILT_IN] else []
    own = count[ProgramSource.OWN]
    parts += [f"{own} {_on_own(own)}"] if own else []
    return f" ({', '.join(parts)})"


def _on_own(count: int) -> str:
    return "on what it makes itself" if count == 1 else "on what they make themselves"


def to_data(matrix: Matrix, saved: Mapping[str, str]) -> dict[str, Any]:
    """Return the matrix as plain data for JSON."""
    found = decide(matrix)
    return {
        "version": VERSION,
        "program": matrix.program,
        "seed": matrix.seed,
        "examples": matrix.examples,
        "verdict": str(found.verdict),
        "reasons": list(found.reasons),
        "attacks": [_row_data(row, saved.get(row.attack.name)) for row in matrix.rows],
        "summary": {
            "attacks": len(matrix.rows),
            "ran": matrix.ran,
            "ran_on": {str(source): matrix.ran_on(source) for source in ProgramSource},
            "cases": sum(row.cases for row in matrix.rows),
            "events": matrix.events,
            "breaches": len(matrix.breaches),
            "unconfirmed": len(matrix.unconfirmed),
            "seconds": round(matrix.seconds, 3),
            "shards_left": matrix.left,
            "shards_lost": matrix.lost,
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
        "why_not": row.why_not,
        "ran_on": None if row.ran_on is None else str(row.ran_on),
        "ran_on_program": row.ran_on_program,
        "outcome": str(row.outcome),
        "cases": row.cases,
        **{str(outcome): row.outcomes[outcome] for outcome in OUTCOMES},
        "events": row.events,
        "seconds": round(row.seconds, 3),
        "breach": None,
    }
    script = row.breach or row.unconfirmed
    if script is not None:
        data["breach"] = {
            "invariant": script.invariant,
            "what": script.what,
            "on": str(_source_of(attack, script)),
            "story": list(script.story),
            "file": file,
            "confirmed": row.breach is not None,
        }
    return data


def to_junit(matrix: Matrix) -> str:
    """Return the matrix as JUnit's XML: a suite for each family, a test for each attack."""
    families: dict[str, list[Test]] = {}
    for row in matrix.rows:
        test = Test(row.attack.name, row.seconds, list(_marks(row)))
        families.setdefault(str(row.attack.family), []).append(test)
    return suites("stepward sabotage", families)


def _marks(row: Row) -> Iterator[Mark]:
    if row.why_not is not None:
        yield Mark("skipped", row.why_not)
    if row.unconfirmed is not None:
        yield Mark("error", f"a fresh process could not repeat it: {row.unconfirmed.what}", row.unconfirmed.invariant)
    if row.breach is not None:
        on = [line.removeprefix("  = ") for line in _on(row.attack, row.breach)]
        yield Mark("failure", row.breach.what, row.breach.invariant, (*on, *row.breach.story))
