"""What a `wait` step can't wait for: values of another type than times have, and sensitive ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepward.validator.findings import Finding, Label
from stepward.validator.rules.sensitive_flow import SensitiveFlow, is_marked
from stepward.vm.language.steps import WaitStep

if TYPE_CHECKING:
    from stepward.validator.context import Context
    from stepward.validator.rules.base import Rule

_WANTED = {"until": ("a text", frozenset({"string"})), "seconds": ("a number", frozenset({"integer", "number"}))}


def time_findings(rule: Rule, context: Context) -> Iterator[Finding]:
    """Yield the references of `wait` steps whose values never are times, and those to sensitive values."""
    steps = context.facts.flow.steps
    readings = [one for one in context.analyses.assignment.readings if isinstance(steps[one.step], WaitStep)]
    flow = SensitiveFlow(context) if readings and is_marked(context) else None
    for reading in readings:
        step = steps[reading.step]
        if not isinstance(step, WaitStep) or reading.resolution is None:
            continue
        text = reading.reference.text()
        words, kinds = _WANTED[step.field]
        if step.stated_time == text and not kinds & context.facts.meaning.typing.view(reading.resolution).kinds:
            message = f"`{text}` is never {words}, so `{step.id}` can't wait for it"
            yield rule.finding(message, f"name {words}, or declare its type", reading.place, step=step.id)
            continue
        origin = None if flow is None else flow.origin(reading.resolution)
        if origin is not None:
            message = f"`{text}` is sensitive, and the journal would show how long `{step.id}` waits"
            related = [Label(origin.place, "it is marked here")]
            help = "wait for a value that is not sensitive"
            yield rule.finding(message, help, reading.place, step=step.id, related=related)
