"""Whether a bad program was mended: no finding, nothing removed, and the same behaviour but for the mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from behaviour import differences, runs_of
from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program, ProgramError
from trial import HERE, Trial

KEPT = ("inputs", "tools", "guardrails")


def table_of(task: str) -> dict[str, Any]:
    """Return the hidden table of a task."""
    table: dict[str, Any] = yaml.safe_load((HERE / f"hidden/{task}.yaml").read_text(encoding="utf-8"))
    return table


def mended(trial: Trial) -> Iterator[str]:
    """Yield what is missing of a mended program."""
    table = table_of(trial.task)
    path = trial.folder / table["file"]
    if not path.is_file():
        yield f"`{table['file']}` is missing"
        return
    if "stepward: ignore" in path.read_text(encoding="utf-8"):
        yield "a comment silences a finding"
    errors = list(trial.errors(table["file"]))
    if errors:
        yield from errors
        return
    try:
        program = Program.load(path)
    except ProgramError as error:
        yield str(error)
        return
    yield from removed(Program.load(trial.start / table["file"]), program)
    yield from broken(program, table["policy"])
    for run in runs_of(table):
        yield from differences(program, run, table["writes"], table.get("secret", ""))


def removed(start: Program, program: Program) -> Iterator[str]:
    """Yield what the start has and the mended program lacks."""
    before, after = start.to_dict(), program.to_dict()
    for section in KEPT:
        kept = after.get(section) or ()
        for one in before.get(section) or ():
            if one not in kept or (isinstance(kept, dict) and kept[one] != before[section][one]):
                yield f"an entry of `{section}` was removed or changed: {one}"
    steps = {step["id"]: step for step in after["steps"]}
    for step in before["steps"]:
        there = steps.get(step["id"], {})
        if any(there.get(name) != step.get(name) for name in ("type", "tool", "outcome")):
            yield f"the step `{step['id']}` was removed, or is another one"


def broken(program: Program, policy: dict[str, Any]) -> Iterator[str]:
    """Yield the rules of a hidden policy that are not proved of a program."""
    report = ProgramValidator(program, [Policy.from_dict(policy)], recheck=False).validate()
    for finding in report.errors:
        yield f"a hidden rule is not kept: {finding.code}: {finding.message}"
