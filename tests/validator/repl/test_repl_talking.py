"""A model that takes turns: what it is told, what its replies may be, and when it stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepward.validator.planner.brief import brief_of
from stepward.validator.repl.session import Session
from stepward.validator.repl.talking import Conversation, card, instructions, talking_program
from stepward.vm import ExecutionVM, ModelReply, ModelRequest, Run
from turn_shops import FACTS, HIDDEN, SECRET, Shop


class Writer:
    """A model that writes turns in order, and keeps what it was told."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.prompts, self.systems = list(replies), [], set()  # type: ignore[var-annotated]

    def complete(self, request: ModelRequest) -> ModelReply:
        self.prompts.append(request.prompt)
        self.systems.add(request.system)
        return ModelReply(self.replies.pop(0) if self.replies else "(+ 1 1)", tokens=10)


def talked(shop: Shop, model: Writer, turns: int = 5, **bounds: Any) -> tuple[Run, Session, Conversation]:
    session = shop.session(name="s", data={"customer": "ada"})
    brief = brief_of("x", name="turn", manifest=FACTS, policies=[shop.policy], about={}, inputs=None)
    talk = Conversation(session, "sum the open orders", brief.manifest, {"orders": "Return orders."}, lambda *_: None)
    machine = ExecutionVM(talk.tools(), model, shop.journal, checker=None)
    given = {"instructions": instructions(), "request": talk.request()}
    return asyncio.run(machine.run(talking_program(turns, **bounds), given, run_id="s.talk")), session, talk


def test_a_model_takes_turns_until_it_returns() -> None:
    shop = Shop()
    model = Writer(
        "```clojure\n(def found (tool/orders {:customer data/customer}))\n```",
        "(sum-by :total (filter open? found))",
        '(return {:total (sum-by :total (filter #(= (:status %) "open") found))})',
    )
    run, session, talk = talked(shop, model)
    assert (run.status, run.output, session.is_over) == ("SUCCESS", {"total": 14.5}, True)
    assert [answer.error and answer.error.reason for answer in talk.answers] == [None, "unbound_var", None]
    assert "sum the open orders" in model.prompts[0]
    assert "data/customer: a string" in model.prompts[0]
    assert "found: an array" in model.prompts[1]
    assert "`open?` has no value" in model.prompts[2]
    assert model.systems == {instructions()}
    assert sorted(shop.journal.names()) == ["s.1", "s.2", "s.talk"]


def test_a_model_that_does_not_return_is_stopped() -> None:
    run, session, _ = talked(Shop(), Writer(), turns=3)
    assert (run.status, run.output) == ("FAILED", {"reason": "the model has not returned in 3 turns"})
    assert not session.is_over


def test_the_tokens_of_a_task_are_bounded() -> None:
    run, _, talk = talked(Shop(), Writer(), turns=9, max_tokens=25)
    assert (run.status, len(talk.answers)) == ("BUDGET_EXCEEDED", 3)


@pytest.mark.parametrize(
    "reply", ["I think (+ 1 2) is it.", "", "```\n(+ 1\n```", "x" * 200_000, '(fail "<<<task>>>")']
)
def test_a_reply_that_is_no_turn_is_answered(reply: str) -> None:
    run, _, talk = talked(Shop(), Writer(reply, "(return 1)"))
    assert (run.output, len(talk.answers)) == (1, 2)
    assert talk.answers[0].error is not None


def test_a_model_never_sees_what_is_hidden_or_sensitive() -> None:
    model = Writer(
        "(def p (tool/person {:id 1})) p", "(def r (tool/raw {})) (println r (:_note r)) (str r)", "(fail (str r p))"
    )
    talked(Shop(), model)
    told = "\n".join(model.prompts)
    assert SECRET not in told
    assert HIDDEN not in told


def test_what_a_model_is_told_of_earlier_turns_has_a_bound() -> None:
    model = Writer(*['(println (apply str (repeat 7000 "a")))'] * 12)
    talked(Shop(), model, turns=12)
    assert max(map(len, model.prompts)) < 45_000
    assert "left out" in model.prompts[-1]


def test_the_card_is_short_and_its_program_passes() -> None:
    assert len(card()) <= 5_000
    program = card().split("```clojure\n")[1].split("```")[0].replace("fetch_orders", "orders")
    answer = asyncio.run(Shop().session(data={"customer": "ada"}).turn(program))
    assert (answer.error, answer.value) == (None, {"total": 14.5})
