"""Tables of compiled programs that run on a machine: what they call, in which order, with what, and what they return.

Each function with effects is called from each place where its names stand for something else, and each form with
effects stands in others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from stepward.sabotage.invariants import Breach
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.recorded.shared.inline import finished
from stepward.vm import ExecutionVM, ToolContext
from stepward.vm.errors import DocumentError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.program import Program
from stepward.vm.lisp.compiling.document import read_lisp

Row = tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]

FUNCTIONS: Final = (
    *("(tool/a {:x x :g g})", "(let [g (inc x)] (tool/a {:x g :y x}))", "(if (> x g) (tool/a {:x x}) [g x])"),
    *("(tool/a {:x (h x) :y (h g)})", "(t (t g))", "(doseq [g [1 x]] (tool/a {:x g})) g", "[(t x) g (t g)]"),
    *("(mapv (fn [y] (tool/a {:x y :g g})) [x g])", "(let [y x] (t y)) (let [x (t g)] (tool/a {:x x :y data/n}))"),
    *("(when-let [y (t x)] (tool/a {:x y :y g}))", "(case (t x) 8 (tool/a {:x g}) (let [x g] (tool/a {:x x})))"),
    *("(let [{:keys [g y] :or {y 5}} (tool/o)] (tool/a {:x g :y y :z x}))", "(or (tool/no) (and (t x) g))"),
)
CALLERS: Final = (
    *("(f 1)", "(let [g 10] (f g))", "(let [x 10 g (f x)] [x g (f g)])", "(let [h 3 b 4] (f (+ h b)))", "(f (f 1))"),
    *(
        "(doseq [x [3 4]] (f x))",
        "(for [g (take 2 data/l)] (f g))",
        "(mapv (fn [h] (f h)) [5 6])",
        "(-> 5 f)",
        "(->> 2 inc f)",
    ),
    *("(if (= (f 1) 8) (f 2) (f 3))", "(let [h (fn [x] (* x 9)) x 7] (f (h x)))", "(defn u [g] (f g)) (u 50)"),
    *("(defn u [x] (let [g 60] [(f x) (f g)])) (u 1)", "(let [[g x] [11 12]] (f x) (f g))", "(def r (f 1)) (f r)"),
    *("(let [{:keys [g]} {:g 3}] (f g))", "(when-let [g (t 9)] (f g) g)", "(let [g (t 1) y (f g)] {:g g :y y})"),
    *(
        "(case (t 1) 8 (let [x 2 g 3] (f x)) 9)",
        "(let [g 1] (let [g 2 x g] (f x)) (f g))",
        "(if-let [t (tool/no)] (f t) (f g))",
    ),
)
BEFORE: Final = "(def g 7)\n(defn h [x] (+ x g))\n(defn t [x] (tool/b {:x x}))\n(defn f [x] BODY)\n"

PIECES: Final = (
    *("(tool/b {:x data/n})", "(tool/no)", "(tool/yes)", "(tool/o)", "(tool/l)", "(tool/t)", "data/n", "nil", "false"),
)
FORMS: Final = (
    *(
        "(if P 1 (tool/a {:x 2}))",
        "(if-not P 1 (tool/a {:x 2}))",
        "(when P (tool/a {:x 3}))",
        "(when-not P (tool/a {}))",
    ),
    *(
        "(and P (tool/a {:x 4}) Q)",
        "(or P (tool/a {:x 4}) Q)",
        "(and Q P)",
        "(or Q P)",
        "(not P)",
        "(if (and P Q) 1 2)",
    ),
    *("(if (or Q P) 1 2)", "(if (not (and P (not Q))) (tool/a {:x 1}) 2)", "(cond P 1 Q 2)", "(cond Q 1 P 2 :else 3)"),
    *("(if-let [v P] [v Q] Q)", "(when-let [v Q] (tool/a {:x v}))", "(if-some [v P] [v] Q)", "(when-some [v P] v)"),
    *("(case P 8 :a (nil false) Q true 3 :else)", "(case Q 3 P)", "[P Q P]", "{:a P :b Q}", "(str P Q P)", "(= P Q)"),
    *("(if (= P Q) 1 2)", "(if (nil? P) 1 (tool/a {:x Q}))", "(if (some? Q) P 2)", "(if (= P 8) 1 Q)", "(get P :g Q)"),
    *(
        "(let [v P w Q v [v w]] (tool/a {:x v}))",
        "(do P Q)",
        "(do Q (return P) (tool/a {}))",
        "(fail P)",
        "(println P Q)",
    ),
    *("(if (= nil P) (fail (str Q)) P)", "(doseq [x [P 2]] (tool/a {:x x}))", "(mapv (fn [x] (tool/b {:x x})) [1 Q])"),
    *("(tool/a {:x P :y Q})", "(tool/a P)", "(:g P)", "(-> P (vector Q))", "(->> P (list Q))", "(count [P Q])"),
    *("(let [{:keys [g] :or {g Q}} P] g)", "(let [[a b] [P Q]] (tool/a {:x b :y a}))", "(def v P) (def w Q) [w v]"),
    *("(if (if P Q P) 1 2)", "(let [v (if P Q 5)] v)", "(let [v (or P Q)] (tool/a {:x v}))", "(if (and Q (not P)) 1)"),
)
ORDERED: Final = tuple(
    f"(if ({sign} {left} {right}) (tool/a {{:x 1}}) 2)"
    for sign in ("<", "<=", ">", ">=", "=", "not=", "==")
    for left, right in (
        *(("(tool/b {:x 1})", "8"), ("8", "(tool/b {:x 1})"), ("data/n", "3"), ("3", "data/n"), ("(tool/t)", '"a$b"')),
        *(
            ("(tool/no)", "nil"),
            ("(tool/o)", "{:g 4}"),
            ("(count data/l)", "2"),
            ("(tool/b {:x 1})", "(tool/b {:x 2})"),
        ),
        *(
            ("(:g (tool/o))", "4"),
            ("data/t", '"x"'),
            ("(tool/yes)", "true"),
            ("(tool/l)", "[1 2]"),
            ("(tool/no)", "false"),
        ),
    )
)
_SIGNS: Final = (
    *(r'"$n"', r'"$$"', r'"a\\b"', r'"\"q\""', r'"\n\t"', r'"it' 's"', '"$data"', '"é"', '"{}"', '""', '"a $b.c"'),
)
_USES: Final = (
    *("(tool/a {:x T})", "(fail T)", "(return T)", "(let [v (tool/b {:x 1})] (str T v))", "{T (tool/no)}"),
    *("(if (= (tool/t) T) 1 T)", "(case (tool/t) T (tool/a {:x T}) T)"),
)
TEXTS: Final = tuple(use.replace("T", text) for text in _SIGNS for use in _USES)
_COMPUTED: Final = ("(str data/n)", "(count data/l)", "(+ data/n (count data/l))", "(> data/n 2)")
KNOWN: Final = (
    *(
        "(do (if (tool/no) (tool/a {:x E}) 1) (tool/b {:x E}))",
        "(do (if (tool/yes) (tool/a {:x E}) 1) (tool/b {:x E}))",
    ),
    *("(do (doseq [x [1 2]] (tool/a {:x E})) (tool/b {:x E}))", "(if (tool/no) (tool/a {:x E}) (tool/b {:x E}))"),
    *(
        "(do (tool/b {:x E}) (doseq [x [1 2]] (tool/a {:x E :y x})) E)",
        "(do (and (tool/no) (tool/a {:x E})) (tool/a {:x E}))",
    ),
    *(
        "(do (when (tool/no) (tool/a {:x E})) (when (tool/yes) (tool/a {:x E})) E)",
        "(do (doseq [x [E]] (tool/a {:x x})) [E])",
    ),
    *("(do (or (tool/yes) (tool/a {:x E})) (tool/a {:x E}))", "(do (doseq [x []] (tool/a {:x E})) (tool/a {:x E}))"),
    *(
        '(do (case (tool/t) "x" (tool/a {:x E}) 2) (tool/b {:x E}))',
        "(let [x E] (if (tool/no) (tool/a {:x E}) x) [x E])",
    ),
    *(
        "(do (mapv (fn [x] (tool/a {:x E :y x})) [1 2]) (tool/a {:x E}))",
        "(do (if-let [v (tool/no)] (tool/a {:x E}) 2) E)",
    ),
    *(
        "(do (cond (tool/no) (tool/a {:x E}) (= E 1) 2 :else (tool/b {:x 1})) E)",
        "(do (tool/b {:x E}) (if (tool/no) E [E]))",
    ),
    *(
        "(doseq [y [1 2]] (doseq [x [1 2]] (tool/a {:x E})) (tool/b {:x E}))",
        "(do (if (tool/yes) 1 (tool/a {:x E})) [E E])",
    ),
    *(
        "(defn f [y] (tool/a {:x E :y y})) (if (tool/no) (f 1) 2) (f 2)",
        "(let [v (if (tool/no) (tool/a {:x E}) 1)] [v E])",
    ),
)
"""Forms in which something is computed on one way, and asked for on another one."""

DATA: Final[dict[str, Any]] = {"n": 3, "l": [2, 5], "t": "x"}


class _Tools(EveryTool):
    """Tools that answer by their names, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def call(self, name: str, args: Mapping[str, Any], _: ToolContext) -> Any:
        """Answer a call."""
        self.calls.append((name, args))
        answers = {"no": None, "yes": True, "o": {"g": 4}, "l": [1, 2], "t": "a$b"}
        value = args.get("x")
        return value + 7 if name == "b" and isinstance(value, int) else answers.get(name, len(self.calls))


def rows() -> Iterator[Row]:
    """Yield the rows of the tables."""
    yield from (("functions", _called, (number,)) for number in range(len(FUNCTIONS)))
    yield from (("inner", _filled, (form,)) for form in FORMS)
    yield from (("known", _ran, tuple(form.replace("E", one) for one in _COMPUTED)) for form in KNOWN)
    yield from (("order", _ran, ORDERED[start : start + 14]) for start in range(0, len(ORDERED), 14))
    yield from (("texts", _ran, TEXTS[start : start + 7]) for start in range(0, len(TEXTS), 7))


def _called(number: int) -> Iterator[Any]:
    before = BEFORE.replace("BODY", FUNCTIONS[number])
    for caller in CALLERS:
        yield run(before + caller)


def _filled(form: str) -> Iterator[Any]:
    for number, piece in enumerate(PIECES):
        yield run(form.replace("P", piece).replace("Q", PIECES[number - 2]))


def _ran(*texts: str) -> Iterator[Any]:
    yield from map(run, texts)


def run(text: str) -> Any:
    """Compile a program and run it; return its calls, and what it came to."""
    tools = _Tools()
    try:
        program = Program.from_document(read_lisp("a/it.clj", text))
    except DocumentError as error:
        return [(one.code, one.message) for one in error.problems]
    inputs = {name: DATA[name] for name in program.inputs or {}}
    machine = ExecutionVM(tools, journal=MemoryJournal(), checker=None)
    try:
        found = finished(machine.run(program, inputs))
    except Breach:
        raise
    except Exception as error:
        return tools.calls, type(error).__name__, str(error)
    return tools.calls, found.status, found.reason, found.output, found.error
