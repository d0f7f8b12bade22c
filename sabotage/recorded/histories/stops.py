"""Histories of several stops: calls in every place that fail, wait, are in doubt or die, and what settles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, afterwards
from stepward.sabotage.recorded.shared.given import ReplyTable
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.state import Limits

NUMBER: Final = {"type": "number"}
LEASE: Final = 60_000_000


def _tool(id: str, tool: str, x: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "args": {"x": x}, **more}


# -- one call in every place -------------------------------------------------------------------------------------------


def _top(call: dict[str, Any], number: int) -> dict[str, Any]:
    del number
    return {"steps": [call, {"id": "over", "type": "end", "output": 5}]}


def _body(call: dict[str, Any], number: int) -> dict[str, Any]:
    note = {"id": "note", "type": "set", "set": {"sum": "$sum + $item"}}
    carry = {"carry": {"sum": number % 3}} if number % 2 else {}
    steps = [{**call, "args": {"x": "$item"}}, *([note] if carry else [])]
    each = {"id": "each", "type": "for_each", "items": [4, 2, 0], "as": "item", "index_as": "at", "max_items": 3}
    return _top({**each, **carry, "steps": steps, "on_item_error": ("fail", "skip")[number // 2 % 2]}, 0)


def _at_once(call: dict[str, Any], number: int) -> dict[str, Any]:
    each = {"id": "each", "type": "for_each", "items": [4, 2, 0], "as": "item", "max_items": 3, "max_concurrency": 2}
    return _top({**each, "on_item_error": ("fail", "skip")[number % 2], "do": {**call, "args": {"x": "$item"}}}, 0)


def _parallel(call: dict[str, Any], number: int) -> dict[str, Any]:
    two = {**_tool("two", "mail", 2), "depends_on": ["pay1"]} if number % 2 else _tool("two", "mail", 2)
    most = {} if number % 3 else {"max_concurrency": 1}
    subs = [call, two, _tool("three", "look", 3, on_error="skip")]
    return _top({"id": "all", "type": "parallel", **most, "parallel_steps": subs, "output_key": "got"}, 0)


def _branch(call: dict[str, Any], number: int) -> dict[str, Any]:
    other = [_tool("two", ("mail", "ask")[number % 2], 2), {"id": "known", "type": "end", "output": "$two.output"}]
    some = {"one": {"steps": [call, _tool("after", "mail", 3)]}, "other": {"steps": other}}
    return _top({"id": "all", "type": "parallel", "branches": some, "on_error": ("fail", "skip")[number % 2]}, 0)


def _called(call: dict[str, Any], number: int) -> dict[str, Any]:
    inner = {
        "inputs": {"y": NUMBER},
        "steps": [{**call, "args": {"x": "$y"}}, {"id": "out", "type": "end", "output": 2}],
    }
    erring = {"on_error": ("fail", "skip", "retry")[number % 3]}
    one = {"id": "one", "type": "call", "program": "inner", "args": {"y": 3}, **erring}
    two = {"id": "two", "type": "call", "program": "inner", "args": {"y": 4}, "next_step": "over"}
    return {"programs": {"inner": inner}, "steps": [one, two, {"id": "over", "type": "end"}]}


def _deep(call: dict[str, Any], number: int) -> dict[str, Any]:
    data = _called(call, 0)
    one = {"id": "one", "type": "call", "program": "inner", "args": {"y": "$item"}}
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "item", "max_items": 2, "steps": [one]}
    return {**data, "steps": [{**each, "on_item_error": ("skip", "fail")[number % 2]}, {"id": "over", "type": "end"}]}


PLACES: Final[Sequence[Callable[[dict[str, Any], int], dict[str, Any]]]] = (
    *(_top, _body, _at_once, _parallel, _branch, _called, _deep),
)

_RETRY: Final = {"retry": [{"errors": ["Lacking"], "max_attempts": 2, "delay_seconds": 0}, {"errors": ["any"]}]}
EVENTS: Final[Sequence[tuple[str, Mapping[str, Any], Sequence[Any], Sequence[tuple[Any, ...]]]]] = (
    ("pay", {}, ["doubt"], [("settle", "done", 2)]),
    ("pay", {}, [1, "doubt", "doubt"], [("settle", "done", "x"), ("settle", "done", 0), ("settle", "not_done", None)]),
    ("pay", {"on_error": "retry", "max_retries": 1}, ["doubt"], [("settle", "not_done", None)]),
    ("pay", {"on_error": "retry", "max_retries": 2}, ["lack", "doubt"], [("settle", "not_done", None)]),
    ("pay", {"on_error": "skip"}, ["doubt", "lack"], [("settle", "abandon", None)]),
    ("pay", {"on_error": "retry"}, ["lack", "lack", None, "die"], [("die",), ("settle", "not_done", None)]),
    ("mail", {"on_error": "retry", "max_retries": 2}, ["die", "busy"], [("die",), ("die",)]),
    ("mail", _RETRY, ["busy", "busy", "fail"], [("recover",), ("die",)]),
    ("look", _RETRY, ["lack", "busy", "lack", "lack"], [("recover",)]),
    ("look", {"timeout_seconds": 2, "on_timeout": "fallback", "fallback": 0}, ["late", None, "late"], []),
    ("pay", {"timeout_seconds": 2, "on_error": "skip"}, ["late"], [("settle", "done", 0)]),
    ("ask", {"deadline_seconds": 5, "on_error": "skip"}, ["wait", "wait"], [("late", 0), ("answer", 0)]),
    ("ask", {"deadline_seconds": 5, "on_error": "retry"}, ["wait"] * 4, [("late", -1), ("answer", "x"), ("late", 1)]),
    ("sign", {}, ["wait", "doubt"], [("answer", 3), ("settle", "done", 4), ("answer", 3)]),
    ("sign", {"deadline_seconds": 5}, ["wait", "die"], [("work", 0), ("die",), ("settle", "not_done", None)]),
)
"""A tool, how its errors are met, what comes of its calls, and what others do afterwards."""

STOPS: Final = tuple(
    (place, event) for place in range(len(PLACES)) for event in range(len(EVENTS)) if (place + event) % 2 == 0
)


def stop(story: Story, number: int) -> None:
    """Let a call in one of the places stop the run, and settle it."""
    place, event = STOPS[number % len(STOPS)]
    tool, more, script, acts = EVENTS[event]
    data = PLACES[place](_tool("pay1", tool, **more), place + event)
    story.script["pay1"] = list(script)
    story.script["two"] = ["wait"]
    if number % 3 == 0:
        story.policy("house", four_eyes=["sign"], guardrails=[{"name": "twice", "at_most_once": {"tool": "mail"}}])
    story.start(data, {}, by=("ann", None)[number % 2])
    for act in acts:
        _act(story, data, *act)
    story.answer("r", 0, by="bob")
    _act(story, data, "die")
    story.settle("r", "done", 0, by="bob")
    story.answer("r", 1, by="ann")
    if number % 4 == 0:
        afterwards(story, number // 4)
    else:
        story.end()


def _act(story: Story, data: Mapping[str, Any], what: str, *rest: Any) -> None:
    match what:
        case "settle":
            story.settle("r", *rest)
        case "answer":
            story.answer("r", *rest)
        case "die":
            story.recover("r")
            story.at(LEASE)
            story.recover("r")
        case "recover":
            story.recover("r")
        case "late":
            story.at(5_000_000 + rest[0])
            story.recover("r")
        case "work":
            story.at(rest[0])
            story.work(data)


# -- items -------------------------------------------------------------------------------------------------------------

SCRIPTS: Final[Sequence[Sequence[Any]]] = (
    [], ["lack"], [None, "lack"], [None, None, "lack"], ["lack", "lack", "lack"], [0, 7, 0], ["doubt", "lack"],
    [None, "doubt", None, "doubt"],
)  # fmt: skip
ITEMS: Final = tuple(
    (count, script, form)
    for (count, (at, script)) in product(range(4), enumerate(SCRIPTS))
    for form in range(4)
    if (count + at + form) % 2 == 0 and at <= 2 * count + 1
)
"""How many items there are, what comes of the calls, and the form of the step."""


def items(story: Story, number: int) -> None:
    """Go through a list of items, of which some fail or are in doubt."""
    count, script, form = ITEMS[number % len(ITEMS)]
    each: dict[str, Any] = {"id": "each", "type": "for_each", "items": "$list", "as": "item", "index_as": "at"}
    each |= {"max_items": 3 if number % 5 else 2, "on_item_error": ("skip", "fail")[number % 2], "output_key": "got"}
    pay = _tool("pay1", "pay", "$item")
    match form:
        case 0:
            each |= {"do": pay}
        case 1:
            note = {"id": "note", "type": "set", "set": {"sum": "$sum + $pay1.output", "last": "$at"}}
            each |= {"carry": {"sum": 0, "last": -1}, "steps": [pay, note]}
        case 2:
            each |= {"max_concurrency": 2, "steps": [pay, _tool("then", "mail", "$at")]}
        case _:
            rule = {"name": "once", "at_most_once": {"tool": "pay"}}
            again = _tool("again", "pay", "$at", on_error="skip")
            each |= {"guardrails": [rule], "max_concurrency": 3, "steps": [pay, again]}
    over = {"id": "over", "type": "end", "output": ["$got", *(["$sum"] if form == 1 else [])]}
    listed = {"type": "array", "items": NUMBER, "maxItems": 3}
    story.script["pay1"] = list(script)
    story.start({"inputs": {"list": listed}, "steps": [each, over]}, {"list": [5, 0, -2.5][:count]})
    for verdict in ("not_done", "done"):
        story.settle("r", verdict, 0)
    story.end()


# -- times -------------------------------------------------------------------------------------------------------------

TIMES: Final = tuple(
    (wait, deadline, whole, edge)
    for at, (wait, deadline, whole) in enumerate(product((4, 5, 6), (5, None), (5, 7, None)))
    for edge in (-1, 0, 1)
    if (at + edge) % 2 or whole == 5
)
"""Seconds of a wait, of a deadline and of the run, and microseconds from the fifth second on."""


def times(story: Story, number: int) -> None:
    """Let a wait, a deadline and the time of a run pass at, before and after each other."""
    wait, deadline, whole, edge = TIMES[number % len(TIMES)]
    ask = _tool("ask1", "ask", **({} if deadline is None else {"deadline_seconds": deadline}), on_error="skip")
    both = {"one": {"steps": [{"id": "rest", "type": "wait", "seconds": wait}]}, "two": {"steps": [ask]}}
    data: dict[str, Any] = _top({"id": "all", "type": "parallel", "branches": both}, 0)
    data["steps"].insert(1, _tool("mail1", "mail"))
    data |= {} if whole is None else {"timeout_seconds": whole}
    story.script["ask1"] = ["wait"]
    story.start(data, {})
    story.do("due", story.process().due())
    story.at(5_000_000 + edge)
    story.do("due", story.process().due())
    match number % 3:
        case 0:
            story.answer("r", 0)
        case 1:
            story.work(data)
        case _:
            story.recover("r")
    for _ in range(2):
        story.at(1_000_000)
        story.recover("r")
    story.answer("r", 2)
    story.end()


# -- breakers ----------------------------------------------------------------------------------------------------------

_FAILURES: Final[Sequence[Sequence[Any]]] = (["fail"], ["fail", "fail", "fail"], ["lack", "fail", None, "fail"])
BREAKS: Final = tuple(
    (1 + (place + at) % 2, place, script) for place in (0, 1, 5, 6) for at, script in enumerate(_FAILURES)
)


def breaks(story: Story, number: int) -> None:
    """Let calls fail until a breaker opens, in places, and go on after it was closed."""
    after, place, script = BREAKS[number % len(BREAKS)]
    story.more["breaks_after"] = after
    data = PLACES[place](_tool("pay1", ("look", "mail")[number % 2], on_error=("retry", "skip")[number // 2 % 2]), 1)
    story.script["pay1"] = list(script)
    for run in ("r", "r2"):
        story.start(data, {}, run)
        story.notes.add([tuple(one) for one in story.store.switches()], sorted(story.store.opened()))
        story.do("due", story.process().due())
    afterwards(story, 7 + 8 * (number % 3))


# -- people and waivers ------------------------------------------------------------------------------------------------

PEOPLE: Final = tuple(
    (*pair, third)
    for at, pair in enumerate(product(("ann", None, "gate"), ("ann", "bob", "own")))
    for number, third in enumerate(("ann", "bob", None, "gate"))
    if (at + number) % 2 == 0
)


def people(story: Story, number: int) -> None:
    """Let people start, continue and answer, who may not all be one."""
    first, second, third = PEOPLE[number % len(PEOPLE)]
    story.policy("house", four_eyes=["sign"], requires_deadline=number % 2 == 0)
    data = _top(_tool("sign1", "sign", deadline_seconds=50), 0)
    story.script |= {"sign1": ["wait"], "pay1": ["fail"]}
    story.start({"steps": [_tool("pay1", "pay")]}, {}, **_options(first))
    story.go_on("r", data, (), **_options(second))
    for by in (third, first, "carl"):
        story.answer("r~1", 0, by=by)
    story.settle("r~1", "done", 0, by=third)
    story.end()


def _options(who: str | None) -> dict[str, Any]:
    if who in ("gate", "own"):
        return {"envelope": Envelope("gate", "gate 1", settles_own=who == "own")}
    return {"by": who}


WAIVERS: Final = tuple(
    (expiry, edge, later)
    for expiry in ("2025-12-31", "2026-01-01", "2026-01-02")
    for edge in (-1_000_000, 0, 24 * 3_600_000_000)
    for later in (False, True)
)


def waivers(story: Story, number: int) -> None:
    """Let the waiver of a rule expire between two stops, and let the policy be replaced there."""
    expiry, edge, later = WAIVERS[number % len(WAIVERS)]
    waiver = {"program": "p", "rule": "no", "reason": "it has to", "expiry": expiry}
    whole = {"guardrails": [{"name": "no", "never": {"tool": "pay"}}], "waivers": [waiver]}
    story.policy("house", **whole)
    steps = [_tool("ask1", "ask"), _tool("pay1", "pay"), _tool("mail1", "mail"), {"id": "over", "type": "end"}]
    story.script["ask1"] = ["wait"]
    story.start({"steps": steps}, {})
    midnight = -story.clock.time % (24 * 3_600_000_000)
    story.at(midnight + edge)
    if later:
        story.policy("house", **whole, allow=["ask", {"tool": "mail", "when": "$args.x > 0"}, "pay"])
    story.policy(
        "other",
        applies_to=["p*"],
        guardrails=[{"name": "x", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "mail"}}}],
    )
    story.answer("r", 1)
    story.start({"steps": steps[1:]}, {}, "later")
    story.end()


# -- caches and limits -------------------------------------------------------------------------------------------------

SETTINGS: Final[Sequence[Mapping[str, Any]]] = (
    {}, {"temperature": 0}, {"temperature": 0.5}, {"temperature": 1}, {"max_output_tokens": 1}, {"model": "small"},
    {"system": ""}, {"system": "s"}, {"allowed_outputs": ["well", "no"]}, {"allowed_outputs": ["no", "well"]},
    {"returns": {"type": "string"}}, {"returns": {"type": "string", "maxLength": 0}},
    {"model": "small", "temperature": 0}, {"temperature": 0, "max_output_tokens": 1},
    {"prompt": ""}, {"prompt": "well? "}, {"cache": False},
)  # fmt: skip


def caches(story: Story, number: int) -> None:
    """Ask every question of its own settings twice; and show the keys under which the replies are kept."""
    table = ReplyTable()
    story.more["cache"] = table
    for at, settings in enumerate(SETTINGS[8 * number : 8 * number + 9]):
        step = {"id": "think", "type": "llm", "prompt": "well?", "cache": True, **settings}
        for run in ("a", "b"):
            story.script["think"] = ["well" if run == "a" or at % 3 else ("no", 0, 0)]
            story.start({"steps": [step, {"id": "over", "type": "end", "output": "$think.output"}]}, {}, f"{run}{at}")
            story.notes.add(sorted(table.entries.items()))
    story.end()


_ROOM: Final = (*range(300, 308), 469, 470, 471, *range(520, 523))
"""Bytes of a state: the first record has 301 or 302, the outputs 306, and all together 521, or 470 if sensitive."""

SIZES: Final = tuple(
    (limits, is_sensitive, length)
    for is_sensitive in (False, True)
    for limits, length in (
        *((Limits(output_bytes=bytes), 18) for bytes in (19, 20, 21, 50, 51, 52)),
        *((Limits(state_bytes=bytes), 100) for bytes in _ROOM),
        *((Limits(steps=steps), 1) for steps in (1, 4, 5)),
    )
)
"""The limits of a machine, whether texts are sensitive, and how long they are."""


def sizes(story: Story, number: int) -> None:
    """Leave values that are just as large as machines allow, and one letter larger or smaller."""
    for at, (limits, is_sensitive, length) in enumerate(SIZES[number::SIZE_STORIES]):
        text = {"effect": "read", "args": {}, "returns": {"type": "string", "sensitive": is_sensitive}}
        steps: list[dict[str, Any]] = [{"id": f"t{one}", "type": "tool", "tool": "text"} for one in range(3)]
        steps += [{"id": "keep", "type": "set", "set": {"two": ["$t0.output", "$t1.output"]}}]
        steps += [{"id": "over", "type": "end", "output": "$two"}]
        story.more["limits"] = limits
        story.script |= {f"t{one}": ["x" * length] for one in range(3)}
        story.start({"tools": {"text": text}, "steps": steps}, {}, f"r{at}")
    story.end()


SIZE_STORIES: Final = 8
