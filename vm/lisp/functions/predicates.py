"""What a value is: questions with the answer true or false."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from stepward.vm.lisp.callables import Function
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.streams import Endless
from stepward.vm.lisp.values import Items, Keyword, List, Map, Regex, Set, Var, Vector, is_number, kind, wrapped

SHELF: Final = FunctionTable("predicates")


def _question(name: str, words: str, holds: Callable[[Any], bool]) -> None:
    def run(ctx: Context, value: Any) -> bool:
        return holds(value)

    run.__doc__ = f"Return whether {words}."
    SHELF.function(name, "x", 1, 1)(run)


def _number_question(name: str, words: str, holds: Callable[[Any], bool], *, whole: bool = False) -> None:
    def run(ctx: Context, value: Any) -> bool:
        if not is_number(value) or (whole and type(value) is not int):
            what = "a number with a fraction" if is_number(value) else kind(value)
            raise type_fault(name, "a whole number" if whole else "a number", what)
        return holds(value)

    run.__doc__ = f"Return whether {words}."
    SHELF.function(name, "x", 1, 1)(run)


def _is_integer(value: Any) -> bool:
    return type(value) is int


_question("nil?", "a value is nil", lambda value: value is None)
_question("some?", "a value is not nil", lambda value: value is not None)
_question("true?", "a value is true", lambda value: value is True)
_question("false?", "a value is false", lambda value: value is False)
_question("not", "a value is nil or false", lambda value: value is None or value is False)
_question("boolean", "a value is neither nil nor false", lambda value: value is not None and value is not False)
_question("any?", "there is a value: always true", lambda _: True)
_question("boolean?", "a value is a boolean", lambda value: isinstance(value, bool))
_question("number?", "a value is a number", is_number)
for _name in ("integer?", "int?"):
    _question(_name, "a value is a whole number", _is_integer)
for _name in ("decimal?", "float?", "double?"):
    _question(_name, "a value is a number with a fraction", lambda value: isinstance(value, Decimal))
_question("rational?", "a value is a number", is_number)
_question("ratio?", "a value is a ratio: there are none", lambda _: False)
_question("NaN?", "a number is none: all are", lambda _: False)
_question("infinite?", "a number has no end: none has", lambda _: False)
_question("pos-int?", "a value is a whole number above 0", lambda value: _is_integer(value) and value > 0)
_question("neg-int?", "a value is a whole number below 0", lambda value: _is_integer(value) and value < 0)
_question("nat-int?", "a value is a whole number, 0 or above", lambda value: _is_integer(value) and value >= 0)
_question("string?", "a value is a text", lambda value: isinstance(value, str))
_question("char?", "a value is a text of one code point", lambda value: isinstance(value, str) and len(value) == 1)
_question("keyword?", "a value is a keyword", lambda value: isinstance(value, Keyword))
for _name in ("ident?", "simple-keyword?"):
    _question(_name, "a value is a keyword", lambda value: isinstance(value, Keyword))
_question("vector?", "a value is a vector", lambda value: isinstance(value, Vector))
_question("list?", "a value is a list", lambda value: isinstance(value, List))
_question("map?", "a value is a map", lambda value: isinstance(value, Map))
_question("set?", "a value is a set", lambda value: isinstance(value, Set))
_question(
    "seq?", "a value is a list or another sequence, and no vector", lambda value: isinstance(value, List | Endless)
)
_question("map-entry?", "a value is an entry of a map: it is a vector like any other", lambda _: False)
_question("coll?", "a value is a collection", lambda value: isinstance(value, Items | Map | Set | Endless))
_question("sequential?", "a value is a vector or a list", lambda value: isinstance(value, Items | Endless))
_question("associative?", "a value is a map or a vector", lambda value: isinstance(value, Map | Vector))
_question("counted?", "a value is a collection that has an end", lambda value: isinstance(value, Items | Map | Set))
_question("indexed?", "a value is a vector", lambda value: isinstance(value, Vector))
_question("reversible?", "a value is a vector", lambda value: isinstance(value, Vector))
_question("sorted?", "a value keeps itself sorted: none does", lambda _: False)
_question(
    "seqable?",
    "a value has items: a collection, a text or nil",
    lambda value: value is None or isinstance(value, str | Items | Map | Set | Endless),
)
_question("fn?", "a value is a function", lambda value: isinstance(value, Function))
_question(
    "ifn?",
    "a value can be called: a function, a keyword, a map, a set, a vector",
    lambda value: isinstance(value, Function | Keyword | Map | Set | Vector),
)
_question("regex?", "a value is a regular expression", lambda value: isinstance(value, Regex))
_number_question("zero?", "a number is 0", lambda value: value == 0)
_number_question("pos?", "a number is above 0", lambda value: value > 0)
_number_question("neg?", "a number is below 0", lambda value: value < 0)
_number_question("even?", "a whole number is even", lambda value: value % 2 == 0, whole=True)
_number_question("odd?", "a whole number is odd", lambda value: value % 2 == 1, whole=True)


@SHELF.function("distinct?", "x …", 1, None)
def are_distinct(ctx: Context, *values: Any) -> bool:
    """Return whether no two values are equal."""
    return len({wrapped(value) for value in values}) == len(values)


_TYPES: Final = (
    (bool, "boolean"),
    (int, "number"),
    (Decimal, "number"),
    (str, "string"),
    (Keyword, "keyword"),
    (Vector, "vector"),
    (List, "list"),
    (Map, "map"),
    (Set, "set"),
    (Regex, "regex"),
    (Var, "var"),
)


@SHELF.function("type", "x", 1, 1)
def type_(ctx: Context, value: Any) -> Any:
    """Return the kind of a value as a keyword: `:number`, `:string`, `:map`."""
    if value is None:
        return None
    name = next((name for kind_of, name in _TYPES if isinstance(value, kind_of)), "function")
    return ctx.keyword("list" if isinstance(value, Endless) else name)
