"""The tool `plan` of the server: a caller has a program written, within its limits, and nothing else is run."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from doors import door
from gateways import ASKED_FIRST, ENTRY, PAYS, House
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm import ModelReply, Policy, ScriptedModel

ASKED = Policy.from_dict({"policy": "money", "guardrails": [ASKED_FIRST], "applies_to": ["pays"]})
HASTY = "name: pays\ninputs: {sum: {type: number}}\nsteps: [{id: pay, type: tool, tool: pay, args: {sum: $sum}}]\n"
TYPES = {"sum": {"type": "number"}}


@pytest.fixture
def rich(house: House) -> House:
    return House(house.folder, tokens_per_hour=10_000, money_per_hour=1)


def gateway(house: House, *replies: Any, **fields: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel({"propose": [ModelReply(one, tokens=100) for one in replies]})
    return house.gateway(model=model, policies=[ASKED], wait=300.0, **fields), model


def test_a_plan_is_a_run_whose_program_the_caller_may_send_back(rich: House) -> None:
    async def plans() -> None:
        server, model = gateway(rich, HASTY, PAYS, about={"pay": "Pays a sum."})
        async with door(server, rich.model) as front:
            run = await front.data("plan", task="Pay a sum if a person agrees.", inputs=TYPES, request="one")
            assert (run["status"], run["tokens"]) == ("success", 200), run
            assert (await front.data("plan", task="Pay a sum if a person agrees.", inputs=TYPES, request="one")) == run
            assert len(model.asked) == 2
            assert "policy: money/asked" in model.asked[1].prompt, "the answer of the gate names the rule"
            assert "pay: Pays a sum." in model.asked[0].prompt
            assert rich.paid == [], "nothing is run"
            assert (await front.data("verify_run", run=run["run"]))["intact"]
            assert (await front.data("replay_run", run=run["run"]))["same"]
            sent = await front.data("run_program", program=run["output"]["program"], inputs={"sum": 5})
            assert sent["status"] == "pending"

    asyncio.run(plans())


def test_no_program_is_a_failure_with_the_answer_of_the_gate(rich: House) -> None:
    async def plans() -> None:
        server, model = gateway(rich, HASTY)
        run = await server.plan(rich.model, "Pay at once.", TYPES)
        assert run["status"] == "failed"
        assert "policy: money/asked" in run["output"]["reason"]
        assert len(model.asked) == 3
        assert (await server.list_runs(rich.model))["runs"][0]["program"] == "stepward-planner"
        with pytest.raises(RequestRefused):
            await server.get_run(rich.other, run["run"])

    asyncio.run(plans())


def test_a_caller_without_tokens_plans_nothing(house: House) -> None:
    async def plans() -> None:
        server, model = gateway(house, PAYS)
        run = await server.plan(house.model, "Pay.", TYPES)
        assert (run["status"], model.asked) == ("failed", [])
        assert "may use 0 tokens an hour" in run["output"]["reason"]

    asyncio.run(plans())


def test_plans_count_as_runs_and_their_tokens_count(house: House) -> None:
    poor = House(house.folder, tokens_per_hour=150, money_per_hour=1, runs_per_hour=2)

    async def plans() -> None:
        server, model = gateway(poor, HASTY)
        run = await server.plan(poor.model, "Pay.", TYPES)
        assert "may use 150 tokens an hour" in run["output"]["reason"]
        assert len(model.asked) == 2
        await server.plan(poor.model, "Pay.", TYPES)
        with pytest.raises(RequestRefused, match="2 runs an hour"):
            await server.plan(poor.model, "Pay.", TYPES)

    asyncio.run(plans())


def test_a_tool_that_the_caller_may_not_call_is_not_offered(house: House) -> None:
    reader = House(house.folder, tokens_per_hour=1000, money_per_hour=1, effects=["none"])

    async def plans() -> None:
        server, model = gateway(reader, HASTY)
        run = await server.plan(reader.model, "Pay at once.", TYPES)
        assert run["status"] == "failed"
        assert "\npay:" not in model.asked[0].prompt

    asyncio.run(plans())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"task": ""}, "argument `task`"),
        ({"task": "x" * 20_001}, "argument `task`"),
        ({"task": "x", "policies": []}, "this tool takes"),
        ({"task": "x", "inputs": {"1": {"type": "string"}}}, "an input can't be used"),
        ({"task": "x", "inputs": {"a": {"type": "text"}}}, "an input can't be used"),
        ({"task": " "}, "the task is empty"),
    ],
)
def test_arguments_that_can_not_be_used_are_refused_in_words(rich: House, fields: dict[str, Any], says: str) -> None:
    async def plans() -> None:
        server, model = gateway(rich, PAYS)
        async with door(server, rich.model) as front:
            answer = await front.client.call_tool("plan", fields)
            assert answer.is_error
            said = answer.content[0].text
            assert says in said, said
        assert not model.asked

    asyncio.run(plans())


def test_a_server_without_a_model_says_so(house: House) -> None:
    async def plans() -> None:
        with pytest.raises(RequestRefused, match="no model is configured"):
            await house.gateway().plan(house.model, "Pay.", None)

    asyncio.run(plans())
    assert ENTRY["name"] == house.model.name


IDLE = """\
name: idle
inputs: {}
max_steps: 20
max_stalled_steps: 1
steps:
  - {id: a, type: set, set: {n: 1}}
  - {id: b, type: set, set: {n: 1}}
  - {id: c, type: set, set: {n: 1}}
"""
REST = PAYS.replace("inputs: {sum: {type: number}}", "inputs: {n: {type: number}}").replace("$sum", "$n")


def test_a_caller_continues_a_run_of_its_own_within_what_is_left(rich: House) -> None:
    async def goes_on() -> None:
        server, model = gateway(rich, REST)
        first = await server.run_program(rich.model, IDLE, None, {})
        assert first["status"] == "stalled", first
        found = await server.plan(rich.model, "Pay what was counted.", None, continues=first["run"])
        assert found["status"] == "success", found
        assert "run before" in model.asked[0].prompt
        text = found["output"]["program"]
        assert "max_steps: 18" in text
        with pytest.raises(RequestRefused, match="you have no such run"):
            await server.run_program(rich.other, text, None, {}, continues=first["run"])
        with pytest.raises(RequestRefused, match="reads its inputs"):
            await server.run_program(rich.model, text, None, {"n": 900}, continues=first["run"])
        with pytest.raises(RequestRefused, match="does not pass the gate"):
            await server.run_program(rich.model, HASTY, None, {}, continues=first["run"])
        run = await server.run_program(rich.model, text, None, {}, continues=first["run"])
        assert (run["run"], run["status"]) == (f"{first['run']}~1", "pending")
        with pytest.raises(RequestRefused, match="is continued already"):
            await server.run_program(rich.model, text, None, {}, continues=first["run"])
        assert (await server.verify_run(rich.model, run["run"]))["intact"]

    asyncio.run(goes_on())


RULED = """\
name: ruled
inputs: {sum: {type: number}}
max_stalled_steps: 1
guardrails:
  - {name: one, protects: {step: refused}, requires: {step: b}}
steps:
  - {id: a, type: set, set: {n: 1}}
  - {id: b, type: set, set: {n: 1}}
  - {id: c, type: set, set: {n: 1}}
  - {id: may, type: condition, condition: $sum < 5, then: ended, otherwise: refused}
  - {id: ended, type: end}
  - {id: refused, type: end, outcome: failure}
"""
OTHER = """\
name: rest
inputs: {n: {type: number}}
steps:
  - {id: may, type: condition, condition: $n < 5, then: ended, otherwise: no_}
  - {id: ended, type: end}
  - {id: no_, type: end, outcome: failure}
"""


def test_a_caller_is_told_what_it_can_do_where_its_program_would_be_free_of_a_rule(rich: House) -> None:
    """It can't accept a code, so it is not told of that."""

    async def goes_on() -> None:
        server, _ = gateway(rich)
        first = await server.run_program(rich.model, RULED, None, {"sum": 1})
        assert first["status"] == "stalled", first
        with pytest.raises(RequestRefused) as refused:
            await server.run_program(rich.model, OTHER, None, {}, continues=first["run"])
        assert refused.value.message.startswith("SW407: guardrail `one` of run")
        assert refused.value.help == "give the step that takes its place the id `refused`, or add one"

    asyncio.run(goes_on())


ENDS = "name: ends\nsteps:\n  - {id: z, type: end}\n"
FAILS = "name: fails\nsteps:\n  - {id: z, type: end, outcome: failure}\n"
NOBODY = "continue another run, or start a new one"
BY_OPERATOR = "the operator may continue it"
ADVICE: list[tuple[str, str, str, str]] = [
    (ENDS, "", "only BUDGET_EXCEEDED and STALLED can be continued", NOBODY),
    (FAILS, "", "only if that is asked for", BY_OPERATOR),
    (PAYS, "", "has not ended", "call `get_run` until it has, or end it with `cancel_run`"),
    (PAYS, "cancelled", "has ended CANCELLED", NOBODY),
    (IDLE, "continued", "is continued already", "look at that one with `get_run`"),
    (IDLE, "changed", "", "the operator can look at the run with `stepward verify`"),
    ("(+ 1 2)", "", "is a turn of a session", "take it with `run_lisp`"),
]


@pytest.mark.parametrize(("text", "then", "why", "help"), ADVICE)
def test_who_can_not_continue_a_run_is_told_who_can(rich: House, text: str, then: str, why: str, help: str) -> None:
    async def asks() -> RequestRefused:
        server, _ = gateway(rich)
        if text.startswith("("):
            run = (await server.run_lisp(rich.model, text, None, None, {}))["run"]
        else:
            run = (await server.run_program(rich.model, text, None, {"sum": 5} if text == PAYS else {}))["run"]
        if then == "cancelled":
            await server.cancel_run(rich.model, run)
        if then == "continued":
            await server.run_program(rich.model, ENDS, None, {}, continues=run)
        if then == "changed":
            with closing(sqlite3.connect(rich.folder / "runs.db")) as connection, connection:
                connection.execute("UPDATE records SET digest = zeroblob(32) WHERE run = ? AND seq = 1", (run,))
        with pytest.raises(RequestRefused) as refused:
            await server.run_program(rich.model, ENDS, None, {}, continues=run)
        return refused.value

    refused = asyncio.run(asks())
    assert why in refused.message
    assert refused.help == help
