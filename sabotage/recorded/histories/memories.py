"""Histories of rules: what they remember of the runs before, of who has settled a call, and of what was waived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import Story, cases_of
from stepward.sabotage.recorded.histories.stops import PLACES
from stepward.vm.machine.authority import Envelope

PAY: Final = {"tool": "pay"}
LOOK: Final = {"tool": "look"}
_INPUTS: Final = {name: {"type": "number"} for name in ("a", "b", "c")}
_SAME: Final = {name: name for name in _INPUTS}
_OVER: Final[Mapping[str, Any]] = {"id": "over", "type": "end", "output": "$a"}


def _tool(tool: str, id: str = "", **more: Any) -> dict[str, Any]:
    return {"id": id or tool, "type": "tool", "tool": tool, "args": {"x": 1}, **more}


def _fails(at: int) -> dict[str, Any]:
    """Return the step at which a run fails, so that another one continues it."""
    return _tool("ask", f"fails{at}")


# -- what a guard has read ---------------------------------------------------------------------------------------------

WHENS: Final = ("never", "start", "during", "back", "again")
"""When a run assigns a variable that a guard has read: before its first step, in a step, there with the old value; or
the guard is taken again."""

FRESHNESS: Final = tuple(
    (one, two, ("a", "b", "c")[(at + at // 5) % 3], ("any", "all", "step")[at % 3], at % 4 != 0)
    for at, (one, two) in enumerate(product(WHENS, WHENS))
)


def freshness(  # noqa: PLR0917 - the columns of the table
    story: Story, one: str, two: str, name: str, form: str, fresh: bool, run: str
) -> None:
    """Let a guard of the first run count in the third, though what it has read may be assigned meanwhile."""
    gates: list[Any] = [{"step": f"gate{at}", "branch": "then"} for at in range(3)]
    requirement: Any = {
        "any": {"any_of": [*gates, {"step": "none"}]},
        "all": {
            "all_of": [{"any_of": [gates[0], gates[1]]}, {"any_of": [{"step": "see0", "branch": "then"}, gates[2]]}]
        },
        "step": {"any_of": [{"step": "look0"}, gates[2]]},
    }[form]
    rule = {"name": "seen", "protects": PAY, "requires": requirement, **({} if fresh else {"fresh": False})}
    stated = [] if "again" in (one, two) else [rule]
    if not stated:
        story.policy("seen", guardrails=[rule])
    for at, when in enumerate(("again", one, two)):
        steps: list[dict[str, Any]] = [{"id": "keep", "type": "set", "set": {"kept": "$a + $b"}}]
        if when == "again":
            steps += _gate(f"gate{at}", "$a") + (_gate("see0", "$b") if at == 0 else [])
        if at == 0:
            steps += [_tool("look", "look0", args={"x": "$a"})]
        if when in ("during", "back"):
            steps += [{"id": "put", "type": "set", "set": {name: f"${name}" if when == "back" else "$kept"}}]
        steps += [_tool("pay", f"pay{at}", args={"x": at})] if at else []
        steps += [_fails(at), {**_OVER, "id": "on"}, {**_OVER}]
        for step, following in pairwise(steps):
            if step["type"] == "set":
                step["next_step"] = following["id"]
        data = {"inputs": _INPUTS, "steps": steps, "guardrails": [] if at else stated}
        data = {name: value for name, value in data.items() if value}
        story.script[f"fails{at}"] = ["fail"]
        reads = {**_SAME, name: "kept"} if when == "start" else _SAME
        if at == 0:
            story.start(data, {"a": 1, "b": 2, "c": 3}, run)
        else:
            story.go_on(run if at == 1 else f"{run}~1", data, reads)


def _gate(id: str, name: str) -> list[dict[str, Any]]:
    gate = {"id": id, "type": "condition", "condition": f"{name} < 9", "then": f"{id}_on", "otherwise": "over"}
    return [gate, {"id": f"{id}_on", "type": "set", "set": {f"{id}_seen": 1}}]


# -- what was done in which run ----------------------------------------------------------------------------------------

_RULES: Final[Sequence[Mapping[str, Any]]] = (
    {"exclusive": [LOOK, PAY]}, {"exclusive": [PAY, LOOK]}, {"at_most_once": PAY},
    {"at_most_once": {"effect": "write"}},
    {"followed_by": {"first": LOOK, "then": PAY}, "ends": "any"}, {"followed_by": {"first": PAY, "then": LOOK}},
    {"protects": PAY, "requires": {"any_of": [LOOK, {"step": "other"}]}},
)  # fmt: skip
_DOES: Final = (("look",), ("pay",), ("look", "pay"), ("pay", "look"), ())
_LAST: Final = (("look", "pay"), ("pay", "look"), ("mail", "pay"))
DONE: Final = tuple(
    (rule, first, second, (rule + first + second) % 3, (2 * rule + first + second // 2) % 4)
    for rule, first, second in product(range(len(_RULES)), range(5), range(5))
    if (rule + 2 * first + second) % 4 == 0
)
"""The rule, what each of the runs does, and when the rule comes: with the first program, or before a run."""


def done(  # noqa: PLR0917 - the columns of the table
    story: Story, rule: int, first: int, second: int, last: int, when: int, run: str
) -> None:
    """Let three runs each do a part of what a rule counts."""
    story.policies = []
    stated = {"name": "counts", **_RULES[rule]}
    for at, tools in enumerate((_DOES[first], _DOES[second], _LAST[last])):
        if when == at + 1:
            story.policy("counts", guardrails=[stated])
        steps = [_tool(tool, f"{tool}{at}", args={"x": at}) for tool in tools]
        data: dict[str, Any] = {"steps": [*steps, _fails(at), {"id": "over", "type": "end"}]}
        if when == 0 and at == 0:
            data["guardrails"] = [stated]
        story.script[f"fails{at}"] = ["fail"]
        if at == 0:
            story.start(data, {}, run)
        else:
            story.go_on(run if at == 1 else f"{run}~1", data, ())


# -- a policy that comes later -----------------------------------------------------------------------------------------

_FIRST: Final[Sequence[tuple[str, Sequence[Any], str]]] = (
    ("sign", ["wait"], "answer"), ("pay", ["doubt"], "done"), ("pay", ["doubt", None], "not_done"), ("pay", [], ""),
    ("look", [], ""), ("mail", ["lack"], ""),
)  # fmt: skip
"""The first call, what comes of it, and how it is settled."""

_LATER: Final[Sequence[Mapping[str, Any]]] = (
    {"four_eyes": ["sign"]}, {"four_eyes": ["pay", "sign"]}, {"guardrails": [{"name": "n", "never": PAY}]},
    {"guardrails": [{"name": "n", "never": {"effect": "write"}, "when": "$args.x > 1"}]},
    {"guardrails": [{"name": "n", "at_most_once": {"effect": "write"}}]},
    {"guardrails": [{"name": "n", "exclusive": [LOOK, {"tool": "sign"}]}]},
    {"guardrails": [{"name": "n", "protects": PAY, "requires": {"any_of": [LOOK, {"tool": "sign"}]}}]},
    {"guardrails": [{"name": "n", "followed_by": {"first": PAY, "then": {"tool": "mail"}}, "ends": "any"}]},
    {"allow": ["ask", "look", "mail", {"tool": "pay", "when": "$args.x > 1"}]}, {"allow": ["pay", "ask", "mail"]},
)  # fmt: skip
_WHO: Final = (("ann", "ann"), ("ann", "bob"), (None, "bob"), ("ann", None), ("gate", "bob"), ("gate", None))
"""Who starts a run, and who settles its first call."""

LATER: Final = tuple(
    (first, later, (first + later + number) % len(_WHO), (first + 2 * later + number) % len(PLACES))
    for first, later in product(range(len(_FIRST)), range(len(_LATER)))
    for number in range(2 if later < 2 and first < 3 else 1)
)


def later(story: Story, first: int, later: int, who: int, place: int, run: str) -> None:
    """Bring a policy while a run waits for its second call, and go on; the past may break a rule of it."""
    tool, script, how = _FIRST[first]
    starter, settler = _WHO[who]
    story.policies = []
    data = PLACES[place](_tool(tool, "pay1", on_error="skip"), 1)
    steps = list(data["steps"])
    steps.insert(len(steps) - 1, _tool("ask", "then"))
    if place == 5:  # the second call of the program leads past it
        steps = [{**step, "next_step": "then"} if step["id"] == "two" else step for step in steps]
    steps.insert(len(steps) - 1, _tool("pay", "last", args={"x": 2}))
    story.script |= {"pay1": list(script), "then": ["wait"]}
    envelope = {"envelope": Envelope("gate", "gate 1")} if starter == "gate" else {"by": starter}
    story.start({**data, "steps": steps}, {}, run, **envelope)
    for _ in range(3):
        if how == "answer":
            story.answer(run, 1, by=settler)
        elif how:
            story.settle(run, how, 1, by=settler)
    story.policy("later", **_LATER[later])
    story.recover(run)
    story.answer(run, 1, by="carl")
    if later % 3 == 0:
        story.do("cancel", story.process().cancel(run, by=settler))


# -- waivers -----------------------------------------------------------------------------------------------------------

_WAIVER: Final = {"program": "p", "rule": "no", "reason": "it has to"}
WAIVERS: Final = tuple(
    (comes, waived, way, paying)
    for at, (comes, waived) in enumerate(product(range(4), ("waived", "expired", "not", "other")))
    for way, paying in (((("go", 0), ("go", 1), ("move", 1), ("move", 0))[(at + at // 4) % 4]), ("go", 1))
)
"""When a policy comes, whether it is waived, how the run goes on, and which of the runs does what the rule forbids."""


def waivers(story: Story, comes: int, waived: str, way: str, paying: int, run: str) -> None:
    """Let a policy with a waiver come before a run, within it, before the run behind it or within that."""
    story.policies = []
    expiry = "2025-12-31" if waived == "expired" else "2099-01-01"
    entries = (
        [] if waived == "not" else [{**_WAIVER, "expiry": expiry, **({"program": "q"} if waived == "other" else {})}]
    )
    policy: dict[str, Any] = {
        "guardrails": [{"name": "no", "never": PAY}, {"name": "yes", "at_most_once": {"tool": "mail"}}]
    }
    policy |= {"waivers": entries} if entries else {}
    pays = [_tool("pay", "pay1")] if paying else [_tool("mail", "pay1")]
    ends = [_tool("ask", "second"), *pays, {"id": "over", "type": "end"}]
    start = [*([] if paying else [_tool("pay", "pay0")]), _tool("ask", "first")]
    story.script |= {"first": ["wait"], "second": ["wait"]}
    for at in range(4):
        if comes == at:
            story.policy("house", **policy)
        if at == 0:
            story.start({"steps": [*start, *(ends if way == "move" else [_tool("look", "fails")])]}, {}, run)
        elif at == 1:
            story.script["fails"] = ["fail"]
            if way == "move":
                story.move(run, {"steps": [*start, *ends], "description": "second"}, by="ann")
            story.answer(run, 1)
        elif at == 2 and way == "go":
            story.go_on(run, {"steps": ends}, ())
        elif at == 3:
            story.answer(f"{run}~1", 1)


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 24
CASES: Final = cases_of((freshness, FRESHNESS), (done, DONE), (later, LATER), (waivers, WAIVERS))


def memories(story: Story, number: int) -> None:
    """Play the cases of a story."""
    for at, (play, one) in enumerate(CASES[number::STORIES]):
        story.script, story.policies = {}, []
        play(story, *one, f"r{at}")
        story.verify(f"r{at}")
    story.brief()
