"""The spans of runs in formats of other tools: OTLP in JSON, and the trace events that Perfetto and Chrome open.

Sources: opentelemetry-proto 1.x, "OTLP JSON Protobuf Encoding"; "Trace Event Format" of the Chromium project.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.telemetry import names
from stepward.vm.telemetry.spans import Span, Spans

if TYPE_CHECKING:
    from stepward.vm.journal.records import Record
    from stepward.vm.telemetry.outline import Outline

INTERNAL: Final = 1
CLIENT: Final = 3
"""Kinds of spans in OTLP."""

ERROR: Final = 2
"""The status of a span that failed, in OTLP."""

_INT64: Final = 1 << 63


def spans_of(run: str, records: Iterable[Record], outline: Outline, *, values: bool = False) -> list[Span]:
    """Return the spans that the records of a run end, in the order of their starts.

    `outline` is that of its program. With `values`, spans have inputs, arguments, outputs and texts of errors, without
    sensitive values. A span that has not ended, because the run goes on or waits, is left out.
    """
    spans = Spans(run, lambda _: outline, values=values)
    found = [span for record in records for span in spans.add(record)]
    return sorted(found, key=lambda span: (span.start, -span.end, span.span_id != spans.root_id))


def otlp(runs: Sequence[Sequence[Span]]) -> dict[str, Any]:
    """Return the spans of runs as an `ExportTraceServiceRequest` in JSON: ids in hexadecimal, times in nanoseconds."""
    release = version("stepward")
    scope = {"name": names.SCOPE, "version": release, "attributes": _attributes({"stepward.names": names.VERSION})}
    resource = {"attributes": _attributes({"service.name": "stepward", "service.version": release})}
    spans = [_otlp_span(span) for run in runs for span in run]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def _otlp_span(span: Span) -> dict[str, Any]:
    trace = format(span.trace_id, "032x")
    data: dict[str, Any] = {"traceId": trace, "spanId": format(span.span_id, "016x")}
    if span.parent_id is not None:
        data["parentSpanId"] = format(span.parent_id, "016x")
    data |= {
        "name": span.name,
        "kind": CLIENT if span.is_client else INTERNAL,
        "startTimeUnixNano": str(span.start * 1_000),
        "endTimeUnixNano": str(span.end * 1_000),
        "attributes": _attributes(span.attributes),
    }
    if span.link is not None:
        data["links"] = [{"traceId": trace, "spanId": format(span.link, "016x")}]
    if span.error:
        data["status"] = {"code": ERROR, **({"message": span.why} if span.why else {})}
    return data


def _attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _otlp_value(value)} for name, value in attributes.items()]


def _otlp_value(value: str | int | float) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def chrome(runs: Sequence[tuple[str, Sequence[Span]]]) -> dict[str, Any]:
    """Return the spans of runs, each with its id, as trace events: a process for each run, times in microseconds.

    Spans of one thread have to lie inside of each other or apart, so what runs at the same time gets threads of its
    own.
    """
    events: list[dict[str, Any]] = []
    for number, (run, spans) in enumerate(runs, start=1):
        events.append({"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": run}})
        for span, lane in zip(spans, _lanes(spans), strict=True):
            failed = {"error": span.error, "why": span.why} if span.error else {}
            events.append({
                "name": span.name,
                "cat": str(span.attributes.get(names.OPERATION, names.STEP)),
                "ph": "X",
                "ts": span.start,
                "dur": max(span.end - span.start, 0),
                "pid": number,
                "tid": lane,
                "args": {**span.attributes, **{name: text for name, text in failed.items() if text}},
            })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _lanes(spans: Sequence[Span]) -> list[int]:
    """Return a thread for each span: the first one in which the span lies inside of what is open, or behind all."""
    open_until: list[list[int]] = []
    found = []
    for span in spans:
        for lane in open_until:
            while lane and lane[-1] <= span.start:
                lane.pop()
        number = next(
            (number for number, lane in enumerate(open_until) if not lane or span.end <= lane[-1]), len(open_until)
        )
        if number == len(open_until):
            open_until.append([])
        open_until[number].append(span.end)
        found.append(number + 1)
    return found
