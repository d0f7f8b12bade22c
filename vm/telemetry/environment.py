"""Telemetry as the environment variables of OpenTelemetry describe it, for the command."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.telemetry.telemetry import Telemetry, TelemetryRefused

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

SERVICE: Final = "stepward"
_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def telemetry_of(environment: Mapping[str, str], *, values: bool) -> Telemetry | None:
    """Return the telemetry of an environment, or None if it is switched off with OTEL_SDK_DISABLED.

    OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER name exporters: `otlp` unless set, `none`, `console`, or what a
    package has registered. The exporters and the SDK read all other variables themselves. Raises TelemetryRefused if
    something is not installed, or a variable names nothing.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    Telemetry()  # it says what to install if the SDK is missing
    resource = _resource()
    exporter = _exporter(environment, "traces")
    reader = _exporter(environment, "metrics")
    meters = None
    if reader is not None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

        readers = [reader if isinstance(reader, MetricReader) else PeriodicExportingMetricReader(reader)]
        meters = MeterProvider(readers, resource, shutdown_on_exit=False)  # `close` has a time limit
    return Telemetry(exporter, meters, values=values, resource=resource)


def _resource() -> Resource:
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    found = Resource.create()
    is_named = not str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    return found if is_named else found.merge(Resource({SERVICE_NAME: SERVICE}))


def _exporter(environment: Mapping[str, str], signal: str) -> Any:
    """Return the exporter that a variable names, or None for `none`."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = environment.get(variable, "").strip() or "otlp"
    if name == "none":
        return None
    entry = name
    if name == "otlp":
        chosen = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
        protocol = (chosen or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf").strip()
        if protocol not in _PROTOCOLS:
            known = " or ".join(f"`{one}`" for one in _PROTOCOLS)
            raise TelemetryRefused(f"OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`: write {known}")
        entry = _PROTOCOLS[protocol]
    found = next(iter(entry_points(group=f"opentelemetry_{signal}_exporter", name=entry)), None)
    if found is None:
        package = f"opentelemetry-exporter-{entry.replace('_', '-')}" if name != entry else "a package that has it"
        raise TelemetryRefused(f"{variable} is `{name}`, and no installed package has this exporter: install {package}")
    try:
        return found.load()()
    except Exception as error:
        raise TelemetryRefused(f"the exporter `{name}` of {variable} can't be made: {error}") from error
