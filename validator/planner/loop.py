"""The loop of a planner, as a program of the language: the machine runs it, and its journal has every attempt.

So a plan is verified, replayed, exported and erased like any other run.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from stepward.validator.planner.brief import Brief
from stepward.validator.planner.prompts import first_request, instructions, next_request
from stepward.validator.planner.verdicts import Gate, verdict_on
from stepward.vm.language.program import Program

NAME: Final = "stepward-planner"
"""The name of the program in journals."""

PROPOSE, JUDGE = "propose", "judge"
"""The steps in which the model proposes, and in which the gate answers."""

TRIES: Final = 3
"""How often a model may propose, unless somebody says otherwise."""

MAX_TRIES: Final = 20
"""The most tries of one plan."""

_TOOL: Final = "judge_proposal"
_VERDICT: Final = {
    "type": "object",
    "properties": {
        "accepted": {"type": "boolean"},
        "answer": {"type": "string"},
        "program": {"type": "string"},
        "request": {"type": "string"},
    },
    "required": ["accepted", "answer", "program", "request"],
}


def planning_program(tries: int, max_tokens: int | None = None, max_cost: Decimal | None = None) -> Program:
    """Return the program that plans in a number of tries, within bounds for all its calls of the model together."""
    budgets = {"max_tokens": max_tokens, "max_cost": max_cost}
    return Program.from_dict(
        {
            "name": NAME,
            "inputs": {"instructions": {"type": "string"}, "request": {"type": "string"}},
            "tools": {_TOOL: {"effect": "read", "args": {"reply": {"type": "string"}}, "returns": _VERDICT}},
            "max_steps": 5 * tries + 5,
            **{name: bound for name, bound in budgets.items() if bound is not None},
            "steps": [
                {"id": "start", "type": "set", "set": {"asked": "$request", "tried": 1}},
                {
                    "id": PROPOSE,
                    "type": "llm",
                    "system": "$instructions",
                    "prompt": "$asked",
                    "returns": {"type": "string"},
                    "output_key": "reply",
                    "max_visits": tries,
                    "error_step": "no_reply",
                },
                {
                    "id": JUDGE,
                    "type": "tool",
                    "tool": _TOOL,
                    "args": {"reply": "$reply"},
                    "output_key": "verdict",
                    "error_step": "no_verdict",
                },
                {
                    "id": "is_accepted",
                    "type": "condition",
                    "cases": [
                        {"when": "$verdict.accepted", "then": "accepted"},
                        {"when": f"$tried >= {tries}", "then": "refused"},
                    ],
                    "otherwise": "again",
                },
                {
                    "id": "again",
                    "type": "set",
                    "set": {"asked": "$verdict.request", "tried": "$tried + 1"},
                    "next_step": PROPOSE,
                },
                {"id": "accepted", "type": "end", "output": {"program": "$verdict.program"}},
                {"id": "refused", "type": "end", "outcome": "failure", "output": {"reason": "$verdict.answer"}},
                {"id": "no_reply", "type": "end", "outcome": "failure", "output": {"reason": f"${PROPOSE}.error"}},
                {"id": "no_verdict", "type": "end", "outcome": "failure", "output": {"reason": f"${JUDGE}.error"}},
            ],
        }
    )


def planning_inputs(brief: Brief) -> dict[str, str]:
    """Return the inputs of the planning program for a brief."""
    return {"instructions": instructions(), "request": first_request(brief)}


def planning_tools(brief: Brief, gate: Gate) -> dict[str, Any]:
    """Return the tools of the planning program: the gate, for a brief."""

    async def judge_proposal(reply: str) -> dict[str, Any]:
        verdict = await verdict_on(brief, reply, gate)
        is_accepted = bool(verdict.program)
        request = "" if is_accepted else next_request(brief, reply, verdict.answer)
        return {"accepted": is_accepted, "answer": verdict.answer, "program": verdict.program, "request": request}

    return {_TOOL: judge_proposal}
