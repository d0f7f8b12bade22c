"""Comparisons that several steps ask: while no variable in one changes, its answer stays the same.

Blocks decide most comparisons. They do not decide `$list contains 'x'`, `$a < $b` or `$a * 2 > 3`: two steps that ask
the same seemed to be free to get two answers. A search therefore remembers each answer beside the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.reading import Reading
from stepward.vm.expressions.syntax import Compare, Constant, Expression, Negation, walk, with_children
from stepward.vm.language.steps import ConditionStep, SetStep

MAX_QUESTIONS: Final = 24
"""The most questions that are remembered; the answers to others stay open."""

FALSE, TRUE, FAILS = 0, 1, 2
"""The answers to a question, as a state holds them."""

ARGUMENTS: Final = "args"
"""In a rule this name means the arguments of a call: they differ from call to call."""


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison that more than one expression asks: the roots of its references, and the comparison itself."""

    roots: frozenset[Names]
    tree: Compare


class Questions:
    """The questions of one program and one rule, and the steps that ask them."""

    def __init__(self, reading: Reading, condition: Expression | None, hits: Iterable[int]) -> None:
        asking: dict[str, set[int]] = {}
        found: dict[str, Compare] = {}
        for number, trees in _asked(reading, condition, hits):
            for tree in trees:
                for node in walk(tree):
                    if isinstance(node, Compare) and (roots := _roots(reading, node)) and (ARGUMENTS,) not in roots:
                        asked, _ = _plain(node)
                        found.setdefault(repr(asked), asked)
                        asking.setdefault(repr(asked), set()).add(number)
        several = [key for key, steps in asking.items() if len(steps) > 1][:MAX_QUESTIONS]
        self.list = tuple(Question(_roots(reading, found[key]), found[key]) for key in several)
        self.of_step = {
            number: tuple(one for one, key in enumerate(several) if number in asking[key])
            for number in range(len(reading.steps))
        }
        self._number = {key: number for number, key in enumerate(several)}

    def answered(self, tree: Expression, answers: Mapping[int, int]) -> Expression:
        """Return an expression with its answer in place of each question whose answer is known."""
        if not answers:
            return tree
        if isinstance(tree, Compare):
            asked, is_negated = _plain(tree)
            answer = answers.get(self._number.get(repr(asked), -1))
            if answer is None:
                return tree
            if answer == FAILS:  # `not 0` has no value, and so fails like the comparison
                return Negation(tree.start, tree.end, Constant(tree.start, tree.end, 0))
            return Constant(tree.start, tree.end, (answer == TRUE) is not is_negated)
        return with_children(tree, lambda child: self.answered(child, answers))


def _asked(
    reading: Reading, condition: Expression | None, hits: Iterable[int]
) -> Iterator[tuple[int, Iterable[Expression]]]:
    """Yield the expressions of conditions and `set` steps, and the rule's condition at each step that it judges."""
    for number, step in enumerate(reading.steps):
        if isinstance(step, ConditionStep | SetStep):
            plain = reading.plain_expressions(number)
            if plain is not None:
                # Another step may ask the same where the two are not known to be one value.
                yield number, (*plain, *(tree for tree in reading.expressions(number) if tree is not None))
    if condition is not None:
        yield from ((number, (condition,)) for number in hits)


def _roots(reading: Reading, node: Compare) -> frozenset[Names]:
    """Return the roots of the references in a comparison."""
    return frozenset(
        (ARGUMENTS,) if name[0] == ARGUMENTS else reading.origins.root(name) for name in references([node])
    )


def _plain(node: Compare) -> tuple[Compare, bool]:
    """Return the comparison that asks the same with `==`, `<`, `in` or `contains`, and whether it is its negation."""
    match node.operator:
        case "==" | "!=":
            left, right = sorted((node.left, node.right), key=repr)
            return replace(node, operator="==", left=left, right=right), node.operator == "!="
        case "not in":
            return replace(node, operator="in"), True
        case "not contains":
            return replace(node, operator="contains"), True
        case ">":
            return replace(node, operator="<", left=node.right, right=node.left), False
        case ">=":
            return replace(node, operator="<"), True
        case "<=":
            return replace(node, operator="<", left=node.right, right=node.left), True
    return node, False
