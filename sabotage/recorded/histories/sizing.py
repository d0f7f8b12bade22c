"""Histories of limits of size: for each place where a value enters a run, the least limit with which it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story
from stepward.vm import Run
from stepward.vm.machine.state import Limits

_TEXT: Final = {"type": "string"}
_OVER: Final = {"id": "over", "type": "end"}
LONG: Final = "long words and é " * 20
HIGHEST: Final = 2047


def _tools(*, is_sensitive: bool) -> Mapping[str, Any]:
    returns = {**_TEXT, "sensitive": True} if is_sensitive else _TEXT
    return {
        "text": {"effect": "read", "args": {}, "returns": returns},
        "take": {"effect": "read", "args": {"x": _TEXT}, "returns": {"type": "number"}},
        "hold": {"effect": "read", "args": {}, "returns": returns, "suspends": True},
        "write": {"effect": "write", "idempotent": False, "args": {}, "returns": returns},
    }


def _text(id: str, tool: str = "text", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, **more}


def _parallel(**more: Any) -> dict[str, Any]:
    return {"id": "all", "type": "parallel", **more}


def _each(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "each", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": list(steps), **more}


def _branch(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"steps": list(steps), **more}


def _out(of: Any = "$t.output", id: str = "out") -> dict[str, Any]:
    return {"id": id, "type": "end", "output": of}


_INNER: Final = {"inputs": {"y": _TEXT}, "steps": [_text("in"), _out(["$y", "$in.output"])]}
_CALL: Final = {"id": "c", "type": "call", "program": "inner", "args": {"y": LONG}}
_SET: Final = {"id": "put", "type": "set", "set": {"one": ["$t.output", "$t.output"], "two": 2}}

PLACES: Final[Mapping[str, list[dict[str, Any]]]] = {
    "output": [_text("t")],
    "twice": [_text("t"), _text("u")],
    "set": [_text("t"), _SET],
    "subs": [_parallel(parallel_steps=[_text("t"), _text("u")])],
    "ordered": [_parallel(parallel_steps=[_text("t"), _text("u", depends_on=["t"])])],
    "branches": [
        _parallel(branches={"a": _branch(_text("t"), _out()), "b": _branch(_text("u"), _out("$u.output", "o"))})
    ],
    "after": [
        _parallel(
            branches={
                "a": _branch(_text("t"), _out()),
                "b": _branch(_text("u"), _out("$a.output", "o"), depends_on=["a"]),
            }
        )
    ],
    "items": [_each(_text("t"), _out())],
    "carried": [
        _each(_text("t"), {"id": "put", "type": "set", "set": {"kept": "$t.output"}}, carry={"kept": f"'{LONG}'"})
    ],
    "at once": [_each(_text("t"), _out(), max_concurrency=2)],
    "called": [_CALL],
    "called twice": [_CALL, {**_CALL, "id": "d"}],
    "called in items": [_each(_CALL)],
    "reply": [{"id": "t", "type": "llm", "prompt": "go"}, {"id": "u", "type": "llm", "prompt": "go"}],
    "fallback": [_text("late", timeout_seconds=1, on_timeout="fallback", fallback=LONG)],
    "answer": [_text("wait", "hold"), _text("t")],
    "done": [_text("doubt", "write"), _text("t")],
    "skipped": [
        _text("t", on_error="skip"),
        _text("u", on_error="skip"),
        {"id": "put", "type": "set", "set": {"a": 1}},
    ],
    "retried": [_parallel(parallel_steps=[_text("t"), _text("fail")], on_error="retry", max_retries=1)],
    "argument": [_text("t"), {**_text("v", "take"), "args": {"x": "it is $t.output"}}],
}

SIZES: Final = tuple(
    (place, limit, is_sensitive)
    for at, (place, limit) in enumerate(product(PLACES, ("output_bytes", "state_bytes", "steps")))
    for is_sensitive in (False, True)
    if (not is_sensitive and (limit != "output_bytes" or at % 2 == 0)) or (is_sensitive and at % 3 == 1)
)
"""A place, a limit of a machine, and whether the values are sensitive."""


def least(story: Story, place: str, limit: str, is_sensitive: bool) -> None:
    """Note the least limit with which a run ends well, and how it ends with that, and with one less."""
    low, high = 1, 64 if limit == "steps" else HIGHEST
    found: dict[int, Any] = {}
    while low < high:
        middle = (low + high) // 2
        found[middle] = _ended(story, place, {limit: middle}, is_sensitive)
        if found[middle][0] == "SUCCESS" and not found[middle][1]:
            high = middle
        else:
            low = middle + 1
    story.notes.add(place, limit, is_sensitive, low, found.get(low), found.get(low - 1))


def _ended(story: Story, place: str, limits: Mapping[str, int], is_sensitive: bool) -> Any:
    """Return how a run ends with some limits: its status, its error and what failed in it."""
    names = ("t", "u", "in")
    story.script = {"late": ["late"], "wait": ["wait"], "doubt": ["doubt"], "fail": ["fail", LONG]}
    story.script |= {name: [LONG] * 4 for name in names}
    programs = {"programs": {"inner": _INNER}} if "called" in place else {}
    program = story.program({"tools": _tools(is_sensitive=is_sensitive), **programs, "steps": [*PLACES[place], _OVER]})
    if program is None:
        return None, None
    story.store = story.new_store()
    machine = story.process(limits=Limits(**limits))
    try:
        run: Run = story.quiet(machine.run(program, {}, run_id="r"))
        if run.suspensions:
            run = story.quiet(machine.resume(run.suspensions[0].token, LONG))
        if run.doubts:
            run = story.quiet(machine.reconcile("r", run.doubts[0].place, "done", LONG))
    except Exception as error:
        return type(error).__name__, str(error)
    kinds = [name for name, one in run.view("trace").items() if name.endswith(".error") and one]
    return run.status, "; ".join(kinds), run.error


STORIES: Final = 10


def sizes(story: Story, number: int) -> None:
    """Play the cases of a story."""
    for one in SIZES[number::STORIES]:
        least(story, *one)
