"""What a rule says of the item itself is decided in every round, however many items the list has."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

LENGTHS: Final[dict[str, dict[str, int]]] = {
    "any": {},
    "few": {"maxItems": 2},
    "many": {"maxItems": 8},
    "some": {"minItems": 1, "maxItems": 8},
    "at least many": {"minItems": 4},
}
"""What the type of the list says of its length; the step takes nine items at most."""

RULES: Final[dict[str, tuple[str, bool]]] = {
    "its own name": ("$args.system != $system.name", True),
    "asked before": ("$system.critical and not (defined($dpo) and $dpo)", True),
    "its own rows": ("$system.rows == 0", True),
    "few rows": ("$system.rows > 7", False),
}
"""What no run does, and what some do."""


def deletion(length: dict[str, int], when: str, source: str) -> dict[str, Any]:
    fields = {"name": {"type": "string"}, "rows": {"type": "integer", "minimum": 0}, "critical": {"type": "boolean"}}
    found = {"type": "array", "items": {"type": "object", "properties": fields, "required": [*fields]}, **length}
    erase = {"id": "wipe", "type": "tool", "tool": "erase", "args": {"system": "$system.name"}, "next_step": "gone"}
    return {
        "name": "deletion",
        "language": 2,
        "inputs": {"systems": found} if source == "input" else {},
        "tools": {
            "look": {"effect": "read", "returns": found},
            "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
            "erase": {"effect": "write", "idempotent": True, "args": {"system": {"type": "string"}}},
        },
        "steps": [
            *([] if source == "input" else [{"id": "look", "type": "tool", "tool": "look", "output_key": "systems"}]),
            {
                "id": "each",
                "type": "for_each",
                "items": "$systems",
                "as": "system",
                "max_items": 9,
                "on_item_error": "skip",
                "guardrails": [{"name": "rule", "never": {"tool": "erase"}, "when": when}],
                "steps": [
                    {
                        "id": "empty",
                        "type": "condition",
                        "condition": "$system.rows == 0",
                        "then": "gone",
                        "otherwise": "critical",
                    },
                    {
                        "id": "critical",
                        "type": "condition",
                        "condition": "$system.critical",
                        "then": "ask",
                        "otherwise": "wipe",
                    },
                    {"id": "ask", "type": "tool", "tool": "ask", "output_key": "dpo", "next_step": "agreed"},
                    {"id": "agreed", "type": "condition", "condition": "$dpo", "then": "wipe", "otherwise": "gone"},
                    erase | {"retry": [{"errors": ["any"], "max_attempts": 3, "delay_seconds": 1}]},
                    {"id": "gone", "type": "end", "output": "gone"},
                ],
            },
        ],
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", ["input", "tool"])
@pytest.mark.parametrize(("length", "rule"), [*product(LENGTHS, RULES)])
def test_a_rule_about_the_item_is_decided(length: str, rule: str, source: str) -> None:
    when, is_kept = RULES[rule]
    report = ProgramValidator(Program.from_dict(deletion(LENGTHS[length], when, source)), recheck=True).validate()
    found = {one.verdict for one in report.properties if one.rule == "rule"}
    assert found == {Verdict.PROVED if is_kept else Verdict.VIOLATED}
