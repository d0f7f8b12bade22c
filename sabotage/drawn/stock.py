"""The tools, inputs and names of random programs of every feature."""

from __future__ import annotations

from typing import Any, Final

NUMBER: Final = {"type": "number"}
STRING: Final = {"type": "string"}
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read"},
    "get_total": {
        "effect": "read",
        "idempotent": True,
        "args": {"n": NUMBER},
        "returns": {
            "type": "object",
            "properties": {"total": NUMBER, "note": STRING, "tags": {"type": "array", "items": STRING}},
            "required": ["total"],
        },
    },
    "pay": {
        "effect": "write",
        "args": {"amount": {"type": "number", "maximum": 50}, "to": {"type": "string", "default": "me"}},
        "returns": {"type": "number", "minimum": 0},
    },
    "mail": {"effect": "write", "idempotent": True, "returns": {"type": ["string", "null"]}},
    "sign": {"effect": "none", "suspends": True, "returns": {"type": ["boolean", "null"]}},
    "push": {"effect": "write", "suspends": True},
    "push_all": {
        "effect": "write",
        "idempotent": True,
        "suspends": True,
        "returns": {"type": ["integer", "string", "null"], "enum": [1, "a", None]},
    },
    "open": {
        "effect": "read",
        "returns": {
            "type": "object",
            "properties": {"pin": {"type": "string", "sensitive": True}, "size": {"type": "integer"}},
            "required": ["pin"],
            "additionalProperties": False,
        },
    },
}
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "x": NUMBER,
    "s": {"type": "string", "maxLength": 12, "default": "ok"},
    "o": {"type": "object", "properties": {"a": NUMBER}, "additionalProperties": STRING},
    "l": {"type": "array", "items": NUMBER},
    "u": {},
    "h": {"type": "string", "sensitive": True},
    "q": {"type": ["integer", "null"], "default": None},
    "f": {"type": "boolean"},
}
FALLBACKS: Final = {"get_total": {"total": 2}, "sign": None, "open": {"pin": "p"}, "mail": "m", "push_all": "a"}
OK: Final = "'ok'"
OKS: Final = "['ok']"
VARIABLES: Final = ("v", "w", "vw")
