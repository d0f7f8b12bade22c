"""Tables of the Lisp: every function with every value at an edge, dealt out among the scenes.

Nothing is drawn here. The pools are in order: what matters most stands first, and calls with many arguments take only
the first values of each pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, Final

from stepward.sabotage.invariants import Breach
from stepward.sabotage.recorded.language.examples import SCENES
from stepward.sabotage.recorded.notes import Notes
from stepward.vm.lisp.analysis import Analyst, definitions
from stepward.vm.lisp.callables import Function
from stepward.vm.lisp.compiling.texts import Texts
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.functions.function_table import FunctionEntry
from stepward.vm.lisp.functions.table import natives, rows
from stepward.vm.lisp.limits import Limits
from stepward.vm.lisp.modules import program_forms
from stepward.vm.lisp.special import SPECIAL
from stepward.vm.lisp.streams import Endless

NUMBERS: Final = """
0 1 -2.5 2 -1 2.5 0.5 -0.5 3 1.5 -1.5 -7 -0.0 1e15 2.50 10 0.1 63 64 -3.5 1000000000000000000 -1000000000000000000
9007199254740993 4 5 7 -2 -3 100 -64 1.25 -0.1 16 123456789012345678901234567890.5
"""
TEXTS: Final = r"""
"a" "" "abcabc" "B" "\u{e9}" " a " "\u{1f600}x" "a,b,," "12" "-1.50" "+5" " 7" "1e3" "true" "FALSE" "\t\n" "a\r\nb\nc\n"
"\u{a0}a\u{2003}" "\u{df}\u{130}" "0" "-0" "007" "b" "$1" "a.b" "\u{1c6}\u{3a3}\u{3c2}" ",a" "bca" "x/y" "1." ".5"
"1,5" ":a"
"""
KEYS: Final = ':a "a" 0 nil 1 :b false -1 :x/y 1.0 true 2 [] 1.5 "b" :total'
LISTS: Final = r"""
[1 2 3] [] nil [3 1 2 1] '(1 2) [nil false 0] [1] '() ["b" "a" "B" ""] [[1 2] [3 4]] {:a 1 :b nil} #{1} "ab" (range 5)
[[:a 1] [:b 2] [:a 3]] {} #{} [1 1 2 2 1 1] [1 1.0 2.5 -2.5] [[1 [2 [nil]]] '(4)] [nil] '(nil) [false]
[{:a 2} {:a 1} {}]
[{:a nil} {:a 2} {:a 2 :b 1}] (range) [2 4 6] [nil nil] [[] nil [1]] "\u{1f600}" [-1 0 -2] [true false nil] [:b :a]
"""
MAPS: Final = """
{:a 1 :b 2} {} nil {:a nil} {:a false} {"a" 1} {:a {:b {:c 1}}} [1 2] {:a 1 "a" 2} {1 :x nil 3} {:a [1 [2]]} {:b {:a 0}}
{false 1} '(1 2) #{:a} "ab" {:a {}} {:a {:b nil}} {[1] 2 1.5 3}
"""
FUNCTIONS: Final = """
identity (fn [x] [x]) + (fn [a b] [a b]) (fn [] 7) nil? vector :a (fn [a b c] [a b c]) (fn [x] nil) (fn [x] false) pos?
(fn [& xs] xs) (fn [a & xs] [a xs]) odd? count {:a 1 1 nil} #{1 nil false} [5 6] compare > (fn [a x] (reduced x)) str
(fn [x] (if (number? x) (- x) 0)) nil 1 (fn ([] 0) ([x] x) ([x y] [x y])) not conj - max vector?
"""
SETS: Final = "#{1 2} #{} nil #{2 3} #{nil false} #{1} #{1 2 3} [1 2] #{:a 1.0} #{[1]} {:a 1} '(2)"
PATTERNS: Final = r"""
#"a" #"(a)(b)?" #"[0-9]+" #"^" #"x*" "b" #"," #"(?i)A" #"\s+" "" #"(?P<n>.)(.)" #"$" #"a|ab" #"(\d+)\.(\d*)" #"\."
"""
FORMATS: Final = r"""
"%d" "%s" "%.2f" "%5d|" "%-5s|" "%05d" "%+d" "%,d" "%x" "%X" "%o" "%e" "%b" "%c" "%.0f" "%.1f" "%%" "%n" "%5.1f|"
"%-8.2f|"
"%+.1f" "%,.2f" "%08.2f" "%.3s|" "%5s|" "%S" "%(d" "% d" "%s %s" "%2$s %1$s" "%" "%q" "%.2d" "%-05d" "%B" "%E" "%g"
"" "%1$s"
"%h" "%#x" "%.1e" "%010d" "%3$s" "%-d" "%0d" "%+s" "%,s" "%20s" "a%sb%dc" "%+,.3f" "%c%c"
"""
JSONS: Final = r"""
"[1, 2.50]" "{\"a\": null}" "{" "1\n2" "\"x\"" "{\"a\": 1}\n\n{\"a\": 2}\n" "[1,]" "" " " "null" "true" "-0" "1e2" "01"
"NaN"
"{\"a\": 1, \"a\": 2}" "\"\\u00e9\\ud83d\"" "[[]]" "1 2" "{\"\": [{}]}"
"""

POOLS: Final[dict[str, str]] = {
    **dict.fromkeys(("coll", "vals", "keys", "root", "entry", "to", "from", "form", "v"), LISTS),
    **dict.fromkeys(("f", "pred", "inner", "outer", "branch?", "children"), FUNCTIONS),
    "comparator": f"compare > < {FUNCTIONS}",
    **dict.fromkeys(("s", "part", "separator", "match", "replacement", "name"), TEXTS),
    **dict.fromkeys(("n", "start", "end", "step", "group", "limit"), NUMBERS),
    **dict.fromkeys(("re", "pattern"), PATTERNS),
    **dict.fromkeys(("k", "key"), KEYS),
    "path": '[:a] [:a :b] [] nil [0] [:b] [nil] [:a 0] \'(:a) [:a :b :c] :a [1 1] ["a"]',
    "m": MAPS,
    "fmt": FORMATS,
    "set": SETS,
    "init": '0 nil [] 1 {} "" false \'() #{}',
    "pad": "[] [nil] [8 9] nil '(8) [8 9 10 11]",
    "default": "nil 0 :none false",
}
OF_SUBJECT: Final = {
    "numbers": f'{NUMBERS} nil true "1" "a" [] :a',
    "JSON": f"{JSONS} {LISTS} {MAPS} {TEXTS} {NUMBERS}",
    "order": r"""1 1.0 nil "a" [1] :a "B" 2 -1 [1.0] '(1) {:a 1} {:a 1.0} #{1} #{1.0} false true "" [] '() {}
    [1 2] [2] 0
    -0.0 "ab" "\u{e9}" "\u{1f600}" "\u{ffff}" :b [nil] [nil 1] 1.5 9007199254740993 9007199254740992""",
    "predicates": f'{NUMBERS} {KEYS} {LISTS} {MAPS} {FUNCTIONS} {SETS} {TEXTS} #"a"',
}
ALL: Final = " ".join((NUMBERS, TEXTS, KEYS, LISTS, MAPS, FUNCTIONS, SETS, '#"a"'))
SOME: Final = f'1 nil "a" [1 2] :a false {{:a 1}} -2.5 "" [] #{{1}} + 0 true {KEYS} {LISTS} {NUMBERS} {TEXTS}'
FOREIGN: Final = 'nil 1 "a" [1] :a {} + #"a" true #{1} (range)'
"""Values beside a pool: one of each kind."""

MOST: Final = {1: 400, 2: 11, 3: 4, 4: 3}
"""The values of each pool in a call with so many arguments."""

CALLED: Final = ("", "1", "nil", "0 2", "1 2 3")
"""What a function is called with that a function has returned."""

LIMITS: Final = Limits(steps=600, memory=4_000_000, depth=200, seconds=1e6)


_SIGN: Final = re.compile(r"\\u\{([0-9a-f]+)\}")
"""A letter outside ASCII in a pool: its number."""


def dealt_rows(seed: str) -> list[FunctionEntry]:
    """Return the functions for a scene, by the number at the end of its seed."""
    return list(rows().values())[int(seed.rpartition(" ")[2]) % SCENES :: SCENES]


def parameters(row: FunctionEntry) -> list[str]:
    """Return the names of the parameters of a function, without the sign that there may be more."""
    return [name for name in row.usage.strip("()").split()[1:] if name not in ("…", "x…")]


def pool_of(row: FunctionEntry, name: str) -> str:
    """Return the pool of a parameter of a function."""
    found = None if row.subject in ("numbers", "JSON") else POOLS.get(name)
    return OF_SUBJECT.get(row.subject, SOME) if found is None else found


@lru_cache
def texts_of(pool: str) -> tuple[str, ...]:
    """Return the texts of the forms of a pool."""
    text = _with_signs(pool)
    forms = program_forms(text)
    return tuple(map(Texts(text, forms).of, forms))


def _with_signs(pool: str) -> str:
    return _SIGN.sub(lambda found: chr(int(found[1], 16)), pool)


class _Table:
    """Calls functions with values of one evaluation."""

    def __init__(self) -> None:
        self.ctx = Context(LIMITS, natives())
        self._pools: dict[str, tuple[Any, ...]] = {}

    def pool(self, text: str) -> tuple[Any, ...]:
        """Return the values of a pool."""
        found = self._pools.get(text)
        if found is None:
            self.ctx.meter.steps = 0
            forms = program_forms(f"[{_with_signs(text)}]")
            program = Analyst(self.ctx.functions, SPECIAL, definitions(forms)).program(forms)
            found = self._pools[text] = tuple(self.ctx.run(program.body.steps(self.ctx, [None] * program.size)))
        return found

    def called(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Return what a call comes to."""
        value = self.ctx.begin(function, list(args))
        return self.ctx.run(value) if hasattr(value, "send") else value

    def words(self, function: Any, args: tuple[Any, ...], depth: int = 0) -> str:
        """Return what a call comes to, in words."""
        ctx = self.ctx
        ctx.meter.steps = 0
        try:
            value = self.called(function, args)
            if isinstance(value, Endless):
                value = self.called(ctx.functions["take"], (4, value))
            if isinstance(value, Function) and depth < 1:
                more = [self.words(value, self.pool(given), depth + 1) for given in CALLED]
                return f"a function: {'; '.join(more)}"
            readable, plain = (ctx.written((value,), readable=how) for how in (True, False))
            text = f"{type(value).__name__} {readable} {plain}"
        except Fault as fault:
            data = fault.error().as_value()
            text = " ".join(f"{name}: {data[name]}" for name in data)
        except Breach:
            raise
        except Exception as error:
            text = type(error).__name__
        if ctx.printed:
            text += f" printed {ctx.printed}"
            ctx.printed.clear()
        return text


def show_functions(notes: Notes, seed: str) -> None:
    """Note what the functions that are dealt to a scene come to."""
    table = _Table()
    for row in dealt_rows(seed):
        function = table.ctx.functions[row.name]
        before: Any = None
        lines: list[str] = []
        for args in _arguments(table, row):
            if lines and (len(args) > 1 and args[0] is not before):
                notes.add("table", row.name, "\n".join(lines))
                lines.clear()
            before = args[0] if args else None
            lines.append(table.words(function, args))
        notes.add("table", row.name, "\n".join(lines))


def _arguments(table: _Table, row: FunctionEntry) -> Iterator[tuple[Any, ...]]:
    shown = parameters(row)
    most = row.most if row.most is not None else min(max(len(shown) + 2, 3), 4)
    yield from ((), *(() if row.most is None else (table.pool("1 2 3 4 5 6")[: row.most + 1],)))
    for count in range(max(row.least, 1), min(most, 4) + 1):
        pools = []
        for at in range(count):
            name = shown[min(at, len(shown) - 1)] if shown else "x"
            pools.append(_pool(table, row, name, count))
        yield from product(*pools)
        for at in range(count if count > 1 else 0):
            for foreign in table.pool(FOREIGN):
                firsts = [pool[0] for pool in pools]
                firsts[at] = foreign
                yield tuple(firsts)


def _pool(table: _Table, row: FunctionEntry, name: str, count: int) -> tuple[Any, ...]:
    text = pool_of(row, name)
    if count == 1:
        text = ALL if text in ALL or row.subject == "predicates" else f"{text} {ALL}"
    found = table.pool(text)
    if name == "fmt":
        return found
    more = 9 if count == 2 and row.subject in ("numbers", "order") else 0
    return found[: MOST[count] + more]
