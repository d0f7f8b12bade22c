"""Fast: what branches and items at once find out is sealed in the same places, whichever of them comes first."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any, Final

import pytest

from stepward.sabotage.reference import Reference, Returned
from stepward.vm import ExecutionVM, MemoryJournal, Program, Suspend, ToolContext
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.known import Known
from stepward.vm.machine.replay import replayer

SECRET: Final = "DE89370400440532013000"
TOOLS: Final[dict[str, Any]] = {
    "find": {"effect": "read", "args": {}, "returns": {"type": "string", "sensitive": True}},
    "say": {"effect": "read", "args": {}, "returns": {"type": "string"}},
    "fail": {"effect": "read", "args": {}},
    "wait": {"effect": "read", "args": {}, "suspends": True, "returns": {"type": "string"}},
}
PACES: Final = (0, 7, 14)

Steps = list[dict[str, Any]]


def call(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **more}


def end(name: str) -> dict[str, Any]:
    return {"id": name, "type": "end", "output": 1}


def branches(**bodies: Steps) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {}
    for name, steps in bodies.items():
        *needs, own = name.split("_after_")[::-1]
        made[f"in_{own}"] = {"steps": [*steps, end(f"{own}_end")]}
        made[f"in_{own}"] |= {"depends_on": [f"in_{one}" for one in needs]} if needs else {}
    return {"id": "all", "type": "parallel", "branches": made}


def together(name: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": "parallel", "parallel_steps": list(parts)}


SHAPES: Final[dict[str, tuple[Steps, str]]] = {
    "branches": (
        [
            branches(x=[call("a", "find"), call("own", "say")], y=[call("b", "say")], z=[call("c", "say")]),
            call("after", "say"),
        ],
        "a own after",
    ),
    "an error in a branch": (
        [branches(x=[call("a", "find")], y=[call("b", "fail", on_error="skip")], z=[call("c", "say")])],
        "a",
    ),
    "sub-steps in a branch": (
        [branches(x=[together("p", call("a", "find"), call("b", "say")), call("own", "say")], y=[call("c", "say")])],
        "a own",
    ),
    "a branch behind another": (
        [branches(x=[call("a", "find")], y_after_x=[call("b", "say")], z=[call("c", "say")])],
        "a b",
    ),
    "branches in a branch": (
        [
            branches(
                x=[
                    {
                        "id": "inner",
                        "type": "parallel",
                        "branches": {
                            "in_p": {"steps": [call("a", "find"), end("p_end")]},
                            "in_q": {"steps": [call("b", "say"), end("q_end")]},
                        },
                    },
                    call("own", "say"),
                ],
                y=[call("c", "say")],
            ),
            call("after", "say"),
        ],
        "a own after",
    ),
    "items at once": (
        [
            {
                "id": "each",
                "type": "for_each",
                "items": [1, 2, 3],
                "as": "x",
                "max_concurrency": 3,
                "steps": [
                    {
                        "id": "which",
                        "type": "condition",
                        "cases": [{"when": "$x == 1", "then": "a"}, {"when": "$x == 2", "then": "b"}],
                        "otherwise": "c",
                    },
                    call("a", "find", next_step="own"),
                    call("own", "say", next_step="over"),
                    call("b", "say", next_step="over"),
                    call("c", "say", next_step="over"),
                    end("over"),
                ],
            },
            call("after", "say"),
        ],
        "a own after",
    ),
    "a list in a branch": (
        [
            branches(
                x=[
                    {
                        "id": "each",
                        "type": "for_each",
                        "items": [1, 2],
                        "as": "i",
                        "steps": [call("a", "find"), call("own", "say"), end("over")],
                    }
                ],
                y=[call("b", "say"), call("c", "say")],
            )
        ],
        "a own",
    ),
    "a delivery": (
        [branches(x=[call("a", "find")], y=[call("b", "wait")], z=[call("c", "say")])],
        "a b",
    ),
}
"""The steps of a program, and those of which the outputs are sealed, by the words for what runs at once."""


class Paced:
    """Tools that return what is sensitive, or a text with it, after so many turns of the event loop."""

    def __init__(self, paces: dict[str, int]) -> None:
        self.paces = paces

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        del args
        for _ in range(self.paces.get(context.step, 0)):
            await asyncio.sleep(0)
        if name == "fail":
            raise ValueError(f"there is no {SECRET}")
        return Suspend("who?") if name == "wait" else SECRET if name == "find" else f"paid to {SECRET}"


async def play(machine: ExecutionVM, program: Program) -> str:
    run = await machine.run(program, run_id="r")
    while run.suspensions:
        run = await machine.resume(run.suspensions[0].token, f"it is {SECRET}")
    assert run.status == "SUCCESS"
    return str(run.trace_hash)


def told(shape: str, paces: tuple[int, ...]) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return the trace hash of a run, the steps whose outputs are sealed, and those whose errors are redacted."""
    program = Program.from_dict(
        {"name": "beside", "language": 2, "inputs": {}, "tools": TOOLS, "steps": SHAPES[shape][0]}
    )
    journal = MemoryJournal()
    tools = Paced(dict(zip("abc", paces, strict=True)))
    trace = asyncio.run(play(ExecutionVM(tools, journal=journal, checker=None, clock=ManualClock()), program))
    assert verify(journal, "r", replay=replayer(journal, "r")).faults == ()
    records = [json.loads(entry.record) for entry in journal.read("r")]
    ended = [(one["body"]["step"], one["body"]) for one in records if one["body"].get("kind") in ("success", "skipped")]
    outputs = [(step, str(body["output"])) for step, body in ended if "output" in body]
    errors = frozenset(step for step, body in ended if "[sensitive]" in str(body.get("error")))
    return trace, frozenset(step for step, output in outputs if SECRET not in output and step in TOLD), errors


TOLD: Final = ("a", "b", "c", "own", "after")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_sealed_does_not_depend_on_who_comes_first(shape: str) -> None:
    found = {told(shape, paces) for paces in permutations(PACES)}
    assert len(found) == 1
    ((_, sealed, errors),) = found
    assert sealed == set(SHAPES[shape][1].split())
    assert not errors


@pytest.mark.parametrize("shape", ["branches", "an error in a branch", "sub-steps in a branch", "items at once"])
def test_a_machine_that_knows_at_once_what_siblings_find_out_is_caught(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Known, "_places", lambda self, happened: [()])
    assert len({told(shape, paces) for paces in permutations(PACES)}) > 1


def given(name: str, tool: str, *needs: str) -> dict[str, Any]:
    """Return a branch whose output is that of its call."""
    steps = [call(name, tool), {"id": f"{name}_end", "type": "end", "output": f"${name}.output"}]
    return {"steps": steps, "depends_on": [f"in_{one}" for one in needs]} if needs else {"steps": steps}


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_the_reference_seals_the_same(order: tuple[str, ...]) -> None:
    bodies = {
        "in_a": given("a", "find"),
        "in_b": given("b", "say"),
        "in_c": given("c", "say"),
        "in_d": given("d", "say", "a"),
    }
    steps = [{"id": "all", "type": "parallel", "branches": bodies}, call("after", "say")]
    program = Program.from_dict({"name": "beside", "language": 2, "inputs": {}, "tools": TOOLS, "steps": steps})
    tools = Paced(dict(zip(order, PACES, strict=True)))
    run = ExecutionVM(tools, journal=MemoryJournal(), checker=None, clock=ManualClock()).run_sync(program)
    reference = Reference(program)
    reference.start({})
    while reference.asked:
        asked = next((one for name in order for one in reference.asked if one.step == name), reference.asked[0])
        reference.answer(asked.step, Returned(SECRET if asked.tool == "find" else f"paid to {SECRET}"), asked.frame)
    hidden = run.view("tool").keys() - run.view("model").keys()
    assert sorted(hidden) == sorted(reference.hidden) == ["after.output", "all.output", "in_a.output", "in_d.output"]
