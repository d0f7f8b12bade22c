"""SW101, SW102, SW104, SW105, SW107 and SW108: does control go where it should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepward.validator.analysis.reachability import reached
from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.validator.rules.changed_steps import written_id
from stepward.validator.rules.continuing import continuation, falls_into_failure
from stepward.validator.rules.naming import MAX_TRIED, arm_words, ends_the_run
from stepward.validator.rules.regions import behind_words, can_be_removed, regions_among
from stepward.vm.language.flow import Flow
from stepward.vm.language.order import endless_branches
from stepward.vm.language.similar import near_words, respelt
from stepward.vm.language.steps import BranchStep, Call, ConditionStep, Failing, FailingStep, LlmCall, Stage
from stepward.vm.language.transitions import DECLARED_FAILURE, MISSING
from stepward.vm.reading.source import Place

SEARCHED_STEPS: Final = 200_000
"""Steps that the searches for endings of SW107 may visit in one program; a step beyond that is taken to decide."""


class MissingTarget(Rule):
    """A branch, a case, `next_step` or `error_step` names a step that does not exist.

    ## What it does
    Reports every target that is not a step of the program's list, and suggests the nearest id. A sub-step of a parallel
    step is not a valid target: a run can't enter a parallel step in the middle.

    ## Why it is bad
    A run that takes this branch can't continue. While a target is missing, Stepward does not check guardrails and
    budgets, because it does not know all paths.

    ## Example
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 100, then: reveiw, otherwise: accept}
      - {id: accept, type: end}
    ```

    ## Use instead
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 100, then: review, otherwise: accept}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```
    """

    code = "SW101"
    name = "missing-target"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every field that names no step of the program's list."""
        flow = context.facts.flow
        sub_steps = {part.id: step.id for step in flow.steps for part in step.sub_steps}
        for place, target in _missing(flow).items():
            help = near_words(target, flow.position) or "name a step of the list, or add this one"
            if target in sub_steps:
                help = f"it is a sub-step; control can't enter `{sub_steps[target]}` in the middle"
            message = f"`{place.path[-1]}` names `{target}`, which is not a step"
            correction = None if target in sub_steps else respelt(place, target, flow.position)
            step = flow.layout.step_at(place.path)
            yield self.finding(message, help, place, step=step, correction=correction)


def _missing(flow: Flow) -> dict[Place, str]:
    """Return what names no step, by its place: a step with a body and the stages behind that have the same fields."""
    return {
        Place((*flow.layout.path(number), *transition.field)): flow.target_at(number, transition.field)
        for number, transitions in enumerate(flow.transitions)
        for transition in transitions
        if transition.to == MISSING
    }


class UnreachableStep(Rule):
    """No path leads from the first step to this one, so it never runs.

    ## What it does
    Reports the steps that no path reaches, even if every branch could be taken. If unreachable steps lead to each
    other, only the first is reported, with the number of steps after it. Often the cause is that the step above is a
    target of a branch, a case or an `error_step`. Such a step ends the run unless it has a `next_step`.

    ## Why it is bad
    A reader of the program believes that the step runs. If it is a check, a notice or a clean-up, it is missing in
    every run.

    ## Example
    A branch names `accept`, so the run ends after it, and `record` never runs:

    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    tools: {book: {effect: write, idempotent: true}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 100, then: accept, otherwise: refuse}
      - {id: accept, type: set, set: {accepted: true}}
      - {id: record, type: tool, tool: book}
      - {id: refuse, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    tools: {book: {effect: write, idempotent: true}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 100, then: accept, otherwise: refuse}
      - {id: accept, type: set, set: {accepted: true}, next_step: record}
      - {id: record, type: tool, tool: book, is_terminal: true}
      - {id: refuse, type: end, outcome: failure}
    ```
    """

    code = "SW102"
    name = "unreachable-step"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the first step of each region that no path of edges reaches."""
        flow, reachable = context.facts.flow, context.facts.graph.reachable
        dead = [number for number in range(len(flow.steps)) if number not in reachable]
        for count, (number, behind) in enumerate(regions_among(dead, context.facts.graph)):
            step = context.facts.flow.steps[number]
            related, above = [], flow.before(number)
            if above in reachable and ends_the_run(flow, above):
                place = Place((*flow.layout.path(above), "id"))
                related = [Label(place, f"the step above ends {_whole_words(flow, above)} here")]
            help = _help_to_reach(context, number, behind)
            correction = continuation(context, number, behind) if count < MAX_TRIED else None
            message = f"no path leads to step `{step.id}`{behind_words(behind, flow)}"
            yield self.finding(
                message,
                help,
                Place((*context.facts.flow.layout.path(number), "id")),
                step=step.id,
                related=related,
                correction=correction,
            )


def _whole_words(flow: Flow, number: int) -> str:
    """Return what ends with a step that leads on to no other one: the run, or the body or branch in which it is."""
    owner = flow.layout.owner(number)
    if owner is None:
        return "the run"
    return "the branch" if isinstance(flow.steps[owner], BranchStep) else "the body"


def _help_to_reach(context: Context, number: int, behind: Sequence[int]) -> str:
    """Return the help to make a path lead to a step, or to remove the step where nothing else would change."""
    flow = context.facts.flow
    before = flow.before(number)
    if before is not None and flow.is_arm_without_successor(before):
        above, name = flow.steps[before].id, written_id(flow.layout, number)
        reason = f"`{above}` is {arm_words(flow, above)}, so {_whole_words(flow, number)} ends after it"
        help = f"{reason}; add `next_step: {name}` to `{above}`"
        last = falls_into_failure(flow, (number, *behind))
        if last is not None:
            ending = flow.steps[flow.layout.after(last) or 0].id
            last_id = flow.steps[last].id
            help += f", and `is_terminal: true` to `{last_id}`, which would otherwise go on to `{ending}` and fail"
        return help
    help = "name it in a branch, a `next_step` or an `error_step`"
    if can_be_removed((number, *behind), context):
        help += f", or remove it{' with all steps after it' if behind else ''}"
    return help


class CycleWithoutExit(Rule):
    """No path leaves the loop, so a run that enters it can only fail or be stopped.

    ## What it does
    Reports every loop that no branch, `next_step` or `error_step` leaves, and in which no step ends the run. Only exits
    that the program declares count. A failure without an `error_step`, a used-up budget and STALLED are not exits.

    ## Why it is bad
    A run that enters the loop never reaches a planned ending. It repeats its calls until a step fails or the budget is
    used up.

    ## Example
    ```yaml
    name: wait_for_payment
    tools: {read_status: {effect: read}}
    max_steps: 50
    steps:
      - {id: look, type: tool, tool: read_status, next_step: again}
      - {id: again, type: tool, tool: read_status, next_step: look}
    ```

    ## Use instead
    ```yaml
    name: wait_for_payment
    tools: {read_status: {effect: read, returns: {type: string, enum: [open, paid]}}}
    max_steps: 50
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status, next_step: is_paid}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: look}
      - {id: done, type: end}
    ```
    """

    code = "SW104"
    name = "cycle-without-exit"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every loop from which no drawn edge leads out and in which no step ends the run."""
        if context.facts.flow.ambiguous_arms:
            return
        reachable, leads_out = context.facts.graph.reachable, context.facts.graph.leads_out
        for loop in context.facts.graph.written_loops:
            if loop[0] not in reachable or leads_out(loop):
                continue
            missing = any(
                transition.to == MISSING for number in loop for transition in context.facts.flow.transitions[number]
            )
            if not missing and not any(map(context.facts.graph.ends_the_run, loop)):
                first = context.facts.flow.steps[loop[0]]
                message = f"no path leaves the loop {_loop_words(context, loop)}"
                help = _help_to_leave(context, loop)
                yield self.finding(
                    message, help, Place((*context.facts.flow.layout.path(loop[0]), "id")), step=first.id
                )


def _help_to_leave(context: Context, loop: Sequence[int]) -> str:
    """Return the help to leave a loop at a step from which all its steps stay reachable."""
    for number in list(reversed(loop))[:MAX_TRIED]:
        step = context.facts.flow.steps[number]
        if _reached_without_leaving(context.facts.flow, number).issuperset(loop):
            if isinstance(step, ConditionStep):
                return f"give `{step.id}` a branch that leads out"
            return f"end the run in `{step.id}`, or give it a `next_step` that leads out"
    return "give one of its steps a branch or a `next_step` that leads out"


def _reached_without_leaving(flow: Flow, number: int) -> set[int]:
    """Return the steps that paths reach when one step has no successors."""
    return set(reached([0], lambda step: flow.successors[step] if step != number else ()))


class UnboundedCycle(Rule):
    """Nothing bounds the loop: neither `max_visits` on one of its steps nor `max_steps` of the program.

    ## What it does
    Reports every loop without a step that has `max_visits`, in a program without `max_steps`. The rule does not try to
    prove that a condition ends the loop: write a bound into the program. `max_visits` counts visits and not
    attempts: an `llm` step with `on_error: retry` may ask `max_visits` times `max_retries` times. `check --statistics`
    shows the number for each step that asks a model. In a branch `max_steps` is no bound: others go on beside it.

    ## Why it is bad
    If the expected event never happens, the run never ends. It calls models and tools again and again, and every call
    costs money.

    ## Example
    ```yaml
    name: wait_for_payment
    tools: {read_status: {effect: read, returns: {type: string, enum: [open, paid]}}}
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status, next_step: is_paid}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: look}
      - {id: done, type: end}
    ```

    ## Use instead
    ```yaml
    name: wait_for_payment
    tools: {read_status: {effect: read, returns: {type: string, enum: [open, paid]}}}
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status, max_visits: 9, error_step: no, next_step: is_paid}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: look}
      - {id: done, type: end}
      - {id: no, type: end, outcome: failure}
    ```
    """

    code = "SW105"
    name = "unbounded-cycle"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every loop that remains when the steps with `max_visits` are removed."""
        steps, flow = context.facts.flow.steps, context.facts.flow
        beside = endless_branches(flow)
        for loop_steps in map(list, beside):
            message = f"nothing bounds the loop {_loop_words(context, loop_steps)} beside which others go on"
            place = Place((*flow.layout.path(loop_steps[0]), "id"))
            yield self.finding(message, "add `max_visits` to one of its steps", place, step=steps[loop_steps[0]].id)
        if context.facts.program.max_steps is not None or flow.ambiguous_arms:
            return
        bounded = {number for number, step in enumerate(steps) if step.max_visits is not None}
        for loop in context.facts.graph.written_loops_without(bounded):
            if loop[0] not in context.facts.graph.reachable or any(not set(one).isdisjoint(loop) for one in beside):
                continue
            message = f"nothing bounds the loop {_loop_words(context, loop)}"
            help = "add `max_visits` to one of its steps, or `max_steps` to the program"
            retried = next((one for one in loop if _attempts(context, one) > 1), None)
            if retried is not None:
                help += f"; each visit of `{steps[retried].id}` may make {_attempts(context, retried)} attempts"
            yield self.finding(
                message, help, Place((*context.facts.flow.layout.path(loop[0]), "id")), step=steps[loop[0]].id
            )


def _attempts(context: Context, number: int) -> int:
    """Return how many attempts one visit of a step may make."""
    step = context.facts.flow.steps[number]
    if isinstance(step, Call):
        return context.facts.failing.most_tries(step)
    return step.max_retries if isinstance(step, Failing) and step.on_error == "retry" else 1


def _loop_words(context: Context, loop: list[int]) -> str:
    """Return the steps of a loop in words, in an order in which a run can take them."""
    steps, inside = context.facts.flow.steps, set(loop)
    order, visited = [loop[0]], {loop[0]}
    while True:
        following = next(
            (t for t in context.facts.flow.successors[order[-1]] if t in inside and t not in visited), None
        )
        if following is None or len(order) == 6:
            break
        order.append(following)
        visited.add(following)
    names = [f"`{steps[number].id}`" for number in order if not isinstance(steps[number], Stage)]
    remaining = sum(not isinstance(steps[number], Stage) for number in inside - visited)
    return " → ".join(names) + (f" and {remaining} more" if remaining else "")


class NoFailureEnding(Rule):
    """A model's reply or an error decides how the run goes on, but every declared ending is a success.

    ## What it does
    Reports the first condition that reads a model's reply, also through `set` and bodies, or the first step with an
    `error_step`. Its branches have to lead to different endings, and no reachable ending has `outcome: failure`. Only
    endings of the run that the program declares count. The end of a body is none, except an `outcome: failure` that
    fails the run. If every ending really is a success, write `outcome: success` at one of them: then nothing is
    reported.

    ## Why it is bad
    The run has the status SUCCESS in every case. So statistics, alerts and retries that use the status can't
    distinguish a refused or failed request from a completed one.

    ## Example
    ```yaml
    name: triage
    inputs: {request: {type: string}}
    steps:
      - {id: judge, type: llm, prompt: "Valid? $request", output_key: valid, allowed_outputs: [yes, no]}
      - {id: is_valid, type: condition, condition: $valid == 'yes', then: accept, otherwise: refuse}
      - {id: accept, type: end}
      - {id: refuse, type: end}
    ```

    ## Use instead
    ```yaml
    name: triage
    inputs: {request: {type: string}}
    steps:
      - {id: judge, type: llm, prompt: "Valid? $request", output_key: valid, allowed_outputs: [yes, no]}
      - {id: is_valid, type: condition, condition: $valid == 'yes', then: accept, otherwise: refuse}
      - {id: accept, type: end}
      - {id: refuse, type: end, outcome: failure}
    ```
    """

    code = "SW107"
    name = "no-failure-ending"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the first step that decides between endings, when no reachable one states its outcome."""
        flow = context.facts.flow
        if flow.has_missing_target:
            return
        steps, graph = flow.steps, context.facts.graph
        reachable = sorted(graph.reachable)
        failing = (number for number in reachable for one in flow.transitions[number] if one.ending == DECLARED_FAILURE)
        if not all(map(graph.takes_failures, failing)):  # one that a step around takes is no ending of the run
            return
        endings = [number for number in reachable if graph.ends_the_run(number)]
        if len(endings) < 2 or any("outcome" in vars(steps[ending]) for ending in endings):
            return
        searched = 0
        for number in reachable:
            step, reason = steps[number], self._decides(context, number)
            if reason is None:
                continue
            searched += len(steps)
            if searched > SEARCHED_STEPS or graph.parts_endings(number, endings):
                message = f"{reason}, but no ending is declared a failure"
                help = "mark each failure with `outcome: failure`; if there is none, mark one with `outcome: success`"
                related = [
                    Label(Place((*context.facts.flow.layout.path(end), "id")), "this ending is declared a success")
                    for end in endings
                ]
                yield self.finding(
                    message,
                    help,
                    Place((*context.facts.flow.layout.path(number), "id")),
                    step=step.id,
                    related=related[:4],
                )
                return

    def _decides(self, context: Context, number: int) -> str | None:
        step = context.facts.flow.steps[number]
        if isinstance(step, FailingStep) and step.caught:
            return f"an error of `{step.id}` decides where the run goes"
        if isinstance(step, ConditionStep) and any(
            source.kind == "output" and isinstance(context.facts.call_of(source), LlmCall)
            for source in context.analyses.passing.sources(number)
        ):
            return f"a model's reply decides `{step.id}`"
        return None


class SameBranches(Rule):
    """Both branches of a condition name the same step, so it decides nothing.

    ## What it does
    Reports a two-way condition whose `then` and `otherwise` name the same step. The cases of a many-way condition may
    share a target, because several values may be treated in the same manner.

    ## Why it is bad
    The condition looks like a check, but the run goes on to the same step whatever the result is. Usually one of the
    names was copied and not changed.

    ## Example
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 100, then: accept, otherwise: accept}
      - {id: accept, type: end}
    ```

    ## Use instead
    ```yaml
    name: amount_check
    inputs: {amount: {type: number}}
    steps:
      - {id: is_large, type: condition, condition: $amount > 100, then: review, otherwise: accept}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```
    """

    code = "SW108"
    name = "same-branches"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every two-way condition whose branches agree."""
        for number, step in context.facts.conditions:
            if step.then is not None and step.then == step.otherwise:
                message = f"`then` and `otherwise` both name `{step.then}`"
                help = "name two different steps, or replace the condition by `next_step`"
                related = [Label(Place((*context.facts.flow.layout.path(number), "then")), "the same step")]
                yield self.finding(
                    message,
                    help,
                    Place((*context.facts.flow.layout.path(number), "otherwise")),
                    step=step.id,
                    related=related,
                )
