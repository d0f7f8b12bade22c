"""Doing what a help says, literally, takes its finding away and brings no new error: every help of every bad program.

`legacy_rewrites.py` and `doing.py` are the table of what doing it literally means. What can't be done mechanically is
listed here, with the reason; a help with another wording needs a line in one of the two.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from test_fixtures import fixtures, name_of

from doing import DOING
from layers import impatient
from legacy_rewrites import Data, NoRewriteError, rewrites
from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding, Severity
from stepward.validator.gate.checking import Run
from stepward.validator.gate.discovery import Candidate, read_candidate
from stepward.validator.gate.settings import Configurations, Overrides
from stepward.validator.rules.registry import RULE_BY_CODE
from stepward.vm import Policy, Program
from stepward.vm.errors import ProgramError

NOT_MECHANICAL = {
    r"^make a loop of steps in one program": "what the programs are for, only the author knows",
    r"^keep only one of `first/transfer`": "both are one step of a called program",
    r"^remove one of the two, or rename it": "which of the two values is meant",
    r"^order the steps in the list": "which order is meant, only the author knows",
    r"^add `deadline_seconds`, and say": "how long is enough, and what follows then",
    r"^add `tool`$": "so is the tool",
    r"^raise `maximum` to": "two fields of one type, of which either may be right",
    r"^start with the fields of a program": "there is no program to change",
    r"^name a step that has an output": "which step is meant",
    r"^compare it with another value|, or compare it with another value": "which value",
    r"^write a value that the tool takes": "which value",
    r"^assign it with `set` in the body": "to which value",
    r"^compare with a value that can be": "which value",
    r"\bor allow null in its type": "a type can be written in several places",
    r"^pass a value that the tool takes": "which value",
    r"^an index is a whole number from 0": "what is meant has no expression",
    r"^write `item: ": "where the step with the item stands",
    r"^let a tool return the item": "what the tool is called",
    r"^correct the name in the guardrail": "which name",
    r"^correct the condition that should lead here": "which condition was meant",
    r"^earlier conditions and assignments decide the result": "which value",
    r"^name one of its branches": "which branch",
    r"^give `[^`]+` an entry of `catch`": "where an error leads is a decision",
    r"^route every path to": "where a guard belongs is a decision",
    r"^route the run around": "where else control goes is a decision",
    r"^route this ending through": "likewise",
    r"^let a run reach it only once": "which way stays is a decision",
    r"^take it out of the loop": "whether it belongs there is one, too",
    r"^let one item alone reach it": "and so is which item may",
    r"^put the two on separate branches": "which branches",
    r"^check again after the assignment": "where",
    r"^if this path can happen, fix it": "whether it can, only the author knows",
    r"^change the two so that only one can hold": "which of the cases gets the values of both",
    r"^use an allowed tool, or have it put on the list": "which allowed tool would do, and who keeps the list",
}
"""Wordings, or parts of them, that no table can do, and why."""

ERRORS = {code for code, rule in RULE_BY_CODE.items() if rule.severity is Severity.ERROR}

UNREADABLE = {"SW001", "SW003", "SW004"}
"""What keeps a text from being data: their helps are about single signs of the text."""

COMMENTS = {"SW701", "SW702", "SW703", "SW704"}
"""What is said of comments, policies and baselines, which are no data of the program: `test_suppressions.py` and
`test_idle_policies.py` do it."""


SEVERAL = {"SW704"}
"""Their programs have one finding at several steps, because a baseline lists it: mending one step leaves the others."""


class Bad(NamedTuple):
    """A program with findings, as data."""

    path: Path
    data: Data
    policies: tuple[Path, ...]

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of the file."""
        run = Run(Configurations(Overrides(policies=self.policies), is_isolated=True))
        run.check_text(self.path.read_bytes(), str(self.path))
        return run.result().findings

    def errors(self, data: Data) -> set[tuple[str, str]]:
        """Return the codes and messages of all findings that a changed program has, if it can be read at all."""
        try:
            program = Program.from_dict(data)
        except ProgramError as error:
            return {(problem.code, problem.message) for problem in error.problems}
        policies = [Policy.load(path) for path in self.policies]
        found = ProgramValidator(program, policies).validate().findings
        return {(one.code, one.message) for one in found}


def bad(path: Path) -> Bad | None:
    """Return a bad program; None for what can't be read as data."""
    policy = path.with_suffix(".policy.yaml")
    content = read_candidate(Candidate(path, is_named=True))
    if not content.documents:
        return None
    (document,) = content.documents
    data = json.loads(json.dumps(document.data, default=float))
    return Bad(path, data, (policy,) if policy.exists() else ())


def has_a_reason(finding: Finding) -> bool:
    return any(re.search(wording, finding.help) for wording in NOT_MECHANICAL)


def harm_of(found: Finding, before: set[tuple[str, str]], after: set[tuple[str, str]]) -> str:
    """Return what is wrong with a program in which a help was done."""
    if (found.code, found.message) in after:
        return "the finding stays"
    more = Counter(code for code, _ in after) - Counter(code for code, _ in before)
    return "; ".join(f"{code} {message}" for code, message in sorted(after - before) if code in ERRORS and more[code])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", fixtures("bad"), ids=name_of)
def test_doing_literally_what_a_help_says_mends_and_does_no_harm(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    program = bad(path)
    if program is None:
        assert path.parent.name in UNREADABLE
        return
    if path.parent.name in SEVERAL:
        return
    before = program.findings()
    known = {(finding.code, finding.message) for finding in before}
    for finding in before:
        if finding.code in COMMENTS:
            continue
        try:
            done = rewrites(program.data, finding, DOING)
        except NoRewriteError:
            assert has_a_reason(finding), (
                f"{finding.code}: nothing says what it means to do this: {finding.help}; "
                "write it into tests/support/doing.py, or here into NOT_MECHANICAL why nobody can"
            )
            continue
        for data in done:
            assert not harm_of(finding, known, program.errors(data)), finding.help
