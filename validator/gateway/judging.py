"""The gate of a gateway: judges the text of a program under the policies in force and those of its caller.

Comments that silence findings, waivers and `applies_to` have no effect here: the author of a program chooses its text
and its name, and could otherwise choose its rules. Guardrails of the program are added to those of the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from stepward.validator.findings import Finding, Report, Severity
from stepward.validator.gate.checking import UNJUDGED
from stepward.validator.gate.corrections import with_fixes
from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.report.model import render
from stepward.validator.result import RunResult
from stepward.validator.validator import unreadable, validate_document
from stepward.vm.errors import DocumentError
from stepward.vm.language.meaning import facts_of
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.document import Document
from stepward.vm.reading.files import read_text

MAX_CHARACTERS: Final = 200_000
"""Characters of the longest program that a caller may send."""

TIME_LIMIT: Final = 20.0
"""Seconds that the proofs of one program may take."""

NAME: Final = "program.yaml"
"""The name of a caller's program in answers."""


@dataclass(frozen=True)
class Judged:
    """The judgement on a text: the answer for a model, and the program if the gate lets it through."""

    answer: str
    program: Program | None


def in_force(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """Return policies as they apply to callers: to every program, and without waivers."""
    return tuple(
        Policy.from_dict(
            {key: value for key, value in policy.to_data().items() if key not in ("applies_to", "waivers")}
        )
        for policy in policies
    )


def judge(text: str, policies: Sequence[Policy], *, time_limit: float = TIME_LIMIT) -> Judged:
    """Return the judgement on the text of one program.

    Raises RequestRefused for a text that is too long, and for other types of tools than the policies state.
    """
    if len(text) > MAX_CHARACTERS:
        raise RequestRefused(
            f"the program has {len(text):,} characters, more than {MAX_CHARACTERS:,}", "send a shorter program"
        )
    document, report = _checked(text, policies, time_limit)
    findings = report.findings
    if document is not None and any(finding.correction is not None for finding in findings):
        findings = tuple(with_fixes(findings, [document], 0, _documents))
    failing = frozenset(one for one in findings if one.severity is Severity.ERROR or one.code in UNJUDGED)
    result = RunResult(findings, failing, properties=report.properties, sources={NAME: text}, programs=1)
    if failing or document is None:
        return Judged(render(result), None)
    program = Program.from_document(document)
    _require_facts(program, policies)
    return Judged(render(result), program)


def _require_facts(program: Program, policies: Sequence[Policy]) -> None:
    """Raise RequestRefused if a program says of a tool that it takes or returns something else than the policies say.

    Elsewhere the types of the program count. Here they could drop `sensitive` from an output, or a bound from an
    argument. The same holds for `tools` of a program that it calls.
    """
    known = facts_of(policies)
    calls = (step.tools for step in program.layout.steps if isinstance(step, InvokeStep))
    for name, claim in chain((program.tools or {}).items(), *(tools.items() for tools in calls)):
        fact = known.get(name)
        for what in ("args", "returns"):
            stated = None if fact is None else getattr(fact, what)
            if stated is not None and getattr(claim, what) not in (None, stated):
                raise RequestRefused(
                    f"`tools` says something else than the operator about the `{what}` of `{name}`",
                    f"leave `{what}` out there, or copy it from `list_tools`",
                )


def _checked(text: str, policies: Sequence[Policy], time_limit: float) -> tuple[Document | None, Report]:
    try:
        documents = _documents(text)
    except DocumentError as error:
        return None, _named(unreadable(error))
    if len(documents) != 1:
        raise RequestRefused(f"the text holds {len(documents)} programs", "send one program at a time")
    return documents[0], _named(validate_document(documents[0], policies, time_limit=time_limit))


def _documents(text: str) -> list[Document]:
    return read_text(NAME, text, is_json=text.lstrip()[:1] == "{")


def _named(report: Report) -> Report:
    return replace(report, findings=tuple(map(_with_name, report.findings)))


def _with_name(finding: Finding) -> Finding:
    return replace(finding, file=NAME)
