"""Static bounds: the most that one run can do, in steps, model calls and calls of each tool.

Counted is what the machine counts (specs/language.md, "Control flow" 9 and 10, "Failure" 7): `max_visits` bounds how
often a step starts, each visit may use up its attempts, and `max_steps` caps every count. A condition is taken to go
either way whatever it says, and a call to come back in any way that control flow has for it. Then

- the counts are exact, that is, some such run attains them, in programs without loops and where each loop is cut by
  one step with `max_visits`;
- they are upper bounds where several steps of a loop have `max_visits`, where `max_steps` caps them, and for tools that
  are called at so many places that _PASSES are used up.

Not counted is what comes from outside the program: each reconciliation as *not done* may add one attempt, and a call
that recovery makes again after a crash is the same attempt. Token budgets, `max_stalled_steps`, guardrails and the
machine's own limit only end runs sooner.

Linear in the program, but for the tools: one pass for each that is called at several places, up to _PASSES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.components import components_among
from stepward.vm.language.steps import Call, Failing, LlmCall, ParallelStep, ToolCall

if TYPE_CHECKING:
    from stepward.validator.analysis.context import Context

_NEVER: Final = -1
"""There is no path."""

_PASSES: Final = 20
"""Passes over the whole program that tools may cost; those that come then are bounded place by place."""

_TRIED: Final = 4
"""Steps of a loop that are tried as the only one that cuts it, those with the fewest visits first."""


@dataclass(frozen=True, slots=True)
class Most:
    """The largest number of something in one run; None when nothing bounds it, for `loop`, a list of ids, can go on."""

    count: int | None
    loop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolBounds:
    """How often a run can call a tool: attempts in all, and performances, which are attempts under different keys."""

    attempts: Most
    performances: Most


@dataclass(frozen=True, slots=True)
class Way:
    """What a way costs when every call on it succeeds at once: steps as `max_steps` counts them, and calls."""

    steps: int
    model_calls: int
    tools: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """What a run of a program can do.

    `steps`, `model_calls` (attempts) and `tools` (each tool that some reachable step calls) are the most that it can.
    `shortest` is a way to a declared ending that takes the fewest steps, of several any one; None when there is none.
    `loops` are the loops that can be reached and that no `max_visits` cuts: each by the ids of its steps.
    """

    steps: Most
    model_calls: Most
    tools: Mapping[str, ToolBounds]
    shortest: Way | None
    loops: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Cut:
    """Steps of a loop that bound it: what is left without them, each group after all that it leads to.

    A group of several steps, or of one that leads to itself, is a loop that nothing bounds.
    """

    bounded: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop: a strongly connected component with an edge inside, and every cut that was found for it."""

    steps: tuple[int, ...]
    cuts: tuple[_Cut, ...]


_Weights = Mapping[int, int]
"""What one visit of a step counts for, at most; a step that is not named counts for nothing."""


class Bounds:
    """The bounds of a program, each computed when it is first asked for. The program has to have its control flow."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.flow = context.flow
        self.successors = self.flow.successors
        self.max_steps = context.program.max_steps
        self.visits: dict[int, int] = {}
        self.passed: dict[int, int] = {}  # where control goes, once, from a step whose visits are used up
        self.onward: list[tuple[int, ...]] = list(self.successors)  # where it goes from a step that was started
        for number, fields in enumerate(self.flow.fields):
            if fields.get("max_visits") is not None:
                self.visits[number] = fields["max_visits"]
                ways = [way for way in self.flow.transitions[number] if way.to >= 0]
                self.passed.update((number, way.to) for way in ways if way.kind == "visits")
                self.onward[number] = tuple({way.to: None for way in ways if way.kind != "visits"})

    @cached_property
    def shortest(self) -> tuple[int, ...] | None:
        """A way from the entry to a declared ending that takes the fewest steps: the positions of its steps."""
        way = self.context.graph.shortest_way_to_an_ending(self.context.cost)
        return None if way is None else tuple(way)

    @cached_property
    def in_all(self) -> ProgramBounds:
        """The most of everything that is counted, and what the shortest way costs."""
        counted = self._counted
        return ProgramBounds(
            steps=self._most(counted.steps),
            model_calls=self._most(counted.models),
            tools=dict(self._tools()),
            shortest=self._shortest_way(),
            loops=tuple(self._ids(loop) for loop in self._unbounded),
        )

    def _shortest_way(self) -> Way | None:
        if self.shortest is None:
            return None
        models, tools = 0, dict[str, int]()
        for number in self.shortest:
            for call in _calls(self.context, number):
                if isinstance(call, ToolCall):
                    tools[call.tool] = tools.get(call.tool, 0) + 1
                else:
                    models += 1
        return Way(sum(map(self.context.cost, self.shortest)), models, tools)

    # -- what one visit costs --------------------------------------------------------------------------------------

    @cached_property
    def _counted(self) -> _Counted:
        return _Counted(self.context)

    def _tools(self) -> Iterator[tuple[str, ToolBounds]]:
        budget = _PASSES * len(self._order)
        rank = {number: place for place, part in enumerate(self._order) for number in _steps_of(part)}
        for tool, (attempts, performances) in self._counted.tools.items():
            places = [rank[number] for number in attempts]
            parts = self._order[min(places) : max(places) + 1]
            budget -= sum(1 if isinstance(part, int) else len(part.steps) for part in parts) if len(places) > 1 else 0
            within = parts if budget > 0 and len(places) > 1 else None
            most = self._most(attempts, within)
            again = most if attempts == performances else self._most(performances, within)
            yield tool, ToolBounds(most, again)

    def _most(self, weights: _Weights, parts: Sequence[int | _Loop] | None = None) -> Most:
        """Return the most that a run can count: along its paths through `parts`, or without these place by place."""
        for loop in self._unbounded if self.max_steps is None else ():
            if any(number in weights for number in loop):
                return Most(None, self._ids(loop))
        return Most(0)

    def _ids(self, loop: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.flow.steps[number].id for number in loop)
