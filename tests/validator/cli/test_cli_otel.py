"""The command sends spans and metrics to a collector, here one on the loopback interface, or says why not."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from commands import put
from stepward.validator.cli import main
from stepward.vm import trace_id_of

PROGRAM = """\
name: approve
inputs: {amount: {type: integer, minimum: 0, maximum: 999999}}
tools:
  ask: {effect: none, suspends: true, args: {amount: {type: integer}}, returns: {type: boolean}}
steps:
  - {id: ask, type: tool, tool: ask, args: {amount: $amount}, output_key: agreed, next_step: done}
  - {id: done, type: end, output: $agreed}
"""
TOOLS = "from stepward.vm import Suspend\n\n\ndef ask(amount):\n    return Suspend({'amount': amount})\n"


class Collector:
    """A collector that keeps what it is sent, by path."""

    def __init__(self) -> None:
        kept: list[tuple[str, bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_packed = self.headers.get("Content-Encoding") == "gzip"
                kept.append((self.path, gzip.decompress(body) if is_packed else body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.kept = kept
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[tuple[str, bytes, bytes]]:
        """Return the name, trace id and span id of every span."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.kept if path == "/v1/traces"]
        found = [
            span for one in requests for of in one.resource_spans for scope in of.scope_spans for span in scope.spans
        ]
        return [(span.name, span.trace_id, span.span_id) for span in found]

    def services(self) -> set[str]:
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.kept if path == "/v1/traces"]
        given = [one for request in requests for of in request.resource_spans for one in of.resource.attributes]
        return {one.value.string_value for one in given if one.key == "service.name"}

    def metrics(self) -> set[str]:
        requests = [ExportMetricsServiceRequest.FromString(body) for path, body in self.kept if path == "/v1/metrics"]
        scopes = [scope for one in requests for of in one.resource_metrics for scope in of.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.chdir(tmp_path)
    put("approve.yaml", PROGRAM)
    put("tools.py", TOOLS)
    found = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{found.server.server_port}")
    yield found
    found.server.shutdown()
    found.server.server_close()


def stepward(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


RUN = ["run", "approve.yaml", "--isolated", "--tools", "tools.py", "--input", "amount=481516"]
RUN += ["--journal", "runs.db", "--run-id", "seven"]


def test_a_run_and_its_resumption_reach_a_collector_as_one_trace(collector: Collector) -> None:
    waits = stepward(*RUN, "--otel")
    assert waits.exit_code == 4, waits.output
    command = next(line for line in waits.output.splitlines() if "resume:" in line).split()
    assert "--otel" in command, "the command for the answer sends its spans, too"
    first = collector.spans()
    assert {name for name, _, _ in first} == {"invoke_workflow approve", "step ask", "execute_tool ask"}
    token = command[command.index("resume") + 1]
    ended = stepward(*["runs", "resume", "--payload", "true", "--isolated", "--tools", "tools.py", "--otel"], token)
    assert ended.exit_code == 0, ended.output
    spans = collector.spans()
    assert len(spans) == len(first) + 4 == len({span_id for _, _, span_id in spans})
    assert {trace_id for _, trace_id, _ in spans} == {trace_id_of("seven").to_bytes(16)}
    assert collector.services() == {"stepward"}
    assert collector.metrics() >= {"stepward.runs", "gen_ai.workflow.duration", "gen_ai.execute_tool.duration"}
    assert b"481516" not in b"".join(body for path, body in collector.kept if path == "/v1/traces")


def test_nothing_is_sent_unless_it_is_asked_for(collector: Collector) -> None:
    assert stepward(*RUN).exit_code == 4
    assert collector.kept == []


def test_values_are_sent_with_an_option_of_their_own(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "payments")
    assert stepward(*RUN, "--otel-values").exit_code == 4
    assert b'{"amount": 481516}' in b"".join(body for _, body in collector.kept)
    assert collector.services() == {"payments"}


def test_a_run_goes_well_where_nobody_listens(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.validator.cli.machine.SENDING", 0.01)
    # The exporter tries again after about a second, if so much is left; its thread ends soon after the test.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    collector.server.shutdown()
    collector.server.server_close()
    result = stepward(*RUN, "--otel")
    assert result.exit_code == 4
    assert "spans are left that could not be sent in 0.01 seconds; the run is not affected" in result.output


def test_an_exporter_that_is_missing_is_said_before_anything_runs(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeons")
    result = CliRunner().invoke(main, [*RUN, "--otel"])
    assert result.exit_code == 2
    assert "OTEL_TRACES_EXPORTER is `pigeons`" in result.output
    assert not Path("runs.db").exists()
