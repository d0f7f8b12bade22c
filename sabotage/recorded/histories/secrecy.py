"""Histories of sensitive values: what parts that run at once, later steps and later runs know of one another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, cases_of, play_cases
from stepward.sabotage.recorded.shared.given import ReplyTable

_TEXT: Final = {"type": "string"}
_SECRET: Final = {"type": "string", "sensitive": True}
_NUMBER: Final = {"type": "number", "sensitive": True}
_ANY: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ARGS: Final = {"x": _TEXT}
TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "give": {"effect": "read", "args": {}, "returns": _SECRET},
    "tell": {"effect": "read", "args": {"x": _TEXT}, "returns": _TEXT, "errors": ["Lacking"]},
    "show": {"effect": "read", "args": {}, "returns": _ANY},
    "many": {"effect": "read", "args": {}, "returns": {"type": "number"}},
    "hold": {"effect": "read", "args": {}, "returns": _TEXT, "suspends": True},
    "veil": {"effect": "read", "args": {}, "returns": _SECRET, "suspends": True},
    "write": {"effect": "write", "idempotent": False, "args": {}, "returns": _TEXT},
    "seal": {"effect": "write", "idempotent": False, "args": {}, "returns": _SECRET},
    "part": {
        "effect": "read",
        "args": {},
        "returns": {
            "type": "object",
            "properties": {
                "open": _TEXT,
                "closed": _SECRET,
                "list": {"type": "array", "maxItems": 2, "items": _NUMBER},
            },
        },
    },
    "pick": {
        "effect": "read",
        "args": {},
        "returns": {"type": "string", "sensitive": True, "enum": ["gold", "silver"]},
    },
}
CARD: Final = "4929 1111 2222 3333"
CODE: Final = 78124590

ECHOES: Final = (
    "whole",
    "within",
    "cut",
    "code",
    "error",
    "request",
    "payload",
    "doubt",
    "verdict",
    "key",
    "reply",
    "item",
)
"""How a value comes back: in an output, a text, a number, an error, what a call asks, what somebody answers, ..."""


def _tool(id: str, tool: str, **more: Any) -> dict[str, Any]:
    step = {"id": id, "type": "tool", "tool": tool, **more}
    return {**step, "args": {"x": "plain"}} if tool == "tell" else step


def _echo(id: str, echo: str) -> dict[str, Any]:
    """Return the step in which a value comes back."""
    tools = {"code": "many", "request": "hold", "payload": "hold", "doubt": "write", "verdict": "write", "key": "show"}
    if echo in ("reply", "item"):
        returns = {"returns": {"type": "object", "additionalProperties": {"type": "string"}}} if echo == "item" else {}
        return {"id": id, "type": "llm", "prompt": "go", "cache": True, **returns}
    return _tool(id, tools.get(echo, "tell"), **({"on_error": "skip"} if echo == "error" else {}))


def _script(story: Story, id: str, echo: str, value: Any) -> None:
    text = str(value)
    reply: Any = {
        "whole": text,
        "within": f"it is {text}, and so on",
        "cut": f"it is {text[:9]}...",
        "code": value if isinstance(value, int) else 7,
        "key": {text: "one", "two": text[:5]},
        "reply": f"Your card {text} is well",
        "item": {"a": "well", "b": text},
    }.get(echo, "plain")
    story.script[id] = [reply] * 3
    if echo in ("error", "doubt", "verdict", "request", "payload"):
        words: dict[str, Any] = {"request": {"of": f"{text}?", text: [text]}, "doubt": "verdict", "verdict": "doubt"}
        story.script[id] = [words.get(echo, echo)] * 2
    story.words = text


def _settle(story: Story, run: str, value: Any) -> None:
    for _ in range(2):
        story.settle(run, "done", f"done {value}")
        story.answer(run, f"it was {value}")


# -- parts at once -----------------------------------------------------------------------------------------------------

_SHAPES: Final[Sequence[Mapping[str, str]]] = (
    {},
    {"c": "a"},
    {"b": "a", "c": "b"},
    {"c": "ab"},
    {"b": "a"},
    {"a": "b", "c": "a"},
)
_FORMS: Final = ("subs", "branches", "called", "each", "beside")

PARTS: Final = tuple(
    (form, shape, echo)
    for (turn, form), shape, (at, echo) in product(enumerate(_FORMS), range(len(_SHAPES)), enumerate(ECHOES))
    if (turn + 2 * shape + at) % (3 if form in ("subs", "branches", "called") else 6) == 0
)
"""How parts run at once, what depends on what, and how the last one repeats the value of the first."""


def parts(story: Story, form: str, shape: int, echo: str, run: str) -> None:
    """Let one of three parts get a value, and another one repeat it."""
    needs = _SHAPES[shape]
    story.script = {"get_a": [CARD, CARD], "get_b": ["other words"]}
    _script(story, "back_c", echo, CARD)
    _script(story, "later", echo, CARD)
    over = {"id": "over", "type": "end", "output": ["$all.output", "$later.output"]}
    all_: dict[str, Any] = {"id": "all", "type": "parallel"}
    own = {"a": _tool("get_a", "give"), "b": _tool("get_b", "tell"), "c": _echo("back_c", echo)}
    if form == "subs":
        ids = {"a": "get_a", "b": "get_b", "c": "back_c"}
        all_["parallel_steps"] = [
            {**step, **({"depends_on": [ids[one] for one in needs[name]]} if name in needs else {})}
            for name, step in own.items()
        ]
    else:
        if form == "called":
            own["a"] = {"id": "in_a", "type": "call", "program": "inner", "args": {"s": "$card"}}
            own["c"] = {"id": "in_c", "type": "call", "program": "echoing"}
        if form == "each":
            own = {name: _one_by_one(name, step, 1) for name, step in own.items()}
        if form == "beside":
            own = {name: _one_by_one(name, step, 2) for name, step in own.items()}
        all_["branches"] = {
            name: {
                "steps": [step, {"id": f"end_{name}", "type": "end"}],
                **({"depends_on": list(needs[name])} if name in needs else {}),
            }
            for name, step in own.items()
        }
    inner = {"inputs": {"s": _SECRET}, "steps": [_tool("get_a", "give"), {"id": "out", "type": "end", "output": "$s"}]}
    echoing = {"steps": [_echo("back_c", echo), {"id": "out", "type": "end"}]}
    programs = {"programs": {"inner": inner, "echoing": echoing}, "inputs": {"card": _TEXT}} if form == "called" else {}
    data = {"tools": TOOLS, **programs, "steps": [all_, {**_echo("later", echo)}, over]}
    story.start(data, {"card": CARD} if programs else {}, run)
    _settle(story, run, CARD)


def _one_by_one(name: str, step: dict[str, Any], most: int) -> dict[str, Any]:
    each = {
        "id": f"each_{name}",
        "type": "for_each",
        "items": [1, 2],
        "as": f"i_{name}",
        "max_items": 2,
        "steps": [step],
    }
    return {**each, "max_concurrency": most} if most > 1 else each


# -- one after the other -----------------------------------------------------------------------------------------------

SOURCES: Final = (
    "input",
    "output",
    "resumed",
    "reconciled",
    "number",
    "called",
    "carried",
    "field",
    "listed",
    "member",
    "default",
)
AFTER: Final = tuple(
    (source, echo, (at + number) % 4 == 0)
    for (at, source), (number, echo) in product(enumerate(SOURCES), enumerate(ECHOES))
    if (at + number) % 2 == 0
)
"""Where a value comes from, how it comes back, and whether that is in another run."""


def after(story: Story, source: str, echo: str, is_later: bool, run: str) -> None:
    """Let a value come into a run, and come back in a later step, or in the run that continues it."""
    is_number = source in ("number", "listed")
    value: Any = CODE if is_number else "silver" if source == "member" else CARD
    story.script = {"from": [_answer_from(source)], "fails": ["fail"]}
    _script(story, "back", echo, value)
    inputs: dict[str, Any] = {}
    before: list[dict[str, Any]] = []
    data: dict[str, Any] = {"tools": TOOLS}
    tools = {
        "output": "give",
        "resumed": "veil",
        "reconciled": "seal",
        "field": "part",
        "listed": "part",
        "member": "pick",
    }
    match source:
        case "input":
            inputs = {"card": CARD}
            data["inputs"] = {"card": _SECRET}
        case "default":
            data["inputs"] = {"card": {**_SECRET, "default": CARD}}
        case "number":
            inputs = {"card": 1}
            data["inputs"] = {"card": _NUMBER}
            before = [{"id": "put", "type": "set", "set": {"sum": f"$card + {CODE - 1}"}}]
        case "called":
            inner = {"inputs": {"s": _SECRET}, "steps": [_tool("t", "tell"), {"id": "out", "type": "end"}]}
            data["programs"] = {"inner": inner}
            before = [{"id": "c", "type": "call", "program": "inner", "args": {"s": CARD}}]
        case "carried":
            inputs = {"card": CODE - 2}
            data["inputs"] = {"card": _NUMBER}
            add = {"id": "add", "type": "set", "set": {"sum": "$sum + 1"}}
            each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": [add]}
            before = [{**each, "carry": {"sum": "$card"}}]
            _script(story, "back", echo, CODE if not is_later else CODE - 1)
        case _:
            before = [_tool("from", tools[source])]
    back, over = _echo("back", echo), {"id": "over", "type": "end", "output": "$back.output"}
    if not is_later:
        story.start({**data, "steps": [*before, back, over]}, inputs, run)
    else:
        story.start({**data, "steps": [*before, _tool("fails", "tell"), over | {"output": 1}]}, inputs, run)
    if source == "resumed":
        story.answer(run, CARD)
    if source == "reconciled":
        story.settle(run, "done", CARD)
    if is_later:
        read = {"number": "sum", "carried": "sum", "called": ""}.get(
            source, "card" if not tools.get(source) else "from.output"
        )
        kind = {
            "number": _NUMBER,
            "carried": _NUMBER,
            "field": {**_ANY, "additionalProperties": True, "sensitive": True},
        }
        kind["listed"] = kind["field"]
        spec = {} if not read else {"inputs": {"v": kind.get(source, _SECRET)}}
        story.go_on(run, {"tools": TOOLS, **spec, "steps": [back, over]}, {"v": read} if read else {})
        run = f"{run}~1"
    _settle(story, run, value)


def _answer_from(source: str) -> Any:
    match source:
        case "resumed":
            return "wait"
        case "reconciled":
            return "doubt"
        case "field" | "listed":
            return {"open": "words", "closed": CARD, "list": [CODE, 1]}
        case "member":
            return "silver"
    return CARD


# -- replies that are kept ---------------------------------------------------------------------------------------------

_ASKED: Final[Sequence[tuple[Mapping[str, Any], Sequence[Any]]]] = (
    ({}, [CARD]), ({}, [f"it is {CARD}"]), ({}, ["it is 4929"]), ({"prompt": "of $card"}, []),
    ({"prompt": f"of {CARD}"}, []), ({"prompt": "of 4929 1111 2222 3332"}, []), ({"system": f"you are {CARD}"}, []),
    ({"returns": _ANY}, [{"a": "b", "c": f"of {CARD}"}]), ({"returns": _ANY}, [{CARD: "b"}]),
    ({"returns": _SECRET}, []),
    ({"timeout_seconds": 1, "on_timeout": "fallback", "fallback": "else"}, ["late"]),
    ({"on_error": "retry", "max_retries": 1}, ["fail", "second"]), ({"allowed_outputs": ["well", CARD]}, [CARD]),
    ({"model": "small"}, [("well", 3, 1, "large")]),
    ({"retry": [{"errors": ["any"], "delay_seconds": 0}]}, ["late", "fail"]),
)  # fmt: skip
KEPT: Final = tuple((at, twice) for at in range(len(_ASKED)) for twice in (False, True) if (at + twice) % 2 or at < 4)


def kept(story: Story, at: int, twice: bool, run: str) -> None:
    """Ask a model for a reply, which may be kept, and ask it again in another run, another visit or another program."""
    more, replies = _ASKED[at]
    story.more["cache"] = table = ReplyTable()
    think = {"id": "think", "type": "llm", "prompt": "go", "cache": True, "max_visits": 2, "next_step": "more", **more}
    loop = {"id": "more", "type": "set", "set": {"n": "$n + 1"}, "next_step": "on"}
    steps = [
        think,
        loop,
        {"id": "on", "type": "condition", "condition": "$n < 2", "then": "think", "otherwise": "over"},
    ]
    steps += [{"id": "over", "type": "end", "output": "$think.output"}]
    for number in range(2):
        story.script = {"think": list(replies) if number == 0 or at % 2 else ["other"]}
        data = {"inputs": {"card": _SECRET, "n": {"type": "number"}}, "steps": steps}
        data |= {"description": "another"} if twice and number else {}
        card = CARD if not number or twice else "1234 5678 9012 3456"
        story.start(data, {"card": card, "n": 1 - number if twice else 1}, f"{run}-{number}")
        story.notes.add(sorted(table.entries.items()))
    del story.more["cache"]


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 20
CASES: Final = cases_of((parts, PARTS), (after, AFTER), (kept, KEPT))


def secrecy(story: Story, number: int) -> None:
    """Play the cases of a story."""
    play_cases(story, CASES[number::STORIES])
