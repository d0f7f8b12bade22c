"""A shop whose programs a model plans: tools with their manifest, a policy, and tasks with the replies of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paths import TESTS
from stepward.validator import Planner
from stepward.vm import Policy, Suspend
from stepward.vm.reading.files import read_file

TASKS = sorted((TESTS / "data/plans").glob("*.yaml"))

MANIFEST: dict[str, Any] = {
    "get_order": {
        "effect": "read",
        "args": {"order": {"type": "string"}},
        "returns": {
            "type": "object",
            "properties": {
                "total": {"type": "number", "minimum": 0},
                "state": {"enum": ["open", "sent"]},
                "customer": {"type": "string"},
            },
            "required": ["total", "state", "customer"],
        },
    },
    "find_customer": {
        "effect": "read",
        "echoes": False,
        "args": {"customer": {"type": "string"}},
        "returns": {
            "type": "object",
            "properties": {
                "first_name": {"type": "string", "maxLength": 40},
                "email": {"type": "string", "sensitive": True},
            },
            "required": ["first_name", "email"],
        },
    },
    "get_stock": {"effect": "read", "args": {"item": {"type": "string"}}, "returns": {"type": "integer", "minimum": 0}},
    "refund": {
        "effect": "write",
        "idempotent": True,
        "args": {"order": {"type": "string"}, "sum": {"type": "number"}},
        "returns": {"type": "string"},
    },
    "place_order": {
        "effect": "write",
        "idempotent": False,
        "args": {"item": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    },
    "send_mail": {
        "effect": "write",
        "idempotent": True,
        "args": {"to": {"type": "string"}, "text": {"type": "string", "maxLength": 1000}},
    },
    "open_ticket": {
        "effect": "write",
        "idempotent": True,
        "args": {"title": {"type": "string", "maxLength": 200}, "severity": {"enum": ["low", "high"]}},
        "returns": {"type": "string"},
    },
    "ask_manager": {
        "effect": "none",
        "suspends": True,
        "args": {"question": {"type": "string"}},
        "returns": {"enum": ["agree", "refuse"]},
    },
}
ABOUT = {"refund": "Pays the sum of an order back.", "get_stock": "Says how many of an item are left."}
POLICY = Policy.from_dict(
    {
        "policy": "shop",
        "guardrails": [
            {"name": "refund-limit", "never": {"tool": "refund"}, "when": "$args.sum > 500"},
            {"name": "refund-once", "at_most_once": {"tool": "refund"}},
            {"name": "stock-first", "protects": {"tool": "place_order"}, "requires": {"tool": "get_stock"}},
        ],
    }
)
REFUNDS = """\
name: refund
inputs: {order: {type: string, pattern: '^ORD-[0-9]{6}$'}}
max_steps: 10
steps:
  - {id: load, type: tool, tool: get_order, args: {order: $order}, output_key: found, error_step: failed}
  - {id: fits, type: condition, condition: $found.total <= 500, then: pay, otherwise: failed}
  - {id: pay, type: tool, tool: refund, args: {order: $order, sum: $found.total}, error_step: failed, next_step: done}
  - {id: done, type: end, output: {paid: $found.total}}
  - {id: failed, type: end, outcome: failure}
"""
ORDER = {"order": {"type": "string", "pattern": "^ORD-[0-9]{6}$"}}


def task_in(path: Path) -> dict[str, Any]:
    """Return a task with its replies, what its run is given, and what it has to come to."""
    (document,) = read_file(path)
    return dict(document.data)


def planner(model: Any, *, policies: Any = POLICY, **options: Any) -> Planner:
    return Planner(model, MANIFEST, policies, about=ABOUT, **options)


class Shop:
    """The tools; `called` lists the effects."""

    def __init__(self) -> None:
        self.called: list[list[Any]] = []

    def get_order(self, order: str) -> dict[str, Any]:
        return {"total": 40, "state": "open", "customer": "c7"}

    def find_customer(self, customer: str) -> dict[str, Any]:
        return {"first_name": "Ada", "email": "ada@example.com"}

    def get_stock(self, item: str) -> int:
        return 2

    def refund(self, order: str, sum: Any) -> str:
        self.called.append(["refund", order, sum])
        return "R1"

    def place_order(self, item: str, count: int) -> None:
        self.called.append(["place_order", item, count])

    def send_mail(self, to: str, text: str) -> None:
        self.called.append(["send_mail", to, text])

    def open_ticket(self, title: str, severity: str) -> str:
        self.called.append(["open_ticket", title, severity])
        return "T1"

    def ask_manager(self, question: str) -> Suspend:
        return Suspend({"question": question})

    def tools(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MANIFEST}
