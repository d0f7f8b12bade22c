"""SARIF 2.1.0, the exchange format of static analysis: GitHub's code scanning reads it, and editors and viewers do.

Paths are relative to the folder in which the check ran (`%SRCROOT%`). That folder is not named, so that the same
programs give the same text on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from stepward.validator.findings import Finding, Fix, Verdict
from stepward.validator.report.fingerprints import fingerprints
from stepward.validator.report.text import error_lines, file_of, json_text, values_of
from stepward.validator.rules.base import Rule
from stepward.validator.rules.registry import RULES
from stepward.vm.reading.source import Place, Span

if TYPE_CHECKING:
    from stepward.validator.result import RunResult, Suppressed

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_ROOT: Final = "%SRCROOT%"
_INDEX: Final = {rule.code: number for number, rule in enumerate(RULES)}
_LINK: Final = re.compile(r"\[(?=(?:[^\]\\]|\\.)*\]\()")
_PLACEHOLDER: Final = re.compile(r"\{(\d+)\}")


def render(result: RunResult) -> str:
    """Return the run as SARIF text."""
    reported: list[tuple[Finding, Suppressed | None]] = [(finding, None) for finding in result.findings]
    reported += [(entry.finding, entry) for entry in result.suppressed]
    values = values_of([finding for finding, _ in reported])
    marks = fingerprints(finding for finding, _ in reported)
    results = [
        _result(finding, mark, values_of_finding)
        for (finding, _), mark, values_of_finding in zip(reported, marks, values, strict=True)
    ]
    if result.suppressed:
        # SARIF wants `suppressions` on all results or on none.
        for entry, (_, suppressed) in zip(results, reported, strict=True):
            entry["suppressions"] = [_suppression(suppressed)] if suppressed else []
    run = {
        "tool": {"driver": _driver()},
        "invocations": [_invocation(result)],
        "originalUriBaseIds": {_ROOT: {"description": _message("the folder in which the check ran")}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": _proofs(result),
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# -- the tool and its run ----------------------------------------------------------------------------------------------


def _driver() -> dict[str, Any]:
    return {"name": "Stepward", "version": version("stepward"), "rules": [_rule(rule) for rule in RULES]}


def _rule(rule: type[Rule]) -> dict[str, Any]:
    page = rule.documentation()
    first, what, *_ = page.split("\n## ")
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": first.strip()},
        "fullDescription": {"text": " ".join(what.split("\n")[1:]).strip()},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": rule.severity},
    }


def _proofs(result: RunResult) -> dict[str, Any]:
    """Return how many properties are proved, and for how many of them the second checker accepted the proof."""
    proved = [one for one in result.properties if one.verdict is Verdict.PROVED]
    return {"proved": len(proved), "rechecked": sum(one.rechecked for one in proved)}


def _invocation(result: RunResult) -> dict[str, Any]:
    invocation: dict[str, Any] = {
        "executionSuccessful": result.error is None and not result.failures,
        "exitCode": result.status,
    }
    if result.error is not None:
        error = {"level": "error", "message": _message("\n".join(error_lines(result.error)))}
        invocation["toolConfigurationNotifications"] = [error]
    if result.not_literal:
        text = f"not checked, because it is put together when the code runs: {', '.join(result.not_literal)}"
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": _message(text)}]
    return invocation


# -- one finding -------------------------------------------------------------------------------------------------------


def _result(finding: Finding, mark: str, values: list[str]) -> dict[str, Any]:
    help = f"\nhelp: {finding.help}" if finding.help else ""
    data: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": finding.severity,
        "message": _message(finding.message + help),
        "locations": [_location(finding.file, finding.span, finding.place, finding.step)],
        "partialFingerprints": {"stepward/v1": mark},
    }
    if finding.related:
        data["relatedLocations"] = [
            {
                "id": number,
                **_location(file_of(label, finding), label.span, label.place),
                "message": _message(label.text),
            }
            for number, label in enumerate(finding.related, start=1)
        ]
    if finding.evidence is not None and finding.evidence.path:
        data["codeFlows"] = [_code_flow(finding, values)]
    if finding.fix is not None:
        data["fixes"] = [_fix(finding.fix, finding.file)]
    properties = dict(_properties(finding))
    return {**data, "properties": properties} if properties else data


def _properties(finding: Finding) -> Iterator[tuple[str, Any]]:
    if finding.policy is not None:
        yield "policy", str(finding.policy)
    if finding.evidence is not None:
        evidence = finding.evidence.to_data(witness=False)
        yield "evidence", {name: value for name, value in evidence.items() if name != "path"}


def _code_flow(finding: Finding, values: list[str]) -> dict[str, Any]:
    assert finding.evidence is not None, "there is a path"
    spans = finding.path_spans or (None,) * len(finding.evidence.path)
    steps = [
        {
            "location": {
                **_location(finding.file, span, Place(), move.step),
                "message": _message(f"{move.step} {move.words}"),
            }
        }
        for move, span in zip(finding.evidence.path, spans, strict=True)
    ]
    flow: dict[str, Any] = {"threadFlows": [{"locations": steps}]}
    return {"message": _message(f"with {', '.join(values)}"), **flow} if values else flow


def _suppression(entry: Suppressed) -> dict[str, Any]:
    kind = "inSource" if entry.kind == "comment" else "external"
    return {"kind": kind, "status": "accepted", "justification": entry.reason}


def _fix(fix: Fix, file: str) -> dict[str, Any]:
    replacements = [{"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}} for edit in fix.edits]
    change = {"artifactLocation": _artifact(file), "replacements": replacements}
    return {"description": _message(fix.title), "artifactChanges": [change]}


# -- locations and texts -----------------------------------------------------------------------------------------------


def _location(file: str, span: Span | None, place: Place, step: str | None = None) -> dict[str, Any]:
    """Return a location in the text of a file, or in the data of a program that was built in code."""
    named = [{"name": step, "kind": "object"}] if step else []
    if span is not None:
        physical = {"artifactLocation": _artifact(file), "region": _region(span)}
        return {"physicalLocation": physical, **({"logicalLocations": named} if named else {})}
    where = f"{file}/{place.text()}" if place.path else f"{file}/{step}" if step else file
    return {"logicalLocations": [{**(named[0] if named else {}), "fullyQualifiedName": where}]}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _artifact(file: str) -> dict[str, str]:
    if file.startswith("/"):
        return {"uri": "file://" + quote(file)}
    return {"uri": quote(file), "uriBaseId": _ROOT}


def _message(text: str) -> dict[str, str]:
    """Return a message in which brackets and braces, which are links and placeholders in SARIF, are escaped."""
    return {"text": _PLACEHOLDER.sub(r"{{\1}}", _LINK.sub(r"\\[", text))}
