"""The values of conditions that constants alone decide."""

from __future__ import annotations

from stepward.vm.errors import EvaluationError, ExpressionError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Defined, Expression, Logic, Negation, Reference, walk


def constant_value(tree: Expression) -> bool | None:
    """Return the value that a condition has in every state, or None when constants alone do not decide it.

    `$x == 1 or 1 == 1` is not decided: reading `$x` comes first, and may fail. `1 == 2 and $x == 1` is false.
    """
    if isinstance(tree, Negation):
        inner = constant_value(tree.operand)
        return None if inner is None else not inner
    if isinstance(tree, Logic):
        for operand in tree.operands:
            value = constant_value(operand)
            if value is None or value is (tree.operator == "or"):
                return value
        return tree.operator == "and"
    if any(isinstance(node, (Reference, Defined)) for node in walk(tree)):
        return None
    try:
        return evaluate_condition(tree, _nothing)
    except EvaluationError:
        return None


def constant_text(text: str, language: int) -> bool | None:
    """Return the value of a condition's text in a language when constants decide it; None otherwise.

    Text that does not parse has none.
    """
    try:
        return constant_value(parse(text, language))
    except ExpressionError:
        return None


def _nothing(names: tuple[str, ...]) -> object:
    raise AssertionError(f"a constant reads nothing, not {names}")
