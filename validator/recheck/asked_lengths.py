"""The least items of a list, by conditions that ask for its length on every path to the step that goes through it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from stepward.validator.recheck.blocks import ARRAY, UNDEFINED, Block
from stepward.validator.recheck.definite import branch_taken, outcomes
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.flow import Control, Transition
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import Origins
from stepward.vm.expressions.syntax import Expression, FunctionCall, Reference, walk
from stepward.vm.language.steps import AnyStep, ConditionStep


class Program(Protocol):
    """What is known of a program."""

    @property
    def steps(self) -> Sequence[AnyStep]:
        """Its steps, by position."""

    @property
    def control(self) -> Control:
        """The control flow."""

    @property
    def origins(self) -> Origins:
        """What gives references their values."""

    @property
    def assigned(self) -> Sequence[frozenset[Names]]:
        """The names that each step assigns."""

    @property
    def touched(self) -> Sequence[frozenset[Names]]:
        """The names that each step may assign."""

    def expressions(self, number: int) -> tuple[Expression | None, ...]:
        """Return the conditions of a step; None for text that does not parse."""


class AskedLengths:
    """The least lengths of the lists of one program, where conditions ask for them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[tuple[int, Names, int], int] = {}

    def least(self, owner: int, names: Names, most: int) -> int:
        """Return how many items, up to `most`, a list has at least where its step starts; `names` are its reference."""
        if names not in self._measured:
            return 0
        key = (owner, names, most)
        if key not in self._known:
            sizes = range(1, most + 1)
            self._known[key] = next((one - 1 for one in sizes if self._may_be_shorter(owner, names, one)), most)
        return self._known[key]

    @cached_property
    def _measured(self) -> frozenset[Names]:
        """The references of which a condition asks for the length."""
        asked: set[Names] = set()
        for number, step in enumerate(self.program.steps):
            for tree in self.program.expressions(number) if isinstance(step, ConditionStep) else ():
                for node in walk(tree) if tree is not None else ():
                    if isinstance(node, FunctionCall) and isinstance(node.operand, Reference):
                        asked.add(node.operand.names)
        return frozenset(asked)

    def _may_be_shorter(self, owner: int, names: Names, size: int) -> bool:
        """Return whether a path leads to a step on which a list may have fewer than `size` items.

        Such a list may be there at the entry, and behind each step that may assign it, or a part or an owner of it.
        """
        transitions, root = self.program.control.transitions, self.program.origins.root(names)
        starts = {0}
        for number, changed in enumerate(zip(self.program.touched, self.program.assigned, strict=True)):
            if any(one[: len(root)] == root[: len(one)] for group in changed for one in group):
                starts |= {one.to for one in transitions[number]}
        pending, visited = deque(starts), set(starts)
        while pending:
            step = pending.popleft()
            if step == owner:
                return True
            for transition in transitions[step] if step >= 0 else ():
                if transition.to not in visited and self._may_take(step, transition, names, size):
                    visited.add(transition.to)
                    pending.append(transition.to)
        return False

    def _may_take(self, number: int, transition: Transition, names: Names, size: int) -> bool:
        """Return whether a step may be left by a transition while a list has fewer than `size` items."""
        step, written = self.program.steps[number], self.program.expressions(number)
        trees = [tree for tree in written if tree is not None]
        if not isinstance(step, ConditionStep) or transition.kind != "branch" or len(trees) < len(written):
            return True
        read = references(trees)
        if names not in read:
            return True
        origins = self.program.origins
        environment: dict[Names, tuple[Block, ...]] = {one: (UNDEFINED, *origins.of(one).blocks) for one in read}
        environment[names] = (ARRAY._replace(low=-1, high=size),)
        taken = {branch_taken(step, one) for one in outcomes(trees, environment, origins.may_overflow)}
        return (transition.kind, transition.branch) in taken
