"""The gate of a session: it judges the program of a turn before anything of it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stepward.validator.findings import Finding, Severity
from stepward.validator.gate.checking import UNJUDGED
from stepward.validator.repl.answers import TurnError
from stepward.validator.report.model import render
from stepward.validator.result import RunResult
from stepward.validator.validator import validate_document
from stepward.vm.language.guardrails import EffectSelector, ToolSelector, has_past, protected
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.reading.document import Document

MAX_EARLIER: Final = 5
"""Calls of earlier turns that a reason names, the newest."""

TIME_LIMIT: Final = 20.0
"""Seconds that the proofs of one turn may take."""


class Refusal(NamedTuple):
    """Why the gate refuses a turn: the first finding as an error, and all of them in the form for models."""

    error: TurnError
    told: str


class Called(NamedTuple):
    """A call of an earlier turn: the number of the turn, the tool, and the text of the form."""

    turn: int
    tool: str
    text: str


def passed(
    document: Document, policies: Sequence[Policy], earlier: Sequence[Called] = ()
) -> tuple[Refusal | None, Program | None]:
    """Return the program of a document if the gate lets it through, else why not.

    Where a rule remembers `earlier` calls, they are part of the reason.
    """
    report = validate_document(document, policies, time_limit=TIME_LIMIT)
    findings = report.findings
    failing = [one for one in findings if one.severity is Severity.ERROR or one.code in UNJUDGED]
    if not failing:
        return None, Program.from_document(document)
    # What only warns is no reason: it would hide the reason among others.
    result = RunResult(
        tuple(failing),
        frozenset(failing),
        properties=report.properties,
        sources={document.name: document.text},
        programs=1,
    )
    before = list(dict.fromkeys(one for finding in failing for one in _remembered(finding, policies, earlier)))
    lines = "".join(f"turn {one.turn} of this session: {one.text}\n" for one in before[-MAX_EARLIER:])
    told = render(result) + lines
    return Refusal(_error(failing[0], before, told), told), None


def _error(finding: Finding, before: Sequence[Called], told: str) -> TurnError:
    span = finding.span
    details = {"code": finding.code, **({} if span is None else {"line": span.line, "column": span.column})}
    if before:
        details["before"] = [f"turn {one.turn}: {one.text}" for one in before[-MAX_EARLIER:]]
    return TurnError("gate", finding.message, {**details, "answer": told}, finding.help)


def _remembered(finding: Finding, policies: Sequence[Policy], earlier: Sequence[Called]) -> list[Called]:
    """Return the earlier calls that the rule of a finding remembers."""
    tag = finding.policy
    rules = [rule for policy in policies if tag and policy.policy == tag.policy for rule in policy.guardrails]
    found = next((rule for rule in rules if tag and rule.name == tag.rule and has_past(rule)), None)
    if found is None:
        return []
    selectors = protected(found)
    tools = {one.tool for one in selectors if isinstance(one, ToolSelector)}
    writing = {tool for policy in policies for tool, spec in (policy.tools or {}).items() if spec.effect == "write"}
    tools |= writing if any(isinstance(one, EffectSelector) for one in selectors) else set()
    return [one for one in earlier if one.tool in tools]
