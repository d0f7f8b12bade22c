"""Control flow: the transitions between the steps of a program (specs/language.md, "Control flow").

The machine, the checker, the diagrams and the sabotage oracle all take it from here.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from stepward.vm.language.layout import Body
from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyStep, BranchStep, EndStep, FailingStep, ForEachStep, Routed, Stage
from stepward.vm.language.transitions import (
    DECLARED_FAILURE,
    END,
    FAILURE,
    MISSING,
    STALLED,
    SUCCEEDED,
    Ending,
    Exit,
    Kind,
    Transition,
)
from stepward.vm.language.within import require_program

Gives = Literal["always", "sometimes", "never"]
"""Whether a body that succeeds has an output: only an `end` step gives one."""


class Flow:
    """The control flow of a program. Steps are numbered by their position in its layout, stages included."""

    def __init__(self, program: Program) -> None:
        require_program(program)
        self.program = program
        self.layout = program.layout
        self.steps = self.layout.steps
        self.position: dict[str, int] = {}
        for number, step in enumerate(self.steps):  # if two steps have one id (SW005), a target means the first
            self.position.setdefault(step.id, number)

    @cached_property
    def arms(self) -> frozenset[str]:
        """The ids that a branch, a case, an `error_step` or a `catch` names."""
        return frozenset(target for step in self.steps for target in step.targets)

    @cached_property
    def transitions(self) -> list[tuple[Transition, ...]]:
        """The transitions that leave each step, by position."""
        return [self._transitions(number, step) for number, step in enumerate(self.steps)]

    def _transitions(self, number: int, step: AnyStep) -> tuple[Transition, ...]:
        if isinstance(step, Stage):
            return self._of_stage(number, step)
        found = [self._transition(number, step, exit) for exit in step.exits]
        following = self.layout.after(number)
        if number in self.ambiguous_arms and following is not None:
            found.insert(1, Transition("success", following))
        if number in self.layout.forks:  # its start leads to its branches
            found = [self._entered(number) if one.kind == "success" else one for one in found]
        if isinstance(step, ForEachStep):  # its start leads to its items, whatever comes after it
            found = [self._entered(number) if one.kind == "success" else one for one in found]
        if isinstance(step, EndStep) and self.layout.owner(number) is not None:
            found.append(self._transition(number, step, FAILURE))  # if its output can't be evaluated, the body fails
        if step.max_visits is None:
            return tuple(found)
        if isinstance(step, FailingStep) and step.after_visits is not None:
            # The first visit too many goes where an error leads; the second one stalls the run.
            found.append(self._transition(number, step, step.after_visits))
        return (*found, self._transition(number, step, STALLED))

    def _entered(self, number: int) -> Transition:
        """Return the transition into the first branch, the body of a branch, or the stage between items."""
        fork = self.layout.forks.get(number)
        if fork is not None:
            return Transition("success", fork.branches[0])
        return Transition("success", self._begins(self.layout.bodies[number]))

    def _begins(self, body: Body) -> int:
        """Return where a body is entered: at the stage between items, or at its first step if there is one item."""
        step = self.steps[body.owner]
        return body.first if isinstance(step, ForEachStep) and step.is_once else body.next

    def _of_stage(self, number: int, stage: Stage) -> tuple[Transition, ...]:
        """Return the transitions between items: inside of the step, or those of the step itself."""
        fork = self.layout.fork_of(number)
        at, inside = (fork.owner, {}) if fork is not None else self._items(number)
        owner = self.steps[at]
        found = []
        for exit in stage.exits:
            if exit.kind in inside:
                found.append(Transition(exit.kind, inside[exit.kind]))
                continue
            found.append(self._transition(at, owner, exit))
            following = self.layout.after(at)
            if exit.kind == "success" and at in self.ambiguous_arms and following is not None:
                found.append(Transition("success", following))
        return tuple(found)

    def _items(self, stage: int) -> tuple[int, dict[Kind, int]]:
        body = self.layout.body_of(stage)
        # From behind a failed item, those that were under way follow.
        return body.owner, {"item": body.first if stage == body.next else body.next, "again": self._begins(body)}

    def _transition(self, number: int, step: AnyStep, exit: Exit) -> Transition:
        """Return the transition that an exit of a step becomes in this program."""
        if exit.ending is not None:
            return self._ending(number, exit.kind, exit.ending)._replace(errors=exit.errors)
        if exit.target is not None:
            to = self.target(number, exit.target)
            return Transition(exit.kind, to, None, exit.branch, exit.field, exit.errors)
        assert isinstance(step, Routed)
        if step.next_step is not None:
            return Transition(exit.kind, self.target(number, step.next_step), None, None, ("next_step",))
        following = self.layout.after(number)
        if step.is_terminal or step.id in self.arms or following is None:
            return self._ending(number, exit.kind, DECLARED_FAILURE if step.outcome == "failure" else SUCCEEDED)
        return Transition(exit.kind, following)

    def _ending(self, number: int, kind: Kind, ending: Ending) -> Transition:
        """Return the transition that ends the run, or the body in which the step is."""
        owner = self.layout.owner(number)
        if owner is None:
            return Transition(kind, END, ending)
        body = self.layout.bodies[owner]
        fails = ending.status != "SUCCESS" and body.failed is not None
        return Transition(kind, body.failed if fails and body.failed is not None else body.next, ending)

    def target(self, number: int, name: str) -> int:
        """Return the position of a step that the step at `number` names; MISSING if its list has none of that id."""
        found = self.position.get(name, MISSING)
        if found >= 0 and isinstance(self.steps[found], BranchStep):
            return MISSING
        return found if found >= 0 and self.layout.owner(found) == self.layout.owner(number) else MISSING

    def failure(self, number: int, name: str) -> Transition:
        """Return the transition of a step that fails with an error of this name."""
        failures = (one for one in self.transitions[number] if one.kind in ("failed", "skipped"))
        return next(one for one in failures if one.takes(name))

    def gives(self, owner: int) -> Gives:
        """Return whether the body of a branch or a call that succeeds has an output."""
        ends = {
            isinstance(self.steps[number], EndStep)
            for number in self.layout.inside(owner)
            if self.layout.owner(number) == owner
            and any(one.ending is not None and one.ending.status == "SUCCESS" for one in self.transitions[number])
        }
        return "always" if False not in ends else "sometimes" if True in ends else "never"

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, by position and without repetition."""
        return [tuple(dict.fromkeys(one.to for one in leaving if one.to >= 0)) for leaving in self.transitions]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The steps that may precede each step, by position."""
        result: list[list[int]] = [[] for _ in self.steps]
        for number, following in enumerate(self.successors):
            for target in following:
                result[target].append(number)
        return result

    @cached_property
    def has_missing_target(self) -> bool:
        """Whether the program names a step that it does not have."""
        return any(one.to == MISSING for leaving in self.transitions for one in leaving)

    def falls_through(self, number: int) -> bool:
        """Return whether control goes from this step to the next in the list by default (rule 4)."""
        step = self.steps[number]
        return _has_default_successor(step) and step.id not in self.arms

    @cached_property
    def ambiguous_arms(self) -> frozenset[int]:
        """The steps at which rules 3 and 4 contradict each other (SW106): they get both transitions.

        They are arms without a stated successor that are also reached from the step above, or when a run starts. The
        checker refuses such a program.
        """
        return frozenset(
            number
            for number in map(self.position.get, self.arms)  # if two steps have one id, the first is the arm
            if number is not None
            and self.layout.after(number) is not None
            and _has_default_successor(self.steps[number])
            and ((above := self.before(number)) is None or self.falls_through(above))
        )

    def before(self, number: int) -> int | None:
        """Return the position of the step above a step in its list, None for the first one."""
        return self._before.get(number)

    @cached_property
    def _before(self) -> dict[int, int]:
        found = ((self.layout.after(number), number) for number in range(len(self.steps)))
        return {following: number for following, number in found if following is not None}

    def target_at(self, number: int, field: tuple[str | int, ...]) -> str:
        """Return the id that a field of a step names; `field` is its path, such as `("cases", 0, "then")`.

        A stage goes where the fields of the step with its body say.
        """
        step = self.steps[number]
        value: Any = self.steps[self.position[step.owner]] if isinstance(step, Stage) else step
        for part in field:
            value = value[part] if isinstance(part, int) else getattr(value, part)
        return str(value)

    def is_arm_without_successor(self, number: int) -> bool:
        """Return whether the run ends after this step because it is an arm without a stated successor (rule 3)."""
        step = self.steps[number]
        is_last = self.layout.after(number) is None
        return (
            _has_default_successor(step) and not is_last and step.id in self.arms and number not in self.ambiguous_arms
        )


def _has_default_successor(step: AnyStep) -> bool:
    """Return whether a step has a successor that it does not name."""
    return isinstance(step, Routed) and step.next_step is None and not step.is_terminal
