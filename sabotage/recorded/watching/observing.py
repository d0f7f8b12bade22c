"""Observers of scenes: telemetry whose exporter and meters are in the process and may fail; environments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.context import SceneContext, thing


class Exporter:
    """An exporter that keeps spans until they are noted, or fails."""

    def __init__(self, context: SceneContext, fails: float) -> None:
        self.context = context
        self.fails = fails
        self.spans: list[Any] = []

    def export(self, spans: Sequence[Any]) -> Any:
        """Keep spans."""
        self.spans += spans
        if self.fails >= 1:
            raise ConnectionError("nobody listens")

    def shutdown(self) -> None:
        """End."""
        self.spans.append(None)

    def show(self) -> None:
        """Note the spans."""
        for span in self.spans:
            if span is None:
                self.context.notes.add("exporter ended")
                continue
            parent = span.parent and (
                span.parent.trace_id,
                span.parent.span_id,
                span.parent.trace_flags,
                span.parent.is_remote,
            )
            links = [(link.context.trace_id, link.context.span_id, link.context.trace_flags) for link in span.links]
            own = span.context.trace_id, span.context.span_id, span.context.trace_flags, span.context.is_remote
            status = span.status.status_code.name, span.status.description
            scope = span.instrumentation_scope
            self.context.notes.add(
                span.name, own, parent, links, span.kind.name, span.start_time, span.end_time, status
            )
            self.context.notes.add(dict(span.attributes), scope.name, scope.version, dict(scope.attributes))
            self.context.notes.add(list(span.events), dict(span.resource.attributes).get("scene"))
        self.spans = []


class Meter:
    """A meter that notes what is counted."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def create_counter(self, *args: Any, **more: Any) -> Any:
        """Make a counter."""
        self.notes.add("counter", args, more)
        return thing(add=lambda amount, attributes: self.notes.add(args[0], amount, attributes))

    def create_histogram(self, *args: Any, **more: Any) -> Any:
        """Make a histogram."""
        self.notes.add("histogram", args, more)
        return thing(record=lambda amount, attributes: self.notes.add(args[0], amount, attributes))


class Seen:
    """Telemetry, and what it exports to."""

    def __init__(self, telemetry: Any, exporter: Exporter | None) -> None:
        self.telemetry = telemetry
        self.exporter = exporter


def _meters(context: SceneContext, fails: float) -> Any:
    """Return a provider of meters, of the SDK or of the API alone, which may fail."""

    def get_meter(name: str) -> Any:
        context.notes.add("meter", name)
        meter = Meter(context.notes)
        if fails:
            meter.create_counter = lambda *_: thing(add=_fail)  # type: ignore[method-assign]
        return meter

    def done(what: str) -> Any:
        return lambda: context.notes.add("meters", what)

    more = {} if context.maybe(0.3) else {"force_flush": done("flush"), "shutdown": done("shutdown")}
    return thing(get_meter=get_meter, **more)


def _fail(*_: Any) -> None:
    raise ValueError("no meter")


def clear(context: SceneContext) -> None:
    """Take the variables of OpenTelemetry out of the environment until the scene ends."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        context.variable(name, None)


@contextmanager
def observe(context: SceneContext, *, fails: float = 0.0) -> Iterator[Seen]:
    """Yield telemetry with options of chance, and note what it exports at the end."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, TraceIdRatioBased

    from stepward.vm.telemetry import sending
    from stepward.vm.telemetry.telemetry import Telemetry

    clear(context)
    context.note_log("stepward.telemetry")
    context.swap(sending, "version", lambda name: f"the version of {name}")
    if context.maybe(0.15):
        context.variable("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", context.pick("1", "5", "20"))
    exporter = Exporter(context, fails) if context.maybe(0.85) else None
    meters = _meters(context, fails) if context.maybe(0.7) else None
    sampler = context.pick(None, None, None, ALWAYS_ON, ALWAYS_OFF, TraceIdRatioBased(0.5))
    resource = context.pick(Resource({"scene": "here"}), Resource({}))
    more: dict[str, Any] = {"values": True} if context.maybe(0.6) else {}
    telemetry = Telemetry(exporter, meters, sampler=sampler, resource=resource, **more)  # type: ignore[arg-type]
    try:
        yield Seen(telemetry, exporter)
    finally:
        context.notes.add("closed", telemetry.close())
        if exporter is not None:
            exporter.show()


# -- environments ------------------------------------------------------------------------------------------------------

_ENVIRONMENT: Final[dict[str, tuple[Any, ...]]] = {
    "OTEL_SDK_DISABLED": ("true", " TRUE ", "false", "1", ""),
    "OTEL_TRACES_EXPORTER": ("none", "otlp", "console", "", " none ", "scene", "missing", "broken"),
    "OTEL_METRICS_EXPORTER": ("none", "otlp", "console", "", "scene", "missing", "reader"),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("grpc", "http/protobuf", "http/json", " grpc ", ""),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ("grpc", "http/protobuf", "x", ""),
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": ("grpc", "http/protobuf", "x", ""),
}


def read_environments(context: SceneContext) -> None:
    """Make telemetry of environments of chance."""
    from opentelemetry.sdk import metrics
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from stepward.vm.telemetry import environment

    clear(context)
    known = {"console", "scene", "otlp_proto_http", "otlp_proto_grpc", "broken", "reader"}
    calls: list[Any] = []

    def entry_points(group: str, name: str) -> list[Any]:
        context.notes.add("entry points", group, name)

        def load() -> Any:
            if name == "broken":
                raise ValueError("no exporter")
            return InMemoryMetricReader if name == "reader" else lambda: thing(name=name)

        return [thing(load=load)] if name in known - ({"otlp_proto_grpc"} if context.maybe(0.3) else set()) else []

    def telemetry(*args: Any, **more: Any) -> Any:
        calls.append((args, more))
        return "telemetry"

    def provider(readers: Any, resource: Any, **more: Any) -> Any:
        context.notes.add("provider", [type(reader).__name__ for reader in readers], _attributes(resource), more)
        return "meters"

    context.swap(environment, "entry_points", entry_points)
    context.swap(environment, "Telemetry", telemetry)
    context.swap(metrics, "MeterProvider", provider)
    context.swap(metrics.export, "PeriodicExportingMetricReader", lambda inner: thing(inner=inner))
    context.variable("OTEL_SERVICE_NAME", context.pick(None, "mine", "stepward", "unknown_service:x"))
    for _ in range(5):
        values = context.some(_ENVIRONMENT, 0.5)
        calls.clear()
        context.do(values, lambda values=values: environment.telemetry_of(values, values=context.maybe(0.5)))
        for args, more in calls:
            shown = {name: _attributes(value) if name == "resource" else value for name, value in more.items()}
            context.notes.add("made", [getattr(one, "name", one) for one in args], shown)


def _attributes(resource: Any) -> Any:
    return resource.attributes.get("service.name")
