"""Sessions that go on in another process: what they know, who may go on, and what is found when a record is forged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from stepward.validator.repl.session import Session
from stepward.validator.runs.chains import chain_of
from stepward.vm import Program
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import NO_DIGEST, read_record, write_record
from stepward.vm.journal.store import Append, JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.replay import replayer
from turn_shops import HIDDEN, SECRET, Shop, last, taken

FETCH = '(def found (tool/orders {:customer "ada"}))'
ASKS = '(def said (tool/ask {})) (when (= said "yes") (tool/refund {:amount 5}))'


def reason(answer: object) -> str:
    error = answer.error  # type: ignore[attr-defined]
    return "" if error is None else error.reason


def wrong(shop: Shop, run: str) -> list[str]:
    return [fault.what for fault in verify(shop.journal, run, replay=replayer(shop.journal, run)).faults]


# -- what a session knows ----------------------------------------------------------------------------------------------


def test_values_functions_and_last_values_are_there_again() -> None:
    shop = Shop()
    taken(shop.session(name="s"), FETCH, "(defn twice [x] (* 2 x))", "(def a 1)", "(def a (twice 5))", "a")
    session = shop.session(name="s")
    assert last(session, "[(count found) a (twice 7) *1 *2]").value == (3, 10, 14, 10, 10)
    assert (session.next_number, session.names) == (7, {"found": "an array", "a": "an integer", "twice": "a function"})
    assert shop.calls == [("orders", "ada")]
    assert [wrong(shop, f"s.{number}") for number in range(1, 7)] == [[]] * 6
    assert [one.run for one in chain_of(shop.journal, "s.3")] == [f"s.{number}" for number in range(1, 7)]


def test_data_the_signature_and_the_budget_are_there_again() -> None:
    shop = Shop()
    taken(shop.session(name="s", data={"n": 1, "deep": {"_note": HIDDEN}}, signature="{:total :int}", max_steps=9), "1")
    session = shop.session(name="s")
    answers = taken(session, "(get-in data/deep [:_note])", '(return {:total "x"})')
    assert HIDDEN not in str(answers)
    assert reason(answers[1]) == "signature"
    more = [reason(answer) for answer in taken(shop.session(name="s"), *["(+ 1 1)"] * 6)]
    assert more[-1] in ("limit", "gate")
    assert more.count("") < 6
    over = shop.session(name="t")
    taken(over, "(return {:done true})")
    assert reason(last(shop.session(name="t"), "1")) == "closed"


def test_what_a_failed_turn_defined_is_rolled_back_and_what_it_did_is_not_repeated() -> None:
    shop = Shop()
    shop.failing = {2}
    text = "(def b 2) (tool/remind {:id 1}) (tool/remind {:id 2})"
    taken(shop.session(name="s"), "(def a 1)", text)
    shop.failing = set()
    session = shop.session(name="s")
    assert reason(taken(session, "b")[0]) == "unbound_var"
    assert last(shop.session(name="s"), text, "[a b]").value == (1, 2)
    assert shop.calls == [("remind", 1), ("remind", 2), ("remind", 2)]


def test_rules_remember_the_turns_of_another_process() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "(tool/refund {:amount 5})", "(+ 1 1)")
    refused = last_of(shop.session(name="s"), "(tool/refund {:amount 5})")
    assert (reason(refused), shop.calls) == ("gate", [("refund", 5)])
    assert "turn 1 of this session" in refused.told


def last_of(session: Session, text: str) -> Any:
    return taken(session, text)[0]


def test_a_turn_that_waits_is_settled_by_another_process() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "1", ASKS)
    session = shop.session(name="s")
    assert reason(last_of(session, "said")) == "waits"
    assert session.pending == ASKS
    (suspension,) = asyncio.run(shop.machine(policies=[shop.policy]).get("s.2")).suspensions
    asyncio.run(shop.machine().resume(suspension.token, "yes"))
    answer = last_of(shop.session(name="s"), ASKS)
    assert (answer.value, answer.number, shop.calls) == ("paid", 2, [("ask", None), ("refund", 5)])


# -- who may go on -----------------------------------------------------------------------------------------------------


def test_two_do_not_go_on_with_one_session() -> None:
    shop = Shop()
    one, other = shop.session(name="s"), shop.session(name="s")
    taken(one, "(def a 1)")
    taken(other, "(def a 2)")
    late = last_of(one, "(tool/remind {:id 1})")
    assert (reason(late), shop.calls) == ("refused", [])
    assert "somebody else has gone on with session `s`" in str(late.error)
    assert last_of(one, "a").value == 2

    async def both() -> list[Any]:
        again = shop.session(name="s"), shop.session(name="s")
        return list(await asyncio.gather(*(session.turn("(tool/remind {:id 7})") for session in again)))

    assert sorted(map(reason, asyncio.run(both()))) == ["", "refused"]
    assert shop.calls == [("remind", 7)]


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "other data": ({"data": {"n": 2}}, "without this value of `data/n`"),
    "more data": ({"data": {"m": 1}}, "without this value of `data/m`"),
    "another signature": ({"signature": ":int"}, "with another signature"),
    "another bound": ({"max_steps": 9}, "was started with 50 as the most of its steps"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_session_goes_on_as_it_was_started(name: str) -> None:
    shop, (given, why) = Shop(), OTHERWISE[name]
    taken(shop.session(name="s", data={"n": 1}, signature=":string", max_steps=50), "1")
    answer = last_of(shop.session(name="s", **given), "2")
    assert (reason(answer), why in str(answer.error)) == ("refused", True), answer.error
    assert last_of(shop.session(name="s", data={"n": 1}, signature=":string", max_steps=50), "data/n").value == 1


def test_a_session_goes_on_under_its_rules() -> None:
    shop, lax = Shop(), Shop(rules=[])
    taken(shop.session(name="s"), "1")
    lax.journal = shop.journal
    answer = last_of(lax.session(name="s"), "(tool/refund {:amount 500})")
    assert (reason(answer), "under other rules" in str(answer.error), lax.calls) == ("refused", True, [])


def test_a_run_of_another_kind_is_no_turn() -> None:
    shop = Shop()
    shop.machine().run_sync(Program.from_lisp("(+ 1 1)"), run_id="s.1")
    assert "run `s.1` is no turn of a session" in str(last_of(shop.session(name="s"), "1").error)


def test_a_turn_is_continued_by_turns_alone() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "1")
    with pytest.raises(RunRefused, match=r"run `s\.1` is a turn of a session: take the next turn"):
        shop.machine().continue_run_sync("s.1", Program.from_lisp("2"))


def test_a_session_stays_as_long_as_a_turn_of_it_has_to_and_its_name_is_taken_for_ever() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "1", "2", ASKS)
    later = time.time() + 9
    assert [one.why for one in shop.machine().prunable_sync(later)] == [
        "run `s.3` stands on it",
        "run `s.2` stands on it",
    ]
    asyncio.run(shop.machine().cancel("s.3"))
    assert [one.why for one in shop.machine().prune_sync(later, by="ann")] == [None] * 3
    assert "run `s.1` was pruned" in str(last_of(shop.session(name="s"), "1").error)


# -- what is sensitive -------------------------------------------------------------------------------------------------


def test_a_secret_is_in_no_record_and_an_erasure_covers_the_session() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "(def p (tool/person {:id 1}))", "(def mail (:email p))", "(+ 1 1)")
    session = shop.session(name="s")
    answer = last_of(session, "[mail (count mail) (:name p)]")
    assert (reason(answer), SECRET in str(answer), session.names["mail"]) == ("", False, "a string")
    runs = sorted(shop.journal.names())
    assert not any(SECRET.encode() in entry.record for run in runs for entry in shop.journal.read(run))
    asyncio.run(shop.machine().erase("s.2"))
    for run in runs:
        assert SECRET.encode() not in b"".join(v for v in shop.journal.vault.get(run).values() if isinstance(v, bytes))
        assert wrong(shop, run) == []
    gone = last_of(shop.session(name="s"), "p")
    assert (reason(gone), "sensitive values of session `s` were erased" in str(gone.error)) == ("refused", True)


# -- forged turns ------------------------------------------------------------------------------------------------------


def forged(shop: Shop, run: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let a run of the shop's journal begin with another first record, in a chain that is in order."""
    shelf = MemoryJournal()
    for name in shop.journal.names():
        entries, first = shop.journal.read(name), read_record(shop.journal.read(name)[0]).body
        for digest in (first["program"], *first["policies"]):
            document = shop.journal.document(digest)
            assert document is not None
            shelf.put_document(digest, document)
        if name == run:
            made, previous = [], NO_DIGEST
            for entry in entries:
                record, body = read_record(entry), json.loads(entry.record)["body"]
                if record.seq == 0:
                    change(body)
                version = json.loads(entry.record)["v"]
                texts = canonical(body), canonical(record.note)
                made.append(write_record(record.seq, previous, record.kind, *texts, record.at, version))
                previous = made[-1].digest
            entries = made
        shelf.create(Append(name, -1, entries, "SUCCESS", 0.0, True, None), "turn", "nobody", 1.0)
    shop.journal = shelf


def link(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["continues"].update(fields)


def said(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["turn"].update(fields)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a turn that is missing": (link(run="s.9"), "run `s.9`, is not in this store"),
    "a turn of another session": (link(run="t.1"), "continues run `t.1`, which is not the turn before it"),
    "an earlier turn": (link(run="s.1"), "continues run `s.1`, which is not the turn before it"),
    "a run that is no turn": (link(run="plain"), "which is not the turn before it"),
    "a head of before the end": (link(head="early"), "a head that run `s.2` did not have when it had ended"),
    "an invented head": (link(head="00" * 32), "a head that run `s.2` did not have"),
    "an invented number": (link(number=3), "says that it is turn 4 of a session"),
    "a first turn": (lambda body: body.pop("continues"), "it continues no run"),
    "steps that were granted": (link(granted={"steps": 5}), "only the first turn of a session says"),
    "a budget of its own": (said(max_steps=500), "only the first turn of a session says"),
    "no turn": (lambda body: body.pop("turn"), "a turn of a session, and is no turn"),
    "rules that have seen less": (lambda body: body.update(policies=body["policies"][:0]), "its rules do not begin"),
    "a text that is none": (said(text=5), "does not say in words of the format which turn it is"),
    "another field": (said(more=1), "does not say in words of the format which turn it is"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_turn_is_found(name: str) -> None:
    shop, (change, why) = Shop(), FORGERIES[name]
    taken(shop.session(name="s", max_steps=100), FETCH, "(tool/remind {:id 1})", "(count found)")
    taken(shop.session(name="t"), "1", "2")
    shop.machine().run_sync(Program.from_lisp("(+ 1 1)"), run_id="plain")
    early = shop.journal.read("s.2")[1].digest.hex()

    def changed(body: dict[str, Any]) -> None:
        change(body)
        if body.get("continues", {}).get("head") == "early":
            body["continues"]["head"] = early

    forged(shop, "s.3", changed)
    faults = wrong(shop, "s.3")
    assert faults
    assert why in faults[0]
    with suppress(JournalError):  # and nobody goes on with it
        assert reason(last_of(shop.session(name="s"), "1")) == "refused"


REWRITTEN: dict[str, tuple[Callable[[dict[str, Any]], Any], type[Exception], str]] = {
    "another value of an earlier turn": (
        lambda body: body["inputs"].update(some=[7, 7]),
        JournalError,
        "the inputs of run `s.2` are not what the turns before it have left",
    ),
    "another text": (said(text="(tool/remind {:id 2})"), RunRefused, "is not what this version makes of its text"),
    "a text with a mistake": (said(text="(unknown"), JournalError, "is no turn that follows from those before it"),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_nobody_goes_on_with_a_session_whose_text_and_program_differ(name: str) -> None:
    shop, (change, error, why) = Shop(), REWRITTEN[name]
    taken(shop.session(name="s"), "(def some [1 2 3])", "(empty? some)")
    forged(shop, "s.2", change)
    with pytest.raises(error, match=why):
        asyncio.run(shop.session(name="s").catch_up())
