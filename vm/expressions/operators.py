"""The operators and functions of the expression language: one table of what each takes, gives, means and asks.

Lexer, parser, evaluator, type check, inference, facts, hints, and the cuts and classes of the engine read it, so that a
new comparison or function is one row here. Apart on purpose are the implementations that check one another, each
written from specs/language.md. They share the words with this table and nothing else:

- the solver's terms (`validator/engine/smt/terms.py`),
- the second checker (`validator/recheck/evaluation.py`),
- the reference interpreter (`sabotage/reference/expressions.py`).

The machine's meaning is `apply` in this table; `evaluator.py` applies it along a tree. Each of the four dispatches by
`match` up to `assert_never`, or by a table that holds every word, so that none of them can take a new operator for
another one. tests/vm/expressions/test_operators.py asks all of them for every row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

from stepward.vm.errors import EvaluationError

Comparison = Literal[
    "==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "starts_with", "ends_with"
]
FunctionName = Literal["len"]
Connective = Literal["and", "or"]
Sign = Literal["+", "-", "*"]

Kinds = frozenset[str]
ANY: Final[Kinds] = frozenset({"boolean", "number", "string", "array", "object", "null"})
"""The kinds of values; an integer is a number."""

NUMBER, STRING, BOOLEAN, ARRAY, OBJECT = (
    frozenset({word}) for word in ("number", "string", "boolean", "array", "object")
)
SIZED: Final[Kinds] = STRING | ARRAY

Relation = Literal["alike", "member", "contains"]
"""What two operands are to one another where the kinds of one depend on the other: two scalars of one kind or null; an
item and an array; a text and a text in it, or an array and an item."""

Question = Literal["is", "contains", "starts_with", "ends_with"]
"""What can be asked of a text with a literal: whether it is the literal, holds it, or starts or ends with it."""


def kind(value: Any) -> str:
    """Return the type word of a value: `integer` and `number` are one here."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else "array"


def number_of(word: str, value: Any) -> int | Decimal:
    """Return a value that an operator takes if it is a number; raises EvaluationError for any other."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise EvaluationError(f"`{word}` needs a number, not {kind(value)}")
    return value


# -- comparisons -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operator:
    """A comparison.

    `takes` are the kinds that both operands must have, or how they relate. `apply` gets the word and both values and
    returns whether the comparison holds, for `is_negated` rows its opposite; it raises EvaluationError for values that
    the operator does not take. `asks` is what a comparison with a constant asks of the other value: how the two lie
    (`order`), or a question about texts, where `is` stands for equality with values of any kind; None for what no class
    of values can tell. `words` and `methods` are what other languages write instead.
    """

    takes: Kinds | Relation
    apply: Callable[[str, Any, Any], bool]
    asks: Question | Literal["order"] | None
    is_negated: bool = False
    words: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


def compare(word: Comparison, left: Any, right: Any) -> bool:
    """Return whether a comparison holds between two values; raises EvaluationError where it does not apply to them."""
    row = OPERATORS[word]
    return row.apply(word, left, right) is not row.is_negated


def _equal(_: str, left: Any, right: Any) -> bool:
    left_kind, right_kind = kind(left), kind(right)
    if left_kind == "null" or right_kind == "null":
        return left_kind == right_kind
    if left_kind != right_kind:
        raise EvaluationError(f"{left_kind} and {right_kind} can't be compared")
    if left_kind in ("array", "object"):
        raise EvaluationError(f"two values of type {left_kind} can't be compared")
    return bool(left == right)


def _member(word: str, item: Any, array: Any) -> bool:
    if kind(array) != "array":
        raise EvaluationError(f"`{word}` needs an array here, not {kind(array)}")
    return any(_equal(word, item, other) for other in array)


def _contains(word: str, holder: Any, item: Any) -> bool:
    if kind(holder) == "array":
        return _member(word, item, holder)
    if kind(holder) != "string" or kind(item) != "string":
        raise EvaluationError(f"`{word}` needs a text in a text, or an array, not {kind(item)} in {kind(holder)}")
    return item in holder


def _order(holds: Callable[[Any, Any], bool], *words: str) -> Operator:
    """Return the row of an operator between two numbers that asks nothing but how they lie."""
    return Operator(
        NUMBER, lambda word, left, right: holds(number_of(word, left), number_of(word, right)), "order", words=words
    )


def _of_texts(holds: Callable[[str, str], bool], asks: Question | None, *names: str) -> Operator:
    """Return the row of an operator between two texts, which other languages call by other names."""

    def apply(word: str, left: Any, right: Any) -> bool:
        if kind(left) != "string" or kind(right) != "string":
            raise EvaluationError(f"`{word}` needs two texts, not {kind(left)} and {kind(right)}")
        return holds(left, right)

    return Operator(STRING, apply, asks, words=names, methods=names)


_EQUALITY: Final = Operator("alike", _equal, "is", words=("=", "===", "equals", "eq"), methods=("equals",))
_MEMBERSHIP: Final = Operator("member", _member, "is", words=("IN",))
_CONTAINMENT: Final = Operator(
    "contains", _contains, "contains", words=("CONTAINS", "includes", "has"), methods=("contains", "includes")
)

OPERATORS: Final[dict[Comparison, Operator]] = {
    "==": _EQUALITY,
    "!=": replace(_EQUALITY, is_negated=True, words=("!==", "<>", "≠"), methods=()),
    "<": _order(operator.lt),
    "<=": _order(operator.le, "=<", "≤"),
    ">": _order(operator.gt),
    ">=": _order(operator.ge, "=>", "≥"),
    "in": _MEMBERSHIP,
    "not in": replace(_MEMBERSHIP, is_negated=True, words=()),
    "contains": _CONTAINMENT,
    "not contains": replace(_CONTAINMENT, is_negated=True, words=(), methods=()),
    "starts_with": _of_texts(str.startswith, "starts_with", "startswith", "startsWith"),
    "ends_with": _of_texts(str.endswith, "ends_with", "endswith", "endsWith"),
}


# -- functions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one operand.

    `takes` are the kinds of its operand, `needed` says them in words, `gives` are the kinds of its value. `asks` is
    what a comparison of its value with a constant asks of the operand; None for what no class of values can tell.
    """

    takes: Kinds
    needed: str
    gives: Kinds
    apply: Callable[[Any], Any]
    asks: Literal["length"] | None
    words: tuple[str, ...] = ()


def call(word: FunctionName, value: Any) -> Any:
    """Return the value of a function; raises EvaluationError for an operand that it does not take."""
    row = FUNCTIONS[word]
    if kind(value) not in row.takes:
        raise EvaluationError(f"`{word}` needs {row.needed}, not {kind(value)}")
    return row.apply(value)


FUNCTIONS: Final[dict[FunctionName, Function]] = {
    "len": Function(SIZED, "a text or an array", NUMBER, len, "length", words=("length",)),
}


# -- words -------------------------------------------------------------------------------------------------------------

LOOSEST, OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY = range(8)
"""How tightly operators bind their operands."""

POWERS: Final[dict[str, int]] = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT}

LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

ASKS_FOR_REFERENCE: Final = "defined"
"""The one function that is not given a value."""

_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "and": ("AND", "And", "&&"),
    "or": ("OR", "Or", "||"),
    "not": ("NOT", "Not"),
    "-": ("−", "–"),
    "*": ("×",),
    "true": ("True", "TRUE"),
    "false": ("False", "FALSE"),
    "null": ("None", "NULL", "Null", "nil", "undefined"),
    ASKS_FOR_REFERENCE: ("exists",),
}

FUNCTION_WORDS: Final = (*FUNCTIONS, ASKS_FOR_REFERENCE)
SIGNS: Final = tuple(word for word in (*OPERATORS, *POWERS) if not word[0].isalpha())
KEYWORDS: Final = frozenset(
    [
        *(part for word in (*OPERATORS, *POWERS) if word not in SIGNS for part in word.split()),
        *LITERALS,
        *FUNCTION_WORDS,
    ]
)

INSTEAD: Final[dict[str, str]] = {
    **{other: word for word, row in OPERATORS.items() for other in row.words},
    **{other: word for word, row in FUNCTIONS.items() for other in row.words},
    **{other: word for word, others in _OTHERS.items() for other in others},
}
"""What other languages write, and what is written here."""

METHODS: Final[dict[str, str]] = {method: word for word, row in OPERATORS.items() for method in row.methods}
"""The methods of texts in other languages, and the operators here."""
