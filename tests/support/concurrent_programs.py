"""Small programs with items that run at once: a for_each step, its body, and a few steps around it."""

from __future__ import annotations

from random import Random
from typing import Any

from branched_programs import INPUTS, BranchedMaker


def concurrent_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed."""
    return _Maker(Random(f"{seed}/items")).program()


class _Maker(BranchedMaker):
    most = 1
    """The most items of the list."""
    stops: Random

    def asked(self, before: list[dict[str, Any]], readable: list[str]) -> str:
        """Return a condition; one in the body may ask for the item."""
        return "$i" if "i" in readable and self.odds(0.3) else super().asked(before, [])

    def fork(self, below: list[str]) -> dict[str, Any]:
        before = len(self.conditions)
        body = self.steps(3, is_body=True, readable=["i"])
        step: dict[str, Any] = {"id": "both", "type": "for_each", "items": "$l", "as": "i", "steps": body}
        step |= {"max_items": self.most, "max_concurrency": self.chance.choice([2, 3]), "on_item_error": "skip"}
        if self.stops.random() < 0.5:
            step |= self.failing([one for one in below if one])
        if self.odds(0.2):
            kept, self.conditions = self.conditions, self.conditions[before:]
            step["guardrails"] = [{**self.rule(0), "name": "own"}]
            self.conditions = kept
        within = self.followed_within()
        return step | ({"guardrails": [*step.get("guardrails", ()), *within]} if within else {})

    def failing(self, below: list[str]) -> dict[str, Any]:
        """Return the fields of a step that stops after a failed item."""
        found: dict[str, Any] = {"on_item_error": "fail"}
        roll = self.stops.random()
        if roll < 0.2:
            return found | {"on_error": "skip"}
        if roll < 0.4:
            found |= {"on_error": "retry", "max_retries": 2}
        return found | ({"error_step": self.stops.choice(below)} if below and self.stops.random() < 0.7 else {})

    def program(self) -> dict[str, Any]:
        self.most = self.chance.choice([1, 2, 2, 2, 3])
        self.stops = Random(f"{self.chance.getstate()[1][1]} stops")  # other programs of a seed stay what they are
        found = super().program()
        items = {"type": "array", "maxItems": self.most, "items": {"type": "boolean"}}
        return found | {"inputs": {**INPUTS, "l": items}}
