"""Fills the stretches between the nodes of a path with the steps of a run and its values.

The slice of a question leaves out everything that the question does not depend on: whatever a run does between one node
and the next, it arrives there. So the branches are free. The walk evaluates conditions as the machine will, with the
simplest values for everything that is not constrained, and follows them. The results of calls are varied only where the
run would loop or end too early. The machine confirms all of it, as for any witness.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.engine.systems.moves import Moves
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import (
    AnyValue,
    Assign,
    CompressedEdge,
    Computed,
    Decision,
    Literal,
    Undefined,
)
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.states import UNDEFINED, within
from stepward.validator.engine.witnesses.replay import ERROR
from stepward.vm.errors import EvaluationError, StepwardError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Reference
from stepward.vm.language.names import Source
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import ConditionStep, ParallelStep
from stepward.vm.values import FrozenMap, freeze

if TYPE_CHECKING:
    from stepward.validator.engine.systems.building import Builder, Product
    from stepward.validator.engine.witnesses.synthesis import Witnesses

MAX_TRIES: Final = 200
"""The most other results of calls that are tried on one stretch."""

MAX_ROUNDS: Final = 100
"""The most rounds of a loop on one stretch."""

MIN_STEPS: Final = 10_000
PATIENCE: Final = 4
"""A walk has MIN_STEPS steps on one stretch, and PATIENCE more for each pair of the product."""


class Unsure(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """The walk can't predict the machine: a value is not known, or no value leads further."""


class Taken(NamedTuple):
    """A step that the run left, and the results of its calls that differ from the simplest ones."""

    compressed: CompressedEdge
    outputs: Mapping[str, Any]


@dataclass(slots=True)
class _Entry:
    """One step of a walk: its pair, its move, how to undo it, and other results of its calls."""

    pair: int
    move: StepMove
    target: int
    outputs: dict[str, Any]
    undo: list[tuple[Names, Any]]
    others: Iterator[dict[str, Any]] | None = None


_UNKNOWN: Final = object()
"""A value that may be undefined, as far as the walk knows."""


class Walker:
    """A run under construction: its values, step after step. `inputs` are the values at its start."""

    def __init__(self, builder: Builder, witnesses: Witnesses, inputs: Mapping[Names, Any]) -> None:
        self.facts, self.analyses = builder.analyses.facts, builder.analyses
        self.moves: Moves = builder.moves
        self.product: Product = builder.product
        self.witnesses = witnesses
        self.env: dict[Names, Any] = dict(inputs)
        self.visits: Counter[int] = Counter()
        self._distances: dict[int, _Distances] = {}

    # -- steps that the path prescribes ----------------------------------------------------------------------------

    def follow(self, compressed: CompressedEdge, outputs: Mapping[str, Any]) -> None:
        """Take a step of the path; `outputs` are the results of its calls. Raises Unsure where a run would not take
        it."""
        for move in self._open(compressed.step):
            if move.transition == compressed.transition and (
                not compressed.call_outcomes
                or (move.call_outcomes, move.errors) == (compressed.call_outcomes, compressed.errors)
            ):
                self._assign(move, outputs)
                self.visits[compressed.step] += 1
                return
        raise Unsure("the run takes another branch")

    # -- stretches between -----------------------------------------------------------------------------------------

    def walk(self, start: int, goal: int) -> list[Taken]:
        """Walk from one pair of the product to another, and return the steps; raises Unsure where that fails."""
        distances = self._distances.setdefault(goal, _Distances(self.product, goal))
        return _Stretch(self, distances, start).to(goal)

    def nearest(self, pair: int, distances: _Distances) -> tuple[int, StepMove] | None:
        """Return the target and the move from a pair that a run can take now and that leads closest to the goal; None
        if there is none."""
        options = list(self._options(pair))
        if len(options) < 2:
            return options[0] if options else None
        return min(
            options,
            key=lambda option: (distances.of(option[0]), option[1].transition.kind not in ("success", "branch")),
        )

    def _options(self, pair: int) -> Iterator[tuple[int, StepMove]]:
        """Yield the moves from a pair that a run can take now, each after the pair to which it leads."""
        product = self.product
        step, state = product.exploration.steps[pair], product.exploration.states[pair]
        for move in self._open(step):
            for after in product.monitor.leave(step, state, move.transition, dict(move.call_outcomes)):
                target = product.exploration.number(move.transition.to, after)
                if target is not None and product.alive[target]:
                    yield target, move

    def _open(self, step: int) -> Iterator[StepMove]:
        """Yield the moves of a step that are possible now and after which the run goes on."""
        most = self.facts.flow.steps[step].max_visits
        is_used_up = most is not None and self.visits[step] >= most
        known: dict[Decision, int] = {}
        for move in self.moves.onward(step):
            if (move.transition.kind == "visits") is not is_used_up:
                continue
            guards = move.guards
            if not guards or all(self._outcome(guard.decision, known) == guard.outcome for guard in guards):
                yield move

    def _outcome(self, decision: Decision, known: dict[Decision, int]) -> int:
        if decision not in known:
            known[decision] = decision.outcome_by(self._value)
        return known[decision]

    def take(self, pair: int, move: StepMove, target: int, outputs: dict[str, Any]) -> _Entry:
        """Leave a step; `outputs` are the results of its calls that differ from the simplest ones."""
        undo = self._assign(move, outputs)
        self.visits[self.product.exploration.steps[pair]] += 1
        return _Entry(pair, move, target, outputs, undo)

    def undo(self, entry: _Entry) -> None:
        """Restore the values before a step."""
        for root, value in reversed(entry.undo):
            if value is UNDEFINED:
                self.env.pop(root, None)
            else:
                self.env[root] = value
        self.visits[self.product.exploration.steps[entry.pair]] -= 1

    # -- values ----------------------------------------------------------------------------------------------------

    def _assign(self, move: StepMove, outputs: Mapping[str, Any]) -> list[tuple[Names, Any]]:
        """Apply the assignments of a step, and return the old values."""
        env, undo = self.env, []
        for assign in move.assigns:
            value = self._assigned(assign, outputs)
            undo.append((assign.root, env.get(assign.root, UNDEFINED)))
            if value is UNDEFINED:
                env.pop(assign.root, None)
            else:
                env[assign.root] = value
        return undo

    def _assigned(self, assign: Assign, outputs: Mapping[str, Any]) -> Any:
        match assign.value:
            case AnyValue(same=names) if names is not None:
                return self.env.get(names, UNDEFINED)
            case AnyValue(source=source, maybe=maybe):
                if maybe:
                    return _UNKNOWN
                if source.kind == "error_name":
                    return _UNKNOWN
                return self._returned(source, outputs) if source.kind == "output" else ERROR
            case Literal(value=value):
                return freeze(value)
            case Undefined():
                return UNDEFINED
            case Computed(tree=Reference(names=names)) if self.env.get(names, _UNKNOWN) is not _UNKNOWN:
                return self.env[names]
            case Computed(tree=tree):
                try:
                    return evaluate(tree, self._value)
                except EvaluationError as error:
                    raise Unsure(str(error)) from None

    def _returned(self, source: Source, outputs: Mapping[str, Any]) -> Any:
        step = self.facts.flow.steps[source.step] if source.step is not None else None
        if isinstance(step, ParallelStep) and source.sub is None:
            outputs_known = {
                own_name(part.id): self.env.get((part.id, "output"), _UNKNOWN) for part in step.parallel_steps
            }
            return _UNKNOWN if _UNKNOWN in outputs_known.values() else FrozenMap(outputs_known)
        return outputs[source.name] if source.name in outputs else self.witnesses.plain(source)

    def _value(self, names: Names) -> Any:
        """Return the value of a reference; raises UndefinedReferenceError where there is none, Unsure if unknown."""
        root = self.moves.domains.root(names)
        value = self.env.get(root, UNDEFINED)
        if value is _UNKNOWN:
            raise Unsure("it is not known whether it has a value")
        value = within(value, names[len(root) :])
        if value is UNDEFINED:
            raise UndefinedReferenceError(written(names))
        return value


class _Stretch:
    """One walk from a pair to another, with its attempts."""

    def __init__(self, walker: Walker, distances: _Distances, start: int) -> None:
        self.walker = walker
        self.distances = distances
        self.pair = start
        self.trail: list[_Entry] = []
        self.visited: dict[Hashable, list[int]] = {}
        """The positions on the trail at which the walk was at each step in each state of the monitor."""
        self.allowed_visits: Counter[Hashable] = Counter()
        """How often it may be there: once more for each round of a loop that can't be left earlier."""
        self.tries = 0
        self.left = MIN_STEPS + PATIENCE * walker.product.exploration.pairs

    def to(self, goal: int) -> list[Taken]:
        """Walk to a pair; raises Unsure."""
        while self.pair != goal:
            self.walker.witnesses.clock.check()
            self.left -= 1
            if self.left < 0:
                raise Unsure("the run takes too many steps")
            key = self._key(self.pair)
            if key not in self.visited:
                self.visited[key], self.tries = [], 0
            positions = self.visited[key]
            if len(positions) > self.allowed_visits[key]:
                if self._back(positions[-1]):
                    continue
                self._allow_round(positions[-1])
            nearest = self.walker.nearest(self.pair, self.distances)
            if nearest is not None:
                positions.append(len(self.trail))
                self._take(nearest[1], nearest[0], {})
            elif not self._back(0):
                raise Unsure("the run ends before")
        return [Taken(self._compressed(entry), entry.outputs) for entry in self.trail]

    def _key(self, pair: int) -> Hashable:
        """Return the key by which two positions of a walk are the same, ignoring counts of visits."""
        exploration = self.walker.product.exploration
        state: Any = exploration.states[pair]
        return exploration.steps[pair], state[0] if exploration.is_counted else state

    def _compressed(self, entry: _Entry) -> CompressedEdge:
        step = self.walker.product.exploration.steps[entry.pair]
        move = entry.move
        pairs = entry.pair, entry.target
        return CompressedEdge(step, move.transition, move.call_outcomes, pairs, errors=move.errors)

    def _take(self, move: StepMove, target: int, outputs: dict[str, Any]) -> None:
        self.trail.append(self.walker.take(self.pair, move, target, outputs))
        self.pair = target

    def _allow_round(self, position: int) -> None:
        """Allow one more round of the loop that begins at a position on the trail."""
        for key in {self._key(entry.pair) for entry in self.trail[position:]}:
            self.allowed_visits[key] = len(self.visited[key])
            if self.allowed_visits[key] > MAX_ROUNDS:
                raise Unsure("the run does not leave a loop")

    def _back(self, first: int) -> bool:
        """Change the result of the last call since a position on the trail; False where there is no other result to
        try."""
        for position in range(len(self.trail) - 1, first - 1, -1):
            entry = self.trail[position]
            if entry.others is None:
                entry.others = self._others(position)
            result = next(entry.others, None)
            if result is None:
                continue
            self.tries += 1
            if self.tries > MAX_TRIES:
                return False
            self._cut(position)
            self.visited[self._key(self.pair)].append(position)
            self._take(entry.move, entry.target, result)
            self.trail[position].others = entry.others
            return True
        return False

    def _cut(self, position: int) -> None:
        """Undo the trail from a position on."""
        while len(self.trail) > position:
            entry = self.trail.pop()
            self.walker.undo(entry)
            self.pair = entry.pair
            self.visited[self._key(self.pair)].pop()

    def _others(self, position: int) -> Iterator[dict[str, Any]]:
        """Yield other results of the calls of a step, for a condition after it on the trail."""
        sources = [
            one.value.source
            for one in self.trail[position].move.assigns
            if isinstance(one.value, AnyValue) and one.value.source.kind == "output" and not one.value.maybe
        ]
        steps = self.walker.product.exploration.steps
        for number in dict.fromkeys(steps[entry.pair] for entry in self.trail[position + 1 :]):
            if isinstance(self.walker.facts.flow.steps[number], ConditionStep):
                for source in sources:
                    yield from ({source.name: value} for value in self.walker.witnesses.varied(source, number))


class _Distances:
    """The distance of each pair to a goal in steps, computed backwards on demand."""

    def __init__(self, product: Product, goal: int) -> None:
        self._before = product.before
        self._alive = product.alive
        self._known = {goal: 0}
        self._pending = deque([goal])

    def of(self, pair: int) -> int:
        """Return the distance of a pair, larger than any other where the goal can't be reached."""
        while pair not in self._known and self._pending:
            number = self._pending.popleft()
            for earlier in self._before[number]:
                if self._alive[earlier] and earlier not in self._known:
                    self._known[earlier] = self._known[number] + 1
                    self._pending.append(earlier)
        return self._known.get(pair, len(self._alive))
