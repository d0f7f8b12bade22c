"""The values that a root of a system can ever have: at the entry, and by assignments of edges.

An over-approximation: a root that a loop assigned and a layer forgot has one of these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from stepward.validator.analysis.reachability import reached
from stepward.validator.engine.systems.system import AnyValue, Computed, Literal, System, Undefined, Value
from stepward.validator.engine.values.domains import (
    ANYTHING,
    NOTHING,
    Domain,
    Domains,
    Names,
    Range,
    of_constant,
    of_kinds,
)
from stepward.validator.engine.values.states import UNDEFINED, within
from stepward.vm.expressions.fields import is_indexed
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.operators import FUNCTIONS, NUMBER, kind
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Constant,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    children,
)

MAX_FIELDS: Final = 16
"""The most fields below a root that are distinguished: a loop may read a field of a field without end."""

_ABSENT: Final = Domain(undefined=True)
_UNKNOWN: Final = ANYTHING | _ABSENT

Slot = tuple[Names, tuple[str, ...]]
"""A root and fields below it."""


class Assigned:
    """The domains of the assigned values in one system."""

    def __init__(self, system: System, domains: Domains) -> None:
        self.domains = domains
        self.values: dict[Names, list[Value]] = {root: [Undefined()] for root in sorted(system.roots)}
        self.values.update((root, [AnyValue(source)]) for root, source in system.inputs)
        for edges in system.edges:
            for edge in edges:
                for assign in edge.assigns:
                    self.values.setdefault(assign.root, []).append(assign.value)
        self._known: dict[Slot, Domain] = {}

    def domain(self, root: Names, fields: tuple[str, ...]) -> Domain:
        """Return the values that a field of a root, or the root itself, can have."""
        slot = (root, fields)
        if slot not in self._known:
            self._known[slot] = possible(self._union(slot))
        return self._known[slot]

    def _union(self, slot: Slot) -> Domain:
        domain = NOTHING
        for root, fields in reached([slot], self._copied):
            if root not in self.values or len(fields) > MAX_FIELDS:
                return _UNKNOWN
            for value in self.values[root]:
                domain |= self._of(value, fields)
        return domain

    def _copied(self, slot: Slot) -> Iterator[Slot]:
        """Yield the slots that a value may have been copied from."""
        root, fields = slot
        for value in self.values.get(root, ()) if len(fields) <= MAX_FIELDS else ():
            part = leaf(value.tree, fields).tree if isinstance(value, Computed) else None
            if isinstance(part, Reference):
                yield self._slot(part)

    def _slot(self, reference: Reference, fields: tuple[str, ...] = ()) -> Slot:
        root = self.domains.root(reference.names)
        return root, (*reference.names[len(root) :], *fields)

    def _of(self, value: Value, fields: tuple[str, ...]) -> Domain:
        """Return the values that one assignment gives; none for a copy."""
        match value:
            case AnyValue(source=source, maybe=maybe):
                domain = self.domains.given(source, fields)
                return replace(domain, undefined=domain.undefined or maybe)
            case Literal(value=literal):
                return _of_literal(literal, fields)
            case Computed(tree=Constant(value=literal)):
                return _of_literal(literal, fields)
            case Computed(tree=Reference()):
                return NOTHING
            case Computed(tree=Built() as tree) if fields:
                part = leaf(tree, fields)
                return _ABSENT if part.tree is None else self._of(Computed(part.tree), part.fields)
            case Computed(tree=tree):
                if fields:
                    return _UNKNOWN if is_indexed(fields) else _ABSENT  # an item of a joined array
                kinds = result_kinds(tree)
                kinds_domain = of_kinds(kinds - NUMBER)
                return (
                    kinds_domain
                    if kinds == kinds_domain.kinds
                    else kinds_domain | Domain(ranges=(Range(None, None, self.is_whole(tree)),))
                )
            case Undefined():
                return _ABSENT

    def is_whole(self, tree: Expression) -> bool:
        """Return whether an expression's number is certainly whole, by everything that it is computed from."""
        trees, visited = [tree], set[Slot]()
        while trees:
            match trees.pop():
                case Constant(value=value):
                    if not isinstance(value, int):
                        return False
                case FunctionCall(function=function):
                    if FUNCTIONS[function].asks != "length":
                        return False
                case Arithmetic() | Minus() as node:
                    trees += children(node)
                case Reference() as reference:
                    slot = self._slot(reference)
                    if slot not in visited:
                        visited.add(slot)
                        if not self._is_whole_at(slot, trees):
                            return False
                case _:
                    pass  # fails where a number is required
        return True

    def _is_whole_at(self, slot: Slot, trees: list[Expression]) -> bool:
        """Return whether given and literal values of a slot are whole; computed ones are added to `trees`."""
        root, fields = slot
        if root not in self.values:
            return False
        for value in self.values[root]:
            if isinstance(value, Computed) and isinstance(value.tree, Built):
                part = leaf(value.tree, fields).tree
                trees += [] if part is None else [part]
            elif isinstance(value, Computed) and not (fields and isinstance(value.tree, Reference)):
                trees.append(value.tree)
            elif isinstance(value, Computed) or not all(map(_is_whole, possible(self._of(value, fields)).ranges)):
                return False
        return True


def _of_literal(literal: Any, fields: tuple[str, ...]) -> Domain:
    literal = within(literal, fields)
    if literal is UNDEFINED:
        return _ABSENT
    return of_constant(literal) if kind(literal) != "number" else Domain(ranges=(Range(literal, literal),))


def possible(domain: Domain) -> Domain:
    """Return the domain without empty ranges; a domain without any value becomes undefined.

    Facts about one value must be satisfiable, because the solver gets the facts about all values at once, including
    values that the searched path does not assign.
    """
    ranges = tuple(_tidied(one) for one in domain.ranges if not _is_empty(one))
    result = replace(domain, ranges=ranges)
    return result if result.kinds or result.undefined else replace(result, undefined=True)


def _is_whole(range_: Range) -> bool:
    return range_.integral or (range_.low is not None and range_.low == range_.high and range_.low == int(range_.low))


def _tidied(range_: Range) -> Range:
    return range_._replace(integral=_is_whole(range_))


def _is_empty(range_: Range) -> bool:
    if range_.low is None or range_.high is None:
        return False
    if not range_.integral:
        return range_.low > range_.high
    return -(-range_.low // 1) > range_.high // 1
