"""The evaluation of parsed conditions and expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, assert_never

from stepward.sabotage.reference.plain import NoValue, kind, to_number, to_value
from stepward.sabotage.reference.types import is_found
from stepward.vm.expressions import syntax
from stepward.vm.expressions.letters import WHITE_SPACE, lower, upper
from stepward.vm.expressions.operators import Comparison, FunctionName

Read = Callable[[tuple[str, ...]], Any]
"""Returns the value of a reference by its names. Raises Undefined if there is none."""


class CannotEvaluate(Exception):  # noqa: N818 - it says what can't be done
    """An expression has no value."""


class Undefined(CannotEvaluate):
    """A reference can't be read ("Data" 3): never null, never the literal text."""


def value_of(tree: syntax.Expression, read: Read) -> Any:
    """Evaluate an expression from left to right. Raises CannotEvaluate ("Conditions" 1 to 6)."""
    match tree:
        case syntax.Constant(value=value):
            return to_value(value)
        case syntax.Reference(names=names):
            return read(names)
        case syntax.Defined(reference=reference):
            return _is_defined(reference.names, read)
        case syntax.FunctionCall(function=word, operand=operand, literal=literal):
            return _called(word, value_of(operand, read), literal)
        case syntax.Negation(operand=operand):
            return not _boolean(value_of(operand, read))
        case syntax.Logic(operator=joint, operands=operands):
            return _logic(joint, operands, read)
        case syntax.Compare(operator=comparison, left=left, right=right):
            return _compare(comparison, value_of(left, read), value_of(right, read))
        case syntax.Arithmetic(first=first, rest=rest, joins=joins):
            result = value_of(first, read) if joins else _number(value_of(first, read))
            for sign, operand in rest:
                other = value_of(operand, read)
                result = _plus(result, other) if joins else _computed(sign, result, _number(other))
            return result
        case syntax.Minus(operand=operand):
            return _computed("-", 0, _number(value_of(operand, read)))
        case syntax.Built() | syntax.Template():  # a list: `set` builds all else from data (templates.py)
            return tuple(value_of(part, read) for part in tree.parts)
        case _:
            assert_never(tree)


def holds(tree: syntax.Expression, read: Read) -> bool:
    """Return whether a condition holds; it must be a boolean ("Conditions" 2: no truthiness)."""
    return _boolean(value_of(tree, read))


def _is_defined(names: tuple[str, ...], read: Read) -> bool:
    """Whether a reference can be read; a null value is defined ("Conditions" 5)."""
    try:
        read(names)
    except Undefined:
        return False
    return True


def _logic(word: str, operands: tuple[syntax.Expression, ...], read: Read) -> bool:
    """Evaluate until decided: a skipped operand can't fail ("Conditions" 1)."""
    decided = word == "or"
    for operand in operands:
        if _boolean(value_of(operand, read)) is decided:
            return decided
    return not decided


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CannotEvaluate("a boolean is needed")
    return value


def _number(value: Any) -> Any:
    if kind(value) != "number":
        raise CannotEvaluate("a number is needed")
    return value


def _joined(items: Any, separator: str) -> str:
    if any(kind(item) != "string" for item in items):
        raise CannotEvaluate("texts are needed")
    return separator.join(items)


def _trimmed(text: str) -> str:
    """Drop white space at both ends, one code point after the other."""
    first, last = 0, len(text)
    while first < last and text[first] in WHITE_SPACE:
        first += 1
    while last > first and text[last - 1] in WHITE_SPACE:
        last -= 1
    return text[first:last]


FUNCTIONS: dict[FunctionName, tuple[set[str], str, Callable[..., Any]]] = {
    "len": ({"string", "array"}, "number", len),  # code points of a text, items of an array ("Conditions" 4)
    "lower": ({"string"}, "string", lower),
    "upper": ({"string"}, "string", upper),
    "trim": ({"string"}, "string", _trimmed),
    "join": ({"array"}, "string", _joined),
    "matches": ({"string"}, "boolean", lambda text, pattern: is_found(pattern, text)),
}
"""The table of functions: accepted kinds, result kind, and value."""


def _called(word: FunctionName, value: Any, literal: str | None) -> Any:
    kinds, _, function = FUNCTIONS[word]
    if kind(value) not in kinds:
        raise CannotEvaluate("a value of another kind is needed")
    return function(value) if literal is None else function(value, literal)


JOINED = frozenset({"number", "string", "array"})
"""The kinds of operands of `+` in language 2, both of one kind."""


def _plus(left: Any, right: Any) -> Any:
    if kind(left) != kind(right) or kind(left) not in JOINED:
        raise CannotEvaluate("two values of one kind are needed")
    if kind(left) == "number":
        return _computed("+", left, right)
    return left + right if isinstance(left, str) else (*left, *right)


def _computed(sign: str, left: Any, right: Any) -> Any:
    """Compute without rounding. Fail for a result of over 1,000 digits ("Data" 5)."""
    a, b = Fraction(left), Fraction(right)
    try:
        return to_number(a + b if sign == "+" else a - b if sign == "-" else a * b)
    except NoValue as error:
        raise CannotEvaluate(str(error)) from None


_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

TAKEN: dict[Comparison, set[str]] = {
    **{word: {"number"} for word in ("<", "<=", ">", ">=")},
    **{word: {"string"} for word in ("starts_with", "ends_with")},
}
"""The table of operators: the kinds required of both sides, where they do not depend on each other."""


def _compare(word: Comparison, left: Any, right: Any) -> bool:
    """Evaluate a comparison by the table of operators."""
    if word in TAKEN and not {kind(left), kind(right)} <= TAKEN[word]:
        raise CannotEvaluate("values of another kind are needed")
    match word:
        case "==" | "!=":
            return _equal(left, right) is (word == "==")
        case "in" | "not in":
            return _has_item(right, left) is (word == "in")
        case "contains" | "not contains":
            return _contains(left, right) is (word == "contains")
        case "starts_with":
            return bool(left.startswith(right))
        case "ends_with":
            return bool(left.endswith(right))
        case "<" | "<=" | ">" | ">=":
            return bool(_ORDER[word](Fraction(left), Fraction(right)))
        case _:
            assert_never(word)


def _equal(left: Any, right: Any) -> bool:
    """Whether two scalars of one type are equal. Null equals only null, and is never an error ("Conditions" 3,
    Choices)."""
    if left is None or right is None:
        return left is None and right is None
    if kind(left) != kind(right) or kind(left) in ("array", "object"):
        raise CannotEvaluate(f"{kind(left)} and {kind(right)} can't be compared")
    return bool(left == right)


def _has_item(array: Any, value: Any) -> bool:
    """Compare items from the first until one is equal ("Conditions, Choices")."""
    if kind(array) != "array":
        raise CannotEvaluate("an array is needed")
    return any(_equal(value, item) for item in array)


def _contains(left: Any, right: Any) -> bool:
    if kind(left) == "string" and kind(right) == "string":
        return right in left
    if kind(left) != "array":
        raise CannotEvaluate("a text in a text, or an array, is needed")
    return _has_item(left, right)
