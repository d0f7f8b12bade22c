"""The table of operators and functions of the expression language: operand kinds, result, evaluation and questions.

Lexer, parser, evaluator, type check, inference, facts, hints, and the cuts and classes of the engine read it, so that a
new comparison or function is one row here. The implementations that check one another are separate on purpose, each
written from specs/language.md. They share only the words with this table:

- the solver's terms (`validator/engine/smt/terms.py`),
- the second checker (`validator/recheck/evaluation.py`),
- the reference interpreter (`sabotage/reference/expressions.py`).

The machine's meaning is `apply` in this table; `evaluator.py` applies it along a tree. Each of the four dispatches by
`match` up to `assert_never`, or by a table that holds every word, so that none of them can confuse a new operator with
another one. tests/vm/expressions/test_operators.py tests all of them on every row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions import letters
from stepward.vm.values import arithmetic

Comparison = Literal[
    "==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "starts_with", "ends_with"
]
FunctionName = Literal["len", "lower", "upper", "trim", "join", "matches"]
Connective = Literal["and", "or"]
Sign = Literal["+", "-", "*"]

Kinds = frozenset[str]
ANY: Final[Kinds] = frozenset({"boolean", "number", "string", "array", "object", "null"})
"""The kinds of values; an integer is a number."""

NUMBER, STRING, BOOLEAN, ARRAY, OBJECT = (
    frozenset({word}) for word in ("number", "string", "boolean", "array", "object")
)
SIZED: Final[Kinds] = STRING | ARRAY
JOINABLE: Final[Kinds] = NUMBER | STRING | ARRAY
"""The kinds of operands that `+` takes in language 2, two of one kind at a time."""

Relation = Literal["alike", "member", "contains"]
"""How two operands relate if the kinds of one depend on the other: two scalars of one kind or null; an item and an
array; a text and a part of it, or an array and an item."""

Question = Literal["is", "contains", "starts_with", "ends_with"]
"""The questions about a text and a literal: whether the text is the literal, contains it, or starts or ends with it."""


def kind(value: Any) -> str:
    """Return the type word of a value; an integer is a `number`."""
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
    """Return `value` if it is a number; raises EvaluationError, which names the operator `word`, if not."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise EvaluationError(f"`{word}` needs a number, not {kind(value)}")
    return value


def plus(left: Any, right: Any) -> Any:
    """Return the value of `+` in language 2: a sum, or two texts or arrays joined; else raises EvaluationError."""
    word = kind(left)
    if word != kind(right) or word not in JOINABLE:
        raise EvaluationError(f"`+` needs two numbers, two texts or two arrays, not {word} and {kind(right)}")
    return arithmetic("+", left, right) if word == "number" else left + right


# -- comparisons -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operator:
    """A comparison.

    `takes` are the kinds that both operands must have, or how they relate. `apply` gets the word and both values and
    returns whether the comparison holds, for `is_negated` rows its opposite; it raises EvaluationError for values that
    the operator does not take. `asks` is what a comparison with a constant asks about the other value: their order
    (`order`), or a question about texts, where `is` means equality with values of any kind; None if equivalence
    classes of values can't answer it. `words` and `methods` are what other languages write instead.
    """

    takes: Kinds | Relation
    apply: Callable[[str, Any, Any], bool]
    asks: Question | Literal["order"] | None
    is_negated: bool = False
    words: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


def compare(word: Comparison, left: Any, right: Any) -> bool:
    """Return whether a comparison holds between two values; raises EvaluationError if it does not apply to them."""
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
    """Return the row of an operator that compares the order of two numbers."""
    return Operator(
        NUMBER, lambda word, left, right: holds(number_of(word, left), number_of(word, right)), "order", words=words
    )


def _of_texts(holds: Callable[[str, str], bool], asks: Question | None, *names: str) -> Operator:
    """Return the row of an operator between two texts; `names` are its names in other languages."""

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
    """A function of one operand, and perhaps of a text that is a literal.

    `takes` are the kinds of its operand, `needed` describes them in words, `gives` are the kinds of its value. `apply`
    gets the operand, and the literal if there is one; it raises EvaluationError for an operand whose parts it does not
    take. `asks` is what a comparison of its value with a constant asks about the operand; None if equivalence classes
    of values can't answer it. `items` are the kinds that the items of its operand must have. `literal` says what the
    second argument is, with an example; None without one. `is_idempotent` says that its values are those that it does
    not change. `language` is the version of the language that has it. `words` and `methods` are what other languages
    write instead.
    """

    takes: Kinds
    needed: str
    gives: Kinds
    apply: Callable[..., Any]
    asks: Literal["length"] | None = None
    items: Kinds | None = None
    literal: tuple[Literal["separator", "pattern"], str] | None = None
    is_idempotent: bool = False
    language: int = 2
    words: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


def call(word: FunctionName, value: Any, literal: str | None) -> Any:
    """Return the value of a function; raises EvaluationError for an operand that it does not take.

    `literal` is the second argument, None for a function without one.
    """
    row = FUNCTIONS[word]
    if kind(value) not in row.takes:
        raise EvaluationError(f"`{word}` needs {row.needed}, not {kind(value)}")
    return row.apply(value) if literal is None else row.apply(value, literal)


def _joined(items: tuple[Any, ...], separator: str) -> str:
    for item in items:
        if not isinstance(item, str):
            raise EvaluationError(f"`join` needs an array of texts, and an item is {kind(item)}")
    return separator.join(items)


def _is_found(text: str, pattern: str) -> bool:
    from stepward.vm.patterns.matching import matches

    return matches(pattern, text)


def _of_text(change: Callable[[str], str], *names: str, methods: tuple[str, ...]) -> Function:
    """Return the row of a function that changes a text; `names` are its names in other languages."""
    return Function(STRING, "a text", STRING, change, is_idempotent=True, words=names, methods=methods)


FUNCTIONS: Final[dict[FunctionName, Function]] = {
    "len": Function(SIZED, "a text or an array", NUMBER, len, "length", language=1, words=("length",)),
    "lower": _of_text(letters.lower, "LOWER", "lcase", methods=("lower", "toLowerCase")),
    "upper": _of_text(letters.upper, "UPPER", "ucase", methods=("upper", "toUpperCase")),
    "trim": _of_text(letters.trim, "TRIM", "strip", methods=("strip", "trim")),
    "join": Function(
        ARRAY, "an array of texts", STRING, _joined, items=STRING, literal=("separator", "', '"), words=("JOIN",)
    ),
    "matches": Function(
        STRING, "a text", BOOLEAN, _is_found, literal=("pattern", "'^[A-Z]+$'"), words=("regex_match",)
    ),
}


# -- words -------------------------------------------------------------------------------------------------------------

LOOSEST, OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY = range(8)
"""The binding powers of operators, weakest first."""

POWERS: Final[dict[str, int]] = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT}

LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

ASKS_FOR_REFERENCE: Final = "defined"
"""The one function whose operand is a reference, not a value."""

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
"""Words of other languages, and the words for them here."""

METHODS: Final[dict[str, str]] = {method: word for word, row in OPERATORS.items() for method in row.methods}
"""Text methods of other languages, and the operators for them here."""

FUNCTION_METHODS: Final[dict[str, str]] = {method: word for word, row in FUNCTIONS.items() for method in row.methods}
"""Text methods of other languages without arguments, and the functions for them here."""
