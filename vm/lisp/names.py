"""Names with a namespace, and the names that the language refuses, each with what to write instead."""

from __future__ import annotations

from typing import Final

from stepward.vm.lisp.forms import Symbol

_SPACES: Final = {
    "clojure.core": ("core", "string", "set", "walk"),
    "core": ("core", "string", "set", "walk"),
    "clojure.string": ("string",),
    "string": ("string",),
    "str": ("string",),
    "clojure.set": ("set",),
    "set": ("set",),
    "clojure.walk": ("walk",),
    "walk": ("walk",),
    "regex": ("core",),
    "json": ("json",),
}
"""The namespaces that may stand before a name, and the spaces of the table whose functions they have."""


def table_name(symbol: Symbol) -> str:
    """Return the name of the table that a symbol means, empty if it means none."""
    from stepward.vm.lisp.functions.table import rows

    if not symbol.namespace:
        return symbol.name
    if symbol.namespace in ("json", "tool"):
        return symbol.name
    row = rows().get(symbol.short)
    return symbol.short if row is not None and row.space in _SPACES.get(symbol.namespace, ()) else ""


_STATE: Final = "hand the value on with `let`, `reduce` or `loop`"
_CODE: Final = "write the form itself, or a function"
_CHANCE: Final = "values are the same in every run: hand the value in as data"
_WORLD: Final = "hand what it reads in as data, or call a tool"
_TYPES: Final = "use a map, and `case` or `cond` on one of its keys"
_FAIL: Final = 'test before, with `when`, `some?` or `if-let`; end the program with `(fail "why")`'
_LAZY: Final = "sequences are made at once: use `map`, `for`, `loop` or `iterate`"
_NAMES: Final = "write the name: functions are called by their names only"

_TABLE: Final = (
    (
        "atom swap! reset! swap-vals! reset-vals! compare-and-set! deref ref alter ref-set dosync commute "
        "ensure agent send send-off await volatile! vswap! vreset! transient persistent! conj! assoc! dissoc! "
        "disj! pop! set! var-set with-local-vars add-watch remove-watch alter-var-root",
        _STATE,
    ),
    ("binding with-redefs with-bindings var intern find-var ns-resolve resolve requiring-resolve", _NAMES),
    ("eval read-string load-string defmacro macroexpand macroexpand-1 gensym load load-file", _CODE),
    ("rand rand-int rand-nth shuffle random-uuid random-sample time System/currentTimeMillis Instant/now", _CHANCE),
    ("slurp spit read-line read with-open line-seq file-seq *in* *out*", _WORLD),
    (
        "defprotocol defrecord deftype defmulti defmethod extend-type extend-protocol reify proxy gen-class "
        "definterface instance? class satisfies? isa? derive multimethod",
        _TYPES,
    ),
    ("try catch finally throw ex-info ex-data ex-message assert", _FAIL),
    ("lazy-seq lazy-cat sequence eduction transduce delay force realized? doall dorun iterator-seq", _LAZY),
    ("future promise deliver pvalues locking thread", "tools run side by side in a compiled program"),
    ("ns", "leave it out, or write only `(ns name)` as the first form: there are no modules, all functions are there"),
    ("require use import refer in-ns all-ns", "leave it out: all functions are there"),
    ("new . .. memfn bean doto", "there are no objects: use a function of the language"),
    ("meta with-meta vary-meta alter-meta!", "values carry no metadata: put it into a map"),
    ("print pr prn newline printf print-str prn-str println-str", "use `println`, or `pr-str` for the text"),
    ("symbol symbol? special-symbol?", "there are no symbols as values: use keywords"),
    (
        "sorted-map sorted-set sorted-map-by sorted-set-by rsubseq subseq",
        "use `sort` or `sort-by`",
    ),
    ("numerator denominator rationalize ratio", "numbers are decimals: use `/` and `round`"),
    (
        "bigdec bigint biginteger long short byte num unchecked-add unchecked-inc",
        "numbers are exact; `int` cuts",
    ),
    ("letfn", "use `(let [f (fn f [x] …)] …)`, or `defn`"),
    ("while dotimes", "use `loop` with `recur`, `reduce`, or `for` over `(range n)`"),
    ("repeatedly trampoline memoize", "use `(for [_ (range n)] …)`, `loop` or `map`"),
    ("char", "a character is a text of one code point"),
    ("unsigned-bit-shift-right", "integers have no fixed width: use `bit-shift-right`"),
    ("re-matcher re-groups", "use `re-find`, `re-matches` or `re-seq`"),
    ("Math/sqrt", "use `sqrt`"),
    ("Math/pow", "use `pow`"),
    ("Math/abs", "use `abs`"),
    ("Math/round", "use `round`"),
    ("Math/floor", "use `floor`"),
    ("Math/ceil", "use `ceil`"),
    ("Math/max", "use `max`"),
    ("Math/min", "use `min`"),
    ("Integer/parseInt Long/parseLong", "use `parse-long`"),
    ("Double/parseDouble Float/parseFloat", "use `parse-double`"),
    ("Boolean/parseBoolean", "use `parse-boolean`"),
    ("clojure.string/capitalize str/capitalize", "use `(str (upper-case (subs s 0 1)) (lower-case (subs s 1)))`"),
    ("clojure.string/reverse str/reverse", "use `(join (reverse s))`"),
)
"""Names, and what to write instead of them."""

_REFUSED: Final = {name: instead for names, instead in _TABLE for name in names.split()}


def refusals() -> dict[str, list[str]]:
    """Return the refused names by what to write instead."""
    found: dict[str, list[str]] = {}
    for name, instead in _REFUSED.items():
        found.setdefault(instead, []).append(name)
    return found


def instead_of(symbol: Symbol) -> tuple[str, str] | None:
    """Return what a refused name is in words, and what to write instead; None for a name that is only unknown."""
    name = symbol.name
    if symbol.namespace in ("clojure.core", "core") and symbol.short in _REFUSED:
        name = symbol.short
    if name in _REFUSED:
        return f"`{symbol.name}`", _REFUSED[name]
    if not symbol.name.strip("."):
        return f"`{symbol.name}`, which stands for something left out,", "write what was left out"
    if symbol.namespace == "tool":
        return f"a call of a tool (`{symbol.name}`) in an expression without effects", "hand its result in as data"
    if (
        symbol.name.startswith(".")
        or symbol.name.endswith(".")
        or symbol.namespace[:1].isupper()
        or "java." in symbol.name
    ):
        return f"the Java name `{symbol.name}`", "use a function of the language: specs/lisp.md lists them"
    return None
