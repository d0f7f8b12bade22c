"""Comparison of what a run shows of itself: its views, its trace, what its models cost, and its spans."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

from stepward.sabotage.drawn.machine import Machine, Parted, equal
from stepward.sabotage.reference import Reference
from stepward.sabotage.reference.plain import same, written
from stepward.vm import Run
from stepward.vm.journal.records import read_record
from stepward.vm.telemetry.outline import outline_of
from stepward.vm.telemetry.spans import Span, Spans

HIDDEN: Final = ("[sensitive]", "[erased]")

Records = Sequence[Mapping[str, Any]]

POINTS: Final = ("cancel", "refused", "erased", "governed")
"""The kinds of record that are spans by themselves, whatever the run does."""


def compare_views(run: Run, reference: Reference) -> None:
    """Compare what a model and a trace may see with what a tool may see. Raises Parted."""
    whole, model_view, shown = dict(run.view("tool")), dict(run.view("model")), dict(run.view("trace"))
    equal("names", sorted(shown), sorted(whole), "in a trace")
    for name, value in whole.items():
        is_hidden = name in reference.hidden
        if not is_hidden and not same(shown[name], value):
            raise Parted("values", f"`{name}` is {shown[name]!r} in a trace, and {value!r} to a tool")
        if is_hidden and same(shown[name], value) and not _has_hidden(value):
            raise Parted("sensitive", f"`{name}` is sensitive, and a trace shows {value!r}")
        if name in model_view and not same(model_view[name], value):
            raise Parted("values", f"`{name}` is {model_view[name]!r} to a model, and {value!r} to a tool")


def _has_hidden(value: Any) -> bool:
    """Return whether a value has the words that a trace shows for a sensitive one."""
    return any(word in written(value) for word in HIDDEN)


def compare_shown(machine: Machine, run: Run, secrets: Collection[str]) -> None:
    """Compare the trace of a run, what its models cost, and its spans with its records and calls. Raises Parted.

    None of them may have one of `secrets`.
    """
    records = machine.records()
    _compare_trace(run, records)
    _compare_spent(machine, run, records)
    spans = list(_spans(machine))
    _compare_spans(spans, records)
    shown = [*map(repr, run.trace), *map(repr, spans)]
    for text in secrets:
        for place in shown:
            if any(form in place for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1])):
                raise Parted("secrets", f"`{text}` stands in `{place[:200]}`")


# -- the trace -----------------------------------------------------------------------------------------------------


def _compare_trace(run: Run, records: Records) -> None:
    """Compare the records of a trace, field by field, with those of the journal."""
    equal("records of a trace", len(run.trace), run.seq + 1)
    for number, (one, record) in enumerate(zip(run.trace, records, strict=False)):
        fields_shown = {field.name: getattr(one, field.name) for field in fields(one)}
        place = (one.kind, one.seq, _microseconds(one.at))
        equal("place in a trace", place, (record["kind"], number, record["at"]))
        fields_due = {**record["note"], **record["body"]}
        for name, data in fields_due.items():
            field = "outcome" if name == "kind" else name
            if field in fields_shown and not same(_of_trace(field, fields_shown[field]), _of_record(field, data)):
                raise Parted(
                    "values", f"`{name}` of record {number} is {fields_shown[field]!r} in a trace, and {data!r}"
                )


def _microseconds(at: Any) -> int:
    return round(float(at.timestamp()) * 1e6)


def _of_trace(name: str, value: Any) -> Any:
    """Return the value of a field of a trace as it is compared: sensitive values are alike."""
    if name in ("due", "started", "time") and value is not None:
        return _microseconds(value)
    if name == "took":
        return round(value * 1e6)
    return "[sensitive]" if value == "[erased]" else _mapped(value, lambda one: _of_trace("", one))


def _of_record(name: str, data: Any) -> Any:
    """Return a value of a record without its tags, and with the word of a trace for a sensitive one."""
    if name == "cost":
        return Decimal(data)
    if isinstance(data, str) and name not in ("step", "next", "frame", "tool", "key"):
        if data.startswith("#v"):
            return "[sensitive]"
        if data.startswith("#n"):
            return Decimal(data[2:])
        return data[1:] if data.startswith("##") else data
    return _mapped(data, lambda one: _of_record("", one))


def _mapped(value: Any, change: Any) -> Any:
    """Return a value with each member changed."""
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    return tuple(map(change, value)) if isinstance(value, list | tuple) else value


def _compare_spent(machine: Machine, run: Run, records: Records) -> None:
    """Compare what each step has spent on models with the attempts on record."""
    models = {name for name, call in machine.world.calls.items() if call.is_model}
    attempts = [one for one in records[: run.seq + 1] if one["kind"] == "attempt" and one["body"]["step"] in models]
    due: dict[str, tuple[int, Decimal, str]] = {}
    for one in attempts:
        note, before = one["note"], due.get(one["body"]["step"], (0, Decimal(0), ""))
        due[one["body"]["step"]] = before[0] + note["tokens"], before[1] + Decimal(note["cost"]), note["model"]
    equal("spent", {name: (one.tokens, Decimal(one.cost), one.model) for name, one in run.spent.items()}, due)


# -- spans ---------------------------------------------------------------------------------------------------------


VALUES: Final = {
    "stepward.inputs": "inputs",
    "stepward.output": "output",
    "gen_ai.tool.call.result": "output",
    "stepward.request": "request",
    "stepward.values": "values",
}
"""The attributes of spans that have values, and the fields of records that these are from."""


def _compare_values(span: Span, records: Records) -> None:
    """Compare the values that a span has with those of the record that ends it."""
    for name, field in VALUES.items():
        number = 0 if field == "inputs" else span.attributes["stepward.record"]
        if name in span.attributes:
            value = json.loads(str(span.attributes[name]))
            equal("values of a span", value, _spelled(records[int(number)]["body"][field]), f"{name} of {span.name}")


def _spelled(data: Any) -> Any:
    """Return a value of a record as a span has it: without tags, and with numbers that have one as texts."""
    if isinstance(data, str) and data.startswith("#"):
        return {"#v": "[sensitive]", "#n": data[2:]}.get(data[:2], data[1:])
    if isinstance(data, Mapping):
        return {key: _spelled(item) for key, item in data.items()}
    return [_spelled(item) for item in data] if isinstance(data, list) else data


def _spans(machine: Machine) -> Iterator[Span]:
    """Yield the spans of a run, made from its records, with values."""
    document = machine.journal.document(machine.world.plan.digest)
    assert document is not None, "a run has its program in the store"
    outline = outline_of(document)
    spans = Spans(machine.run, lambda _: outline, values=True)
    for entry in machine.journal.read(machine.run):
        yield from spans.add(read_record(entry))


def _compare_spans(spans: Sequence[Span], records: Records) -> None:
    """Check that spans are one tree, and that each call has one, with its time and outcome."""
    ids = [one.span_id for one in spans]
    equal("spans of one id", [one for one, count in Counter(ids).items() if count > 1], [])
    roots = [one for one in spans if one.parent_id is None]
    equal("roots of the spans", len(roots), 1)
    equal("spans below none", [one.name for one in spans if one.parent_id not in {None, *ids}], [])
    equal("links to no span", [one.name for one in spans if one.link not in {None, *ids}], [])
    status = [str(one.attributes.get("stepward.run.status")) for one in spans if _operation(one) == "invoke_workflow"]
    ends = [str(one["body"]["ends"]) for one in records if "ends" in one["body"]]
    equal("ends of the run in spans", [one for one in status if one not in ("SUSPENDED", "IN_DOUBT")], ends)
    attempts = {number: one for number, one in enumerate(records) if one["kind"] == "attempt"}
    calls = {one.attributes["stepward.record"]: one for one in spans if _operation(one) in ("chat", "execute_tool")}
    for number, record in attempts.items():
        span, note = calls.get(number), record["note"]
        if span is None:
            raise Parted("spans of calls", f"the attempt of record {number} has none")
        equal("time of a span", (span.start, span.end), (note["started"], note["started"] + note["took"]))
        place = (span.attributes["stepward.step.id"], span.attributes.get("stepward.call.attempt"))
        step = record["body"]["step"]
        equal("step of a span", place, (_plain_id(step), note["attempt"]))
        equal("error of a span", bool(span.error), _has_failed(record["body"]), str(record["body"].get("kind")))
        _compare_path(span, {one.span_id: one for one in spans}, record["body"])
        spent = (span.attributes.get("stepward.tokens", 0) or 0, span.is_client)
        equal("tokens of a span", spent, (note.get("tokens", 0), _operation(span) == "chat"))
    for one in spans:
        _compare_values(one, records)
    points = [one["kind"] for one in records if one["kind"] in POINTS]
    named = {one.attributes["stepward.record"] for one in spans}
    due = {number for number, one in enumerate(records) if one["kind"] in POINTS}
    equal("spans of what came from outside", sorted(due - named), [], str(points))


def _compare_path(span: Span, by_id: Mapping[int, Span], body: Mapping[str, Any]) -> None:
    """Check that the span of a call is below those of the steps around it, in the order in which they are nested."""
    path: list[Span] = []
    above = by_id.get(span.parent_id or 0)
    while above is not None:
        if "stepward.step.id" in above.attributes:
            path.insert(0, above)
        above = by_id.get(above.parent_id or 0)
    frame = body.get("frame", ())
    names = [str(one.attributes["stepward.step.id"]) for one in path]
    due = [_plain_id(member[0]) for member in frame]
    equal("steps around a call in spans", (names[: len(due)], names[-1:]), (due, [_plain_id(body["step"])]))
    equal("steps around a call in spans", len(names) - len(due) in (1, 2), True, f"{names}, for {due}")
    items = [one.attributes["stepward.step.item"] for one in path[-1:] if "stepward.step.item" in one.attributes]
    equal("item of a span", items, [frame[-1][3]] * len(items) if frame else [])


def _plain_id(step: str) -> str:
    return step[1:] if step.startswith("##") else step


def _operation(span: Span) -> str:
    return str(span.attributes.get("gen_ai.operation.name", ""))


def _has_failed(body: Mapping[str, Any]) -> bool:
    return body["kind"] not in ("success", "suspended")
