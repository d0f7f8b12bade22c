"""A large program of an ordinary shape, for the diagrams: stages in a row, each with choices, a loop and ways out."""

from __future__ import annotations

from typing import Any, Final

STAGE_STEPS: Final = 12
ENDS: Final = 3

ORDER: Final = {"type": "integer", "minimum": 1}
TEXT: Final = {"type": "string"}
TOOLS: Final[dict[str, Any]] = {
    "load": {
        "effect": "read",
        "args": {"order": ORDER},
        "returns": {
            "type": "object",
            "properties": {"total": {"type": "number", "minimum": 0}, "kind": {"type": "string", "enum": ["a", "b"]}},
            "required": ["total", "kind"],
        },
    },
    "ask_desk": {"effect": "none", "suspends": True, "args": {"order": ORDER}, "returns": {"type": "boolean"}},
    "charge": {
        "effect": "write",
        "idempotent": False,
        "args": {"order": ORDER, "total": {"type": "number"}},
        "returns": TEXT,
    },
    "notify": {"effect": "write", "idempotent": True, "args": {"order": ORDER}, "returns": TEXT},
    "state": {"effect": "read", "args": {"order": ORDER}, "returns": {"type": "string", "enum": ["open", "closed"]}},
    "ticket": {"effect": "write", "idempotent": True, "args": {"order": ORDER}, "returns": TEXT},
}


def large_program(steps: int = 150) -> dict[str, Any]:
    """Return a program of that many steps, sub-steps not counted: whole stages, a row of notices, then the ends."""
    stages = (steps - ENDS) // STAGE_STEPS
    made = [step for number in range(1, stages + 1) for step in _stage(number, number < stages)]
    rest = steps - ENDS - len(made)
    made += [
        _tool(f"notice_{number}", "notify", error_step="hand_over", next_step=_following(number, rest))
        for number in range(1, rest + 1)
    ]
    made += [
        {"id": "done", "type": "end"},
        _tool("hand_over", "ticket", is_terminal=True, outcome="failure"),
        {"id": "refused", "type": "end", "outcome": "failure"},
    ]
    assert len(made) == steps
    rules = [
        {
            "name": f"asked-before-charge-{number}",
            "protects": {"step": f"charge_{number}"},
            "requires": {"any_of": [{"step": f"size_{number}", "branch": "small"},
                                    {"step": f"agreed_{number}", "branch": "then"}]},
        }
        for number in range(1, stages + 1, 3)
    ]  # fmt: skip
    return {
        "name": "order_pipeline",
        "inputs": {"order": ORDER},
        "tools": TOOLS,
        "guardrails": rules,
        "max_steps": 5000,
        "steps": made,
    }


def _following(number: int, last: int) -> str:
    return f"notice_{number + 1}" if number < last else "done"


def _tool(name: str, tool: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, "args": {"order": "$order"}, **fields}


def _stage(n: int, has_next: bool) -> list[dict[str, Any]]:
    after = f"load_{n + 1}" if has_next else "notice_1"
    charge = _tool(f"charge_{n}", "charge", error_step="hand_over", next_step=f"tell_{n}")
    charge["args"] = {"order": "$order", "total": f"$found_{n}.total"}
    return [
        _tool(f"load_{n}", "load", output_key=f"found_{n}", on_error="retry", error_step="hand_over",
              next_step=f"needed_{n}"),
        {"id": f"needed_{n}", "type": "condition", "condition": f"$found_{n}.kind == 'a' and $found_{n}.total > 0",
         "then": f"size_{n}", "otherwise": f"skip_{n}"},
        {"id": f"skip_{n}", "type": "set", "set": {f"charged_{n}": False}, "next_step": f"poll_{n}"},
        {"id": f"size_{n}", "type": "condition", "otherwise": f"ask_{n}",
         "cases": [{"name": "small", "when": f"$found_{n}.total <= 100", "then": f"charge_{n}"},
                   {"name": "absurd", "when": f"$found_{n}.total > 1000000", "then": "refused"}]},
        _tool(f"ask_{n}", "ask_desk", output_key=f"yes_{n}", error_step="hand_over", next_step=f"agreed_{n}"),
        {"id": f"agreed_{n}", "type": "condition", "condition": f"$yes_{n}", "then": f"charge_{n}",
         "otherwise": "refused"},
        charge,
        {"id": f"tell_{n}", "type": "parallel", "next_step": f"reply_{n}", "parallel_steps": [
            _tool(f"mail_{n}", "notify", on_error="skip"), _tool(f"note_{n}", "notify", on_error="retry")]},
        {"id": f"reply_{n}", "type": "llm", "prompt": "Sum up what was done.", "error_step": "hand_over",
         "allowed_outputs": ["short", "long"], "next_step": f"poll_{n}"},
        _tool(f"poll_{n}", "state", output_key=f"state_{n}", max_visits=5, error_step="hand_over",
              next_step=f"closed_{n}"),
        {"id": f"closed_{n}", "type": "condition", "condition": f"$state_{n} == 'closed'", "then": after,
         "otherwise": f"wait_{n}"},
        {"id": f"wait_{n}", "type": "set", "set": {f"again_{n}": True}, "next_step": f"poll_{n}"},
    ]  # fmt: skip
