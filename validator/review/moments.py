"""A run step by step, as the page shows it: what happened at each record, and the values that it gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.report.trace import trace_data, words_of
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.vm.language.program import Program
    from stepward.vm.machine.history import History

MAX_VALUE: Final = 2_000
"""Characters of a value on the page; the JSON of `stepward runs RUN` has all of them."""


class Moment(NamedTuple):
    """One record: its step, what happened in words, and the values that names have from here on, as JSON."""

    step: str
    words: str
    values: Mapping[str, str]


def moments_of(found: History, program: Program) -> list[Moment]:
    """Return the records of a run of a program, without sensitive values."""
    names = {
        part.id: getattr(part, "output_key", None) or f"{part.id}.output"
        for step in program.layout.steps
        for part in (step, *step.sub_steps)
    }
    return [
        Moment(
            str(record["body"].get("step", "")),
            words_of(event),
            {name: _shortened(to_json(value)) for name, value in _values(record, names)},
        )
        for record, event in zip(trace_data(found), found.events, strict=True)
    ]


def _values(record: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    body = record["body"]
    if record["kind"] == "started":
        yield from body["inputs"].items()
    elif record["kind"] == "assigned":
        yield from body["values"].items()
    elif "output" in body and body.get("step") in names:
        yield names[body["step"]], body["output"]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
