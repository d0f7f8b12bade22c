"""Specimens that wait: `wait` steps, and deadlines of calls that suspend the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_MONEY: Final = {"type": "integer", "minimum": 1, "maximum": 900}

DUNNING: Final[Mapping[str, Any]] = {
    "name": "specimen_dunning",
    "language": 2,
    "timeout_seconds": 300_000_000,
    "inputs": {"amount": _MONEY},
    "tools": {
        "look": {"effect": "read", "returns": {"type": "boolean"}},
        "remind": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "integer"}}},
    },
    "guardrails": [{"name": "waited", "protects": {"tool": "remind"}, "requires": {"step": "days"}}],
    "steps": [
        {"id": "days", "type": "wait", "seconds": 259_200, "max_visits": 2},
        {"id": "look", "type": "tool", "tool": "look"},
        {"id": "paid", "type": "condition", "condition": "$look.output", "then": "done", "otherwise": "remind"},
        {"id": "remind", "type": "tool", "tool": "remind", "args": {"sum": "$amount"}, "next_step": "until"},
        {"id": "until", "type": "wait", "until": "2031-01-31T09:00:00Z", "next_step": "done"},
        {"id": "done", "type": "end"},
    ],
}
"""Waits for a number of seconds, and until a time; its runs may take some nine years."""

ESCALATION: Final[Mapping[str, Any]] = {
    "name": "specimen_escalation",
    "language": 2,
    "inputs": {"amount": _MONEY},
    "tools": {
        "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
        "post": {"effect": "write", "idempotent": True, "suspends": True, "args": {"sum": {"type": "integer"}}},
    },
    "guardrails": [
        {
            "name": "asked",
            "protects": {"tool": "post"},
            "requires": {"any_of": [{"step": "manager"}, {"step": "director"}]},
        }
    ],
    "steps": [
        {
            "id": "manager",
            "type": "tool",
            "tool": "ask",
            "deadline_seconds": 86_400,
            "output_key": "allowed",
            "catch": [{"errors": ["Deadline"], "then": "director"}, {"errors": ["any"], "then": "no"}],
            "next_step": "decide",
        },
        {
            "id": "director",
            "type": "tool",
            "tool": "ask",
            "deadline_seconds": 172_800,
            "output_key": "allowed",
            "retry": [{"errors": ["Deadline"], "max_attempts": 2, "delay_seconds": 60}],
            "error_step": "no",
            "next_step": "decide",
        },
        {"id": "decide", "type": "condition", "condition": "$allowed", "then": "post", "otherwise": "no"},
        {
            "id": "post",
            "type": "tool",
            "tool": "post",
            "args": {"sum": "$amount"},
            "deadline_seconds": 3_600,
            "max_retries": 2,
            "error_step": "no",
            "next_step": "done",
        },
        {"id": "done", "type": "end"},
        {"id": "no", "type": "end", "outcome": "failure"},
    ],
}
"""Deadlines of calls that suspend the run: one that fails, and one that is tried again."""
