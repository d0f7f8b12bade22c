"""Simulated fleets of one agent: healthy ones, and four that change at a known run. All draws come from a seed.

The agent plans, searches and reads, edits and tests until the tests pass, and hands its change over. A healthy fleet
has easy and hard tasks, and bursts of hard tasks; runs of one sort differ more than chance has it. Every fleet is
healthy up to its change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from stepward.validator.dynamics.course import AGAIN, SETTLED, Call, Course, Move, Work

Shares = Mapping[str, Mapping[str, float]]

EASY: Final[Shares] = {
    "plan": {"search": 0.75, "edit": 0.25},
    "search": {"read": 0.80, "search": 0.12, "edit": 0.08},
    "read": {"edit": 0.62, "search": 0.28, "read": 0.10},
    "edit": {"test": 0.85, "edit": 0.10, "search": 0.05},
    "test": {"review": 0.68, "edit": 0.26, "read": 0.06},
    "review": {"done": 0.90, "edit": 0.10},
}
HARD: Final[Shares] = {
    "plan": {"search": 0.95, "edit": 0.05},
    "search": {"read": 0.62, "search": 0.34, "edit": 0.04},
    "read": {"edit": 0.30, "search": 0.46, "read": 0.24},
    "edit": {"test": 0.74, "edit": 0.16, "search": 0.10},
    "test": {"review": 0.24, "edit": 0.52, "read": 0.24},
    "review": {"done": 0.70, "edit": 0.30},
}
CONCENTRATION: Final = 40.0
"""How much the shares of single runs differ: each run draws its own from a Dirichlet around those above."""

HARD_SHARE: Final = 0.12
BURST_EVERY: Final = 80
BURST_SHARE: Final = 0.85
"""How many tasks are hard outside of a burst and inside; a burst of 6 to 15 runs begins about every so many runs."""

AGAIN_SHARE: Final = 0.03
REPEAT_SHARE: Final = 0.05
LONGEST: Final = 200
"""Steps after which a run gives up."""


class Change(NamedTuple):
    """How a run differs from a healthy one: shares that take the place of others, and shares of retries and repeats."""

    shares: Shares = MappingProxyType({})
    again: float = AGAIN_SHARE
    repeat: float = REPEAT_SHARE
    amount: float = 1.0
    """How much of the way from the healthy shares to those of the change, from 0 to 1."""


HEALTHY: Final = Change()

DRIFTED: Final[Shares] = {
    "test": {"review": 0.42, "edit": 0.40, "read": 0.18},
    "read": {"edit": 0.42, "search": 0.44, "read": 0.14},
}
OSCILLATING: Final[Shares] = {
    "edit": {"test": 0.66, "edit": 0.10, "search": 0.24},
    "search": {"read": 0.62, "search": 0.12, "edit": 0.26},
}
OTHER_MODEL: Final[Shares] = {
    "plan": {"search": 0.50, "edit": 0.50},
    "search": {"read": 0.64, "search": 0.14, "edit": 0.22},
    "edit": {"test": 0.70, "edit": 0.24, "search": 0.06},
    "review": {"done": 0.80, "edit": 0.20},
}


def spikes(_: int, __: random.Random) -> Change:
    """Nothing changes: only bursts of hard tasks."""
    return HEALTHY


def slow_drift(since: int, _: random.Random) -> Change:
    """Over 400 runs, tests fail more often, and more is searched again."""
    return Change(DRIFTED, amount=min(1.0, since / 400))


def retry_storm(_: int, rng: random.Random) -> Change:
    """In half of the runs, calls are tried again and again."""
    return Change(again=0.45) if rng.random() < 0.5 else HEALTHY


def oscillation(_: int, rng: random.Random) -> Change:
    """In a part of the runs, the agent goes back and forth between two edits, and asks the same again."""
    return Change(OSCILLATING, repeat=0.16) if rng.random() < 0.6 else HEALTHY


def other_model(_: int, __: random.Random) -> Change:
    """A model that plans less and edits more."""
    return Change(OTHER_MODEL)


FLEETS: Final[dict[str, Callable[[int, random.Random], Change]]] = {
    "healthy, with spikes of hard tasks": spikes,
    "slow drift": slow_drift,
    "retry storms": retry_storm,
    "tool oscillation": oscillation,
    "changed model": other_model,
}


def fleet(name: str, seed: int, runs: int, changes_at: int) -> Iterator[Course]:
    """Yield the runs of a fleet, which is healthy up to run `changes_at`, from 0."""
    rng = random.Random(f"{name} {seed}")
    left = 0
    for number in range(runs):
        if left == 0 and rng.random() < 1 / BURST_EVERY:
            left = rng.randint(6, 15)
        hard = rng.random() < (BURST_SHARE if left else HARD_SHARE)
        left = max(left - 1, 0)
        change = FLEETS[name](number - changes_at, rng) if number >= changes_at else HEALTHY
        yield _run(f"run-{number:05}", number, hard, change, rng)


def _run(id: str, number: int, hard: bool, change: Change, rng: random.Random) -> Course:
    base = HARD if hard else EASY
    own = {state: _drawn(_between(base[state], change.shares.get(state), change.amount), rng) for state in base}
    state, moves, attempts, calls = "plan", [], [], []
    work: dict[str, Work] = {}
    while state != "done" and len(moves) < LONGEST:
        tried = 1
        while rng.random() < change.again and tried < 10:
            attempts.append(Move(state, AGAIN))
            tried += 1
        attempts.append(Move(state, SETTLED))
        calls.append(_call(state, calls, change.repeat, rng))
        spent = Work(tried, tried * rng.randint(50, 400), Decimal(tried), tried * 1_000)
        work[state] = work.get(state, Work()).plus(spent)
        action = rng.choices(list(own[state]), list(own[state].values()))[0]
        moves.append(Move(state, action))
        state = action
    moves.append(Move(state, "SUCCESS (declared)" if state == "done" else "BUDGET_EXCEEDED (max_steps)"))
    return Course(
        id, "agent", "", "", number * 60_000_000, "SUCCESS", tuple(moves), tuple(attempts), tuple(calls), 0, work
    )


def _call(tool: str, calls: list[Call], repeat: float, rng: random.Random) -> Call:
    before = [call for call in calls if call.tool == tool]
    if before and rng.random() < repeat * len(set(before)):
        return rng.choice(before)
    return Call(tool, f"{len(before)}")


def _between(healthy: Mapping[str, float], changed: Mapping[str, float] | None, amount: float) -> Mapping[str, float]:
    if changed is None:
        return healthy
    return {name: (1 - amount) * share + amount * changed[name] for name, share in healthy.items()}


def _drawn(shares: Mapping[str, float], rng: random.Random) -> dict[str, float]:
    drawn = {name: rng.gammavariate(CONCENTRATION * share, 1.0) for name, share in shares.items()}
    total = sum(drawn.values())
    return {name: value / total for name, value in drawn.items()}
