"""From a path of a system to one of the program: every step on the way, and the values that lead a run along it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.product import how
from stepward.validator.engine.building import Builder
from stepward.validator.engine.domains import Names
from stepward.validator.engine.reached import completed
from stepward.validator.engine.states import State
from stepward.validator.engine.synthesis import Known
from stepward.validator.engine.system import Given, Leap, Path
from stepward.validator.engine.witness import Does
from stepward.validator.findings import Move
from stepward.vm.language.flow import Transition
from stepward.vm.language.names import Source
from stepward.vm.language.steps import ParallelStep
from stepward.vm.values import FrozenMap

if TYPE_CHECKING:
    from stepward.validator.analysis.context import Context

_DOES: Final[Mapping[str, Does]] = {
    "succeeds": "returns",
    "times out": "times out",
    "fails": "fails",
    "unstarted": "fails",
}


class Traced:
    """A path of the program: its moves, and what is known of the values on it."""

    def __init__(self, context: Context, builder: Builder, path: Path) -> None:
        self.context = context
        self.builder = builder
        self.moves: list[Move] = []
        self._outputs: dict[tuple[int, str], Any] = {}
        self._turns: dict[int, tuple[Does, ...]] = {}
        self.leaps: list[Leap] = []
        for number, step in enumerate(path.steps):
            self._given(step.edge.assigns, step.after)
            self._add(step.edge.leap)
            if number + 1 < len(path.steps):
                self._fill(step.edge.leap.pairs[1], path.steps[number + 1].edge.leap.pairs[0])
        self.known = Known(dict(self._inputs(path.before)), self._outputs, self._turns)

    def _add(self, leap: Leap) -> None:
        step = self.context.flow.steps[leap.step]
        fates = dict(leap.fates)
        if isinstance(step, ParallelStep) and fates:
            parts = range(len(step.parallel_steps))
            self._turns[len(self.moves)] = tuple(_DOES[fates[sub]] for sub in parts)
        self.moves.append(Move(step.id, how(leap.way) if leap.way is not None else "starts"))
        self.leaps.append(leap)

    def _fill(self, start: int, goal: int) -> None:
        """Add the shortest way through a stretch that the slice left out."""
        product = self.builder.product
        parents: dict[int, tuple[int, Transition | None]] = {start: (-1, None)}
        pending = deque([start])
        while pending and goal not in parents:
            number = pending.popleft()
            ways = sorted(product.ways[number], key=lambda found: found[1].kind not in ("success", "branch"))
            for target, way in ways:
                if target >= 0 and target not in parents and product.alive[target]:
                    parents[target] = (number, way)
                    pending.append(target)
        between: list[Leap] = []
        number = goal
        while number != start:
            before, taken = parents[number]
            between.append(Leap(product.pairs[before][0], taken, (), (before, number)))
            number = before
        for leap in reversed(between):
            self._add(leap)

    # -- values ----------------------------------------------------------------------------------------------------

    def _given(self, assigns: tuple[Any, ...], after: State) -> None:
        place = len(self.moves)
        for one in assigns:
            if isinstance(one.value, Given) and one.value.source.kind == "output" and one.root in after:
                self._outputs[place, one.value.source.name] = self._whole(one.root, after, one.value.source)

    def _inputs(self, before: State) -> list[tuple[str, Any]]:
        found = []
        for root in before:
            meant = self.context.meaning.names.meaning(root)
            source = next((one for one in meant.sources if one.kind == "input"), None) if meant is not None else None
            if source is not None and meant is not None and not meant.fields:
                found.append((source.name, self._whole(root, before, source)))
        return found

    def _whole(self, root: Names, state: State, source: Source) -> Any:
        """Return a value with the fields that the state names, and those that its type demands."""
        return completed(_assembled(root, state), self.context.meaning.typing.effective(source))


def _assembled(name: Names, state: State) -> Any:
    if not isinstance(state[name], FrozenMap):
        return state[name]
    depth = len(name)
    fields = [inner for inner in state if inner[:depth] == name and len(inner) == depth + 1]
    return {inner[depth]: _assembled(inner, state) for inner in fields}
