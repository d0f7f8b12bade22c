"""Calculations as values of their own: `$a + $b` stands for any number, or for none where calculating it fails; a
call of a function stands for any value of its kind.

Contract: every state of some conditions has a counterpart here in which each condition has the same value, since a
calculation that occurs several times is one value. So what no state here does, no state does. The reverse does not
hold: a state here may be impossible for values of the types. This layer proves, and never refutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from stepward.validator.engine.values.domains import Domain, Domains, Names, Range
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    references,
    with_children,
)

CALCULATED: Final = {
    "number": Domain(undefined=True, ranges=(Range(),)),
    "string": Domain(undefined=True, any_text=True),
    "boolean": Domain(undefined=True, booleans=frozenset({True, False})),
    "array": Domain(undefined=True, array=True),
}
"""The values of a calculation, by their kind: any, or none, where an operand is undefined or of another kind, or the
result has too many digits."""

_MARK: Final = "="
"""The first name of a calculation's reference, which no reference of a program has; the second are its kinds."""


class CalculatedDomains(Domains):
    """The domains of a program's references, and of its calculations."""

    def __init__(self, domains: Domains) -> None:
        self._of_program = domains

    def of(self, names: Names) -> Domain:
        """Return the values of a reference or of a calculation."""
        if names[0] != _MARK:
            return self._of_program.of(names)
        return reduce(Domain.__or__, (CALCULATED[word] for word in names[1].split("|")))

    def parent(self, names: Names) -> Names | None:
        """Return the owner of a reference."""
        return None if names[0] == _MARK else self._of_program.parent(names)

    def root(self, names: Names) -> Names:
        """Return the root of a reference."""
        return names if names[0] == _MARK else self._of_program.root(names)


def calculated(trees: Sequence[Expression]) -> list[Expression] | None:
    """Return conditions with a reference instead of each calculation; None where there is no calculation."""
    names: dict[str, Names] = {}
    result = [_replaced(tree, names) for tree in trees]
    return result if names else None


def _replaced(tree: Expression, names: dict[str, Names]) -> Expression:
    match tree:
        case FunctionCall(function="len", operand=Reference()):
            return tree  # classes know of lengths
        case FunctionCall() | Arithmetic() | Minus() if next(references(tree), None) is not None:
            kinds = "|".join(sorted(result_kinds(tree)))
            reference = names.setdefault(repr(tree), (_MARK, kinds, str(len(names))))
            return Reference(tree.start, tree.end, reference)
        case FunctionCall() | Arithmetic() | Minus():
            return tree
        case _:
            return with_children(tree, lambda child: _replaced(child, names))
