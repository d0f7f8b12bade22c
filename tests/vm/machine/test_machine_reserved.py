"""Fast: attempts that are to come beside other calls are paid for before anything else starts, in every construct.

By day each two of place, first and second construct meet, and every second budget is tried; `STEPWARD_MANY=1` plays all
pairs of constructs, at two paces.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest

from sizes import MANY, square_by_day
from stepward.sabotage.reference import Raised, Reference, Returned
from stepward.vm import ExecutionVM, MemoryJournal, ModelReply, Program, Run, ToolContext
from stepward.vm.machine import decide
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay
from stepward.vm.machine.state import State

TURNS: Final = 40
"""Turns of the event loop that a delay takes."""

TOOLS: Final[dict[str, Any]] = {"fail": {"effect": "read", "args": {}}, "look": {"effect": "read", "args": {}}}

Steps = list[dict[str, Any]]


class Slow(ManualClock):
    """A clock whose delays take some turns of the event loop."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        for _ in range(TURNS):
            await asyncio.sleep(0)


class Failing:
    """Tools, and a model, of which all calls but those of `look` fail, some later than others."""

    def __init__(self, pace: int) -> None:
        self.pace, self.calls = pace, 0

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        del args, context
        return 0 if name == "look" else await self._fails()

    async def complete(self, request: Any) -> ModelReply:
        del request
        return await self._fails()  # type: ignore[no-any-return]

    async def _fails(self) -> Any:
        self.calls += 1
        for _ in range(self.pace * (self.calls % 3)):
            await asyncio.sleep(0)
        raise ValueError("no")


# -- constructs --------------------------------------------------------------------------------------------------------

_RETRY: Final = [{"errors": ["any"], "delay_seconds": 1, "backoff": 1, "max_attempts": 2}]


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "fail", **more}


def tired(name: str, **more: Any) -> dict[str, Any]:
    return call(name, retry=_RETRY, **more)


def look(name: str) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "look"}


def end(name: str) -> dict[str, Any]:
    return {"id": name, "type": "end", "output": 1}


def body(name: str) -> Steps:
    return [tired(name, on_error="skip", next_step=f"{name}_over"), end(f"{name}_over")]


def together(name: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "parallel", "parallel_steps": list(parts), "on_error": "skip", **more}


def each(name: str, steps: Steps, **more: Any) -> dict[str, Any]:
    made = {"id": name, "type": "for_each", "items": [1, 2, 3], "as": f"{name}_item", "on_item_error": "skip"}
    return {**made, "steps": steps, **more}


def again(p: str) -> dict[str, Any]:
    """Return the fields of a step that is tried again as a whole, and then leads to the end of its body."""
    return {"on_error": "retry", "max_retries": 2, "error_step": f"{p}_done"}


MADE: Final[dict[str, Callable[[str], Steps]]] = {
    "a call": lambda p: [tired(f"{p}_a", on_error="skip")],
    "a call without a time": lambda p: [together(f"{p}_o", call(f"{p}_a", on_error="retry", max_retries=2))],
    "a model": lambda p: [{"id": f"{p}_m", "type": "llm", "prompt": "x", "retry": _RETRY, "on_error": "skip"}],
    "sub-steps": lambda p: [together(f"{p}_o", tired(f"{p}_a"), tired(f"{p}_b"))],
    "few sub-steps": lambda p: [together(f"{p}_o", *(tired(f"{p}_{one}") for one in "abc"), max_concurrency=2)],
    "an order": lambda p: [
        together(f"{p}_o", look(f"{p}_l"), *(tired(f"{p}_{one}", depends_on=[f"{p}_l"]) for one in "ab"))
    ],
    "a narrow order": lambda p: [
        together(
            f"{p}_o",
            tired(f"{p}_b"),
            *(tired(f"{p}_z{one}", depends_on=[f"{p}_l"]) for one in "123"),
            look(f"{p}_l"),
            tired(f"{p}_a"),
            max_concurrency=3,
        )
    ],
    "rounds of sub-steps": lambda p: [
        together(f"{p}_o", tired(f"{p}_a"), call(f"{p}_b"), max_concurrency=1) | again(p)
    ],
    "items": lambda p: [each(f"{p}_e", body(f"{p}_a"))],
    "rounds of items": lambda p: [each(f"{p}_e", [tired(f"{p}_a")]) | again(p) | {"on_item_error": "fail"}],
    "items at once": lambda p: [each(f"{p}_e", body(f"{p}_a"), max_concurrency=2)],
    "rounds of items at once": lambda p: [
        each(f"{p}_e", [tired(f"{p}_a")], max_concurrency=2) | again(p) | {"on_item_error": "fail"}
    ],
    "branches": lambda p: [
        {"id": f"{p}_f", "type": "parallel", "branches": {f"{p}_{one}": {"steps": body(f"{p}_{one}x")} for one in "qr"}}
    ],
    "a called program": lambda p: [{"id": f"{p}_c", "type": "call", "program": "called", "on_error": "skip"}],
    "steps": lambda p: [
        call(f"{p}_a", on_error="skip"),
        *({"id": f"{p}_s{one}", "type": "set", "set": {f"v{p}": one}} for one in range(4)),
    ],
}
"""What stands in a branch or an item, by the words for it; its ids begin with the letter that is given."""

OWING: Final = (
    "a call",
    "a call without a time",
    "a model",
    "sub-steps",
    "an order",
    "items at once",
    "a called program",
)
SPENDING: Final = (
    "steps",
    "few sub-steps",
    "rounds of sub-steps",
    "rounds of items",
    "rounds of items at once",
    "branches",
)


def in_branches(one: str, two: str) -> Steps:
    bodies = {name: [*MADE[what](name), end(f"{name}_done")] for name, what in (("x", one), ("y", two))}
    return [{"id": "all", "type": "parallel", "branches": {f"{name}_": {"steps": it} for name, it in bodies.items()}}]


def in_items(one: str, two: str) -> Steps:
    first, second = MADE[one]("x"), MADE[two]("y")
    chosen = {"then": first[0]["id"], "otherwise": second[0]["id"]}
    steps = [{"id": "if", "type": "condition", "condition": "$all_item == 1", **chosen}]
    steps += [*first, end("x_done"), *second, end("y_done")]
    return [each("all", steps, max_concurrency=3)]


def within_a_branch(one: str, two: str) -> Steps:
    inner = [*in_branches(one, two), end("inner_done")]
    return [{"id": "around", "type": "parallel", "branches": {"w_": {"steps": body("w")}, "v_": {"steps": inner}}}]


def made(steps: Steps, **more: Any) -> Program:
    called = {"called": {"inputs": {}, "tools": TOOLS, "steps": body("a")}}
    programs = {"programs": called} if "'program'" in str(steps) else {}
    data = {"name": "reserved", "language": 2, "inputs": {}, "tools": TOOLS, "steps": [*steps, end("last")]}
    return Program.from_dict({**data, **programs, **more})


def played(program: Program, pace: int) -> tuple[Run, MemoryJournal]:
    tools, journal = Failing(pace), MemoryJournal()
    machine = ExecutionVM(tools, tools, journal=journal, checker=None, clock=Slow())
    return asyncio.run(machine.run(program, run_id="r")), journal


def by_the_reference(program: Program) -> Reference:
    reference = Reference(program)
    reference.start({})
    while reference.asked:
        asked = reference.asked[-1]
        reference.answer(asked.step, Returned(0) if asked.tool == "look" else Raised("no"), asked.frame)
    return reference


def wrong_with(steps: Steps, pace: int, lacking: range = range(8)) -> list[str]:
    """Return what is wrong under the last budgets: one that does not suffice must be used up, and never exceeded.

    `lacking` says how many steps the budgets lack.
    """
    need = by_the_reference(made(steps)).steps
    found = []
    for budget in (need - less for less in lacking if less < need):
        program = made(steps, max_steps=budget)
        run, journal = played(program, pace)
        status = "BUDGET_EXCEEDED" if budget < need else "SUCCESS"
        said = f"{run.steps} of {budget} steps, {run.status}, where {need} are needed"
        found += [said] if run.steps > budget or run.status != status else []
        replayed = replay(journal, "r")
        found += [] if replayed is not None and not replayed.faults else [f"{said}: it is not replayed"]
        reference = by_the_reference(program)
        found += [] if reference.status == status and reference.steps <= budget else [f"{said}: the reference parts"]
    return found


PLACES: Final = {"branches": in_branches, "items": in_items, "a branch": within_a_branch}
PAIRS: Final = list(product(MADE, MADE, PLACES)) if MANY else square_by_day(OWING, SPENDING, PLACES)
PACES: Final = (3, 20) if MANY else (3,)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_to_come_in_a_branch_or_an_item_is_paid_for_before_others_start(place: str) -> None:
    found = {
        (one, two, pace): wrong
        for number, (one, two, where) in enumerate(PAIRS)
        for pace in PACES
        if where == place
        and (wrong := wrong_with(PLACES[place](one, two), pace, range(8) if MANY else range(number % 2, 8, 2)))
    }
    assert not found


def owes_nothing(state: State) -> int:
    del state
    return 0


@pytest.mark.parametrize("place", PLACES)
def test_the_machine_that_pays_for_no_sibling_is_found(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "unpaid_attempts", owes_nothing)
    assert any(wrong_with(PLACES[place]("a call", two), 3) for two in SPENDING)


# -- what a decision stands on -----------------------------------------------------------------------------------------


class Paced:
    """Tools that return after so many turns, and fail where a step is named."""

    def __init__(self, failing: str, **turns: int) -> None:
        self.failing, self.turns = failing.split(), turns

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Any, context: ToolContext) -> int:
        del name, args
        for _ in range(self.turns.get(context.step, 0)):
            await asyncio.sleep(0)
        if context.step in self.failing:
            raise ValueError("no")
        return 1


def recorded(tools: Paced, program: Program) -> tuple[Run, list[tuple[str, str]], MemoryJournal]:
    journal = MemoryJournal()
    run = asyncio.run(ExecutionVM(tools, journal=journal, checker=None, clock=Slow()).run(program, run_id="r"))
    records = [json.loads(entry.record) for entry in journal.read("r")]
    return run, [(one["kind"], one["body"].get("step", "")) for one in records], journal


def test_no_sub_step_starts_once_those_to_be_tried_again_have_used_up_the_budget() -> None:
    """`a` waits for its delay, and `b` fails: one step is left for both. Who waits in the process must not matter."""
    tools = Paced("a b", y_l=6, y_b=12, y_z1=20, y_a=0)
    tools.failing = ["y_a", "y_b"]
    run, records, _ = recorded(tools, made(MADE["a narrow order"]("y"), max_steps=8))
    assert (run.status, run.steps) == ("BUDGET_EXCEEDED", 7)
    assert [step for kind, step in records if kind == "intent"] == ["y_b", "y_l", "y_a", "y_z1"]


def test_the_run_of_a_machine_that_paid_for_no_sibling_is_still_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends for a rule where this machine would end it for the budget, which comes first."""
    bodies = {
        "a": body("a"),
        "b": [look("b1"), {"id": "b2", "type": "set", "set": {"x": 1}}, end("b3")],
        "c": [look("c1"), call("c2"), end("c3")],
    }
    steps: Steps = [
        {"id": "all", "type": "parallel", "branches": {f"{name}_": {"steps": it} for name, it in bodies.items()}}
    ]
    rules = [{"name": "not-this", "never": {"step": "c2"}}]
    program = made(steps, guardrails=rules, max_steps=5)
    tools = Paced("a", b1=9, c1=9)
    with monkeypatch.context() as patch:
        patch.setattr(decide, "unpaid_attempts", owes_nothing)
        before, _, journal = recorded(tools, program)
    now, _, _ = recorded(tools, program)
    assert (before.reason, now.reason) == ("guardrail", "max_steps")
    replayed = replay(journal, "r")
    assert replayed is not None
    assert replayed.faults == ()


# -- budgets of models -------------------------------------------------------------------------------------------------


class Costly:
    """A model whose first reply to `late` fails, and whose reply to `other` costs the whole budget."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def complete(self, request: Any) -> ModelReply:
        self.asked.append((request.step, request.attempt))
        if request.step == "late":
            raise ValueError("no")
        for _ in range(8):
            await asyncio.sleep(0)
        return ModelReply("word", tokens=1, cost=1)


LATE: Final = {"id": "late", "type": "llm", "prompt": "x", "retry": _RETRY, "on_error": "skip"}
OTHER: Final = {"id": "other", "type": "llm", "prompt": "x"}
FIRST: Final = {"id": "if", "type": "condition", "condition": "$all_item == 1", "then": "late", "otherwise": "other"}
TALKS: Final[dict[str, dict[str, Any]]] = {
    "sub-steps": together("all", look("l"), *({**one, "depends_on": ["l"]} for one in (LATE, OTHER))),
    "branches": {
        "id": "all",
        "type": "parallel",
        "branches": {f"{one['id']}_": {"steps": [one, end(f"{one['id']}_end")]} for one in (LATE, OTHER)},
    },
    "items": each(
        "all",
        [FIRST, {**LATE, "next_step": "over"}, {**OTHER, "next_step": "over"}, end("over")],
        items=[1, 2],
        max_concurrency=2,
    ),
}


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("budget", ["max_tokens", "max_cost"])
def test_a_model_is_not_asked_after_a_delay_in_which_a_reply_has_used_up_the_budget(talk: str, budget: str) -> None:
    model, journal = Costly(), MemoryJournal()
    machine = ExecutionVM(Failing(0), model, journal=journal, checker=None, clock=Slow())
    run = asyncio.run(machine.run(made([TALKS[talk]], **{budget: 1}), run_id="r"))
    assert (run.status, run.tokens) == ("BUDGET_EXCEEDED", 1)
    assert model.asked == [("late", 1), ("other", 1)]
    replayed = replay(journal, "r")
    assert replayed is not None
    assert replayed.faults == ()
