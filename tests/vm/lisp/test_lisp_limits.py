"""The limits of an evaluation: each ends it with an error that says what grew, and live data are counted exactly."""

from __future__ import annotations

import gc

import pytest

from sizes import size
from stepward.vm.lisp import Limits, evaluate
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.functions.table import natives
from stepward.vm.lisp.limits import Meter


@pytest.mark.parametrize(
    ("text", "limits", "reason", "message"),
    [
        ("(loop [] (recur))", Limits(steps=5_000), "steps_exceeded", "the program takes more than 5000 steps"),
        ("(sort (range 1000))", Limits(steps=2_000), "steps_exceeded", "the program takes more than 2000 steps"),
        (
            "(vec (range 10000))",
            Limits(memory=100_000),
            "memory_exceeded",
            "the data of the program has more than 100000 bytes; what grew is a vector or list of 2437 items",
        ),
        (
            "(reduce (fn [m i] (assoc m i i)) {} (range 400))",
            Limits(memory=60_000),
            "memory_exceeded",
            "the data of the program has more than 60000 bytes; what grew is a map of 131 entries",
        ),
        (
            '(apply str (repeat 1000 "abc"))',
            Limits(memory=60_000),
            "memory_exceeded",
            "the data of the program has more than 60000 bytes; what grew is a vector or list of 966 items",
        ),
        (
            "(defn f [x] (inc (f x))) (f 1)",
            Limits(depth=100),
            "depth_exceeded",
            "evaluations are nested deeper than 100 levels: a function calls itself too often",
        ),
        ("(loop [] (recur))", Limits(seconds=0.0), "timeout", "the program takes more than 0 seconds"),
        ("(+ 1 2)", Limits(text=6), "parse_error", "the program has more than 6 characters"),
    ],
)
def test_limit_ends_the_evaluation(text: str, limits: Limits, reason: str, message: str) -> None:
    error = evaluate(text, limits=limits).error
    assert error is not None
    assert (error.reason, error.message) == (reason, message)
    assert error.hint


def test_what_is_printed_is_cut_and_counted() -> None:
    outcome = evaluate('(doseq [i (range 10)] (println "0123456789"))', limits=Limits(printed=25))
    assert outcome.printed == ("0123456789", "0123456789", "012…")
    assert outcome.cut == 10 * 11 - 25


def test_data_that_are_too_large_are_an_error_before_the_program_starts() -> None:
    error = evaluate("1", {"big": ["x" * 100] * 1_000}, Limits(memory=50_000)).error
    assert error is not None
    assert error.reason == "memory_exceeded"


def test_garbage_does_not_count() -> None:
    text = '(loop [i 0 s ""] (if (< i 1000) (recur (inc i) (apply str (repeat 300 "x"))) (count s)))'
    outcome = evaluate(text, limits=Limits(memory=100_000, steps=1_000_000, seconds=600))
    assert outcome.shown == "300"


@pytest.mark.parametrize(
    "text",
    [
        "[1 [2 {:a #{3}}]]",
        "(reduce conj [] (range 100))",
        "(reduce (fn [m i] (assoc m i (str i))) {} (range 100))",
        "(map (fn [x] (fn [] x)) [1 2])",
        "(postwalk identity [[1] {:a [2]}])",
        "(take 5 (iterate (partial + 1) 1))",
        "(group-by odd? (range 50))",
        "(sort-by :a > [{:a 1} {:a 2}])",
        '(apply str (repeat 1000 "a"))',
        "(defn f [n] (if (zero? n) [] (conj (f (dec n)) n))) (f 50)",
        "(count (range))",
        "(defn f [v] (count (f (conj v [1])))) (f [])",
    ],
)
def test_every_byte_is_given_back(text: str) -> None:
    """What a program takes is given back when its value is gone: without the collector, so no value knows itself."""
    gc.disable()
    try:
        meter = _meter_after(text)
    finally:
        gc.enable()
    assert meter.most > 0
    assert meter.live == 0


def _meter_after(text: str) -> Meter:
    from stepward.vm.lisp.evaluation import _forget, _result

    ctx = Context(Limits(), natives())
    try:
        _result(ctx, text, {})
    except Fault as fault:
        _forget(fault)
    ctx.globals.clear()
    return ctx.meter


def test_steps_and_bytes_are_the_same_in_every_run() -> None:
    text = (
        "(->> (range 200) (map (fn [i] {:n i :s (str i)})) (group-by #(mod (:n %) 7)) (map (fn [[k v]] [k (count v)])))"
    )
    first, second = evaluate(text), evaluate(text)
    assert (first.steps, first.memory) == (second.steps, second.memory)
    assert first.steps < 10_000


@pytest.mark.parametrize(
    ("text", "steps", "message"),
    [
        ("(sort [3 nil 1])", 15, None),
        ("(sort (reverse (range 20)))", 144, None),
        ("(sort (map (fn [i] (mod (* i 7) 11)) (range 50)))", 592, None),
        ("(sort-by - [3 1 2 1])", 21, None),
        ('(sort [1 :a "b"])', 2, "a keyword and a number have no order"),
    ],
)
def test_a_sort_compares_the_same_values_in_every_version_of_python(text: str, steps: int, message: str | None) -> None:
    found = evaluate(text)
    assert (found.steps, found.error and found.error.message) == (steps, message)


def test_a_shared_value_is_written_and_compared_within_limits() -> None:
    doubled = "(reduce (fn [v _] [v v]) [1] (range 60))"
    for text in (
        f"(str {doubled})",
        f"(= {doubled} {doubled})",
        f"(flatten {doubled})",
        f"(hash-set {doubled})",
        doubled,
    ):
        error = evaluate(text, limits=Limits(steps=size(30_000, 100_000), seconds=600)).error
        assert error is None or error.reason in ("steps_exceeded", "memory_exceeded"), text
