"""SW113: does every list fit into the for_each step that goes through it; and which `items` are no lists (SW203)."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.context import Context
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import Rule
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.steps import AnyStep, ForEachStep
from stepward.vm.language.steps.catching import TOO_MANY_ITEMS
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Place


class LongList(Rule):
    """The list of a for_each step can be longer than `max_items`, and the step fails then.

    ## What it does
    Reports a for_each step whose list is not known to have at most `max_items` items, if nothing takes the failure:
    the step has neither `on_error: skip`, nor an `error_step` or an entry of `catch` that takes `TooManyItems`. The
    type of the list says how long it can be, with `maxItems`. A list that is written in the step is reported in any
    case: the step fails in each run.

    ## Why it is bad
    A list that is too long fails before its first item, and with it the run. So the program stops working when its
    data grow.

    ## Example
    ```yaml
    name: remind
    language: 2
    inputs: {mails: {type: array, items: {type: string, maxLength: 200}}}
    tools: {send: {effect: write, idempotent: true, args: {to: {type: string}}}}
    steps:
      - id: each
        type: for_each
        items: $mails
        as: mail
        max_items: 100
        do: {id: write, type: tool, tool: send, args: {to: $mail}}
    ```

    ## Use instead
    ```yaml
    name: remind
    language: 2
    inputs: {mails: {type: array, items: {type: string, maxLength: 200}, maxItems: 100}}
    tools: {send: {effect: write, idempotent: true, args: {to: {type: string}}}}
    steps:
      - id: each
        type: for_each
        items: $mails
        as: mail
        max_items: 100
        do: {id: write, type: tool, tool: send, args: {to: $mail}}
    ```
    """

    code = "SW113"
    name = "long-list"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the for_each steps that a list which is too long ends the run, or the body around them, with."""
        facts = context.facts
        for owner in facts.flow.layout.bodies:
            step, most = facts.bodies.each(owner), facts.meaning.most_items(owner)
            if owner not in facts.graph.reachable or most is None or _fits(facts, owner, most):
                continue
            if _is_no_list(facts, owner):
                continue  # SW203 reports it
            transition = facts.flow.failure(owner, TOO_MANY_ITEMS)
            is_taken = transition.kind == "skipped" or transition.ending is None
            if is_taken and not isinstance(step.items, tuple):
                continue
            place = Place((*facts.flow.layout.path(owner), "items"))
            if isinstance(step.items, tuple):
                message = f"the list of `{step.id}` has {len(step.items)} items, and `max_items` is {most}"
                yield self.finding(message, f"write `max_items: {len(step.items)}`", place, step=step.id)
                continue
            message = f"the list of `{step.id}` can have more than {most} items: then the step fails"
            help = f"declare `maxItems: {most}` in the type of the list, or give `{step.id}` an `error_step`"
            yield self.finding(message, help, place, step=step.id)


def no_lists(rule: Rule, context: Context) -> Iterator[Finding]:
    """Yield the `items` of for_each steps that are never lists."""
    facts = context.facts
    for owner in facts.flow.layout.bodies:
        step = facts.bodies.each(owner)
        if _is_no_list(facts, owner):
            message = f"`{step.items}` is never a list, so `{step.id}` has no items"
            place = Place((*facts.flow.layout.path(owner), "items"))
            yield rule.finding(message, "name a list, or declare its type", place, step=step.id)


def _is_no_list(facts: ProgramFacts, owner: int) -> bool:
    """Return whether the items of a for_each step are a reference whose values are known to be of other types."""
    names = lone_reference(facts.bodies.each(owner).items)
    view = None if names is None else facts.meaning.view(names)
    return view is not None and view.is_known and not view.never and "array" not in view.kinds


def _fits(facts: ProgramFacts, owner: int, most: int) -> bool:
    """Return whether the list of a for_each step has at most so many items, by the values that it is copied from."""
    if facts.bodies.list_fits(owner):
        return True
    names = lone_reference(facts.bodies.each(owner).items)
    resolution = None if names is None else facts.meaning.names.meaning(names)
    if resolution is None:
        return False
    sources = [
        facts.flow.steps[one.step] for one in resolution.sources if one.kind == "output" and one.step is not None
    ]
    lists = [facts.meaning.most_items(facts.flow.position[one.id]) for one in sources if _has_items(one)]
    # The output of each has an item for each item of its own list.
    if lists and len(lists) == len(resolution.sources) and not resolution.fields:
        return all(one is not None and one <= most for one in lists)
    return facts.given_types.are_of(resolution, TypeSpec(type=("array",), maxItems=most))


def _has_items(step: AnyStep) -> bool:
    return isinstance(step, ForEachStep) and not step.is_once
