"""SW101 to SW108: does control go where it should."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.vm.language.flow import DECLARED_FAILURE, MISSING
from stepward.vm.language.loading import near_words
from stepward.vm.language.steps import ConditionStep, ErrorRouted, LlmCall, ParallelStep
from stepward.vm.reading.source import Place


class MissingTarget(Rule):
    """A branch, a case, `next_step` or `error_step` names a step that does not exist."""

    code = "SW101"
    name = "missing-target"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every field that names no step of the program's list."""
        sub_steps = {
            part.id: step.id
            for step in context.program.steps
            if isinstance(step, ParallelStep)
            for part in step.parallel_steps
        }
        for number, step in enumerate(context.program.steps):
            for field in dict.fromkeys(way.field for way in context.flow.transitions[number] if way.to == MISSING):
                target = _value(step, field)
                help = near_words(target, list(context.flow.position)) or "name a step of the list, or add this one"
                if target in sub_steps:
                    help = f"it is a sub-step; control can't enter `{sub_steps[target]}` in the middle"
                place = Place(("steps", number, *field))
                yield self.finding(f"`{field[-1]}` names `{target}`, which is no step", help, place, step=step.id)


def _value(step: object, field: tuple[str | int, ...]) -> str:
    for part in field:
        step = step[part] if isinstance(part, int) else getattr(step, part)  # type: ignore[index]
    assert isinstance(step, str)
    return step


class UnreachableStep(Rule):
    """No path leads from the entry to the step, so it never runs."""

    code = "SW102"
    name = "unreachable-step"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every step that no path of edges reaches."""
        for number, step in enumerate(context.program.steps):
            if not context.flow.reachable[number]:
                help = "name it in a branch, a `next_step` or an `error_step`, or remove it"
                related = []
                if number and not context.flow.successors[number - 1] and context.flow.reachable[number - 1]:
                    related = [Label(Place(("steps", number - 1, "id")), "the step above ends the run here")]
                message = f"no path leads to step `{step.id}`"
                yield self.finding(message, help, Place(("steps", number, "id")), step=step.id, related=related)


class InfeasibleStep(Rule):
    """Edges lead to the step, but the conditions on the way contradict each other."""

    code = "SW103"
    name = "infeasible-step"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing yet: which paths are feasible is for the engine to prove."""
        return iter(())


class CycleWithoutExit(Rule):
    """A loop that no path leaves: a run that enters it can only fail or be stopped."""

    code = "SW104"
    name = "cycle-without-exit"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every loop from which no drawn edge leads out and in which no step ends the run."""
        for loop in context.graph.loops():
            steps = set(loop)
            if not context.flow.reachable[loop[0]]:
                continue
            leaves = any(target not in steps for number in loop for target in context.flow.successors[number])
            missing = any(way.to == MISSING for number in loop for way in context.flow.transitions[number])
            if not leaves and not missing and not any(map(context.graph.ends_the_run, loop)):
                first = context.program.steps[loop[0]]
                message = f"no path leaves the loop {_loop_words(context, loop)}"
                help = "give one of its steps a branch or a `next_step` that leads out, or end the run in it"
                yield self.finding(message, help, Place(("steps", loop[0], "id")), step=first.id)


class UnboundedCycle(Rule):
    """A loop that nothing bounds: neither `max_visits` on one of its steps nor `max_steps` of the program."""

    code = "SW105"
    name = "unbounded-cycle"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every loop that remains when steps with `max_visits` are taken out."""
        steps = context.program.steps
        if context.program.max_steps is not None:
            return
        for loop in context.graph.loops(without=lambda number: getattr(steps[number], "max_visits", None) is not None):
            if not context.flow.reachable[loop[0]]:
                continue
            message = f"nothing bounds the loop {_loop_words(context, loop)}"
            help = "add `max_visits` to one of its steps, or `max_steps` to the program"
            yield self.finding(message, help, Place(("steps", loop[0], "id")), step=steps[loop[0]].id)


def _loop_words(context: Context, loop: list[int]) -> str:
    """Write the steps of a loop in an order in which control can go through them."""
    steps, inside = context.program.steps, set(loop)
    order, seen = [loop[0]], {loop[0]}
    while True:
        following = next((t for t in context.flow.successors[order[-1]] if t in inside and t not in seen), None)
        if following is None or len(order) == 6:
            break
        order.append(following)
        seen.add(following)
    names = [f"`{steps[number].id}`" for number in order]
    more = len(loop) - len(order)
    return " → ".join(names) + (f" and {more} more" if more else "")


class AmbiguousArm(Rule):
    """A step is the arm of a branch and stands where the step above would fall into it: does it end the run or not?"""

    code = "SW106"
    name = "ambiguous-arm"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every arm without `next_step` and `is_terminal` that is the entry or that the step above falls into."""
        steps = context.program.steps
        for number in sorted(context.flow.ambiguous_arms):
            step = steps[number]
            following = steps[number + 1].id
            above = f"step `{steps[number - 1].id}` above falls into it" if number else "it is the entry of the program"
            message = f"`{step.id}` is named as an arm, and {above}: it is not clear whether the run ends after it"
            help = f"add `next_step: {following}` to go on, or `is_terminal: true` to end"
            related = [Label(place, "it is named here") for place in _namings(context, step.id)]
            yield self.finding(message, help, Place(("steps", number, "id")), step=step.id, related=related)


def _namings(context: Context, target: str) -> list[Place]:
    """Return the first place at which a step is named as a branch, a case or an `error_step`."""
    position = context.flow.position[target]
    for number, ways in enumerate(context.flow.transitions):
        for way in ways:
            if way.to == position and way.kind in ("branch", "failed"):
                return [Place(("steps", number, *way.field))]
    return []


class NoFailureEnding(Rule):
    """A model's reply or an error decides where the run goes, and yet every ending that is declared is a success."""

    code = "SW107"
    name = "no-failure-ending"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the first step that decides, when no reachable ending is declared a failure."""
        flow = context.flow
        for number, ways in enumerate(flow.transitions):
            if flow.reachable[number] and any(way.ending == DECLARED_FAILURE for way in ways):
                return
        for number, step in enumerate(context.program.steps):
            why = self._decides(context, number) if flow.reachable[number] else None
            if why is not None:
                message = f"{why}, but no ending is declared a failure"
                help = "mark the ending that is one with `outcome: failure`"
                yield self.finding(message, help, Place(("steps", number, "id")), step=step.id)
                return

    def _decides(self, context: Context, number: int) -> str | None:
        step = context.program.steps[number]
        if isinstance(step, ErrorRouted) and step.error_step is not None:
            return f"an error of `{step.id}` decides where the run goes"
        if isinstance(step, ConditionStep):
            for reading in context.assignment.readings_of.get(number, ()):
                for source in reading.meant.sources if reading.meant else ():
                    if source.kind == "output" and isinstance(context.call_of(source), LlmCall):
                        return f"a model's reply decides `{step.id}`"
        return None


class SameBranches(Rule):
    """Both branches of a condition name the same step, so it decides nothing."""

    code = "SW108"
    name = "same-branches"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every two-way condition whose branches agree."""
        for number, step in enumerate(context.program.steps):
            if isinstance(step, ConditionStep) and step.then is not None and step.then == step.otherwise:
                message = f"`then` and `otherwise` both name `{step.then}`"
                help = "name two different steps, or replace the condition by `next_step`"
                related = [Label(Place(("steps", number, "then")), "the same step")]
                yield self.finding(message, help, Place(("steps", number, "otherwise")), step=step.id, related=related)
