"""Control flow: the one function that says where a run goes after a step (specs/language.md, "Control flow").

The machine, the checker, the diagrams and the sabotage oracle read it from here, and from nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal, NamedTuple

from stepward.vm.language.program import Program
from stepward.vm.language.steps import (
    AnyStep,
    ConditionStep,
    EndStep,
    ErrorRouted,
    LlmStep,
    ParallelStep,
    SetStep,
    ToolStep,
)

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end"]
"""Why control goes on: what became of the step.

`success`, `fallback` and `skipped` go to the successor; `failed` to the error step, or ends the run (a condition or a
`set` fails only where an expression has no value); `branch` is a condition's choice, `uncovered` that it has none;
`visits` that the step was not started again; `end` an `end` step.
"""

Status = Literal["SUCCESS", "FAILED", "STALLED"]

END: Final = -1
"""The run ends: the transition has an ending."""

MISSING: Final = -2
"""The program names a step that it does not have."""


class Ending(NamedTuple):
    """How a run ends: its status, and the reason: `declared` for an ending that the program itself states."""

    status: Status
    reason: Literal["declared", "error", "uncovered", "visits"]


class Transition(NamedTuple):
    """One way out of a step. `to` is the position of the next step, END or MISSING.

    `field` is the path, below the step, of the field that names the target; `branch` is `then`, `otherwise`, or the
    number of a case counted from 1.
    """

    kind: Kind
    to: int
    ending: Ending | None = None
    branch: str | int | None = None
    field: tuple[str | int, ...] = ()

    @property
    def is_drawn(self) -> bool:
        """Whether the program states this way itself: an edge of the graph or a declared ending."""
        return self.to != END or (self.ending is not None and self.ending.reason == "declared")


SUCCEEDED: Final = Ending("SUCCESS", "declared")
DECLARED_FAILURE: Final = Ending("FAILED", "declared")

_ENDS_WELL: Final = Transition("success", END, SUCCEEDED)
_ENDS_IN_FAILURE: Final = Transition("success", END, DECLARED_FAILURE)
_FAILS: Final = Transition("failed", END, Ending("FAILED", "error"))
_UNCOVERED: Final = Transition("uncovered", END, Ending("FAILED", "uncovered"))
_STALLS: Final = Transition("visits", END, Ending("STALLED", "visits"))
_END_STEP: Final = Transition("end", END, SUCCEEDED)
_END_STEP_FAILURE: Final = Transition("end", END, DECLARED_FAILURE)


class Flow:
    """The control flow of a program: for each step, by its position, every way out of it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.steps
        self.position: dict[str, int] = {}
        self._names_missing = False
        for number, step in enumerate(program.steps):
            self.position.setdefault(step.id, number)

    @cached_property
    def arms(self) -> frozenset[str]:
        """The ids that a branch, a case or an `error_step` names."""
        names: set[str | None] = set()
        for step in self.steps:
            if step.type == "condition":
                names.update((step.then, step.otherwise), (case.then for case in step.cases or ()))
            elif isinstance(step, ErrorRouted):
                names.add(step.error_step)
        names.discard(None)
        return frozenset(name for name in names if name is not None)

    @cached_property
    def transitions(self) -> list[tuple[Transition, ...]]:
        """Every way out of every step, by its position."""
        return [tuple(self._ways_out(number, step)) for number, step in enumerate(self.steps)]

    @cached_property
    def has_missing_target(self) -> bool:
        """Whether the program names a step that it does not have."""
        assert self.transitions is not None, "they note it when they are made"
        return self._names_missing

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, by position and without repetition."""
        return [tuple({way.to: None for way in ways if way.to >= 0}) for ways in self.transitions]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The steps that each step may follow."""
        result: list[list[int]] = [[] for _ in self.steps]
        for number, following in enumerate(self.successors):
            for target in following:
                result[target].append(number)
        return result

    @cached_property
    def reachable(self) -> bytearray:
        """For each step, 1 where some path of edges leads to it from the entry."""
        seen = bytearray(len(self.steps))
        seen[0] = 1
        pending = [0]
        successors = self.successors
        while pending:
            for target in successors[pending.pop()]:
                if not seen[target]:
                    seen[target] = 1
                    pending.append(target)
        return seen

    @cached_property
    def ambiguous_arms(self) -> frozenset[int]:
        """The steps at which rules 3 and 4 clash (SW106): both ways out are given, and the program is refused."""
        positions = (self.position[name] for name in self.arms if name in self.position)
        return frozenset(number for number in positions if self._is_ambiguous(number))

    def _is_ambiguous(self, number: int) -> bool:
        step = self.steps[number]
        if isinstance(step, ConditionStep | EndStep) or number + 1 == len(self.steps):
            return False
        if step.next_step is not None or step.is_terminal:
            return False
        return number == 0 or self.falls_through(number - 1)

    def falls_through(self, number: int) -> bool:
        """Return whether control goes from this step to the next in the list because nothing else is said (rule 4)."""
        step = self.steps[number]
        if isinstance(step, ConditionStep | EndStep):
            return False
        return step.next_step is None and not step.is_terminal and step.id not in self.arms

    def _ways_out(self, number: int, step: AnyStep) -> list[Transition]:
        if step.type == "end":
            return [_END_STEP if step.outcome == "success" else _END_STEP_FAILURE]
        ways = self._branches(step) if step.type == "condition" else self._ways_through(number, step)
        if step.max_visits is not None:
            if isinstance(step, ErrorRouted) and step.error_step is not None:  # once; the second time the run stalls
                ways.append(Transition("visits", self._to(step.error_step), field=("error_step",)))
            ways.append(_STALLS)
        return ways

    def _ways_through(self, number: int, step: LlmStep | ToolStep | ParallelStep | SetStep) -> list[Transition]:
        successor = self._successor(number, step)
        ways = [successor]
        if number in self.ambiguous_arms:
            ways.append(Transition("success", number + 1))
        if step.type == "set":
            ways.append(_FAILS)
        else:
            self._add_failures(ways, step, successor)
        return ways

    def _successor(self, number: int, step: LlmStep | ToolStep | ParallelStep | SetStep) -> Transition:
        if step.next_step is not None:
            return Transition("success", self._to(step.next_step), None, None, ("next_step",))
        if step.is_terminal or step.id in self.arms or number + 1 == len(self.steps):
            return _ENDS_IN_FAILURE if step.outcome == "failure" else _ENDS_WELL
        return Transition("success", number + 1)

    def _add_failures(
        self, ways: list[Transition], step: LlmStep | ToolStep | ParallelStep, successor: Transition
    ) -> None:
        if step.type == "parallel":
            if all(part.on_error == "skip" for part in step.parallel_steps):
                return
        elif step.on_timeout == "fallback":
            ways.append(successor._replace(kind="fallback"))
        if step.on_error == "skip":
            ways.append(successor._replace(kind="skipped"))
        if step.error_step is not None:  # beside `skip` it is SW002: both ways are given, and the program is refused
            ways.append(Transition("failed", self._to(step.error_step), field=("error_step",)))
        elif step.on_error != "skip":
            ways.append(_FAILS)

    def _branches(self, step: ConditionStep) -> list[Transition]:
        then, otherwise = step.then, step.otherwise
        ways = []
        if then is not None:
            ways.append(Transition("branch", self._to(then), None, "then", ("then",)))
        for number, case in enumerate(step.cases or ()):
            ways.append(Transition("branch", self._to(case.then), None, number + 1, ("cases", number, "then")))
        if otherwise is not None:
            ways.append(Transition("branch", self._to(otherwise), None, "otherwise", ("otherwise",)))
        if otherwise is None or (then is None and step.cases is None):
            ways.append(_UNCOVERED)
        ways.append(_FAILS)
        return ways

    def _to(self, target: str) -> int:
        position = self.position.get(target, MISSING)
        if position == MISSING:
            self._names_missing = True
        return position
