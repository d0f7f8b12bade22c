"""Orders between the sub-steps of drawn programs, and the turns in which their calls return."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

QUIET: Final = 40
"""The turns of the event loop without a new call after which a process has started all that it can."""


def with_order(data: dict[str, Any], chance: Random, share: float, *, reads: bool = True) -> dict[str, Any]:
    """Return a program in which `share` of the parallel steps have sub-steps with `depends_on`.

    With `reads`, some of these read what they depend on. The program says `language: 2` if there is one. The program
    that was given is not changed.
    """

    def changed(step: dict[str, Any]) -> dict[str, Any]:
        if "steps" in step:
            return {**step, "steps": list(map(changed, step["steps"]))}
        is_chosen = _may_have_order(step) and chance.random() < share
        return _ordered(step, chance, reads=reads) if is_chosen else step

    steps = list(map(changed, data["steps"]))
    return data if steps == data["steps"] else {**data, "steps": steps, "language": 2}


def _may_have_order(step: dict[str, Any]) -> bool:
    return step["type"] == "parallel" and len(step.get("parallel_steps", ())) > 1


def _ordered(step: dict[str, Any], chance: Random, *, reads: bool) -> dict[str, Any]:
    """Return a parallel step with an order: each sub-step may depend on those before it in a shuffled line."""
    parts = [dict(part) for part in step["parallel_steps"]]
    line = chance.sample(range(len(parts)), len(parts))
    for place in range(1, len(line)):
        earlier = [parts[one] for one in line[:place] if chance.random() < 0.6]
        if not earlier and place == len(line) - 1:
            earlier = [parts[line[0]]]
        if earlier:
            part = parts[line[place]]
            part["depends_on"] = [one["id"] for one in earlier]
            if reads and chance.random() < 0.5:
                _read(part, chance.choice(earlier), chance)
    return {**step, "parallel_steps": parts}


def _read(part: dict[str, Any], earlier: dict[str, Any], chance: Random) -> None:
    """Let a sub-step read the output of one that it depends on."""
    name = earlier.get("output_key") if chance.random() < 0.5 else None
    text = f"${name or earlier['id'] + '.output'}"
    if part["type"] == "llm":
        part["prompt"] = f"{part['prompt']} {text}"
    elif part.get("args"):
        field = chance.choice(sorted(part["args"]))
        part["args"] = {**part["args"], field: text}


class Turns:
    """Lets the calls of a step with `depends_on` return one at a time, in a drawn order.

    The next one returns when all have started that may.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[Any, ...], float] = {}

    async def come(self, place: tuple[Any, ...], rank: float) -> None:
        """Return when it is the turn of an attempt: no other one has come for a while, and it has the lowest rank."""
        self._waiting[place] = rank
        quiet, seen = 0, frozenset(self._waiting)
        try:
            while quiet < QUIET or min(self._waiting, key=lambda one: self._waiting[one]) != place:
                await asyncio.sleep(0)
                now = frozenset(self._waiting)
                quiet, seen = (quiet + 1 if now == seen else 0), now
        finally:
            del self._waiting[place]
