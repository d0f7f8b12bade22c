"""Small programs whose rule asks that Q follows P at once, in branches or in items that run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any


def hasty_program(seed: int, drawn: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Return a drawn program with only its rules of what follows, which count any ending.

    In most of them Q often is the next step after P, and the first one of a body.
    """
    data, chance = deepcopy(drawn(seed)), Random(f"{seed}/hasty")
    data["guardrails"] = [{**rule, "ends": "any"} for rule in data["guardrails"] if "followed_by" in rule]
    if chance.random() < 0.6:
        first, then = chance.sample(sorted(data["tools"]), 2)
        data["guardrails"][0]["followed_by"] = {"first": {"tool": first}, "then": {"tool": then}}
        for steps in _bodies(data):
            for step, following in pairwise(steps):
                if step.get("tool") == first and following["type"] == "tool" and chance.random() < 0.8:
                    following["tool"] = then
            if steps[0]["type"] == "tool" and chance.random() < 0.4:
                steps[0]["tool"] = then
    return data


def _bodies(data: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    for step in data["steps"]:
        yield from (one["steps"] for one in step.get("branches", {}).values())
        if step["type"] == "for_each":
            yield step["steps"]
