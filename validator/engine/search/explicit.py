"""Explicit search: concrete values at every node of a system, where counters and arithmetic leave few of them.

Contract: every state that a path reaches is visited, with one value for each class of a value from outside. If none of
them has an edge to BAD, the property is proved. Expressions are evaluated, so counters are exact. A value from outside
is chosen when it is first read, and forgotten when nothing reads it any more: forty inputs that are each read once make
no more states than one. The first path found is a cheapest one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.systems.copies import assigns, constants, equivalence_groups
from stepward.validator.engine.systems.liveness import Liveness
from stepward.validator.engine.systems.system import (
    BAD,
    ENTRY,
    AnyValue,
    Assign,
    Computed,
    Decision,
    Edge,
    Literal,
    Path,
    Step,
    System,
)
from stepward.validator.engine.values.cuts import Cutting, TooMany, class_values
from stepward.validator.engine.values.domains import Domain, Domains, Names
from stepward.validator.engine.values.states import UNDEFINED, holds, is_required, references_of, value_of, within
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.syntax import Built, Expression, Reference
from stepward.vm.values import Number

LAYER: Final = "explicit search"

MAX_STATES: Final = 20_000
"""The most states of one search."""

MAX_CHOICES: Final = 512
"""The most values of one assignment from outside."""

MAX_REFERENCES: Final = 5_000
"""The most references of one system."""

Block = AnyValue | tuple[Any, ...]
"""The values of all references below one root, UNDEFINED for none; or Given for values that are not chosen yet."""

State = tuple[int, tuple[Block, ...]]
"""A node, and the blocks of the roots that are live there."""

Env = dict[Names, Block]


class TooManyStates(TooMany):
    """A search stops because it has visited too many states."""


class Choices(NamedTuple):
    """The choices for an edge: of values given before it, and of values that it assigns itself."""

    before: Env
    by: Env


class Search:
    """Searches one system; raises TooMany where it has too many states, or references with too many classes.

    Raises OutOfTime at the deadline.
    """

    def __init__(self, system: System, domains: Domains, clock: Clock) -> None:
        self.system = system
        self.domains = domains
        self.clock = clock
        groups = equivalence_groups(system, domains, MAX_REFERENCES)
        self.cutting = Cutting(system.trees, domains, groups, constants(system, domains, groups))
        are_booleans = {isinstance(one, bool) for assign in assigns(system) for one in _within(assign.value)}
        if len(are_booleans) > 1 or any(one.booleans and one.ranges for one in self.cutting.domain.values()):
            raise TooMany  # Python does not distinguish `true` and 1 in a tuple of values
        self.below: dict[Names, tuple[Names, ...]] = {}
        for name in self.cutting.names:
            root = domains.root(name)
            self.below[root] = (*self.below.get(root, ()), name)
        live = Liveness(system, domains).at
        self.live = {node: self._ordered(live[node]) for node in (*range(len(system.edges)), BAD)}
        self.inputs = dict(system.inputs)
        self._choices: dict[AnyValue, dict[Names, tuple[tuple[Any, ...], ...]]] = {}
        self._outcomes: dict[tuple[Decision, tuple[Block, ...]], int] = {}
        self._roots: dict[Decision, tuple[Names, ...]] = {}
        self.reached: dict[State, tuple[State, Edge, Choices] | None] = {}
        """The states that were visited, each with the one before it, the edge and the choices for it."""

    def _ordered(self, live: Iterable[Names]) -> tuple[Names, ...]:
        """Return the roots of live references, in the order of `below`."""
        roots = {self.domains.root(name) for name in live}
        return tuple(root for root in self.below if root in roots)

    def cheapest(self, most: int = MAX_STATES) -> tuple[Path, int] | None:
        """Return a cheapest path to BAD and its cost; None where there is none, which is a proof.

        Raises TooManyStates beyond `most`.
        """
        for cost, state in self.settled():
            if len(self.reached) > most:
                raise TooManyStates
            if state[0] == BAD:
                return self._traced(state), cost
        return None

    def settled(self) -> Iterator[tuple[int, State]]:
        """Yield every state that a path reaches, with the cost of a cheapest one, the cheapest first."""
        first = self._state(ENTRY, {root: self._first(root) for root in self.below})
        queue: list[tuple[int, int, State, Any]] = [(0, 0, first, None)]
        count = 0
        while queue:
            cost, _, state, parent = heapq.heappop(queue)
            if state in self.reached:
                continue
            self.clock.check()
            self.reached[state] = parent
            yield cost, state
            for edge, chosen, target in self.following(state) if state[0] != BAD else ():
                if target not in self.reached:
                    count += 1
                    heapq.heappush(queue, (cost + edge.cost, count, target, (state, edge, chosen)))

    def following(self, state: State) -> Iterator[tuple[Edge, Choices, State]]:
        """Yield the edges that can be taken from a state, with the choices for them and the state after them."""
        env = dict(zip(self.live[state[0]], state[1], strict=True))
        for edge in self.system.edges[state[0]]:
            for chosen, after in self._taken(edge, env):
                yield edge, chosen, self._state(edge.target, after)

    def outcomes_of(self, decision: Decision) -> frozenset[int]:
        """Return the outcomes that a decision had in the states that were visited."""
        return frozenset(outcome for (one, _), outcome in self._outcomes.items() if one is decision)

    def _first(self, root: Names) -> Block:
        return AnyValue(self.inputs[root]) if root in self.inputs else self._nothing(root)

    def _nothing(self, root: Names) -> Block:
        return (UNDEFINED,) * len(self.below[root])

    def _state(self, node: int, env: Env) -> State:
        return node, tuple(env[root] for root in self.live[node])

    # -- one edge --------------------------------------------------------------------------------------------------

    def _taken(self, edge: Edge, env: Env) -> Iterator[tuple[Choices, Env]]:
        """Yield the choices before and by an edge, and the blocks after it."""
        read = dict.fromkeys(root for guard in edge.guards for root in self._roots_of(guard.decision))
        for before, chosen in self._chosen(env, list(read)):
            if all(self._outcome(guard.decision, chosen) == guard.outcome for guard in edge.guards):
                yield from self._assigned(edge.assigns, chosen, Choices(before, {}))

    def _roots_of(self, decision: Decision) -> tuple[Names, ...]:
        if decision not in self._roots:
            self._roots[decision] = tuple({self.domains.root(name): None for name in references_of(decision.trees)})
        return self._roots[decision]

    def _chosen(self, env: Env, roots: list[Names]) -> Iterator[tuple[Env, Env]]:
        """Yield the choices for open roots that are read, and the environment with these choices."""
        open_roots = [root for root in roots if isinstance(env.get(root), AnyValue)]
        if not open_roots:
            yield {}, env
            return
        root = open_roots[0]
        source = env[root]
        assert isinstance(source, AnyValue)
        for block in self.choices_of(root, source):
            for chosen, env_chosen in self._chosen({**env, root: block}, open_roots[1:]):
                yield {root: block, **chosen}, env_chosen

    def _outcome(self, decision: Decision, env: Env) -> int:
        roots = self._roots_of(decision)
        key = (decision, tuple(env[root] for root in roots))
        known = self._outcomes.get(key)
        if known is None:
            known = self._outcomes[key] = decision.outcome(self._values(env, roots))
        return known

    def _values(self, env: Env, roots: Iterable[Names]) -> dict[Names, Any]:
        values: dict[Names, Any] = {}
        for root in roots:
            block = env[root]
            assert not isinstance(block, AnyValue), "what is read was chosen"
            values.update(
                (name, value) for name, value in zip(self.below[root], block, strict=True) if value is not UNDEFINED
            )
        return values

    # -- assignments -----------------------------------------------------------------------------------------------

    def _assigned(self, assigns: tuple[Assign, ...], env: Env, chosen: Choices) -> Iterator[tuple[Choices, Env]]:
        """Yield the environment after assignments, one for each choice of the roots that they read; none where one
        fails."""
        for position, assign in enumerate(assigns):
            if assign.root not in self.below:
                continue
            read = self._open(assign, env)
            if read:
                is_new = any(isinstance(other.value, AnyValue) and other.root in read for other in assigns[:position])
                for chosen_here, env_chosen in self._chosen(env, read):
                    all_chosen = (
                        chosen._replace(by=chosen.by | chosen_here)
                        if is_new
                        else chosen._replace(before=chosen.before | chosen_here)
                    )
                    yield from self._assigned(assigns[position:], env_chosen, all_chosen)
                return
            block = self._block(assign, env)
            if block is None:
                return
            env = {**env, assign.root: block}
        yield chosen, env

    def _open(self, assign: Assign, env: Env) -> list[Names]:
        """Return the open roots that an assignment reads."""
        if not isinstance(assign.value, Computed):
            return []
        roots = dict.fromkeys(self.domains.root(name) for name in references_of([assign.value.tree]))
        return [root for root in roots if isinstance(env.get(root), AnyValue)]

    def _block(self, assign: Assign, env: Env) -> Block | None:
        names, value = self.below[assign.root], assign.value
        match value:
            case AnyValue():
                return value
            case Literal(value=constant):
                return tuple(within(constant, name[len(assign.root) :]) for name in names)
            case Computed(tree=Reference(names=origin)):
                return self._copied(assign.root, origin, env)
            case Computed(tree=Built() as tree):
                parts = [self._part(tree, name[len(assign.root) :], env) for name in names]
                return None if self._evaluated(tree, env) is UNDEFINED else tuple(parts)
            case Computed(tree=tree):
                result = self._evaluated(tree, env)
                return (
                    None if result is UNDEFINED else tuple(within(result, name[len(assign.root) :]) for name in names)
                )
        return self._nothing(assign.root)

    def _copied(self, root: Names, origin: Names, env: Env) -> Block | None:
        source = self.domains.root(origin)
        block = env.get(source)
        if block is None:
            return self._nothing(root)  # nothing reads the copied references
        assert not isinstance(block, AnyValue), "what is read was chosen"
        values = dict(zip(self.below[source], block, strict=True))
        if values.get(origin) is UNDEFINED:
            return None
        return tuple(values.get((*origin, *name[len(root) :]), UNDEFINED) for name in self.below[root])

    def _part(self, tree: Built, fields: tuple[str, ...], env: Env) -> Any:
        """Return the value of a field of a built value: a value that was copied has fields that are no part of it."""
        part, below, _ = leaf(tree, fields)
        if part is None:
            return UNDEFINED
        if not isinstance(part, Reference):
            result = self._evaluated(part, env)
            return UNDEFINED if result is UNDEFINED else within(result, below)
        root = self.domains.root(part.names)
        block = env.get(root)
        assert not isinstance(block, AnyValue), "what is read was chosen"
        return (
            UNDEFINED if block is None else dict(zip(self.below[root], block, strict=True)).get(part.names, UNDEFINED)
        )

    def _evaluated(self, tree: Expression, env: Env) -> Any:
        names = references_of([tree])
        if any(self.domains.root(name) not in env for name in names):
            return UNDEFINED
        return value_of(tree, self._values(env, {self.domains.root(name) for name in names}))

    # -- what comes from outside -----------------------------------------------------------------------------------

    def choices_of(self, root: Names, source: AnyValue) -> tuple[tuple[Any, ...], ...]:
        """Return the combinations of values below a root that a source may give."""
        known = self._choices.setdefault(source, {})
        if root not in known:
            known[root] = tuple(self._combined(root, source))
        return known[root]

    def _combined(self, root: Names, source: AnyValue) -> Iterator[tuple[Any, ...]]:
        """Yield combinations of values below a root: fields have values only where their owner is an object, items only
        where it is an array that is long enough."""
        combinations: list[dict[Names, Any]] = [{}]
        for name in self.below[root]:
            domain: Domain = self.domains.given(source.source, name[len(root) :])
            values = class_values(domain, self.cutting.cuts[name])
            values += [] if is_required(name, domain) else [UNDEFINED]
            owner = self.domains.parent(name)
            combinations = [
                {**known, name: value}
                for known in combinations
                for value in (values if owner is None or holds(known[owner], name[-1]) else [UNDEFINED])
            ]
            if len(combinations) > MAX_CHOICES:
                raise TooMany
        yield from (tuple(known.values()) for known in combinations)
        if source.maybe:
            yield (UNDEFINED,) * len(self.below[root])

    # -- the path --------------------------------------------------------------------------------------------------

    def _traced(self, state: State) -> Path:
        """Return the path to a state, with delayed choices moved to where the value was given."""
        back: list[tuple[State, Edge, Choices]] = []
        parent = self.reached[state]
        while parent is not None:
            back.append(parent)
            parent = self.reached[parent[0]]
        edges = back[::-1]
        env: Env = {root: self._first(root) for root in self.below}
        known: list[Env] = [env]
        since = dict.fromkeys(self.below, 0)
        for position, (_, edge, chosen) in enumerate(edges, start=1):
            for root, block in chosen.before.items():
                for earlier in known[since[root] : position]:
                    earlier[root] = block
            env = next(
                after
                for made, after in self._assigned(edge.assigns, known[-1], Choices({}, {}))
                if made.by == chosen.by
            )
            known.append(dict(env))
            since.update((one.root, position) for one in edge.assigns if one.root in since)
        states = [
            self._values(one, [root for root, block in one.items() if not isinstance(block, AnyValue)]) for one in known
        ]
        steps = (Step(before[0], edge, after) for (before, edge, _), after in zip(edges, states[1:], strict=True))
        return Path(LAYER, states[0], tuple(steps))


def _within(value: Any) -> Iterator[bool | Number]:
    """Yield the numbers and booleans in a list or an object that is assigned as a literal."""
    pending = [value.value] if isinstance(value, Literal) and isinstance(value.value, tuple | dict) else []
    for item in pending:  # the list grows during the loop
        if isinstance(item, bool | int | Decimal):
            yield item
        elif isinstance(item, tuple | dict):
            pending += item.values() if isinstance(item, dict) else item
