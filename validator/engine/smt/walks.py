"""From a model of a plan's formula to a path: its edges, and the values along them.

Only the solver's values from outside are used: the machine's evaluator follows the path edge by edge, and rejects it
where a guard does not hold or a computed value does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import z3

from stepward.validator.engine.smt.encoding import Encoding, Taken
from stepward.validator.engine.smt.models import state_of
from stepward.validator.engine.smt.plans import START, EdgeId
from stepward.validator.engine.smt.versions import Fields, Leaf, Version, Versions
from stepward.validator.engine.systems.system import (
    BAD,
    AnyValue,
    Computed,
    Edge,
    Literal,
    Path,
    Step,
)
from stepward.validator.engine.values.domains import Domain, Domains, Names
from stepward.validator.engine.values.states import UNDEFINED, State, holds, value_of, with_owners, within
from stepward.vm.expressions.fields import part
from stepward.vm.expressions.syntax import Built, Expression, Reference
from stepward.vm.values import FrozenMap, freeze


class Walk:
    """The edges that a model takes, from the entry to BAD."""

    def __init__(self, encoding: Encoding, model: Any) -> None:
        self.encoding = encoding
        self.edges: list[tuple[int, EdgeId, Taken]] = []
        """Each edge with the node that it enters; that is not its target if a plan redirects the edge."""
        node = BAD
        while not self.edges or self.edges[-1][1] != START:
            edge_id, taken = next(one for one in encoding.taken[node] if _is_true(model, one[1].when))
            self.edges.append((node, edge_id, taken))
            node = edge_id.node
        self.edges.reverse()

    def choices(self) -> list[Any]:
        """Return the variables of the edges that are taken."""
        return [taken.when for _, _, taken in self.edges if taken.when is not True]

    def leaves(self) -> Iterator[Leaf]:
        """Yield the versions on the path whose values come from the model."""
        start = self.edges[0][2].after
        yield from (version for version in start.values() if isinstance(version, Leaf))
        for node, _, taken in self.edges:
            yield from (version for version in taken.versions if isinstance(version, Leaf))
            yield from self.encoding.forgotten.get(node, {}).values()

    def terms(self) -> Versions:
        """Return the terms with the slots of this walk only."""
        narrow = copy(self.encoding.terms)
        narrow.slots = {key: narrow.slots[key] for leaf in self.leaves() for key in leaf.keys}
        return narrow

    def path(self, model: Any, layer: str, shown: Iterable[Names]) -> Path | None:
        """Return the path with the values of the references `shown`.

        None where no values consistent with the model take it.
        """
        state = state_of(model, self.terms())
        if state is None:
            return None
        try:
            return _Walker(self, state, shown).path(layer)
        except _Astray:
            return None


class _Astray(Exception):  # noqa: N818 - never seen outside this file
    """A guard does not hold."""


class _PathValue(NamedTuple):
    """The value of a version on one path; for a value from outside, the fields that the model has."""

    leaf: Leaf | None
    model_state: Mapping[Names, Any]
    value: Any = None
    prefix: Fields = ()
    parts: Mapping[str, _PathValue] | None = None
    base: _PathValue | None = None

    def below(self, fields: Fields) -> _PathValue:
        """Return the value of a field as an object of this class."""
        return self._replace(prefix=(*self.prefix, *fields))

    def get(self, fields: Fields) -> Any:
        """Return the value of a field, or UNDEFINED; where the model has none, the simplest value of its domain."""
        fields = (*self.prefix, *fields)
        if self.parts is not None and fields:
            if fields[0] in self.parts:
                return self.parts[fields[0]].get(fields[1:])
            return UNDEFINED if self.base is None else self.base.get(fields)
        if self.leaf is None:
            return within(self.value, fields)
        value: Any = None
        for size in range(len(fields) + 1):
            key = (*self.leaf.key, *fields[:size])
            if key in self.model_state:
                value = self.model_state[key]
            elif key in self.leaf.keys:
                return UNDEFINED
            elif isinstance(value, tuple):
                value = part(value, fields[size - 1], UNDEFINED)
            else:
                value = simple(self.leaf.domain(fields[:size]))
            if size < len(fields) and not holds(value, fields[size]):
                return UNDEFINED
        return value


class _Walker:
    """Follows one walk with values."""

    def __init__(self, walk: Walk, model_state: State, shown: Iterable[Names]) -> None:
        self.walk = walk
        self.model_state = model_state
        self.domains: Domains = walk.encoding.terms.domains
        self.names = with_owners(shown, self.domains)
        self.root_of = {name: self.domains.root(name) for name in self.names}
        self.values: dict[Names, _PathValue] = {}
        self.state: dict[Names, Any] = {}
        self.roots = walk.encoding.system.roots

    def path(self, layer: str) -> Path:
        """Return the path; raises _Astray where it can't be taken."""
        first, _, start = self.walk.edges[0]
        for root, version in start.after.items():
            self._bind(root, version)
        self._forget(first)
        before = dict(self.state)
        steps = []
        for (_, _, _), (node, edge_id, taken) in pairwise(self.walk.edges):
            edge = self.walk.encoding.system.edges[edge_id.node][edge_id.position]
            self._take(edge, taken.versions)
            self._forget(node)
            steps.append(Step(edge_id.node, edge, dict(self.state)))
        return Path(layer, before, tuple(steps))

    def _forget(self, node: int) -> None:
        for root, leaf in self.walk.encoding.forgotten.get(node, {}).items():
            self._bind(root, leaf)

    def _take(self, edge: Edge, versions: Iterable[Version]) -> None:
        if any(guard.decision.outcome(self.state) != guard.outcome for guard in edge.guards):
            raise _Astray
        for assign, version in zip(edge.assigns, versions, strict=True):
            match assign.value:
                case AnyValue(same=names) if names in self.roots:
                    self._store(assign.root, self.values.get(names))
                case AnyValue():
                    self._bind(assign.root, version)
                case Literal(value=literal):
                    self._store(assign.root, _PathValue(None, {}, freeze(literal)))
                case Computed(tree=tree):
                    self._store(assign.root, self._computed(tree))
                case _:
                    self._store(assign.root, None)

    def _computed(self, tree: Expression) -> _PathValue:
        """Return the value of an expression; raises _Astray where it has none."""
        if isinstance(tree, Reference):
            root = self.domains.root(tree.names)
            value = (
                self.values[root].below(tree.names[len(root) :])
                if root in self.values
                else _PathValue(None, {}, UNDEFINED)
            )
        elif isinstance(tree, Built):
            base = None if tree.base is None else self._computed(tree.base)
            if base is not None and not isinstance(base.get(()), dict):
                raise _Astray
            parts = {name: self._computed(part) for name, part in zip(tree.names, tree.parts, strict=True)}
            values = {name: part.get(()) for name, part in parts.items()}
            value = _PathValue(
                None, {}, tuple(values.values()) if tree.is_list else FrozenMap(values), parts=parts, base=base
            )
        else:
            value = _PathValue(None, {}, value_of(tree, self.state))
        if value.get(()) is UNDEFINED:
            raise _Astray
        return value

    def _bind(self, root: Names, version: Version) -> None:
        self._store(root, _PathValue(version, self.model_state) if isinstance(version, Leaf) else None)

    def _store(self, root: Names, path_value: _PathValue | None) -> None:
        if path_value is None:
            self.values.pop(root, None)
        else:
            self.values[root] = path_value
        for name, own_root in self.root_of.items():
            if own_root == root:
                field = path_value.get(name[len(root) :]) if path_value is not None else UNDEFINED
                if field is UNDEFINED:
                    self.state.pop(name, None)
                else:
                    self.state[name] = field


def simple(domain: Domain) -> Any:
    """Return a simple value of a domain, or UNDEFINED where it has none or where none is needed."""
    bounds = [bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None]
    wholes = [int(bound) + step for bound in bounds for step in (0, 1, -1)]
    options = (True, False, 0, *bounds, *wholes, *domain.examples, "text", "", (), FrozenMap(), None)
    if domain.undefined:
        return UNDEFINED
    return next((value for value in options if domain.allows(value)), UNDEFINED)


def _is_true(model: Any, term: Any) -> bool:
    return term is True or z3.is_true(model.eval(term, True))
