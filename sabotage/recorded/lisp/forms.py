"""Random forms of the Lisp: calls of every function with arguments at their edges, forms, and programs with tools."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.lisp.tables import ALL, dealt_rows, parameters, pool_of, texts_of
from stepward.vm.lisp.functions.function_table import FunctionEntry

CALLS: Final = 10
"""Calls of each function that is dealt to a scene."""

DATA: Final[dict[str, Any]] = {
    "n": 3,
    "orders": [{"id": 1, "total": 10, "tag": "a"}, {"id": 2, "total": 5, "tag": "b"}, {"id": 3, "total": 10}],
    "text": "a1 b22\nc",
    "o": {"a": 1, "b": {"c": [1, 2]}, "_x": "hidden"},
}
VALUES: Final = (*texts_of(ALL), "(cycle [1 2])", "data/orders", "data/o")


def drawn_calls(seed: str, chance: Random) -> Iterator[str]:
    """Yield calls of the functions that are dealt to a scene."""
    for row in dealt_rows(seed):
        for _ in range(CALLS * (4 if row.subject == "formats" else 1)):
            call = f"({' '.join((row.name, *_arguments(row, chance)))})"
            yield chance.choice((call, call, call, *_around(call, row.subject, chance)))


def _around(call: str, subject: str, chance: Random) -> tuple[str, ...]:
    """Return forms in which the value of a call is used."""
    more = chance.choice(VALUES)
    if "function" in subject or "combin" in subject:
        return f"({call} {more})", f"({call} {more} {chance.choice(VALUES)})", f"(map {call} [1 2])", f"({call})"
    return f"(take 3 {call})", f"(let [r {call}] [r (type r) (= r {more})])", f"(pr-str {call})", f"(str {call})"


def _arguments(row: FunctionEntry, chance: Random) -> Iterator[str]:
    shown = parameters(row)
    most = row.most if row.most is not None else len(shown) + 2
    least, count = row.least, len(shown)
    number_of = chance.choices((count, least, most, least - 1, most + 1), (8, 4, 2, 0.5, 0.5))[0]
    for number in range(max(0, min(number_of, 6))):
        pool = pool_of(row, shown[min(number, count - 1)] if shown else "x")
        yield chance.choice(texts_of(pool) if chance.random() < 0.88 else VALUES)


# -- forms -------------------------------------------------------------------------------------------------------------

_FORMS: Final = (
    *(
        "(let [a {} b {}] [a b])",
        "(let [[p & q] {}] [p q])",
        "(let [{{:keys [a b] :or {{b {}}}}} {}] [a b])",
        "(if {} {} {})",
    ),
    *("(if {} {})", "(when {} {})", "(cond {} 1 {} 2 :else 3)", "(case {} 1 :one (2 3) :more {})", "(case {} :a 1)"),
    *("(and {} {})", "(or {} {})", "(do {} {})", "(-> {} (conj {}))", "(->> {} (map inc))", "(for [x {}] [x {}])"),
    *(
        "(for [x {} :when (odd? x) y [1 2]] [x y])",
        "(for [x {} :let [y (inc x)] :while (< y 3)] y)",
        "(loop [i 0 a {}] (if (< i 3) (recur (inc i) (conj a i)) a))",
    ),
    *(
        "(doseq [x {}] (println x {}))",
        "(defn f [x] (if x {} {})) (f {})",
        "(def v {}) [v {}]",
        "(fn [x] {})",
        "((fn [x & y] [x y]) {} {})",
    ),
    *(
        "(if-let [x {}] x {})",
        "(when-let [x {}] [x])",
        "(if-some [x {}] x 0)",
        "(when-some [x {}] x)",
        "(when-first [x {}] x)",
    ),
    *(
        "(cond-> {} true (conj {}))",
        "(cond->> {} {} (map str))",
        "(some-> {} first)",
        "(some->> {} (map inc) seq)",
        "(as-> {} x [x x])",
    ),
    *(
        "(condp = {} 1 :one {} :other :else)",
        "(if-not {} 1 2)",
        "(when-not {} 1)",
        "(comment {})",
        "'({} a)",
        "(quote {})",
    ),
    *(
        "(return {}) 1",
        "(fail {})",
        "(println {} {})",
        "#(str % {})",
        "{{:a {} :b {}}}",
        "#{{{} {}}}",
        "[{} {} {}]",
        "(str {} {})",
    ),
    *(
        "((fn g [n] (if (< n 2) n (g (dec n)))) {})",
        "(let [f (fn ([] 0) ([x] x) ([x & r] r))] [(f) (f {}) (f 1 {})])",
        "(recur {})",
        "(defonce z {}) z",
    ),
    *(
        "(let [{{a :a :as m}} {}] [a m])",
        "(let [{{:strs [a]}} {}] a)",
        "(let [[a [b]] {}] b)",
        "(swap! {} inc)",
        "(try {})",
        "(foo {})",
        "(map {} {})",
    ),
    *(
        "(reduce (fn [a x] (+ a x)) {} {})",
        "(loop [x {}] (recur x))",
        "(apply str {})",
        "(get-in {} [:a 0])",
        "(sort-by :total {})",
        "(let [a {}] #(vector a %))",
    ),
)


def drawn_form(chance: Random, depth: int = 0) -> str:
    """Return a form: special forms around values and other forms."""
    pattern = chance.choice(_FORMS)
    holes = pattern.replace("{{", "").replace("}}", "").count("{}")
    parts = [
        drawn_form(chance, depth + 1) if depth < 2 and chance.random() < 0.2 else chance.choice(VALUES)
        for _ in range(holes)
    ]
    return pattern.format(*parts)


_EFFECTS: Final = (
    *(
        "(tool/get {{:n {}}})",
        "(def r (tool/get {{:n {}}}))\n(tool/pay {{:amount (+ 1 {}) :to (:name r)}})",
        "(println {})\n(tool/get)",
    ),
    *(
        "(let [a (tool/get {{:n {}}}) b (tool/pay {{:x a}})] [a b])",
        "(if (> (:total (tool/get {{}})) {}) (tool/pay {{:n 1}}) {})",
    ),
    *(
        "(when {} (tool/mail {{:to {}}}))",
        "(cond (tool/ask {{:q {}}}) (tool/pay {{}}) :else {})",
        "(case (tool/get {{}}) 1 (tool/a {{}}) {})",
    ),
    *(
        "(for [x data/orders] (tool/get {{:n (:id x) :m {}}}))",
        "(doseq [x [1 {} 3]] (tool/mail {{:to x}}))",
        "(mapv (fn [x] (tool/get {{:n x}})) {})",
    ),
    *(
        "(pmap (fn [x] (tool/get {{:n x}})) [1 {}])",
        "(pcalls #(tool/get {{:n {}}}) #(tool/pay {{}}))",
        "(defn f [x] (tool/get {{:n x}})) (f {}) (f 2)",
    ),
    *(
        "(loop [i 0] (if (< i {}) (do (tool/get {{:n i}}) (recur (inc i))) i))",
        "(and (tool/get {{:n {}}}) (tool/pay {{}}))",
        "(or (tool/ask) {})",
    ),
    *(
        "(return (tool/get {{:n {}}}))",
        '(fail (str "no " (tool/get {{:n {}}})))',
        "(reduce (fn [a x] (+ a (:n (tool/get {{:n x}})))) 0 [1 {}])",
    ),
    *(
        "(-> (tool/get {{:n {}}}) :items first)",
        "(def xs (map inc data/xs)) (tool/pay {{:xs xs :y {}}})",
        "(if-let [r (tool/get {{}})] (tool/pay {{:r r}}) {})",
    ),
    *(
        "(let [{{:keys [a b]}} (tool/get {{:n {}}})] (tool/pay {{:a a :b b}}))",
        "(tool/get {} {})",
        "(tool/get {})",
        "(map tool/get {})",
    ),
    *(
        "(when-let [r (tool/get {{:n {}}})] (println r) r)",
        "(def a (tool/get)) (def a (tool/pay {{:a a}})) a",
        "(let [f (fn [x] (tool/get {{:n x}}))] (f {}))",
    ),
    *(
        "(let [x (+ data/n {})] (if (even? x) (tool/a {{:x x}}) (tool/b {{:x x}})))",
        "(filter (fn [x] (tool/ask {{:q x}})) {})",
        "(str (tool/get {{}}) {})",
    ),
)


def drawn_effects(chance: Random) -> str:
    """Return a program with calls of tools, of one or two forms."""
    lines = []
    for _ in range(chance.choice((1, 1, 2))):
        pattern = chance.choice(_EFFECTS)
        holes = pattern.replace("{{", "").replace("}}", "").count("{}")
        lines.append(pattern.format(*(_argument(chance) for _ in range(holes))))
    return "\n".join(lines)


def _argument(chance: Random) -> str:
    if chance.random() < 0.1:
        return f"(do {chance.choice(_EFFECTS).format('1', '2', '3', '4')})"
    return chance.choice((*VALUES, "data/n", "(inc data/n)", "data/orders", "(count data/orders)"))
