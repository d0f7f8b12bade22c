"""What a worker shows of itself: its health and its metrics over HTTP on the loopback interface, and its log."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from stepward.vm.machine.worker import Counts

STALE: Final = 60.0
"""Seconds after its last claim from which on a worker is not healthy: it claims once a second, or every 30 at most."""

_HELP: Final = {
    "stepward_worker_taken_total": ("counter", "Runs that were claimed and driven."),
    "stepward_worker_stopped_total": ("counter", "Runs that were let go, by their status then."),
    "stepward_worker_left_total": ("counter", "Runs that were claimed and left alone, by reason."),
    "stepward_worker_lost_total": ("counter", "Runs that somebody else took over meanwhile."),
    "stepward_worker_store_failures_total": ("counter", "Claims for which the journal could not be used."),
    "stepward_worker_driven": ("gauge", "Runs that are driven now."),
    "stepward_due": ("gauge", "Runs that are due and that nobody drives, by program; at the last count."),
}


class Log:
    """Writes one JSON object a line; several threads may share it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write an event with its fields."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"time": at, "event": event, **fields})
        with self._lock:
            print(line, file=self._stream, flush=True)


def is_healthy(counts: Counts, now: float) -> bool:
    """Return whether a worker could use its journal lately; `now` is a monotonic time."""
    return counts.seen is not None and now - counts.seen < STALE


def metrics_text(counts: Counts) -> str:
    """Return the metrics of a worker in the text format of Prometheus."""
    samples: dict[str, list[tuple[str, int]]] = {
        "stepward_worker_taken_total": [("", counts.taken)],
        "stepward_worker_stopped_total": _labelled("status", dict(counts.stopped)),
        "stepward_worker_left_total": _labelled("why", dict(counts.left)),
        "stepward_worker_lost_total": [("", counts.lost)],
        "stepward_worker_store_failures_total": [("", counts.failures)],
        "stepward_worker_driven": [("", counts.driven)],
        "stepward_due": _labelled("program", counts.due),
    }
    lines = []
    for name, (kind, help) in _HELP.items():
        lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{labels} {value}" for labels, value in samples[name]]
    return "\n".join(lines) + "\n"


def _labelled(name: str, values: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(f'{{{name}="{_escaped(label)}"}}', value) for label, value in sorted(values.items())]


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def status_served(port: int, counts: Counts) -> Iterator[int]:
    """Serve `/health` and `/metrics` on a port of the loopback interface (0: any free one); yield the port.

    Raises OSError for a port that can't be used.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(counts))
            elif self.path == "/health":
                healthy = is_healthy(counts, time.monotonic())
                self._answer(200 if healthy else 503, "application/json", json.dumps({"healthy": healthy}))
            else:
                self._answer(404, "text/plain; charset=utf-8", "there are `/health` and `/metrics`\n")

        def _answer(self, status: int, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing of requests: the log is about runs."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="stepward-status", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def standard_log() -> Log:
    """Return a log on the present standard output, which the output of tools does not reach later."""
    return Log(sys.stdout)
