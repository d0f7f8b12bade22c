"""All small programs around a for_each step that is tried again: bodies, lists, attempts, and where a failure leads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from branched_programs import INPUTS, TOOLS

Data = dict[str, Any]

ASK: Final[Data] = {"id": "a", "type": "tool", "tool": "ask"}
PAY: Final[Data] = {"id": "p", "type": "tool", "tool": "pay"}
BAD: Final[Data] = {"id": "bad", "type": "end", "outcome": "failure"}


def _chosen(condition: str) -> Data:
    return {"id": "c", "type": "condition", "condition": condition, "then": "p", "otherwise": "bad"}


BODIES: Final[dict[str, list[Data]]] = {
    "asks": [ASK],
    "pays and asks": [PAY, ASK],
    "asks and pays": [ASK, PAY],
    "pays as told": [ASK, _chosen("$a.output"), {**PAY, "is_terminal": True}, BAD],
    "pays by item": [_chosen("$i"), {**PAY, "is_terminal": True}, BAD],
    "never fails": [{**PAY, "on_error": "skip"}],
    "always fails": [{**PAY, "on_error": "skip"}, BAD],
    "pays twice": [{**PAY, "max_visits": 2, "next_step": "p", "error_step": "a"}, ASK],
}
"""The bodies. What fails in them: a call, an `end`, or visits that are used up."""

RULES: Final[list[Data]] = [
    {"name": "once", "at_most_once": {"step": "p"}},
    {"name": "paid or late", "exclusive": [{"step": "p"}, {"step": "late"}]},
    {"name": "paid or done", "exclusive": [{"step": "p"}, {"step": "done"}]},
    {"name": "never late", "never": {"step": "late"}},
    {"name": "never done", "never": {"step": "done"}},
    {"name": "paid before done", "protects": {"step": "done"}, "requires": {"step": "p"}},
    {"name": "paid before late", "protects": {"step": "late"}, "requires": {"step": "p"}},
    {"name": "paid before paid", "protects": {"step": "p"}, "requires": {"step": "p"}},
    {"name": "done after paid", "followed_by": {"first": {"step": "p"}, "then": {"step": "done"}}},
    {"name": "late after paid", "followed_by": {"first": {"step": "p"}, "then": {"step": "late"}}},
    {"name": "asked after paid", "followed_by": {"first": {"step": "p"}, "then": {"step": "a"}}},
    {"name": "good after paid", "followed_by": {"first": {"step": "p"}, "then": {"step": "done"}}, "ends": "success"},
]


def retried_programs() -> Iterator[tuple[str, Data]]:
    """Yield all programs, each with a name."""
    choices = product(BODIES, (1, 2, 3), (1, 2, 4), (1, 2), (True, False))
    for body, attempts, items, at_once, is_caught in choices:
        words = f"{body}, {attempts} attempts of {items} items, {at_once} at once" + (", caught" if is_caught else "")
        yield words, _program(BODIES[body], attempts, items, at_once, is_caught=is_caught)


def often_retried_programs() -> Iterator[tuple[str, Data]]:
    """Yield those with more attempts than a search counts to begin with, each with a name."""
    for body, attempts, items, is_caught in product(BODIES, (5, 9), (1, 2), (True, False)):
        words = f"{body}, {attempts} attempts of {items} items" + (", caught" if is_caught else "")
        yield words, _program(BODIES[body], attempts, items, 1, is_caught=is_caught)


def _program(body: list[Data], attempts: int, items: int, at_once: int, *, is_caught: bool) -> Data:
    each = {"id": "both", "type": "for_each", "items": "$l", "as": "i", "steps": body, "max_items": items}
    each |= {"on_item_error": "fail", "on_error": "retry", "max_retries": attempts, "next_step": "done"}
    each |= {"max_concurrency": at_once} if at_once > 1 else {}
    each |= {"error_step": "late"} if is_caught else {}
    done: Data = {"id": "done", "type": "tool", "tool": "look", "is_terminal": True}
    late: Data = {"id": "late", "type": "tool", "tool": "look", "is_terminal": True}
    inside = {step["id"] for step in (*body, done, *([late] if is_caught else []))}
    rules = [rule for rule in RULES if set(_named(rule)) <= inside]
    most = min(items, 2)  # of 4 the search counts none, and enumerating them takes long
    inputs = {**INPUTS, "l": {"type": "array", "maxItems": most, "items": {"type": "boolean"}}}
    found = {"name": "small", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": rules}
    return {**found, "steps": [each, done, *([late] if is_caught else [])]}


def _named(rule: Data) -> Iterator[str]:
    for value in rule.values():
        parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        for part in parts:
            yield part["step"] if isinstance(part, dict) else part
