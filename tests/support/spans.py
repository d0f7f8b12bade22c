"""Spans of runs as tests look at them: drawn as a tree, and held against what is true of every trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stepward.vm import Telemetry

_ALIVE: list[Telemetry] = []


def close_all() -> None:
    """End the threads of all telemetry of a test."""
    while _ALIVE:
        _ALIVE.pop().close()


class Seen(Telemetry):
    """Telemetry whose spans stay in memory."""

    def __init__(self, **more: Any) -> None:
        _ALIVE.append(self)
        self.exporter = InMemorySpanExporter()
        super().__init__(self.exporter, **more)

    def spans(self) -> list[ReadableSpan]:
        """Return all spans so far, and see that they make a trace."""
        assert self.flush()
        found = list(self.exporter.get_finished_spans())
        require_whole(found)
        return found

    def tree(self) -> list[str]:
        """Return all spans so far as lines: two blanks for each level, the name, the outcome and the error."""
        return list(drawn(self.spans()))

    def texts(self) -> str:
        """Return everything that the spans say."""
        return "\n".join(span.to_json() for span in self.spans())


def require_whole(spans: Sequence[ReadableSpan]) -> None:
    """Assert what holds of every trace, whoever made it: ids, one root, parents and links that exist, times."""
    by_id = {span.context.span_id: span for span in spans}
    assert len(by_id) == len(spans), "no span comes twice"
    for span in spans:
        assert 0 < span.context.trace_id < 2**128
        assert 0 < span.context.span_id < 2**64
        assert span.context.is_valid
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert parent.context.trace_id == span.context.trace_id == span.parent.trace_id
            assert parent.start_time is not None
            assert parent.start_time <= span.start_time
        for link in span.links:
            assert by_id[link.context.span_id].context.trace_id == span.context.trace_id
    roots = [span.context.trace_id for span in spans if span.parent is None]
    assert len(roots) == len(set(roots)) == len({span.context.trace_id for span in spans})


def drawn(spans: Iterable[ReadableSpan], parent: int | None = None, level: int = 0) -> Iterable[str]:
    """Yield the spans below one, in the order of the records that end them."""
    known = list(spans)
    below = [span for span in known if (None if span.parent is None else span.parent.span_id) == parent]
    for span in sorted(below, key=_order):
        given = span.attributes or {}
        said = given.get("stepward.outcome") or given.get("stepward.run.status") or ""
        error = f" !{given['error.type']}" if "error.type" in given else ""
        assert span.status.is_ok != bool(error)
        yield f"{'  ' * level}{span.name} {said}{error}".rstrip()
        yield from drawn(known, span.context.span_id, level + 1)


def _order(span: ReadableSpan) -> tuple[Any, ...]:
    return (span.attributes or {})["stepward.record"], span.name
