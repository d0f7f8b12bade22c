"""SW501 to SW505: do effects happen once, and are parallel steps independent of each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stepward.validator.analysis.readings import Reading
from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity, Verdict
from stepward.validator.rules.base import Rule
from stepward.vm.expressions.fields import written
from stepward.vm.language.clauses import CallSite
from stepward.vm.language.guardrails import AtMostOnce
from stepward.vm.language.names import Source
from stepward.vm.language.steps import AnyStep, Call, Failing, FailingStep, ForEachStep, ParallelStep, ToolCall
from stepward.vm.reading.source import Place


class ParallelRace(Rule):
    """Two sub-steps of one parallel step bind the same name, so one of the two outputs is lost.

    ## What it does
    Reports an `output_key` that a sibling or the parallel step itself also binds. The outputs are bound after all
    sub-steps have ended, in the order of the list, so the last one overwrites the others.

    ## Why it is bad
    One of the two outputs is lost in every run. The call was made, and no step can read its result.

    ## Example
    ```yaml
    name: two_quotes
    tools: {ask_north: {effect: read}, ask_south: {effect: read}}
    steps:
      - id: quotes
        type: parallel
        parallel_steps:
          - {id: north, type: tool, tool: ask_north, output_key: quote}
          - {id: south, type: tool, tool: ask_south, output_key: quote}
    ```

    ## Use instead
    ```yaml
    name: two_quotes
    tools: {ask_north: {effect: read}, ask_south: {effect: read}}
    steps:
      - id: quotes
        type: parallel
        parallel_steps:
          - {id: north, type: tool, tool: ask_north, output_key: north_quote}
          - {id: south, type: tool, tool: ask_south, output_key: south_quote}
    ```
    """

    code = "SW501"
    name = "parallel-race"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every `output_key` that a sibling, or the parallel step itself, binds too."""
        for number, step in context.facts.parallels:
            first: dict[str, Place] = {}
            if step.output_key is not None:
                first[step.output_key] = Place((*context.facts.flow.layout.path(number), "output_key"))
            for sub, part in enumerate(step.parallel_steps):
                if part.output_key is None:
                    continue
                place = Place((*context.facts.flow.layout.path(number, sub), "output_key"))
                if part.output_key in first:
                    related = [Label(first[part.output_key], "it is bound here too")]
                    message = f"`{part.output_key}` is bound twice in `{step.id}`: one of the two outputs is lost"
                    yield self.finding(message, "give it another name", place, step=part.id, related=related)
                first.setdefault(part.output_key, place)


class SiblingRead(Rule):
    """A sub-step reads the output of a sibling that it does not depend on, and does not see it.

    ## What it does
    Reports every reference in a sub-step to the output of another sub-step of the same parallel step, by `output_key`
    or by id, unless it depends on that one by `depends_on`, directly or indirectly. If no step before the parallel step
    defines the name, SW202 is reported too. A branch, too, reads the output of another one only if it depends on it.

    ## Why it is bad
    The siblings run at the same time, and a sub-step does not see the output of one that it does not depend on. The
    reference is undefined, or it still has the value of an earlier visit.

    ## Example
    ```yaml
    name: order_page
    tools: {find_order: {effect: read}, find_parcel: {effect: read}}
    steps:
      - id: look_up
        type: parallel
        parallel_steps:
          - {id: order, type: tool, tool: find_order}
          - {id: parcel, type: tool, tool: find_parcel, args: {order: $order.output}}
    ```

    ## Use instead
    ```yaml
    name: order_page
    language: 2
    tools: {find_order: {effect: read}, find_parcel: {effect: read}}
    steps:
      - id: look_up
        type: parallel
        parallel_steps:
          - {id: order, type: tool, tool: find_order}
          - {id: parcel, type: tool, tool: find_parcel, args: {order: $order.output}, depends_on: [order]}
    ```
    """

    code = "SW502"
    name = "sibling-read"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every reading, in a sub-step, of a name that a sibling defines."""
        for reading in context.analyses.assignment.readings if context.facts.parallels else ():
            if reading.sub is None or reading.resolution is None:
                continue
            order = context.facts.meaning.orders.get(reading.step)
            seen = {reading.sub} if order is None else {reading.sub, *order.before[reading.sub]}
            siblings = [one for one in reading.resolution.sources if one.step == reading.step and one.sub is not None]
            # Of two that give one variable, the one that comes before is read.
            if not siblings or any(one.sub in seen for one in siblings):
                continue
            yield self._unseen(context, reading, siblings[0])
        layout = context.facts.flow.layout
        for one in context.facts.sibling_reads:
            whole = next(context.facts.flow.steps[owner].id for owner in layout.owners_of_branch(one.branch))
            message = f"`${written(one.names)}` belongs to a branch that runs at the same time as `{one.branch}`"
            help = f"move this step after `{whole}`, where it is defined"
            if one.names[1] == "output" and one.names[0] != one.branch:
                help = f"add `{one.names[0]}` to the `depends_on` of `{one.branch}`, or {help}"
            step = context.facts.flow.steps[one.step].id
            yield self.finding(message, help, Place(one.path), step=step)

    def _unseen(self, context: Context, reading: Reading, source: Source) -> Finding:
        whole = context.facts.flow.steps[reading.step]
        assert source.sub is not None
        assert reading.sub is not None
        sibling, order = whole.sub_steps[source.sub].id, context.facts.meaning.orders.get(reading.step)
        message = f"`{reading.reference.text()}` is the output of a sibling, which runs at the same time"
        help = f"move this step after `{whole.id}`, where the output is defined"
        is_behind = order is not None and reading.sub in order.before[source.sub]
        if context.facts.program.language > 1 and not is_behind:
            has_some = order is not None and order.needs[reading.sub]
            first = f"add `{sibling}` to its `depends_on`" if has_some else f"give it `depends_on: [{sibling}]`"
            help = f"{first}, or {help}"
        related = [Label(Place((*source.path, "id")), "the sibling is here")]
        step = context.analyses.reader(reading).id
        return self.finding(message, help, reading.place, step=step, related=related)


def _writes_once(context: Context, site: CallSite) -> bool:
    return isinstance(site.call, ToolCall) and context.facts.meaning.tool(site.call.tool).writes_once


def _is_retried(step: Failing) -> bool:
    """Return whether a step makes a second attempt; `max_retries` counts attempts in all."""
    return step.on_error == "retry" and step.max_retries > 1


def known_sites(context: Context) -> list[CallSite]:
    """Return the calls of tools that write, of a program without `tools` only those that a policy declares (SW213)."""
    unknown = unknown_sites(context)
    return [site for site, _ in context.facts.writing_calls if site not in unknown]


def unknown_sites(context: Context) -> list[CallSite]:
    """Return the calls of a program without `tools` of whose tools no policy says anything either."""
    if context.facts.program.tools is not None:
        return []
    return [site for site, call in context.facts.writing_calls if call.tool not in context.facts.meaning.manifest]


def _fact(context: Context, site: CallSite) -> str:
    assert isinstance(site.call, ToolCall)
    if site.call.tool in context.facts.meaning.manifest:
        return f"`{site.call.tool}` writes and is not idempotent"
    return f"`{site.call.tool}` is declared nowhere, so it is assumed to write and not to be idempotent"


def _or_declare(context: Context, site: CallSite) -> str:
    """Return the further help to declare a tool that is not declared: only the author knows what it does."""
    assert isinstance(site.call, ToolCall)
    return "" if site.call.tool in context.facts.meaning.manifest else "; or declare under `tools` what each tool does"


def _without(context: Context, site: CallSite, field_words: str) -> str:
    """Return the help to remove a field that hides a failure (`field_words`), and to route the failure."""
    whole = context.facts.flow.steps[site.step]
    assert isinstance(site.call, ToolCall)
    # A time-out of such a write is no failure: nobody knows whether it happened.
    doubt = " (a time-out is no failure: it leaves the run IN_DOUBT)" if site.call.timeout_seconds is not None else ""
    on_whole = "" if site.sub is None else f" on the parallel step `{whole.id}`"
    return _routed(whole, field_words, on_whole) + doubt


def _routed(whole: AnyStep, field_words: str, where: str = "") -> str:
    """Return the help to remove a field of a step (`field_words`), and to route its failure."""
    if isinstance(whole, FailingStep) and whole.error_step is not None:
        return f"remove {field_words}, so that a failure goes to `{whole.error_step}`"
    if isinstance(whole, FailingStep) and whole.catch is not None:
        return f"remove {field_words}, so that a failure goes where `catch` says"
    return f"remove {field_words}, and route the failure with `error_step`{where}"


def _is_written(context: Context, place: Place, field: str) -> bool:
    """Return whether a field is in the text beside the field at a place, also with the value of its default."""
    document = context.facts.program.document
    data: Any = document.data if document else context.facts.program.to_data()
    for part in place.path[:-1]:
        data = data[part]
    return field in data


_KEEP = "; keep it only if a second call with the same idempotency key has no effect, and declare `idempotent: true`"


class RetriedEffect(Rule):
    """A retry repeats a call of a tool that writes and is not idempotent, so every attempt may write again.

    ## What it does
    Reports `on_error: retry` with more than one attempt on a call of a tool that writes and is not idempotent, and on a
    parallel step with such a call. It also reports `retry` on such a call: the machine never obeys it there. A step
    with a body performs the whole body again in each attempt, with new idempotency keys. So a retry of such a step is
    reported for each write in its body, also for an idempotent one. A tool that is not declared is assumed to write and
    not to be idempotent; in a program without `tools`, SW213 says this once.

    ## Why it is bad
    An attempt that timed out may still have written. The next attempt writes again: for example, the customer is
    charged twice.

    ## Example
    ```yaml
    name: charge
    tools: {charge_card: {effect: write, idempotent: false}}
    steps:
      - {id: charge, type: tool, tool: charge_card, on_error: retry, max_retries: 3}
    ```

    ## Use instead
    ```yaml
    name: charge
    tools: {charge_card: {effect: write, idempotent: false}}
    steps:
      - {id: charge, type: tool, tool: charge_card}
    ```

    An attempt that times out then leaves the run IN_DOUBT: somebody looks whether the write happened, and says so.
    Declare `idempotent: true` and keep the retry only if the tool hands the idempotency key of the machine to a service
    that does nothing twice under one key.
    """

    code = "SW503"
    name = "retried-effect"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every retry, also of a whole parallel step, that performs a non-idempotent write again."""
        yield from self.at(context, known_sites(context))

    def at(self, context: Context, sites: Iterable[CallSite]) -> Iterator[Finding]:
        """Yield the findings at some of the calls of tools that write."""
        for site in sites:
            yield from self._in_rounds(context, site)
            if not _writes_once(context, site):
                continue
            whole = context.facts.flow.steps[site.step]
            place = None
            if _is_retried(site.call):
                place = Place((*site.path, "on_error"))
            elif isinstance(whole, ParallelStep) and _is_retried(whole) and site.call.on_error != "skip":
                place = Place((*context.facts.flow.layout.path(site.step), "on_error"))
            if site.call.retry is not None:
                message = f"{_fact(context, site)}: the machine never tries it again"
                help = _without(context, site, "`retry`") + (_or_declare(context, site) or _KEEP)
                yield self.finding(message, help, Place((*site.path, "retry")), step=site.call.id)
            if place is not None:
                message = f"{_fact(context, site)}: a retry performs it again"
                fields = "`on_error: retry`" + " and `max_retries`" * _is_written(context, place, "max_retries")
                help = _without(context, site, fields)
                help += _or_declare(context, site) or _KEEP
                related = [Label(Place((*site.path, "tool")), "the tool is called here")]
                yield self.finding(message, help, place, step=site.call.id, related=related)

    def _in_rounds(self, context: Context, site: CallSite) -> Iterator[Finding]:
        """Yield the retries of steps around a write: each attempt performs their bodies with new idempotency keys."""
        assert isinstance(site.call, ToolCall)
        layout = context.facts.flow.layout
        for owner in layout.owners_of(site.step):
            whole = layout.steps[owner]
            if not isinstance(whole, ForEachStep) or not _is_retried(whole):
                continue
            if whole.on_item_error == "skip":
                continue  # no failure in its body is a failure of the step
            place = Place((*layout.path(owner), "on_error"))
            fields = "`on_error: retry`" + " and `max_retries`" * _is_written(context, place, "max_retries")
            message = f"`{site.call.tool}` writes in the body of `{whole.id}`: a retry performs the body again"
            help = f"{_routed(whole, fields)}; in the body, retry the calls that can fail: there a write keeps its key"
            if _writes_once(context, site):
                help = f"{_routed(whole, fields)}; in the body, retry calls that only read, and not `{site.call.id}`"
            related = [Label(Place((*site.path, "tool")), "the tool is called here")]
            yield self.finding(message, help, place, step=whole.id, related=related)


class EffectInLoop(Rule):
    """A non-idempotent write is in a loop, so the program performs it again in every iteration.

    ## What it does
    Reports every call of a tool that writes and is not idempotent, if its step is part of a loop. A bound on the loop
    is not enough, unless it lets a run start the step only once, for example `max_visits: 1` on the step. A call is not
    reported if a guardrail with `at_most_once` is proved for it.

    ## Why it is bad
    Every iteration writes again: for example, it sends another mail or charges the customer again. Usually only the
    read belongs in the loop, and the write belongs after it.

    ## Example
    ```yaml
    name: remind
    tools:
      read_status: {effect: read, returns: {type: string, enum: [open, paid]}}
      send_reminder: {effect: write, idempotent: false}
    max_steps: 20
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: nudge}
      - {id: nudge, type: tool, tool: send_reminder, next_step: look}
      - {id: done, type: end}
    ```

    ## Use instead
    ```yaml
    name: remind
    tools:
      read_status: {effect: read, returns: {type: string, enum: [open, paid]}}
      send_reminder: {effect: write, idempotent: false}
    max_steps: 20
    steps:
      - {id: look, type: tool, tool: read_status, output_key: status}
      - {id: is_paid, type: condition, condition: $status == 'paid', then: done, otherwise: nudge}
      - {id: nudge, type: tool, tool: send_reminder, is_terminal: true}
      - {id: done, type: end}
    ```
    """

    code = "SW504"
    name = "effect-in-loop"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every call of a non-idempotent write tool in a loop."""
        yield from self.at(context, known_sites(context))

    def at(self, context: Context, sites: Iterable[CallSite]) -> Iterator[Finding]:
        """Yield the findings at some of the calls of tools that write."""
        for site in sites:
            if (
                site.step in context.facts.graph.in_written_loop
                and _writes_once(context, site)
                and context.analyses.bounds.starts(site.step) != 1
                and not _is_proved_once(context, site)
            ):
                message = f"{_fact(context, site)}, and is in a loop"
                help = f"{_once(context, site)}, or move it out of the loop{_or_declare(context, site)}"
                yield self.finding(message, help, Place((*site.path, "tool")), step=site.call.id)


def _once(context: Context, site: CallSite) -> str:
    """Return the help to let a run start a step once only."""
    whole = context.facts.flow.steps[site.step]
    has_route = isinstance(whole, FailingStep) and whole.after_visits is not None
    route = "" if has_route else " and an `error_step` that takes the second visit"
    return f"give `{whole.id}` `max_visits: 1`{route}"


def _is_proved_once(context: Context, site: CallSite) -> bool:
    """Whether a guardrail says that a run makes this call at most once, and is proved."""
    rules = [(rule, policy) for rule, policy in context.facts.meaning.rules if isinstance(rule, AtMostOnce)]
    rules = [(rule, policy) for rule, policy in rules if _selects(context, rule, site)]
    properties = [judgement.property for judgement in context.verdicts.judgements] if rules else []
    proved = {(one.policy, one.rule) for one in properties if one.verdict is Verdict.PROVED}
    unsure = {(one.policy, one.rule) for one in properties if one.verdict is not Verdict.PROVED}
    names = {(policy.policy if policy else None, rule.name) for rule, policy in rules}
    return bool(names & proved - unsure)


def _selects(context: Context, rule: AtMostOnce, site: CallSite) -> bool:
    return any((hit.step, hit.part.id) == (site.step, site.call.id) for hit in context.facts.hits(rule.at_most_once))


class FallbackForEffect(Rule):
    """A fallback or a skip hides a non-idempotent write that may have happened.

    ## What it does
    Reports `on_timeout: fallback` and `on_error: skip` on a call of a tool that writes and is not idempotent. A tool
    that is not declared is assumed to be such a tool; in a program without `tools`, SW213 says this once.

    ## Why it is bad
    If such a call times out, nobody knows whether the write happened, and the run goes on as if it did not. Later steps
    may then write a second time, or send the customer wrong information.

    ## Example
    ```yaml
    name: charge
    tools: {charge_card: {effect: write, idempotent: false}, send_receipt: {effect: write, idempotent: true}}
    steps:
      - {id: charge, type: tool, tool: charge_card, on_error: skip}
      - {id: receipt, type: tool, tool: send_receipt}
    ```

    ## Use instead
    ```yaml
    name: charge
    tools: {charge_card: {effect: write, idempotent: false}, send_receipt: {effect: write, idempotent: true}}
    steps:
      - {id: charge, type: tool, tool: charge_card, error_step: not_charged, next_step: receipt}
      - {id: receipt, type: tool, tool: send_receipt, is_terminal: true}
      - {id: not_charged, type: end, outcome: failure}
    ```
    """

    code = "SW505"
    name = "fallback-for-effect"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every time-out fallback and every skip of a non-idempotent write."""
        yield from self.at(context, known_sites(context))

    def at(self, context: Context, sites: Iterable[CallSite]) -> Iterator[Finding]:
        """Yield the findings at some of the calls of tools that write."""
        for site in sites:
            if not _writes_once(context, site):
                continue
            call: Call = site.call
            for field, is_set in (("on_timeout", call.on_timeout == "fallback"), ("on_error", call.on_error == "skip")):
                if is_set:
                    message = f"{_fact(context, site)}: the run goes on although the write may have happened"
                    what = "`on_error: skip`" if field == "on_error" else "`on_timeout: fallback` and `fallback`"
                    help = _without(context, site, what) + _or_declare(context, site)
                    related = [Label(Place((*site.path, "tool")), "the tool is called here")]
                    yield self.finding(message, help, Place((*site.path, field)), step=call.id, related=related)
