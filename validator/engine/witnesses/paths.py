"""From a path of a system to one of the program: every step on it, and the values that lead a run along it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.product import moved
from stepward.validator.engine.systems.building import Builder
from stepward.validator.engine.systems.system import AnyValue, CompressedEdge, Computed, Path
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.states import State
from stepward.validator.engine.witnesses.admitted_values import Items, assembled, completed
from stepward.validator.engine.witnesses.choices import Valueless
from stepward.validator.engine.witnesses.synthesis import Known, Witnesses
from stepward.validator.engine.witnesses.walk import Unsure, Walker
from stepward.validator.engine.witnesses.witness import Does
from stepward.validator.findings import Move
from stepward.vm.expressions.syntax import Reference
from stepward.vm.language.names import Source
from stepward.vm.language.steps import ParallelStep
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

_DOES: Final[Mapping[str, Does]] = {
    "succeeds": "returns",
    "times out": "times out",
    "fails": "fails",
    "unstarted": "fails",
}


class Traced:
    """A path of the program: its moves, and the known values on it."""

    def __init__(self, analyses: Analyses, builder: Builder, path: Path, witnesses: Witnesses) -> None:
        self.facts = analyses.facts
        self.builder = builder
        self.witnesses = witnesses
        self.moves: list[Move] = []
        self._outputs: dict[tuple[int, str], Any] = {}
        self._at: dict[int, dict[str, Any]] = {}
        self._known_of: dict[tuple[int, str], Any] = {}
        self._turns: dict[int, tuple[Does, ...]] = {}
        self._errors: dict[tuple[int, str], str] = {}
        self._items: dict[int, Any] = {}
        self._started_calls: dict[str, Does] = {}
        inputs = dict(self._inputs(path.before))
        self._walker = self._started(inputs)
        for number, step in enumerate(path.steps):
            self._given(step.edge.assigns, step.after)
            if step.edge.compressed.is_within:
                self._begin(step.edge.compressed)
                continue
            if number + 1 < len(path.steps):
                self._follow(step.edge.compressed)
            self._add(step.edge.compressed)
            if number + 1 < len(path.steps):
                self._fill(step.edge.compressed.pairs[1], path.steps[number + 1].edge.compressed.pairs[0])
        self.known = Known(inputs, self._outputs, self._turns, self._errors, self._items, self._started_calls)

    def _started(self, inputs: dict[str, Any]) -> Walker | None:
        """Return a run with the inputs of the path, and the simplest values for the other inputs."""
        known: dict[Names, Any] = {}
        try:
            for source in self.witnesses.inputs:
                known[source.name,] = inputs[source.name] if source.name in inputs else self.witnesses.plain(source)
        except Valueless:
            return None
        return Walker(self.builder, self.witnesses, known)

    def _follow(self, compressed: CompressedEdge) -> None:
        """Let the run take a step of the path, as long as its behaviour is known."""
        position = len(self.moves)
        try:
            if self._walker is not None:
                self._walker.follow(compressed, self._at.get(position, {}))
        except (Unsure, Valueless):
            self._walker = None

    def _begin(self, compressed: CompressedEdge) -> None:
        """Store what a sibling does before the call with which the path ends."""
        for sub, outcome in compressed.call_outcomes:
            assert sub is not None
            self._started_calls[self.facts.flow.steps[compressed.step].sub_steps[sub].id] = _DOES[outcome]

    def _add(self, compressed: CompressedEdge) -> None:
        step = self.facts.flow.steps[compressed.step]
        call_outcomes = dict(compressed.call_outcomes)
        if isinstance(step, ParallelStep) and call_outcomes:
            parts = range(len(step.parallel_steps))
            self._turns[len(self.moves)] = tuple(_DOES[call_outcomes[sub]] for sub in parts)
        for sub, name in compressed.errors:
            part = step if sub is None else step.sub_steps[sub]
            self._errors[len(self.moves), part.id] = name
        error = dict(compressed.errors).get(None, "")
        self.moves.append(moved(self.facts.flow, compressed.step, compressed.transition, error))

    def _fill(self, start: int, goal: int) -> None:
        """Add the steps of a stretch that the slice left out: those of the run or, if these are unknown, the shortest
        path."""
        try:
            if self._walker is not None:
                for step in self._walker.walk(start, goal):
                    self._outputs.update(((len(self.moves), name), value) for name, value in step.outputs.items())
                    self._add(step.compressed)
                return
        except (Unsure, Valueless):
            self._walker = None
        product = self.builder.product
        parents: dict[int, tuple[int, Transition | None]] = {start: (-1, None)}
        pending = deque([start])
        while pending and goal not in parents:
            number = pending.popleft()
            transitions = sorted(
                product.transitions(number), key=lambda pair: pair[1].kind not in ("success", "branch")
            )
            for target, transition in transitions:
                if target >= 0 and target not in parents:
                    parents[target] = (number, transition)
                    pending.append(target)
        between: list[CompressedEdge] = []
        number = goal
        while number != start:
            before, passed = parents[number]
            between.append(CompressedEdge(product.pairs[before][0], passed, (), (before, number)))
            number = before
        for compressed in reversed(between):
            self._add(compressed)

    # -- values ----------------------------------------------------------------------------------------------------

    def _given(self, assigns: tuple[Any, ...], after: State) -> None:
        """Store the outputs of a transition, and the item that starts with it. An output has several names, and each
        may know other fields."""
        position = len(self.moves)
        sources: dict[Names, Source] = {}
        for assign in assigns:
            value = assign.value
            if isinstance(value, AnyValue) and value.source.kind == "item" and assign.root in after:
                self._items[position] = assembled(assign.root, after)
            elif isinstance(value, AnyValue) and value.source.kind in ("index", "errors") and assign.root in after:
                self._outputs[position, ".".join(assign.root)] = assembled(assign.root, after)
            elif isinstance(value, AnyValue) and value.source.kind == "output":
                sources[assign.root] = value.source
            elif isinstance(value, Computed) and isinstance(value.tree, Reference) and value.tree.names in sources:
                sources[assign.root] = sources[value.tree.names]
            if assign.root in sources and assign.root in after:
                self._learn(position, sources[assign.root], assembled(assign.root, after))

    def _learn(self, position: int, source: Source, value: Any) -> None:
        """Store the fields of an output that one name knows. The output of a parallel step is an object of its parts'
        outputs."""
        step = self.facts.flow.steps[source.step] if source.step is not None else None
        if isinstance(step, ParallelStep) and source.sub is None:
            for part in step.parallel_steps:
                if isinstance(value, dict) and part.id in value:
                    self._learn(position, self.facts.meaning.names.outputs[part.id], value[part.id])
            return
        key = (position, source.name)
        self._known_of[key] = _merged(self._known_of.get(key), value)
        whole = completed(self._known_of[key], self.facts.meaning.typing.effective(source))
        self._outputs[key] = self._at.setdefault(position, {})[source.name] = whole

    def _inputs(self, before: State) -> list[tuple[str, Any]]:
        inputs = []
        for root in before:
            resolution = self.facts.meaning.names.meaning(root)
            source = (
                next((one for one in resolution.sources if one.kind == "input"), None)
                if resolution is not None
                else None
            )
            if source is not None and resolution is not None and not resolution.fields:
                inputs.append(
                    (source.name, completed(assembled(root, before), self.facts.meaning.typing.effective(source)))
                )
        return inputs


def _merged(first: Any, second: Any) -> Any:
    """Return the union of the fields and items that two names know of one value."""
    if isinstance(first, Items) and isinstance(second, Items):
        names = first.known | second.known
        known = {name: _merged(first.known.get(name), second.known.get(name, first.known.get(name))) for name in names}
        return Items(second.items, known)
    if isinstance(first, Items) and isinstance(second, tuple):
        return first
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    return first | {name: _merged(first.get(name), value) for name, value in second.items()}
