"""Reports as plain data, and back: what is kept of a check tells every format the same as the check itself did.

Not kept is what no report of a run speaks of: the mends that fixes were made from, what certificates are written from,
and the name of the file, which the run knows. Values of programs are text inside, since their numbers are exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from stepward.validator.findings import (
    Edit,
    Evidence,
    Finding,
    Fix,
    Label,
    Move,
    Property,
    Report,
    Severity,
    Verdict,
)
from stepward.vm.reading.document import Document
from stepward.vm.reading.source import Place, Span
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import Most, ProgramBounds, Way

Data = dict[str, Any]


def report_to_data(report: Report, policies: Sequence[Document], *, with_bounds: bool) -> Data:
    """Return a report as JSON has it; labels point into its own file or into one of the documents of `policies`."""
    return {
        "program": report.program,
        "findings": [_finding(one, policies) for one in report.findings],
        "waived": [_finding(one, policies) for one in report.waived],
        "properties": [_property(one) for one in report.properties],
        "matched": sorted(report.matched_policy_rules),
        "bounds": _bounds(report.bounds) if with_bounds and report.bounds is not None else None,
    }


def report_from_data(data: Data, file: str, policy: Callable[[int], Document]) -> Report:
    """Return the report that `report_to_data` was given; `file` is what it calls its file.

    `policy` returns a document of the policies by its position, when a label points into it.
    """
    bounds = data["bounds"]
    return Report(
        data["program"],
        file,
        tuple(_finding_again(one, file, policy) for one in data["findings"]),
        tuple(_property_again(one, file) for one in data["properties"]),
        frozenset((policy, rule) for policy, rule in data["matched"]),
        None if bounds is None else lambda: _bounds_again(bounds),
        tuple(_finding_again(one, file, policy) for one in data["waived"]),
    )


# -- there -------------------------------------------------------------------------------------------------------------


def _finding(finding: Finding, policies: Sequence[Document]) -> Data:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "help": finding.help,
        "place": finding.place,
        "step": finding.step,
        "related": [_label(label, policies) for label in finding.related],
        "evidence": finding.evidence and _evidence(finding.evidence),
        "policy": finding.policy,
        "waiver": finding.waiver,
        "span": finding.span,
        "path_spans": finding.path_spans,
        "fix": finding.fix and [finding.fix.title, [[edit.span, edit.text] for edit in finding.fix.edits]],
    }


def _label(label: Label, policies: Sequence[Document]) -> list[Any]:
    at = None
    if label.document is not None:
        (at,) = (number for number, policy in enumerate(policies) if policy is label.document)
    return [label.place, label.text, at, label.span]


def _evidence(evidence: Evidence) -> Data:
    return {
        "layer": evidence.layer,
        "path": [[move.step, move.how] for move in evidence.path],
        "cut": evidence.cut,
        "reason": evidence.reason,
        "state": [[name, to_json(value)] for name, value in evidence.state],
        "witness": evidence.witness and evidence.witness.to_json(),
        "unconfirmed": evidence.unconfirmed,
    }


def _property(one: Property) -> Data:
    return {
        "name": one.name,
        "rule": one.rule,
        "verdict": one.verdict,
        # Reports tell the witness of a finding, not of the property behind it.
        "evidence": _evidence(replace(one.evidence, witness=None)),
        "seconds": one.seconds.hex(),
        "policy": one.policy,
        "number": one.number,
        "step": one.step,
        "rechecked": one.rechecked,
    }


def _bounds(bounds: ProgramBounds) -> Data:
    way = bounds.shortest
    return {
        "program": bounds.program,
        "steps": _most(bounds.steps),
        "model_calls": _most(bounds.model_calls),
        "tools": [[name, _most(tool.attempts), _most(tool.performances)] for name, tool in bounds.tools.items()],
        "shortest": way and [way.steps, way.model_calls, list(way.tools.items())],
        "reason": bounds.reason,
        "loops": bounds.loops,
    }


def _most(most: Most) -> list[Any]:
    return [most.count, most.loop]


# -- and back ----------------------------------------------------------------------------------------------------------


def _finding_again(data: Data, file: str, policy: Callable[[int], Document]) -> Finding:
    fix = data["fix"]
    return Finding(
        code=data["code"],
        name=data["name"],
        severity=Severity(data["severity"]),
        message=data["message"],
        help=data["help"],
        place=_place(data["place"]),
        step=data["step"],
        related=tuple(
            Label(_place(place), text, None if at is None else policy(at), _span(span))
            for place, text, at, span in data["related"]
        ),
        evidence=data["evidence"] and _evidence_again(data["evidence"]),
        policy=data["policy"],
        waiver=data["waiver"],
        file=file,
        span=_span(data["span"]),
        path_spans=tuple(map(_span, data["path_spans"])),
        fix=fix and Fix(fix[0], tuple(Edit(Span(*span), text) for span, text in fix[1])),
    )


def _place(data: list[Any]) -> Place:
    path, key, within = data
    return Place(tuple(path), key, within and (within[0], within[1]))


def _span(data: list[int] | None) -> Span | None:
    return None if data is None else Span(*data)


def _evidence_again(data: Data) -> Evidence:
    witness = data["witness"]
    if witness is not None:
        from stepward.validator.engine.witnesses.witness import Witness

        witness = Witness.from_json(witness)
    return Evidence(
        layer=data["layer"],
        path=tuple(Move(step, how) for step, how in data["path"]),
        cut=tuple(data["cut"]),
        reason=data["reason"],
        state=tuple((name, freeze(json.loads(text, parse_float=Decimal))) for name, text in data["state"]),
        witness=witness,
        unconfirmed=data["unconfirmed"],
    )


def _property_again(data: Data, file: str) -> Property:
    return Property(
        name=data["name"],
        rule=data["rule"],
        verdict=Verdict(data["verdict"]),
        evidence=_evidence_again(data["evidence"]),
        seconds=float.fromhex(data["seconds"]),
        file=file,
        policy=data["policy"],
        number=data["number"],
        step=data["step"],
        rechecked=data["rechecked"],
    )


def _bounds_again(data: Data) -> ProgramBounds:
    from stepward.validator.analysis.bounds import ProgramBounds, ToolBounds

    return ProgramBounds(
        data["program"],
        _most_again(data["steps"]),
        _most_again(data["model_calls"]),
        {name: ToolBounds(_most_again(attempts), _most_again(some)) for name, attempts, some in data["tools"]},
        data["shortest"] and _way_again(*data["shortest"]),
        data["reason"],
        tuple(map(tuple, data["loops"])),
    )


def _way_again(steps: int, model_calls: int, tools: list[tuple[str, int]]) -> Way:
    from stepward.validator.analysis.bounds import Way

    return Way(steps, model_calls, dict(tools))


def _most_again(data: list[Any]) -> Most:
    from stepward.validator.analysis.bounds import Most

    return Most(data[0], tuple(data[1]))
