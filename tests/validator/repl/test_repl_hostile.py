"""Hostile turns: each ends with an answer that has a size, the session goes on, and the state is the one before."""

from __future__ import annotations

import pytest

from stepward.validator.repl.answers import CUT, MAX_SHOWN
from stepward.validator.repl.session import MAX_PRINTED
from stepward.vm.machine import computing
from stepward.vm.values import to_json
from turn_shops import Shop, last, taken

TURNS = {
    "an endless loop": "(loop [i 0] (recur (inc i)))",
    "an endless sequence": "(count (range))",
    "a sequence of all numbers": "(def xs (range))",
    "a text that doubles": '(loop [s "ab"] (recur (str s s)))',
    "a value that nests": "(loop [v []] (recur [v]))",
    "a function that calls itself": "(defn f [n] (inc (f n))) (f 1)",
    "a function that calls itself and a tool": "(defn f [n] (tool/remind {:id n}) (f n)) (f 1)",
    "deep forms": "(" * 3_000 + ")" * 3_000,
    "deep vectors": "[" * 100 + "]" * 100,
    "half a form": '(tool/remind {:id "',
    "half a surrogate pair": '(str "\ud800")',
    "no form": "; nothing",
    "a long text": '"' + "a" * 200_000 + '"',
    "many calls": "(defn a [] (tool/remind {:id 1}) (tool/remind {:id 1}))"
    + "".join(f" (defn {x} [] ({y}) ({y}) ({y}) ({y}))" for x, y in ("ba", "cb", "dc", "ed", "fe", "gf", "hg"))
    + " (h)",
    "a call without a bound": "(doseq [x (range)] (tool/remind {:id x}))",
    "a tool that is not there": "(tool/nothing {})",
    "a name of Java": "(System/exit 0)",
    "a name of a tool made at run time": '(eval (str "(tool/" "remind {:id 1})"))',
    "arguments that are no map": "(tool/remind (assoc {} :id 1))",
    "a function as a value": "(def f (comp inc inc)) [f]",
    "a reference of the language": '(tool/orders {:customer "$args.x"}) (fail "$value.output")',
    "a huge number": "(pow 10 100000)",
}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the limit come soon: how long a million steps take is no question here."""
    monkeypatch.setattr(computing, "MAX_STEPS", 200_000)


@pytest.mark.parametrize("text", TURNS.values(), ids=TURNS)
def test_a_hostile_turn_fails_and_the_session_goes_on(text: str) -> None:
    shop = Shop()
    session = shop.session()
    before, hostile, after = taken(session, "(def kept 1)", text, "(inc kept)")
    assert (before.error, hostile.error is not None, after.value) == (None, True, 2)
    assert len(to_json(hostile.as_value())) < 12_000
    assert session.names == {"kept": "an integer"}
    assert [call for call in shop.calls if call[0] != "orders"] == []


def test_a_huge_print_is_cut_and_counted() -> None:
    text = '(println (apply str (repeat 20000 "a"))) (doseq [i (range 3000)] (println i))'
    answer = last(Shop().session(), text)
    assert sum(len(line) + 1 for line in answer.printed) <= MAX_PRINTED + 2
    assert answer.cut > 20_000


def test_a_huge_value_is_cut() -> None:
    answer = last(Shop().session(), "(vec (range 9000))")
    assert len(answer.shown) < MAX_SHOWN + 200
    assert answer.shown.endswith(CUT)
    assert "value" not in answer.as_value()
    assert last(Shop().session(), "(vec (range 9000))", "(count *1)").value == 9_000


def test_many_names_cost_a_turn_only_what_it_reads() -> None:
    shop = Shop()
    session = shop.session(name="s")
    text = " ".join(f"(def v{number} [{number}])" for number in range(60))
    assert last(session, text, "(first v59)").value == 59
    assert len(b"".join(entry.record for entry in shop.journal.read("s.2"))) < 3_000
