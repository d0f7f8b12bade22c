"""An operator with a journal on disk, two tools and two callers, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stepward.validator.gateway.approvals import Approvals
from stepward.validator.gateway.caller_account import Operator
from stepward.validator.gateway.callers import Callers
from stepward.validator.gateway.gateway import Gateway
from stepward.vm import ExecutionVM, SQLiteJournal, Suspend

MANIFEST: dict[str, Any] = {
    "ask": {"effect": "none", "suspends": True, "returns": {"enum": ["agree", "refuse"]}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
}
PAYS = """\
name: pays
inputs: {sum: {type: number}}
tools:
  ask: {effect: none, suspends: true, returns: {enum: [agree, refuse]}}
  pay: {effect: write, idempotent: true, args: {sum: {type: number}}}
steps:
  - {id: ask, type: tool, tool: ask, output_key: said, next_step: agreed}
  - {id: agreed, type: condition, condition: $said == "agree", then: pay, otherwise: refused}
  - {id: pay, type: tool, tool: pay, args: {sum: $sum}, is_terminal: true}
  - {id: refused, type: end, outcome: failure}
"""
ENTRY: dict[str, Any] = {"name": "model", "token": "t" * 20, "tools": ["ask", "pay"], "effects": ["none", "write"]}
ASKED_FIRST = {"name": "asked", "protects": {"tool": "pay"}, "requires": {"tool": "ask"}}


class House:
    """An operator with a journal on disk, two tools and two callers."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder, self.paid = folder, []  # type: ignore[var-annotated]
        self.journal = SQLiteJournal(str(folder / "runs.db"))
        self.callers = Callers.of([{**ENTRY, **limits}, {**ENTRY, "name": "other", "token": "u" * 20}])
        self.model, self.other = self.callers.by_name["model"], self.callers.by_name["other"]
        self.tools = {"ask": lambda: Suspend({"question": "pay?"}), "pay": self._pay}

    def _pay(self, sum: Any, idempotency_key: str) -> None:
        self.paid.append(sum)

    def gateway(self, **fields: Any) -> Gateway:
        given = {"tools": self.tools, "facts": MANIFEST, "approvals": Approvals(self.folder / "approvals.jsonl")}
        return Gateway(Operator(self.journal, "gate-1", **{**given, "programs": self.folder / "programs", **fields}))

    def tokens(self) -> list[str]:
        lines = (self.folder / "approvals.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["token"] for line in lines]

    async def approve(self, by: str = "ada") -> None:
        await ExecutionVM(self.tools, None, self.journal, checker=None).resume(self.tokens()[-1], "agree", by=by)
