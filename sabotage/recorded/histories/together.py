"""Histories of what goes on at once: several waits and deadlines, and errors of parts that depend on one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, cases_of, play_cases, tool_step

NUMBER: Final = {"type": "number"}


# -- several waits at once ---------------------------------------------------------------------------------------------

_TIMES: Final = tuple(permutations((2, 3, 5)))
_KINDS: Final = ("rest", "ask", "retry", "sign", "call")
_FORMS: Final = ("branches", "after", "subs", "ordered", "items", "each", "called")

WAITS: Final = tuple(
    (form, _TIMES[(at + turn) % 6], kinds, (at + turn) % 4)
    for turn, form in enumerate(_FORMS)
    for at, kinds in enumerate(
        (
            *(("rest", "ask", "rest"), ("ask", "ask", "ask"), ("rest", "rest", "rest"), ("ask", "sign", "rest")),
            *(("retry", "ask", "rest"), ("retry", "retry", "ask"), ("call", "ask", "sign"), ("sign", "call", "retry")),
        )
    )
    if form in ("branches", "after") or at in (1, 3, 5, 7)
)
"""How three parts go on at once, how many seconds each waits, for what, and what others do meanwhile."""


def waits(story: Story, form: str, times: Sequence[int], kinds: Sequence[str], way: int, run: str) -> None:
    """Let three parts wait for something, and let the time pass to the end of each wait."""
    story.script = {}
    data = _waiting(form, times, kinds)
    for name in "abc":
        story.script |= {f"ask_{name}": ["wait"] * 2, f"sign_{name}": ["wait"], f"retry_{name}": ["busy", "busy"]}
    story.script |= {"ask_all": ["wait"] * 6}
    start = story.clock.time
    story.start(data, {}, run)
    for seconds, edge in ((2, -1), (2, 0), (3, 0), (5, way - 2)):
        story.clock.time = start + 1_000_000 * seconds + edge
        story.do("due", story.process().due())
        if (way + seconds) % 4 == 0:
            story.answer(run, 7, by="bob", at=seconds % 3)
        elif (way + seconds) % 4 == 1 and seconds > 2:
            story.settle(run, "done", 7, at=seconds % 2)
        if edge == -1 and way == 3:
            story.answer(run, 8, at=1)
        story.recover(run)
    if way == 1:
        story.do("cancel", story.process().cancel(run))
    for _ in range(3):
        story.settle(run, "done", 1)
        story.answer(run, 1)
    story.recover(run)


def _waiting(form: str, times: Sequence[int], kinds: Sequence[str]) -> dict[str, Any]:
    over = {"id": "over", "type": "end", "output": "$all.output"}
    parts = {name: _part(name, kind, seconds) for name, kind, seconds in zip("abc", kinds, times, strict=True)}
    inner = {
        "inputs": {"s": NUMBER},
        "steps": [
            tool_step("ask_in", "ask", "$s", deadline_seconds=4),
            {"id": "r", "type": "wait", "seconds": "$s"},
            {"id": "out", "type": "end"},
        ],
    }
    programs = {"programs": {"inner": inner}} if "call" in kinds and form in ("branches", "after") else {}
    match form:
        case "branches" | "after":
            later = {"c": ["a"]} if form == "after" else {}
            branches: dict[str, Any] = {
                name: {"steps": [step, {"id": f"{name}_end", "type": "end", "output": seconds}]}
                | ({"depends_on": later[name]} if name in later else {})
                for (name, step), seconds in zip(parts.items(), times, strict=True)
            }
            return {**programs, "steps": [{"id": "all", "type": "parallel", "branches": branches}, over]}
        case "subs" | "ordered" | "called":
            subs = [
                tool_step(
                    f"{kind if kind in ('ask', 'sign', 'retry') else 'ask'}_{name}",
                    "sign" if kind == "sign" else "ask",
                    seconds,
                    **({"retry": _RETRY} if kind == "retry" else {"deadline_seconds": seconds, "on_error": "skip"}),
                )
                for name, kind, seconds in zip("abc", kinds, times, strict=True)
            ]
            if form != "subs":
                subs[2]["depends_on"] = [subs[0]["id"]]
            if form == "called":
                called = {
                    "steps": [{"id": "in", "type": "parallel", "parallel_steps": subs}, {"id": "out", "type": "end"}]
                }
                all_ = {"id": "all", "type": "call", "program": "called", "on_error": "skip"}
                return {"programs": {"called": called}, "steps": [all_, over]}
            return {"steps": [{"id": "all", "type": "parallel", "parallel_steps": subs}, over]}
        case "items":
            each = {
                "id": "all",
                "type": "for_each",
                "items": list(times),
                "as": "item",
                "max_items": 3,
                "max_concurrency": 3,
            }
            steps = [
                tool_step("ask_all", "ask", "$item", deadline_seconds=4, on_error="skip"),
                {"id": "rest", "type": "wait", "seconds": "$item"},
            ]
            return {
                "steps": [{**each, "steps": steps[1:] if kinds[0] == "retry" else steps, "on_item_error": "skip"}, over]
            }
    each = {"id": "all", "type": "for_each", "items": list(times), "as": "item", "max_items": 3}
    return {
        "steps": [
            {**each, "steps": [tool_step("ask_all", "ask", "$item", deadline_seconds=2)], "on_item_error": "skip"},
            over,
        ]
    }


_RETRY: Final = [{"errors": ["Busy"], "max_attempts": 3, "delay_seconds": 2, "backoff": 2}]


def _part(name: str, kind: str, seconds: int) -> dict[str, Any]:
    match kind:
        case "rest":
            return {"id": f"rest_{name}", "type": "wait", "seconds": seconds}
        case "retry":
            retry = [{"errors": ["Busy"], "max_attempts": 3, "delay_seconds": seconds, "backoff": 1}]
            return tool_step(f"retry_{name}", "look", seconds, retry=retry)
        case "call":
            return {
                "id": f"call_{name}",
                "type": "call",
                "program": "inner",
                "args": {"s": seconds},
                "on_error": "skip",
            }
    return tool_step(f"{kind}_{name}", kind, seconds, deadline_seconds=seconds, on_error="skip")


# -- errors of parts ---------------------------------------------------------------------------------------------------

_COMES: Final = ("well", "lack", "busy", "fail")
_SHAPES: Final[Sequence[Mapping[str, Sequence[str]]]] = (
    {},
    {"b": "a"},
    {"a": "b", "c": "b"},
    {"c": "ab"},
    {"b": "a", "c": "b"},
)
"""What depends on what. A part may come before the one that it depends on."""

_MEETS: Final[Sequence[Mapping[str, Any]]] = (
    {"catch": [{"errors": ["Lacking"], "then": "one"}, {"errors": ["Busy", "Unexpected"], "then": "two"}]},
    {"catch": [{"errors": ["Dependency"], "then": "one"}, {"errors": ["any"], "then": "two"}]},
    {"on_error": "skip"}, {"on_error": "retry", "max_retries": 1}, {"error_step": "two"},
)  # fmt: skip

ERRORS: Final = tuple(
    (comes, shape, (at + shape + turn) % 5, ("subs", "branches")[turn])
    for at, comes in enumerate(product(_COMES, repeat=3))
    for shape in range(len(_SHAPES))
    for turn in range(2)
    if (at + shape + 3 * turn) % 6 == 0 and any(one != "well" for one in comes)
)
"""What comes of three parts, what depends on what, how the step meets errors, and what the parts are."""


def errors(story: Story, comes: Sequence[str], shape: int, meets: int, form: str, run: str) -> None:
    """Let parts fail, of which others depend, and show where the error leads and what it is called."""
    story.script = {f"do_{name}": [None if one == "well" else one] for name, one in zip("abc", comes, strict=True)}
    needs = {name: list(before) for name, before in _SHAPES[shape].items()}
    all_: dict[str, Any] = {"id": "all", "type": "parallel", "next_step": "over"}
    if form == "subs":
        subs = [
            tool_step(
                f"do_{name}",
                "look",
                1,
                **({"depends_on": [f"do_{one}" for one in needs[name]]} if name in needs else {}),
            )
            for name in "abc"
        ]
        if meets % 2:
            subs[0]["on_error"] = "skip"
        all_ |= {"parallel_steps": subs, **_MEETS[meets]}
    else:
        all_ |= {
            "branches": {
                name: {"steps": [tool_step(f"do_{name}", "look"), {"id": f"end_{name}", "type": "end", "output": name}]}
                | ({"depends_on": needs[name]} if name in needs else {})
                for name in "abc"
            }
        }
        all_ |= _MEETS[2] if meets == 3 else _MEETS[meets]
    known = [
        {"id": name, "type": "end", "outcome": "failure", "output": ["$all.error_name", "$all.error"]}
        for name in ("one", "two")
    ]
    steps = [
        all_,
        *(known if "catch" in all_ else known[1:] if "error_step" in all_ else []),
        {"id": "over", "type": "end"},
    ]
    story.start({"steps": steps}, {}, run)


# -- attempts ----------------------------------------------------------------------------------------------------------

_MET: Final[Sequence[Mapping[str, Any]]] = (
    {"on_error": "fail"},
    {"on_error": "skip"},
    {"on_error": "retry", "max_retries": 2},
    {
        "retry": [
            {"errors": ["Lacking", "Busy"], "max_attempts": 2, "delay_seconds": 1},
            {"errors": ["Timeout"], "max_attempts": 3},
        ]
    },
    {"retry": [{"errors": ["any"], "max_attempts": 2, "delay_seconds": 3, "max_delay_seconds": 4}]},
    {"on_error": "retry", "max_retries": 1, "on_timeout": "fallback", "fallback": 9},
)
_ATTEMPTS: Final = ("lack", "late", "doubt", "die", "bad", "busy")

ATTEMPTS: Final = tuple(
    (tool, pair, met, (at + met) % 4)
    for turn, tool in enumerate(("pay", "mail", "look"))
    for at, pair in enumerate(product(_ATTEMPTS, _ATTEMPTS))
    for met in range(len(_MET))
    if (at + at // 6 + met + 2 * turn) % 9 == 0
)
"""A tool, what comes of its first attempts, how errors are met, and how a doubt is settled."""


def attempts(story: Story, tool: str, pair: Sequence[str], met: int, way: int, run: str) -> None:
    """Let attempts fail, time out, die or be in doubt, one after the other, and settle what is in doubt."""
    story.script = {"try": [*pair, *pair[:1]]}
    story.script["try"] = ["no number" if one == "bad" else one for one in story.script["try"]]
    step = tool_step("try", tool, timeout_seconds=2, **_MET[met])
    story.start({"steps": [step, {"id": "over", "type": "end", "output": 1}]}, {}, run)
    for number in range(3):
        found = story.read(run)
        if found is None or found.is_over:
            return
        if found.doubts:
            story.settle(run, ("done", "not_done", "not_done", "abandon")[(way + number) % 4], 3)
        else:
            story.at(60_000_000)
            story.recover(run)


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 16
CASES: Final = cases_of((waits, WAITS), (errors, ERRORS), (attempts, ATTEMPTS))


def together(story: Story, number: int) -> None:
    """Play the cases of a story."""
    play_cases(story, CASES[number::STORIES])
