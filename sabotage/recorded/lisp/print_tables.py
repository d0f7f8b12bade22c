"""Tables of written values and of limits: each collection within another with entries that are hidden, and each limit
at the last value that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from stepward.vm.lisp.evaluation import evaluate
from stepward.vm.lisp.limits import Limits

Row = tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]

USUAL: Final = Limits(steps=5_000, memory=1_000_000, depth=200, seconds=1e6)
AROUND: Final = (
    *("V", "[V]", "'(V)", "(list V V)", "#{V}", "{:k V}", "{V 1}", "[[V] #{V}]", "{:_k V :k V}", "#{[V]}", "{:k #{V}}"),
    *("(map identity [V])", "(seq [V])", "{:k {:_j 1 :j V}}", "(conj () V)", "(first {:k V})", "(vals {:k V})"),
    *("(sort-by str [V {:_a 0}])", "(into {} [[:k V]])", "(vec (seq {:k V}))", "(keys {V 1})", "(lazy-seq [V])"),
)
INNER: Final = (
    *('{:_a 1 :b 2}', '{"_a" 1 "b" 2}', "{:b 2 :_a 1}", "{:_a 1}", "{:_ 1 :a_ 2}", "{'_a 1}", '{:a "_b"}', '"_a"'),
    *(":_a", '{:b {:_c 1 :d 2}}', '{["_a"] 1}', "{nil 1 :_a nil}", "data/o", '"q\\"\\\\\\n\\t"', "#\"_a\"", "inc"),
    *("(fn f [x] x)", '""', "nil", "1.50", "-0.0", "1e20", "[]", "{}", "#{}", "'()", "{:a/_b 1 :_c/d 2}"),
)  # fmt: skip
DATA: Final[dict[str, Any]] = {"o": {"_x": {"y": 1}, "z": [{"_w": 0, "v": "\n"}], "": 1}, "l": [1, 2]}
WRITERS: Final = ("(str V)", '(str "a" V nil V)', "(pr-str V V)", "(println V)", "(do (println V V) V)")
JOINED: Final = ('(join "," [V V])', '(format "%s" V)', "(name V)", "(compare V V)", "(hash-map V V)", "(= V V)")

SIZED: Final = (
    *('(str V)', "(vec V)", '(apply str V)', "(set V)", "(into [] V)", "(concat V V)", "(map inc V)", "(reverse V)"),
    *('(join "-" V)', "(sort V)", "(group-by odd? V)", "(frequencies V)", "(zipmap V V)", "(partition 2 V)"),
    *("(range (count V))", "(repeat (count V) 1)", "(assoc {} :a V)", "(conj V V)", "(pr-str V V)", "(distinct V)"),
    *("(reduce conj [] V)", "(mapv vector V)", "(interleave V V)", '(split (join "," V) #",")', "(doall (map str V))"),
    *("(update {:a V} :a count)", "(get-in {:a {:b V}} [:a :b])", "(let [[a & r] V] r)", "((fn [& r] r) V V)"),
    *("(for [x V y V] [x y])", "(loop [x V n 0] (if (seq x) (recur (rest x) (inc n)) n))", "(subvec V 1)"),
    *("(println V)", "(do (println 1) (println V))", "(filter even? V)", "(reduce + V)", "(merge {:a 1} {:b V})"),
)  # fmt: skip
NESTED: Final = (
    *(
        "(+ 1 H)",
        "[H]",
        "{:a H}",
        "(if true H 0)",
        "(let [x H] x)",
        "((fn [x] x) H)",
        "(do H)",
        "(str H)",
        "(and true H)",
    ),
    *(
        "(map (fn [x] x) [H])",
        "(apply + [H])",
        "(loop [x H] x)",
        "(-> H inc)",
        "(cond false 1 :else H)",
        "(case H 1 2 3)",
    ),
    *("(reduce (fn [a x] H) 0 [1])", "(first [H])", "(when H H)", "(for [x [1]] H)", "#{H}", "(or nil H)", "(not H)"),
)


def rows() -> Iterator[Row]:
    """Yield the rows of the tables."""
    yield from (("written", _written, (around,)) for around in AROUND)
    yield from (("joined", _joined, (inner,)) for inner in INNER)
    yield from (("room", _limited, (text,)) for text in SIZED)
    yield from (("nested", _nested, (text,)) for text in NESTED)


def _outcome(text: str, limits: Limits = USUAL, hides: str = "") -> Any:
    found = evaluate(text, DATA, limits, hides=hides)
    error = None if found.error is None else found.error.as_value()
    return found.value, found.shown, error, found.printed, found.cut, found.steps, found.memory


def _written(around: str) -> Iterator[Any]:
    for number, inner in enumerate(INNER):
        value = around.replace("V", inner)
        yield _outcome(f"[(str {value}) {value}]", hides="_")
        yield _outcome(WRITERS[number % len(WRITERS)].replace("V", value), hides=("_", "", "_a")[number % 3])


def _joined(inner: str) -> Iterator[Any]:
    for form in (*WRITERS, *JOINED):
        yield _outcome(form.replace("V", inner), hides="_")


def _limited(text: str) -> Iterator[Any]:
    """Evaluate with the limits at what is needed and just below, and with a list that is one item longer."""
    for size in (4, 5):
        source = text.replace("V", str(list(range(size))))
        needs = evaluate(source, DATA, USUAL)
        yield source, needs.steps, needs.memory
        for by in (-1, 0):
            yield _outcome(source, Limits(steps=needs.steps + by, seconds=1e6))
            yield _outcome(source, Limits(memory=needs.memory + by, seconds=1e6))
    for memory in range(0, 1_200, 100):
        yield _outcome(source, Limits(steps=5_000, memory=memory, seconds=1e6))[2]


def _nested(text: str) -> Iterator[Any]:
    """Evaluate a form in itself up to the depth that is allowed, and one deeper."""
    for most in (9, 10, 23):
        source = "1"
        for _ in range(12):
            source = text.replace("H", source, 1).replace("H", "1")
            found = evaluate(source, DATA, Limits(steps=5_000, depth=most, seconds=1e6))
            yield found.shown, found.error and found.error.message, found.steps
