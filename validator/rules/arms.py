"""SW106: is it clear where a run goes after an arm (a step that a branch, a case or an `error_step` names)."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import Rule
from stepward.validator.rules.changed_steps import with_fields, written_id
from stepward.validator.rules.control_flow import CycleWithoutExit, UnboundedCycle, UnreachableStep
from stepward.validator.rules.naming import MAX_TRIED, naming_transitions
from stepward.vm.reading.source import Correction, Place


class AmbiguousArm(Rule):
    """A branch names the step, and the step above also leads to it, so it is not clear whether the run ends there.

    ## What it does
    A step that a branch, a case or an `error_step` names is an *arm*, and ends the run. After any other step, the run
    goes on to the next step in the list. Reports a step to which both rules apply: an arm without `next_step` or
    `is_terminal` that is the first step, or that the step above leads to without `next_step`. Conditions, `end` steps
    and the last step of the list are never reported.

    ## Why it is bad
    One reader expects the run to end here. Another reader expects it to go on to the step below, which may be a
    payment. The machine refuses the program until it says which of the two is meant.

    ## Example
    `look` is the first step, and also an arm of `is_paid`. Does the run end after `look`, or does it go on to
    `is_paid`?

    ```yaml
    name: wait_for_payment
    tools: {read_status: {effect: read, returns: {type: string, enum: [open, paid]}}}
    max_steps: 50
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: look}
      - {id: done, type: end}
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

    code = "SW106"
    name = "ambiguous-arm"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every arm without `next_step` and `is_terminal` that is the entry or that control falls into."""
        steps = context.facts.flow.steps
        for count, number in enumerate(sorted(context.facts.flow.ambiguous_arms)):
            step = steps[number]
            before = context.facts.flow.before(number)
            of = "body" if number in context.facts.flow.layout.owners else "program"
            above = f"it is the entry of the {of}"
            if before is not None:
                above = f"step `{steps[before].id}` above leads to it"
            message = f"`{step.id}` is an arm, and {above}: it is not clear whether the run ends after it"
            related = [
                Label(Place((*context.facts.flow.layout.path(source), *transition.field)), "it is named here")
                for source, transition in list(naming_transitions(context.facts.flow, step.id))[:1]
            ]
            help, correction = (
                _suggestions(context, number) if count < MAX_TRIED else (_say_where_it_goes(step.id), None)
            )
            yield self.finding(
                message,
                help,
                Place((*context.facts.flow.layout.path(number), "id")),
                step=step.id,
                related=related,
                correction=correction,
            )


def _say_where_it_goes(step: str) -> str:
    return f"say where the run goes after `{step}`: `next_step`, or `is_terminal: true` to end"


def _suggestions(context: Context, number: int) -> tuple[str, Correction | None]:
    """Return the help that says where control can go after an ambiguous arm, and the edit that is safe, if any.

    A change that makes a loop without a bound or an exit, or a step unreachable, is not suggested. To go on is safe
    where to end would be such a change: then nothing else leads to the step behind the arm.
    """
    flow, layout = context.facts.flow, context.facts.flow.layout
    after, above = layout.after(number), flow.before(number)
    assert after is not None, "an ambiguous arm is not the last step"
    step, following = flow.steps[number], written_id(layout, after)
    goes_on, ends = _is_sound(context, number, next_step=following), _is_sound(context, number, is_terminal=True)
    suggestions = [f"add `next_step: {following}` to `{step.id}` to go on"] if goes_on else []
    if ends:
        suggestions.append(f"add `is_terminal: true` to `{step.id}` to end")
    if above is not None and _is_sound(context, above, next_step=following):
        suggestions.append(f"add `next_step: {following}` to `{flow.steps[above].id}` to skip it")
    correction = Correction(Place(layout.path(number)), following, "next_step") if goes_on and not ends else None
    if not suggestions:
        return _say_where_it_goes(step.id), None
    return ", or ".join(suggestions), correction


def _is_sound(context: Context, number: int, **fields: object) -> bool:
    """Return whether adding fields to one step removes an ambiguous arm and causes no error of control flow."""
    changed = Context(with_fields(context.facts.program, context.facts.flow.layout, {number: fields}))
    if len(changed.facts.flow.ambiguous_arms) >= len(context.facts.flow.ambiguous_arms):
        return False
    rules = (UnreachableStep(), CycleWithoutExit(), UnboundedCycle())

    def found(context_: Context) -> set[tuple[str, str | None]]:
        return {(finding.code, finding.step) for rule in rules for finding in rule.check(context_)}

    return found(changed) <= found(context)
