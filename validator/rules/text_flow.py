"""SW208 and SW209: does a sensitive value reach a model, and does unchecked free text reach an effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from stepward.validator.analysis.assignment import assigned_names
from stepward.validator.analysis.readings import Reading
from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.validator.rules.effects import known_sites
from stepward.validator.rules.sensitive_flow import SensitiveFlow, is_marked
from stepward.vm.expressions.inside import keeps
from stepward.vm.expressions.syntax import (
    Built,
    Reference,
)
from stepward.vm.language.clauses import CallSite
from stepward.vm.language.name_types import Location
from stepward.vm.language.names import Source
from stepward.vm.language.steps import ComputeStep, ConditionStep, LlmCall, ToolCall
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Place

SHORT: Final = 500
"""Characters of a text that is not free: a declared limit does as much as the condition of the help."""

_NO_TEXT: Final = frozenset({"integer", "number", "boolean", "null"})


class SensitiveToModel(Rule):
    """A value that is marked `sensitive` reaches a prompt, so the model and its host see it.

    ## What it does
    Reports every reference to a sensitive value in a `prompt` or a `system` text. A value is sensitive if it is marked
    `sensitive: true`, is computed from such a value in `set`, or contains one. Items and outputs of bodies are as what
    they are made of. A tool may repeat its arguments. So the rule also reports the output of a tool with a sensitive
    argument, if its type can contain it. A boolean, an `enum`, a text of fewer than six characters and a
    small whole number can't. `echoes: false` in the manifest says that a tool never repeats its arguments. The machine
    does not rely on it: if it finds a sensitive value in an output, it does not put it into a prompt.

    ## Why it is bad
    A prompt leaves the organisation, and the model's host may log and store it. For a password, a card number or a
    diagnosis this is a leak, and no later step can undo it.

    ## Example
    ```yaml
    name: support_reply
    inputs: {question: {type: string}, card_number: {type: string, sensitive: true}}
    steps:
      - {id: reply, type: llm, prompt: "Answer $question for the holder of card $card_number."}
    ```

    ## Use instead
    ```yaml
    name: support_reply
    inputs: {question: {type: string}, card_number: {type: string, sensitive: true}}
    tools: {find_holder: {effect: read, echoes: false, args: {card: {type: string}}, returns: {type: string}}}
    steps:
      - {id: find, type: tool, tool: find_holder, args: {card: $card_number}, output_key: first_name}
      - {id: reply, type: llm, prompt: "Answer $question for $first_name."}
    ```
    """

    code = "SW208"
    name = "sensitive-to-model"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every sensitive value in a prompt or a system text, also through `set`, fields and outputs."""
        if not is_marked(context):
            return
        flow = SensitiveFlow(context)
        for reading in context.analyses.assignment.readings:
            call = context.analyses.reader(reading)
            if not isinstance(call, LlmCall) or reading.resolution is None:
                continue
            origin = flow.origin(reading.resolution)
            if origin is not None:
                text = reading.reference.text()
                message = f"`{text}` is sensitive and reaches the prompt of `{call.id}`"
                help = "remove it from the prompt, or let a tool return only what the model needs"
                fields = [f"`{field}`" for field in flow.fields_to_show(text, reading.resolution)]
                if fields:
                    help = f"name the fields that are not sensitive: {' and '.join(fields)}; or {help}"
                if origin.tool:
                    message = f"`{text}` may repeat what is sensitive, and reaches the prompt of `{call.id}`"
                    help = (
                        "remove it from the prompt, or declare `echoes: false` for the tool "
                        f"`{origin.tool}` if its output never repeats its arguments"
                    )
                related = [Label(origin.place, "it is marked here")]
                copies = [source.path for source in reading.resolution.sources if source.kind == "set"]
                related += [Label(Place(path, key=True), "it is copied here") for path in copies[:3]]
                yield self.finding(message, help, reading.place, step=call.id, related=related)


class UnguardedTextToEffect(Rule):
    """Free text of a model or a user reaches a tool that writes, and no condition reads the text before that.

    ## What it does
    Reports an argument of a tool that is declared to write, if it contains a model's reply or an input of type text.
    There has to be a path to the call without a condition that reads the text. Text that is limited by `enum`,
    `pattern`, `allowed_outputs` or a `maxLength` of at most 500 is not free text. The output of a tool does not count
    as free text. The rule follows values that `set` copies, items, outputs of bodies, and texts that `compute` steps
    make of what they read. Any condition that reads the text is enough, whatever it compares; `defined` does not read
    the text.

    ## Why it is bad
    A user can write any text, and can make a model write any text. If the tool sends, stores or executes the text
    unchanged, the user controls what happens.

    ## Example
    ```yaml
    name: auto_reply
    inputs: {question: {type: string}}
    tools: {send_mail: {effect: write, idempotent: true, args: {text: {type: string}}}}
    steps:
      - {id: draft, type: llm, prompt: "Answer this question: $question", output_key: reply}
      - {id: send, type: tool, tool: send_mail, args: {text: $reply}}
    ```

    ## Use instead
    ```yaml
    name: auto_reply
    inputs: {question: {type: string}}
    tools: {send_mail: {effect: write, idempotent: true, args: {text: {type: string}}}}
    steps:
      - {id: draft, type: llm, prompt: "Answer this question: $question", output_key: reply}
      - {id: is_fit, type: condition, condition: len($reply) <= 500, then: send, otherwise: by_hand}
      - {id: send, type: tool, tool: send_mail, args: {text: $reply}}
      - {id: by_hand, type: end, outcome: failure}
    ```
    """

    code = "SW209"
    name = "unguarded-text-to-effect"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every argument of a write tool that free text reaches on a path without a condition on it."""
        yield from self.at(context, known_sites(context))

    def at(self, context: Context, sites: Iterable[CallSite]) -> Iterator[Finding]:
        """Yield the findings at some of the calls of tools that write."""
        self._conditions, self._assigning = _conditions_on(context), _assigning(context)
        writers = {(site.step, site.sub): site.call for site in sites if isinstance(site.call, ToolCall)}
        for reading in context.analyses.assignment.readings if writers else ():
            call = writers.get((reading.step, reading.sub))
            if call is None or reading.resolution is None or reading.step not in context.facts.graph.reachable:
                continue
            source = self._origin(context, reading)
            if source is not None and not _is_refused(context, reading, call):
                yield self._text_finding(context, source, reading, call)

    def _origin(self, context: Context, reading: Reading) -> Source | None:
        """Return the source of free text that reaches a reading unchecked, also through `set`, or None."""
        visited: set[Location] = set()
        pending = [_sources_of(reading)]
        while pending:
            source, copied = next(pending[-1], (None, reading))
            if source is None:
                pending.pop()
            elif (source, _fields(copied)) not in visited and self._may_arrive(context, source, copied):
                if not _hands_on(context, source):
                    return source
                visited.add((source, _fields(copied)))
                pending.append(self._copied(context, source, copied))
        return None

    def _copied(self, context: Context, source: Source, reading: Reading) -> Iterator[tuple[Source, Reading]]:
        """Yield the sources of the value that a `set` or a body hands on, or from which `compute` computes a text.

        `reading` reads that value, or a field of it: only what is put into this field counts.
        """
        fields = _fields(reading)
        if context.analyses.passing.passes(source):
            for passed in context.analyses.passing.into(source, fields):
                yield from _sources_of(passed.reading)
            return
        for copied in context.analyses.assignment.readings_of.get(source.step or 0, ()):
            is_argument = source.kind == "output"
            is_part = copied.path == source.path and copied.is_in(fields)
            if is_argument or (is_part and self._is_copy(context, source)):
                yield from _sources_of(copied)

    def _may_arrive(self, context: Context, source: Source, reading: Reading) -> bool:
        spec, fields = context.facts.meaning.typing.spec((source, _fields(reading))), _fields(reading)
        is_free = not _is_limited(spec) if _hands_on(context, source) else self._is_free(context, source, fields)
        return is_free and self._arrives(context, source, reading)

    def _is_copy(self, context: Context, source: Source) -> bool:
        """Whether a `set` copies a reference, or builds a value; every other expression gives a number or a boolean."""
        clauses = context.facts.meaning.clauses_of.get(source.step or 0, ())
        return any(clause.path == source.path and isinstance(clause.tree, Reference | Built) for clause in clauses)

    def _text_finding(self, context: Context, source: Source, reading: Reading, call: ToolCall) -> Finding:
        whose = "a user's" if source.kind == "input" else "a model's"
        text = reading.reference.text()
        message = f"{whose} free text `{text}` reaches `{call.tool}`, which writes, and no condition reads it"
        help = f"check it in a condition first (such as `len({text}) <= {SHORT}`)"
        if source.kind == "output":
            model = context.facts.call_of(source)
            is_typed = isinstance(model, LlmCall) and model.returns is not None
            where = f"by `maxLength: {SHORT}` in its `returns`" if is_typed else "by `allowed_outputs`"
            help += f", or limit the reply of `{model.id}` {where}"
        elif context.facts.program.inputs is not None and source.kind == "input":
            pattern = ", `pattern`" if context.facts.program.language >= 2 else ""
            help += f", or limit the input by `enum`{pattern} or a `maxLength` of at most {SHORT}"
        place = Place(source.path, key=True) if source.kind == "input" else Place((*source.path, "id"))
        related = [Label(place, "the text comes from here")] if source.path else []
        return self.finding(message, help, reading.place, step=call.id, related=related)

    def _is_free(self, context: Context, source: Source, fields: tuple[str, ...]) -> bool:
        """Whether a source is known to give unlimited text: a model's reply, or an input that is declared as text."""
        if source.kind == "output":
            call = context.facts.call_of(source)
            if not isinstance(call, LlmCall):
                return False
        elif source.kind != "input":
            return False
        spec = context.facts.meaning.typing.spec((source, fields))
        return spec is not None and spec.type is not None and "string" in spec.kinds and not _is_limited(spec)

    def _arrives(self, context: Context, source: Source, reading: Reading) -> bool:
        """Whether a path from the source to the reading passes no condition on the name, and no other assignment."""
        flow = context.facts.flow
        assert reading.resolution is not None
        names = reading.reference.names
        root = names[: len(names) - len(reading.resolution.fields)]
        checks = {
            step for step, fields in self._conditions.get(source, ()) if _overlap(fields, reading.resolution.fields)
        }
        others = (number for number in self._assigning.get(root, ()) if number != source.step)
        checks.update(number for number in others if not _keeps(context, number, root, reading.resolution.fields))

        # Back from the reading, because a condition is most often right before it.
        pending, visited = [reading.step], {reading.step}
        while pending:
            for step in flow.predecessors[pending.pop()]:
                if step == source.step:
                    return True
                if step not in visited and step not in checks:
                    visited.add(step)
                    pending.append(step)
        return source.step is None and 0 in visited - checks


def _fields(reading: Reading) -> tuple[str, ...]:
    return reading.resolution.fields if reading.resolution is not None else ()


def _is_limited(spec: TypeSpec | None) -> bool:
    """Return whether a declared type has no free text in it."""
    if spec is None or spec.kinds & {"array", "object"}:
        return False
    is_short = spec.max_length is not None and spec.max_length <= SHORT
    return spec.enum is not None or spec.pattern is not None or is_short or spec.kinds <= _NO_TEXT


def _hands_on(context: Context, source: Source) -> bool:
    """Return whether the values of a source are those of other sources, or are computed from them."""
    is_body = context.analyses.passing.passes(source)
    return source.kind == "set" or is_body or _is_computed(context, source)


def _is_computed(context: Context, source: Source) -> bool:
    """Return whether a source is the value of a `compute` step that may be or contain a text."""
    if source.kind != "output":
        return False
    call = context.facts.call_of(source)
    return isinstance(call, ComputeStep) and (call.returns is None or not call.returns.kinds <= _NO_TEXT)


def _sources_of(reading: Reading) -> Iterator[tuple[Source, Reading]]:
    return ((source, reading) for source in (reading.resolution.sources if reading.resolution is not None else ()))


def _is_refused(context: Context, reading: Reading, call: ToolCall) -> bool:
    """Return whether a reference is an argument whose declared type has no text, so that the machine refuses text."""
    argument = reading.place.path[-1]
    spec = (context.facts.meaning.tool(call.tool).args or {}).get(str(argument))
    is_whole = call.args.get(str(argument)) == reading.reference.text()
    return is_whole and spec is not None and spec.kinds <= _NO_TEXT


def _conditions_on(context: Context) -> dict[Source, list[tuple[int, tuple[str, ...]]]]:
    """Return the condition steps that read each source, with the fields that they read."""
    found: dict[Source, list[tuple[int, tuple[str, ...]]]] = {}
    for reading in context.analyses.assignment.readings:
        if reading.resolution is not None and isinstance(context.facts.flow.steps[reading.step], ConditionStep):
            for source in reading.resolution.sources:
                found.setdefault(source, []).append((reading.step, reading.resolution.fields))
    return found


def _assigning(context: Context) -> dict[tuple[str, ...], list[int]]:
    """Return the steps that assign each name."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, step in enumerate(context.facts.flow.steps):
        for name in assigned_names(step):
            found.setdefault(name, []).append(number)
    return found


def _keeps(context: Context, number: int, root: tuple[str, ...], fields: tuple[str, ...]) -> bool:
    """Return whether a step assigns other fields of a variable than some, or than parts of their value."""
    clauses = context.facts.meaning.clauses_of.get(number, ())
    tree = next((clause.tree for clause in clauses if (clause.name,) == root and clause.is_of_fields), None)
    return tree is not None and keeps(tree, fields)


def _overlap(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    shared = min(len(left), len(right))
    return left[:shared] == right[:shared]
