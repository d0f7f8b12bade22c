"""Fast: what a run may start with, and what a model may say: types at the boundary, allowed replies, prompts."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from machines import Bench, ask, assign, end, program, tool, unchecked
from stepward.sabotage.playing.odd_values import specimen
from stepward.vm import ModelReply, Program, RunRefused, Suspend
from stepward.vm.machine.clock import ManualClock

NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def ending(run: Any) -> tuple[str, str]:
    return run.status, run.reason


# -- tools -------------------------------------------------------------------------------------------------------------


def test_what_a_module_has_made_of_a_class_of_the_standard_library_is_its_tool() -> None:
    tools = ModuleType("tools")
    vars(tools).update(bound=partial(lambda sign, of: sign * of, -1), mocked=Mock(return_value=3), partial=partial)
    machine = unchecked(tools, clock=ManualClock())
    effects = {name: {"effect": "read"} for name in ("bound", "mocked", "partial")}
    steps = tool("a", "bound", args={"of": 2}), tool("b", "mocked"), end("e", output=["$a.output", "$b.output"])
    assert machine.run_sync(program(*steps, tools=effects)).output == (-2, 3)
    with pytest.raises(RunRefused, match="no such tool"):
        machine.run_sync(program(tool("a", "partial"), tools=effects))


# -- starting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "given", "said"),
    [
        ({"x": NUMBER}, {}, "x"),
        ({"x": NUMBER}, {"x": 1, "y": 2}, "y"),
        ({"x": NUMBER}, {"x": "1"}, "x"),
        ({"x": NUMBER}, {"x": True}, "x"),
        ({"x": NUMBER}, {"x": None}, "x"),
        ({"x": {"type": "integer"}}, {"x": 1.5}, "x"),
        ({"x": {}}, {"x": float("nan")}, "NaN"),
        ({"x": {}}, {"x": object()}, "object"),
        ({"x": {}}, {"x": {1: 2}}, "1"),
        ({"x": {}}, {"x": "\ud800"}, "surrogate"),
        ({"x": {}}, {"x": specimen("a list that can't be read")}, "can't be read"),
    ],
)
def test_inputs_that_are_not_as_declared_are_refused(inputs: Any, given: Any, said: str) -> None:
    bench = Bench()
    with pytest.raises(RunRefused, match=said):
        bench.run(program(end(), inputs=inputs), **given)
    assert bench.vm.journal.rows() == []


def test_a_default_stands_in_for_an_input_that_is_not_given() -> None:
    inputs = {"x": {"type": ["number", "null"], "default": None}, "y": {"type": "number", "default": 2.50}}
    run = Bench().run(program(end(output=["$x", "$y"]), inputs=inputs))
    assert (run.output[0], str(run.output[1])) == (None, "2.5")


def test_a_program_without_inputs_has_its_undeclared_names_for_inputs() -> None:
    bare = Program.from_dict({"steps": [assign("s", y="$x + 1"), end(output="$y")]})
    assert Bench().run(bare, x=1).output == 2
    with pytest.raises(RunRefused, match="x"):
        Bench().run(bare)
    with pytest.raises(RunRefused, match="x"):
        Bench().run(bare, x="text")  # inferred, and enforced at the boundary like a declared type


def test_a_machine_without_the_tool_or_the_model_refuses_the_run() -> None:
    with pytest.raises(RunRefused, match="missing"):
        Bench().run(program(tool("a", "missing"), tools={"missing": {"effect": "read"}}))
    with pytest.raises(RunRefused, match="model"):
        unchecked(clock=ManualClock()).run_sync(program(ask("a")))
    with pytest.raises(RunRefused, match="write"):
        unchecked({"read": lambda: 1}, clock=ManualClock()).run_sync(program(tool("a", "write")))


def test_resuming_on_a_machine_without_the_tools_is_refused_and_loses_nothing() -> None:
    bench = Bench({"a": Suspend()}, model={"b": "x"})
    run = bench.run(program(tool("a", "ask"), ask("b")))
    other = unchecked({"ask": lambda: 1}, journal=bench.journal, clock=ManualClock())
    with pytest.raises(RunRefused, match="model"):
        other.resume_sync(run.suspensions[0].token, 1)
    assert bench.resume(run, 1).status == "SUCCESS"


# -- a model's replies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [" yes\n", "yes"])
def test_an_allowed_reply_is_stripped_and_compared_exactly(reply: str) -> None:
    run = Bench(model={"a": reply}).run(program(ask("a", allowed_outputs=["yes", "no"]), end(output="$a.output")))
    assert run.output == "yes"


@pytest.mark.parametrize(
    "reply",
    [
        "Yes",
        "yes.",
        "",
        "yes no",
        ModelReply(True),
        ModelReply(["yes"]),
        ModelReply(None),
        ModelReply(specimen("something equal to everything")),
        ModelReply(specimen("a text of a class of its own")),
    ],
)
def test_a_reply_that_is_not_allowed_is_rejected_and_journaled_with_its_rule(reply: Any) -> None:
    bench = Bench(model={"a": reply})
    run = bench.run(program(ask("a", allowed_outputs=["yes", "no"])))
    assert ending(run) == ("FAILED", "error")
    assert bench.bodies("attempt")[0]["rule"] == "allowed_outputs"


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        ('{"n": 1.0}', {"n": 1}),
        (ModelReply({"n": 1}), {"n": 1}),
        ('{"n": "1"}', None),
        ('{"n": 1', None),
        ('{"n": NaN}', None),
        ("null", None),
        ("[" * 100_000, None),
        ('{"n": 1e400000000}', None),
        ('{"n": 1e99999999999999999999}', None),  # no decimal has such an exponent
        (ModelReply(specimen("something that says it is a text")), None),
    ],
)
def test_a_structured_reply_is_held_against_its_type(reply: Any, output: Any) -> None:
    returns = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    run = Bench(model={"a": reply}).run(program(ask("a", returns=returns), end(output="$a.output")))
    assert (run.output, run.status) == (output, "SUCCESS" if output else "FAILED")


def test_a_reply_without_a_type_is_a_text_and_never_json() -> None:
    run = Bench(model={"a": '{"n": "$x"}'}).run(program(ask("a"), end(output="$a.output"), inputs={"x": {}}), x=1)
    assert run.output == '{"n": "$x"}'
    assert Bench(model={"a": ModelReply({"n": 1})}).run(program(ask("a"))).status == "FAILED"


def test_a_prompt_sees_values_as_text_and_nothing_of_the_machine() -> None:
    bench = Bench(model={"a": "x"})
    bench.run(
        program(ask("a", "$n and $$n, $list", system="be $n"), inputs={"n": NUMBER, "list": {}}), n=2.50, list=[1, "b"]
    )
    request = bench.model.asked[0]
    assert (request.prompt, request.system) == ('2.5 and $n, [1, "b"]', "be 2.5")
    said = f"{request.prompt}{request.system}{request.allowed}{request.schema}"
    assert bench.vm.get_sync("run").head not in said
    assert "bench" not in said
