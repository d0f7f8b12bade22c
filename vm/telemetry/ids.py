"""Ids of traces and spans: digests of the run's id and of the number of a record, so that they are always the same."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from stepward.vm.arguments import TEXT, require

TRACE_TAG: Final = "stepward.trace-id.1\n"
SPAN_TAG: Final = "stepward.span-id.1\n"


def trace_id_of(run: str) -> int:
    """Return the trace id of a run: 128 bits, never 0; `format(number, "032x")` is its usual form."""
    require(TEXT, run=run)
    return int.from_bytes(sha256(f"{TRACE_TAG}{run}".encode()).digest()[:16]) or 1


def span_id_of(run: str, record: int, what: str) -> int:
    """Return the id of a span: 64 bits, never 0. `record` is the number of a record, `what` tells its spans apart."""
    return int.from_bytes(sha256(f"{SPAN_TAG}{run}\n{record}\n{what}".encode()).digest()[:8]) or 1
