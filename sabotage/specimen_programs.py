"""Specimens: small programs that a campaign plays beside the user's, so that every attack has something to attack.

The user's program may have no wait, no time-out, no loop or no secret. Together the specimens have all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from stepward.sabotage.target import Target
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

_MONEY: Final = {"type": "integer", "minimum": 1, "maximum": 900}
_SECRET: Final = {"type": "string", "sensitive": True, "maxLength": 60}

APPROVAL: Final[Mapping[str, Any]] = {
    "name": "specimen_approval",
    "inputs": {"amount": _MONEY, "card": _SECRET},
    "tools": {
        "ask": {"effect": "none", "args": {"of": _MONEY}, "returns": {"enum": ["yes", "no"]}, "suspends": True},
        "sign": {"effect": "none", "args": {"card": {"type": "string"}}, "suspends": True},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "integer"}}},
        "book": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "integer"}}},
    },
    "guardrails": [
        {"name": "asked", "protects": {"tool": "pay"}, "requires": {"step": "agreed", "branch": "then"}},
        {"name": "booked", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "book"}}},
        {"name": "once", "at_most_once": {"tool": "pay"}},
    ],
    "max_steps": 12,
    "steps": [
        {"id": "sign", "type": "tool", "tool": "sign", "args": {"card": "$card"}, "on_error": "skip"},
        {"id": "ask", "type": "tool", "tool": "ask", "args": {"of": "$amount"}, "output_key": "answer"},
        {"id": "agreed", "type": "condition", "condition": '$answer == "yes"', "then": "pay", "otherwise": "refused"},
        {
            "id": "pay",
            "type": "tool",
            "tool": "pay",
            "args": {"sum": "$amount"},
            "timeout_seconds": 30,
            "next_step": "book",
        },
        {
            "id": "book",
            "type": "tool",
            "tool": "book",
            "args": {"sum": "$amount"},
            "timeout_seconds": 30,
            "on_error": "retry",
            "max_retries": 2,
            "is_terminal": True,
        },
        {"id": "refused", "type": "end", "outcome": "failure"},
    ],
}
"""Two waits, a write that is not idempotent and one that is, both with time-outs."""

LOOP: Final[Mapping[str, Any]] = {
    "name": "specimen_loop",
    "inputs": {"topic": {"type": "string", "maxLength": 40}},
    "tools": {
        "look": {"effect": "read", "args": {"at": {"type": "string"}}, "returns": {"type": "integer", "minimum": 0}},
        "send": {"effect": "write", "idempotent": True, "args": {"of": {"type": "integer"}}},
    },
    "guardrails": [
        {"name": "looked", "protects": {"tool": "send"}, "requires": {"step": "enough", "branch": "then"}},
        {"name": "once", "at_most_once": {"tool": "send"}},
    ],
    "max_steps": 30,
    "max_tokens": 200,
    "max_stalled_steps": 12,
    "steps": [
        {
            "id": "look",
            "type": "tool",
            "tool": "look",
            "args": {"at": "$topic"},
            "output_key": "found",
            "timeout_seconds": 10,
            "on_error": "retry",
            "max_retries": 1,
            "max_visits": 4,
            "next_step": "judge",
        },
        {
            "id": "judge",
            "type": "llm",
            "prompt": "Is $found enough for $topic?",
            "allowed_outputs": ["more", "done"],
            "output_key": "said",
            "max_visits": 4,
        },
        {"id": "enough", "type": "condition", "condition": '$said == "done"', "then": "send", "otherwise": "look"},
        {"id": "send", "type": "tool", "tool": "send", "args": {"of": "$found"}, "is_terminal": True},
    ],
}
"""A loop with bounded visits, budgets of steps, tokens and steps without progress, and a model with closed replies."""

FORBIDDEN: Final[Mapping[str, Any]] = {
    "name": "specimen_forbidden",
    "inputs": {"sum": _MONEY, "who": {"type": "object", "properties": {"limit": {"type": "integer"}}}},
    "tools": {
        "check": {"effect": "read", "args": {}, "returns": {"enum": ["good", "bad"]}},
        "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "integer"}}},
        "give_back": {"effect": "write", "idempotent": True, "args": {}},
    },
    "guardrails": [
        {"name": "within-limit", "never": {"step": "pay"}, "when": "$sum > $who.limit"},
        {"name": "checked", "protects": {"tool": "pay"}, "requires": {"step": "good", "branch": "then"}},
        {"name": "one-of-both", "exclusive": [{"tool": "pay"}, {"tool": "give_back"}]},
    ],
    "max_steps": 12,
    "steps": [
        {"id": "check", "type": "tool", "tool": "check", "output_key": "state"},
        {"id": "good", "type": "condition", "condition": '$state == "good"', "then": "again", "otherwise": "back"},
        {"id": "again", "type": "condition", "condition": "$sum > 450", "then": "recheck", "otherwise": "pay"},
        {
            "id": "recheck",
            "type": "tool",
            "tool": "check",
            "output_key": "state",
            "on_error": "skip",
            "next_step": "pay",
        },
        {
            "id": "pay",
            "type": "tool",
            "tool": "pay",
            "args": {"sum": "$sum"},
            "error_step": "back",
            "is_terminal": True,
        },
        {"id": "back", "type": "tool", "tool": "give_back", "is_terminal": True},
    ],
}
"""Rules that stop a run: one that may not be evaluated, one whose memory goes stale, and one about two tools."""

WAVES: Final[Mapping[str, Any]] = {
    "name": "specimen_waves",
    "inputs": {"name": {"type": "string", "maxLength": 40}, "note": _SECRET},
    "tools": {
        "read": {"effect": "read", "args": {"of": {"type": "string"}}, "returns": {"type": "array"}},
        "tell": {"effect": "write", "idempotent": False, "args": {"to": {"type": "string"}}},
        "keep": {"effect": "write", "idempotent": True, "args": {"note": {"type": "string"}}},
    },
    "max_steps": 14,
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "max_concurrency": 2,
            "output_key": "outputs",
            "parallel_steps": [
                {"id": "reads", "type": "tool", "tool": "read", "args": {"of": "$name"}, "on_error": "skip"},
                {"id": "asks", "type": "llm", "prompt": "Who is $name?", "on_error": "retry", "max_retries": 1},
                {"id": "keeps", "type": "tool", "tool": "keep", "args": {"note": "$note"}, "timeout_seconds": 20},
            ],
        },
        {"id": "tell", "type": "tool", "tool": "tell", "args": {"to": "$name"}, "timeout_seconds": 20},
    ],
}
"""Reads, a model and a write side by side, and a write that is not idempotent behind them."""

DESK: Final[Mapping[str, Any]] = {
    "policy": "specimen-desk",
    "allow": [
        {"tool": "ask"},
        {"tool": "sign"},
        {"tool": "pay", "when": "$args.sum < 500"},
        {"tool": "book"},
    ],
}

SPECIMENS: Final[Mapping[str, tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]]] = {
    "approval": (APPROVAL, (DESK,)),
    "loop": (LOOP, ()),
    "forbidden": (FORBIDDEN, ()),
    "waves": (WAVES, ()),
}
"""The specimens by name, each with the policies that it is under."""


@cache
def specimen_target(name: str) -> Target:
    """Return a specimen as what is attacked."""
    program, policies = SPECIMENS[name]
    return Target(Program.from_dict(dict(program)), [Policy.from_dict(dict(policy)) for policy in policies])
