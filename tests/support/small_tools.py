"""Tools, inputs and kinds of values of small programs."""

from __future__ import annotations

from typing import Any, Final

LETTERS: Final = ["a", "b", "c"]
SMALL: Final = {"type": "integer", "minimum": 0, "maximum": 3}
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "pay": {"effect": "write", "idempotent": False, "args": {"x": {"type": "integer"}}, "returns": {"type": "boolean"}},
    "book": {"effect": "write", "idempotent": True},
    "mail": {"effect": "write", "idempotent": True, "args": {"x": {"type": "string"}}},
    "ask": {"effect": "read", "echoes": False, "returns": {"type": "boolean"}},
    "grade": {"effect": "none", "returns": {"type": "string", "enum": LETTERS}},
    "count": {"effect": "read", "idempotent": True, "returns": SMALL},
    "look": {
        "effect": "read",
        "returns": {
            "type": "object",
            "properties": {"kind": {"type": "string", "enum": ["a", "b"]}, "fine": {"type": "boolean"}},
            "required": ["kind"],
        },
    },
}
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "mode": {"type": "string", "enum": LETTERS},
    "ok": {"type": "boolean"},
    "n": SMALL,
    "m": {"type": "integer", "minimum": 0, "maximum": 2},
}
KINDS: Final = {
    **dict.fromkeys(("mode", "v", "w"), "letter"),
    **dict.fromkeys(("ok", "done", "seen"), "flag"),
    **dict.fromkeys(("n", "m", "k", "j"), "number"),
}
STARTS: Final[dict[str, list[Any]]] = {"letter": ["'a'", "'b'"], "flag": [False, True], "number": [0, 1]}
GIVERS: Final = {"letter": ["grade", "llm"], "flag": ["ask", "ask", "pay"], "number": ["count"]}
