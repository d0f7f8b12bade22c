"""What `+` of language 2 may join, by everything that a `set` can assign: computed by this checker itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepward.validator.recheck.built import field_at
from stepward.validator.recheck.evaluation import JOINED, result_blocks
from stepward.validator.recheck.inference import KINDS, NOTHING, kind_of
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, children
from stepward.vm.language.steps import ForEachStep, SetStep

MAX_ROUNDS: Final = 50
"""The most rounds over all assignments; without a result after them, every kind is possible."""

MAX_FIELDS: Final = 20
"""The most fields below a name that are told apart: a field that copies a field of itself has no end."""

Kinds = frozenset[str]
Given = Callable[[Source, Names], Kinds]
"""Returns the kinds of a value from outside, or of a field of it."""


class AssignedKinds:
    """The kinds of value of each name of each `set` and `carry`: the least that the assignments allow."""

    def __init__(self, reading: Parsed, given: Given) -> None:
        self._reading = reading
        self._given = given
        self._trees = {
            Source("set", name, number): tree
            for number, step in enumerate(reading.steps)
            if isinstance(step, SetStep | ForEachStep)
            for name, tree in reading.put_by_set(number).items()
        }
        self._kinds: dict[tuple[Source, Names], Kinds] = {(source, ()): NOTHING for source in self._trees}
        self._settle()

    def _settle(self) -> None:
        """Widen the kinds of all names and fields that were asked for, until nothing changes."""
        for _ in range(MAX_ROUNDS):
            kinds = {key: self._written(*key) for key in list(self._kinds)}
            if kinds == self._kinds:
                return
            self._kinds.update(kinds)
        self._kinds = dict.fromkeys(self._kinds, KINDS)

    def of_sum(self, tree: Arithmetic) -> Kinds:
        """Return the possible kinds of the result of a `+`; all kinds that `+` takes if it must fail."""
        known = len(self._kinds)
        kinds = self._of(tree)
        if len(self._kinds) > known:
            self._settle()
            kinds = self._of(tree)
        return kinds or JOINED

    def _of(self, tree: Expression | None) -> Kinds:
        if tree is None:
            return KINDS
        if isinstance(tree, Constant):
            return kind_of(tree.value)
        if isinstance(tree, Reference):
            return self._read(tree.names)
        if isinstance(tree, Arithmetic) and tree.joins:
            return JOINED.intersection(*map(self._of, children(tree)))
        return frozenset(block.kind for block in result_blocks(tree))

    def _read(self, names: Names) -> Kinds:
        resolution = self._reading.lookup.resolve(names)
        if resolution is None:
            return NOTHING
        return NOTHING.union(*(self._at(source, resolution.fields) for source in resolution.sources))

    def _at(self, source: Source, fields: Names) -> Kinds:
        if source.kind != "set":
            return self._given(source, fields)
        if len(fields) > MAX_FIELDS:
            return KINDS
        return self._kinds.setdefault((source, fields), NOTHING)

    def _written(self, source: Source, fields: Names) -> Kinds:
        """Return the kinds of what a `set` writes, or of a field of it, as far as they are known."""
        tree = self._trees[source]
        if not fields:
            return self._of(tree)
        if not isinstance(tree, Built):
            return KINDS
        part, _, is_any = field_at(tree, fields)
        return KINDS if is_any else NOTHING if part is None else self._of(part)
