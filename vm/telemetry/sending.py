"""Hands spans to the SDK of OpenTelemetry. This file is imported only where the extra `otel` is needed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from stepward.vm.telemetry import names
from stepward.vm.telemetry.courses import Attributes
from stepward.vm.telemetry.spans import Span

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)


class Sender:
    """Sends spans in batches, from a thread of the SDK: a slow exporter delays nobody, and what it raises is logged.

    `sampler` and `resource` are those of the environment variables of the SDK unless given. The thread ends with the
    process, after it has sent what is left.
    """

    def __init__(self, exporter: SpanExporter, sampler: Sampler | None, resource: Resource | None) -> None:
        self._provider = TracerProvider(sampler, resource)
        self._processor = BatchSpanProcessor(exporter)
        self._provider.add_span_processor(self._processor)
        # Spans made by a tracer would get ids of chance, and cost about ten times as much.
        self._scope = InstrumentationScope(
            names.SCOPE, version("stepward"), attributes={"stepward.names": names.VERSION}
        )
        self._most = SpanLimits().max_span_attribute_length

    def is_sampled(self, trace_id: int) -> bool:
        """Return whether the sampler wants the trace of a run."""
        result = self._provider.sampler.should_sample(None, trace_id, names.INVOKE_WORKFLOW, SpanKind.INTERNAL)
        return result.decision is Decision.RECORD_AND_SAMPLE

    def send(self, spans: Iterable[Span]) -> None:
        """Add spans to the next batch."""
        for span in spans:
            self._processor.on_end(self._readable(span))

    def _readable(self, span: Span) -> ReadableSpan:
        parent = None if span.parent_id is None else SpanContext(span.trace_id, span.parent_id, False, _SAMPLED)
        links = () if span.link is None else (Link(SpanContext(span.trace_id, span.link, False, _SAMPLED)),)
        status = Status(StatusCode.ERROR, span.why) if span.why else _ERROR if span.error else _UNSET
        return ReadableSpan(
            span.name,
            SpanContext(span.trace_id, span.span_id, False, _SAMPLED),
            parent,
            self._provider.resource,
            span.attributes if self._most is None else _cut(span.attributes, self._most),
            (),
            links,
            SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=status,
            start_time=span.start * 1_000,
            end_time=span.end * 1_000,
            instrumentation_scope=self._scope,
        )

    def flush(self) -> None:
        """Send what is left; returns when the exporter has returned."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send what is left, and end the thread and the exporter."""
        self._provider.shutdown()


def _cut(attributes: Attributes, most: int) -> Attributes:
    """Return attributes with no text longer than OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT."""
    return {name: value[:most] if isinstance(value, str) else value for name, value in attributes.items()}
