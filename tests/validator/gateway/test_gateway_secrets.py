"""What the operator knows, and no caller is told: sensitive outputs, texts of errors, places of files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from doors import NEW, OLD, door
from gateways import ENTRY, House
from stepward.validator.gateway.callers import Callers
from stepward.validator.gateway.catalogue import CATALOGUE
from stepward.validator.gateway.gateway import Gateway
from stepward.validator.gateway.metering import Meter, MeteredModel
from stepward.validator.gateway.quiet import Failed
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm import DeliveryRefused, InDoubt, ModelReply, ModelRequest
from stepward.vm.errors import EvaluationError, StepwardError
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.refusals import NoSuchRun, RunBusy, RunRefused

SECRET = "4111-1111-1111-1111"
FETCH: dict[str, Any] = {
    "effect": "read",
    "args": {"id": {"type": "integer", "maximum": 9}},
    "returns": {"type": "object", "properties": {"card": {"type": "string", "sensitive": True}}},
}
FETCHES = """\
name: fetches
inputs: {id: {type: integer}}
steps:
  - {id: get, type: tool, tool: fetch, args: {id: $id}, output_key: got, error_step: told, next_step: done}
  - {id: done, type: end, output: $got}
  - {id: told, type: end, outcome: failure, output: {why: $get.error}}
"""
DROPS = {
    "sensitive": "{effect: read, returns: {type: object, properties: {card: {type: string}}}}",
    "a bound": "{effect: read, args: {id: {type: integer}}}",
}


def fetching(folder: Path, fetch: Callable[..., Any]) -> tuple[House, Gateway]:
    house = House(folder, tools=["fetch"], effects=["read"])
    return house, house.gateway(tools={"fetch": fetch}, facts={"fetch": FETCH})


@pytest.mark.parametrize("drop", DROPS)
def test_a_program_takes_no_type_from_a_tool_of_the_operator(tmp_path: Path, drop: str) -> None:
    house, gateway = fetching(tmp_path, lambda id: {"card": SECRET})
    text = FETCHES.replace("steps:", f"tools: {{fetch: {DROPS[drop]}}}\nsteps:")
    with pytest.raises(RequestRefused, match="says something else than the operator"):
        asyncio.run(gateway.run_program(house.model, text, None, {"id": 1}))


@pytest.mark.parametrize("drop", DROPS)
def test_a_called_program_takes_no_type_from_a_tool_either(tmp_path: Path, drop: str) -> None:
    house, gateway = fetching(tmp_path, lambda id: {"card": SECRET})
    inner = f"inputs: {{id: {{type: integer}}}}, tools: {{fetch: {DROPS[drop]}}}"
    text = f"""\
name: fetches
language: 2
inputs: {{id: {{type: integer}}}}
programs:
  card: {{{inner}, steps: [{{id: get, type: tool, tool: fetch, args: {{id: $id}}, is_terminal: true}}]}}
steps: [{{id: c, type: call, program: card, args: {{id: $id}}}}]
"""
    with pytest.raises(RequestRefused, match="says something else than the operator"):
        asyncio.run(gateway.run_program(house.model, text, None, {"id": 1}))


def test_a_sensitive_output_is_in_no_answer(tmp_path: Path) -> None:
    house, gateway = fetching(tmp_path, lambda id: {"card": SECRET})

    async def answers() -> list[Any]:
        run = await gateway.run_program(house.model, FETCHES, None, {"id": 1})
        asks = (gateway.get_run, gateway.verify_run, gateway.replay_run)
        return [run, *[await ask(house.model, run["run"]) for ask in asks]]

    told = asyncio.run(answers())
    assert told[0]["output"] == {"card": "[sensitive]"}
    assert SECRET not in json.dumps(told)


class Lazy(list[Any]):
    def __iter__(self) -> Any:
        raise ValueError(f"connection lost: {SECRET}")


def raises(error: BaseException) -> Callable[..., Any]:
    def fetch(id: int) -> Any:
        raise error

    return fetch


async def raises_late(id: int) -> Any:
    raise KeyError(SECRET)


@pytest.mark.parametrize(
    "fetch",
    [
        raises(ValueError(SECRET)),
        raises(TimeoutError(SECRET)),
        raises(SystemExit(SECRET)),
        raises(InDoubt(SECRET)),
        raises_late,
        lambda id: {"card": Lazy([1])},
    ],
)
def test_what_a_tool_raises_is_for_the_operator(
    tmp_path: Path, fetch: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    house, gateway = fetching(tmp_path, fetch)
    told = asyncio.run(gateway.run_program(house.model, FETCHES, None, {"id": 1}))
    assert told["status"] == "failed"
    assert SECRET not in json.dumps(told)
    assert "tool `fetch` in run mcp.model." in caplog.text


def test_what_a_model_raises_is_for_the_operator() -> None:
    class Broken:
        def complete(self, request: ModelRequest) -> ModelReply:
            raise ValueError(f"key {SECRET} was refused")

    (caller,) = Callers.of([{**ENTRY, "tokens_per_hour": 9}]).by_name.values()
    with pytest.raises(Failed, match=r"^it raised ValueError$"):
        asyncio.run(MeteredModel(Broken(), Meter(caller)).complete(ModelRequest("?", None, None, None, "a", 1, 1)))


SAID = {
    RunRefused("input `a` is wrong"): "input `a` is wrong",
    DeliveryRefused("no"): "no",
    NoSuchRun("x"): "you have no such run",
    RunBusy("run x of host y"): "somebody else goes on with this run now",
    JournalError(f"can't open /home/ann/{SECRET}"): "the journal can't be used now",
    EvaluationError(SECRET): "the machine has refused the request",
}


@pytest.mark.parametrize("error", SAID, ids=lambda error: type(error).__name__)
def test_every_error_of_the_machine_is_a_refusal_in_words(house: House, error: StepwardError) -> None:
    gateway = house.gateway()

    def fails(*_: Any, **__: Any) -> None:
        raise error

    house.journal.rows = fails  # type: ignore[method-assign]
    with pytest.raises(RequestRefused) as refused:
        asyncio.run(gateway.list_runs(house.model))
    assert (refused.value.message, bool(refused.value.help)) == (SAID[error], True)


# -- through the server ------------------------------------------------------------------------------------------------


KEEPS = """\
name: keeps
inputs: {card: {type: string, pattern: '^[0-9-]+$', sensitive: true}, mode: {enum: [good, bad, echo]}}
steps:
  - id: which
    type: condition
    cases: [{when: $mode == "bad", then: breaks}, {when: $mode == "echo", then: echo}]
    otherwise: done
  - {id: breaks, type: tool, tool: fetch, args: {id: 1}, error_step: told, next_step: done}
  - {id: echo, type: tool, tool: repeat, args: {text: $card}, output_key: said, next_step: echoed}
  - {id: echoed, type: end, output: {said: $said, card: $card, both: "card $card"}}
  - {id: told, type: end, outcome: failure, output: {why: $breaks.error, card: $card}}
  - {id: done, type: end, output: {card: $card}}
"""
REPEAT = {"effect": "read", "args": {"text": {"type": "string"}}, "returns": {"type": "string"}}


@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_a_sensitive_input_is_in_no_answer(tmp_path: Path, protocol: str) -> None:
    house = House(tmp_path, tools=["fetch", "repeat"], effects=["read"])

    def fetch(id: int) -> Any:
        raise ValueError(f"card {SECRET} is blocked")

    tools = {"fetch": fetch, "repeat": lambda text: f"you said {text}"}

    async def answers() -> str:
        told = []
        gateway = house.gateway(tools=tools, facts={"fetch": FETCH, "repeat": REPEAT})
        async with door(gateway, house.model, protocol) as front:
            for mode in ("good", "bad", "echo"):
                run = await front.data("run_program", program=KEEPS, inputs={"card": SECRET, "mode": mode})
                told.append(run["output"])
                for tool in ("get_run", "verify_run", "replay_run", "cancel_run"):
                    told.append(await front.data(tool, run=run["run"]))
                told.append(await front.read(f"runs/{run['run']}"))
            told += [await front.data("list_runs"), await front.read("runs")]
            for card in (f"{SECRET}x", [SECRET], {"number": SECRET}, SECRET * 2_000_000):
                told.append(await front.refused("run_program", program=KEEPS, inputs={"card": card, "mode": "good"}))
        return json.dumps(told)

    text = asyncio.run(answers())
    assert text.count("[sensitive]") >= 9
    assert "1111-1111" not in text


PROBE = "hunter2-hunter2"
WRONG: list[Any] = [PROBE, [PROBE], {PROBE: PROBE}, {"deep": [PROBE]}, 0.5, None, True]


TURN = ("run_lisp", "program")
"""What is wrong with a turn is said in its own words."""


@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_no_error_about_an_argument_repeats_what_was_sent(house: House, protocol: str) -> None:
    async def sends() -> list[str]:
        said = []
        async with door(house.gateway(), house.model, protocol) as front:
            for entry in CATALOGUE.values():
                fields = [name for name in entry.arguments.model_fields if (entry.name, name) != TURN]
                for name in (*fields, PROBE):
                    for value in WRONG:
                        answer = await front.client.call_tool(entry.name, {name: value})
                        said.append(answer.content[0].text)  # type: ignore[union-attr]
            said.append(await front.refused(PROBE, **{PROBE: PROBE}))
            for uri in (f"stepward://{PROBE}", f"stepward://runs/{PROBE}", f"stepward://rules/{PROBE}"):
                with pytest.raises(MCPError) as error:
                    await front.client.read_resource(uri)
                said.append(str(error.value))
            with pytest.raises(MCPError) as error:
                await front.client.get_prompt("write_program_too", {PROBE: PROBE})
            said.append(str(error.value))
        return said

    texts = asyncio.run(sends())
    assert not [text for text in texts if PROBE in text and not text.startswith(("refused: ", "the program does not"))]
    assert len(texts) > 100


@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_an_internal_error_says_nothing_and_the_log_says_all(
    house: House, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError(SECRET)

    house.journal.rows = breaks  # type: ignore[method-assign]

    async def asks() -> list[str]:
        async with door(house.gateway(), house.model, protocol) as front:
            said = [await front.refused("list_runs")]
            with pytest.raises(MCPError) as error:
                await front.read("runs")
            return [*said, str(error.value)]

    said = asyncio.run(asks())
    assert [text.partition("\n")[0] for text in said] == [
        "internal error in `list_runs`",
        "internal error in a resource",
    ]
    assert SECRET not in "".join(said)
    assert SECRET in caplog.text
