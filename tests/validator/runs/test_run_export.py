"""Fast: the spans of runs in formats of other tools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepward.validator.runs.export import chrome, otlp
from stepward.vm.telemetry.spans import Span


def span(start: int, end: int, number: int = 1, **more: object) -> Span:
    return Span(7, number, None if number == 1 else 1, f"s{number}", False, start, end, {}, **more)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=12))
def test_spans_of_one_thread_lie_inside_of_each_other_or_apart(times: list[tuple[int, int]]) -> None:
    spans = sorted(
        (span(start, start + took, n) for n, (start, took) in enumerate(times)), key=lambda s: (s.start, -s.end)
    )
    events = [event for event in chrome([("r", spans)])["traceEvents"] if event["ph"] == "X"]
    assert [(event["ts"], event["dur"]) for event in events] == [(one.start, one.end - one.start) for one in spans]
    for first in events:
        for second in events:
            if first["tid"] != second["tid"]:
                continue
            low, high = sorted((first, second), key=lambda event: (event["ts"], -event["dur"]))
            inside = high["ts"] + high["dur"] <= low["ts"] + low["dur"]
            assert inside or high["ts"] >= low["ts"] + low["dur"]


def test_what_runs_one_after_the_other_shares_a_thread_and_what_overlaps_does_not() -> None:
    events = chrome([("r", [span(0, 10), span(0, 4, 2), span(2, 6, 3), span(6, 9, 4)])])["traceEvents"]
    assert [event["tid"] for event in events[1:]] == [1, 1, 2, 1]
    assert events[0] == {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "r"}}


def test_otlp_has_ids_in_hexadecimal_times_in_nanoseconds_and_typed_values() -> None:
    one = Span(
        255, 16, 1, "call", True, 5, 9,
        {"text": "a", "whole": 3, "real": 0.5, "is": True, "large": 1 << 70}, "timeout", "too late", link=2,
    )  # fmt: skip
    (scoped,) = otlp([[one]])["resourceSpans"][0]["scopeSpans"]
    assert scoped["scope"]["name"] == "stepward"
    assert scoped["spans"] == [
        {
            "traceId": "000000000000000000000000000000ff",
            "spanId": "0000000000000010",
            "parentSpanId": "0000000000000001",
            "name": "call",
            "kind": 3,
            "startTimeUnixNano": "5000",
            "endTimeUnixNano": "9000",
            "attributes": [
                {"key": "text", "value": {"stringValue": "a"}},
                {"key": "whole", "value": {"intValue": "3"}},
                {"key": "real", "value": {"doubleValue": 0.5}},
                {"key": "is", "value": {"boolValue": True}},
                {"key": "large", "value": {"stringValue": str(1 << 70)}},
            ],
            "links": [{"traceId": "000000000000000000000000000000ff", "spanId": "0000000000000002"}],
            "status": {"code": 2, "message": "too late"},
        }
    ]
