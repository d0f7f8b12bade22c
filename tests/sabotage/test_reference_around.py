"""Each thing that is compared around a drawn run can differ: it is falsified, and the comparison has to say so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from stepward.sabotage.drawn import around, lockstep, showing
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.machine import Machine, Parted
from stepward.vm.telemetry.spans import Span

Records = list[dict[str, Any]]


class Forged:
    """An object with some attributes in place of its own."""

    def __init__(self, real: Any, **other: Any) -> None:
        self._real = real
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return self._other[name] if name in self._other else getattr(self._real, name)


def first(records: Records, *kinds: str, **has: Any) -> dict[str, Any]:
    """Return the first record of one of the kinds whose body has these fields; raises StopIteration without one."""
    return next(one for one in records if one["kind"] in kinds and has.items() <= one["body"].items())


def called(machine: Machine, record: dict[str, Any]) -> Any:
    body = record["body"]
    return machine.calls.get((body["step"], body["visit"], record["note"].get("attempt")))


def attempts(machine: Machine, records: Records, is_fit: Callable[[Any], bool]) -> Iterator[dict[str, Any]]:
    """Yield the records of attempts whose calls are fit."""
    found = (one for one in records if one["kind"] == "attempt" and called(machine, one) is not None)
    return (one for one in found if is_fit(called(machine, one)))


def is_tool(call: Any) -> bool:
    return bool(call.asked.tool)


def is_model(call: Any) -> bool:
    return not call.asked.tool


# -- records -----------------------------------------------------------------------------------------------------------
# Each changes the records of an ended run. StopIteration and KeyError say that the run has nothing of the kind.


def by_a_stranger(_: Machine, records: Records) -> None:
    first(records, "started")["note"]["by"] = "eve"


def a_delivery_less(_: Machine, records: Records) -> None:
    records.remove(first(records, "resumed"))


def another_waiver(_: Machine, records: Records) -> None:
    first(records, "started")["body"]["waived"].append("p:x")


def another_policy(_: Machine, records: Records) -> None:
    first(records, "intent")["body"]["policies"].append("x")


def an_attempt_twice(_: Machine, records: Records) -> None:
    records.append(first(records, "attempt"))


def another_performance(machine: Machine, records: Records) -> None:
    next(attempts(machine, records, is_tool))["note"]["performance"] += 1


def an_intent_less(_: Machine, records: Records) -> None:
    records.remove(first(records, "intent"))


def another_cost(machine: Machine, records: Records) -> None:
    next(attempts(machine, records, is_model))["note"]["tokens"] += 1


def another_time(machine: Machine, records: Records) -> None:
    next(attempts(machine, records, is_tool))["note"]["started"] += 10**15


def another_rule(machine: Machine, records: Records) -> None:
    next(attempts(machine, records, is_tool))["body"]["rule"] = "x"


def unknown_for_nothing(_: Machine, records: Records) -> None:
    first(records, "attempt", kind="success")["body"]["unknown"] = True


def an_error_that_counts(machine: Machine, records: Records) -> None:
    has_raised = lambda call: is_tool(call) and type(call.answer).__name__ == "Raised"  # noqa: E731
    next(attempts(machine, records, has_raised))["body"]["kind"] = "success"


def an_attempt_less(_: Machine, records: Records) -> None:
    records.remove([one for one in records if one["kind"] == "attempt"][-1])


def another_tool(_: Machine, records: Records) -> None:
    first(records, "intent")["body"]["tool"] = "x"


def no_token(_: Machine, records: Records) -> None:
    del next(one for one in records if one["kind"] == "intent" and "token" in one["note"])["note"]["token"]


def another_token(_: Machine, records: Records) -> None:
    next(one for one in records if one["kind"] == "intent" and "token" in one["note"])["note"]["token"] = "0"


def before_it_is_due(_: Machine, records: Records) -> None:
    later = next(number for number, one in enumerate(records) if one["kind"] == "attempt" and "due" in one["note"])
    place = records[later]["body"]["step"]
    note = first(records[later + 1 :], "attempt", step=place)["note"]
    note |= {"started": 0, "took": note["started"] + note["took"]}


def due_at_another_time(_: Machine, records: Records) -> None:
    next(one for one in records if "due" in one["note"])["note"]["due"] += 1


def another_doubt(_: Machine, records: Records) -> None:
    first(records, "ended")["body"].setdefault("in_doubt", []).append("x")


NOTES: dict[str, list[Callable[[Machine, Records], None]]] = {
    "people": [by_a_stranger, a_delivery_less],
    "policies and waivers on record": [another_waiver],
    "policies of an intent": [another_policy],
    "attempts on record": [an_attempt_twice],
    "performance on record": [another_performance],
    "intent": [an_intent_less],
    "cost on record": [another_cost],
    "times on record": [another_time],
    "rule of a reply": [another_rule],
    "unknown": [unknown_for_nothing],
    "an error that happened": [an_error_that_counts],
    "attempts without a record": [an_attempt_less],
    "tool of an intent": [another_tool],
    "token of an intent": [no_token],
    "digest of a token": [another_token],
    "start that is due": [before_it_is_due],
    "due": [due_at_another_time],
    "writes in doubt at the end": [another_doubt],
}


def with_records(machine: Machine, change: Callable[[Machine, Records], None]) -> Any:
    """Return the machine with changed records, or None where the change finds nothing to change."""
    entries = machine.journal.read(machine.run)
    records: Records = [json.loads(entry.record) for entry in entries]
    try:
        change(machine, records)
    except (StopIteration, KeyError, IndexError):
        return None
    changed = [entries[0]._replace(record=json.dumps(one).encode()) for one in records]
    return Forged(machine, journal=Forged(machine.journal, read=lambda *_: changed))


# -- what stands around a run that waits -------------------------------------------------------------------------------


def with_row(machine: Machine, **fields: Any) -> Any:
    row = machine.journal.row(machine.run)
    assert row is not None
    return Forged(machine, journal=Forged(machine.journal, row=lambda _: row._replace(**fields)))


def with_vault(machine: Machine) -> Any:
    values = {"a": bytes(20), "b": bytes(20)}
    return Forged(machine, journal=Forged(machine.journal, vault=Forged(machine.journal.vault, get=lambda _: values)))


def suspended(run: Any, **fields: Any) -> Any:
    return Forged(run, suspensions=tuple(one._replace(**fields) for one in run.suspensions))


def doubted(run: Any, **fields: Any) -> Any:
    return Forged(run, doubts=tuple(one._replace(**fields) for one in run.doubts))


def of_another_run(machine: Machine) -> Any:
    return Forged(machine, calls={place: Forged(one, token="x.y") for place, one in machine.calls.items()})


HELD: dict[str, Callable[[Machine, Any], tuple[Any, Any]]] = {
    "row": lambda machine, run: (with_row(machine, status="x"), run),
    "lease of a run that waits": lambda machine, run: (with_row(machine, expires=1e18), run),
    "times in the list of runs": lambda machine, run: (with_row(machine, updated=0.0), run),
    "token": lambda machine, run: (machine, suspended(run, token="x.y")),
    "run of a token": lambda machine, run: (of_another_run(machine), suspended(run, token="x.y")),
    "request": lambda machine, run: (machine, suspended(run, request={})),
    "salts of sealed values": lambda machine, run: (with_vault(machine), run),
    "tool in doubt": lambda machine, run: (machine, doubted(run, tool="x")),
    "key in doubt": lambda machine, run: (machine, doubted(run, key="x")),
}


def parted(compare: Callable[..., Any], *what: Any) -> str:
    """Return what a comparison finds to differ, or an empty text."""
    try:
        compare(*what)
    except Parted as error:
        return error.about
    return ""


def test_what_is_compared_around_a_run_can_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {*HELD, *(change.__name__ for changes in NOTES.values() for change in changes), "pauses before attempts"}
    compare_held, compare_notes = around.compare_held, around.compare_notes

    def held(machine: Machine, run: Any) -> None:
        compare_held(machine, run)
        for about in lacking & HELD.keys():
            if parted(compare_held, *HELD[about](machine, run)) == about:
                lacking.discard(about)

    def notes(machine: Machine, *more: Any) -> None:
        compare_notes(machine, *more)
        for about, changes in NOTES.items():
            for change in changes:
                forged = with_records(machine, change) if change.__name__ in lacking else None
                if forged is not None and parted(compare_notes, forged, *more) == about:
                    lacking.discard(change.__name__)
        slow = Forged(machine, clock=Forged(machine.clock, slept=[*machine.clock.slept, 1.0]))
        lacking.discard(parted(compare_notes, slow, *more))

    monkeypatch.setattr(around, "compare_held", held)
    monkeypatch.setattr(around, "compare_notes", notes)
    for seed in range(60):
        for theme in ("all", "people", "errors", "secrets"):
            case = drawn_case(theme, f"around {seed}")
            if case is not None and lacking:
                lockstep.lockstep(case)
    assert not lacking, "no run shows that these can differ"


# -- what a run shows of itself ----------------------------------------------------------------------------------------


def is_call(span: Span) -> bool:
    return span.attributes.get("gen_ai.operation.name") in ("chat", "execute_tool")


def said(span: Span, name: str, value: Any) -> Span:
    return span._replace(attributes={**span.attributes, name: value} if name in span.attributes else span.attributes)


SPANS: dict[str, Callable[[list[Span]], list[Span]]] = {
    "spans of one id": lambda spans: [*spans, spans[0]],
    "roots of the spans": lambda spans: [one for one in spans if one.parent_id is not None],
    "spans below none": lambda spans: [one._replace(parent_id=one.parent_id and 1) for one in spans],
    "links to no span": lambda spans: [one._replace(link=1) for one in spans],
    "ends of the run in spans": lambda spans: [said(one, "stepward.run.status", "else") for one in spans],
    "spans of calls": lambda spans: [one for one in spans if not is_call(one)],
    "time of a span": lambda spans: [one._replace(end=one.end + 1) for one in spans],
    "step of a span": lambda spans: [said(one, "stepward.step.id", "else") for one in spans],
    "error of a span": lambda spans: [one._replace(error="" if one.error else "else") for one in spans],
    "tokens of a span": lambda spans: [said(one, "stepward.tokens", 77) for one in spans],
    "values of a span": lambda spans: [said(one, "gen_ai.tool.call.result", '"else"') for one in spans],
    "spans of what came from outside": lambda spans: [one for one in spans if "requested" not in one.name],
}
RUNS: dict[str, Callable[[Any], Any]] = {
    "records of a trace": lambda run: Forged(run, trace=run.trace[:-1]),
    "place in a trace": lambda run: Forged(run, trace=tuple(replace(one, seq=0) for one in run.trace)),
    "values": lambda run: Forged(run, trace=(replace(run.trace[0], waived=("else",)), *run.trace[1:])),
    "spent": lambda run: Forged(run, spent={}),
    "secrets": lambda run: Forged(run, trace=run.trace),
}


def test_what_a_run_shows_can_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {*SPANS, *RUNS}
    compare, made = showing.compare_shown, showing._spans

    def shown(machine: Machine, run: Any, secrets: Any) -> None:
        compare(machine, run, secrets)
        spans = list(made(machine))
        for about in lacking & SPANS.keys():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(showing, "_spans", lambda _, change=SPANS[about]: change(spans))
                lacking.discard(parted(compare, machine, run, ()))
        for about in lacking & RUNS.keys():
            lacking.discard(parted(compare, machine, RUNS[about](run), ("started",) if about == "secrets" else ()))

    monkeypatch.setattr(showing, "compare_shown", shown)
    for seed in range(60):
        for theme in ("all", "people"):
            case = drawn_case(theme, f"shown {seed}")
            if case is not None and lacking:
                lockstep.lockstep(case)
    assert not lacking, "no run shows that these can differ"
