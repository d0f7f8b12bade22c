"""The gateway without a network: what a caller may do, and the ways in which it tries to do more."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateways import ASKED_FIRST, ENTRY, PAYS, House
from stepward.validator.gateway.callers import Caller, Callers
from stepward.validator.gateway.gateway import MAX_CHECKS
from stepward.validator.gateway.judging import MAX_CHARACTERS, judge
from stepward.validator.gateway.metering import LimitReached, Meter, MeteredModel
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm import DeliveryRefused, ModelFailed, ModelReply, ModelRequest, Policy, ScriptedModel, Suspend
from stepward.vm.journal.store import JournalError


def test_a_run_waits_for_a_person_and_is_polled_and_verified(house: House) -> None:
    async def round() -> None:
        gateway = house.gateway()
        pending = await gateway.run_program(house.model, PAYS, None, {"sum": 5})
        assert (pending["status"], house.paid) == ("pending", [])
        await house.approve()
        assert (await gateway.get_run(house.model, pending["run"]))["status"] == "success"
        assert house.paid == [5]
        assert (await gateway.verify_run(house.model, pending["run"]))["intact"] is True
        assert (await gateway.replay_run(house.model, pending["run"]))["same"] is True
        assert [row["run"] for row in (await gateway.list_runs(house.model))["runs"]] == [pending["run"]]

    asyncio.run(round())


WAITS = """\
name: waits
language: 2
inputs: {sum: {type: number}}
tools:
  ask: {effect: none, suspends: true, returns: {enum: [agree, refuse]}}
  pay: {effect: write, idempotent: true, args: {sum: {type: number}}}
steps:
"""
DUE = {
    "a wait": """\
  - {id: wait, type: wait, seconds: 0.2}
  - {id: done, type: end, output: later}
""",
    "a deadline": """\
  - {id: ask, type: tool, tool: ask, deadline_seconds: 0.2, error_step: done}
  - {id: done, type: end, output: later}
""",
}


@pytest.mark.parametrize("what", DUE)
def test_a_run_goes_on_when_it_is_polled_after_its_time(house: House, what: str) -> None:
    """Before that it stays as it is; nobody but the gateway drives the runs of models."""

    async def round() -> None:
        gateway = house.gateway()
        pending = await gateway.run_program(house.model, WAITS + DUE[what], None, {"sum": 5})
        assert pending["status"] == "pending"
        assert (await gateway.get_run(house.model, pending["run"]))["records"] == pending["records"]
        await asyncio.sleep(0.25)
        ended = await gateway.get_run(house.model, pending["run"])
        assert (ended["status"], ended["output"]) == ("success", "later")
        assert (await gateway.verify_run(house.model, pending["run"]))["intact"] is True

    asyncio.run(round())


def test_a_run_that_another_process_drives_is_only_told(house: House) -> None:
    """A lease of another machine is respected, and the poll has an answer."""

    async def round() -> None:
        gateway = house.gateway()
        pending = await gateway.run_program(house.model, WAITS + DUE["a wait"], None, {"sum": 5})
        lease = house.journal.acquire(pending["run"], "another", time.time(), 60)
        assert lease is not None
        await asyncio.sleep(0.25)
        assert (await gateway.get_run(house.model, pending["run"]))["status"] == "pending"
        house.journal.release(lease)
        assert (await gateway.get_run(house.model, pending["run"]))["status"] == "success"

    asyncio.run(round())


CALLS = """\
name: pays_twice
language: 2
inputs: {sum: {type: number}}
programs:
  pay:
    inputs: {sum: {type: number}}
    guardrails: [{name: asked, protects: {tool: pay}, requires: {step: agreed, branch: then}}]
    steps:
      - {id: ask, type: tool, tool: ask, next_step: agreed}
      - {id: agreed, type: condition, condition: $ask.output == "agree", then: pay, otherwise: refused}
      - {id: pay, type: tool, tool: pay, args: {sum: $sum}, is_terminal: true}
      - {id: refused, type: end, outcome: failure}
steps:
  - {id: one, type: call, program: pay, args: {sum: $sum}}
  - {id: two, type: call, program: pay, args: {sum: 7}}
"""


def test_a_program_of_a_model_may_call_others(house: House) -> None:
    """Each call waits for a person of its own; the gate and a verifier see the steps of calls."""

    async def round() -> None:
        gateway = house.gateway()
        assert await gateway.check_program(house.model, CALLS) == "accepted: no findings\n"
        refused = await gateway.check_program(house.model, CALLS.replace("next_step: agreed", "next_step: pay"))
        assert "SW401" in refused, refused
        run = await gateway.run_program(house.model, CALLS, None, {"sum": 5})
        for number, paid in ((1, [5]), (2, [5, 7])):
            assert (run["status"], len(house.tokens())) == ("pending", number)
            await house.approve()
            run = await gateway.get_run(house.model, run["run"])
            assert house.paid == paid
        assert run["status"] == "success"
        assert (await gateway.verify_run(house.model, run["run"]))["intact"] is True

    asyncio.run(round())


def test_a_program_of_a_model_names_no_file(house: House) -> None:
    (house.folder / "secret.yaml").write_text("name: x\nlanguage: 2\ninputs: {}\nsteps: [{id: a, type: end}]\n")
    listed = f"programs: {{x: {{file: {house.folder}/secret.yaml}}}}"
    text = f"language: 2\n{listed}\nsteps: [{{id: c, type: call, program: x}}]\n"
    answer = asyncio.run(house.gateway().check_program(house.model, text))
    assert "a program without a file of its own can't name files" in answer


def test_no_answer_has_a_token_and_only_the_operator_can_read_it(house: House) -> None:
    async def answers() -> list[Any]:
        gateway = house.gateway()
        run = await gateway.run_program(house.model, PAYS, None, {"sum": 5})
        asks = (gateway.get_run, gateway.verify_run, gateway.replay_run)
        return [run, *[await ask(house.model, run["run"]) for ask in asks], await gateway.list_runs(house.model)]

    told = json.dumps(asyncio.run(answers()))
    (token,) = house.tokens()
    assert token not in told
    assert token.rpartition(".")[2] not in told
    assert (house.folder / "approvals.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_suspension_is_announced_once_also_after_a_restart(house: House) -> None:
    async def polls() -> None:
        run = await house.gateway().run_program(house.model, PAYS, None, {"sum": 5})
        for gateway in (house.gateway(), house.gateway()):
            await gateway.get_run(house.model, run["run"])

    asyncio.run(polls())
    assert len(house.tokens()) == 1


def test_a_request_ends_only_when_its_run_can_be_polled(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal may be slow: an answer without a run would have the caller start another one."""
    create = house.journal.create

    def slow(*args: Any) -> Any:
        time.sleep(0.6)
        return create(*args)

    monkeypatch.setattr(house.journal, "create", slow)

    async def starts() -> Any:
        return await house.gateway(wait=0.0).run_program(house.model, PAYS, None, {"sum": 5})

    assert asyncio.run(starts())["status"] in ("running", "pending")


def test_a_suspension_is_announced_although_nobody_polls(house: House) -> None:
    go_on = threading.Event()

    def slow() -> Suspend:
        go_on.wait(5)
        return Suspend()

    async def leaves() -> None:
        gateway = house.gateway(tools={**house.tools, "ask": slow}, wait=0.1)
        assert (await gateway.run_program(house.model, PAYS, None, {"sum": 5}))["status"] == "running"
        assert not house.tokens()
        go_on.set()
        async with asyncio.timeout(30):
            while not house.tokens():
                await asyncio.sleep(0.02)

    asyncio.run(leaves())


def test_a_caller_with_a_stolen_token_does_not_approve_its_own_payment(house: House) -> None:
    async def approves() -> None:
        await house.gateway().run_program(house.model, PAYS, None, {"sum": 5})
        with pytest.raises(DeliveryRefused, match="caller `model` asked for the run"):
            await house.approve(by="model")

    asyncio.run(approves())
    assert house.paid == []


@pytest.mark.parametrize("method", ["get_run", "verify_run", "replay_run", "cancel_run"])
def test_a_foreign_run_and_none_are_refused_in_the_same_words(house: House, method: str) -> None:
    async def tries() -> set[str]:
        gateway, said = house.gateway(), set()
        run = await gateway.run_program(house.model, PAYS, None, {"sum": 5})
        call: Callable[[Caller, str], Awaitable[Any]] = getattr(gateway, method)
        for name in (run["run"], "mcp.other.0", "", "x" * 999, "../runs.db"):
            with pytest.raises(RequestRefused) as refused:
                await call(house.other, name)
            said.add(str(refused.value))
        assert (await gateway.list_runs(house.other))["runs"] == []
        return said

    assert asyncio.run(tries()) == {"you have no such run"}


def test_the_same_request_twice_at_once_pays_once(house: House) -> None:
    async def races() -> set[str]:
        gateway = house.gateway()
        sent = [gateway.run_program(house.model, PAYS, None, {"sum": 5}, request="one") for _ in range(2)]
        runs = {run["run"] for run in await asyncio.gather(*sent)}
        await house.approve()
        await gateway.run_program(house.model, PAYS, None, {"sum": 5}, request="one")
        return runs

    assert len(asyncio.run(races())) == 1
    assert house.paid == [5]


def test_runs_per_hour_hold_for_racing_requests_and_after_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path, runs_per_hour=1)

    async def races() -> list[Any]:
        sent = [house.gateway().run_program(house.model, PAYS, None, {"sum": 5}) for _ in range(1)]
        first = await asyncio.gather(*sent)
        gateway = house.gateway()
        both = [gateway.run_program(house.model, PAYS, None, {"sum": 5}) for _ in range(2)]
        return [*first, *await asyncio.gather(*both, return_exceptions=True)]

    first, *others = asyncio.run(races())
    assert first["status"] == "pending"
    assert [str(one) for one in others] == ["you may start 1 runs an hour"] * 2


def test_runs_of_the_last_hour_count_though_the_journal_fails_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, runs_per_hour=1)

    def fails(**_: Any) -> Any:
        raise JournalError("the disk failed")

    async def starts() -> None:
        await house.gateway().run_program(house.model, PAYS, None, {"sum": 5})
        gateway = house.gateway()
        with monkeypatch.context() as broken:
            broken.setattr(house.journal, "rows", fails)
            with pytest.raises(RequestRefused, match="the journal can't be used now"):
                await gateway.run_program(house.model, PAYS, None, {"sum": 5})
        with pytest.raises(RequestRefused, match="you may start 1 runs an hour"):
            await gateway.run_program(house.model, PAYS, None, {"sum": 5})

    asyncio.run(starts())


def test_a_run_that_the_machine_refuses_is_not_counted(tmp_path: Path) -> None:
    house = House(tmp_path, runs_per_hour=1)

    async def starts() -> Any:
        gateway = house.gateway()
        with pytest.raises(RequestRefused, match="input `sum`"):
            await gateway.run_program(house.model, PAYS, None, {"sum": "five"})
        return await gateway.run_program(house.model, PAYS, None, {"sum": 5})

    assert asyncio.run(starts())["status"] == "pending"


# -- the gate ----------------------------------------------------------------------------------------------------------


UNASKED = PAYS.replace("id: ask, type: tool, tool: ask,", "id: ask, type: set, set: {said: '\"agree\"'},").replace(
    " output_key: said,", ""
)
RULE = Policy.from_dict({"policy": "money", "guardrails": [ASKED_FIRST]})
ESCAPES = {
    "a comment that silences": UNASKED.replace("id: pay,", "id: pay,").replace(
        "is_terminal: true}", "is_terminal: true}  # stepward: ignore[SW401] reason: I know better"
    ),
    "a name that the policy leaves out": UNASKED.replace("name: pays", "name: other"),
    "a manifest that calls the write a read": UNASKED.replace("effect: write", "effect: read"),
    "a guardrail of its own with that name": UNASKED.replace(
        "steps:", "guardrails:\n  - {name: asked, protects: {step: refused}, requires: {step: agreed}}\nsteps:"
    ),
}


@pytest.mark.parametrize("how", ESCAPES)
def test_a_program_does_not_escape_a_policy(house: House, how: str) -> None:
    only = Policy.from_dict({**RULE.to_data(), "applies_to": ["pays"]})

    async def starts() -> None:
        with pytest.raises(RequestRefused, match="does not pass the gate") as refused:
            await house.gateway(policies=[only]).run_program(house.model, ESCAPES[how], None, {"sum": 5})
        assert "policy: money/asked" in refused.value.help

    asyncio.run(starts())
    assert house.paid == []


def test_without_the_policy_the_same_program_is_accepted(house: House) -> None:
    answer = asyncio.run(house.gateway().check_program(house.model, UNASKED))
    assert answer.startswith("accepted: ")


def test_a_waiver_of_the_policy_is_for_no_caller(house: House) -> None:
    waiver = {"program": "pays", "rule": "asked", "reason": "old", "expiry": "2999-01-01"}
    waived = Policy.from_dict({**RULE.to_data(), "waivers": [waiver]})

    async def checks() -> str:
        return await house.gateway(policies=[waived]).check_program(house.model, UNASKED)

    assert asyncio.run(checks()).startswith("refused: ")


@pytest.mark.parametrize("limits", [{"tools": ["ask"]}, {"effects": ["none", "read"]}, {"tools": []}])
def test_a_caller_calls_no_tool_beyond_its_own(tmp_path: Path, limits: dict[str, Any]) -> None:
    house = House(tmp_path, **limits)

    async def starts() -> None:
        with pytest.raises(RequestRefused, match="does not pass the gate") as refused:
            await house.gateway().run_program(house.model, PAYS, None, {"sum": 5})
        assert "policy `caller-model`" in refused.value.help

    asyncio.run(starts())


def test_a_bare_gateway_runs_nothing(house: House) -> None:
    async def starts() -> None:
        with pytest.raises(RequestRefused, match="no tools are configured"):
            await house.gateway(tools=None, facts={}).run_program(house.model, PAYS, None, {"sum": 5})

    asyncio.run(starts())


@pytest.mark.parametrize("text", ["x" * (MAX_CHARACTERS + 1), f"{PAYS}---\n{PAYS}"])
def test_a_text_of_another_size_is_refused(text: str) -> None:
    with pytest.raises(RequestRefused):
        judge(text, ())


@pytest.mark.parametrize("text", ["", "[", "{", "- 1\n", "\x00", "&a [*a]"])
def test_a_text_without_a_program_is_no_program(text: str) -> None:
    with suppress(RequestRefused):
        assert judge(text, ()).program is None


# -- limits, callers, saved programs -----------------------------------------------------------------------------------


def test_a_model_is_not_asked_beyond_the_tokens_and_the_money_of_an_hour() -> None:
    class Costly:
        asked = 0

        def complete(self, request: ModelRequest) -> ModelReply:
            self.asked += 1
            return ModelReply("yes", 60, 2)

    now = [0.0]
    request = ModelRequest("?", None, None, None, "a", 1, 1)
    for limits, calls in (({"tokens_per_hour": 100, "money_per_hour": 99}, 2), ({"tokens_per_hour": 999}, 1)):
        (caller,) = Callers.of([{**ENTRY, **limits}]).by_name.values()
        model = Costly()
        metered = MeteredModel(model, Meter(caller, lambda: now[0]))
        for _ in range(calls):
            asyncio.run(metered.complete(request))
        with pytest.raises(LimitReached):
            asyncio.run(metered.complete(request))
        assert model.asked == calls
        now[0] += 3_601
        asyncio.run(metered.complete(request))


def test_a_call_that_failed_is_counted_for_its_caller() -> None:
    (caller,) = Callers.of([{**ENTRY, "tokens_per_hour": 60, "money_per_hour": 99}]).by_name.values()
    failing = ScriptedModel({"a": ModelFailed("the words of the provider", ModelReply(None, 60, 2, "m"))})
    metered = MeteredModel(failing, Meter(caller))
    request = ModelRequest("?", None, None, None, "a", 1, 1)
    with pytest.raises(ModelFailed, match=r"^it raised ModelFailed$") as found:
        asyncio.run(metered.complete(request))
    assert found.value.spent == ModelReply(None, 60, 2, "m")
    with pytest.raises(LimitReached, match="may use 60 tokens an hour"):
        asyncio.run(metered.complete(request))


def test_a_reply_of_unknown_cost_is_the_last_one_of_the_hour() -> None:
    (caller,) = Callers.of([{**ENTRY, "tokens_per_hour": 999, "money_per_hour": 99}]).by_name.values()
    now = [0.0]
    metered = MeteredModel(ScriptedModel({"a": ModelReply("yes", 1, None)}), Meter(caller, lambda: now[0]))
    request = ModelRequest("?", None, None, None, "a", 1, 1)
    asyncio.run(metered.complete(request))
    with pytest.raises(LimitReached, match="the cost of a reply is unknown: the operator has to give `--prices`"):
        asyncio.run(metered.complete(request))
    now[0] += 3_601
    asyncio.run(metered.complete(request))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "a.b", "", "A", "x" * 65, "a\n", "..", "\x00"])
def test_the_name_of_a_saved_program_is_no_path(house: House, name: str) -> None:
    async def saves() -> None:
        gateway = house.gateway()
        with pytest.raises(RequestRefused):
            await gateway.save_program(house.model, name, PAYS)
        with pytest.raises(RequestRefused):
            await gateway.run_program(house.model, None, name, {})

    asyncio.run(saves())


def test_a_saved_program_is_of_its_caller_and_is_judged_again(house: House) -> None:
    async def saves() -> None:
        await house.gateway().save_program(house.model, "pays", PAYS)
        with pytest.raises(RequestRefused, match="no saved program"):
            await house.gateway().run_program(house.other, None, "pays", {"sum": 5})
        never = Policy.from_dict({"policy": "new", "guardrails": [{"name": "shut", "never": {"tool": "pay"}}]})
        with pytest.raises(RequestRefused, match="does not pass the gate"):
            await house.gateway(policies=[never]).run_program(house.model, None, "pays", {"sum": 5})

    asyncio.run(saves())


def test_a_cancelled_check_keeps_its_turn_and_its_place(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a caller that cancels has as many checks side by side as it likes, in a solver for one thread."""
    busy, most, go_on = 0, 0, threading.Event()

    def slow(text: str, policies: Any) -> Any:
        nonlocal busy, most
        busy, most = busy + 1, max(most, busy + 1)
        go_on.wait(5)
        busy -= 1
        return judge(text, policies)

    monkeypatch.setattr("stepward.validator.gateway.gateway.judge", slow)

    async def cancels() -> None:
        gateway = house.gateway()
        for _ in range(MAX_CHECKS):
            task = asyncio.create_task(gateway.check_program(house.model, PAYS))
            await asyncio.sleep(0.01)
            task.cancel()
        with pytest.raises(RequestRefused, match="wait for the gate"):
            await gateway.check_program(house.model, PAYS)
        others = asyncio.create_task(gateway.check_program(house.other, PAYS))
        go_on.set()
        assert (await others).startswith("accepted: ")

    asyncio.run(cancels())
    assert most == 1
