"""Specimens with bodies: items of a list, one after another or at once, and branches that run at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_MONEY: Final = {"type": "integer", "minimum": 1, "maximum": 900}

ITEMS: Final[Mapping[str, Any]] = {
    "name": "specimen_items",
    "language": 2,
    "inputs": {
        "lines": {"type": "array", "minItems": 2, "maxItems": 3, "items": _MONEY},
        "parcels": {"type": "array", "maxItems": 2, "items": {"enum": ["north", "south"]}},
    },
    "tools": {
        "ask": {"effect": "none", "args": {"of": _MONEY}, "returns": {"enum": ["yes", "no"]}, "suspends": True},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "integer"}}},
        "book": {
            "effect": "write",
            "idempotent": True,
            "args": {"sum": {"type": "integer"}, "of": {"type": "string"}},
            "returns": {"type": "string", "maxLength": 20},
        },
    },
    "guardrails": [
        {"name": "agreed-first", "protects": {"tool": "pay"}, "requires": {"step": "agreed", "branch": "then"}},
        {"name": "not-too-much", "never": {"tool": "pay"}, "when": "$sum + $args.sum > 1200"},
    ],
    "max_steps": 80,
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "index_as": "number",
            "carry": {"sum": 0},
            "on_item_error": "skip",
            "guardrails": [{"name": "once-each", "at_most_once": {"tool": "pay"}}],
            "error_step": "failed",
            "steps": [
                {"id": "ask", "type": "tool", "tool": "ask", "args": {"of": "$line"}, "on_error": "retry"},
                {
                    "id": "agreed",
                    "type": "condition",
                    "condition": '$ask.output == "yes" and $sum + $line <= 1200',
                    "then": "pay",
                    "otherwise": "no",
                },
                {
                    "id": "pay",
                    "type": "tool",
                    "tool": "pay",
                    "args": {"sum": "$line"},
                    "timeout_seconds": 30,
                    "next_step": "add",
                },
                {"id": "add", "type": "set", "set": {"sum": "$sum + $line"}, "next_step": "parts"},
                {
                    "id": "parts",
                    "type": "for_each",
                    "items": "$parcels",
                    "as": "parcel",
                    "on_error": "retry",
                    "max_retries": 2,
                    "do": {
                        "id": "book",
                        "type": "tool",
                        "tool": "book",
                        "args": {"sum": "$number", "of": "$parcel"},
                        "timeout_seconds": 20,
                    },
                    "next_step": "paid",
                },
                {"id": "paid", "type": "end", "output": {"sum": "$sum", "booked": "$parts.output"}},
                {"id": "no", "type": "end", "outcome": "failure"},
            ],
        },
        {"id": "done", "type": "end", "output": {"sum": "$sum", "each": "$each.output"}},
        {"id": "failed", "type": "end", "outcome": "failure"},
    ],
}
"""A body within a body: a wait and two writes for each item, a carried sum, rounds, and items that fail."""

BRANCHES: Final[Mapping[str, Any]] = {
    "name": "specimen_branches",
    "language": 2,
    "inputs": {"sum": _MONEY, "parcels": {"type": "array", "maxItems": 2, "items": {"enum": ["north", "south"]}}},
    "tools": {
        "look": {"effect": "read", "args": {"of": {"type": "string"}}, "returns": {"type": "string", "maxLength": 20}},
        "ask": {"effect": "none", "args": {"of": _MONEY}, "returns": {"enum": ["yes", "no"]}, "suspends": True},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "integer"}}},
        "book": {"effect": "write", "idempotent": True, "args": {"of": {"type": "string"}}},
    },
    "guardrails": [
        {
            "name": "agreed-first",
            "protects": {"tool": "pay"},
            "requires": {"step": "agreed", "branch": "then"},
            "fresh": False,
        },
        {"name": "paid-once", "at_most_once": {"tool": "pay"}},
    ],
    "max_steps": 60,
    "steps": [
        {
            "id": "all",
            "type": "parallel",
            "error_step": "failed",
            "branches": {
                "asked": {
                    "steps": [
                        {"id": "ask", "type": "tool", "tool": "ask", "args": {"of": "$sum"}},
                        {
                            "id": "agreed",
                            "type": "condition",
                            "condition": '$ask.output == "yes"',
                            "then": "yes",
                            "otherwise": "no",
                        },
                        {"id": "yes", "type": "end", "output": "$sum"},
                        {"id": "no", "type": "end", "outcome": "failure"},
                    ]
                },
                "paid": {
                    "depends_on": ["asked"],
                    "steps": [
                        {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$asked.output"}},
                        {"id": "done_paying", "type": "end", "output": "$asked.output"},
                    ],
                },
                "sent": {
                    "guardrails": [{"name": "booked-once", "at_most_once": {"step": "book"}}],
                    "steps": [
                        {"id": "value", "type": "set", "set": {"count": 0}},
                        {
                            "id": "parts",
                            "type": "for_each",
                            "items": "$parcels",
                            "as": "parcel",
                            "carry": {"count": "$count"},
                            "steps": [
                                {"id": "look", "type": "tool", "tool": "look", "args": {"of": "$parcel"}},
                                {"id": "add", "type": "set", "set": {"count": "$count + 1"}},
                                {"id": "seen", "type": "end", "output": "$look.output"},
                            ],
                        },
                        {
                            "id": "book",
                            "type": "tool",
                            "tool": "book",
                            "args": {"of": "parcels"},
                            "timeout_seconds": 20,
                            "on_error": "retry",
                        },
                        {"id": "done_sending", "type": "end", "output": {"count": "$count", "at": "$parts.output"}},
                    ],
                },
                "told": {
                    "steps": [
                        {"id": "value_too", "type": "set", "set": {"count": "$sum"}},
                        {
                            "id": "both",
                            "type": "parallel",
                            "on_error": "skip",
                            "branches": {
                                "told_them": {
                                    "steps": [{"id": "tell", "type": "tool", "tool": "ask", "args": {"of": "$count"}}]
                                },
                                "told_us": {
                                    "steps": [
                                        {"id": "word", "type": "llm", "prompt": "One word?", "on_error": "skip"},
                                        {"id": "note", "type": "tool", "tool": "book", "args": {"of": "us"}},
                                        {"id": "done_telling", "type": "end", "output": "$count"},
                                    ]
                                },
                            },
                        },
                    ]
                },
            },
        },
        {"id": "done", "type": "end", "output": {"all": "$all.output", "sent": "$sent.output"}},
        {"id": "failed", "type": "end", "outcome": "failure"},
    ],
}
"""Branches that wait, write, ask a model and read a sibling's output, one with items, and one with branches in it."""

AT_ONCE: Final[Mapping[str, Any]] = {
    "name": "specimen_items_at_once",
    "language": 2,
    "inputs": {"lines": {"type": "array", "minItems": 2, "maxItems": 3, "items": _MONEY}},
    "tools": {
        "ask": {"effect": "none", "args": {"of": _MONEY}, "returns": {"enum": ["yes", "no"]}, "suspends": True},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "integer"}}},
        "book": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "integer"}, "of": _MONEY}},
    },
    "guardrails": [
        {
            "name": "agreed-first",
            "protects": {"tool": "pay"},
            "requires": {"step": "agreed", "branch": "then"},
            "fresh": False,
        },
        {"name": "not-both", "exclusive": [{"step": "done"}, {"step": "failed"}]},
    ],
    "max_steps": 90,
    "steps": [
        {
            "id": "paid",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "index_as": "number",
            "max_concurrency": 2,
            "on_item_error": "skip",
            "guardrails": [{"name": "once-each", "at_most_once": {"tool": "pay"}}],
            "error_step": "failed",
            "steps": [
                {"id": "ask", "type": "tool", "tool": "ask", "args": {"of": "$line"}, "on_error": "retry"},
                {
                    "id": "agreed",
                    "type": "condition",
                    "condition": '$ask.output == "yes"',
                    "then": "pay",
                    "otherwise": "no",
                },
                {
                    "id": "pay",
                    "type": "tool",
                    "tool": "pay",
                    "args": {"sum": "$line"},
                    "timeout_seconds": 30,
                    "next_step": "receipt",
                },
                {"id": "receipt", "type": "end", "output": {"number": "$number", "sum": "$line"}},
                {"id": "no", "type": "end", "outcome": "failure"},
            ],
        },
        {
            "id": "booked",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "index_as": "number",
            "max_concurrency": 2,
            "on_error": "retry",
            "max_retries": 2,
            "error_step": "failed",
            "steps": [
                {"id": "word", "type": "llm", "prompt": "One word for $line?", "on_error": "skip"},
                {
                    "id": "book",
                    "type": "tool",
                    "tool": "book",
                    "args": {"sum": "$number", "of": "$line"},
                    "timeout_seconds": 20,
                },
                {"id": "kept", "type": "end", "output": {"number": "$number", "of": "$line"}},
            ],
        },
        {"id": "done", "type": "end", "output": {"paid": "$paid.output", "booked": "$booked.output"}},
        {"id": "failed", "type": "end", "outcome": "failure"},
    ],
}
"""Items at once: those that wait, pay and are skipped where they fail, and those that are all tried again then."""
