"""Small programs of kinds that chance seldom makes."""

from __future__ import annotations

from typing import Any

from legal_programs import all_parts
from small_tools import INPUTS, TOOLS


def rare_programs() -> list[dict[str, Any]]:
    """Return programs by hand, each about something on which the verdict seldom hangs in those made by chance."""
    owed = {"followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}}
    pay = {"id": "p", "type": "tool", "tool": "pay", "args": {"x": 1}}
    book = {"id": "q", "type": "tool", "tool": "book"}
    ask = {"id": "a", "type": "tool", "tool": "ask", "output_key": "v", "on_error": "skip"}
    sign = {"id": "s", "type": "tool", "tool": "sign", "deadline_seconds": 60}
    begin = {"id": "b", "type": "set", "set": {"k": 0, "j": 1}}
    count = {"id": "s", "type": "set", "set": {"k": "$k + 1"}}
    asked = {"id": "a", "type": "tool", "tool": "ask", "output_key": "v", "max_visits": 1, "error_step": "c"}
    end = {"id": "e", "type": "end"}

    def check(condition: str, then: str | None, otherwise: str | None, name: str = "c") -> dict[str, Any]:
        ways = {field: to for field, to in (("then", then), ("otherwise", otherwise)) if to}
        return {"id": name, "type": "condition", "condition": condition, **ways}

    return [
        # An `end` that fails, because its output is undefined whenever it is reached.
        _rare([pay, ask, check("defined($v)", "q", "e"), book, end | {"output": "$v"}], owed),
        # A visit too many leaves the output of the visit before undefined.
        _rare(
            [begin, asked, count | {"next_step": "a"}, check("$k == 1 and not defined($v)", "p", "e"), pay, end],
            {"never": {"step": "p"}},
        ),
        # A bound that ends the run just before what is owed would start.
        _rare(
            [
                begin,
                pay | {"next_step": "s"},
                {"id": "s", "type": "set", "set": {"k": "$j", "j": 2}, "max_visits": 1, "next_step": "c"},
                check("$k == 1", "s", "q"),
                book,
            ],
            owed,
        ),
        # The second visit too many ends the run, although there is an error step.
        _rare(
            [asked | {"error_step": "p", "next_step": "a"}, pay | {"next_step": "a", "error_step": "e"}, end],
            {"followed_by": {"first": {"step": "p"}, "then": {"step": "e"}}},
        ),
        # The last step that the budget admits breaks the rule, with and without retries that were not needed.
        _rare([begin, pay], {"never": {"step": "p"}, "when": "$m == 1"}, max_steps=2),
        _rare([ask | {"on_error": "retry"}, pay], {"never": {"step": "p"}, "when": "$m == 1"}, max_steps=2),
        # A swap.
        _rare(
            [begin, {"id": "s", "type": "set", "set": {"k": "$j", "j": "$k"}}, pay],
            {"never": {"step": "p"}, "when": "$k == 1 and $m == 1"},
        ),
        # A condition without `then` that always holds where it stands.
        _rare([check("$ok", "p", "e", "g"), pay | {"next_step": "c"}, check("$ok", None, "q"), book, end], owed),
        # What is owed does not start, because it reads what is undefined.
        _rare([pay, ask, {"id": "q", "type": "llm", "prompt": "it is $v"}], owed),
        # A calculation that matters, and a loop whose counter leaves it at two only.
        _rare([begin, count, pay], {"never": {"step": "p"}, "when": "$k == 1 and $m == 1"}),
        _rare(
            [begin, check("$k < 2", "s", "p"), count | {"next_step": "c"}, pay],
            {"never": {"step": "p"}, "when": "$k == 2 and $m == 1"},
            max_steps=9,
        ),
        # A loop that can be entered at two steps, one of which brings what breaks the rule.
        _rare(
            [
                begin,
                check("$ok", "x", "y"),
                {"id": "x", "type": "set", "set": {"k": 1}, "next_step": "y"},
                {"id": "y", "type": "set", "set": {"j": "$j"}, "next_step": "d"},
                check("$m == 2", "x", "p", "d"),
                pay,
            ],
            {"never": {"step": "p"}, "when": "$k == 0"},
            max_steps=12,
        ),
        # Two expressions of one `set`: that the first holds says nothing of the second.
        _rare([ask, {"id": "s", "type": "set", "set": {"done": "true", "seen": "$v"}}, pay], {"never": {"step": "s"}}),
        # A field that may be absent, of a variable that is defined wherever it is read.
        _rare(
            [
                {"id": "s", "type": "set", "set": {"seen": True}},
                {"id": "l", "type": "tool", "tool": "look", "output_key": "r", "error_step": "c"},
                {"id": "p", "type": "tool", "tool": "pay", "args": {"x": 1}, "output_key": "seen"},
                check("$seen or $r.fine", "q", "e"),
                book,
                end,
            ],
            {"never": {"step": "q"}},
        ),
        # A parallel step whose retry runs its failed part again: the second visit is beyond the budget.
        _rare(
            [
                {"id": "s", "type": "set", "set": {"done": False}},
                {
                    "id": "b",
                    "type": "parallel",
                    "parallel_steps": [ask | {"on_error": "fail", "output_key": "done"}, pay],
                    "on_error": "retry",
                    "max_retries": 2,
                    "error_step": "b",
                },
            ],
            {"never": {"step": "p"}, "when": "$done"},
            max_steps=8,
        ),
        # What is owed comes after a wait, which may be the last step.
        _rare(
            [
                pay,
                {"id": "w", "type": "wait", "seconds": 5, "max_visits": 2, "next_step": "c"},
                check("$m == 1", "q", "x"),
                book,
                {"id": "x", "type": "wait", "until": "2031-01-31T09:00:00Z", "is_terminal": True, "outcome": "failure"},
            ],
            owed,
            language=2,
        ),
        # A wait that ends the run, for what it reads is no time.
        _rare(
            [pay, {"id": "w", "type": "wait", "until": "$day", "next_step": "q"}, book | {"next_step": "w"}],
            {"followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}, "ends": "any"},
            language=2,
            max_steps=4,
            inputs={"day": {"type": "string"}},
        ),
        # The time of the run may be over before what is owed starts.
        _rare(
            [pay, book],
            {"followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}, "ends": "any"},
            language=2,
            timeout_seconds=60,
        ),
        # A wait that reads what is undefined, and one that a rule asks for.
        _rare(
            [ask | {"type": "tool", "tool": "count"}, {"id": "w", "type": "wait", "seconds": "$v"}, pay, end],
            {"protects": {"step": "p"}, "requires": {"step": "w"}},
            language=2,
        ),
        _rare(
            [
                check("$ok", "w", "p"),
                {"id": "w", "type": "wait", "seconds": 1, "next_step": "p"},
                {"id": "p", "type": "tool", "tool": "pay", "args": {"x": 1}, "next_step": "y"},
                {"id": "y", "type": "wait", "seconds": 1, "is_terminal": True, "outcome": "success"},
            ],
            {"protects": {"step": "p"}, "requires": {"step": "w"}},
            language=2,
        ),
        # An approval that nobody gives in time, and one that is asked for again; a rule asks for it.
        _rare(
            [
                sign | {"catch": [{"errors": ["Deadline"], "then": "p"}], "output_key": "ok2", "next_step": "c"},
                check("$ok2", "p", "e"),
                pay | {"is_terminal": True},
                {"id": "e", "type": "end", "outcome": "failure"},
            ],
            {"protects": {"step": "p"}, "requires": {"step": "s"}},
            language=2,
        ),
        _rare(
            [
                sign | {"retry": [{"errors": ["Deadline"], "max_attempts": 2}], "error_step": "q", "next_step": "p"},
                pay | {"is_terminal": True},
                book | {"is_terminal": True},
            ],
            {"protects": {"step": "p"}, "requires": {"step": "s"}},
            language=2,
            max_steps=4,
        ),
        # Deadlines of sub-steps, one of which is skipped.
        _rare(
            [
                {
                    "id": "b",
                    "type": "parallel",
                    "parallel_steps": [sign | {"on_error": "skip"}, sign | {"id": "t", "output_key": "done"}],
                    "catch": [{"errors": ["Deadline"], "then": "q"}, {"errors": ["any"], "then": "e"}],
                },
                {"id": "e", "type": "end"},
                book | {"next_step": "p"},
                pay,
            ],
            {"protects": {"step": "p"}, "requires": {"step": "t"}},
            language=2,
        ),
    ]


SLOW: dict[str, Any] = {"effect": "read", "suspends": True, "echoes": False, "returns": {"type": "boolean"}}
"""The tool `sign`: somebody answers, or nobody does."""


def _rare(steps: list[dict[str, Any]], rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    used = dict.fromkeys(part["tool"] for part in all_parts(steps) if part["type"] == "tool")
    tools = {name: SLOW if name == "sign" else TOOLS[name] for name in used}
    guardrails = [{"name": "rule0", **rule}]
    return {"name": "rare", "inputs": INPUTS, **more, "tools": tools, "guardrails": guardrails, "steps": steps}
