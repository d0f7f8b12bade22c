"""Explicit search: concrete values at every node of a system, where counting and arithmetic leave few of them.

Contract: every state that a path reaches is visited, with one value for each class of what comes from outside; no edge
to BAD among them is a proof. What an expression calculates is calculated, so that counters count. The first path found
is a cheapest one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from stepward.validator.engine.copies import alike, constants
from stepward.validator.engine.cuts import UNDEFINED, Cutting, TooMany, class_values
from stepward.validator.engine.domains import Domains, Names
from stepward.validator.engine.states import State, outcome, references_of, with_owners
from stepward.validator.engine.system import (
    BAD,
    ENTRY,
    FAILS,
    NONE_HOLDS,
    Assign,
    Computed,
    Decision,
    Edge,
    Given,
    Literal,
    Path,
    Step,
    System,
)
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.syntax import Expression, Reference

LAYER: Final = "explicit search"

MAX_STATES: Final = 20_000
"""States that one search may visit."""

MAX_CHOICES: Final = 512
"""Values that one assignment from outside may give."""

Values = tuple[Any, ...]
"""The values of all references, in the order of their names; UNDEFINED where there is none."""


class Search:
    """Searches one system; TooMany is raised where it has too many states, or references of too many classes."""

    def __init__(self, system: System, domains: Domains) -> None:
        self.system = system
        self.domains = domains
        groups = alike(system, domains)
        self.cutting = Cutting(system.trees, domains, groups, constants(system, domains, groups))
        self.names = tuple(self.cutting.names)
        if any(one.booleans and one.ranges for one in self.cutting.domain.values()):
            raise TooMany  # in a tuple of values, `true` and 1 are the same
        self.slot = {name: number for number, name in enumerate(self.names)}
        self.below: dict[Names, list[Names]] = {}
        for name in self.names:
            self.below.setdefault(domains.root(name), []).append(name)
        self._choices: dict[Assign, tuple[dict[Names, Any], ...]] = {}
        self._outcomes: dict[tuple[Decision, Values], int] = {}
        self._reads = {one: self._slots_of(one) for one in system.decisions}
        self.visited = 0

    def _slots_of(self, decision: Decision) -> tuple[int, ...]:
        return tuple(self.slot[name] for name in with_owners(references_of(decision.trees), self.domains))

    def cheapest(self) -> tuple[Path, int] | None:
        """Return a cheapest path to BAD and what it costs; None where there is none, which is a proof."""
        parents: dict[tuple[int, Values], tuple[tuple[int, Values], Edge] | None] = {}
        queue: list[tuple[int, int, tuple[int, Values], Any]] = []
        count = 0
        for values in self._first():
            queue.append((0, count, (ENTRY, values), None))
            count += 1
        while queue:
            cost, _, state, parent = heapq.heappop(queue)
            if state in parents:
                continue
            parents[state] = parent
            self.visited += 1
            if self.visited > MAX_STATES:
                raise TooMany
            node, values = state
            if node == BAD:
                return self._traced(state, parents), cost
            for edge in self.system.edges[node]:
                if not self._is_open(edge, values):
                    continue
                for after in self._assigned(edge.assigns, values):
                    if edge.target == BAD or (edge.target, after) not in parents:
                        heapq.heappush(queue, (cost + edge.cost, count, (edge.target, after), (state, edge)))
                        count += 1
        return None

    def outcomes_of(self, decision: Decision) -> frozenset[int]:
        """Return the outcomes that a decision had in the states that were visited."""
        return frozenset(outcome for (one, _), outcome in self._outcomes.items() if one is decision)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _is_open(self, edge: Edge, values: Values) -> bool:
        return all(self._outcome(guard.decision, values) == guard.outcome for guard in edge.guards)

    def _outcome(self, decision: Decision, values: Values) -> int:
        key = (decision, tuple(values[slot] for slot in self._reads[decision]))
        known = self._outcomes.get(key)
        if known is None:
            known, state = NONE_HOLDS, self._state(values)
            for number, tree in enumerate(decision.trees):
                holds = outcome(tree, state)
                if holds is not False:
                    known = FAILS if holds is None else number
                    break
            self._outcomes[key] = known
        return known

    def _state(self, values: Values) -> State:
        return {name: value for name, value in zip(self.names, values, strict=True) if value is not UNDEFINED}

    def _assigned(self, assigns: tuple[Assign, ...], values: Values) -> Iterator[Values]:
        """Yield the values after assignments that are made one after the other."""
        if not assigns:
            yield values
            return
        for changed in self._changes(assigns[0], values):
            after = list(values)
            for name, value in changed.items():
                after[self.slot[name]] = value
            yield from self._assigned(assigns[1:], tuple(after))

    def _changes(self, assign: Assign, values: Values) -> tuple[dict[Names, Any], ...]:
        names = self.below.get(assign.root, [])
        if not names:
            return ({},)
        if isinstance(assign.value, Computed):
            return self._computed(names, assign.root, assign.value.tree, values)
        if assign not in self._choices:
            self._choices[assign] = tuple(self._given(names, assign))
        return self._choices[assign]

    def _computed(
        self, names: list[Names], root: Names, tree: Expression, values: Values
    ) -> tuple[dict[Names, Any], ...]:
        if isinstance(tree, Reference):
            moved = {name: values[self.slot[*tree.names, *name[len(root) :]]] for name in names}
            return () if moved.get(root) is UNDEFINED else (moved,)
        state = self._state(values)

        def lookup(reference: Names) -> Any:
            if reference not in state:
                raise UndefinedReferenceError(".".join(reference))
            return state[reference]

        try:
            value = evaluate(tree, lookup)
        except EvaluationError:
            return ()
        return ({name: value if name == root else UNDEFINED for name in names},)

    def _given(self, names: list[Names], assign: Assign) -> Iterator[dict[Names, Any]]:
        match assign.value:
            case Literal(value=value):
                yield {name: _field(value, name[len(assign.root) :]) for name in names}
            case Given(source=source, maybe=maybe):
                domains = {name: self.domains.given(source, name[len(assign.root) :]) for name in names}
                yield from self._combined(names, domains)
                if maybe:
                    yield dict.fromkeys(names, UNDEFINED)
            case _:
                yield dict.fromkeys(names, UNDEFINED)

    def _combined(self, names: list[Names], domains: dict[Names, Any]) -> Iterator[dict[Names, Any]]:
        """Yield the values that references below one name have together: fields only where there is an object."""
        found: list[dict[Names, Any]] = [{}]
        for name in names:
            own = class_values(domains[name], self.cutting.cuts[name])
            if domains[name].undefined:
                own.append(UNDEFINED)
            owner = self.domains.parent(name)
            found = [
                {**known, name: value}
                for known in found
                for value in (own if owner is None or isinstance(known[owner], dict) else [UNDEFINED])
            ]
            if len(found) > MAX_CHOICES:
                raise TooMany
        yield from found

    def _first(self) -> Iterator[Values]:
        inputs = dict(self.system.inputs)
        choices = []
        for root, names in self.below.items():
            known = Assign(root, Given(inputs[root])) if root in inputs else None
            choices.append(list(self._given(names, known)) if known else [dict.fromkeys(names, UNDEFINED)])
        for chosen in product(*choices):
            values = {name: value for one in chosen for name, value in one.items()}
            yield tuple(values[name] for name in self.names)

    # -- the path --------------------------------------------------------------------------------------------------

    def _traced(self, state: tuple[int, Values], parents: dict[tuple[int, Values], Any]) -> Path:
        steps = []
        while parents[state] is not None:
            before, edge = parents[state]
            steps.append(Step(before[0], edge, self._state(state[1])))
            state = before
        return Path(LAYER, self._state(state[1]), tuple(reversed(steps)))


def _field(value: Any, fields: tuple[str, ...]) -> Any:
    for name in fields:
        value = value[name] if isinstance(value, dict) and name in value else UNDEFINED
    return value
