"""The observer of a machine that sends spans and metrics of its runs to OpenTelemetry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from stepward.vm.arguments import TEXT, able, require
from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import JOURNAL, Append, Journal
from stepward.vm.machine.admission import Checker, Finding
from stepward.vm.machine.history import checked_records
from stepward.vm.machine.refusals import NoSuchRun
from stepward.vm.telemetry import names
from stepward.vm.telemetry.following import Followed
from stepward.vm.telemetry.metrics import Metrics
from stepward.vm.telemetry.spans import Span, Spans
from stepward.vm.telemetry.watching import WatchedJournal

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.sampling import Sampler

    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program

log = logging.getLogger("stepward.telemetry")


class TelemetryRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """Spans can't be sent: OpenTelemetry is not installed, or an environment variable names what is not there."""


class Telemetry:
    """Sends spans and metrics of runs: `ExecutionVM(..., observer=Telemetry(exporter))`.

    `exporter` is a SpanExporter of the SDK; without one no spans are sent. `meters` is a MeterProvider; without one
    nothing is counted. With `values`, spans also have inputs, arguments, outputs, the texts of errors and the names of
    people, but never what the program declares sensitive. `sampler` and `resource` are those of the environment
    variables of the SDK unless given.

    A fault of an exporter, or in here, changes nothing about a run: it is logged under `stepward.telemetry`. Raises
    TelemetryRefused if OpenTelemetry is not installed.
    """

    def __init__(
        self,
        exporter: SpanExporter | None = None,
        meters: MeterProvider | None = None,
        *,
        values: bool = False,
        sampler: Sampler | None = None,
        resource: Resource | None = None,
    ) -> None:
        require(able("a SpanExporter of OpenTelemetry", "export", "shutdown").or_none(), exporter=exporter)
        require(able("a MeterProvider of OpenTelemetry", "get_meter").or_none(), meters=meters)
        require(able("a Sampler of OpenTelemetry", "should_sample").or_none(), sampler=sampler)
        require(able("a Resource of OpenTelemetry", "merge").or_none(), resource=resource)
        try:
            from stepward.vm.telemetry.sending import Sender
        except ImportError as error:
            advice = "install Stepward with its extra: `pip install 'stepward[otel]'`"
            raise TelemetryRefused(f"spans need OpenTelemetry ({error}); {advice}") from error
        self._sender = None if exporter is None else Sender(exporter, sampler, resource)
        self._meters = meters
        self._metrics = None if meters is None else Metrics(meters.get_meter(names.SCOPE))
        self._values = values
        self._followed: list[Followed] = []
        self._known: set[str] = set()

    # -- for a machine -------------------------------------------------------------------------------------------------

    def watch(self, journal: Journal) -> Journal:
        """Return a store that does as `journal` does, and whose new records become spans here."""
        followed = Followed(journal, values=self._values)
        self._followed.append(followed)

        def saw(append: Append) -> None:
            try:
                self._take(followed.follow(append))
            except Exception as error:
                self._complain(error)

        return WatchedJournal(journal, saw, followed.mine)

    def checks(self, checker: Checker) -> Checker:
        """Return a checker that finds what `checker` finds, and counts it."""

        def check(program: Program, policies: Sequence[Policy]) -> Iterable[Finding]:
            findings = tuple(checker(program, policies))
            self.count_findings(program.name, findings)
            return findings

        return check

    def count_findings(self, program: str, findings: Iterable[Finding]) -> None:
        """Count the findings of a check of the program with this name."""
        if self._metrics is not None:
            try:
                self._metrics.count_findings(program, findings)
            except Exception as error:
                self._complain(error)

    # -- for everybody -------------------------------------------------------------------------------------------------

    def export(self, journal: Journal, run: str) -> int:
        """Send all spans of a stored run that have ended, again or for the first time; return their number.

        They have the same ids each time. Nothing is counted in metrics. Raises NoSuchRun, and JournalError for a
        damaged journal.
        """
        require(JOURNAL, journal=journal)
        require(TEXT, run=run)
        entries = journal.read(run)
        if not entries:
            raise NoSuchRun(f"there is no run `{run}`")
        spans = Spans(run, Followed(journal, values=self._values).outline, values=self._values)
        ended = [span for record in checked_records(run, entries) for span in spans.add(record)]
        self._send(ended)
        return len(ended)

    def flush(self, seconds: float = 5.0) -> bool:
        """Send what is left, and wait for it, but no longer than `seconds`; return whether it is done."""
        return self._within(seconds, "force_flush", None if self._sender is None else self._sender.flush)

    def close(self, seconds: float = 5.0) -> bool:
        """Send what is left and end the exporters, but wait no longer than `seconds`; return whether it is done."""
        return self._within(seconds, "shutdown", None if self._sender is None else self._sender.close)

    def _within(self, seconds: float, of_meters: str, send: Callable[[], None] | None) -> bool:
        def work() -> None:
            try:
                for followed in self._followed:
                    self._take(followed.rest())
                if send is not None:
                    send()
                getattr(self._meters, of_meters, lambda: None)()  # the API alone knows neither
            except Exception as error:
                self._complain(error)

        # The SDK promises no time-out of its own: an exporter may try again for a long time.
        thread = threading.Thread(target=work, name="stepward-telemetry", daemon=True)
        thread.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _take(self, spans: Sequence[Span]) -> None:
        if self._metrics is not None:
            self._metrics.count(spans)
        self._send(spans)

    def _send(self, spans: Sequence[Span]) -> None:
        if spans and self._sender is not None and self._sender.is_sampled(spans[0].trace_id):
            self._sender.send(spans)

    def _complain(self, error: Exception) -> None:
        """Log a fault, once for each kind, without its text, which may hold values."""
        kind = type(error).__name__
        if kind not in self._known:
            self._known.add(kind)
            log.warning("spans or metrics of runs are incomplete: %s; the runs themselves are not affected", kind)
