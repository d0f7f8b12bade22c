"""SW111 and SW112: is every declared error handled, and is every entry of `catch` and `retry` used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.vm.language.flow import Flow
from stepward.vm.language.similar import alike
from stepward.vm.language.steps import (
    AnyCall,
    AnyPart,
    BranchStep,
    Call,
    Failing,
    FailingStep,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    ToolCall,
)
from stepward.vm.language.steps.catching import (
    BAD_OUTPUT,
    DEADLINE,
    DEPENDENCY,
    RESERVED,
    TIMEOUT,
    UNDEFINED_NAME,
    UNSTARTED,
    VISITS,
    Catch,
    Retry,
)
from stepward.vm.language.transitions import ANY
from stepward.vm.reading.source import Place


class UnhandledError(Rule):
    """A tool declares an error, and the step that calls the tool handles it nowhere.

    ## What it does
    Reports every call of a tool whose `errors` have a name that ends the run FAILED: no entry of `catch` takes it, and
    the step has neither an `error_step` nor `on_error: skip`. For a sub-step, these fields of the parallel step count
    too. For a step of a body, those of the step that has the body count, with `on_item_error: skip`. An entry of
    `retry` handles nothing, because the last attempt may fail with the same error. Only programs of language 2 are
    asked.

    ## Why it is bad
    The tool says that this error belongs to its work: a card is declined, a seat is taken. The program has no answer
    to it, and the customer gets none.

    ## Example
    ```yaml
    name: charge
    language: 2
    tools: {charge_card: {effect: write, idempotent: false, errors: [CardDeclined]}}
    steps:
      - {id: charge, type: tool, tool: charge_card}
    ```

    ## Use instead
    ```yaml
    name: charge
    language: 2
    tools: {charge_card: {effect: write, idempotent: false, errors: [CardDeclined]}}
    steps:
      - id: charge
        type: tool
        tool: charge_card
        catch: [{errors: [CardDeclined], then: declined}]
        is_terminal: true
      - {id: declined, type: end, outcome: failure}
    ```
    """

    code = "SW111"
    name = "unhandled-error"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the calls with declared errors that end the run."""
        if context.facts.program.language == 1:
            return
        for site in context.facts.meaning.calls:
            if not isinstance(site.call, ToolCall) or site.step not in context.facts.graph.reachable:
                continue
            names = [
                name
                for name in context.facts.meaning.tool(site.call.tool).errors or ()
                if _ends_the_run(context, site.step, site.call, name)
            ]
            if names:
                whole = context.facts.flow.steps[site.step]
                words = " and ".join(f"`{name}`" for name in names)
                message = f"nothing handles {words} of `{site.call.tool}`: the run ends FAILED"
                help = f"give `{whole.id}` an entry of `catch` for {'it' if len(names) == 1 else 'them'}"
                place = Place((*site.path, "tool"))
                yield self.finding(message, f"{help}, or an `error_step`", place, step=site.call.id)


def _ends_the_run(context: Context, number: int, call: AnyCall, name: str) -> bool:
    return call.on_error != "skip" and _is_unhandled(context.facts.flow, number, name)


def _is_unhandled(flow: Flow, number: int, name: str) -> bool:
    """Return whether the failure of a step ends the run: nothing takes it there, nor at the steps in whose bodies it
    is."""
    transition = flow.failure(number, name)
    if transition.kind == "skipped" or transition.ending is None:
        return False
    owner = flow.layout.owner(number)
    if owner is None:
        return True
    stage = flow.layout.stage_of_failure(owner)
    return stage is not None and _is_unhandled(flow, stage, name)


class UnusedCatch(Rule):
    """An entry of `catch` or `retry` is never used: the step can't fail so, or an entry above takes the error.

    ## What it does
    Reports names in `catch` and `retry` with which the step can't fail, and names that an entry above takes already. An
    `any` is reported if the entries above take every error. A step can fail with the errors that its tool declares, and
    with those of the machine that apply to it: `Timeout` needs `timeout_seconds`, and `Visits` needs `max_visits`.
    `Deadline` needs a tool that suspends, with `deadline_seconds`.
    `Dependency` needs a sub-step that depends on one with `on_error: skip`. A for_each step can fail with the errors
    that end its items, and with those of its list: with `Undefined` only if the list, or what an item reads, may be
    undefined. A write never fails with `Timeout`, `Deadline` or `BadOutput`: the run is IN_DOUBT.

    ## Why it is bad
    The name is misspelt, or the manifest does not know the error. Then the error that was meant ends the run, or goes
    where another entry sends it.

    ## Example
    ```yaml
    name: charge
    language: 2
    tools: {charge_card: {effect: write, idempotent: false, errors: [CardDeclined]}}
    steps:
      - id: charge
        type: tool
        tool: charge_card
        timeout_seconds: 20
        catch: [{errors: [CardDeclined], then: failed}, {errors: [Timeout], then: failed}]
        is_terminal: true
      - {id: failed, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: charge
    language: 2
    tools: {charge_card: {effect: write, idempotent: false, errors: [CardDeclined]}}
    steps:
      - id: charge
        type: tool
        tool: charge_card
        timeout_seconds: 20
        catch: [{errors: [CardDeclined], then: failed}, {errors: [any], then: failed}]
        is_terminal: true
      - {id: failed, type: end, outcome: failure}
    ```
    """

    code = "SW112"
    name = "unused-catch"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the names in `catch` and `retry` that no failure has, and those that an entry above takes."""
        for number, step in enumerate(context.facts.flow.steps):
            if isinstance(step, FailingStep) and step.catch is not None:
                place = Place((*context.facts.flow.layout.path(number), "catch"))
                names = context.facts.failing.all(step)
                if _has_its_list(context, number):
                    names = tuple(name for name in names if name != UNDEFINED_NAME)
                yield from self._unused(context, step, "catch", step.catch, names, place)
        for site in context.facts.meaning.calls:
            if site.call.retry is not None and not _must_not_repeat(context, site.call):
                names = (*context.facts.failing.started(site.call), *_repeated(context, site.call))
                place = Place((*site.path, "retry"))
                yield from self._unused(context, site.call, "retry", site.call.retry, names, place)

    def _unused(
        self,
        context: Context,
        step: Failing,
        field: str,
        entries: Sequence[Catch | Retry],
        possible: Sequence[str],
        place: Place,
    ) -> Iterator[Finding]:
        first: dict[str, Place] = {}
        for number, entry in enumerate(entries):
            entry_place = place.child(number, "errors")
            for position, name in enumerate(entry.errors):
                at = entry_place.child(position)
                if name == ANY:
                    if all(one in first for one in possible):
                        message = f"the entries of `{field}` above take every error of `{step.id}`"
                        yield self.finding(message, "remove this entry", at, step=step.id)
                elif name not in possible:
                    reason, help = _why_never(context, step, name)
                    yield self.finding(f"`{step.id}` never fails with `{name}`: {reason}", help, at, step=step.id)
                elif name in first:
                    related = [Label(first[name], "it is taken here")]
                    message = f"an entry of `{field}` above takes `{name}` already"
                    yield self.finding(message, "remove it here", at, step=step.id, related=related)
            covered = {name: entry_place for name in possible if entry.takes(name) and name not in first}
            first |= covered


def _has_its_list(context: Context, number: int) -> bool:
    """Return whether a for_each step never fails because something is undefined: its list and the values of `carry` are
    always there, and so is what its items read."""
    step = context.facts.flow.steps[number]
    if not isinstance(step, ForEachStep) or isinstance(step, InvokeStep | BranchStep):
        return False
    reads = {number, *context.facts.flow.layout.inside(number)} if step.on_item_error == "fail" else {number}
    return reads.isdisjoint(context.analyses.assignment.doubtful_steps)


def _must_not_repeat(context: Context, call: AnyCall) -> bool:
    """Return whether `retry` never applies to a call: SW503 reports that."""
    return isinstance(call, ToolCall) and context.facts.meaning.tool(call.tool).writes_once


def _repeated(context: Context, call: AnyCall) -> tuple[str, ...]:
    """Return the errors after which an attempt is repeated, although the call does not fail with them."""
    late: tuple[str, ...] = () if call.timeout_seconds is None else (TIMEOUT,)
    late += (DEADLINE,) if isinstance(call, ToolCall) and call.deadline_seconds is not None else ()
    is_write = isinstance(call, ToolCall) and context.facts.meaning.tool(call.tool).effect == "write"
    return (*late, BAD_OUTPUT) if is_write else late


def _why_never(context: Context, step: AnyPart | Failing, name: str) -> tuple[str, str]:
    """Return why a step never fails with an error, and what to do."""
    remove = f"remove `{name}`"
    is_write = isinstance(step, ToolCall) and context.facts.meaning.tool(step.tool).effect == "write"
    if name in (TIMEOUT, DEADLINE, BAD_OUTPUT) and is_write:
        return "a write that is late or returns a wrong type is in doubt", remove
    if name == DEADLINE and isinstance(step, ToolCall):
        if not context.facts.meaning.tool(step.tool).suspends:
            return f"`{step.tool}` does not suspend", remove
        return "it has no `deadline_seconds`", f"{remove}, or add `deadline_seconds`"
    if name == TIMEOUT and isinstance(step, Call) and step.timeout_seconds is not None:
        return "a time-out uses the `fallback`", remove
    if name == TIMEOUT:
        return "it has no `timeout_seconds`", f"{remove}, or add `timeout_seconds`"
    if name == VISITS:
        return "it has no `max_visits`", f"{remove}, or add `max_visits`"
    if name == DEPENDENCY and isinstance(step, ParallelStep):
        return "no sub-step that can fail depends on one with `on_error: skip`", remove
    if name in RESERVED and not isinstance(step, ForEachStep):
        reason = "it has no arguments that are checked" if name in UNSTARTED else "no step of this kind does"
        return reason, remove
    if isinstance(step, ForEachStep):
        return "all that it reads is always there" if name == UNDEFINED_NAME else "no item fails with it", remove
    if isinstance(step, ToolCall):
        similar = alike(name, context.facts.meaning.tool(step.tool).errors or (), n=1, cutoff=0.6)
        declare = f"add it to the `errors` of `{step.tool}`, or remove it"
        return f"`{step.tool}` does not declare it", f"did you mean `{similar[0]}`?" if similar else declare
    if isinstance(step, LlmCall):
        return "a model has no errors of its own", f"{remove}; the errors of a model are `Unexpected` and `BadOutput`"
    return "no tool of its sub-steps declares it", f"add it to the `errors` of a tool, or {remove}"
