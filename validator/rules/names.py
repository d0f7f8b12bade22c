"""SW201, SW202 and SW210: is every name that a step reads defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepward.validator.analysis.readings import Reading
from stepward.validator.context import Context
from stepward.validator.findings import Evidence, Finding, Label, Severity, Verdict
from stepward.validator.rules.base import EngineRule, Rule
from stepward.validator.rules.intended import SECTIONS, intended
from stepward.vm.expressions.fields import index_of, written
from stepward.vm.expressions.syntax import Defined, Reference, walk
from stepward.vm.language.names import Resolution
from stepward.vm.language.similar import MAX_CANDIDATES, near_words, only_near
from stepward.vm.language.steps import ForEachStep, InvokeStep, ParallelStep, ToolCall
from stepward.vm.reading.source import Correction, Place

if TYPE_CHECKING:
    from stepward.validator.engine.reach import PathAnswer

SHOWN = 3
"""Undeclared inputs that a message names."""

MAX_DECLARED = 30
"""Declarations that one help text writes out; a program may have a finding for each of thousands."""

SEARCHED_STEPS = 200_000
"""Steps that the searches for paths of SW202 may visit in one program; findings beyond that have none."""


class UndefinedVariable(Rule):
    """The program reads a reference that nothing ever defines.

    ## What it does
    Reports a `$name` that is neither an input, nor an `output_key`, nor a name in `set`. It also reports a field that
    the declared type does not have. The help suggests the nearest known name, or the correct form: the output of a step
    is `$step.output`. In a program without `inputs`, a plain `$name` is assumed to be an input (SW210).

    ## Why it is bad
    Reading an undefined reference is an error. Its value is neither null nor the literal text. The step fails in every
    run that reaches it.

    ## Example
    ```yaml
    name: summary
    inputs: {request: {type: string}}
    steps:
      - {id: sum_up, type: llm, prompt: "Sum this up: $reqest"}
    ```

    ## Use instead
    ```yaml
    name: summary
    inputs: {request: {type: string}}
    steps:
      - {id: sum_up, type: llm, prompt: "Sum this up: $request"}
    ```
    """

    code = "SW201"
    name = "undefined-variable"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every reference that is no input, no output and no assigned name."""
        for reading in context.analyses.assignment.readings:
            if reading.resolution is None and not _is_left_out(context, reading.reference.names[0]):
                message = f"nothing ever defines `{reading.reference.text()}`"
                help, correction = self._suggestion(context, reading.reference, reading.place)
                step = context.facts.flow.steps[reading.step].id
                yield self.finding(message, help, reading.place, step=step, correction=correction)
            elif (
                reading.resolution is not None
                and reading.resolution.fields
                and context.facts.meaning.typing.view(reading.resolution).never
            ):
                message = f"`{reading.reference.text()}` never exists: its type has no such field"
                step = context.facts.flow.steps[reading.step].id
                help, correction = self._field_suggestion(context, reading)
                yield self.finding(message, help, reading.place, step=step, correction=correction)
        yield from self._in_defined(context)

    def _field_suggestion(self, context: Context, reading: Reading) -> tuple[str, Correction | None]:
        """Return what to write instead of a field that the type does not have, and the edit if it is safe."""
        assert reading.resolution is not None
        intended_names, (*owner, last) = intended(context, reading.reference.names), reading.reference.names
        if intended_names is not None:
            return f"write `${written(intended_names)}`", _replacement(intended_names, reading.place)
        known = context.facts.known_fields(reading.resolution)
        similar, only = _meant_reference(reading, len(reading.reference.names), known), only_near(last, known)
        help = f"did you mean `{similar}`?" if similar else "read a field that the type declares"
        return help, _replacement((*owner, only), reading.place) if only else None

    def _in_defined(self, context: Context) -> Iterator[Finding]:
        for clause in context.facts.meaning.clauses:
            for node in walk(clause.tree) if clause.tree is not None and "defined" in clause.text else ():
                if isinstance(node, Defined) and context.facts.meaning.names.meaning(node.reference.names) is None:
                    reference = node.reference
                    place = clause.place(reference.start, reference.end)
                    message = f"nothing ever defines `{reference.text()}`"
                    help, correction = self._suggestion(context, reference, place)
                    step = context.facts.flow.steps[clause.step].id
                    yield self.finding(message, help, place, step=step, correction=correction)

    def _suggestion(self, context: Context, reference: Reference, place: Place) -> tuple[str, Correction | None]:
        """Return what to write instead of an undefined reference, and the edit that does so, if it is safe."""
        first, *rest = reference.names
        known, position = context.facts.meaning.names, context.facts.flow.position
        intended_names = intended(context, reference.names)
        if intended_names is not None and (intended_names[0] == first or first in SECTIONS):
            of_step = (
                " for the output of the step"
                if intended_names[0] == first and intended_names[1:2] == ("output",)
                else ""
            )
            return f"write `${written(intended_names)}`{of_step}", _replacement(intended_names, place)
        if first in position:
            return f"`{first}` is a {context.facts.flow.steps[position[first]].type} step and has no output", None
        is_output = rest[:1] in (["output"], ["error"])
        is_many = len(known.variables) + len(known.outputs) > MAX_CANDIDATES
        inside = first.rpartition("/")[0]
        among = [
            name
            for name in (known.outputs if is_output else () if is_many else known.known())
            if name.rpartition("/")[0] == inside
        ]
        words = near_words(first, among).replace("`", "`$", 1)
        otherwise = "declare it under `inputs`, or assign it with `output_key` or `set`"
        if is_output:
            words, otherwise = words.replace("`?", f".{rest[0]}`?"), "name a step that has an output"
        similar = None if is_many else only_near(first, among)
        return words or otherwise, _replacement((similar, *rest), place) if similar else None


def _is_left_out(context: Context, name: str) -> bool:
    """Return whether a name is an input of a called program to which its call gives no argument: that is SW207."""
    calls = (step for step in context.facts.flow.steps if isinstance(step, InvokeStep))
    return "/" in name and any(call.type_of(name) is not None for call in calls)


def _replacement(names: tuple[str, ...], place: Place) -> Correction:
    return Correction(place, "$" + written(names))


class MaybeUndefined(EngineRule):
    """A reference is undefined in some run that reads it.

    ## What it does
    Reports a step that reads a reference, if a run can reach the step before the reference is defined. The finding
    shows the path and the values of such a run. A path whose conditions contradict each other does not count. If a step
    failed or was skipped, its output is undefined, even if an earlier visit had set it. `$step.error` is defined only
    after a failure. The rule also reports a field that the declared type does not list under `required`. To avoid the
    finding, test `defined($name)` on the path, or before an `and`.

    ## Why it is bad
    Most runs succeed. A run that takes the other path fails where the reference is read. Often this is the step that
    should handle a failure.

    ## Example
    ```yaml
    name: greeting
    inputs: {language: {type: string, enum: [english, french]}}
    steps:
      - {id: is_french, type: condition, condition: $language == 'french', then: french, otherwise: finish}
      - {id: french, type: set, set: {greeting: "'Bonjour'"}, next_step: finish}
      - {id: finish, type: end, output: $greeting}
    ```

    ## Use instead
    ```yaml
    name: greeting
    inputs: {language: {type: string, enum: [english, french]}}
    steps:
      - {id: is_french, type: condition, condition: $language == 'french', then: french, otherwise: english}
      - {id: french, type: set, set: {greeting: "'Bonjour'"}, next_step: finish}
      - {id: english, type: set, set: {greeting: "'Hello'"}, next_step: finish}
      - {id: finish, type: end, output: $greeting}
    ```
    """

    code = "SW202"
    name = "maybe-undefined"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every reading that some path reaches without a definition, unless no run can take such a path.

        A step that reads a reference in several of its texts, such as `prompt` and `system`, has one finding for it.
        """
        reported: set[tuple[int, int | None, tuple[str, ...]]] = set()
        unseen = {(one.step, one.names) for one in context.facts.sibling_reads}
        doubtful = (one for one in context.analyses.assignment.doubtful if one.is_reported)
        for number, (reading, key, _) in enumerate(doubtful):
            if (reading.step, reading.reference.names) in unseen:
                continue  # no path defines it: SW502 says why
            answer = None
            if context.facts.has_control_flow and number * len(context.facts.flow.steps) < SEARCHED_STEPS:
                answer = self._ask_engine(context, reading)
                may_lack = context.facts.body_outputs.lacks_on_the_way
                if answer is not None and answer.verdict is Verdict.PROVED and not may_lack(reading.resolution):
                    continue
            if (same := (reading.step, reading.sub, reading.reference.names)) in reported:
                continue
            reported.add(same)
            yield self._finding(context, reading, key, answer.evidence if answer is not None else None)

    @staticmethod
    def _ask_engine(context: Context, reading: Reading) -> PathAnswer | None:
        """Return the engine's answer about a reading; None where an internal error ended the search."""
        part = f"the reading of `{reading.reference.text()}` in `{context.facts.flow.steps[reading.step].id}`"
        return context.proofs.failures.attempt(part, lambda: context.proofs.engine.undefined(reading), lambda _: None)

    @staticmethod
    def _undeclared(context: Context, reading: Reading, key: tuple[str, ...]) -> str | None:
        """Return the help for a field that the type of its owner does not list; None if it lists it, or lists none."""
        assert reading.resolution is not None
        fields = reading.resolution.fields[: len(key) - len(reading.reference.names) + len(reading.resolution.fields)]
        known = context.facts.known_fields(reading.resolution._replace(fields=fields))
        if not known or key[-1] in known:
            return None
        similar = _meant_reference(reading, len(key), known)
        otherwise = f"list `{key[-1]}` under `properties` and `required` of the type of `${written(key[:-1])}`"
        return f"did you mean `{similar}`?" if similar else otherwise

    def _finding(self, context: Context, reading: Reading, key: tuple[str, ...], evidence: Evidence | None) -> Finding:
        assert reading.resolution is not None
        text = reading.reference.text()
        step = context.facts.flow.steps[reading.step].id
        if len(key) > len(reading.reference.names) - len(reading.resolution.fields):
            owner = "$" + written(key[:-1])
            if key[-1] in context.analyses.assignment.required(key[:-1]) and _may_be_null(context, key[:-1]):
                message = f"`{text}` may be undefined here: `{owner}` may be null"
                help = f"test `{owner} != null` on every path to `{step}`, or declare a type without null"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            intended_names = intended(context, reading.reference.names)
            if intended_names is not None and intended_names != reading.reference.names:
                message = f"`{text}` may be absent: its type declares no such field"
                help = f"write `${written(intended_names)}`"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            each = _each_read(context, reading.resolution)
            number = index_of(key[-1])
            if each is not None and _gives_null(each, number):
                message = f"`{text}` may be absent: an item of `{each.id}` that failed gives null"
                help = f"test `defined({text})` first, or leave `on_item_error: skip` out of `{each.id}`"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            if number is not None:
                message = f"`{text}` may be absent: the array may have {'no items' if number == 0 else 'fewer items'}"
                help = f"test `len({owner}) > {number}` first, or declare the array with `minItems: {number + 1}`"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            undeclared = self._undeclared(context, reading, key)
            if undeclared is not None:
                message = f"`{text}` may be absent: its type declares no such field"
                return self.finding(message, undeclared, reading.place, step=step, evidence=evidence)
            if context.facts.body_outputs.lacks_on_the_way(reading.resolution):
                message = f"`{text}` may be absent: an `end` step of the body need not give the field"
                help = f"give it in the `output` of each `end` step, or test `defined({text})` first"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            branch = _branch_read(context, reading.resolution)
            if branch is not None:
                message = f"`{text}` may be absent: the object has the outputs of the branches that gave one"
                help = f"let each way through branch `{branch}` end with an `end` step, or test `defined({text})` first"
                return self.finding(message, help, reading.place, step=step, evidence=evidence)
            message = f"`{text}` may be absent: its type does not require the field"
            help = f"list the field under `required`, or test `defined({text})` first"
            return self.finding(message, help, reading.place, step=step, evidence=evidence)
        related = [Label(source_place, "it is defined here") for source_place in _definitions(reading)]
        message = f"`{text}` may be undefined here"
        help = f"define it on every path to `{step}`, or test `defined({text})` on the way"
        return self.finding(message, help, reading.place, step=step, related=related, evidence=evidence)


def _may_be_null(context: Context, owner: tuple[str, ...]) -> bool:
    """Return whether a value that has fields may be null, by its type; True where that is not known."""
    resolution = context.facts.meaning.names.meaning(owner)
    view = None if resolution is None else context.facts.meaning.typing.view(resolution)
    return view is None or not view.is_known or "null" in view.kinds


def _meant_reference(reading: Reading, count: int, known: list[str]) -> str:
    """Return a reference with its first `count` names, the last of which is replaced by the field that is meant."""
    *owner, last = reading.reference.names[:count]
    similar = near_words(last, known)[len("did you mean `") : -len("`?")]
    return "$" + written((*owner, similar, *reading.reference.names[count:])) if similar else ""


def _branch_read(context: Context, resolution: Resolution) -> str | None:
    """Return the branch whose output is read in that of the parallel step; None for any other reading."""
    (source, *others), fields = resolution.sources, resolution.fields
    step = context.facts.flow.steps[source.step] if source.kind == "output" and source.step is not None else None
    return None if others or not isinstance(step, ParallelStep) or not step.branches else fields[0]


def _each_read(context: Context, resolution: Resolution) -> ForEachStep | None:
    """Return the `for_each` step whose output is read, or None for any other reading."""
    source, *others = resolution.sources
    step = context.facts.flow.steps[source.step] if source.kind == "output" and source.step is not None else None
    is_list = isinstance(step, ForEachStep) and not step.is_once and not others
    return step if is_list and isinstance(step, ForEachStep) else None


def _gives_null(step: ForEachStep, number: int | None) -> bool:
    """Return whether it is a failed item that a field or an item of the output of a step may lack.

    A list that is written has as many items; of another one, the item itself may lack.
    """
    is_there = number is None or (isinstance(step.items, tuple) and number < len(step.items))
    return step.on_item_error == "skip" and is_there


def _definitions(reading: Reading) -> list[Place]:
    assert reading.resolution is not None
    return [
        Place((*source.path, "id")) if source.kind != "set" else Place(source.path, key=True)
        for source in reading.resolution.sources[:3]
    ]


class UndeclaredInput(Rule):
    """A program without `inputs` reads names that nothing assigns, so they are assumed to be inputs.

    ## What it does
    Reports all such names in one finding, at the first step that reads one of them. The help contains the declaration
    to add. The types of the inputs are inferred from their uses. If a program has an `inputs` section, or another one
    calls it, a name that is not listed does not exist (SW201).

    ## Why it is bad
    A misspelt name becomes another input that no caller knows, so the run can't start. An input without a declaration
    has no range and no list of values, so Stepward can prove little about it.

    ## Example
    ```yaml
    name: summary
    steps:
      - {id: sum_up, type: llm, prompt: "Sum this up: $request"}
    ```

    ## Use instead
    ```yaml
    name: summary
    inputs: {request: {type: string}}
    steps:
      - {id: sum_up, type: llm, prompt: "Sum this up: $request"}
    ```
    """

    code = "SW210"
    name = "undeclared-input"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for all undeclared inputs, where the first is read."""
        if context.facts.program.inputs is not None:
            return
        first: dict[str, Reading] = {}
        for reading in context.analyses.assignment.readings:
            for source in reading.resolution.sources if reading.resolution else ():
                if source.kind == "input":
                    first.setdefault(source.name, reading)
        # A name that an `inputs` section does not list does not exist, so the help declares all of them at once.
        some = list(first.items())[:MAX_DECLARED]
        types = {name: _argument_type(context, name) or _type_word(context, reading) for name, reading in some}
        declared = ", ".join(f"{name}: {{type: {word}}}" for name, word in types.items())
        help = f"declare {'it' if len(first) == 1 else 'all of them'}: `inputs: {{{declared}}}`"
        if len(first) > len(some):
            help = f"declare all {len(first)} of them under `inputs`, as `{declared.split(', ')[0]}`"
        if not first:
            return
        listed = [f"`${name}`" for name in list(first)[:SHOWN]] + [f"{len(first) - SHOWN} more"] * (len(first) > SHOWN)
        message = f"nothing assigns {listed[0]}, and the program does not declare it as an input"
        if len(first) > 1:
            names = f"{', '.join(listed[:-1])} and {listed[-1]}"
            message = f"nothing assigns {names}, and the program does not declare them as inputs"
        reading, *others = list(first.values())[:SHOWN]
        related = [Label(other.place, "and this one") for other in others]
        step = context.facts.flow.steps[reading.step].id
        yield self.finding(message, help, reading.place, step=step, related=related)


def _argument_type(context: Context, name: str) -> str | None:
    """Return the type of the arguments that an input is passed as, where all tools declare the same."""
    argument_kinds: set[frozenset[str]] = set()
    for site in context.facts.meaning.calls:
        if isinstance(site.call, ToolCall) and f"${name}" in site.call.args.values():
            declared = context.facts.meaning.tool(site.call.tool).args or {}
            passed = (argument for argument, value in site.call.args.items() if value == f"${name}")
            argument_kinds.update(declared[argument].kinds for argument in passed if argument in declared)
    kinds = argument_kinds.pop() if len(argument_kinds) == 1 else frozenset[str]()
    return next(iter(kinds)) if len(kinds) == 1 else None


def _type_word(context: Context, reading: Reading) -> str:
    assert reading.resolution is not None
    if reading.resolution.fields:
        return "object"
    view = context.facts.meaning.typing.view(reading.resolution)
    return next(iter(view.kinds)) if view.is_known and len(view.kinds) == 1 else "string"
