"""Reports as plain data, and back: what is kept of a check tells every format the same as the check itself did.

Not kept is what no report of a run speaks of: the mends that fixes were made from, what certificates are written from,
and the name of the file, which the run knows. Values of programs are text inside, since their numbers are exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

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
    from stepward.validator.analysis.bounds import Most, ProgramBounds

Data = dict[str, Any]

_LEFT_OUT: Final = frozenset({"file", "mend", "certificate", "certify"})
"""The fields that are not kept."""


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


def _fields(value: Any) -> Data:
    """Return the fields of a dataclass or a named tuple that are kept, as they are."""
    names = value._fields if hasattr(value, "_fields") else [field.name for field in fields(value)]
    return {name: getattr(value, name) for name in names if name not in _LEFT_OUT}


def _finding(finding: Finding, policies: Sequence[Document]) -> Data:
    return _fields(finding) | {
        "related": [_label(label, policies) for label in finding.related],
        "evidence": finding.evidence and _evidence(finding.evidence),
        "fix": finding.fix and [finding.fix.title, [[edit.span, edit.text] for edit in finding.fix.edits]],
    }


def _label(label: Label, policies: Sequence[Document]) -> list[Any]:
    at = None
    if label.document is not None:
        (at,) = (number for number, policy in enumerate(policies) if policy is label.document)
    return [label.place, label.text, at, label.span]


def _evidence(evidence: Evidence) -> Data:
    return _fields(evidence) | {
        "path": [[move.step, move.how] for move in evidence.path],
        "state": [[name, to_json(value)] for name, value in evidence.state],
        "witness": evidence.witness and evidence.witness.to_json(),
    }


def _property(one: Property) -> Data:
    # Reports tell the witness of a finding, not of the property behind it.
    evidence = _evidence(replace(one.evidence, witness=None))
    return _fields(one) | {"evidence": evidence, "seconds": one.seconds.hex()}


def _bounds(bounds: ProgramBounds) -> Data:
    way = bounds.shortest
    return _fields(bounds) | {
        "steps": _most(bounds.steps),
        "model_calls": _most(bounds.model_calls),
        "tools": [[name, _most(tool.attempts), _most(tool.performances)] for name, tool in bounds.tools.items()],
        "shortest": way and [way.steps, way.model_calls, list(way.tools.items())],
    }


def _most(most: Most) -> list[Any]:
    return [most.count, most.loop]


# -- and back ----------------------------------------------------------------------------------------------------------


def _finding_again(data: Data, file: str, policy: Callable[[int], Document]) -> Finding:
    fix = data["fix"]
    again = {
        "severity": Severity(data["severity"]),
        "place": _place(data["place"]),
        "related": tuple(
            Label(_place(place), text, None if at is None else policy(at), _span(span))
            for place, text, at, span in data["related"]
        ),
        "evidence": data["evidence"] and _evidence_again(data["evidence"]),
        "span": _span(data["span"]),
        "path_spans": tuple(map(_span, data["path_spans"])),
        "fix": fix and Fix(fix[0], tuple(Edit(Span(*span), text) for span, text in fix[1])),
    }
    return Finding(**data | again, file=file)


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
    again = {
        "path": tuple(Move(step, how) for step, how in data["path"]),
        "cut": tuple(data["cut"]),
        "state": tuple((name, freeze(json.loads(text, parse_float=Decimal))) for name, text in data["state"]),
        "witness": witness,
    }
    return Evidence(**data | again)


def _property_again(data: Data, file: str) -> Property:
    verdict, evidence = Verdict(data["verdict"]), _evidence_again(data["evidence"])
    seconds = float.fromhex(data["seconds"])
    return Property(**data | {"verdict": verdict, "evidence": evidence, "seconds": seconds}, file=file)


def _bounds_again(data: Data) -> ProgramBounds:
    from stepward.validator.analysis.bounds import Most, ProgramBounds, ToolBounds, Way

    def most(count: int | None, loop: list[str]) -> Most:
        return Most(count, tuple(loop))

    way = data["shortest"]
    again = {
        "steps": most(*data["steps"]),
        "model_calls": most(*data["model_calls"]),
        "tools": {name: ToolBounds(most(*attempts), most(*some)) for name, attempts, some in data["tools"]},
        "shortest": way and Way(way[0], way[1], dict(way[2])),
        "loops": tuple(map(tuple, data["loops"])),
    }
    return ProgramBounds(**data | again)
