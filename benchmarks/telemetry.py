"""What spans and metrics cost a run, as a multiple of the same run without them: `python benchmarks/telemetry.py`.

The exporter keeps spans in memory; what it would take to send them is its own matter. Needs the extra `otel`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from check import table
from clock import multiple, spread, take_turns
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from runs import EFFECTS, STEPS, Tools, chain

from stepward.vm import ExecutionVM, MemoryJournal, Program, SQLiteJournal, Telemetry

RUNS: Final = 40
"""Runs in one turn: some hundred spans, fewer than the queue of the SDK holds."""

KEPT: Final = 1_000
"""Spans that the exporter keeps, so that its memory does not grow."""

STORES: Final = ("in memory", "on SQLite")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args(arguments).rounds
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for store in STORES:
            for effect in EFFECTS:
                works = contenders(store, effect, Path(folder))
                bare, spans, both = take_turns(works, rounds)
                rows.append(
                    [
                        f"{store}, effect {effect}",
                        f"{1e6 * median(bare) / RUNS:,.0f} µs",
                        f"{multiple(spans, bare):.2f} ± {spread(spans, bare):.0%}",
                        f"{multiple(both, bare):.2f} ± {spread(both, bare):.0%}",
                    ]
                )
    header = ["", "CPU of a run", "with spans", "with spans and metrics"]
    table(
        f"{STEPS} no-op steps, {spans_of_a_run()} spans: CPU as a multiple of the same run without them", header, rows
    )


def contenders(store: str, effect: str, folder: Path) -> list[Callable[[], object]]:
    """Return what makes some runs: without an observer, with spans, and with spans and metrics."""
    meters = MeterProvider([InMemoryMetricReader()])
    watched = (None, Telemetry(InMemorySpanExporter(KEPT)), Telemetry(InMemorySpanExporter(KEPT), meters))
    return [_runs(store, effect, folder / f"{effect}-{number}.db", one) for number, one in enumerate(watched)]


def _runs(store: str, effect: str, file: Path, observer: Telemetry | None) -> Callable[[], object]:
    program, tools = Program.from_dict(chain(STEPS, effect)), Tools()
    journal = MemoryJournal() if store == STORES[0] else SQLiteJournal(file, create=True)
    machine = ExecutionVM(tools, journal=journal, checker=None, observer=observer)

    def work() -> None:
        for _ in range(RUNS):
            assert machine.run_sync(program).status == "SUCCESS"

    return work


def spans_of_a_run() -> int:
    """Return how many spans one run has: a root, and for each step one and one for its call."""
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(exporter)
    ExecutionVM(Tools(), checker=None, observer=telemetry).run_sync(Program.from_dict(chain(STEPS)))
    telemetry.close()
    found = len(exporter.get_finished_spans())
    assert found == 1 + 2 * STEPS
    return found


if __name__ == "__main__":
    main()
