"""What the turns of a session compile to, on the ground that earlier ones have left."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Program
from stepward.vm.lisp import evaluate
from stepward.vm.lisp.compiling.document import Turn, read_turn
from stepward.vm.lisp.compiling.starting_point import StartingPoint
from stepward.vm.lisp.faults import Fault
from stepward.vm.reading.source import Place

VALUES: dict[str, Any] = {
    "orders": {"type": "array", "maxItems": 3},
    "*1": {"type": "number", "const": 5},
    "data/limit": {"type": "number"},
}
GROUND = StartingPoint(values=VALUES, functions={"total": "(defn total [xs]\n  (sum-by :total xs))"})
LOOP = "(for [o orders] (tool/pay {:order o}))"


def turn(text: str, **more: Any) -> Turn:
    found = read_turn("turn.clj", text, StartingPoint(GROUND.values, GROUND.functions, **more))
    Program.from_document(found.document)  # it is a program of the language
    return found


def steps(found: Turn) -> list[tuple[str, str]]:
    return [(step["id"], step["type"]) for step in found.document.data["steps"]]


def test_a_turn_has_only_the_inputs_that_it_reads() -> None:
    assert turn("(+ 1 2)").document.data["inputs"] == {}
    found = turn("(+ *1 data/limit (total orders))")
    assert found.sources == {"limit": "data/limit", "v_1": "*1", "orders": "orders"}
    assert found.document.data["inputs"]["v_1"] == {"type": "number", "const": 5}


def test_places_are_those_of_the_text_that_its_author_knows() -> None:
    found = turn("(def a 1)\n(total orders)")
    place = Place(("steps", 0))
    span = found.document.locate([place])[place]
    assert (span.line, span.column) == (2, 1)
    assert found.document.text.startswith("(def a 1)\n(total orders)\n")


def test_what_a_turn_defines_is_in_its_output() -> None:
    found = turn("(def a 1) (defn f [x] x) (when (> *1 2) (return a)) (def b [a])")
    ends = [step["output"] for step in found.document.data["steps"] if step["type"] == "end"]
    assert [(set(end["defined"]), end["returned"]) for end in ends] == [({"a"}, True), ({"a", "b"}, False)]
    assert found.functions == {"f": "(defn f [x] x)"}


def test_a_function_that_is_defined_again_is_the_new_one() -> None:
    found = turn("(defn total [xs] 0) (total orders)")
    assert found.functions == {"total": "(defn total [xs] 0)"}
    assert "sum-by" not in found.document.text


def test_a_name_is_given_a_value_once_in_a_turn() -> None:
    turn("(def orders 1) (+ orders 1)")
    with pytest.raises(Fault, match="`orders` is defined twice"):
        turn("(def orders 1) (def orders 2)")


def test_known_calls_become_results_and_others_look() -> None:
    text = "(tool/pay {:order 1}) (tool/pay {:order 2})"
    assert [kind for _, kind in steps(turn(text))] == ["tool", "tool", "end"]
    found = turn(text, recalled={0: {"type": "string"}}, remembered={1: {"type": "array"}})
    kinds = [kind for _, kind in steps(found)]
    assert kinds == ["compute", "compute", "condition", "tool", "set", "compute", "set", "end"]
    assert found.sources == {"known_pay": 0, "known_pay_2": 1}


def test_a_loop_is_written_out_as_far_as_it_is_known() -> None:
    assert [kind for _, kind in steps(turn(LOOP)) if kind in ("tool", "for_each")] == ["for_each"]
    found = turn(LOOP, unrolled={0: (2, 3)})
    assert [kind for _, kind in steps(found) if kind in ("tool", "for_each")] == ["tool", "tool", "for_each"]
    whole = turn(LOOP, unrolled={0: (3, 3)})
    assert [kind for _, kind in steps(whole) if kind in ("tool", "for_each")] == ["tool", "tool", "tool"]
    assert len(set(whole.sites.sites.values())) == 1  # the items of a loop have one site


def test_two_calls_of_one_form_are_two_sites() -> None:
    found = turn("(defn f [] (tool/pay {:order 1})) (f) (f) (tool/pay {:order 1})")
    assert list(found.sites.sites.values()) == [("(tool/pay {:order 1})", rank) for rank in range(3)]


def test_a_loop_over_no_items_has_no_step() -> None:
    assert steps(turn("(doseq [x []] (tool/pay {:order x}))")) == [("items", "compute"), ("done", "end")]
    program = Program.from_lisp("(for [x []] (tool/pay {:order x}))")
    assert [step.type for step in program.steps] == ["compute", "end"]


def test_printing_is_done_each_time_in_a_turn() -> None:
    text = "(println 1) (println 1) 2"
    assert [kind for _, kind in steps(turn(text))] == ["compute", "compute", "end"]
    assert [step.type for step in Program.from_lisp(text).steps] == ["compute", "end"]  # as programs always were


def test_entries_can_be_hidden_from_texts() -> None:
    data = {"m": {"a": 1, "_b": {"c": 2}, "d": [{"_e": 3}]}}
    text = "(println data/m) (str data/m)"
    assert evaluate(text, data).value == '{"_b" {"c" 2}, "a" 1, "d" [{"_e" 3}]}'
    hidden = evaluate(text, data, hides="_")
    assert (hidden.value, hidden.printed) == ('{"a" 1, "d" [{}]}', ('{"a" 1, "d" [{}]}',))
