"""A program that lives in Python code; the checker reads it from the source."""

from stepward.vm import Program

# SW102: the run ends at `page_on_call`, so `open_incident` never runs.
disk_alarm = Program.from_dict(
    {
        "name": "disk_alarm",
        "language": 1,
        "inputs": {
            "host": {"type": "integer", "minimum": 1},
            "free_percent": {"type": "number", "minimum": 0, "maximum": 100},
        },
        "tools": {
            "page": {
                "effect": "write",
                "idempotent": True,
                "args": {"host": {"type": "integer"}},
                "returns": {"type": "string"},
            },
            "open_ticket": {
                "effect": "write",
                "idempotent": True,
                "args": {"host": {"type": "integer"}},
                "returns": {"type": "string"},
            },
        },
        "steps": [
            {
                "id": "is_full",
                "type": "condition",
                "condition": "$free_percent < 5",
                "then": "page_on_call",
                "otherwise": "calm",
            },
            {"id": "page_on_call", "type": "tool", "tool": "page", "args": {"host": "$host"}, "is_terminal": True},
            {
                "id": "open_incident",
                "type": "tool",
                "tool": "open_ticket",
                "args": {"host": "$host"},
                "is_terminal": True,
            },
            {"id": "calm", "type": "end"},
        ],
    }
)
