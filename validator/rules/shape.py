"""SW001 to SW006: is it a program at all, and does it say one thing."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import ReadingRule, Rule
from stepward.vm.language.flow import END
from stepward.vm.language.steps import BaseStep, Call, ErrorRouted, Failing, LlmCall, ParallelStep, Routed, SetStep
from stepward.vm.reading.source import Path, Place


class Unreadable(ReadingRule):
    """The file can't be read as a program."""

    code = "SW001"
    name = "unreadable"


class Schema(Rule):
    """A field is unknown, missing, or has a value that it can't have."""

    code = "SW002"
    name = "schema"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield fields that contradict each other; those that a model refuses come from the reader."""
        for number, step in enumerate(context.program.steps):
            place = Place(("steps", number))
            yield from self._routing(context, number, step, place)
            yield from self._failure(step, step.id, place)
            for sub, part in enumerate(step.parallel_steps if isinstance(step, ParallelStep) else ()):
                yield from self._failure(part, part.id, place.child("parallel_steps", sub))

    def _routing(self, context: Context, number: int, step: BaseStep, place: Place) -> Iterator[Finding]:
        if not isinstance(step, Routed):
            return
        if step.next_step is not None and step.is_terminal:
            message = "`next_step` and `is_terminal: true` contradict each other"
            yield self.finding(message, "keep one of the two", place.child("is_terminal"), step=step.id)
        if step.outcome is not None and not any(
            way.kind == "success" and way.to == END for way in context.flow.transitions[number]
        ):
            message = "`outcome` stands on a step after which the run goes on"
            help = "remove it, or end the run here with `is_terminal: true`"
            yield self.finding(message, help, place.child("outcome"), step=step.id)
        if isinstance(step, ErrorRouted) and isinstance(step, Failing) and step.on_error == "skip" and step.error_step:
            message = "`on_error: skip` goes on, `error_step` goes elsewhere: they contradict each other"
            yield self.finding(message, "keep one of the two", place.child("error_step"), step=step.id)

    def _failure(self, step: BaseStep, name: str, place: Place) -> Iterator[Finding]:
        if not isinstance(step, Call):
            return
        has_fallback = "fallback" in step.model_fields_set and step.fallback is not None
        if step.on_timeout == "fallback" and not has_fallback:
            message = "`on_timeout: fallback` has no `fallback`"
            yield self.finding(message, "write the value out: `fallback: …`", place.child("on_timeout"), step=name)
        if step.on_timeout == "fallback" and step.timeout_seconds is None:
            message = "`on_timeout: fallback` has no `timeout_seconds`, so it never applies"
            yield self.finding(message, "add `timeout_seconds`", place.child("on_timeout"), step=name)
        if has_fallback and step.on_timeout != "fallback":
            message = "`fallback` never applies without `on_timeout: fallback`"
            yield self.finding(message, "add `on_timeout: fallback`, or remove it", place.child("fallback"), step=name)
        if isinstance(step, LlmCall) and step.allowed_outputs is not None and step.returns is not None:
            message = "`allowed_outputs` and `returns` are two ways to say what a reply is"
            yield self.finding(message, "keep one of the two", place.child("returns"), step=name)


class DuplicateKey(ReadingRule):
    """A mapping names a key twice, and one of the two is silently lost."""

    code = "SW003"
    name = "duplicate-key"


class TooLarge(ReadingRule):
    """The document is over a limit on size, depth, aliases or steps."""

    code = "SW004"
    name = "too-large"


class DuplicateId(Rule):
    """Two steps share an id, so a target that names it is ambiguous."""

    code = "SW005"
    name = "duplicate-id"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every step and sub-step whose id was used before."""
        first: dict[str, Place] = {}
        for path, step in all_steps(context):
            place = Place((*path, "id"))
            if step.id in first:
                related = [Label(first[step.id], "the id is used here first")]
                message = f"the id `{step.id}` is used twice"
                yield self.finding(message, "give this step an id of its own", place, step=step.id, related=related)
            first.setdefault(step.id, place)


class NameCollision(Rule):
    """An input or a step id is assigned, or the two share a name."""

    code = "SW006"
    name = "name-collision"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield inputs that share a name with a step, and assignments to an input or to another step's id."""
        inputs = context.program.inputs or {}
        ids = {step.id: Place((*path, "id")) for path, step in reversed(list(all_steps(context)))}
        for name in inputs:
            if name in ids:
                related = [Label(ids[name], "the step stands here")]
                message = f"the input `{name}` and a step share one name"
                yield self.finding(message, "rename one of the two", Place(("inputs", name), key=True), related=related)
        for path, step in all_steps(context):
            for name, place in _assigned(path, step):
                if name in inputs:
                    related = [Label(Place(("inputs", name), key=True), "the input is declared here")]
                    message = f"the input `{name}` is assigned"
                    yield self.finding(message, "assign another name", place, step=step.id, related=related)
                elif name in ids and not (name == step.id and isinstance(step, Failing)):
                    related = [Label(ids[name], "the step stands here")]
                    message = f"`{name}` is the id of a step, and is assigned"
                    yield self.finding(message, "assign another name", place, step=step.id, related=related)


def all_steps(context: Context) -> Iterator[tuple[Path, BaseStep]]:
    """Yield every step and sub-step with its path, in the order of the list."""
    for number, step in enumerate(context.program.steps):
        yield ("steps", number), step
        if isinstance(step, ParallelStep):
            for sub, part in enumerate(step.parallel_steps):
                yield ("steps", number, "parallel_steps", sub), part


def _assigned(path: Path, step: BaseStep) -> Iterator[tuple[str, Place]]:
    if isinstance(step, SetStep):
        for name in step.set:
            yield name, Place((*path, "set", name), key=True)
    elif isinstance(step, Failing) and step.output_key is not None:
        yield step.output_key, Place((*path, "output_key"))
