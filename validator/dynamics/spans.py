"""Runs from OpenTelemetry spans in JSON: a trace is a run, and the state is the name of the span before.

The JSON is OTLP: one `ExportTraceServiceRequest`, or several, one a line, as collectors write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from stepward.validator.dynamics.course import AGAIN, SETTLED, Call, Course, Move, Work
from stepward.validator.dynamics.dialects import Dialect, dialect_of

START: Final = "start"
"""The state before the first span of a run."""

ENDED: Final = ("SUCCESS", "FAILED")
ERROR: Final = (2, "STATUS_CODE_ERROR")


class SpansRefused(ValueError):  # noqa: N818 - the text says what is wrong
    """A text is no OTLP in JSON."""


class Read(NamedTuple):
    """One span. Times are in nanoseconds since the epoch; `dialect` is None for a span of none."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    failed: bool
    dialect: Dialect | None

    @property
    def kind(self) -> str:
        """What the span is, in the word of its dialect; empty for a span of none."""
        return str(self.attributes[self.dialect.kind]) if self.dialect is not None else ""

    @property
    def is_operation(self) -> bool:
        """Whether the span is a step of a run."""
        return self.dialect is not None and self.kind in self.dialect.operations


def courses_in(text: str, family_by: str | None) -> Iterator[Course]:
    """Yield the course of each trace in a text; raises SpansRefused for a text that is no OTLP in JSON.

    `family_by` names the attribute whose value is the task family of a run. A trace without a span of a known dialect
    is left out.
    """
    traces: dict[str, list[Read]] = {}
    for span in _spans(_requests(text)):
        traces.setdefault(span.trace, []).append(span)
    for trace, spans in traces.items():
        spans.sort(key=lambda span: (span.start, -span.end, span.id))
        if any(span.is_operation for span in spans):
            yield _course(trace, spans, family_by)


def _requests(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except RecursionError:
        raise SpansRefused("it is nested too deeply") from None
    except ValueError:
        pass
    try:
        requests = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise SpansRefused("it is neither JSON nor one JSON object a line") from None
    if not requests:
        raise SpansRefused("it is empty")
    return requests


def _spans(requests: Iterable[Any]) -> Iterator[Read]:
    try:
        for request in requests:
            for resource in request["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        yield _read(span)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SpansRefused("it is no OTLP: `resourceSpans`, `scopeSpans`, `spans` with ids and times") from None


def _read(span: Mapping[str, Any]) -> Read:
    attributes = {one["key"]: _value(one["value"]) for one in span.get("attributes", ())}
    return Read(
        str(span["traceId"]),
        str(span["spanId"]),
        str(span.get("parentSpanId") or ""),
        str(span["name"]),
        int(span["startTimeUnixNano"]),
        int(span["endTimeUnixNano"]),
        attributes,
        span.get("status", {}).get("code") in ERROR,
        dialect_of(attributes),
    )


def _value(value: Mapping[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    for name in ("stringValue", "boolValue", "doubleValue"):
        if name in value:
            return value[name]
    return json.dumps(value, sort_keys=True)


def _course(trace: str, spans: Sequence[Read], family_by: str | None) -> Course:
    steps = [span for span in spans if span.is_operation]
    state, moves, attempts, calls, work = START, [], [], [], dict[str, Work]()
    for number, span in enumerate(steps):
        moves.append(Move(state, span.name))
        state = span.name
        following = steps[number + 1].name if number + 1 < len(steps) else ""
        attempts.append(Move(span.name, AGAIN if span.failed and following == span.name else SETTLED))
        call = _call(span)
        calls += [call] if call is not None else []
        work[span.name] = work.get(span.name, Work()).plus(_work(span))
    roots = [span for span in spans if not span.parent] or spans[:1]
    status = ENDED[any(span.failed for span in roots)]
    moves.append(Move(state, status))
    violations = sum(_is_rejected(span) for span in steps)
    families = (str(span.attributes[family_by]) for span in spans if family_by and family_by in span.attributes)
    return Course(
        trace, _program(spans), next(families, ""), "", spans[0].start // 1_000, status,
        tuple(moves), tuple(attempts), tuple(calls), violations, work,
    )  # fmt: skip


def _program(spans: Sequence[Read]) -> str:
    """Return the name that the spans give to their program: that of the outermost one which has a name."""
    for span in spans:
        for name in span.dialect.program if span.dialect is not None else ():
            if name in span.attributes:
                return str(span.attributes[name])
    return spans[0].name


def _call(span: Read) -> Call | None:
    """Return the call of a tool; one without arguments, as most exporters leave them out, is taken for a new one."""
    dialect = span.dialect
    if dialect is None or span.kind not in dialect.tools:
        return None
    arguments = span.attributes.get(dialect.arguments)
    return Call(str(span.attributes.get(dialect.tool, span.name)), span.id if arguments is None else str(arguments))


def _is_rejected(span: Read) -> bool:
    if "stepward.rule" in span.attributes:
        return True
    return span.dialect is not None and span.failed and span.kind in span.dialect.rejected


def _work(span: Read) -> Work:
    dialect, attributes = span.dialect, span.attributes
    assert dialect is not None, "only operations have work"
    total = _number(attributes.get(dialect.total))
    tokens = total if dialect.total in attributes else sum((_number(attributes.get(one)) for one in dialect.tokens), 0)
    return Work(1, int(tokens), Decimal(_number(attributes.get(dialect.cost))), max(span.end - span.start, 0) // 1_000)


def _number(value: Any) -> Decimal:
    try:
        number = Decimal(str(value or 0))
    except InvalidOperation:
        return Decimal(0)
    return number if number.is_finite() and abs(number) < Decimal("1e15") else Decimal(0)
