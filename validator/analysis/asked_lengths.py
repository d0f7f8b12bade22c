"""How many items the list of a for_each step has at least, because conditions before it ask for its length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from stepward.validator.analysis.constants import constant_value
from stepward.vm.expressions.syntax import (
    Constant,
    Expression,
    FunctionCall,
    Logic,
    Negation,
    Reference,
    walk,
    with_children,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Resolution
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.transitions import Transition

Names = tuple[str, ...]

_EITHER = frozenset({True, False})


@dataclass(frozen=True)
class AskedLengths:
    """The lengths of lists that the conditions of a program ask for."""

    meaning: Meaning

    def least(self, number: int, names: Names, resolution: Resolution, most: int) -> int:
        """Return how many items a list has at least, up to `most`, where control reaches the step at `number`.

        `names` are its reference. Every path from what gives the list its value leads through a condition that asks.
        """
        if names not in self._asking:
            return 0
        givers = {0 if source.step is None else source.step for source in resolution.sources}
        return next((size for size in range(most, 0, -1) if self._is_shown(number, names, givers, size)), 0)

    @cached_property
    def _asking(self) -> dict[Names, set[int]]:
        """The condition steps that ask for the length of each reference."""
        found: dict[Names, set[int]] = {}
        for clause in self.meaning.clauses:
            for node in walk(clause.tree) if clause.tree is not None and clause.is_condition else ():
                names = _measured(node)
                if names is not None:
                    found.setdefault(names, set()).add(clause.step)
        return found

    def _is_shown(self, number: int, names: Names, givers: set[int], size: int) -> bool:
        """Return whether no path leads from what gives a list its value to a step, on which the list may have fewer
        than `size` items. The search goes back from the step."""
        flow = self.meaning.flow
        pending, reached = [number], {number}
        while pending:
            step = pending.pop()
            if step == 0:
                return False  # here the list has its value from the start, or none
            for before in flow.predecessors[step]:
                leading = [one for one in flow.transitions[before] if one.to == step]
                if all(self._excludes(before, one, names, size) for one in leading):
                    continue
                if before in givers:
                    return False
                if before not in reached:
                    reached.add(before)
                    pending.append(before)
        return True

    def _excludes(self, number: int, transition: Transition, names: Names, size: int) -> bool:
        """Return whether no list with fewer than `size` items takes a transition of a step."""
        step = self.meaning.flow.steps[number]
        if number not in self._asking[names] or not isinstance(step, ConditionStep) or transition.kind != "branch":
            return False
        trees = [clause.tree for clause in self.meaning.clauses_of[number]]
        return not any(transition.branch in _branches(step, trees, names, length) for length in range(size))


def _branches(
    step: ConditionStep, trees: list[Expression | None], names: Names, length: int
) -> Iterator[str | int | None]:
    """Yield the branches that a condition may take where a list has so many items."""
    for case, tree in enumerate(trees, start=1):
        results = _EITHER if tree is None else _truths(_with_length(tree, names, length))
        if True in results:
            yield "then" if step.condition is not None else case
        if False not in results:
            return
    yield "otherwise"


def _measured(node: Expression) -> Names | None:
    """Return the names of the reference of which an expression is the length; None for another expression."""
    match node:
        case FunctionCall(function="len", operand=Reference(names=names)):
            return names
        case _:
            return None


def _with_length(tree: Expression, names: Names, length: int) -> Expression:
    """Return an expression in which the length of a list is known."""
    if _measured(tree) == names:
        return Constant(tree.start, tree.end, length)
    return with_children(tree, lambda node: _with_length(node, names, length))


def _truths(tree: Expression) -> frozenset[bool]:
    """Return the values that a condition may have, whatever its references are."""
    match tree:
        case Negation(operand=operand):
            return frozenset(not one for one in _truths(operand))
        case Logic(operator=operator, operands=operands):
            decisive, results = operator == "or", [_truths(operand) for operand in operands]
            other = not decisive
            found = {decisive} if any(decisive in one for one in results) else set()
            return frozenset(found | ({other} if all(other in one for one in results) else set()))
        case _:
            value = constant_value(tree)
            return _EITHER if value is None else frozenset({value})
