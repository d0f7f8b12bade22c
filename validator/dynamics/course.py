"""A run as the analysis sees it: where it went, what it called, what that took."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

AGAIN: Final = "again"
SETTLED: Final = "settled"
"""The actions of an attempt: the call is tried again, or it is not."""


class Move(NamedTuple):
    """One transition: in the state `state` the run took the action `action`."""

    state: str
    action: str


class Call(NamedTuple):
    """One call of a tool: equal texts in `arguments` stand for equal arguments."""

    tool: str
    arguments: str


class Work(NamedTuple):
    """What the attempts of one step took together: tokens, cost in the currency of the adapter, microseconds."""

    attempts: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    took: int = 0

    def plus(self, other: Work) -> Work:
        """Return both together."""
        return Work(
            self.attempts + other.attempts, self.tokens + other.tokens, self.cost + other.cost, self.took + other.took
        )


class Course(NamedTuple):
    """One run that has ended.

    `version` is the digest of its program, empty where nobody knows it. `started` is in microseconds since the epoch.
    `moves` are its transitions in order; `attempts` has one move for each attempt of a call, whose state is the step.
    `violations` counts what guardrails, policies and declared outputs rejected. `work` is by step.
    """

    run: str
    program: str
    family: str
    version: str
    started: int
    status: str
    moves: tuple[Move, ...]
    attempts: tuple[Move, ...] = ()
    calls: tuple[Call, ...] = ()
    violations: int = 0
    work: Mapping[str, Work] = MappingProxyType({})
