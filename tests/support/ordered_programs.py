"""Small programs with parallel steps whose sub-steps depend on each other."""

from __future__ import annotations

from random import Random
from typing import Any

from small_programs import small_program
from small_tools import TOOLS
from stepward.sabotage.drawn.orders import with_order

MOST_TRIES = 200


def ordered_program(seed: int) -> dict[str, Any]:
    """Return the small program of a seed, with an order between the sub-steps of at least one parallel step."""
    for number in range(MOST_TRIES):
        data = small_program(1_000_000 + seed * MOST_TRIES + number)
        found = with_order(data, Random(f"{seed}/{number}/order"), 0.9, reads=False)
        if found is not data:
            return _read(found, Random(f"{seed}/reads"))
    raise AssertionError("no program has a parallel step")


def _read(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Let some sub-steps pass on the output of one that they depend on, where it has the type of the argument."""
    for step in data["steps"]:
        parts = {part["id"]: part for part in step.get("parallel_steps", ())}
        for part in parts.values():
            spec = TOOLS.get(part.get("tool", ""), {}).get("args", {}).get("x")
            for name in part.get("depends_on", ()):
                given = TOOLS.get(parts[name].get("tool", ""), {}).get("returns")
                if spec is not None and given == spec and chance.random() < 0.5:
                    part["args"] = {"x": f"${name}.output"}
    return data
