"""Families of hostile programs: the register, and parts that many of them have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Data = dict[str, Any]

NAMED: Final[dict[str, Hostile]] = {}


@dataclass(frozen=True)
class Hostile:
    """A family of programs."""

    name: str
    blows_up: str
    make: Callable[[int], Data]
    size: int
    small: int

    def program(self, n: int | None = None) -> Data:
        """Return the program of size n, or the one that is measured."""
        return self.make(self.size if n is None else n)


def family(blows_up: str, size: int, small: int) -> Callable[[Callable[[int], Data]], Callable[[int], Data]]:
    def add(make: Callable[[int], Data]) -> Callable[[int], Data]:
        name = make.__name__.removesuffix("_").replace("_", " ")
        NAMED[name] = Hostile(name, blows_up, make, size, small)
        return make

    return add


def end(name: str = "d") -> Data:
    return {"id": name, "type": "end"}


def is_true(name: str, condition: str, then: str, otherwise: str) -> Data:
    return {"id": name, "type": "condition", "condition": condition, "then": then, "otherwise": otherwise}


def asked(condition: str, **inputs: Data) -> Data:
    """Return a program with one condition."""
    return {"inputs": inputs, "steps": [is_true("c", condition, "d", "e"), end("d"), end("e")]}


def cases_of(whens: list[str], inputs: Data, **more: Any) -> Data:
    cases = [{"when": when, "then": "d"} for when in whens]
    step = {"id": "c", "type": "condition", "cases": cases, "otherwise": "d", **more}
    return {"inputs": inputs, "steps": [{key: value for key, value in step.items() if value is not None}, end()]}


def paid(steps: list[Data], rules: list[Data], **more: Any) -> Data:
    """Return a program with rules over a tool that pays."""
    tools = {"pay": {"effect": "write", "idempotent": True}, "look": {"effect": "read"}}
    return {"tools": {**tools, **more.pop("tools", {})}, "guardrails": rules, "steps": steps, **more}


NEVER: Final = {"name": "g", "never": {"tool": "pay"}}
APPROVED: Final = {"name": "g", "protects": {"tool": "pay"}, "requires": {"step": "approved", "branch": "then"}}


def approved(steps: list[Data], inputs: Data) -> Data:
    """Return a program that pays behind an approval, once it has come through the given steps to `approved`."""
    tail = [
        is_true("approved", "$yes", "pay", "stop"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"},
        end("stop"),
    ]
    return paid([*steps, *tail], [APPROVED], inputs={"yes": {"type": "boolean"}, **inputs})
