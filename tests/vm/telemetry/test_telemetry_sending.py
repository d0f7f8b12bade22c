"""Fast: what leaves the process and what does not; that nothing which fails there touches a run; metrics; sampling."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased

from machines import TOOLS, Bench, ask, assign, end, program, tool
from spans import Seen, close_all
from stepward.validator import check_program
from stepward.vm import ExecutionVM, ModelReply, Program, RunRefused, SQLiteJournal, Suspend, Telemetry, trace_id_of
from stepward.vm.telemetry.environment import telemetry_of
from stepward.vm.telemetry.telemetry import TelemetryRefused

HIDDEN = {"type": "string", "sensitive": True}
SECRET, PLAIN = "DE02120300000000202051", "a-plain-value"
NO = ValueError("no")


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    yield
    close_all()


def said(telemetry: Seen) -> str:
    """Run a program with a sensitive value and a plain one in every place, and return all that the spans say."""
    tools = {
        **TOOLS,
        "write": {"effect": "write", "idempotent": True, "args": {"iban": HIDDEN, "x": {"type": "string"}}},
        "ask": {"effect": "none", "suspends": True, "returns": {"type": "string"}},
    }
    steps = [
        ask("think", f"of {PLAIN}", output_key="thought"),
        assign("keep", kept="$x", hidden="$iban"),
        tool("pay", "write", args={"iban": "$iban", "x": "$x"}, on_error="retry", max_retries=2, output_key="paid"),
        tool("look"),
        tool("wait", "ask", args={"x": "$x"}),
        end("done", "$paid"),
    ]
    fails = ValueError(f"{SECRET} and {PLAIN}")
    answers = {
        "pay": [fails, f"paid {SECRET} {PLAIN}"],
        "look": PLAIN,
        "wait": lambda x: Suspend({"about": f"{SECRET} {x}"}),
    }
    bench = Bench(answers, {"think": ModelReply(PLAIN, 5)}, observer=telemetry, retry_delay=lambda _: 0)
    made = program(*steps, tools=tools, inputs={"iban": HIDDEN, "x": {"type": "string"}})
    run = bench.run(made, iban=SECRET, x=PLAIN)
    run = bench.vm.resume_sync(run.suspensions[0].token, f"{PLAIN} {SECRET}", by="Ann Ample")
    assert run.status == "SUCCESS"
    return telemetry.texts()


def test_no_value_leaves_unless_it_is_asked_for() -> None:
    text = said(Seen())
    assert PLAIN not in text
    assert SECRET not in text
    assert "Ann" not in text


def test_values_that_are_asked_for_leave_and_sensitive_ones_never() -> None:
    text = said(Seen(values=True))
    assert SECRET not in text
    assert SECRET[-8:] not in text
    for name in ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "stepward.inputs", "stepward.output"):
        spans = [json.loads(one) for one in _objects(text)]
        assert any(PLAIN in str(span["attributes"].get(name)) for span in spans), name
    assert "[sensitive]" in text
    assert "#v" not in text, "the references of a journal are of no use here"
    assert "Ann Ample" in text


def _objects(text: str) -> list[str]:
    return [f"{{{one}" for one in ("\n" + text).split("\n{")[1:]]


# -- faults ------------------------------------------------------------------------------------------------------------


class Broken(SpanExporter):
    """An exporter that raises, or that never comes back."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.asked = threading.Event()
        self.released = threading.Event()

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        self.asked.set()
        if self.hangs:
            self.released.wait(20)
            return SpanExportResult.FAILURE
        raise ConnectionError("nobody listens")

    def shutdown(self) -> None:
        self.released.set()


def hashes(**machine: Any) -> tuple[str, str, bytes]:
    bench = Bench({"a": [NO, "x"]}, retry_delay=lambda _: 0, **machine)
    run = bench.run(program(tool("a", "again", on_error="retry", max_retries=2), end("b", "$a.output")))
    return run.status, run.trace_hash, run.snapshot()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_broken_exporter_changes_nothing_about_a_run(hangs: bool, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Broken(hangs=hangs)
    telemetry = Telemetry(exporter)
    assert hashes(observer=telemetry) == hashes()
    with caplog.at_level(logging.CRITICAL, "opentelemetry"):
        assert telemetry.flush(0.2) is not hangs, "nobody waits longer than asked"
        assert exporter.asked.wait(5)
        exporter.released.set()
        assert telemetry.close()


def test_a_fault_of_ours_is_logged_once_and_without_its_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError(PLAIN)

    telemetry = Seen()
    monkeypatch.setattr("stepward.vm.telemetry.following.outline_of", fails)
    assert hashes(observer=telemetry) == hashes()
    assert hashes(observer=telemetry) == hashes()
    faults = [record.getMessage() for record in caplog.records if record.name == "stepward.telemetry"]
    assert faults == ["spans or metrics of runs are incomplete: ValueError; the runs themselves are not affected"]
    assert PLAIN not in caplog.text


def test_a_store_that_does_not_take_a_record_makes_no_span(tmp_path: Any) -> None:
    telemetry = Seen()
    journal = SQLiteJournal(tmp_path / "runs.db", create=True)
    machine = ExecutionVM({"read": lambda: 1}, journal=journal, checker=None, observer=telemetry)
    made = program(tool("a", is_terminal=True))
    machine.run_sync(made, run_id="one")
    machine.run_sync(made, run_id="one")
    assert len(telemetry.spans()) == 3
    journal.close()


def test_machines_and_threads_share_one_telemetry() -> None:
    telemetry = Seen()
    bench = Bench(observer=telemetry)
    made = program(tool("a"), tool("b", "again"), end())
    threads = [
        threading.Thread(
            target=lambda name: [bench.vm.run_sync(made, run_id=f"{name}-{one}") for one in range(10)], args=(name,)
        )
        for name in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(telemetry.spans()) == 40 * 6


# -- sampling and limits -----------------------------------------------------------------------------------------------


def test_a_sampler_decides_by_the_trace_so_all_parts_of_a_run_are_alike() -> None:
    assert Seen(sampler=ALWAYS_OFF).spans() == []
    half = Seen(sampler=TraceIdRatioBased(0.5))
    bench = Bench({"a": lambda: Suspend({})}, observer=half)
    made = program(tool("a", "ask"), end())
    for number in range(20):
        run = bench.run(made, f"run-{number}")
        bench.vm.resume_sync(run.suspensions[0].token)
    kept = {span.context.trace_id for span in half.spans()}
    assert 0 < len(kept) < 20
    assert kept <= {trace_id_of(f"run-{number}") for number in range(20)}
    assert len(half.spans()) == 7 * len(kept)


def test_long_values_are_cut_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "40")
    telemetry = Seen(values=True)
    Bench({"a": "x" * 500}, observer=telemetry).run(program(tool("a", is_terminal=True)))
    assert "x" * 39 in telemetry.texts()
    assert "x" * 41 not in telemetry.texts()


# -- metrics -----------------------------------------------------------------------------------------------------------


def counted(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Return the points of all metrics: their attributes, and their value or how many were recorded."""
    data = reader.get_metrics_data()
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for metric in (one for of in data.resource_metrics for scope in of.scope_metrics for one in scope.metrics):  # type: ignore[union-attr]
        for point in metric.data.data_points:
            value = point.value if hasattr(point, "value") else point.count
            found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
    return found


def test_metrics_count_endings_tokens_cost_and_calls() -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(None, MeterProvider([reader]))
    model = {"a": [ModelReply("x", 7, 2, "m"), ModelReply("x", 4, 1, "m"), NO]}
    bench = Bench({"b": ["fine", NO, "fine"]}, model, observer=telemetry)
    for number in range(3):
        bench.run(program(ask("a"), tool("b"), end()), f"run-{number}")
    found = counted(reader)
    of = {"gen_ai.workflow.name": "bench"}
    ends = {(one["stepward.run.status"], one["stepward.run.reason"]): count for one, count in found["stepward.runs"]}
    assert ends == {("SUCCESS", "declared"): 1, ("FAILED", "error"): 2}
    assert found["stepward.tokens"] == [({"gen_ai.response.model": "m"}, 11)]
    assert found["stepward.cost"] == [({"gen_ai.response.model": "m"}, 3.0)]
    assert found["gen_ai.workflow.duration"] == [(of, 1), ({**of, "error.type": "error"}, 2)]
    assert sum(count for _, count in found["gen_ai.client.operation.duration"]) == 3
    assert sum(count for _, count in found["gen_ai.execute_tool.duration"]) == 2
    assert "run-" not in str(found), "a run id has too many values for a metric"


def test_metrics_count_findings_once_for_each_check() -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(None, MeterProvider([reader]))
    machine = ExecutionVM(checker=check_program, observer=telemetry)
    bad = Program.from_dict({"name": "bad", "inputs": {}, "steps": [{"id": "a", "type": "set", "set": {"x": "$y"}}]})
    for _ in range(2):
        with pytest.raises(RunRefused):
            machine.run_sync(bad)
    points = counted(reader)["stepward.findings"]
    assert {(one["stepward.finding.severity"], count) for one, count in points} >= {("error", 1)}
    assert {one["gen_ai.workflow.name"] for one, _ in points} == {"bad"}


# -- the environment ---------------------------------------------------------------------------------------------------


def test_the_environment_can_switch_everything_off() -> None:
    assert telemetry_of({"OTEL_SDK_DISABLED": "true"}, values=False) is None
    nothing = telemetry_of({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, values=False)
    assert nothing is not None
    assert hashes(observer=nothing) == hashes()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"OTEL_TRACES_EXPORTER": "pigeons"}, "OTEL_TRACES_EXPORTER is `pigeons`"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, "write `http/protobuf` or `grpc`"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "install opentelemetry-exporter-otlp-proto-grpc"),
    ],
)
def test_an_exporter_that_is_not_there_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(TelemetryRefused, match=words):
        telemetry_of(environment, values=False)
