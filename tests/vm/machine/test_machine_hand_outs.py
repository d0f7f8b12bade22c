"""What the machine hands to tools, models and callers is a copy, also for who changes it past its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from machines import unchecked
from stepward.sabotage.attacks.entries import spoil
from stepward.vm import MemoryJournal, ModelReply, Program, Run

ARGUMENTS: dict[str, dict[str, Any]] = {
    "left out": {},
    "an empty object": {"args": {}},
    "an object in it": {"args": {"a": {}}},
    "a list in it": {"args": {"a": [{}, {"b": 1}]}},
    "a reference": {"args": {"a": "$x"}},
    "a reference in it": {"args": {"a": {"b": "$x", "c": {}}}},
}


def tool_step(args: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a step that calls the tool."""
    return {"id": "t", "type": "tool", "tool": "a", **args, **more}


def _placed(place: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
    step = tool_step(args, is_terminal=True)
    match place:
        case "a step":
            return [tool_step(args)]
        case "a sub-step":
            return [
                {
                    "id": "p",
                    "type": "parallel",
                    "parallel_steps": [tool_step(args), {"id": "u", "type": "tool", "tool": "a"}],
                }
            ]
        case "an item":
            return [{"id": "f", "type": "for_each", "items": [1, 2], "as": "one", "max_items": 2, "steps": [step]}]
        case "a branch":
            return [{"id": "b", "type": "parallel", "branches": {"one": {"steps": [step]}}}]
        case _:
            return [{"id": "c", "type": "call", "program": "other", "args": {"x": "$x"}}]


PLACES = ("a step", "a sub-step", "an item", "a branch", "a called program")


def _program(place: str, args: Mapping[str, Any]) -> Program:
    last = {"id": "e", "type": "end", "output": {"empty": {}, "list": [{}], "x": "$x"}}
    declared = {"inputs": {"x": {"type": "object"}}, "tools": {"a": {"effect": "read"}}}
    called = {**declared, "steps": [tool_step(args, is_terminal=True)]}
    programs = {"programs": {"other": called}} if place == "a called program" else {}
    steps = [*_placed(place, args), last]
    return Program.from_dict({"name": "p", "language": 2, **declared, **programs, "steps": steps})


class Spoiling:
    """Tools that note their arguments, and change them past their class."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def has(self, name: str) -> bool:
        """Return True for the one tool."""
        return name == "a"

    async def call(self, name: str, args: Mapping[str, Any], context: Any) -> None:
        """Note the arguments, and change them."""
        self.seen.append(repr(args))
        spoil(args)


def _hand_back(run: Run) -> str:
    said = repr((run.output, run.view("tool"), run.trace_hash))
    for value in (run.output, run.view("tool"), *(vars(record) for record in run.trace)):
        spoil(value)
    return said


@pytest.mark.parametrize("args", ARGUMENTS)
@pytest.mark.parametrize("place", PLACES)
def test_the_next_run_gets_the_same(place: str, args: str) -> None:
    """Two runs of one program, and one of a program that is written alike, all in one process."""
    tools = Spoiling()
    vm = unchecked(tools, journal=MemoryJournal())
    made = _program(place, ARGUMENTS[args])
    said = []
    for program in (made, made, _program(place, ARGUMENTS[args])):
        tools.seen.append("a run")
        given: dict[str, Any] = {"deep": {}, "list": [{}]}
        run = vm.run_sync(program, {"x": given})
        assert run.status == "SUCCESS", run.error
        said.append(_hand_back(run))
        assert given == {"deep": {}, "list": [{}]}
        assert _hand_back(vm.get_sync(run.id)) == said[-1]
    runs = [seen.strip() for seen in " ".join(tools.seen).split("a run")[1:]]
    assert runs[0] == runs[1] == runs[2] != ""
    assert said[0] == said[1] == said[2]


class SpoilingModel:
    """A model that notes the schema that it is asked for, and changes it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def complete(self, request: Any) -> ModelReply:
        """Note and change the schema, and return a reply."""
        self.seen.append(repr(request.schema))
        spoil(request.schema)
        return ModelReply('{"n": 1}')


def test_the_next_model_is_asked_the_same() -> None:
    """The schema of a reply is a copy."""
    model = SpoilingModel()
    returns = {"type": "object", "properties": {"n": {"type": "integer"}}}
    steps = [{"id": "m", "type": "llm", "prompt": "n?", "returns": returns}, {"id": "e", "type": "end"}]
    program = Program.from_dict({"name": "p", "language": 2, "steps": steps})
    vm = unchecked({}, model, MemoryJournal())
    for _ in range(2):
        assert vm.run_sync(program, {}).status == "SUCCESS"
    assert model.seen[0] == model.seen[1]
