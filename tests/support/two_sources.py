"""Programs in which one variable has two sources and is asked one thing, and all that the machine makes of them.

A source gives the variable boundary values of its type: a tool, an input, a model, a `set`, a field, a sub-step, a
fallback. A way says how the two come before the question: one after the other, one or the other, in a loop, or the
second where the first fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise, product
from random import Random
from typing import Any, NamedTuple

from machines import unchecked
from stepward.vm import MemoryJournal, ModelReply, Program, RunRefused, ToolContext
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ModelRequest

MAX_RUNS = 40
"""Runs of one program: the values of both sources, each with each as far as that goes."""

LATE = object()
"""Stands for a tool that comes too late."""

FAILS = object()
"""Stands for a tool that fails."""

TEXTS = ["", "a", "ok", "abc", "abbc", "xoky"]
TYPES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "text": ({"type": "string"}, TEXTS),
    "empty text": ({"type": "string", "maxLength": 0}, [""]),
    "one sign": ({"type": "string", "maxLength": 1}, ["", "a", "z"]),
    "short text": ({"type": "string", "maxLength": 3}, ["", "a", "ok", "abc"]),
    "letters": ({"type": "string", "enum": ["a", "b"]}, ["a", "b"]),
    "no letter": ({"type": "string", "enum": [""]}, [""]),
    "words": ({"type": "string", "enum": ["abc", "ok", ""]}, ["abc", "ok", ""]),
    "text or null": ({"type": ["string", "null"]}, [None, *TEXTS]),
    "short or null": ({"type": ["string", "null"], "maxLength": 1}, [None, "", "a"]),
    "null": ({"type": "null"}, [None]),
    "flag": ({"type": "boolean"}, [True, False]),
    "flag or null": ({"type": ["boolean", "null"]}, [True, False, None]),
    "number": ({"type": "number"}, [-1, 0, 0.5, 3, 10, 11]),
    "share": ({"type": "number", "minimum": 0, "maximum": 1}, [0, 0.5, 1]),
    "above": ({"type": "number", "minimum": 3}, [3, 3.5, 11]),
    "digit": ({"type": "integer", "minimum": 0, "maximum": 10}, [0, 1, 3, 4, 10]),
    "one": ({"type": "integer", "minimum": 1, "maximum": 1}, [1]),
    "digit or null": ({"type": ["integer", "null"], "minimum": 0, "maximum": 3}, [None, 0, 1, 3]),
    "odd": ({"enum": [1, "a", None]}, [1, "a", None]),
    "list": ({"type": "array"}, [[], ["a"], [1, "a"], [[]]]),
    "texts": ({"type": "array", "items": {"type": "string"}}, [[], ["a"], ["ok", "a"]]),
    "empty texts": ({"type": "array", "items": {"type": "string", "maxLength": 0}}, [[], [""], ["", ""]]),
    "scores": (
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 10}},
        [[], [0], [5, 5], [1, 10, 3]],
    ),
    "marks": ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, [[], ["a"], ["b", "b"]]),
    "flags": ({"type": "array", "items": {"type": "boolean"}}, [[], [True], [False, True]]),
    "lists": ({"type": "array", "items": {"type": "array"}}, [[], [[]], [[], []]]),
    "nulls": ({"type": "array", "items": {"type": "null"}}, [[], [None], [None, None]]),
    "list or null": ({"type": ["array", "null"], "items": {"type": "string"}}, [None, [], ["a"]]),
    "list or text": ({"type": ["array", "string"], "items": {"type": "string"}}, [[], ["a"], "", "a"]),
    "order": (
        {"type": "object", "properties": {"f": {"type": "string"}}, "required": ["f"]},
        [{"f": ""}, {"f": "a"}, {"f": "ok"}],
    ),
    "short order": (
        {"type": "object", "properties": {"f": {"type": "string", "maxLength": 0}}, "required": ["f"]},
        [{"f": ""}],
    ),
    "half order": ({"type": "object", "properties": {"f": {"type": "string"}}}, [{}, {"f": ""}, {"f": "a"}]),
    "list order": (
        {"type": "object", "properties": {"f": {"type": "array", "items": {"type": "integer"}}}, "required": ["f"]},
        [{"f": []}, {"f": [1]}, {"f": [1, 2]}],
    ),
    "anything": ({}, ["", "a", "ok", 0, 3, True, None, [], ["a"], {"f": "a"}]),
}
LITERALS: list[Any] = [
    "", "a", "abc", "ok", 0, 1, 0.5, 3, True, False, None, [], ["a"], [0, 5], [1], [True], [1, "a"],
    {"f": "a"}, {}, {"f": 1}, {"f": True},
]  # fmt: skip
EXPRESSIONS = ["$n + 1", "$n > 3", "len($s)", "$n * 0.5", "not $pick"]
GIVERS = ("tool", "input", "model", "sub-step", "field")
FALLBACKS: list[tuple[str, Any]] = [("texts", []), ("short text", "ok"), ("digit", 3), ("text", ""), ("scores", [0])]
QUESTIONS: dict[str, list[str]] = {
    "string": [
        "$v == 'a'",
        "$v != ''",
        "$v contains 'ok'",
        "not ($v contains 'ok')",
        "$v starts_with 'ab' and $v ends_with 'bc'",
        "len($v) == 0",
        "len($v) > 2",
        "$v in ['a', 'b']",
        "$v not contains 'a' or len($v) > 1",
    ],
    "null": ["$v == null", "$v != null and $v != 'a'"],
    "boolean": ["$v", "$v == false"],
    "number": ["$v > 3", "$v <= 0.5", "$v == 1", "$v in [0, 3]", "$v + 1 > 4"],
    "array": ["len($v) > 0", "len($v) == 2", "$v contains 'a'", "1 in $v", "len($v) < 2 or $v contains 1"],
    "object": ["$v.f == 'a'", "$v.f == 1", "len($v.f) > 0", "defined($v.f) and $v.f != ''"],
    "": ["defined($v)", "1 == 2", "1 == 1 or $v == 'a'"],
}
WAYS = ("then", "or", "loop", "error")


class Source(NamedTuple):
    """Steps that give the variable a value, what they need, and the values that each place may bring."""

    name: str
    kinds: frozenset[str]
    steps: tuple[dict[str, Any], ...]
    tools: dict[str, Any]
    inputs: dict[str, Any]
    values: dict[str, list[Any]]
    can_fail: bool = False


def source(giver: str, what: Any, tag: str) -> Source:
    """Return a source; `tag` tells its ids from those of the other."""
    if giver in ("literal", "expression"):
        written = repr(what) if isinstance(what, str) and giver == "literal" else what
        step = {"id": f"set{tag}", "type": "set", "set": {"v": written}}
        kind = _kind(what) if giver == "literal" else "boolean" if ">" in what or "not" in what else "number"
        return Source(f"{giver} {what}", frozenset([kind]), (step,), {}, {}, {})
    name, fallback = what if giver == "fallback" else (what, None)
    spec, values = TYPES[name]
    kinds = frozenset(_kind(value) for value in values)
    tool, place = f"tool{tag}", f"get{tag}"
    call = {"id": place, "type": "tool", "tool": tool, "output_key": "v"}
    known = {tool: {"effect": "read", **({"returns": spec} if spec else {})}}
    full = f"{giver} {name}"
    match giver:
        case "tool":
            return Source(full, kinds, (call,), known, {}, {tool: values}, can_fail=True)
        case "fallback":
            late = call | {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": fallback}
            return Source(full, kinds, (late,), known, {}, {tool: [LATE, *values]}, can_fail=True)
        case "input":
            step = {"id": f"set{tag}", "type": "set", "set": {"v": f"$in{tag}"}}
            return Source(full, kinds, (step,), {}, {f"in{tag}": spec}, {f"in{tag}": values})
        case "model":
            ask: dict[str, Any] = {"id": place, "type": "llm", "prompt": "Well?", "output_key": "v"}
            if kinds == {"string"} and "" not in values and "enum" in spec:
                ask["allowed_outputs"] = values
            else:
                ask["returns"] = spec
            return Source(full, kinds, (ask,), {}, {}, {place: values}, can_fail=True)
        case "sub-step":
            both = {"id": f"both{tag}", "type": "parallel", "parallel_steps": [call]}
            return Source(full, kinds, (both,), known, {}, {tool: values}, can_fail=True)
    box = {"type": "object", "properties": {"v": spec}, "required": ["v"]}
    known[tool] = {"effect": "read", "returns": box}
    keep = {"id": f"set{tag}", "type": "set", "set": {"v": f"$box{tag}.v"}}
    boxed = [{"v": value} for value in values]
    return Source(full, kinds, (call | {"output_key": f"box{tag}"}, keep), known, {}, {tool: boxed})


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    known = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return known.get(type(value), "number")


def sources(tag: str) -> list[Source]:
    """Return every source."""
    declared = [(giver, name) for giver, name in product(GIVERS, TYPES) if giver != "model" or TYPES[name][0]]
    found = [source(giver, name, tag) for giver, name in declared]
    found += [source("literal", value, tag) for value in LITERALS]
    found += [source("expression", text, tag) for text in EXPRESSIONS]
    return found + [source("fallback", one, tag) for one in FALLBACKS]


FIRST, SECOND = sources("a"), sources("b")


def picked(chance: Random) -> tuple[Source, Source, str, str]:
    """Return two sources, mostly of like kinds, a way and a question that one of them can be asked, by chance."""
    first, second = chance.choice(FIRST), chance.choice(SECOND)
    while chance.random() < 0.8 and not first.kinds & second.kinds:
        second = chance.choice(SECOND)
    kinds = first.kinds | second.kinds | {""}
    asked = [text for kind, texts in QUESTIONS.items() for text in texts if kind in kinds]
    ways = WAYS if first.can_fail else WAYS[:-1]
    return first, second, chance.choice(ways), chance.choice(asked)


def program(first: Source, second: Source, way: str, question: str) -> dict[str, Any]:
    """Return the program: the sources, then `pay`, `mark`, and the question, which lacks one of its branches."""
    a, b = ([dict(step) for step in one.steps] for one in (first, second))
    head: list[dict[str, Any]] = []
    if way == "or":
        head = [{"id": "which", "type": "condition", "condition": "$pick", "then": a[0]["id"], "otherwise": b[0]["id"]}]
    if way == "error":
        a[0]["error_step"] = b[0]["id"]
    a[-1]["next_step"] = b[0]["id"] if way == "then" else "p"
    for steps in (a, b):
        for step, after in pairwise(steps):
            step["next_step"] = after["id"]
    b[-1]["next_step"] = "p"
    pay: dict[str, Any] = {"id": "p", "type": "tool", "tool": "pay", "next_step": "m"}
    last: dict[str, Any] = {"id": "y", "type": "tool", "tool": "book", "is_terminal": True}
    if way == "loop":
        pay["max_visits"] = 2
        last = {"id": "y", "type": "tool", "tool": "book", "next_step": b[0]["id"]}
    tail = [
        pay,
        {"id": "m", "type": "tool", "tool": "mark", "next_step": "c"},
        {"id": "c", "type": "condition", "condition": question, "then": "y"},
        last,
    ]
    write = {"effect": "write", "idempotent": True, "returns": {"type": "null"}}
    return {
        "name": f"{first.name}, {way} {second.name}: {question}",
        "inputs": {
            "pick": {"type": "boolean"},
            "n": {"type": "integer", "minimum": 0, "maximum": 5},
            "s": {"type": "string", "maxLength": 2},
        }
        | first.inputs
        | second.inputs,
        "tools": {"pay": write, "mark": write, "book": write} | first.tools | second.tools,
        "guardrails": [
            {"name": "holds", "never": {"tool": "pay"}, "when": question},
            {"name": "fails", "never": {"tool": "pay"}, "when": f"not ({question})"},
            {"name": "booked", "followed_by": {"first": {"tool": "mark"}, "then": {"tool": "book"}}},
        ],
        "steps": [*head, *a, *b, *tail],
    }


class World:
    """Tools and a model that bring the chosen values."""

    def __init__(self, chosen: Mapping[str, Any]) -> None:
        self.chosen = chosen
        self.clock = ManualClock()
        self.booked = 0

    def has(self, name: str) -> bool:
        """Return that there is every tool."""
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Bring the chosen value of a tool."""
        self.booked += name == "book"
        return self._brought(name)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Bring the chosen reply of a step."""
        return ModelReply(self._brought(request.step))

    def _brought(self, place: str) -> Any:
        value = self.chosen.get(place)
        if value is FAILS:
            raise ValueError("it did not happen")
        if value is LATE:
            self.clock.time += 2_000_000
            return None
        return value


def happens(data: dict[str, Any], first: Source, second: Source, way: str) -> set[str]:
    """Return how the question comes out in runs of the program without its rules: `holds`, `fails`, or `breaks`."""
    running = Program.from_dict({name: part for name, part in data.items() if name != "guardrails"})
    brings = [dict.fromkeys(first.values, FAILS)] if way == "error" else _choices(first)
    picks = (True, False) if way == "or" else (True,)
    more = [{"pick": pick, "n": n, "s": "x" * (n % 3)} for n in (0, 3, 5) for pick in picks]
    every = (a | b | c for a, b, c in _spread(brings, _choices(second), more))
    found: set[str] = set()
    for chosen in islice(every, MAX_RUNS):
        world = World(chosen)
        inputs = {name: chosen[name] for name in data["inputs"]}
        machine = unchecked(world, world, MemoryJournal(), clock=world.clock)
        try:
            run = machine.run_sync(running, inputs, run_id="r")
        except RunRefused:
            continue  # an input that the uses of the variable do not admit
        found.update(["holds"] if world.booked else [])
        if run.step == "c" and run.status == "FAILED":
            found.add("fails" if run.reason == "uncovered" else "breaks")
    return found


def _choices(one: Source) -> list[dict[str, Any]]:
    return [dict(zip(one.values, chosen, strict=True)) for chosen in product(*one.values.values())]


def _spread(*lists: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], ...]]:
    """Yield every combination, in an order in which each value comes early."""
    longest = max(map(len, lists))
    for number in range(longest):
        yield tuple(one[number % len(one)] for one in lists)
    yield from product(*lists)
