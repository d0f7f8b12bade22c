"""`run_lisp`: turns of callers, behind the gate and the limits of the operator."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from doors import NEW, door
from gateways import House
from stepward.validator.gateway import sessions
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm import Policy

FACTS: dict[str, Any] = {
    "look": {"effect": "read", "args": {"id": {"type": "number"}}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
    "ask": {"effect": "none", "suspends": True, "returns": {"enum": ["agree", "refuse"]}},
}
ONCE = Policy.from_dict({"policy": "money", "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}]})
LIMITS: dict[str, Any] = {"tools": ["look", "pay", "ask"], "effects": ["none", "read", "write"]}


def look(id: Any) -> Any:
    if id == 13:
        raise ValueError("the password of the database is hunter2")
    return {"total": 5, "_raw": "hidden-note-7781"}


class Place:
    """A gateway with sessions, and the answers of one caller."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.house = House(folder, **{**LIMITS, **limits})
        tools = {**self.house.tools, "look": look}
        self.start_again = lambda: setattr(
            self, "gateway", self.house.gateway(tools=tools, facts=FACTS, policies=[ONCE], wait=60.0)
        )
        self.start_again()

    async def lisp(
        self, text: str | None, session: str | None = None, caller: Any = None, **given: Any
    ) -> dict[str, Any]:
        data = given.pop("data", {})
        return await self.gateway.run_lisp(caller or self.house.model, text, session, given.get("signature"), data)


def test_a_session_over_the_protocol(tmp_path: Path) -> None:
    async def scene() -> None:
        place = Place(tmp_path)
        async with door(place.gateway, place.house.model, NEW) as front:
            first = await front.data(
                "run_lisp", program="(def found (tool/look {:id data/id})) (println found)", data={"id": 1}
            )
            assert (first["defined"], first["printed"]) == (["found"], '{"total" 5}')
            session = first["session"]
            paid = await front.data("run_lisp", program="(tool/pay {:sum (:total found)})", session=session)
            assert paid["run"].startswith("mcp.model.")
            refused = await front.data("run_lisp", program="(tool/pay {:sum 6})", session=session)
            assert (refused["error"]["reason"], place.house.paid) == ("gate", [5])
            assert "turn 2 of this session" in refused["error"]["details"]["answer"]
            done = await front.data("run_lisp", program="(return found)", session=session)
            assert (done["returned"], done["value"]) == (True, {"total": 5})
            listed = await front.data("list_runs")
            assert [row["run"] for row in listed["runs"]] == [done["run"], paid["run"], first["run"]]
            assert (await front.data("verify_run", run=paid["run"]))["intact"]
            assert len(await front.read("lisp")) <= 5_000

    asyncio.run(scene())


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def scene() -> None:
        for text, given, words in [
            (None, {}, "a new session needs its first turn"),
            ("1", {"session": "nobody"}, "you have no such session"),
            ("1", {"signature": ":money"}, "`:money` is no type"),
            ("1", {"data": {"x": float("nan")}}, "is no value"),
        ]:
            with pytest.raises(RequestRefused, match=words):
                await place.lisp(text, **given)
        first = await place.lisp("(def a 1)")
        with pytest.raises(RequestRefused, match="are for a new session"):
            await place.lisp("a", first["session"], signature=":int")
        with pytest.raises(RequestRefused, match="you have no such session"):
            await place.lisp("a", first["session"], caller=place.house.other)
        failed = await place.lisp("(tool/look {:id 13})", first["session"])
        assert "hunter2" not in str(failed)
        assert failed["error"]["reason"] == "tool_error"
        assert "hidden-note-7781" not in str(await place.lisp("(str (tool/look {:id 1}))"))

    asyncio.run(scene())


def test_turns_count_as_runs_and_refused_ones_do_not(tmp_path: Path) -> None:
    place = Place(tmp_path, runs_per_hour=2)

    async def scene() -> None:
        session = (await place.lisp("(def a 1)"))["session"]
        for text in ("(let [x", "(tool/nothing {})", "(unknown)"):
            assert "error" in await place.lisp(text, session)
        await place.lisp("a", session)
        with pytest.raises(RequestRefused, match="2 runs an hour"):
            await place.lisp("a", session)

    asyncio.run(scene())


def test_the_steps_of_a_session_are_those_of_its_caller(tmp_path: Path) -> None:
    place = Place(tmp_path, steps=5)

    async def scene() -> None:
        session = (await place.lisp("(tool/look {:id 1})"))["session"]
        told = [await place.lisp("(tool/look {:id 1})", session) for _ in range(3)]
        assert told[-1]["error"]["reason"] in ("limit", "gate")

    asyncio.run(scene())


def test_a_turn_that_waits_tells_the_operator_and_is_asked_for_later(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def scene() -> None:
        waits = await place.lisp('(def said (tool/ask {})) (when (= said "agree") (tool/pay {:sum 5}))')
        session = waits["session"]
        assert (waits["error"]["reason"], place.house.paid) == ("waits", [])
        assert place.house.tokens()[-1] not in str(waits)
        await place.house.approve()
        done = await place.lisp(None, session)
        assert (done["turn"], done["defined"], place.house.paid) == (1, ["said"], [5])

    asyncio.run(scene())


def test_a_session_goes_on_after_the_server_was_started_again(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def scene() -> None:
        text = '(def said (tool/ask {})) (when (= said "agree") (tool/pay {:sum 5}))'
        session = (await place.lisp("(def a 7)", data={"id": 1}, signature=":int"))["session"]
        await place.lisp(text, session)
        place.start_again()
        waits = await place.lisp(None, session)
        assert (waits["error"]["reason"], place.house.paid) == ("waits", [])
        with pytest.raises(RequestRefused, match="you have no such session"):
            await place.lisp("a", session, caller=place.house.other)
        await place.house.approve()
        place.start_again()
        settled = await place.lisp(None, session)
        assert (settled["turn"], settled["defined"], place.house.paid) == (2, ["said"], [5])
        place.start_again()
        refused = await place.lisp("(tool/pay {:sum 6})", session)
        assert (refused["error"]["reason"], place.house.paid) == ("gate", [5])
        done = await place.lisp("(return (+ a data/id))", session)
        assert (done["value"], done["turn"]) == (8, 3)

    asyncio.run(scene())


def test_a_caller_has_a_number_of_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    place = Place(tmp_path)

    async def scene() -> None:
        first, second, third = [(await place.lisp("(def a 1)"))["session"] for _ in range(3)]
        assert [(await place.lisp("a", one))["value"] for one in (first, second, third)] == [1, 1, 1]
        assert len(place.gateway._sessions._held["model"]) == 2

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("elsewhere", "turn", "again"),
    [
        ("(def y 2)", "(+ x y)", {"turn": 3, "value": 3}),
        ("(def x 7)", "(+ x 1)", {"turn": 3, "value": 8}),
        ("(defn f [a] a)", "(f x)", {"turn": 3, "value": 1}),
        ("(tool/pay {:sum 5})", "(tool/pay {:sum 6})", {"turn": 3, "error": "gate"}),
        ("(return 1)", "(+ x 1)", {"turn": 3, "error": "closed"}),
        ("(def y 2)", "(foo", {"turn": 3, "error": "parse_error"}),
        ("(tool/ask {})", "(+ x 1)", {"turn": 2, "error": "waits"}),
    ],
)
def test_a_turn_after_one_of_another_server_is_proved_from_there(
    tmp_path: Path, elsewhere: str, turn: str, again: dict[str, Any]
) -> None:
    """What depends on the other turn was judged without it, for ever: nothing was run, so nothing was read again."""
    one, other = Place(tmp_path), Place(tmp_path)

    async def scene() -> None:
        session = (await one.lisp("(def x 1)"))["session"]
        await other.lisp(elsewhere, session)
        told = (await one.lisp(turn, session))["error"]
        assert (told["reason"], "somebody else has gone on with session" in told["message"]) == ("refused", True)
        answer = await one.lisp(turn, session)
        answer = {**answer, **({"error": answer["error"]["reason"]} if "error" in answer else {})}
        assert {key: answer[key] for key in again} == again

    asyncio.run(scene())


def test_the_turn_of_another_server_is_waited_for(tmp_path: Path) -> None:
    one, other = Place(tmp_path), Place(tmp_path)

    async def scene() -> None:
        session = (await one.lisp("(def x 1)"))["session"]
        await other.lisp("(tool/ask {})", session)
        assert (await one.lisp(None, session))["error"]["reason"] == "waits"
        await other.house.approve()
        assert (await one.lisp(None, session))["value"] == "agree"

    asyncio.run(scene())
