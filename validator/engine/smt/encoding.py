"""The formula of a plan: one Boolean for each step in the plan and each node, true where a path takes it.

`Encoding.at[BAD]` and the facts of the terms are satisfiable iff the plan has a path to BAD on which every guard holds,
every computed value exists, and texts and arrays have consistent answers (facts.py). An edge is true only if its source
node is, its guards hold there and its computed values exist; a node only if an edge into it is. Each edge has its own
Boolean, because two edges with guards that both hold are two paths, not one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import z3

from stepward.validator.engine.smt.payloads import Term, Truth, Value, never_too_long
from stepward.validator.engine.smt.plans import START, EdgeId, Plan
from stepward.validator.engine.smt.versions import (
    Composed,
    Environment,
    Fields,
    Leaf,
    Made,
    Merge,
    Part,
    Version,
    Versions,
    Written,
)
from stepward.validator.engine.systems.assigned_values import Assigned, possible
from stepward.validator.engine.systems.invariants import Invariants
from stepward.validator.engine.systems.system import (
    FAILS,
    NONE_HOLDS,
    AnyValue,
    Assign,
    Computed,
    Decision,
    Edge,
    Guard,
    Literal,
    System,
    Undefined,
)
from stepward.validator.engine.values.domains import Domain, Names
from stepward.vm.expressions.syntax import (
    Built,
    Constant,
    Expression,
    Reference,
)
from stepward.vm.values import freeze

_UNDEFINED: Final = Made(Value(True, {}))


class Taken(NamedTuple):
    """An edge on a path: its condition, the versions after it, and the versions that its assignments made."""

    when: Term
    after: Environment
    versions: tuple[Version, ...]


class Encoding:
    """Builds the formula of plans over one system; several plans may share the terms."""

    def __init__(
        self, system: System, terms: Versions, assigned: Assigned, may_be_too_long: Callable[[Expression], bool]
    ) -> None:
        self.system = system
        self.terms = terms
        self.assigned = assigned
        self.may_be_too_long = may_be_too_long
        self.at: dict[int, Term] = {}
        self.before: dict[int, Environment] = {}
        self.taken: dict[int, list[tuple[EdgeId, Taken]]] = {}
        self.entered: dict[int, Environment] = {}
        """The versions with which each loop is entered, where nothing is forgotten yet."""
        self.forgotten: dict[int, dict[Names, Leaf]] = {}
        self._decided: dict[tuple[int, Decision, bool], list[tuple[Truth, Term]]] = {}
        """For each tree of a decision its truth, and when no tree up to it held or failed; with an initial entry."""

    def entry(self) -> Environment:
        """Return the versions at the entry: inputs have values of their types, and nothing else is defined."""
        environment: Environment = dict.fromkeys(sorted(self.system.roots), _UNDEFINED)
        for root, source in self.system.inputs:
            environment[root] = self._given(root, AnyValue(source))
        return environment

    def any_of(self, root: Names, node: int) -> Leaf:
        """Return a new version of a root: any value that it can have at a node."""
        assigned, invariants = self.assigned, self.invariants  # the version must not refer to us: see `Functions`

        def domain(fields: Fields) -> Domain:
            domain_of_root = assigned.domain(root, fields)
            return domain_of_root if fields else invariants.narrowed(node, root, domain_of_root)

        return self.terms.leaf(root, domain)

    @cached_property
    def invariants(self) -> Invariants:
        """What holds at the nodes of the system; asked only where something is forgotten."""
        return Invariants(self.system, self.terms.domains, self.assigned)

    def run(self, plan: Plan, start: Environment) -> None:
        """Build the formula of a plan whose paths begin with these versions."""
        for node in plan.order:
            incoming = []
            for edge_id in plan.incoming[node]:
                taken = Taken(True, start, ()) if edge_id == START else self.edge(edge_id)
                if taken.when is not False:
                    incoming.append((edge_id, taken))
            self.taken[node] = incoming
            self._enter(node, incoming, plan.forgotten.get(node, frozenset()))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _enter(self, node: int, incoming: list[tuple[EdgeId, Taken]], forgotten: frozenset[Names]) -> None:
        if not incoming:
            self.at[node] = False
            return
        if len(incoming) > 1 and any(edge_id == START for edge_id, _ in incoming):
            incoming[:] = [
                (edge_id, taken._replace(when=self.terms.boolean("start")) if edge_id == START else taken)
                for edge_id, taken in incoming
            ]
        reached = self.terms.either(*(taken.when for _, taken in incoming))
        self.at[node] = self._called(f"node_{node}", reached, is_new=bool(forgotten))
        environment = self._joined(incoming)
        if forgotten:
            self.entered[node] = environment
            self.forgotten[node] = {root: self.any_of(root, node) for root in sorted(forgotten)}
            environment = {**environment, **self.forgotten[node]}
        self.before[node] = environment

    def _called(self, name: str, term: Term, *, is_new: bool = False) -> Term:
        """Return a variable that implies the term; a new one where a loop begins.

        A way into a loop is then one thing, and a round of it another: what holds in a round says nothing of that way.
        """
        if not is_new and (isinstance(term, bool) or z3.is_const(term)):
            return term
        variable = self.terms.boolean(name)
        self.terms.facts.append(z3.Implies(variable, term))
        return variable

    @staticmethod
    def _joined(incoming: list[tuple[EdgeId, Taken]]) -> Environment:
        first = incoming[0][1].after
        if all(taken.after is first for _, taken in incoming):
            return first
        joined: Environment = {}
        for root, version in first.items():
            parts = [(taken.when, taken.after[root]) for _, taken in incoming]
            joined[root] = version if all(one is version for _, one in parts) else Merge(tuple(parts))
        return joined

    # -- edges -----------------------------------------------------------------------------------------------------

    def edge(self, edge_id: EdgeId) -> Taken:
        """Return the condition of an edge, and the versions after it."""
        source = self.at[edge_id.node]
        if source is False:
            return Taken(False, {}, ())
        edge = self.system.edges[edge_id.node][edge_id.position]
        self.terms.environment = environment = self.before[edge_id.node]
        is_step = edge.compressed.transition is not None
        self.terms.may_be_too_long = self.may_be_too_long if is_step else never_too_long
        conditions = [source, *(self._guard(edge_id.node, guard, is_step=is_step) for guard in edge.guards)]
        if any(condition is False for condition in conditions):
            return Taken(False, {}, ())
        after, versions = self._assigned(edge, environment, conditions)
        if any(condition is False for condition in conditions):
            return Taken(False, {}, ())
        when = self.terms.boolean(f"way_{edge_id.node}_{edge_id.position}")
        needed = self.terms.both(*conditions)
        if needed is not True:
            self.terms.facts.append(z3.Implies(when, needed))
        return Taken(when, after, versions)

    def _guard(self, node: int, guard: Guard, *, is_step: bool) -> Term:
        """Return the condition that a decision has an outcome at a node. `terms.environment` must be that of the
        node.

        A step may fail because a result has too many digits. That is left out where no step asks, but a property: the
        machine starts no step that it can't judge.
        """
        terms, decision = self.terms, guard.decision
        decided = self._decided.setdefault((node, decision, is_step), [(Truth(False, False), True)])
        last = guard.outcome if guard.outcome >= 0 else len(decision.trees) - 1
        for tree in decision.trees[len(decided) - 1 : last + 1]:
            truth = terms.truth(tree)
            open_after = terms.both(decided[-1][1], terms.no(truth.holds), terms.no(truth.fails))
            decided.append((truth, terms.called("open", open_after) if len(decision.trees) > 1 else open_after))
        if guard.outcome == NONE_HOLDS:
            return decided[-1][1]
        if guard.outcome == FAILS:
            steps = pairwise(decided)
            return terms.either(*(terms.both(before, truth.fails) for (_, before), (truth, _) in steps))
        return terms.both(decided[last][1], decided[last + 1][0].holds)

    def _assigned(
        self, edge: Edge, before: Environment, conditions: list[Term]
    ) -> tuple[Environment, tuple[Version, ...]]:
        """Return the environment after an edge, and the versions that it made; add required conditions to
        `conditions`."""
        if not edge.assigns:
            return before, ()
        after = dict(before)
        versions = []
        for assign in edge.assigns:
            self.terms.environment = after
            version = self._value(assign, conditions)
            after[assign.root] = version
            versions.append(version)
        # Primed names end with the edge, and other edges into the node do not have them.
        return {root: after[root] for root in before}, tuple(versions)

    def _value(self, assign: Assign, conditions: list[Term]) -> Version:
        match assign.value:
            case AnyValue(same=names) if names in self.terms.environment:
                return self.terms.environment[names]
            case AnyValue() as given:
                return self._given(assign.root, given)
            case Literal(value=literal) | Computed(tree=Constant(value=literal)):
                return Written(freeze(literal))
            case Computed(tree=Reference(names=names)):
                version, fields = self.terms.version(names)
                conditions.append(self.terms.no(self.terms.component(version, fields).fails))
                return Part(version, fields) if fields else version
            case Computed(tree=Built() as tree):
                value = self.terms.value(tree)
                conditions.append(self.terms.no(value.fails))
                return self._composed(tree)
            case Computed(tree=tree):
                return Made(self._computed(tree, conditions))
            case Undefined():
                return _UNDEFINED

    def _composed(self, tree: Expression) -> Version:
        """Return the version of a built value, or of a part of one, on an edge that is taken only where it exists."""
        match tree:
            case Built(names=names, parts=parts, base=base):
                inner = {
                    name: self.terms.version(part.names) if isinstance(part, Reference) else (self._composed(part), ())
                    for name, part in zip(names, parts, strict=True)
                }
                unchanged = None if base is None else self.terms.version(base.names)
                return Composed(self.terms.value(tree)._replace(fails=False), inner, unchanged)
            case Constant(value=literal):
                return Written(freeze(literal))
        return Made(self.terms.value(tree)._replace(fails=False))

    def _given(self, root: Names, value: AnyValue) -> Leaf:
        domains = self.terms.domains

        def domain(fields: Fields) -> Domain:
            values = possible(domains.given(value.source, fields))
            return replace(values, undefined=True) if value.maybe and not fields else values

        return self.terms.leaf(root, domain)

    def _computed(self, tree: Expression, conditions: list[Term]) -> Value:
        """Return the value of an expression on an edge that is taken only where the value exists."""
        value = self.terms.value(tree)
        conditions.append(self.terms.no(value.fails))
        if len(value.kinds) != 1:
            return value._replace(fails=False)
        ((kind, (_, payload)),) = value.kinds.items()
        if kind == "number" and z3.is_expr(payload):
            payload = self.terms.called("number", payload)
        elif kind == "boolean":
            payload = self.terms.called("truth", payload)
        return Value(False, {kind: (True, payload)})
