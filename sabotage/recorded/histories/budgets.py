"""Histories of budgets: what each run of a chain leaves of what the runs before it have left."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, cases_of

FIELDS: Final = {"steps": "max_steps", "tokens": "max_tokens", "cost": "max_cost", "time": "timeout_seconds"}
"""The budgets, each with the field of a program that bounds it."""

FORMS: Final = ("asks", "none", "own less", "own more", "none own", "moved", "moved none", "moved twice", "over")
"""What the run in the middle does: it asks a model or asks none, with a bound of its own, and moves on its way."""

_MOST: Final = {"steps": 40, "tokens": 23, "cost": 11, "time": 60}
_LESS: Final = {"steps": 9, "tokens": 9, "cost": 3, "time": 7}
_GRANTS: Final = {"steps": 3, "tokens": 4, "cost": 1.5, "time": 5}

_REST: Final = ((True, 0), (True, 2), (False, 0), (True, 1))
CHAINS: Final = tuple(
    (kind, form, *_REST[(at + number + at // 4) % 4])
    for at, (form, kind) in enumerate(product(FORMS, FIELDS))
    for number in range(2 if kind in ("tokens", "cost") else 1)
)
"""What is bounded, what the run in the middle does, whether the first one has the bound, and before which run something
is granted."""


def spending(story: Story, kind: str, form: str, has_first: bool, granted: int, run: str) -> None:
    """Play a chain of three runs that spend parts of a budget."""
    bound, by_time = FIELDS[kind], kind == "time"
    for at, one in enumerate(("asks", form, "asks")):
        data = _spends(one, waits=by_time)
        if (at == 0 and has_first) or one.endswith("own"):
            data[bound] = _MOST[kind] - at
        if one == "own less":
            data[bound] = _LESS[kind]
        if one == "own more":
            data[bound] = 10 * _MOST[kind]
        story.script |= {"slow": ["wait"], "slow2": ["wait"], "pay": ["fail"], "think": [("well", 5, 2)]}
        if one == "over":
            story.script["think"] = [("well", 30, 30), ("well", 0, 0)]
        more: dict[str, Any] = {"grant": {kind: _GRANTS[kind]}} if granted == at and at else {}
        if at == 0:
            story.start(data, {"n": 0}, run)
        else:
            story.go_on(_last(story, run), data, {"n": "n"}, **more)
        story.at(2_000_000)
        if one.startswith("moved"):
            for number in range(2 if one == "moved twice" else 1):
                version = _spends(one, waits=by_time)
                story.script |= {"slow": ["wait"], "slow2": ["wait"]}
                story.move(_last(story, run), {**version, "description": f"version {number}"}, **more)
                story.answer(_last(story, run), 0)
        for _ in range(2 if one.startswith("moved") else by_time):
            story.answer(_last(story, run), 0)
        story.at(1_000_000)


def _last(story: Story, run: str) -> str:
    names = [row.run for row in story.store.rows() if row.run == run or row.run.startswith(f"{run}~")]
    return max(names, key=lambda name: (len(name), name)) if names else run


def _spends(form: str, *, waits: bool) -> dict[str, Any]:
    """Return a program that asks a model or not, may wait, and fails; one that is to move waits twice."""
    think = {"type": "llm", "prompt": "go"}
    asks, moves = "none" not in form, form.startswith("moved")
    steps: list[dict[str, Any]] = [
        *([{"id": "think", **think}] if asks else []),
        {"id": "count", "type": "set", "set": {"n": "$n + 1"}},
        *([_ask("slow")] if waits or moves else []),
        *([_ask("slow2")] if moves else []),
        *([{"id": "think2", **think}] if asks and moves else []),
        {"id": "pay", "type": "tool", "tool": "look", "args": {"x": 1}},
        {"id": "over", "type": "end"},
    ]
    return {"inputs": {"n": {"type": "number"}}, "steps": steps}


def _ask(id: str) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": "ask", "args": {"x": "$n"}}


# -- visits ------------------------------------------------------------------------------------------------------------

VISITS: Final = tuple(
    (most, more, pattern)
    for at, (most, more) in enumerate(((2, 0), (3, 1), (4, 0), (3, -1)))
    for number, pattern in enumerate(("ama", "mma", "mmm", "mamm"))
    if (at + number) % 2 == 0 or pattern == "mma"
)
"""The bound of the visits of a step, how much another version has more, and at which stops the run moves."""


def visiting(story: Story, most: int, after: int, pattern: str, run: str) -> None:
    """Let a run come back to a step again and again, and move between."""
    data = _loop(most)
    story.script["slow"] = ["wait"] * 9
    story.start(data, {"n": 0}, run)
    for number, one in enumerate(pattern):
        present = _last(story, run)
        if one == "m":
            story.move(present, {**_loop(most + after), "description": f"version {number}"})
        story.answer(present, number)
        story.at(1_000_000)


def _loop(most: int) -> dict[str, Any]:
    steps = [
        {"id": "count", "type": "set", "set": {"n": "$n + 1"}, "max_visits": most, "next_step": "slow"},
        {"id": "slow", "type": "tool", "tool": "ask", "args": {"x": "$n"}, "max_visits": 7, "next_step": "fork"},
        {"id": "fork", "type": "condition", "condition": "$n < 9", "then": "count", "otherwise": "over"},
        {"id": "over", "type": "end", "output": "$n"},
    ]
    return {"inputs": {"n": {"type": "number"}}, "steps": steps}


# -- parts of a chain that are bounded in several ways -----------------------------------------------------------------

PAIRS: Final = tuple(
    (first, second, tokens, cost)
    for at, (first, second) in enumerate(product(("both", "tokens", "cost", "neither"), repeat=2))
    for tokens, cost in (((5, 2), (10, 1), (2, 4))[at % 3],)
)
"""Which budgets for models the first and the second run have, and what each reply costs."""


def pairs(story: Story, first: str, second: str, tokens: int, cost: int, run: str) -> None:
    """Let a run ask until one of its budgets is used up, and continue it by another one."""
    for at, bounds in enumerate((first, second, "neither")):
        story.script["think"] = [("well", tokens, cost)] * 4
        think = {"id": "think", "type": "llm", "prompt": "go", "max_visits": 4}
        data: dict[str, Any] = {"steps": [think, {"id": "again", "type": "set", "set": {"a": 1}, "next_step": "think"}]}
        data |= {"max_tokens": 11 - at} if bounds in ("both", "tokens") else {}
        data |= {"max_cost": 5 - at} if bounds in ("both", "cost") else {}
        if at == 0:
            story.start(data, {}, run)
        else:
            grant = {name: 3 for name in ("tokens", "cost") if at == 1 or name == "cost"}
            story.go_on(_last(story, run), data, (), grant=grant)


# -- writes ------------------------------------------------------------------------------------------------------------

WRITES: Final = (("m", 0), ("m", 1), ("mg", 0), ("gg", 1), ("mm", 0), ("gg", 0))
"""How a chain goes on, by moves and by continuations, and which of its runs makes the write that others repeat."""


def writes(story: Story, ways: str, at: int, run: str) -> None:
    """Let the last run of a chain repeat a write of an earlier one, that may have moved."""
    pay, over = {"id": "pay", "type": "tool", "tool": "pay", "args": {"x": 1}}, {"id": "over", "type": "end"}
    fails = {"id": "fails", "type": "tool", "tool": "look", "args": {"x": 1}}
    for number, way in enumerate((*ways, "g")):
        story.script = {"slow": ["wait"], "slow2": ["wait"], "fails": ["fail"]}
        own = [{**pay, "id": f"pay{number}"}] if number == at else []
        present = _last(story, run)
        if way == "m":
            steps = (
                [*own, _ask("slow"), _ask("slow2"), fails, over] if not number else [_ask("slow2"), *own, fails, over]
            )
            data: dict[str, Any] = {"inputs": {"n": {"type": "number"}}, "steps": steps}
            if number == 0:
                story.start(data, {"n": 1}, run)
            story.move(_last(story, run), {**data, "description": f"version {number}"})
            story.answer(_last(story, run), 0)
            if number + 1 == len(ways) or ways[number + 1] != "m":
                story.answer(_last(story, run), 0)
        elif number == 0:
            story.start({"steps": [*own, fails, over]}, {}, run)
        else:
            story.go_on(present, {"steps": [*own, {**pay, "on_error": "skip"}, fails, over]}, ())


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 12


CASES: Final = cases_of((spending, CHAINS), (visiting, VISITS), (pairs, PAIRS), (writes, WRITES))


def budgets(story: Story, number: int) -> None:
    """Play the cases of a story."""
    for at, (play, one) in enumerate(CASES[number::STORIES]):
        story.script = {}
        play(story, *one, f"r{at}")
    story.brief()
    last: Mapping[str, Any] = {row.run: row for row in story.store.rows()}
    for run in list(last)[-1:]:
        story.verify(run)
