"""What spans need to know of a program: the names and types of its steps, read from its stored document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from stepward.vm.machine.views import shown


class Part(NamedTuple):
    """A step or sub-step. `tool` is empty unless it calls one, `within` is empty unless it is a sub-step.

    `calls` are the ids of its calls: of its sub-steps, or its own, or none; a wait counts as one. `after` are the
    sub-steps that it depends on. `id` is as in the program; all other ids are as in records, where a `#` at the
    beginning is doubled.
    """

    id: str
    type: str
    tool: str = ""
    within: str = ""
    calls: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Outline(NamedTuple):
    """A program: its name, and its steps and sub-steps by their ids in records."""

    name: str
    parts: dict[str, Part]


def outline_of(document: bytes) -> Outline:
    """Return the outline of a stored program."""
    program = json.loads(document)
    parts: dict[str, Part] = {}
    for step in _all_steps(program["steps"]):
        subs = step.get("parallel_steps", ())
        calls = tuple(sub["id"] for sub in subs) or ((step["id"],) if step["type"] in ("llm", "tool", "wait") else ())
        parts[step["id"]] = _part(step, "", calls)
        for sub in subs:
            parts[sub["id"]] = _part(sub, step["id"], (sub["id"],))
    return Outline(shown(program["name"]), parts)


def _all_steps(steps: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a list, and those of the bodies in it."""
    for step in steps:
        yield step
        yield from _all_steps([*(step.get("steps") or ()), *([step["do"]] if step.get("do") else ())])
        for _, branch in sorted((step.get("branches") or {}).items()):
            yield from _all_steps(branch["steps"])


def _part(step: dict[str, Any], within: str, calls: tuple[str, ...]) -> Part:
    after = tuple(step.get("depends_on", ()))
    return Part(shown(step["id"]), step["type"], shown(step.get("tool", "")), within, calls, after)
