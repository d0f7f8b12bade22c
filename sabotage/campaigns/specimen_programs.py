"""Specimens: small programs that a campaign attacks beside the user's, so that every attack applies somewhere.

The user's program may lack waits, time-outs, loops or secrets. Together the specimens have all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from stepward.sabotage.campaigns.specimen_bodies import AT_ONCE, BRANCHES, ITEMS
from stepward.sabotage.campaigns.specimen_waits import DUNNING, ESCALATION
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
        "check": {"effect": "read", "returns": {"enum": ["good", "bad"]}},
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
"""Rules that stop a run: one that may fail to evaluate, one whose guard goes stale, and one about two tools.

The arguments of one tool are not declared."""

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
"""Parallel reads, model and write, followed by a write that is not idempotent."""

ROUNDS: Final[Mapping[str, Any]] = {
    "name": "specimen_rounds",
    "inputs": {"of": {"type": "string", "maxLength": 40, "default": "all"}, "hurry": {"type": "boolean"}},
    "tools": {
        "know": {"effect": "read", "args": {"of": {"type": "string"}}, "returns": _SECRET},
        "put": {"effect": "write", "idempotent": True, "args": {"of": {"type": "string"}}},
        "charge": {"effect": "write", "idempotent": False, "args": {}, "returns": {"type": ["string", "null"]}},
    },
    "guardrails": [
        {"name": "charged-once", "at_most_once": {"tool": "charge"}},
        {
            "name": "put-before",
            "followed_by": {"first": {"step": "puts"}, "then": {"tool": "charge"}},
            "ends": "success",
        },
    ],
    "max_steps": 24,
    "steps": [
        {
            "id": "round",
            "type": "parallel",
            "on_error": "retry",
            "max_retries": 2,
            "output_key": "outputs",
            "parallel_steps": [
                {"id": "knows", "type": "tool", "tool": "know", "args": {"of": "$of"}},
                {"id": "knows_too", "type": "tool", "tool": "know", "args": {"of": "$of"}, "output_key": "known"},
                {
                    "id": "puts",
                    "type": "tool",
                    "tool": "put",
                    "args": {"of": "$of"},
                    "timeout_seconds": 20,
                    "on_error": "retry",
                    "max_retries": 2,
                },
            ],
        },
        {"id": "at_once", "type": "condition", "condition": "$hurry", "then": "race", "otherwise": "charge"},
        {"id": "charge", "type": "tool", "tool": "charge", "timeout_seconds": 20, "is_terminal": True},
        {
            "id": "race",
            "type": "parallel",
            "parallel_steps": [
                {"id": "charges", "type": "tool", "tool": "charge"},
                {"id": "charges_too", "type": "tool", "tool": "charge"},
            ],
        },
    ],
}
"""Retries of a parallel step, siblings that return secrets, and two siblings of which a rule allows one."""

CLAIM: Final[Mapping[str, Any]] = {
    "name": "specimen_claim",
    "inputs": {
        "person": {
            "type": "object",
            "properties": {
                "bank": {
                    "type": "object",
                    "properties": {"iban": {"type": "string", "maxLength": 60}},
                    "required": ["iban"],
                }
            },
            "required": ["bank"],
            "sensitive": True,
        }
    },
    "tools": {
        "rate": {"effect": "read", "args": {}, "returns": {"type": "integer", "minimum": 0, "maximum": 9}},
        "clear": {
            "effect": "none",
            "args": {"iban": {"type": "string"}},
            "returns": {"type": "boolean"},
            "suspends": True,
        },
    },
    "guardrails": [
        {
            "name": "writes-are-cleared",
            "protects": {"effect": "write"},
            "requires": {"any_of": [{"step": "good", "branch": "then"}, {"step": "cleared", "branch": "then"}]},
        },
        {"name": "good-once", "at_most_once": {"effect": "write"}},
    ],
    "max_steps": 12,
    "steps": [
        {
            "id": "rate",
            "type": "tool",
            "tool": "rate",
            "timeout_seconds": 10,
            "on_timeout": "fallback",
            "fallback": 0,
            "output_key": "rating",
        },
        {"id": "good", "type": "condition", "condition": "$rating >= 5", "then": "again", "otherwise": "clear"},
        {
            "id": "again",
            "type": "tool",
            "tool": "rate",
            "output_key": "rating",
            "on_error": "skip",
            "next_step": "post",
        },
        {
            "id": "clear",
            "type": "tool",
            "tool": "clear",
            "args": {"iban": "$person.bank.iban"},
            "output_key": "is_clear",
            "next_step": "cleared",
        },
        {"id": "cleared", "type": "condition", "condition": "$is_clear", "then": "post", "otherwise": "hold"},
        {
            "id": "post",
            "type": "tool",
            "tool": "post",
            "args": {"iban": "$person.bank.iban"},
            "is_terminal": True,
        },
        {"id": "hold", "type": "tool", "tool": "hold", "args": {"of": "$rating"}, "is_terminal": True},
    ],
}
"""Secrets in nested fields, a fallback value, and undeclared tools, under a rule about all tools that write."""

SUMS: Final[Mapping[str, Any]] = {
    "name": "specimen_sums",
    "inputs": {
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}},
        "least": {"type": "integer", "minimum": 0, "maximum": 30, "default": 10},
    },
    "tools": {
        "draw": {"effect": "read", "args": {}, "returns": {"type": "integer", "minimum": 0, "maximum": 9}},
        "store": {
            "effect": "write",
            "idempotent": True,
            "args": {"of": {"type": "integer"}},
            "returns": {"type": "string"},
        },
    },
    "guardrails": [
        {
            "name": "counted",
            "protects": {"tool": "store"},
            "requires": {"all_of": [{"step": "draw"}, {"step": "which", "branch": "enough"}]},
            "fresh": False,
        },
    ],
    "max_steps": 30,
    "steps": [
        {"id": "start", "type": "set", "set": {"sum": "len($items)", "rounds": 0}, "next_step": "draw"},
        {
            "id": "draw",
            "type": "tool",
            "tool": "draw",
            "output_key": "drawn",
            "on_error": "skip",
            "max_visits": 6,
            "next_step": "count",
        },
        {"id": "count", "type": "set", "set": {"rounds": "$rounds + 1"}, "next_step": "was_drawn"},
        {"id": "was_drawn", "type": "condition", "condition": "defined($drawn)", "then": "add", "otherwise": "which"},
        {"id": "add", "type": "set", "set": {"sum": "$sum + $drawn"}, "next_step": "which"},
        {
            "id": "which",
            "type": "condition",
            "cases": [
                {"name": "enough", "when": "$sum >= $least", "then": "say"},
                {"name": "given-up", "when": "$rounds > 3", "then": "over"},
            ],
            "otherwise": "draw",
        },
        {
            "id": "say",
            "type": "llm",
            "prompt": "Give $sum a name.",
            "system": "You name things.",
            "returns": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            "timeout_seconds": 10,
            "on_timeout": "fallback",
            "fallback": {"name": "sum"},
            "on_error": "retry",
            "max_retries": 2,
            "output_key": "said",
            "next_step": "store",
        },
        {
            "id": "store",
            "type": "tool",
            "tool": "store",
            "args": {"of": "$sum"},
            "timeout_seconds": 10,
            "on_timeout": "fallback",
            "fallback": "unknown",
            "on_error": "retry",
            "max_retries": 2,
            "output_key": "stored",
            "next_step": "done",
        },
        {"id": "done", "type": "end", "output": {"name": "$said.name", "at": "$stored"}},
        {"id": "over", "type": "end", "outcome": "failure"},
    ],
}
"""A loop over `set` steps and cases, typed replies, and fallback values after a time-out."""

CHAIN: Final[Mapping[str, Any]] = {
    "name": "specimen_chain",
    "inputs": {"amount": _MONEY, "card": _SECRET},
    "tools": {
        "note": {"effect": "write", "idempotent": True, "args": {"of": {"type": "integer"}}},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "integer"}}},
        "tell": {"effect": "write", "idempotent": True, "args": {"card": {"type": "string"}}},
    },
    "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}],
    "max_steps": 12,
    "steps": [
        {"id": "note", "type": "tool", "tool": "note", "args": {"of": "$amount"}, "on_error": "skip"},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$amount"}, "on_error": "skip"},
        {"id": "tell", "type": "tool", "tool": "tell", "args": {"card": "$card"}, "on_error": "skip"},
        {"id": "again", "type": "tool", "tool": "note", "args": {"of": 1}, "on_error": "skip"},
        {"id": "done", "type": "end", "output": "$amount"},
    ],
}
"""Writes in a row, which are interrupted anywhere and continued: one may happen once, one has a sensitive argument."""

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
    "rounds": (ROUNDS, ()),
    "claim": (CLAIM, ()),
    "sums": (SUMS, ()),
    "items": (ITEMS, ()),
    "branches": (BRANCHES, ()),
    "at once": (AT_ONCE, ()),
    "chain": (CHAIN, ()),
    "dunning": (DUNNING, ()),
    "escalation": (ESCALATION, ()),
}
"""The specimens by name, each with its policies."""


@cache
def specimen_target(name: str) -> Target:
    """Return a specimen as a target."""
    program, policies = SPECIMENS[name]
    return Target(Program.from_dict(dict(program)), [Policy.from_dict(dict(policy)) for policy in policies])
