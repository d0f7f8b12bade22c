"""Systems: the transition systems that the layers of the engine search. Edges have guards and assign variables.

A system describes all runs of a program with the monitor of one property. Its question is always the same: is there a
path from the entry to `BAD` on which every guard holds? A system may have more paths than the program has runs, never
fewer: without such a path the property is proved. A path is only a candidate, which the machine confirms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.states import State, lookup_in, references_of
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import Lookup, evaluate_condition
from stepward.vm.expressions.syntax import Expression, Reference
from stepward.vm.language.names import Source
from stepward.vm.language.transitions import Transition
from stepward.vm.language.types import same

if TYPE_CHECKING:
    import networkx

BAD: Final = -1
"""The target of an edge that breaks the property."""

ENTRY: Final = 0
"""The node at which every path starts. Inputs have any values of their types there; nothing else is defined."""

NONE_HOLDS: Final = -1
"""The outcome of a decision in which every expression is false."""

FAILS: Final = -2
"""The outcome of a decision in which an expression fails before one holds."""


HOLDS_OR_FAILS: Final = (0, FAILS)
"""The outcomes of a `when` in which a `never` rule is broken."""

DOES_NOT_HOLD: Final = (NONE_HOLDS, FAILS)
"""The outcomes of a condition on arguments in which an allow-list refuses a call."""


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """Boolean expressions that are evaluated in order until one holds or fails. Objects are compared by identity.

    Its outcome is the position of the expression that holds, NONE_HOLDS or FAILS.
    """

    trees: tuple[Expression, ...]

    def outcome(self, state: State) -> int:
        """Return the outcome in a state."""
        return self.outcome_by(lookup_in(state))

    def outcome_by(self, lookup: Lookup) -> int:
        """Return the outcome for the values that `lookup` returns; it may raise EvaluationError."""
        for number, tree in enumerate(self.trees):
            try:
                if evaluate_condition(tree, lookup):
                    return number
            except EvaluationError:
                return FAILS
        return NONE_HOLDS


class Guard(NamedTuple):
    """An edge can be taken only in states in which the decision has this outcome."""

    decision: Decision
    outcome: int


class AnyValue(NamedTuple):
    """Any value of the type of an input, an output or an error; `maybe` says that it may also be undefined.

    `same` is the root that has just this value, or is undefined as well. A layer may ignore that.
    """

    source: Source
    maybe: bool = False
    same: Names | None = None


class Literal(NamedTuple):
    """One value. Unlike in Python, `1` and `true` differ."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and same(self.value, other.value)

    def __ne__(self, other: object) -> bool:  # otherwise the one of tuples would be used
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)


class Computed(NamedTuple):
    """The value of an expression in the state before; a plain reference copies its fields along.

    Where the expression fails the edge can't be taken; a layer may ignore that. Two are equal if they copy the same
    reference, or have the same tree object: Python does not distinguish trees that differ only in `1` and `true`.
    """

    tree: Expression

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Computed):
            return False
        mine, theirs = self.tree, other.tree
        if isinstance(mine, Reference) and isinstance(theirs, Reference):
            return mine.names == theirs.names
        return mine is theirs

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.tree.names) if isinstance(self.tree, Reference) else id(self.tree)


class Undefined(NamedTuple):
    """No value."""


Value = AnyValue | Literal | Computed | Undefined


class Assign(NamedTuple):
    """A root (a variable, an output or an error) and its new value; all of its fields change, too."""

    root: Names
    value: Value


class CompressedEdge(NamedTuple):
    """What an edge stands for in the program: a step that is left, and how.

    `call_outcomes` are those of the step's call, under None, or of its sub-steps by position; empty where not known.
    `pairs` are the numbers of the pairs of step and monitor state that the edge leaves and leads to; -1 is none.
    `errors` are the names of the errors of the calls that failed, where they are known. Within a step, an edge stands
    for a sub-step that has come to its end: such an edge leads to the pair that it leaves.
    """

    step: int
    transition: Transition | None
    call_outcomes: tuple[tuple[int | None, CallOutcome], ...]
    pairs: tuple[int, int]
    kind: str = ""
    errors: tuple[tuple[int | None, str], ...] = ()

    @property
    def is_within(self) -> bool:
        """Whether the edge stays within its step."""
        return self.transition is None and not self.kind


class Edge(NamedTuple):
    """An edge to a node, or to BAD. Guards read the state before; assignments are applied in order."""

    target: int
    guards: tuple[Guard, ...]
    assigns: tuple[Assign, ...]
    cost: int
    compressed: CompressedEdge


@dataclass(frozen=True)
class System:
    """Nodes by number, each with the edges that leave it.

    `roots` are the tracked roots; `inputs` are those that are defined at the entry, each with its source.
    """

    edges: tuple[tuple[Edge, ...], ...]
    roots: frozenset[Names]
    inputs: tuple[tuple[Names, Source], ...]

    @cached_property
    def digraph(self) -> networkx.DiGraph[int]:
        """The graph for NetworkX."""
        import networkx

        graph: networkx.DiGraph[int] = networkx.DiGraph()
        graph.add_nodes_from((ENTRY, BAD))
        graph.add_edges_from((node, edge.target) for node, edges in enumerate(self.edges) for edge in edges)
        return graph

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision that guards an edge, once."""
        return tuple(dict.fromkeys(guard.decision for edges in self.edges for edge in edges for guard in edge.guards))

    @cached_property
    def trees(self) -> tuple[Expression, ...]:
        """Every expression that is read: in decisions and in assignments."""
        computed = (
            assign.value.tree
            for edges in self.edges
            for edge in edges
            for assign in edge.assigns
            if isinstance(assign.value, Computed)
        )
        known = {id(tree): tree for tree in (*(one for each in self.decisions for one in each.trees), *computed)}
        return tuple(known.values())

    @cached_property
    def references(self) -> tuple[Names, ...]:
        """Every reference that a tree reads or tests."""
        return tuple(references_of(self.trees))


class Step(NamedTuple):
    """One edge of a path, its source node, and the values of defined references after it."""

    node: int
    edge: Edge
    after: State


class Path(NamedTuple):
    """A path from the entry to BAD, and the values at its start; `layer` is the layer that found it."""

    layer: str
    before: State
    steps: tuple[Step, ...]


def has_cycle(system: System) -> bool:
    """Return whether the edges form a cycle."""
    import networkx as nx

    return not nx.is_directed_acyclic_graph(system.digraph)
