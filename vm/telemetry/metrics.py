"""Metrics of runs: how they end, what they cost, how long calls take, and what checks find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stepward.vm.machine.admission import Finding
from stepward.vm.telemetry import names
from stepward.vm.telemetry.spans import HELD_STATUSES, Span

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

_OF_RUN: Final = (names.WORKFLOW, names.STATUS, names.REASON)
_OF_PART: Final = (names.WORKFLOW, names.ERROR)
_OF_TOOL: Final = (names.TOOL, names.TOOL_TYPE, names.ERROR)
_OF_CHAT: Final = (names.OPERATION, names.RESPONSE_MODEL, names.ERROR)


class Metrics:
    """The instruments of a meter. Attributes have few values each: no run ids, and no values of programs."""

    def __init__(self, meter: Meter) -> None:
        self._runs = meter.create_counter(names.RUNS_METRIC, "{run}", "Runs that have ended.")
        self._tokens = meter.create_counter(names.TOKENS_METRIC, "{token}", "Tokens of calls to models.")
        self._cost = meter.create_counter(names.COST_METRIC, "1", "Cost of calls to models, in the adapter's currency.")
        self._findings = meter.create_counter(names.FINDINGS_METRIC, "{finding}", "Findings of checks before runs.")
        self._parts, self._chats, self._calls = (
            meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=list(buckets))
            for name, what, buckets in (
                (names.WORKFLOW_DURATION, "Time of a run, or of one part of a run that waits.", names.WORKFLOW_BUCKETS),
                (names.CHAT_DURATION, "Time of a call to a model.", names.CALL_BUCKETS),
                (names.TOOL_DURATION, "Time of a call of a tool.", names.CALL_BUCKETS),
            )
        )

    def count(self, spans: Iterable[Span]) -> None:
        """Count spans that have ended."""
        for span in spans:
            seconds = (span.end - span.start) / 1e6
            match span.attributes.get(names.OPERATION):
                case names.INVOKE_WORKFLOW:
                    self._parts.record(seconds, _chosen(span, _OF_PART))
                    if span.attributes[names.STATUS] not in HELD_STATUSES:
                        self._runs.add(1, _chosen(span, _OF_RUN))
                case names.EXECUTE_TOOL:
                    self._calls.record(seconds, _chosen(span, _OF_TOOL))
                case names.CHAT:
                    self._count_chat(span, seconds)

    def _count_chat(self, span: Span, seconds: float) -> None:
        self._chats.record(seconds, _chosen(span, _OF_CHAT))
        model = _chosen(span, (names.RESPONSE_MODEL,))
        tokens, cost = span.attributes.get(names.TOKENS), span.attributes.get(names.COST)
        if isinstance(tokens, int):
            self._tokens.add(tokens, model)
        if isinstance(cost, float):
            self._cost.add(max(cost, 0.0), model)

    def count_findings(self, program: str, findings: Iterable[Finding]) -> None:
        """Count the findings of a check of a program."""
        for finding in findings:
            attributes = {names.FINDING_CODE: finding.code, names.FINDING_SEVERITY: str(finding.severity)}
            self._findings.add(1, {names.WORKFLOW: program, **attributes})


def _chosen(span: Span, chosen: tuple[str, ...]) -> dict[str, str | int | float | bool]:
    return {name: span.attributes[name] for name in chosen if name in span.attributes}
