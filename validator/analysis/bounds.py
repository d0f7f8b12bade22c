"""Static bounds: the most steps, model calls and calls of each tool that one run can make.

The counts are those of the machine (specs/language.md, "Control flow" 9 and 10, "Failure" 7): `max_visits` bounds the
starts of a step, `max_items` the items of a for_each step, each visit may use all its attempts, and `max_steps` caps
every count. Only control flow is considered: a condition may take any branch, and a call may end in any manner. Then

- the counts are exact, and some such run attains them, where no loop has more than one step with `max_visits`;
- they are upper bounds where several steps of a loop have it, in programs with for_each steps, where `max_steps` caps
  them, and for tools that are called from so many steps that _PASSES are used up.

Events from outside of the program are not counted: each reconciliation as *not done* may add one attempt, and a call
that recovery repeats after a crash is the same attempt. Limits that only end runs sooner are ignored: token budgets,
`max_stalled_steps`, guardrails that the machine enforces, and its own limit of steps.

Linear in the program, except for one additional pass for each tool that several steps call, up to _PASSES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.heaviest_run import HeaviestRun, Loop, Part, Weights

if TYPE_CHECKING:
    from stepward.validator.analysis.facts import ProgramFacts
    from stepward.vm.language.manifest import ToolSpec
    from stepward.vm.language.steps import AnyStep, LlmCall, ToolCall

_PASSES: Final = 10
"""Passes over the whole program that tools may cost. For the remaining tools each step is bounded by itself."""

_MAX_NAMED: Final = 6
"""The most steps of a loop that a reason names."""


@dataclass(frozen=True, slots=True)
class Most:
    """The largest count in one run. None when it is unbounded: the steps of `loop` can repeat for ever."""

    count: int | None
    loop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolBounds:
    """How often a run can call a tool: in attempts, and in performances (attempts under different keys)."""

    attempts: Most
    performances: Most


@dataclass(frozen=True, slots=True)
class ShortestPath:
    """The cost of a path on which every call succeeds at once: steps as `max_steps` counts them, and calls."""

    steps: int
    model_calls: int
    tools: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """The bounds of one run of a program.

    `steps` (as `max_steps` counts them), `model_calls` (attempts) and `tools` (each tool that a reachable step calls)
    are maxima. `shortest` is the first of the paths to a declared ending that take the fewest steps; None when there is
    none. `reason` says why counts are None, and is empty when none is; `loops` are the steps of the loops that can
    repeat for ever. `model_steps` has the model calls of each reachable step that makes some, by its id; those of a
    parallel step are the calls of all its sub-steps.
    """

    program: str
    steps: Most
    model_calls: Most
    tools: Mapping[str, ToolBounds]
    shortest: ShortestPath | None
    reason: str = ""
    loops: tuple[tuple[str, ...], ...] = ()
    file: str = ""
    model_steps: Mapping[str, Most] = field(default_factory=dict)


@dataclass(slots=True)
class _Visits:
    """The cost of one visit of each reachable step, by position: steps, and numbers of calls."""

    steps: dict[int, int] = field(default_factory=dict)
    model_calls: dict[int, int] = field(default_factory=dict)
    attempts: dict[str, dict[int, int]] = field(default_factory=dict)
    performances: dict[str, dict[int, int]] = field(default_factory=dict)

    def add_call(self, number: int, tool: str | None, attempts: int, performances: int) -> None:
        """Add a call of a tool; None stands for a model."""
        if tool is None:
            self.model_calls[number] = self.model_calls.get(number, 0) + attempts
            return
        for of_tool, added in ((self.attempts, attempts), (self.performances, performances)):
            counts = of_tool.setdefault(tool, {})
            counts[number] = counts.get(number, 0) + added


class Bounds:
    """The bounds of a program. Each is computed on first use."""

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts
        self.flow = facts.flow

    @cached_property
    def shortest(self) -> ShortestPath | None:
        """The first of the paths to a declared ending that take the fewest steps: exact over drawn edges."""
        # A report from the cache needs neither.
        from stepward.validator.analysis.lengths import least_items
        from stepward.validator.analysis.shortest_paths import ShortestPaths

        facts = self.facts
        paths = ShortestPaths(facts.graph, facts.cost, lambda step: least_items(step, facts.meaning, facts.given_types))
        visits = paths.to_an_ending()
        if visits is None:
            return None
        models, tools = 0, dict[str, int]()
        for number, times in visits.items():
            for _, call in self.flow.steps[number].calls:
                if call.type == "llm":
                    models += times
                else:
                    tools[call.tool] = tools.get(call.tool, 0) + times
        return ShortestPath(sum(facts.cost(number) * times for number, times in visits.items()), models, tools)

    def starts(self, number: int) -> int | None:
        """Return how often a run can start a step at most, ignoring `max_steps`; None when it is unbounded."""
        return self._run.starts[number]

    @cached_property
    def may_run_out(self) -> bool:
        """Whether a run may use up `max_steps`. An upper bound: it may be true although no run does."""
        budget = self.facts.program.max_steps
        if budget is None:
            return False
        if self.flow.layout.bodies:
            return True  # proofs do not count items
        return bool(self._run.unbounded) or self._run.weigh(self._visits.steps, self._run.parts) > budget

    @cached_property
    def in_all(self) -> ProgramBounds:
        """All maxima, and the shortest path."""
        name = self.facts.program.name
        if not self.facts.has_control_flow:
            return ProgramBounds(name, Most(None), Most(None), {}, None, "the program does not say where control goes")
        parts = self._run.parts
        steps = self._most(self._visits.steps, parts)
        models = self._most(self._visits.model_calls, parts) if self._visits.model_calls else Most(0)
        tools = dict(self._tools())
        is_bounded = self.facts.program.max_steps is not None
        loops = () if is_bounded else tuple(map(self._ids, self._run.unbounded))
        each = {
            self.flow.steps[number].id: self._most({number: calls}, None)
            for number, calls in self._visits.model_calls.items()
        }
        return ProgramBounds(name, steps, models, tools, self.shortest, _reason(loops), loops, model_steps=each)

    @cached_property
    def _run(self) -> HeaviestRun:
        return HeaviestRun(self.facts.graph, self.facts.meaning.most_items)

    def _tools(self) -> Iterator[tuple[str, ToolBounds]]:
        parts = self._run.parts
        rank = {number: position for position, part in enumerate(parts) for number in _steps_of(part)}
        left = _PASSES * len(rank)
        for tool, attempts in self._visits.attempts.items():
            performances = self._visits.performances[tool]
            positions = [rank[number] for number in attempts]
            within: Sequence[Part] | None = None
            if len(attempts) > 1 and left > 0:
                within = parts[min(positions) : max(positions) + 1]
                left -= sum(len(_steps_of(part)) for part in within)
            most = self._most(attempts, within)
            yield tool, ToolBounds(most, most if performances == attempts else self._most(performances, within))

    def _most(self, weights: Weights, parts: Sequence[Part] | None) -> Most:
        """Return the maximum that a run can collect in some parts; without parts, the sum over single steps."""
        budget = self.facts.program.max_steps
        loop = next((self._loops[number] for number in weights if number in self._loops), None)
        if loop is not None:
            return Most(None, self._ids(loop)) if budget is None else Most(budget)
        if parts is None:
            most = sum(weight * (self._run.starts[number] or 0) for number, weight in weights.items())
        else:
            most = self._run.weigh(weights, parts)
        return Most(most if budget is None else min(most, budget))

    @cached_property
    def _loops(self) -> dict[int, list[int]]:
        """The loop of each step that can repeat for ever."""
        return {number: loop for loop in self._run.unbounded for number in loop}

    def _ids(self, loop: list[int]) -> tuple[str, ...]:
        return tuple(self.flow.steps[number].id for number in loop)

    # -- what one visit can cost -----------------------------------------------------------------------------------

    @cached_property
    def _visits(self) -> _Visits:
        visits = _Visits()
        for number, step in enumerate(self.flow.steps):
            if number in self.facts.graph.reachable:
                visits.steps[number] = self._cost(number, step, visits)
        return visits

    def _cost(self, number: int, step: AnyStep, visits: _Visits) -> int:
        """Return the steps that one visit of a step can take, and add its calls to the visits."""
        calls = [call for _, call in step.calls]
        if step.type == "stage":
            return 0
        if step.type == "for_each":
            return step.max_retries if step.on_error == "retry" else 1
        if not calls:
            return 1
        rounds, cost = 1, 0
        if step.type == "parallel":
            # A round of a parallel step repeats the calls that failed, except those that are skipped on failure.
            if step.on_error == "retry" and any(call.on_error != "skip" for call in calls):
                rounds = step.max_retries
            cost = rounds
        for call in calls:
            tool = call.tool if call.type == "tool" else None
            spec = None if tool is None else self.facts.meaning.tool(tool)
            attempts = self._attempts(call, spec) * (1 if call.on_error == "skip" else rounds)
            # All attempts of a visit have one key where the tool is idempotent.
            visits.add_call(number, tool, attempts, 1 if spec is not None and spec.idempotent else attempts)
            cost += attempts
        return cost

    def _attempts(self, call: LlmCall | ToolCall, spec: ToolSpec | None) -> int:
        """Return how many attempts a call makes at most in one round of its step.

        An idempotent write with an unknown outcome is repeated also without `on_error: retry`.
        """
        if spec is None or spec.effect != "write" or not spec.idempotent:
            return self.facts.failing.most_tries(call)
        named = [entry.max_attempts for entry in call.retry or ()]
        return max(call.max_retries, *named) if named else call.max_retries


def _steps_of(part: Part) -> tuple[int, ...]:
    return part.steps if isinstance(part, Loop) else (part,)


def _reason(loops: tuple[tuple[str, ...], ...]) -> str:
    if not loops:
        return ""
    first = loops[0]
    named = ", ".join(f"`{name}`" for name in first[:_MAX_NAMED])
    more = f" and {len(first) - _MAX_NAMED} more" if len(first) > _MAX_NAMED else ""
    others = "".join(f", nor that of `{loop[0]}`" for loop in loops[1:_MAX_NAMED])
    return f"nothing bounds the loop of {named}{more}{others}"
