"""A shop for sessions: tools with their facts and rules, a journal in memory, and sessions of its tools."""

from __future__ import annotations

import asyncio
from typing import Any

from stepward.validator.repl.answers import TurnAnswer
from stepward.validator.repl.session import Session
from stepward.vm import ExecutionVM, Policy, Suspend
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.machine.tools import FunctionTools

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "total": {"type": "number"}, "status": {"type": "string"}},
    "required": ["id", "total", "status"],
}
FACTS: dict[str, dict[str, Any]] = {
    "orders": {
        "effect": "read",
        "args": {"customer": {"type": "string"}},
        "returns": {"type": "array", "items": ORDER, "maxItems": 20},
    },
    "person": {
        "effect": "read",
        "args": {"id": {"type": "integer"}},
        "returns": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "email": {"type": "string", "sensitive": True}},
            "required": ["name", "email"],
        },
    },
    "raw": {"effect": "read", "returns": {"type": "object"}},
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "string", "enum": ["yes", "no"]}},
    "refund": {"effect": "write", "idempotent": True, "args": {"amount": {"type": "number"}}},
    "remind": {"effect": "write", "idempotent": True, "args": {"id": {"type": "integer"}}},
    "open": {"effect": "write", "idempotent": True},
    "close": {"effect": "write", "idempotent": True},
}
RULES: list[dict[str, Any]] = [
    {"name": "once", "at_most_once": {"tool": "refund"}},
    {"name": "never-large", "never": {"tool": "refund"}, "when": "$args.amount > 100"},
]
SECRET = "ada@example.com"
HIDDEN = "hidden-note-7781"


class Shop:
    """The tools of a shop. `failing` are the calls of `remind` that fail, by their id."""

    def __init__(self, rules: list[dict[str, Any]] | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.failing: set[int] = set()
        self.journal = MemoryJournal()
        policy = {
            "policy": "shop",
            "tools": FACTS,
            "allow": list(FACTS),
            "guardrails": RULES if rules is None else rules,
        }
        self.policy = Policy.from_dict(policy)

    def session(self, **given: Any) -> Session:
        """Return a new session."""
        return Session(FunctionTools(self.tools()), [self.policy], self.machine, self.journal, **given)

    def machine(self, tools: Any = None, policies: Any = ()) -> ExecutionVM:
        """Return a machine of the journal."""
        return ExecutionVM(self.tools() if tools is None else tools, None, self.journal, policies, checker=None)

    def tools(self) -> dict[str, Any]:
        """Return the functions."""

        def orders(customer: str) -> list[dict[str, Any]]:
            self.calls.append(("orders", customer))
            rows = ((1, 10.5, "open"), (2, 3, "paid"), (3, 4, "open"))
            return [{"id": id, "total": total, "status": status} for id, total, status in rows]

        def person(id: int) -> dict[str, Any]:
            self.calls.append(("person", id))
            return {"name": "Ada", "email": SECRET}

        def raw() -> dict[str, Any]:
            self.calls.append(("raw", None))
            return {"rows": [1, 2, 3], "_note": HIDDEN, "inner": [{"_id": 918_273, "name": "x"}]}

        def ask() -> Any:
            self.calls.append(("ask", None))
            return Suspend({"question": "may it?"})

        def refund(amount: Any) -> str:
            self.calls.append(("refund", amount))
            return "paid"

        def remind(id: int) -> str:
            self.calls.append(("remind", id))
            if id in self.failing:
                raise RuntimeError(f"no address for {id}")
            return "sent"

        def marked(name: str) -> Any:
            return lambda: self.calls.append((name, None))

        found = {one.__name__: one for one in (orders, person, raw, ask, refund, remind)}
        return {**found, "open": marked("open"), "close": marked("close")}


def taken(session: Session, *texts: str) -> list[TurnAnswer]:
    """Return the answers to turns, one after the other."""

    async def all_of_them() -> list[TurnAnswer]:
        return [await session.turn(text) for text in texts]

    return asyncio.run(all_of_them())


def last(session: Session, *texts: str) -> TurnAnswer:
    """Return the answer to the last of some turns; those before it succeed."""
    *before, answer = taken(session, *texts)
    assert all(one.error is None for one in before), [one.error for one in before]
    return answer
