"""Differential: random Lisp programs with tools, evaluated here, and in Clojure with the same results of tools.

The evaluator is the one against which the compiler is held, so Clojure holds both: the calls, their order and the value
must be the same. Clojure gets what we decided otherwise: sequences are not lazy, and numbers are equal by their value.
It needs Debian's `clojure` 1.11; one process evaluates all. `STEPWARD_LISP_ORACLE=2000` tries that many programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

import lisp_programs
from clojure import evaluated as in_clojure
from clojure import has_clojure, is_near, plain
from lisp_programs import Done, Recorded, data_of, lisp_program
from lisp_programs import evaluated as here
from sizes import asked_for
from stepward.vm.lisp.functions.table import natives

COUNT = asked_for("STEPWARD_LISP_ORACLE", 40, 2_000)

_PRELUDE = r"""
(ns-unmap *ns* 'map) (ns-unmap *ns* 'filter) (ns-unmap *ns* 'for) (ns-unmap *ns* '=) (ns-unmap *ns* 'not=)
(ns-unmap *ns* 'str) (ns-unmap *ns* 'take)
(defn map [f & xs] (doall (apply clojure.core/map f xs)))
(defn filter [f xs] (doall (clojure.core/filter f xs)))
(defn take [n xs] (doall (clojure.core/take n xs)))
(defmacro for [& more] `(doall (clojure.core/for ~@more)))
(defn -exact [x] (if (number? x) (bigdec x) x))
(defn = [a b] (if (and (number? a) (number? b)) (== a b) (clojure.core/= a b)))
(defn not= [a b] (not (= a b)))
(defn -shown [x]
  (cond (nil? x) "" (number? x) (.toPlainString (let [d (bigdec x)] (if (zero? d) 0M (.stripTrailingZeros d))))
        (or (map? x) (sequential? x)) (throw (ex-info "text of a collection" {})) :else (clojure.core/str x)))
(defn str [& xs] (apply clojure.core/str (clojure.core/map -shown xs)))
(defn sum-by [k xs] (reduce + (keep k xs)))
(def upper-case clojure.string/upper-case)
(def -calls (atom []))
(def -left (atom []))
(def -ended (Object.))
(defn return [x] (throw (ex-info "return" {:value x})))
(defn fail [x] (throw (ex-info "fail" {})))
(defn -tool [tool fits? args]
  (when-not (fits? args) (throw (ex-info "arguments" {})))
  (swap! -calls conj [(name tool) args])
  (let [found (first @-left)]
    (swap! -left rest)
    (if (clojure.core/= found :fails) (throw (ex-info "the tool fails" {})) found)))
(create-ns 'tool) (create-ns 'data)
(doseq [[tool fits?] {'rate #(number? (:of %)) 'orders (constantly true) 'find #(contains? % :id)
                      'ask #(string? (:what %)) 'is_open (constantly true)
                      'pay #(and (number? (:amount %)) (contains? % :note))}]
  (intern 'tool tool (fn ([] (-tool tool fits? {})) ([args] (-tool tool fits? args)))))
(defn -begin [results data]
  (reset! -calls [])
  (reset! -left results)
  (doseq [[known value] data] (intern 'data (symbol (name known)) value)))
"""


def written(value: Any) -> str:
    """Return data as Clojure."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return "{" + " ".join(f":{key} {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(written, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int | float | Decimal) else json.dumps(value)


class Results(Recorded):
    """The results of tools, kept as Clojure."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.results: list[str] = []

    def __call__(self, tool: str, args: Any) -> Any:
        try:
            found = super().__call__(tool, args)
        except RuntimeError:
            self.results.append(":fails")
            raise
        self.results.append(written(found))
        return found


def program_in_clojure(text: str, data: dict[str, Any], results: list[str]) -> str:
    """Return the program with its tools in Clojure: it gives how it ended, the value, and the calls."""
    return f"""(-begin [{" ".join(results)}] {written(data)})
(let [found (try [true (eval (read-string {json.dumps("(do " + text + chr(10) + ")", ensure_ascii=False)}))]
              (catch clojure.lang.ExceptionInfo e
                (if (contains? (ex-data e) :value) [true (:value (ex-data e))] [false nil]))
              (catch Throwable _ [false nil]))]
  [(first found) (second found) @-calls])"""


def as_done(done: Done) -> Any:
    return plain(f"[{written(done.is_fine)} {written(done.value)} {written([list(call) for call in done.calls])}]")


class Sample:
    """Some programs, what they come to here, and what Clojure is asked about them."""

    def __init__(self, count: int) -> None:
        self.texts: list[str] = []
        self.ours: list[Any] = []
        self.asked: list[str] = []
        for number in range(count):
            seed = f"lisp {number}"
            text, data, recorded = lisp_program(seed), data_of(seed), Results(seed)
            self.texts.append(f"{seed}: {text}")
            self.ours.append(as_done(here(text, data, recorded)))
            self.asked.append(program_in_clojure(text, data, recorded.results))

    def differing(self, theirs: Iterable[str | None]) -> list[str]:
        """Return the programs on which both differ."""
        return [
            f"{text}\n  here    {one}\n  Clojure {other}"
            for text, one, other in zip(self.texts, self.ours, theirs, strict=True)
            if other is None or not is_near(one, plain(other))
        ]


@pytest.mark.skipif(not has_clojure(), reason="there is no `clojure`")
def test_clojure_does_what_we_do_and_not_what_a_mistaken_evaluator_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the mistaken one a function gives something else. One process of Clojure is asked about both."""
    sample, functions = Sample(COUNT), natives()
    wrong = {**functions, "inc": functions["dec"]}
    monkeypatch.setattr(lisp_programs, "natives", lambda: wrong)
    mistaken = Sample(30)
    theirs = in_clojure([*sample.asked, *mistaken.asked], 900, _PRELUDE)
    differing = sample.differing(theirs[:COUNT])
    assert not differing, f"{len(differing)} differ\n" + "\n\n".join(differing[:5])
    assert mistaken.differing(theirs[COUNT:])
