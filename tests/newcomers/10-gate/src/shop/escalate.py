"""Hands an order to a person."""

from stepward.vm import Program

ESCALATE = Program.from_dict(
    {
        "name": "escalate",
        "inputs": {"order": {"type": "string", "pattern": "^ORD-[0-9]{6}$"}},
        "tools": {
            "open_case": {
                "effect": "write",
                "idempotent": True,
                "args": {"order": {"type": "string"}},
            }
        },
        "steps": [
            {
                "id": "open",
                "type": "tool",
                "tool": "open_case",
                "args": {"order": "$order"},
                "on_error": "retry",
            }
        ],
    }
)
