"""What `+` of language 2 joins: the kinds of its operands, by everything that names can be assigned.

Not by uses: a use that contradicts an assignment is reported (SW203), and decides nothing about what a run does.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from stepward.vm.expressions.fields import is_indexed, part
from stepward.vm.expressions.inside import leaves
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.operators import (
    ANY,
    JOINABLE,
    Kinds,
    kind,
)
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, all_references, children
from stepward.vm.language.clauses import Clause
from stepward.vm.language.name_types import MAX_PATHS, Location, Typing
from stepward.vm.language.names import Names, Resolution
from stepward.vm.values import MAX_DEPTH

_NONE: Final[Kinds] = frozenset()
_ABSENT: Final = object()


class AssignedKinds:
    """The kinds of value of each reference of a program: the least that its assignments allow."""

    def __init__(self, typing: Typing, names: Names, clauses_of: Mapping[int, list[Clause]]) -> None:
        self._typing, self._names, self._clauses_of = typing, names, clauses_of
        self._known: dict[Location, Kinds] = {}

    def of(self, reference: Reference) -> Kinds:
        """Return the kinds of the values that a reference can have; none if nothing ever defines it."""
        return self._union(_locations(self._names.meaning(reference.names)))

    def _union(self, locations: Iterable[Location]) -> Kinds:
        return _NONE.union(*(self._settled(one) for one in locations))

    def _settled(self, location: Location) -> Kinds:
        if location not in self._known:
            self._settle(location)
        return self._known[location]

    def _settle(self, start: Location) -> None:
        """Find the kinds of a location and of all that it is assigned from: their least fixed point."""
        readers: dict[Location, list[Location]] = {}
        found = {start: self._tree(start)}
        paths = Counter([start[0]])
        pending = deque(found)
        while pending:
            here = pending.popleft()
            for read in self._read(here, found[here]):
                readers.setdefault(read, []).append(here)
                if read in found or read in self._known:
                    continue
                paths[read[0]] += 1
                if paths[read[0]] > MAX_PATHS or len(read[1]) > MAX_DEPTH:
                    self._known[read] = ANY
                else:
                    found[read] = self._tree(read)
                    pending.append(read)
        self._known.update(dict.fromkeys(found, _NONE))
        waiting = dict.fromkeys(reversed(found))
        while waiting:
            here = next(iter(waiting))
            del waiting[here]
            kinds = self._assigned(here, found[here])
            if kinds != self._known[here]:
                self._known[here] = kinds
                waiting.update(dict.fromkeys(one for one in readers.get(here, ()) if one in found))

    def _tree(self, location: Location) -> Expression | None:
        """Return the expression that a `set` assigns, a written value as a constant; None for any other location."""
        source = location[0]
        if source.kind != "set" or source.step is None:
            return None
        clause = next((one for one in self._clauses_of.get(source.step, ()) if one.path == source.path), None)
        if clause is not None:
            return clause.tree
        return Constant(0, 0, self._typing.program.layout.steps[source.step].assigns[source.name])

    def _read(self, location: Location, tree: Expression | None) -> list[Location]:
        """Return the locations on which the kinds of a location depend."""
        if isinstance(tree, Reference):
            return _locations(self._names.meaning((*tree.names, *location[1])))
        if isinstance(tree, Built):
            inner = [one.tree for one in leaves(tree, location[1])] if location[1] else []
            return [place for one in inner if one is not None for place in self._read((location[0], ()), one)]
        if isinstance(tree, Arithmetic) and tree.joins and not location[1]:
            return [one for read in all_references(tree) for one in _locations(self._names.meaning(read.names))]
        return []

    def _assigned(self, location: Location, tree: Expression | None) -> Kinds:
        source, fields = location
        match tree:
            case None if source.kind == "set":
                return ANY
            case None:
                view = self._typing.fresh_view(Resolution((source,), fields))
                return _NONE if view.never else view.kinds if view.is_known else ANY
            case Constant(value=value):
                return _kinds_within(value, fields)
            case Reference():
                return self._present(self._read(location, tree))
            case Built() if fields:
                inner = [one.tree for one in leaves(tree, fields) if one.tree is not None and not one.fields]
                return _NONE.union(*(self._assigned((source, ()), one) for one in inner))
            case _:
                if not fields:
                    return self._calculated(tree)
                return ANY if is_indexed(fields) else _NONE  # of a joined array

    def _present(self, locations: Iterable[Location]) -> Kinds:
        return _NONE.union(*(self._known[one] for one in locations))

    def _calculated(self, tree: Expression) -> Kinds:
        if isinstance(tree, Reference):
            return self._present(_locations(self._names.meaning(tree.names)))
        if isinstance(tree, Arithmetic) and tree.joins:
            return JOINABLE.intersection(*map(self._calculated, children(tree)))
        return result_kinds(tree)


def _locations(resolution: Resolution | None) -> list[Location]:
    return [] if resolution is None else [(source, resolution.fields) for source in resolution.sources]


def _kinds_within(value: object, fields: tuple[str, ...]) -> Kinds:
    for name in fields:
        value = part(value, name, _ABSENT)
        if value is _ABSENT:
            return _NONE
    return frozenset({kind(value)})
