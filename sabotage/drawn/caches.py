"""Drawn programs with a cache of replies that lies: it must change nothing that a run does."""

from __future__ import annotations

from random import Random
from typing import Any

from stepward.vm import CacheFault


def spend(data: dict[str, Any], chance: Random, budgets: float) -> None:
    """Bound the money of some programs, with the share of `budgets`, and let some of their models use a cache."""
    if chance.random() < budgets:
        data["max_cost"] = chance.choice((0.05, 0.05, 0.1, 0.35))
    for step in data["steps"]:
        for call in step.get("parallel_steps", [step]):
            if call["type"] == "llm" and chance.random() < 0.4:
                call["cache"] = True


class LyingCache:
    """Keeps entries, and never gives back that of a key: it gives nothing, another key's, a damaged one, or raises."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return a lie; raises CacheFault, or what a client of a server may raise."""
        others = [entry for other, entry in self._entries.items() if other != key]
        match self._chance.choice(("nothing", "other", "other", "damaged", "fault", "error")):
            case "other":
                return self._chance.choice(others) if others else b""
            case "damaged":
                own = self._entries.get(key, b"{}")
                return own[: self._chance.randrange(len(own))]
            case "fault":
                raise CacheFault("it is locked")
            case "error":
                raise TimeoutError("it does not answer")
        return None

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry, or raise CacheFault."""
        if self._chance.random() < 0.2:
            raise CacheFault("it is full")
        self._entries[key] = entry
