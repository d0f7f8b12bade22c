"""Simulated fleets as spans in OTLP, in each of the three dialects."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from paths import ROOT
from stepward.validator.dynamics.course import AGAIN, Course

sys.path.insert(0, str(ROOT / "benchmarks"))

from fleets import FLEETS, fleet

HEALTHY: Final = next(iter(FLEETS))

NAMES: Final[dict[str, dict[str, str]]] = {
    "gen_ai": {
        "kind": "gen_ai.operation.name",
        "operation": "execute_tool",
        "around": "invoke_workflow",
        "program": "gen_ai.workflow.name",
        "tool": "gen_ai.tool.name",
        "arguments": "gen_ai.tool.call.arguments",
    },
    "traceloop": {
        "kind": "traceloop.span.kind",
        "operation": "tool",
        "around": "workflow",
        "program": "traceloop.entity.name",
        "tool": "traceloop.entity.name",
        "arguments": "traceloop.entity.input",
    },
    "openinference": {
        "kind": "openinference.span.kind",
        "operation": "TOOL",
        "around": "AGENT",
        "program": "agent.name",
        "tool": "tool.name",
        "arguments": "input.value",
    },
}


def otlp_of(courses: Iterable[Course], dialect: str = "gen_ai", program: str = "agent") -> dict[str, Any]:
    """Return runs as one request of OTLP: a span for each run, and below it one for each attempt of a call."""
    names, spans = NAMES[dialect], []
    for course in courses:
        at = course.started * 1_000
        calls = iter(course.calls)
        around = {names["kind"]: names["around"], names["program"]: program}
        root = _span(course, "root", "agent", at, at + 1_000_000, around)
        spans.append(root)
        call = None
        for number, attempt in enumerate(course.attempts):
            call = next(calls) if call is None else call
            values = {
                names["kind"]: names["operation"],
                names["tool"]: call.tool,
                names["arguments"]: call.arguments,
            }
            span = _span(course, str(number), call.tool, at + number * 1_000, at + number * 1_000 + 9, values)
            if attempt.action == AGAIN:
                span["status"] = {"code": 2}
            else:
                call = None
            spans.append(span)
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def _span(course: Course, id: str, name: str, start: int, end: int, values: dict[str, str]) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
    trace = course.run
    found: dict[str, Any] = {"traceId": trace, "spanId": f"{trace}-{id}", "name": name, "attributes": attributes}
    if id != "root":
        found["parentSpanId"] = f"{trace}-root"
    return found | {"startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}


def write_fleet(path: Path, name: str, seed: int, runs: int, changes_at: int) -> Path:
    """Write a simulated fleet as a file of spans, and return its path."""
    path.write_text(json.dumps(otlp_of(fleet(name, seed, runs, changes_at))))
    return path
