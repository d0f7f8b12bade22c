"""Histories of what stops a run from outside: open breakers, people who cancel or erase, and other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, cases_of, play_cases, tool_step, with_cache
from stepward.sabotage.recorded.histories.stops import EVENTS, LEASE, PLACES
from stepward.vm.journal.store import Switch
from stepward.vm.machine.state import Limits


def _model(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "llm", "prompt": "go", **more}


# -- open breakers -----------------------------------------------------------------------------------------------------

_OVER: Final = {"id": "over", "type": "end"}
_DEEP: Final = {"steps": [_model("m"), tool_step("t", "look"), {"id": "out", "type": "end"}]}
_INNER: Final = {
    "programs": {"deep": _DEEP},
    "steps": [
        _model("m"),
        tool_step("t", "pay"),
        {"id": "d", "type": "call", "program": "deep"},
        {"id": "out", "type": "end"},
    ],
}


def _programs(*steps: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"programs": {"inner": _INNER, "deep": _DEEP}, "steps": [*steps, _OVER]}


_HELD: Final[Sequence[Mapping[str, Any]]] = (
    {"steps": [_model("m", cache=True), tool_step("t", "pay"), tool_step("u", "look"), _OVER]},
    _programs({"id": "c", "type": "call", "program": "inner"}, tool_step("u", "look")),
    _programs({"id": "c", "type": "call", "program": "deep", "on_error": "skip"}, _model("m")),
    {
        "steps": [
            {
                "id": "all",
                "type": "parallel",
                "parallel_steps": [_model("m"), tool_step("t", "pay"), tool_step("u", "look", depends_on=["t"])],
            },
            _OVER,
        ]
    },
    _programs(
        {
            "id": "all",
            "type": "parallel",
            "branches": {
                "a": {"steps": [tool_step("t", "pay"), {"id": "ea", "type": "end"}]},
                "b": {"steps": [{"id": "c", "type": "call", "program": "deep"}, {"id": "eb", "type": "end"}]},
                "d": {"steps": [_model("m"), {"id": "ed", "type": "end"}]},
            },
        }
    ),
    {
        "steps": [
            {
                "id": "each",
                "type": "for_each",
                "items": [1, 2],
                "as": "i",
                "max_items": 2,
                "max_concurrency": 2,
                "steps": [tool_step("t", "pay", "$i"), _model("m")],
            },
            _OVER,
        ]
    },
    {
        "steps": [
            tool_step("t", "look", retry=[{"errors": ["any"], "max_attempts": 2, "delay_seconds": 5}]),
            tool_step("u", "pay"),
            _OVER,
        ]
    },
    {"steps": [tool_step("w", "ask"), _model("m"), tool_step("t", "pay"), _OVER]},
)
_SWITCHES: Final = ("tool:pay", "tool:look", "program:p", "program:inner", "program:deep")

SWITCHED: Final = tuple(
    (form, switch) for form in range(len(_HELD)) for switch in _SWITCHES[: 5 if form in (1, 2, 4) else 3]
)
"""The form of a program, and the breaker that is open."""


def switched(story: Story, form: int, switch: str, run: str) -> None:
    """Run a program while a breaker is open, that may hold it, then with another one, and then with none."""
    story.script = {"w": ["wait"], "t": ["fail"] if form == 6 else []}
    _switch(story, switch, True)
    story.start(_HELD[form], {}, run)
    story.answer(run, 1)
    story.at(10_000_000)
    story.recover(run)
    other = _SWITCHES[(_SWITCHES.index(switch) + 1 + form) % 5]
    _switch(story, other, True)
    _switch(story, switch, False)
    story.recover(run)
    _switch(story, other, False)
    story.recover(run)


def _switch(story: Story, name: str, is_open: bool) -> None:
    story.store.switch(Switch(name, is_open, story.clock.time / 1e6, "by hand", "bob"))


_RESULTS: Final = ("fail", "lack", "doubt", "late", None)
COUNTED: Final = tuple(
    (results, tools, (at + at // 5) % 3)
    for at, results in enumerate(product(_RESULTS, repeat=3))
    for tools in (("look", "look", "look"), ("mail", "mail", "mail"), ("look", "mail", "look"))[at % 3 :][:1]
    if at % 2 == 0
)
"""What comes of three calls, of which tools, and how many failures open a breaker."""


def counted(story: Story, results: Sequence[Any], tools: Sequence[str], most: int, run: str) -> None:
    """Let calls fail in a row, or not in a row, and show the breakers."""
    story.more["breaks_after"] = 1 + most
    story.script = {f"c{at}": [one] for at, one in enumerate(results)}
    steps = [tool_step(f"c{at}", tool, timeout_seconds=1, on_error="skip") for at, tool in enumerate(tools)]
    story.start({"steps": [*steps, tool_step("last", "look"), _OVER]}, {}, run)
    story.notes.add(sorted(story.store.opened()))
    for name in story.store.opened():
        _switch(story, name, False)
    del story.more["breaks_after"]


# -- others ------------------------------------------------------------------------------------------------------------

_OTHERS: Final = ("cancel", "erase", "policy", "limits", "cache", "bare", "short", "twice")
OTHERS: Final = tuple(
    (place, event, _OTHERS[(3 * place + event) % 8])
    for place, event in product(range(len(PLACES)), range(len(EVENTS)))
    if (place + event) % 2
)
"""The place of a call, what comes of it, and who comes between."""


def others(story: Story, place: int, event: int, who: str, run: str) -> None:
    """Let a call stop a run, and another machine or person come before it is settled."""
    tool, more, script, _ = EVENTS[event]
    data = PLACES[place](tool_step("pay1", tool, **more), place + event)
    story.script = {"pay1": list(script), "two": ["wait"]}
    story.policies = []
    story.start(data, {}, run, by="ann")
    _come(story, who, run)
    story.settle(run, "not_done" if event % 2 else "done", 1, by="bob")
    story.answer(run, 1, by="bob")
    story.at(LEASE)
    story.recover(run)
    story.settle(run, "done", 1)
    story.more.pop("limits", None)
    story.more.pop("lease_seconds", None)
    if place % 2:
        story.do("cancel", story.process().cancel(run, by="carl"))


def _come(story: Story, who: str, run: str) -> None:
    match who:
        case "cancel" | "twice":
            for by in ("bob", "carl")[: 2 if who == "twice" else 1]:
                story.do("cancel", story.process().cancel(run, by=by))
        case "erase":
            story.do("erase", story.process().erase(run, by="bob"))
        case "policy":
            story.policy("later", guardrails=[{"name": "n", "at_most_once": {"effect": "write"}}], four_eyes=["sign"])
        case "limits":
            story.more["limits"] = Limits(steps=2)
        case "cache":
            with_cache(story)
        case "bare":
            story.is_bare = True
            story.recover(run)
            story.answer(run, 2)
            story.settle(run, "not_done")
            story.is_bare = False
        case "short":
            story.more["lease_seconds"] = 1
            story.at(2_000_000)
            story.recover(run)


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 16
CASES: Final = cases_of((switched, SWITCHED), (counted, COUNTED), (others, OTHERS))


def holding(story: Story, number: int) -> None:
    """Play the cases of a story."""
    play_cases(story, CASES[number::STORIES])
