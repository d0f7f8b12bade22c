"""Every part of a report comes back from the cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, astuple, fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from caches import POLICY, PROGRAMS
from stepward.validator import ProgramValidator
from stepward.validator.analysis.bounds import Most, ProgramBounds, ShortestPath, ToolBounds
from stepward.validator.engine.witnesses.witness import Witness
from stepward.validator.findings import (
    Edit,
    Evidence,
    Finding,
    Fix,
    Label,
    Move,
    PolicyTag,
    Property,
    Report,
    Severity,
    Verdict,
)
from stepward.validator.gate.report_data import report_from_data, report_to_data
from stepward.vm import Place, Policy, Program, Span
from stepward.vm.reading.document import Document
from stepward.vm.values import freeze

pytestmark = pytest.mark.usefixtures("in_own_project")


def witness_of(path: Path) -> Witness:
    (finding,) = ProgramValidator(Program.load(path)).validate().findings
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    return finding.evidence.witness


def whole_report(document: Document) -> Report:
    """Return a report in which nothing has its default but what is not kept."""
    value = freeze({"a": [1, Decimal("0.10"), 10**40, None, True, "é\n"], "b": {}})
    evidence = Evidence(
        layer="graph",
        path=(
            Move("a", "branch then", "Timeout", opens=True, closes=True),
            Move("b", "", "Timeout", opens=True, closes=True),
        ),
        cut=("a → b",),
        reason="so it is",
        state=(("$x", value), ("$y", Decimal("1e-9"))),
        witness=witness_of(PROGRAMS / "bad/SW401/obvious.yaml"),
        unconfirmed="it went on",
    )
    finding = Finding(
        code="SW401",
        name="guardrail-bypassed",
        severity=Severity.WARNING,
        message="half a pair \ud800",
        help="do",
        place=Place(("steps", 0, "when"), key=True, within=(3, 5)),
        step="a",
        related=(
            Label(Place(("x",)), "here", document, Span(1, 2, 3, 4)),
            Label(Place(), "there", None, Span(1, 1, 1, 1)),
        ),
        evidence=evidence,
        policy=PolicyTag("p", "r"),
        waiver="for a while",
        file="f.yaml",
        span=Span(1, 2, 3, 4),
        path_spans=(Span(1, 2, 3, 4), None),
        fix=Fix("correct it", (Edit(Span(1, 2, 1, 2), "x"), Edit(Span(2, 2, 2, 3), ""))),
    )
    proved = Property(
        "requires",
        "r",
        Verdict.VIOLATED,
        replace(evidence, witness=None),
        0.1,
        "f.yaml",
        policy="p",
        number=2,
        step="a",
        rechecked=True,
    )
    most = Most(None, ("a", "b"))
    bounds = ProgramBounds(
        "n",
        most,
        Most(3),
        {"t": ToolBounds(most, Most(4))},
        ShortestPath(1, 2, {"t": 3}),
        "no bound",
        (("a", "b"), ("c",)),
        "f.yaml",
    )
    rules = frozenset({("p", "r"), ("p", "q")})
    return Report(
        "n",
        "f.yaml",
        (finding,),
        (proved,),
        rules,
        lambda: bounds,
        (finding,),
        called_tools=frozenset({"pay"}),
        declared_tools=frozenset({"pay", "check"}),
    )


NOT_KEPT = {"correction", "certificate", "certify", "measure", "failures"}
"""What no report speaks of; a report with `failures`, internal errors of the check, is not kept at all."""


def parts(value: object) -> Iterator[object]:
    """Yield a value and all that is in it, except witnesses and the like, which have tests of their own."""
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    elif is_dataclass(value) and not isinstance(value, (Witness, Document)):
        for field in fields(value):
            yield from parts(getattr(value, field.name))


def test_a_report_comes_back_whole() -> None:
    document = Policy.from_bytes(POLICY.encode(), "policy.yaml").document
    assert document is not None
    report = whole_report(document)
    for part in parts(report):
        if is_dataclass(part) and not isinstance(part, (Witness, Document, type, Label)):
            for field in fields(part):
                default = field.default_factory() if field.default_factory is not MISSING else field.default
                is_given = getattr(part, field.name) != default or field.name in NOT_KEPT
                assert is_given or part is report.properties[0].evidence, f"{type(part).__name__}.{field.name}"
    data = json.loads(json.dumps(report_to_data(report, [document], with_bounds=True)))
    again = report_from_data(data, "f.yaml", [document].__getitem__)
    assert again.bounds == report.bounds
    assert replace(again, measure=None) == replace(report, measure=None)
    # Equality of findings leaves these out.
    ((was,), (now,)) = report.findings, again.findings
    assert was.evidence is not None
    assert now.evidence is not None
    assert now.fix == was.fix
    assert now.evidence.unconfirmed == was.evidence.unconfirmed
    assert [astuple(move) for move in now.evidence.path] == [astuple(move) for move in was.evidence.path]
    assert now.evidence.witness is not None
    assert was.evidence.witness is not None
    assert now.evidence.witness.to_json() == was.evidence.witness.to_json()
    assert "bounds" not in {
        name for name, value in report_to_data(report, [document], with_bounds=False).items() if value
    }
