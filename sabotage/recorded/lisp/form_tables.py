"""Tables of the forms of the Lisp: each form with each value that counts as true or false, each pattern with each
value, each limit at what a program needs and just below, and each form with effects in each place of other ones.

Nothing is drawn here. The rows are dealt out among the scenes, and each row is one note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final

from stepward.sabotage.invariants import Breach
from stepward.sabotage.recorded.language.examples import SCENES
from stepward.sabotage.recorded.lisp import print_tables, run_tables
from stepward.sabotage.recorded.notes import Notes, text_of
from stepward.vm.errors import DocumentError
from stepward.vm.lisp.compiling.document import read_lisp
from stepward.vm.lisp.evaluation import Outcome, evaluate
from stepward.vm.lisp.limits import Limits

Row = tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]

USUAL: Final = Limits(steps=500, memory=1_000_000, depth=200, seconds=1e6)
DATA: Final[dict[str, Any]] = {
    **{
        "n": 3,
        "none": None,
        "no": False,
        "zero": 0,
        "empty": "",
        "l": [3, 1, 2],
        "t": "ab",
        "o": {"b": 1, "a": {"_x": 0}},
    },
    **{"m": {"_": 1, "a": None}, "half": -2.5},
}
TRUTH: Final = (
    "nil",
    "false",
    "true",
    "0",
    "0.0",
    '""',
    "[]",
    "{}",
    "#{}",
    "'()",
    ":a",
    '"false"',
    "(not nil)",
    "data/none",
)
FORMS: Final = tuple(
    one.strip()
    for one in """
(if V 1 2) | (if V 1) | (if-not V 1 2) | (if-not V 1) | (when V 1 2) | (when-not V 1 2) | (and V 1) | (and 1 V)
(or V 1)
(or nil V) | (and 1 V 2) | (or false V 2) | (and V) | (or V) | (not V) | (boolean V) | (cond V 1 :else 2)
(cond false 1 V 2)
(if-let [x V] [x] :no) | (when-let [x V] [x]) | (if-some [x V] [x] :no) | (when-some [x V] [x]) | (when-first [x V] [x])
(when-first [x [V 1]] [x]) | (if-let [[x] V] [x] :no) | (some-> V (vector 1)) | (some->> V (vector 1))
(cond-> 1 V inc)
(cond->> 1 V (- 3)) | (cond-> 1 V inc true (* 5)) | (some-> 1 ((fn [_] V)) vector) | (as-> V x [x x])
(-> V vector) | (->> V list)
(case V nil 0 false 1 true 2 0 3 "" 4 :a 5 9) | (case V (nil 0) :x ("" false) :y) | (condp = V nil 1 0 2 "" 3 :else)
(condp (fn [a b] (and a b)) V true 1) | (filter (fn [x] V) [1]) | (some (fn [x] V) [1 2]) | (every? (fn [x] V) [1])
(for [x [1 2 3] :when V] x) | (for [x [1 2 3] :while V] x) | (for [x [1 2] y [3 4] :when V] y)
(for [x [1 2] :let [y V]] y)
(let [{:keys [a] :or {a 7}} {:a V}] [a]) | (get {:a V} :a 7) | (:a {:a V} 7) | ({:a V} :a 7) | (#{V} V)
(contains? #{V} V)
(def x V) x | (defonce x V) x | (defonce x V) (defonce x 2) x | (def x V) (def x 3) x
(loop [x V i 0] (if x i (if (< i 2) (recur V (inc i)) :end)))
(do V) | (do 1 V) | (return V) 2 | (fail V) | (println V) | (println V V) (println) | (str V) | (str "a" V "b")
(pr-str V V) | '(V a)
(let [x V y x] [y x]) | ((fn [x] x) V) | ((fn [& x] x) V) | ((fn f [x] (if (nil? x) 1 (f nil))) V)
(#(vector % %2) V 1) | (comment V)
(doseq [x [V 1] :when x] (println x)) | (loop [x V] (when x (recur nil))) | {:a V} | #{V 1} | [V] | {V 1} | (V 1)
(apply (fn [& x] x) V nil)
(let [f (fn ([] 0) ([x] [x]) ([x & r] r))] [(f) (f V) (f 1 V)]) | (let [x 1 x V] x) | (let [V 1] 2) | (let [] V)
(take-while (fn [x] x) [1 V 2])
""".replace("\n", " | ").split(" | ")
    if one.strip()
)
PATTERNS: Final = (
    *(
        "[a]",
        "[a b]",
        "[a & r]",
        "[& r]",
        "[a [b c]]",
        "[a :as w]",
        "[a & r :as w]",
        "[_ b]",
        "[]",
        "[& [a b]]",
        "[a & {:keys [b]}]",
    ),
    *(
        "{:keys [a b]}",
        "{:keys [a] :or {a 5}}",
        "{:keys [a b] :or {b 5} :as w}",
        "{:strs [a]}",
        "{:strs [a] :or {a 5}}",
    ),
    *(
        "{x :a y :b}",
        "{x :a :or {x 5}}",
        "{[p q] :a}",
        "{{:keys [c]} :a}",
        "{x 0}",
        '{x "a"}',
        "{:keys [:a x/b]}",
        "{}",
        "{:as w}",
    ),
)
TAKEN: Final = (
    *(
        "nil",
        "[]",
        "[1]",
        "[1 2]",
        "[1 2 3]",
        "[nil]",
        "[false 0]",
        "[1 [2 3]]",
        "'(1 2 3)",
        '"ab"',
        "{}",
        "{:a 1}",
        "{:a nil}",
    ),
    *(
        "{:a false :b 0}",
        '{"a" 1}',
        '{:a 1 "a" 2}',
        "{:a [1 2]}",
        "{:a {:c 3}}",
        "{0 1}",
        "1",
        ":a",
        "#{1}",
        "(range)",
        "[:a 1 :b 2]",
    ),
    *("[[:b 1]]", "[1 :b 2]", "data/o", "data/l", "true", "{:b nil :x/b 4}"),
)
LIMITED: Final = (
    *(
        "(map inc [1 2 3])",
        '(str "abc" 1 nil)',
        "(loop [i 0] (if (< i 9) (recur (inc i)) i))",
        "((fn f [n] (if (< n 1) n (f (dec n)))) 5)",
    ),
    *(
        "(reduce + (map inc (range 99)))",
        "(sort [3 1 2])",
        "(println 12 nil) (println 345)",
        "(vec (repeat 9 :a))",
        "{:a [1 {:b 2}]}",
        "data/o",
    ),
    *(
        "(for [x [1 2] y [3 4]] [x y])",
        '(apply str (map str "abcdef"))',
        "(def a [1 2]) (conj a 3)",
        "(distinct [1 1 2])",
        "(group-by odd? [1 2 3])",
    ),
    *(
        "(into {} [[:a 1] [:b 2]])",
        '(format "%5d" 3)',
        "(set [1 2 2])",
        "(take 3 (iterate inc 1))",
        '(re-seq #"a" "aaa")',
        "(partition 2 [1 2 3 4])",
    ),
)
READ: Final = tuple(
    one.strip()
    for one in r"""
1 | -1 | +1 | 01 | 1. | .5 | -.5 | 1e3 | 1E-2 | 1/2 | 0x1F | 1N | 1.5M | 1_0 | - | + | -a | "a | "a\"b" | "\n\t\\"
"\q" | \a | \space | \newline
:a | : | :a/b | ::a | :a. | :1 | a/ | 'a | '(1 a "b" :c) | `a | ~a | @a | ^a | #_ 1 2 | #_ #_ 1 2 3 | [1 #_ 2]
; only | 1 ; after | (
) | [ | ] | { | } | {1} | {1 2 3} | {:a 1 :a 2} | #{1 1} | #{ | #"a" | #"[" | #"a\.b" | #(+ % 1) | #(+ %1 %2)
#(%&) | #(#(%)) | #x | #?a | #
(1 2] | [1 2) | , , 1 , | () | (()) | nil | true | false | nill | True | ##Inf | ##NaN | 1a | a1 | a? | a! | a->b
*1 | & | % | .a | a.b | (.a b)
(a b) | (let [a] a) | (let a 1) | (let [1 2] 3) | (fn a) | (fn [1] 1) | (fn [a a] a) | (if) | (if 1) | (if 1 2 3 4)
(cond 1) | (case 1) | (case 1 2)
(case 1 2 3) | (case 1 1 2 1 3) | (recur 1) | (loop [a 1] (inc (recur 2))) | (loop [a 1] (recur 1 2)) | (def)
(def a) | (def a/b 1) | (def a 1 2)
(def a "doc" 1) a | (defn a) | (defn a [x] x) (a) | (defn a "doc" [x] x) (a 1) | (defn a ([x] x) ([x y] y)) (a 1 2)
(for [x] x) | (for [] 1)
(for [x [1] :foo 1] x) | (for [:when true] 1) | (-> ) | (-> 1) | (-> 1 ()) | (->> 1 inc) | (some->)
(cond-> 1 true) | (as-> 1) | (as-> 1 x) | (quote) | (quote 1 2)
(try 1) | (throw 1) | (let [[a & b c] [1]] a) | (let [{:foo [a]} {}] a) | (let [{:keys a} {}] a)
(let [{a 1.5} {1.5 2}] a) | data/gone | data/n | tool/x | (tool/x)
(if-let [x 1 y 2] x) | (when-let x 1) | (and) | (or) | (do) | (when 1) | (comment) | (condp = 1) | (condp = 1 2)
(condp = 1 1 :a) | (doseq [x [1]]) | (inc 1 2) | (defn f [x] (f x)) (f 1)
""".replace("\n", " | ").split(" | ")
    if one.strip()
)
EFFECTS: Final = (
    *(
        "(tool/a {:x 1})",
        "(if (tool/ask) H (tool/b))",
        "(if (tool/ask) (tool/b) H)",
        "(if H (tool/b) 2)",
        "(when (> data/n 1) H (tool/b))",
    ),
    *(
        "(when (> data/n 1) (tool/b) H)",
        "(do H (tool/b) 3)",
        "(do (tool/b) H)",
        "(let [v H w (tool/b)] [v w])",
        "(let [v (tool/b)] H)",
    ),
    *(
        "(cond (tool/ask) H (> data/n 2) 5 :else (tool/b))",
        "(cond (> data/n 2) 5 H 6 :else 7)",
        "(cond false 1 :else H)",
    ),
    *(
        "(case (tool/b) 1 H (2 3) 4 5)",
        "(case data/n 1 2 H)",
        "(case H 1 2 3)",
        "(and H (tool/b))",
        "(and (tool/b) H 1)",
        "(or H 1)",
    ),
    *(
        "(or (tool/b) H)",
        "(doseq [x [1 2]] H)",
        "(doseq [x [1 2]] (tool/b {:x x}) H)",
        "(for [x data/l] H)",
        "(mapv (fn [x] H) [1 2])",
    ),
    *(
        "(if-let [v H] v (tool/b))",
        "(when-let [v (tool/b)] H)",
        "(if-some [v H] (tool/c {:v v}) 0)",
        "(when-some [v H] v)",
        "(not H)",
    ),
    *(
        "(return H)",
        "(fail H)",
        "[H (tool/b) H]",
        "{:a H :b (tool/b)}",
        "(str H 1)",
        "(tool/c {:x H})",
        "(tool/c {:x H :y (tool/b)})",
    ),
    *(
        "(defn f [x] H) (f 1) (f 2)",
        "(def v H) (tool/c {:v v})",
        "(-> H inc)",
        "(->> (tool/b) (map inc) (tool/c))",
        "(-> H (tool/c))",
        "(+ 1 H)",
    ),
    *(
        "(loop [i 0] (if (< i 2) (do H (recur (inc i))) i))",
        "(loop [i 0] (when (tool/ask) H))",
        "(if-not H 1 2)",
        "(when-not (tool/ask) H)",
    ),
    *(
        "(reduce (fn [a x] H) 0 [1 2])",
        "(let [{:keys [a b] :or {b 0}} H] [a b])",
        "(filter (fn [x] H) data/l)",
        "(= H 1)",
        "(pcalls (fn [] H) (fn [] 2))",
    ),
    *(
        "(pmap (fn [x] H) [1 2])",
        "(map-indexed (fn [i x] H) data/l)",
        "(println H)",
        "(get H :a 0)",
        "(:a H)",
        "(count H)",
    ),
)


def show_forms(notes: Notes, seed: str) -> None:
    """Note the rows that are dealt to a scene, by the number at the end of its seed."""
    for name, cells, row in _rows()[int(seed.rpartition(" ")[2]) % SCENES :: SCENES]:
        notes.add("forms", name, row, "\n".join(map(text_of, cells(*row))))


@cache
def _rows() -> list[Row]:
    rows: list[Row] = [("truth", _truth, (form,)) for form in FORMS]
    rows += [("pattern", _bindings, (pattern,)) for pattern in PATTERNS]
    rows += [("limits", _limited, (text,)) for text in LIMITED]
    rows += [("text", _evaluated, (text,)) for text in READ]
    rows += [("effects", _compiled, (number,)) for number in range(len(EFFECTS))]
    rows += [*run_tables.rows(), *print_tables.rows()]
    return rows


def _outcome(found: Outcome) -> list[Any]:
    error = None if found.error is None else found.error.as_value()
    return [found.value, found.shown, error, found.printed, found.cut, found.steps, found.memory]


def _truth(form: str) -> Iterator[Any]:
    for value in TRUTH:
        yield _outcome(evaluate(form.replace("V", value), DATA, USUAL))


def _bindings(pattern: str) -> Iterator[Any]:
    names = [
        name
        for name in ("a", "b", "c", "r", "w", "x", "y", "p", "q")
        if name in pattern.replace(":as", "").replace(":or", "")
    ]
    for value in TAKEN:
        shown = " ".join(names)
        found = evaluate(f"(let [{pattern} {value}] [{shown}])", DATA, USUAL)
        yield found.shown if found.error is None else found.error.as_value()
        found = evaluate(f"((fn [{pattern}] [{shown}]) {value})", DATA, USUAL)
        yield found.shown if found.error is None else found.error.message


def _limited(text: str) -> Iterator[Any]:
    found = evaluate(text, DATA, USUAL)
    yield _outcome(found)
    for by in (-2, -1, 0, 1):
        yield _outcome(evaluate(text, DATA, replace(USUAL, steps=found.steps + by)))
        yield _outcome(evaluate(text, DATA, replace(USUAL, memory=found.memory + by)))
        yield _outcome(evaluate(text, DATA, replace(USUAL, text=len(text) + by)))
    for steps in (256, 257, 258):  # the meter looks at the clock and at the limit behind 256 steps
        yield _outcome(evaluate(text, DATA, replace(USUAL, steps=steps)))
    for depth in range(1, 12):
        yield _outcome(evaluate(text, DATA, replace(USUAL, depth=depth)))[:3]
    for printed in range(8):
        yield _outcome(evaluate(text, DATA, replace(USUAL, printed=printed)))[3:5]
    for hides in ("_", "a", ""):
        yield _outcome(evaluate(f"(str {text} data/m data/o)", DATA, USUAL, hides=hides))


def _evaluated(text: str) -> Iterator[Any]:
    for one in (text, f"[{text} 1]", f" {text}\n2"):
        yield _outcome(evaluate(one, DATA, USUAL))
    yield _document(text)


def _compiled(number: int) -> Iterator[Any]:
    outer = EFFECTS[number]
    for place, inner in enumerate(EFFECTS):
        if (number + place) % 3 == 0:
            continue  # two of three are enough, and quicker
        filled = inner.replace("H", "(tool/a {:x data/n})")
        yield _document(outer.replace("H", filled))


def _document(text: str) -> Any:
    try:
        document = read_lisp("a/it.clj", text)
    except Breach:
        raise
    except DocumentError as error:
        return [(one.code, one.message, one.help, one.span) for one in error.problems]
    except Exception as error:
        return type(error).__name__
    return document.data
