"""What spans need to know of a program: the names and types of its steps, read from its stored document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stepward.vm.language.program import UNNAMED
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
    """A program: its name, its steps and sub-steps by their ids in records, and the for_each steps whose items run at
    once."""

    name: str
    parts: dict[str, Part]
    beside: frozenset[str] = frozenset()


def outline_of(document: bytes) -> Outline:
    """Return the outline of a stored program; steps of programs that it calls have the ids of calls before theirs."""
    program = json.loads(document)
    parts: dict[str, Part] = {}
    beside: set[str] = set()
    for step, prefix in _all_steps(program["steps"], _listed(program, {}), ""):
        subs, id = step.get("parallel_steps", ()), _key(prefix, step["id"])
        if step["type"] == "for_each" and step.get("max_concurrency", 1) > 1:
            beside.add(id)
        own = (id,) if step["type"] in ("llm", "tool", "wait") else ()
        parts[id] = _part(step, prefix, "", tuple(_key(prefix, sub["id"]) for sub in subs) or own)
        for sub in subs:
            name = _key(prefix, sub["id"])
            parts[name] = _part(sub, prefix, id, (name,))
    return Outline(shown(program.get("name", UNNAMED)), parts, frozenset(beside))


_Known = Mapping[str, tuple[Mapping[str, Any], Any]]
"""The programs that can be called by name, each with those that were known where it is listed."""


def _listed(program: Mapping[str, Any], around: _Known) -> _Known:
    known = dict(around)
    known |= {name: (one, known) for name, one in (program.get("programs") or {}).items()}
    return known


def _all_steps(
    steps: Iterable[Mapping[str, Any]], known: _Known, prefix: str
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the steps of a list, of the bodies in it and of what it calls, each with what stands before its id."""
    for step in steps:
        yield step, prefix
        inner = [*(step.get("steps") or ()), *([step["do"]] if step.get("do") else ())]
        for _, branch in sorted((step.get("branches") or {}).items()):
            inner += branch["steps"]
        yield from _all_steps(inner, known, prefix)
        if step["type"] == "call":
            program, around = known[step["program"]]
            yield from _all_steps(program["steps"], _listed(program, around), f"{prefix}{shown(step['id'])}/")


def _key(prefix: str, id: str) -> str:
    """Return the id that a step has in records; `prefix` is plain text, and `id` as the document has it."""
    whole = prefix + shown(id)
    return f"#{whole}" if whole.startswith("#") else whole


def _part(step: Mapping[str, Any], prefix: str, within: str, calls: tuple[str, ...]) -> Part:
    after = tuple(_key(prefix, one) for one in step.get("depends_on", ()))
    return Part(prefix + shown(step["id"]), step["type"], shown(step.get("tool", "")), within, calls, after)
