"""Programs that may ask for an approval in a branch or a call, and then read what it gave; all runs of them.

Each body asks a tool first, and goes one of two ways. Each way has its own output, and may ask for the approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from stepward.vm import ExecutionVM, MemoryJournal, Program, ToolContext
from stepward.vm.machine.tools import ToolError

Data = dict[str, Any]

TOOLS: Final[Data] = {
    "ask": {"effect": "read", "returns": {"type": "boolean"}},
    "approve": {"effect": "none"},
    "pay": {"effect": "write", "idempotent": True},
}
RULE: Final[Data] = {"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}
NO_END: Final = object()
"""The way has no `end`: its last step ends the body."""

OUTPUTS: Final[dict[str, tuple[Any, Any]]] = {
    "truths": (True, False),
    "texts": ("yes", "no"),
    "numbers": (1, 0),
    "objects": ({"ok": True}, {"ok": False}),
    "a reference": ("$ok", "$ok"),
    "templates": ("is $ok", "is $ok"),
    "built objects": ({"ok": "$ok", "b": 1}, {"ok": "$ok", "b": 2}),
    "nested objects": ({"a": {"ok": "$ok"}}, {"a": 1}),
    "lists": ([1], [1, 2]),
    "built lists": (["$ok"], ["$ok", "$ok"]),
    "null": (None, 1),
    "nothing": (1, NO_END),
    "nothing at all": (NO_END, NO_END),
    "kinds": (1, {"ok": True}),
    "dollars": ("$$5", "5"),
}
CONDITIONS: Final = (
    "$m.output",
    "not $m.output",
    "$m.output == true",
    "$m.output != true",
    "$m.output == 'yes'",
    "$m.output == 'maybe'",
    "$m.output == 'is true'",
    "$m.output == '$5'",
    "$m.output in ['yes', 1]",
    "$m.output == 1",
    "$m.output == 3",
    "$m.output > 0",
    "$m.output <= 0",
    "$m.output.ok",
    "$m.output.ok == false",
    "$m.output.b == 1",
    "$m.output.a == 1",
    "$m.output.a.ok",
    "defined($m.output.ok)",
    "defined($m.output)",
    "not defined($m.output)",
    "$m.output == null",
    "$m.output != null",
    "len($m.output) == 1",
    "$m.output[0]",
    "$m.output[0] == 1",
)
SHAPES: Final = (
    "branch",
    "branch in a loop",
    "branch that a sibling reads",
    "call",
    "call in a branch",
    "call in a for_each",
    "call in a loop",
    "call with a variable",
    "call that is skipped",
    "call that is tried again",
    "call whose failure is caught",
)
PLACES: Final = ("first", "second", "neither", "both")
"""The ways that ask for the approval."""

_LAST: Final[Data] = {"id": "z", "type": "end"}
_PAYS: Final[Data] = {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True}


def _body(outputs: tuple[Any, Any], place: str) -> list[Data]:
    steps: list[Data] = [
        {"id": "a", "type": "tool", "tool": "ask", "output_key": "ok"},
        {"id": "c", "type": "condition", "condition": "$ok", "then": "first", "otherwise": "second"},
    ]
    for name, output in zip(("first", "second"), outputs, strict=True):
        asks: Data = (
            {"type": "tool", "tool": "approve"} if place in (name, "both") else {"type": "set", "set": {"v": 1}}
        )
        if output is NO_END:
            steps.append({"id": name, **asks, "is_terminal": True})
        else:
            steps.append({"id": name, **asks, "next_step": f"{name}_end"})
            steps.append({"id": f"{name}_end", "type": "end"} | ({} if output is None else {"output": output}))
    return steps


def _asked(condition: str, otherwise: str) -> Data:
    return {"id": "q", "type": "condition", "condition": condition, "then": "p", "otherwise": otherwise}


def body_program(shape: str, outputs: tuple[Any, Any], condition: str, place: str) -> Data:
    """Return a program that pays where a condition on the output of `m` holds."""
    data: Data = {"name": "small", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [RULE]}
    steps, asked = _body(outputs, place), _asked(condition, "z")
    if shape.startswith("branch"):
        return {**data, "steps": _with_branch(shape, steps, condition)}
    tools = {name: TOOLS[name] for name in ("ask", "approve")}
    data["programs"] = {"sub": {"name": "sub", "language": 2, "inputs": {}, "tools": tools, "steps": steps}}
    call: Data = {"id": "m", "type": "call", "program": "sub"}
    match shape:
        case "call":
            return {**data, "steps": [call, asked, _PAYS, _LAST]}
        case "call in a branch":
            outer = [{**call, "id": "n"}, {"id": "o", "type": "end", "output": "$n.output"}]
            return {**data, "steps": [_fork(outer, {}), asked, _PAYS, _LAST]}
        case "call in a for_each":
            inner = [call, _asked(condition, "item_end"), _PAYS, {"id": "item_end", "type": "end"}]
            each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": inner}
            return {**data, "guardrails": [], "steps": [{**each, "guardrails": [RULE]}]}
        case "call in a loop":
            rounds: list[Data] = [
                {"id": "g", "type": "condition", "condition": "$i == 1", "then": "q", "otherwise": "w"},
                {"id": "w", "type": "condition", "condition": "defined($m.output)", "then": "next", "otherwise": "z"},
                {"id": "next", "type": "set", "set": {"i": 1}, "next_step": "m"},
            ]
            first = {"id": "st", "type": "set", "set": {"i": 0}, "next_step": "m"}
            return {**data, "steps": [first, {**call, "max_visits": 2}, *rounds, asked, _PAYS, _LAST]}
        case "call with a variable":
            bound = _asked(condition.replace("$m.output", "$r"), "z")
            start = {"id": "st", "type": "set", "set": {"r": True}}
            return {**data, "steps": [start, {**call, "output_key": "r"}, bound, _PAYS, _LAST]}
    failing = {
        "call that is skipped": {"on_error": "skip"},
        "call that is tried again": {"on_error": "retry", "max_retries": 2},
        "call whose failure is caught": {"error_step": "q"},
    }
    return {**data, "steps": [{**call, **failing[shape]}, asked, _PAYS, _LAST]}


def _fork(steps: list[Data], other: Data) -> Data:
    beside = other or {"steps": [{"id": "kk", "type": "tool", "tool": "ask", "on_error": "skip"}]}
    return {"id": "both", "type": "parallel", "branches": {"m": {"steps": steps}, "k": beside}}


def _with_branch(shape: str, steps: list[Data], condition: str) -> list[Data]:
    if shape == "branch that a sibling reads":
        inner = [_asked(condition, "k_end"), _PAYS, {"id": "k_end", "type": "end"}]
        return [_fork(steps, {"depends_on": ["m"], "steps": inner})]
    if shape == "branch in a loop":
        before = {"id": "b", "type": "tool", "tool": "ask", "on_error": "skip", "next_step": "both"}
        return [before, {**_fork(steps, {}), "max_visits": 2}, _asked(condition, "both"), _PAYS]
    return [_fork(steps, {}), _asked(condition, "z"), _PAYS, _LAST]


class Tape:
    """Tools that answer by a list of choices; `widths` are how many each call had."""

    def __init__(self) -> None:
        self.begin([])

    def begin(self, choices: list[int]) -> None:
        """Forget what other runs have done, and answer by a list of choices."""
        self.choices, self.widths = choices, list[int]()
        self.log: list[str] = []

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        del args, context
        answers = {"ask": (True, False, None), "approve": (True, None), "pay": (True,)}[name]
        number = self.choices[len(self.widths)] if len(self.widths) < len(self.choices) else 0
        self.widths.append(len(answers))
        self.log.append(name if answers[number] is not None else f"{name} failed")
        if answers[number] is None:
            raise ToolError("Broken", "it broke")
        return answers[number]


def runs(data: Data) -> Iterator[list[str]]:
    """Yield what tools see in every run, one after the other; the machine is told of no rule."""
    steps = [{**step, "guardrails": []} if "guardrails" in step else step for step in data["steps"]]
    bare = Program.from_dict({**data, "guardrails": [], "steps": steps})
    pending: list[list[int]] = [[]]
    tape, numbers = Tape(), count()
    machine = ExecutionVM(tape, None, MemoryJournal(), checker=None)
    while pending:
        tape.begin(pending.pop())
        machine.run_sync(bare, {}, run_id=f"run {next(numbers)}")
        taken = [*tape.choices, *[0] * (len(tape.widths) - len(tape.choices))]
        for place in range(len(tape.choices), len(taken)):
            pending += [[*taken[:place], other] for other in range(1, tape.widths[place])]
        yield tape.log


def is_broken(data: Data) -> bool:
    """Return whether some run pays without an approval; in a for_each, each item needs one of its own."""
    is_fresh = data["steps"][0]["type"] == "for_each"
    for log in runs(data):
        is_approved = False
        for name in log:
            if name == "pay" and not is_approved:
                return True
            if name == "approve":
                is_approved = True
            elif is_fresh and name.startswith("ask"):  # the first call of an item
                is_approved = False
    return False
