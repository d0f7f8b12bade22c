"""What the machines of scenes are given: a table for replies, checkers, and a program with many sensitive values."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.vm import Policy, Program


class ReplyTable:
    """A cache of replies that keeps what it is given."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key."""
        return self.entries.get(key)

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry."""
        self.entries[key] = entry


class Finding(NamedTuple):
    """A finding of a checker."""

    code: str
    message: str
    severity: str


def finds_nothing(program: Program, policies: Sequence[Policy]) -> tuple[()]:
    """Find nothing in any program."""
    del program, policies
    return ()


def finds_errors(program: Program, policies: Sequence[Policy]) -> Sequence[Finding]:
    """Find an error in each program whose name is long, and a warning in all of them."""
    warning = Finding("SW999", f"there are {len(policies)} policies", "warning")
    return [warning, *([Finding("SW998", "its name is long", "error")] * (len(program.name or "") // 4))]


def many_values(chance: Random, seed: str) -> DrawnCase:
    """Return a program with many sensitive inputs, of which a tool repeats some, alone or within other texts."""
    count = chance.choice((2, 15, 16, 17, 31, 32, 33, 64, 65, 100))
    values = {f"v{number}": f"{chance.getrandbits(40):012d}" for number in range(count)}
    spec = {"type": "string", "sensitive": True}
    some = chance.sample(sorted(values), min(4, count))
    tools: dict[str, Any] = {"say": {"effect": "read", "args": {"text": {"type": "string"}}}}
    steps: list[dict[str, Any]] = [
        {"id": f"s{number}", "type": "tool", "tool": "say", "args": {"text": f"${name}"}, "on_error": "skip"}
        for number, name in enumerate(some)
    ]
    steps += [{"id": "think", "type": "llm", "prompt": "about $s0.output"}, {"id": "end", "type": "end"}]
    inputs = dict.fromkeys(values, spec)
    program = Program.from_dict({"name": "values", "language": 2, "inputs": inputs, "tools": tools, "steps": steps})
    return DrawnCase(program, seed, inputs=values, secrets=tuple(values[name] for name in some))
