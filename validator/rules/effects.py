"""SW501 to SW505: do effects happen once, and do parallel steps keep out of each other's way."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.vm.language.meaning import CallSite
from stepward.vm.language.steps import Call, ParallelStep, ToolCall
from stepward.vm.reading.source import Place


class ParallelRace(Rule):
    """Two sub-steps of one parallel step bind the same name: the later in the list wins, silently."""

    code = "SW501"
    name = "parallel-race"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every `output_key` that a sibling, or the parallel step itself, binds too."""
        for number, step in enumerate(context.program.steps):
            if not isinstance(step, ParallelStep):
                continue
            first: dict[str, Place] = {}
            if step.output_key is not None:
                first[step.output_key] = Place(("steps", number, "output_key"))
            for sub, part in enumerate(step.parallel_steps):
                if part.output_key is None:
                    continue
                place = Place(("steps", number, "parallel_steps", sub, "output_key"))
                if part.output_key in first:
                    related = [Label(first[part.output_key], "it is bound here too")]
                    message = f"`{part.output_key}` is bound twice in `{step.id}`: one of the two outputs is lost"
                    yield self.finding(message, "give it a name of its own", place, step=part.id, related=related)
                first.setdefault(part.output_key, place)


class SiblingRead(Rule):
    """A sub-step reads the output of a sibling, which it never sees: all of them start from the same state."""

    code = "SW502"
    name = "sibling-read"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every reading, in a sub-step, of a name that a sibling gives."""
        for reading in context.assignment.readings:
            if reading.sub is None or reading.meant is None:
                continue
            for source in reading.meant.sources:
                if source.step == reading.step and source.sub is not None and source.sub != reading.sub:
                    whole = context.program.steps[reading.step].id
                    text = reading.reference.text()
                    message = f"`{text}` is the output of a sibling, which runs at the same time"
                    help = f"move this step behind `{whole}`, where the output is there"
                    related = [Label(Place((*source.path, "id")), "the sibling stands here")]
                    step = context.reader(reading).id
                    yield self.finding(message, help, reading.place, step=step, related=related)
                    break


def _writes_once(context: Context, site: CallSite) -> bool:
    return isinstance(site.call, ToolCall) and context.meaning.tool(site.call.tool).writes_once


def _tool(site: CallSite) -> str:
    assert isinstance(site.call, ToolCall)
    return site.call.tool


class RetriedEffect(Rule):
    """`on_error: retry` on a tool that writes and is not idempotent: every attempt is another effect."""

    code = "SW503"
    name = "retried-effect"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every retry, also of a whole parallel step, that performs a non-idempotent write again."""
        for site in context.meaning.calls:
            if not _writes_once(context, site):
                continue
            whole = context.program.steps[site.step]
            place, what = None, f"`{_tool(site)}` writes and is not idempotent"
            if site.call.on_error == "retry" and site.call.max_retries > 1:
                place = Place((*site.path, "on_error"))
            elif isinstance(whole, ParallelStep) and whole.on_error == "retry" and site.call.on_error != "skip":
                place = Place(("steps", site.step, "on_error"))
            if place is not None:
                message = f"{what}: a retry performs it again"
                help = "drop the retry, or make the tool idempotent and say so in its manifest"
                related = [Label(Place((*site.path, "tool")), "the tool is called here")]
                yield self.finding(message, help, place, step=site.call.id, related=related)


class EffectInLoop(Rule):
    """A non-idempotent write stands in a loop, and is performed anew on every round."""

    code = "SW504"
    name = "effect-in-loop"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every call of a non-idempotent write tool in a loop."""
        for site in context.meaning.calls:
            if site.step in context.graph.in_loop and _writes_once(context, site):
                message = f"`{_tool(site)}` writes, is not idempotent, and stands in a loop"
                help = "move it out of the loop, make the tool idempotent, or add an `at_most_once` guardrail"
                yield self.finding(message, help, Place((*site.path, "tool")), step=site.call.id)


class FallbackForEffect(Rule):
    """A fallback or a skip papers over a non-idempotent write that may have happened."""

    code = "SW505"
    name = "fallback-for-effect"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every time-out fallback and every skip of a non-idempotent write."""
        for site in context.meaning.calls:
            if not _writes_once(context, site):
                continue
            call: Call = site.call
            for field, is_set in (("on_timeout", call.on_timeout == "fallback"), ("on_error", call.on_error == "skip")):
                if is_set:
                    message = (
                        f"`{_tool(site)}` writes and is not idempotent: going on as if nothing happened may be wrong"
                    )
                    help = "let it fail, and route the failure with `error_step`"
                    related = [Label(Place((*site.path, "tool")), "the tool is called here")]
                    yield self.finding(message, help, Place((*site.path, field)), step=call.id, related=related)
