"""Turns of a session: what stays, what is rolled back, what is proved, and what is said."""

from __future__ import annotations

import asyncio
import json

import pytest

from stepward.validator.repl.console import rendered
from stepward.vm import Program
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replay, replayer
from turn_shops import HIDDEN, SECRET, Shop, last, taken

FETCH = '(def found (tool/orders {:customer "ada"}))'


def reason(answer: object) -> str:
    error = answer.error  # type: ignore[attr-defined]
    return "" if error is None else error.reason


# -- what stays --------------------------------------------------------------------------------------------------------


def test_values_and_functions_stay_for_later_turns() -> None:
    shop = Shop()
    session = shop.session()
    answer = last(
        session, FETCH, '(defn open [xs] (filter #(= (:status %) "open") xs))', "(sum-by :total (open found))"
    )
    assert (answer.value, shop.calls) == (14.5, [("orders", "ada")])
    assert session.names == {"found": "an array", "open": "a function"}


def test_a_failed_turn_defines_nothing_and_its_effects_stay() -> None:
    shop = Shop()
    first, second = taken(shop.session(), '(def a 1) (tool/remind {:id 1}) (fail "no")', "a")
    assert (reason(first), reason(second), shop.calls) == ("failed", "unbound_var", [("remind", 1)])


def test_a_name_gets_another_value_and_a_function_of_its_name_goes() -> None:
    session = Shop().session()
    assert last(session, "(def a 1)", "(def a (inc a))", "a").value == 2
    assert last(session, "(defn a [] 5)", "(a)").value == 5
    assert last(session, "(def a 7)", "a").value == 7
    assert last(session, "(defonce a 8)", "a").value == 7


def test_the_last_values_have_names() -> None:
    assert last(Shop().session(), "1", "2", "3", "[*1 *2 *3]").value == (3, 2, 1)
    assert reason(last(Shop().session(), "*1")) == "unbound_var"


def test_a_list_of_an_earlier_turn_bounds_a_loop() -> None:
    shop = Shop()
    assert last(shop.session(), FETCH, "(doseq [one found] (tool/remind {:id (:id one)}))").error is None
    assert shop.calls[1:] == [("remind", 1), ("remind", 2), ("remind", 3)]
    empty = last(shop.session(), "(def none [])", "(for [one none] (tool/remind {:id one}))")
    assert (empty.error, empty.value) == (None, ())


def test_data_are_given_at_the_start() -> None:
    shop = Shop()
    session = shop.session(data={"customer": "bob"})
    assert last(session, "(tool/orders {:customer data/customer}) data/customer").value == "bob"
    answer = last(session, "data/nobody")
    assert answer.error is not None
    assert (answer.error.message, answer.error.hint) == ("there is no `data/nobody`", "there are: data/customer")


# -- a turn that is tried again ----------------------------------------------------------------------------------------

AGAIN = {
    "the same text": "(tool/remind {:id 1}) (tool/remind {:id 2})",
    "a call in front": '(tool/orders {:customer "x"}) (tool/remind {:id 1}) (tool/remind {:id 2})',
    "other white space": "(tool/remind\n  {:id 1})\n(tool/remind {:id 2})",
}


@pytest.mark.parametrize("text", AGAIN.values(), ids=AGAIN)
def test_a_call_that_was_made_is_not_made_again(text: str) -> None:
    shop = Shop()
    shop.failing = {2}
    session = shop.session()
    (failed,) = taken(session, "(tool/remind {:id 1}) (tool/remind {:id 2})")
    assert reason(failed) == "tool_error"
    assert failed.error is not None
    assert failed.error.details["column"] == 23
    shop.failing = set()
    before = len(shop.calls)
    assert last(session, text).value == "sent"
    assert [call for call in shop.calls[before:] if call[0] == "remind"] == [("remind", 2)]


def test_other_arguments_are_another_call() -> None:
    shop = Shop()
    session = shop.session()
    taken(session, '(def id 1) (tool/remind {:id id}) (fail "x")', "(def id 2) (tool/remind {:id id})")
    assert shop.calls == [("remind", 1), ("remind", 2)]


def test_a_loop_goes_on_where_it_failed() -> None:
    shop = Shop()
    shop.failing = {3}
    session = shop.session()
    loop = "(for [id [1 2 3 4]] (do (tool/remind {:id id}) (str id)))"
    (failed,) = taken(session, loop)
    shop.failing = set()
    answer = last(session, loop)
    assert (reason(failed), answer.value) == ("tool_error", ("1", "2", "3", "4"))
    assert [id for _, id in shop.calls] == [1, 2, 3, 3, 4]


def test_two_calls_of_one_form_are_two_calls() -> None:
    shop = Shop()
    session = shop.session()
    text = "(defn send [] (tool/remind {:id 1})) (send) (send)"
    taken(session, f'{text} (fail "x")', text, text)
    assert [id for _, id in shop.calls] == [1, 1, 1, 1]  # twice, none again, and twice in a new turn


def test_a_turn_that_succeeded_is_no_retry_of_the_next() -> None:
    shop = Shop()
    taken(shop.session(), '(tool/remind {:id 1}) (fail "x")', "(tool/remind {:id 1})", "(tool/remind {:id 1})")
    assert shop.calls == [("remind", 1)] * 2


# -- one run -----------------------------------------------------------------------------------------------------------


def test_a_second_payment_is_refused_before_its_turn_starts() -> None:
    shop = Shop()
    session = shop.session()
    answer = last(session, "(tool/refund {:amount 5})", "(def x 1)", "(+ x\n  (count (tool/refund {:amount 6})))")
    assert (reason(answer), answer.run, shop.calls) == ("gate", "", [("refund", 5)])
    assert answer.error is not None
    details = answer.error.details
    assert (details["code"], details["line"], details["column"]) == ("SW404", 2, 10)
    assert details["before"] == ["turn 1: (tool/refund {:amount 5})"]
    assert "turn 1 of this session: (tool/refund {:amount 5})" in answer.told
    assert last(session, "(inc x)").value == 2


EARLIER = (
    "(defn pay [n] (tool/refund {:amount n}))",
    "(defn tell [n] (tool/remind {:id (/ 6 n)}))",
    "(defn one [n] n)",
    "(defn each [ns] (doseq [n ns] (tool/remind {:id n})))",
)


@pytest.mark.parametrize(
    ("text", "found", "place"),
    [
        ("(inc 1)\n  (pay 500)", "gate", (2, 3)),
        ("(inc 1)\n  (do (pay 5)\n (pay 6))", "gate", (3, 2)),
        ("(inc 1)\n  (defn both [n] (pay n))\n (both 500)", "gate", (3, 2)),
        ("(inc 1)\n  (tell 0)", "arithmetic_error", (2, 3)),
        ("(inc 1)\n  (tell 1)", "tool_error", (2, 3)),
        ("(defn one [] 1)\n(defn tell [n] (tool/remind {:id (one n)}))\n(tell 2)", "arity_error", (2, 34)),
        ("(def rows (:rows (tool/raw {})))\n (each rows)", "refused", (2, 2)),
    ],
)
def test_what_is_wrong_stands_in_the_turn_and_not_in_the_functions_before_it(
    text: str, found: str, place: tuple[int, int]
) -> None:
    shop = Shop()
    shop.failing = {6}
    answer = last(shop.session(), *EARLIER, text)
    assert answer.error is not None
    assert answer.error.message.startswith("in a function of an earlier turn: ") is (found == "refused")
    assert (answer.error.reason, answer.error.details.get("line"), answer.error.details.get("column")) == (
        found,
        *place,
    )


def test_each_path_stands_under_its_own_message() -> None:
    answer = last(Shop().session(), "(tool/refund {:amount 5})", "(tool/refund {:amount 500})")
    starts = [line.split("`", 1)[0] for line in rendered(answer)]
    assert starts == [
        "error[gate] at 1:1: ",
        *["  path: refund starts", "  and: "],
        "  path: refund starts",
        "  turn 1 of this session: (tool/refund {:amount 5})",
        "  help: route the run around ",
    ]


def test_a_payment_of_a_failed_turn_counts_and_its_retry_is_no_second_one() -> None:
    shop = Shop()
    session = shop.session()
    text = '(def a 5) (tool/refund {:amount a}) (fail "x")'
    failed, other, again = taken(session, text, "(tool/refund {:amount 6})", text.replace(' (fail "x")', " a"))
    assert (reason(failed), reason(other), again.value) == ("failed", "gate", 5)
    assert shop.calls == [("refund", 5)]


def test_an_approval_of_an_earlier_turn_counts() -> None:
    rules = [{"name": "ask", "protects": {"tool": "refund"}, "requires": {"tool": "person"}}]
    shop = Shop(rules)
    session = shop.session()
    assert reason(last(session, "(tool/refund {:amount 5})")) == "gate"
    assert last(session, "(tool/person {:id 1})", "(tool/refund {:amount 5})").value == "paid"


def test_two_that_exclude_each_other_do_so_over_turns() -> None:
    shop = Shop([{"name": "either", "exclusive": [{"tool": "refund"}, {"tool": "remind"}]}])
    assert reason(last(shop.session(), "(tool/refund {:amount 5})", "(tool/remind {:id 1})")) == "gate"


def test_what_a_failed_turn_owes_has_to_come() -> None:
    shop = Shop(
        [{"name": "shut", "followed_by": {"first": {"tool": "open"}, "then": {"tool": "close"}}, "ends": "success"}]
    )
    session = shop.session()
    failed, other, paid = taken(session, '(tool/open {}) (fail "x")', "(+ 1 1)", "(tool/close {})")
    assert (reason(failed), reason(other), reason(paid)) == ("failed", "gate", "")


def test_a_constant_of_an_earlier_turn_is_one_to_the_proof() -> None:
    session = Shop().session()
    assert reason(last(session, "(def large 500)", "(tool/refund {:amount large})")) == "gate"
    assert last(session, "(def small 50)", "(tool/refund {:amount small})").value == "paid"


def test_the_budget_goes_on() -> None:
    shop = Shop()
    session = shop.session(max_steps=4)
    answers = taken(session, "(tool/remind {:id 1})", "(tool/remind {:id 2})", "(tool/remind {:id 3})")
    assert reason(answers[-1]) in ("limit", "gate")
    assert len(shop.calls) <= 2


def test_each_run_of_a_session_can_be_verified_and_replayed() -> None:
    shop = Shop()
    session = shop.session(name="s")
    taken(session, FETCH, '(tool/remind {:id 1}) (fail "x")', "(tool/remind {:id 1})", "(tool/refund {:amount 2})")
    runs = sorted(shop.journal.names())
    assert runs == ["s.1", "s.2", "s.3", "s.4"]
    for run in runs:
        assert verify(shop.journal, run, replay=replayer(shop.journal, run)).is_intact
        found = replay(shop.journal, run)
        assert found is not None
        assert not found.faults


def faults_of(shop: Shop, run: str) -> list[str]:
    return [fault.what for fault in verify(shop.journal, run, replay=replayer(shop.journal, run)).faults]


def test_a_run_under_rules_of_a_session_that_says_of_none_that_it_continues_it_is_found() -> None:
    shop = Shop()
    taken(shop.session(name="s"), "(tool/refund {:amount 5})")
    forged = shop.policy.model_copy(update={"continues": "s.1"})
    asyncio.run(shop.machine(policies=[forged]).run(Program.from_lisp("(tool/refund {:amount 6})"), run_id="s.2"))
    assert ["it continues no run" in fault for fault in faults_of(shop, "s.2")] == [True]
    assert not faults_of(shop, "s.1")


# -- a person decides --------------------------------------------------------------------------------------------------

ASKS = '(def said (tool/ask {})) (when (= said "yes") (tool/refund {:amount 5}))'


def test_a_turn_waits_for_a_person_and_is_not_run_twice() -> None:
    shop = Shop()
    session = shop.session(name="s")
    waits, other = taken(session, ASKS, "(+ 1 1)")
    assert (reason(waits), reason(other)) == ("waits", "waits")
    (suspension,) = asyncio.run(shop.machine(policies=[shop.policy]).get("s.1")).suspensions
    asyncio.run(shop.machine().resume(suspension.token, "yes"))
    answer = last(session, ASKS)
    assert (answer.value, answer.number, shop.calls) == ("paid", 1, [("ask", None), ("refund", 5)])
    assert last(session, "said").value == "yes"


def test_a_turn_that_was_cancelled_while_it_waited_has_failed() -> None:
    shop = Shop()
    session = shop.session(name="s")
    taken(session, ASKS)
    asyncio.run(shop.machine().cancel("s.1"))
    answer = last(session, ASKS)
    assert (reason(answer), answer.number) == ("failed", 1)
    assert reason(last(session, "said")) == "unbound_var"


# -- what is returned --------------------------------------------------------------------------------------------------


def test_what_is_returned_has_the_type_of_the_signature() -> None:
    session = Shop().session(signature="{:total :float, :ids [:int], :note :string?}")
    wrong, right, after = taken(
        session, '(return {:total "1" :ids [1]})', "(return {:total 1.5 :ids [1 2]})", "(+ 1 1)"
    )
    assert (reason(wrong), right.is_last, reason(after)) == ("signature", True, "closed")
    assert wrong.error is not None
    assert "total" in wrong.error.message
    assert right.value == {"total": 1.5, "ids": (1, 2)}


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        (":money", "`:money` is no type"),
        ("{:a}", "a map has a key without a value"),
        ("[:int :int]", "a signature is a type"),
        (":int :int", "a signature is one form"),
        ("{}", "a signature is a type"),
        ("{1 :int}", "a key of a map"),
        (":int" + " " * 5_000, "more than 4,000 characters"),
    ],
)
def test_a_signature_that_is_none_is_refused(signature: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("{", r"\{")):
        Shop().session(signature=signature)


def test_a_branch_returns_and_the_rest_is_not_run() -> None:
    shop = Shop()
    session = shop.session()
    answer = last(session, "(def a 1) (when (< a 5) (return :early)) (tool/remind {:id 1})")
    assert (answer.value, answer.is_last, answer.defined, shop.calls) == ("early", True, ("a",), [])


# -- what is printed ---------------------------------------------------------------------------------------------------


def test_println_is_told_in_order_and_each_time() -> None:
    text = (
        "(println 1) (println 1) (doseq [x [2 3]] (do (println x) (tool/remind {:id x}))) (map #(do (println %) %) [4])"
    )
    assert last(Shop().session(), text).printed == ("1", "1", "2", "3", "4")
    failed = last(Shop().session(), "(println :before) (+ 1 nil)")
    assert (failed.printed, reason(failed)) == ((":before",), "type_error")


def test_errors_have_a_place_in_the_text_of_the_turn() -> None:
    session = Shop().session()
    answer = last(session, "(defn f [x] (+ x 1))", "(def a 1)\n(println a)\n(f nil)")
    assert answer.error is not None
    value = answer.error.as_value()
    assert value.keys() == {"reason", "message", "details", "hint"}
    assert (value["reason"], value["details"]["line"], value["details"]["column"]) == ("type_error", 3, 1)
    json.dumps(answer.as_value(), default=str)


# -- what is hidden ----------------------------------------------------------------------------------------------------

SHOWS = [
    "(tool/raw {})",
    "(println (tool/raw {}))",
    "(def r (tool/raw {})) (str r)",
    "(def r (tool/raw {})) (:_note r)",
    "(def r (tool/raw {})) (println (:_note r) (upper-case (:_note r)))",
    "(def r (tool/raw {})) (fail (:_note r))",
    "(def r (tool/raw {})) (+ 1 (:_note r))",
    "(def r (tool/raw {})) (throw (:_note r))",
    "(def r (tool/raw {})) (map :_id (:inner r))",
]


@pytest.mark.parametrize("text", SHOWS)
def test_what_is_hidden_is_in_no_answer(text: str) -> None:
    for answer in taken(Shop().session(), text, "*1"):
        told = f"{answer.as_value()} {answer.told} {answer.shown}".casefold()
        assert HIDDEN not in told
        assert "918273" not in told


def test_a_program_can_use_what_is_hidden() -> None:
    assert last(Shop().session(), "(def r (tool/raw {}))", "(count (:_note r))").value == len(HIDDEN)


@pytest.mark.parametrize(
    "text",
    [
        "(tool/person {:id 1})",
        "(println (:email (tool/person {:id 1})))",
        '(def p (tool/person {:id 1})) (str "x" (:email p))',
        "(def p (tool/person {:id 1})) (fail (:email p))",
        "(def p (tool/person {:id 1})) (+ 1 (:email p))",
        "(def p (tool/person {:id 1})) (apply str (reverse (:email p)))",
    ],
)
def test_what_is_sensitive_is_in_no_answer_and_in_no_record(text: str) -> None:
    shop = Shop()
    session = shop.session()
    for answer in taken(session, text, "(println *1) *1", "p"):
        told = f"{answer.as_value()} {answer.told}"
        assert SECRET not in told
        assert SECRET[::-1] not in told
    records = b"".join(entry.record for run in shop.journal.names() for entry in shop.journal.read(run))
    assert SECRET.encode() not in records
