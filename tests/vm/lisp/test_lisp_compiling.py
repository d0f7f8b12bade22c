"""Fast: what forms with effects compile to, what is refused and why, and where the parts stand in the Lisp text."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Program
from stepward.vm.errors import ProgramError
from stepward.vm.reading.source import Place


def steps(text: str) -> list[dict[str, Any]]:
    """Return the steps of a program, without what follows from their order."""
    found = Program.from_lisp(text).to_dict()["steps"]
    ids = [step["id"] for step in found]
    for number, step in enumerate(found):
        if step.get("next_step") in ids[number + 1 : number + 2]:
            del step["next_step"]
    return found


def short(text: str) -> str:
    """Return the steps of a program in few words."""
    return " ".join(f"{step['type']}:{step['id']}" for step in steps(text))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("(+ 1 2)", "set:set_value end:done"),
        ("(count data/l)", "compute:value end:done"),
        ("(tool/a)", "tool:a end:done"),
        ("(tool/b {:x (tool/a {:y 1})})", "tool:a tool:b end:done"),
        ("[(tool/a) (tool/a)]", "tool:a tool:a_2 end:done"),
        ("(-> data/id (tool/a) (tool/b))", None),
        ("(->> {:id 1} (tool/a) :name (str \"x\"))", "tool:a compute:value end:done"),
        ("(do (tool/a) (tool/b))", "tool:a tool:b end:done"),
        ("(let [total (sum-by :n (tool/a))] (tool/b {:n total}))", "tool:a compute:total tool:b end:done"),
        ("(if (> (tool/a) 3) (tool/b) nil)", "tool:a condition:test tool:b end:done end:done_2"),
        ("(when (and (> (tool/a) 3) (= (tool/b) \"x\")) (tool/c))",
         "tool:a condition:test tool:b condition:test_2 tool:c end:done end:done_2"),
        ("(when data/flag (tool/a))", "compute:is condition:test tool:a end:done end:done_2"),
        ("(do (when true (tool/a)) 1)", "tool:a end:done"),
        ("(do (when nil (tool/a)) 1)", "end:done"),
        ("(defn f [x] (inc x)) (tool/a {:n (f 1)})", "compute:value tool:a end:done"),
        ("(defn f [x] (tool/a {:n x})) [(f 1) (f 2)]",
         "tool:a compute:set_f_1 tool:a_2 compute:set_f_2 end:done"),
        ("(return (tool/a)) (tool/b)", "tool:a end:done"),
        ("(do (tool/a) (fail \"no\") (tool/b))", "tool:a end:failed"),
        ("(def rate (tool/a)) (* 2 rate)", "tool:a compute:value end:done"),
        ("(println (tool/a))", "tool:a compute:value end:done"),
    ],
)  # fmt: skip
def test_effects_become_steps_in_their_order(text: str, kinds: str | None) -> None:
    if kinds is None:
        with pytest.raises(ProgramError, match="are not written out"):
            steps(text)
    elif "set_f" in kinds:
        assert [step["type"] for step in steps(text)].count("tool") == 2
    else:
        assert short(text) == kinds


@pytest.mark.parametrize(
    ("test", "condition"),
    [
        ("(> (tool/n) 3)", "$n.output > 3"),
        ("(<= 2.5 (tool/n))", "2.5 <= $n.output"),
        ('(= (tool/n) "it\'s")', "$n.output == 'it\\'s'"),
        ("(not= nil (tool/n))", "null != $n.output"),
        ("(nil? (tool/n))", "$n.output == null"),
        ("(let [c (count data/l)] (> (+ c 1) (* 2 c)))", "($c.output + 1) > (2 * $c.output)"),
        ("(= (tool/n) :open)", "$is.output"),
        ('(= (:status (tool/n)) "open")', "$is.output"),
        ("(empty? (tool/n))", "$is.output"),
        ("(not (> (tool/n) 3))", "$n.output > 3"),
    ],
)
def test_a_test_is_a_condition_where_both_languages_agree(test: str, condition: str) -> None:
    given = f"(if {test} (tool/a) (tool/b))"
    if test.startswith("(let"):
        given = f"(let [c (count data/l)] (if {test[test.index(']') + 2 : -1]} (tool/a) (tool/b)))"
    (found,) = [step for step in steps(given) if step["type"] == "condition"]
    assert found["condition"] == condition


@pytest.mark.parametrize(
    ("test", "conditions"),
    [
        ("(<= 1 x 500)", ["1 <= $n.output", "$n.output <= 500"]),
        ("(not (<= 1 x 500))", ["1 <= $n.output", "$n.output <= 500"]),
        ("(> 9 x 5 2)", ["9 > $n.output", "$n.output > 5", "5 > 2"]),
        ("(= 1 x 2)", ["1 == $n.output", "$n.output == 2"]),
        ("(not= 1 x 2)", ["1 == $n.output", "$n.output == 2"]),
        ("(<= 1 (count data/l) x)", ["1 <= $value.output", "$value.output <= $n.output"]),
    ],
)
def test_a_comparison_of_several_values_is_one_of_each_pair(test: str, conditions: list[str]) -> None:
    found = steps(f"(let [x (tool/n)] (if {test} (tool/a) (tool/b)))")
    assert [step["condition"] for step in found if step["type"] == "condition"] == conditions


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("(<= 1 x 500)", "(1 <= $n.output and $n.output <= 500)"),
        ("(and (<= 1 x) (not (> x 500)))", "((1 <= $n.output) and (not ($n.output > 500)))"),
        ("(or (< x 1) (= 1 2) true)", "(($n.output < 1) or (1 == 2) or true)"),
        ("(not= 1 2 3)", "(not (1 == 2 and 2 == 3))"),
        ("(= x 1)", None),  # it may be a text
        ("(and x (< x 1))", None),  # the value is that of x
        ("(<= 1)", None),
        ("(< x :a)", None),
    ],
)
def test_a_boolean_of_comparisons_is_assigned_and_others_are_computed(value: str, text: str | None) -> None:
    found = steps(f"(let [x (tool/n) ok {value}] (if ok (tool/a) (tool/b)))")
    assert next((step["set"]["ok"] for step in found if step["type"] == "set"), None) == text
    conditions = [step["condition"] for step in found if step["type"] == "condition"]
    assert (conditions == ["$ok"]) == (text is not None)


def test_a_computation_says_its_type_and_what_it_reads() -> None:
    (_, computed, *_) = steps("(let [f (fn [o] (= (:s o) data/s)) xs (filter f (tool/a))] (tool/b {:n (count xs)}))")
    assert computed == {
        "id": "xs",
        "type": "compute",
        "lisp": "(let [f (fn [o] (= (:s o) data/s))]\n  (filter f data/a))",
        "args": {"a": "$a.output", "s": "$s"},
        "returns": {"type": "array"},
    }


def test_what_was_computed_is_not_computed_again() -> None:
    text = "(let [o (tool/a)] (when (> (:n o) 3) (tool/b {:n (:n o)})))"
    assert [step["type"] for step in steps(text)].count("compute") == 1


def test_texts_of_the_program_are_no_references() -> None:
    (call, _) = steps('(tool/a {:x "costs $5, $name" :y {:z ["$a" :k]}})')
    assert call["args"] == {"x": "costs $$5, $$name", "y": {"z": ["$$a", "k"]}}


def test_an_input_has_the_name_of_the_data() -> None:
    assert Program.from_lisp("(tool/a {:x data/order-id})").to_dict()["inputs"] == {"order_id": {}}


@pytest.mark.parametrize(
    ("text", "message", "help"),
    [
        ("(doseq [x (map inc data/l)] (tool/a {:x x}))", "nothing bounds their number", "`(take 100 items)`"),
        ("(doseq [x (filter odd? (tool/list))] (tool/a {:x x}))", "nothing bounds their number", "`(take 100 items)`"),
        ("(for [x [1] y [2]] (tool/a {:x y}))", "`for` calls a tool and binds more than one name", "write an inner"),
        ("(filter #(tool/a {:x %}) data/l)", "a tool is called in a loop (`filter`)", "let a tool take all items"),
        ("(doseq [x [1]] (tool/a {:x x}) (return x))", "`return` stands in a loop", "return after it"),
        ("(loop [i 0] (tool/a) (recur (inc i)))", "a tool is called in a loop (`loop`)", "let a tool take"),
        ("(let [f #(tool/a {:x %})] (f 1))", "within a function that is handed on", "call it where"),
        ("(map tool/a data/l)", "a tool is called in a loop (`map`)", "let a tool take"),
        ("(defn f [x] (tool/a {:x x}) (f x)) (f 1)", "`f` calls a tool and itself", "write the steps out"),
        ("(cond-> {} true (assoc :x (tool/a)))", "a tool is called within `cond->`", "write `let` and `if`"),
        ("(tool/a data/x)", "the arguments of a tool are not written out", "write the map out"),
        ("(tool/a {data/k 1})", "the argument of a tool has no name", "write `{:name value}`"),
        ("(def a 1) (def a 2) (tool/b)", "`a` is defined twice", "give each value a name"),
        ("(do (def a (tool/b)) a)", "`def` stands within a form", "write it at the top"),
        ("(defn f [x] x) (do (tool/a) (def y 2) (f y))", "`def` stands within a form", "or name the value with `let`"),
        ("(def x 1) (do (def x 2)) (tool/a {:n x})", "`def` stands within a form", "write it at the top"),
        ("(defn f [] (def y 2)) (f) (tool/a {:n y})", "`def` stands within a form", "write it at the top"),
        ("(if true (defn f [] 1) 2) (tool/a {:n (f)})", "`defn` stands within a form", "write it at the top"),
        ("(let [x 1] (defonce y x)) (tool/a {:n y})", "`defonce` stands within a form", "write it at the top"),
        ("(tool/a {:f inc})", "a function is no data", "call it"),
        ("(tool/a {:x (fitler odd? [1])})", "`fitler` has no value", "did you mean `filter`"),
        ("(tool/a", "`(` is never closed", ""),
        ("; nothing", "there is no program here", "write a form"),
    ],
)
def test_what_can_not_be_compiled_is_refused_with_a_reason(text: str, message: str, help: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Program.from_lisp(text)
    (problem,) = caught.value.problems
    assert problem.code == "SW001"
    assert message in problem.message
    assert help in problem.help


def test_parts_of_the_program_stand_at_their_forms() -> None:
    text = '(let [n (tool/a)]\n  (if (> n 3)\n    (tool/b {:x "é" :y n})\n    :small))'
    program = Program.from_lisp(text)
    assert program.document is not None
    places = {step.id: Place(("steps", number)) for number, step in enumerate(program.steps)}
    spans = program.document.locate(
        [*places.values(), Place(("steps", 2, "args", "y")), Place(("steps", 1, "condition"))]
    )
    assert spans[places["a"]][:2] == (1, 9)
    assert spans[places["test"]][:2] == (2, 7)
    assert spans[places["b"]] == (3, 5, 3, 27)
    assert spans[Place(("steps", 2, "args", "y"))] == (3, 24, 3, 25)
    assert spans[places["done_2"]][:2] == (4, 5)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("(doseq [x (take 5 data/l)] (tool/a {:x x}))", {"items": "$items.output", "as": "x", "max_items": 5}),
        ("(mapv #(tool/a {:x %}) [1 2 3])", {"items": "$items.output", "as": "item", "max_items": 3}),
        ("(for [x (tool/list)] (tool/a {:x x}))", {"items": "$list.output", "as": "x"}),
        (
            "(run! (fn [x] (tool/a {:x x})) (->> data/l (filter odd?) (take 9) (sort-by :n)))",
            {"items": "$items.output", "as": "x", "max_items": 9},
        ),
        (
            "(doseq [x (filter odd? (take 50 (tool/list)))] (tool/a {:x x}))",
            {"items": "$items.output", "as": "x", "max_items": 50},
        ),
        (
            "(defn f [x] (tool/a {:x x})) (map f (take 2 data/l))",
            {"items": "$items.output", "as": "item", "max_items": 2},
        ),
    ],
)
def test_a_call_for_each_item_is_a_loop_with_a_bound(text: str, fields: dict[str, Any]) -> None:
    (loop,) = [step for step in steps(text) if step["type"] == "for_each"]
    assert {name: loop.get(name) for name in fields} == fields
    assert [step["type"] for step in loop["steps"]][-2:] == ["tool", "end"]


def test_parts_of_a_loop_stand_at_their_forms() -> None:
    program = Program.from_lisp("(for [x (take 5 data/l)]\n  (tool/a {:x x}))")
    assert program.document is not None
    number = next(number for number, step in enumerate(program.steps) if step.type == "for_each")
    place = Place(("steps", number, "steps", 1))
    assert program.document.locate([place])[place][:2] == (2, 3)


DOUBLING = "\n".join(
    ["(defn f0 [] (tool/a))", *(f"(defn f{number} [] (f{number - 1}) (f{number - 1}))" for number in range(1, 40))]
)
CLOSURES = " ".join(["f0 #(inc %)", "f1 #(f0 %)", *(f"f{n} #(f{n - 1} (f{n - 2} %))" for n in range(2, 60))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DOUBLING}\n(f39)", "more than 10,000 steps"),
        (f"(cond {' '.join(f'(> (tool/a) {n}) (tool/b)' for n in range(3000))})", "nested too deep"),
        (f"(-> 1 {'(str (tool/a)) ' * 3000})", "nested too deep"),
        ("(do " + "(tool/a) " * 12_000 + ")", "characters"),
    ],
)
def test_a_hostile_program_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Program.from_lisp(text)


def test_functions_of_functions_are_written_once() -> None:
    (_, computed, _) = steps(f"(let [{CLOSURES} n (tool/a)] (f59 n))")
    assert len(computed["lisp"]) < 2_000
