"""The special forms of the Lisp: their values, their mistakes with place and hint, and what goes in and out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from stepward.vm.lisp import LispError, evaluate


def refusal(text: str) -> LispError:
    outcome = evaluate(text)
    assert outcome.error is not None, outcome.shown
    assert outcome.value is None
    return outcome.error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "nil"),
        ("1 2 3", "3"),
        ("(if nil 1)", "nil"),
        ("(if-not nil 1 2)", "1"),
        ("(when true)", "nil"),
        ("(when-not false 1 2)", "2"),
        ("(cond)", "nil"),
        ("(cond false 1)", "nil"),
        ("(condp = 2 1 :a 2 :b)", ":b"),
        ("(condp some [5 6] #{1} :>> inc #{6} :>> dec 0)", "5"),
        ("(case nil nil 1 2)", "1"),
        ("(case true 1 :one true :yes)", ":yes"),
        ('(case "a" ("a" "b") 1 2)', "1"),
        ("(if-some [x false] [x] 1)", "[false]"),
        ("(if-let [[a] nil] a 5)", "5"),
        ("(when-let [{:keys [a]} {:a 1}] a)", "1"),
        ("(when-first [x [nil 2]] [x])", "[nil]"),
        ("(when-first [x []] 1)", "nil"),
        ("(and)", "true"),
        ("(and 1 nil 2)", "nil"),
        ("(and 1 2)", "2"),
        ("(or)", "nil"),
        ("(or nil false)", "false"),
        ("(or nil 3 (fail 1))", "3"),
        ("(let [] 1)", "1"),
        ("(let [x 1 x (inc x)] x)", "2"),
        ("(let [[a [b] & [c]] [1 [2] 3 4]] [a b c])", "[1 2 3]"),
        ('(let [[a :as all] "xy"] [a all])', '["x" "xy"]'),
        ('(let [{:strs [a] b "b"} {"a" 1 "b" 2}] [a b])', "[1 2]"),
        ("(let [{{:keys [x]} :in} {:in {:x 1}}] x)", "1"),
        ("(let [{:keys [a] :or {a 2}} {:a nil}] a)", "nil"),
        ("((fn [& {:keys [a b]}] [a b]) :a 1 :b 2)", "[1 2]"),
        ("((fn f [n] (if (zero? n) :end (f (dec n)))) 3)", ":end"),
        ("((fn [n] (if (zero? n) :end (recur (dec n)))) 3000)", ":end"),
        ("(let [f (fn ([] 0) ([x] 1) ([x & more] 2))] [(f) (f 1) (f 1 2)])", "[0 1 2]"),
        ("(#(vector %2 %1 %&) 1 2 3)", "[2 1 (3)]"),
        ("(let [fn inc] (fn 1))", "2"),
        ("(let [map {:a 1}] (map :a))", "1"),
        ("(def x 1) (def x (inc x)) x", "2"),
        ("(defonce x 1) (defonce x 2) x", "1"),
        ("(def x 1)", "#'user/x"),
        ('(defn f "what it does" [x] x) (f 1)', "1"),
        ("(defn f [] (g)) (defn g [] 7) (f)", "7"),
        ("(defn inc [x] (+ x 10)) (inc 1)", "11"),
        ("(let [fs (for [i (range 3)] (fn [] i))] (map #(%) fs))", "(0 1 2)"),
        ("(let [fs (loop [i 0 fs []] (if (< i 3) (recur (inc i) (conj fs (fn [] i))) fs))] (map #(%) fs))", "(0 1 2)"),
        ("(loop [[x & more] [1 2 3] sum 0] (if x (recur more (+ sum x)) sum))", "6"),
        ("(for [[k v] {:a 1} :let [w (inc v)] :when (= w 2)] [k w])", "([:a 2])"),
        ("(for [x [1 2] y (range x)] [x y])", "([1 0] [2 0] [2 1])"),
        ("(for [x [1 2 3 1] :while (< x 3)] x)", "(1 2)"),
        ("(doseq [x [1 2]] x)", "nil"),
        ("(-> 1)", "1"),
        ("(-> 5 (- 3) str)", '"2"'),
        ("(->> 5 (- 3))", "-2"),
        ("(-> [1 2] (->> (map inc)) vec)", "[2 3]"),
        ("(as-> 1 x (+ x 1) [x])", "[2]"),
        ("(some->> nil (map inc))", "nil"),
        ("(cond->> [1] true (map inc) nil (map dec))", "(2)"),
        ("(comment (fail 1))", "nil"),
        ("'[1 (2 :a) {:b #{3}}]", "[1 (2 :a) {:b #{3}}]"),
        ("(return 1) (fail 2)", "1"),
        ("(map (fn [x] (if (> x 1) (return x) x)) [1 2 3])", "2"),
        ('(clojure.string/upper-case "a")', '"A"'),
        ('(map str/upper-case ["a"])', '("A")'),
        ("(set/union #{1} #{2})", "#{1 2}"),
        ("(clojure.core/inc 1)", "2"),
        ("#'inc", "#<inc>"),
    ],
)
def test_form_gives(text: str, shown: str) -> None:
    outcome = evaluate(text)
    assert outcome.shown == shown, outcome.error


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("(if)", "invalid_form", "`if` has not its parts"),
        ("(let [x] x)", "invalid_form", "a name in the brackets has no value"),
        ("(let x 1)", "invalid_form", "`let` has not its parts"),
        ("(let [a/b 1] 1)", "invalid_form", "`a/b` can't be bound"),
        ("(let [1 2] 1)", "invalid_form", "this is no name and no pattern"),
        ("(let [[a & b c] 1] 1)", "invalid_form", "`&` needs one pattern behind it"),
        ("(let [[a] 5] 1)", "type_error", "a vector pattern needs a vector, a list, a text or nil, not a number"),
        ("(cond true)", "invalid_form", "the last test of `cond` has no value"),
        ("(case 1 x 2)", "invalid_form", "`x` is no constant of `case`"),
        ("(case 1 2 3 2 4)", "invalid_form", "`case` has one constant twice"),
        ("(condp = 1 2 3)", "no_match", "no clause of the form matches"),
        ("(fn x)", "invalid_form", "a function has its parameters in brackets"),
        ("(fn ([x] 1) ([y] 2))", "invalid_form", "two arms take the same number of arguments"),
        (
            "(defn f [x] {:pre [true]} x)",
            "refused",
            "conditions of a function (`:pre`, `:post`) are not in this language",
        ),
        ("(def x)", "invalid_form", "`def` has not its parts"),
        ("(recur)", "invalid_form", "`recur` is not at the end of a loop or function"),
        ("(loop [x 1] (recur))", "arity_error", "`recur` takes 1 values here, not 0"),
        ("(loop [x 1] (inc (recur 1)))", "invalid_form", "`recur` is not at the end of a loop or function"),
        ("(for [x [1]] (recur))", "invalid_form", "`recur` is not at the end of a loop or function"),
        ("(for [:when true] 1)", "invalid_form", "`for` has not its parts"),
        ("(for [x [1] :by 2] x)", "invalid_form", "`:by` is no modifier here"),
        (f"(for [{'x [1] ' * 17}] x)", "invalid_form", "the form has more than 16 bindings"),
        ("((fn f [x] x))", "arity_error", "`f` takes 1 arguments, not 0"),
        ("(:a)", "arity_error", "the keyword `:a` takes 1 or 2 arguments, not 0"),
        ("#(#(%))", "refused", "`#()` within `#()` is not in this language"),
        ("(fn [] %)", "unbound_var", "`%` has no value"),
        ("#(+ %x)", "invalid_form", "`%x` is no argument"),
        ("(map if [1])", "invalid_form", "`if` is a form and no value"),
        ("x (def x 1)", "unbound_var", "`x` has no value yet"),
        ("'x", "refused", "the symbol `'x` is no value in this language"),
        ("'(a)", "refused", "the symbol `'a` is no value in this language"),
        ("{:a 1 :a 2}", "invalid_form", "the map has the key `:a` twice"),
        ("#{1 1.0}", "invalid_form", "the set has `1` twice"),
        (
            "(tool/search {})",
            "refused",
            "a call of a tool (`tool/search`) in an expression without effects is not in this language",
        ),
        ("(atom 1)", "refused", "`atom` is not in this language"),
        ("(clojure.core/eval 1)", "refused", "`clojure.core/eval` is not in this language"),
        ("[1 ...]", "refused", "`...`, which stands for something left out, is not in this language"),
        ("(.length s)", "refused", "the Java name `.length` is not in this language"),
        ("(Math/sqrt 4)", "refused", "`Math/sqrt` is not in this language"),
        ("(java.util.Date.)", "refused", "the Java name `java.util.Date.` is not in this language"),
        ("(clojure.string/map inc [1])", "unbound_var", "`clojure.string/map` has no value"),
        ("data/orders", "unbound_var", "there is no `data/orders`"),
    ],
)
def test_form_is_refused_with_a_place_and_what_to_do(text: str, reason: str, message: str) -> None:
    error = refusal(text)
    assert (error.reason, error.message) == (reason, message)
    assert error.span is not None
    if reason != "arity_error":
        assert error.hint


def test_error_stands_at_the_innermost_call() -> None:
    error = refusal("(defn f [x]\n  (+ x 1))\n(map f [1 nil])")
    assert error.span == (2, 3, 2, 10)
    value = error.as_value()
    assert value.keys() == {"reason", "message", "details", "hint"}
    assert value["details"] == {"function": "+", "line": 2, "column": 3}


def test_unknown_name_gets_the_name_that_is_meant() -> None:
    assert refusal("(fitler odd? [1])").hint == "did you mean `filter` or `filterv`?"
    assert refusal("(defn total [] 1) (totl)").hint == "did you mean `total`?"


def test_data_go_in_and_values_come_out() -> None:
    data: dict[str, Any] = {"orders": [{"id": 1, "total": 2.5}, {"id": 2, "total": None}], "name": "x"}
    outcome = evaluate("{:ids (map :id data/orders) :sum (sum-by :total data/orders) :tags #{:a} data/name true}", data)
    assert outcome.value == {"ids": (1, 2), "sum": Decimal("2.5"), "tags": ("a",), "x": True}
    assert outcome.is_ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inc", "a function is no data"),
        ("[(fn [x] x)]", "a function is no data"),
        ("{[1] 2}", "a key of a map is a vector, and data have texts as keys: `[1]`"),
        ('{:a 1 "a" 2}', "two keys of a map are `a` as data"),
    ],
)
def test_what_is_no_data_is_an_error_and_is_shown(text: str, message: str) -> None:
    outcome = evaluate(text)
    assert outcome.error is not None
    assert (outcome.error.message, outcome.value) == (message, None)
    assert outcome.shown is not None


def test_data_that_are_no_values_are_an_error() -> None:
    error = evaluate("1", {"x": float("nan")}).error
    assert error is not None
    assert error.message == "`data/x` is no value: a number must be finite, not NaN or an infinity"


def test_println_leaves_lines() -> None:
    outcome = evaluate('(println "a" [1 "b"]) (println) 5')
    assert outcome.printed == ('a [1 "b"]', "")
    assert (outcome.value, outcome.cut) == (5, 0)
