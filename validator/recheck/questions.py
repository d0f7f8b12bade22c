"""Comparisons that several steps ask: while no variable in one changes, its answer stays the same.

Blocks decide most comparisons. They do not decide `$list contains 'x'`, `$a < $b` or `$a * 2 > 3`: two steps that ask
the same seemed to be free to get two answers. A search therefore remembers each answer beside the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.reading import Reading, compared
from stepward.vm.expressions.syntax import Compare, Constant, Expression, Negation, with_children

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
        in_rule = () if condition is None else [index for number in hits for index in compared(number, condition)]
        every = (*reading.comparisons, *in_rule)
        steps: dict[frozenset[Names], set[int]] = {}
        for step, _, names in every:
            steps.setdefault(names, set()).add(step)
        asking: dict[str, set[int]] = {}
        questions: dict[str, Compare] = {}
        for step, node, names in every:
            # What only one step compares, no other can ask.
            if len(steps[names]) > 1 and (roots := _roots(reading, names)) and (ARGUMENTS,) not in roots:
                question, _ = _plain(node)
                questions.setdefault(repr(question), question)
                asking.setdefault(repr(question), set()).add(step)
        several = [key for key, known in asking.items() if len(known) > 1][:MAX_QUESTIONS]
        self.list = tuple(Question(_roots(reading, references([questions[key]])), questions[key]) for key in several)
        self.of_step: dict[int, list[int]] = {}
        for index, key in enumerate(several):
            for number in asking[key]:
                self.of_step.setdefault(number, []).append(index)
        self._number = {key: number for number, key in enumerate(several)}

    def answered(self, tree: Expression, answers: Mapping[int, int]) -> Expression:
        """Return an expression with its answer in place of each question whose answer is known."""
        if not answers:
            return tree
        if isinstance(tree, Compare):
            question, is_negated = _plain(tree)
            answer = answers.get(self._number.get(repr(question), -1))
            if answer is None:
                return tree
            if answer == FAILS:  # `not 0` has no value, and so fails like the comparison
                return Negation(tree.start, tree.end, Constant(tree.start, tree.end, 0))
            return Constant(tree.start, tree.end, (answer == TRUE) is not is_negated)
        return with_children(tree, lambda child: self.answered(child, answers))


def _roots(reading: Reading, names: Iterable[Names]) -> frozenset[Names]:
    """Return the roots of references."""
    return frozenset((ARGUMENTS,) if name[0] == ARGUMENTS else reading.origins.root(name) for name in names)


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
