"""The gateway without a network: what a caller may do, and the ways in which it tries to do more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stepward.validator.gateway.approvals import Approvals
from stepward.validator.gateway.callers import Caller, Callers
from stepward.validator.gateway.gateway import Gateway, Operator
from stepward.validator.gateway.judging import MAX_CHARACTERS, judge
from stepward.validator.gateway.metering import LimitReached, Meter, MeteredModel
from stepward.validator.gateway.refusals import Refused
from stepward.validator.result import AdvisedError
from stepward.vm import DeliveryRefused, ExecutionVM, ModelReply, ModelRequest, Policy, SQLiteJournal, Suspend

MANIFEST: dict[str, Any] = {
    "ask": {"effect": "none", "suspends": True, "returns": {"enum": ["agree", "refuse"]}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
}
PAYS = """\
name: pays
inputs: {sum: {type: number}}
tools:
  ask: {effect: none, suspends: true, returns: {enum: [agree, refuse]}}
  pay: {effect: write, idempotent: true, args: {sum: {type: number}}}
steps:
  - {id: ask, type: tool, tool: ask, output_key: said, next_step: agreed}
  - {id: agreed, type: condition, condition: $said == "agree", then: pay, otherwise: refused}
  - {id: pay, type: tool, tool: pay, args: {sum: $sum}, is_terminal: true}
  - {id: refused, type: end, outcome: failure}
"""
ENTRY: dict[str, Any] = {"name": "model", "token": "t" * 20, "tools": ["ask", "pay"], "effects": ["none", "write"]}
ASKED_FIRST = {"name": "asked", "protects": {"tool": "pay"}, "requires": {"tool": "ask"}}


class House:
    """An operator with a journal on disk, two tools and two callers."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder, self.paid = folder, []  # type: ignore[var-annotated]
        self.journal = SQLiteJournal(str(folder / "runs.db"))
        self.callers = Callers.of([{**ENTRY, **limits}, {**ENTRY, "name": "other", "token": "u" * 20}])
        self.model, self.other = self.callers.by_name["model"], self.callers.by_name["other"]
        self.tools = {"ask": lambda: Suspend({"question": "pay?"}), "pay": self._pay}

    def _pay(self, sum: Any, idempotency_key: str) -> None:
        self.paid.append(sum)

    def gateway(self, **fields: Any) -> Gateway:
        given = {"tools": self.tools, "facts": MANIFEST, "approvals": Approvals(self.folder / "approvals.jsonl")}
        return Gateway(Operator(self.journal, "gate-1", **{**given, "programs": self.folder / "programs", **fields}))

    def tokens(self) -> list[str]:
        lines = (self.folder / "approvals.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["token"] for line in lines]

    async def approve(self, by: str = "ada") -> None:
        await ExecutionVM(self.tools, None, self.journal, checker=None).resume(self.tokens()[-1], "agree", by=by)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


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
            with pytest.raises(Refused) as refused:
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


def test_a_run_that_the_machine_refuses_is_not_counted(tmp_path: Path) -> None:
    house = House(tmp_path, runs_per_hour=1)

    async def starts() -> Any:
        gateway = house.gateway()
        with pytest.raises(Refused, match="input `sum`"):
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
        with pytest.raises(Refused, match="does not pass the gate") as refused:
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
        with pytest.raises(Refused, match="does not pass the gate") as refused:
            await house.gateway().run_program(house.model, PAYS, None, {"sum": 5})
        assert "policy `caller-model`" in refused.value.help

    asyncio.run(starts())


def test_a_bare_gateway_runs_nothing(house: House) -> None:
    async def starts() -> None:
        with pytest.raises(Refused, match="no tools are configured"):
            await house.gateway(tools=None, facts={}).run_program(house.model, PAYS, None, {"sum": 5})

    asyncio.run(starts())


@pytest.mark.parametrize("text", ["x" * (MAX_CHARACTERS + 1), f"{PAYS}---\n{PAYS}"])
def test_a_text_of_another_size_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        judge(text, ())


@pytest.mark.parametrize("text", ["", "[", "{", "- 1\n", "\x00", "&a [*a]"])
def test_a_text_without_a_program_is_no_program(text: str) -> None:
    with suppress(Refused):
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


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "a.b", "", "A", "x" * 65, "a\n", "..", "\x00"])
def test_the_name_of_a_saved_program_is_no_path(house: House, name: str) -> None:
    async def saves() -> None:
        gateway = house.gateway()
        with pytest.raises(Refused):
            await gateway.save_program(house.model, name, PAYS)
        with pytest.raises(Refused):
            await gateway.run_program(house.model, None, name, {})

    asyncio.run(saves())


def test_a_saved_program_is_of_its_caller_and_is_judged_again(house: House) -> None:
    async def saves() -> None:
        await house.gateway().save_program(house.model, "pays", PAYS)
        with pytest.raises(Refused, match="no saved program"):
            await house.gateway().run_program(house.other, None, "pays", {"sum": 5})
        never = Policy.from_dict({"policy": "new", "guardrails": [{"name": "shut", "never": {"tool": "pay"}}]})
        with pytest.raises(Refused, match="does not pass the gate"):
            await house.gateway(policies=[never]).run_program(house.model, None, "pays", {"sum": 5})

    asyncio.run(saves())


WRONG: dict[str, list[Any]] = {
    "a short token": [{**ENTRY, "token": "secret"}],
    "an unknown field": [{**ENTRY, "admin": True}],
    "a name that is a path": [{**ENTRY, "name": "../x"}],
    "one token for two": [ENTRY, {**ENTRY, "name": "b"}],
    "one name for two": [ENTRY, {**ENTRY, "token": "u" * 20}],
    "no mapping": ["secret" * 5],
}


@pytest.mark.parametrize("how", WRONG)
def test_callers_that_can_not_be_used_are_refused_without_their_tokens(how: str) -> None:
    with pytest.raises(AdvisedError) as refused:
        Callers.of(WRONG[how])
    assert not any(token in refused.value.message for token in ("t" * 16, "u" * 16, "secret"))


def test_a_caller_is_known_by_its_token_alone() -> None:
    callers = Callers.of([ENTRY])
    assert callers.of_token("t" * 20) is callers.by_name["model"]
    assert [callers.of_token(one) for one in ("", "t" * 19, "model", "\ud800")] == [None] * 4
    assert "t" * 16 not in repr(callers.by_name["model"])
