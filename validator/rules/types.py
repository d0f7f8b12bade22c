"""SW203 to SW205: do values have the types that they are used as."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import Rule
from stepward.validator.rules.items import no_lists
from stepward.validator.rules.times import time_findings
from stepward.vm.expressions.template import embedded
from stepward.vm.language.editions import SAY_2
from stepward.vm.language.steps import InvokeStep, SetStep
from stepward.vm.language.type_words import either
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.language.uses import Use
from stepward.vm.reading.source import Correction, Path, Place


class TypeMismatch(Rule):
    """An operator gets a value of a wrong type, or a default does not have its declared type.

    ## What it does
    Reports operands of a wrong type, comparisons of different types, and a condition that is not a boolean. It also
    reports a default or a fallback of a wrong type, `items` that are no list, and a value that is no time for a `wait`
    step, or sensitive there.
    An undeclared name is reported if no type fits all its uses: types that are not declared are inferred from them.
    There is no truthiness and no conversion: `$count == '3'` is an error, not false.

    ## Why it is bad
    The expression has no value, so the step fails whenever it is evaluated. If values of different types were only
    unequal, the branch would never be taken, and nobody would notice.

    ## Example
    ```yaml
    name: stock_check
    inputs: {count: {type: integer}}
    steps:
      - {id: enough, type: condition, condition: $count >= '3', then: ship, otherwise: wait}
      - {id: ship, type: end}
      - {id: wait, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: stock_check
    inputs: {count: {type: integer}}
    steps:
      - {id: enough, type: condition, condition: $count >= 3, then: ship, otherwise: wait}
      - {id: ship, type: end}
      - {id: wait, type: end, outcome: failure}
    ```
    """

    code = "SW203"
    name = "type-mismatch"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield ill-typed operands, uses of a name that no type fits, and values of a wrong type that a step states."""
        yield from expression_findings(self, context)
        yield from self._conflicts(context)
        yield from self._defaults(context)
        yield from self._fallbacks(context)
        yield from time_findings(self, context)
        yield from no_lists(self, context)

    def _conflicts(self, context: Context) -> Iterator[Finding]:
        covered = {
            (place.path, *(place.within or (0, 0)))
            for clause, problem in context.analyses.type_problems
            if problem.code == "SW203"
            for place in [clause.place(problem.start, problem.end)]
        }
        for conflict in context.facts.meaning.typing.conflicts:
            first, second = conflict.first, conflict.second
            if any(path == second.path and start <= second.start and second.end <= end for path, start, end in covered):
                continue
            message = (
                f"`{conflict.name}` is used as {either(second.kinds)} here, and as {either(first.kinds)} elsewhere"
            )
            help = "declare its type where it comes from, and use it as that"
            related = [Label(_place(first), f"used as {either(first.kinds)} here")] if first.path else []
            yield self.finding(message, help, _place(second), step=_step(context, second.path), related=related)

    def _defaults(self, context: Context) -> Iterator[Finding]:
        for path, spec in _declared_types(context):
            if spec.has_default:
                reason = refusal(spec.default, spec)
                if reason is not None:
                    message = f"the default of `{path[-1]}` is not of its type: it {reason}"
                    yield self.finding(message, "correct the default or the type", Place((*path, "default")))

    def _fallbacks(self, context: Context) -> Iterator[Finding]:
        for site in context.facts.meaning.calls:
            call = site.call
            if call.fallback is None:
                continue
            spec = context.facts.declared_output(call)
            reason = refusal(call.fallback, spec) if spec is not None else None
            if reason is not None:
                message = f"the fallback of `{call.id}` is not of the type of its output: it {reason}"
                place = Place((*site.path, "fallback"))
                yield self.finding(message, "write a fallback that the type allows", place, step=call.id)


def _declared_types(context: Context) -> Iterator[tuple[Path, TypeSpec]]:
    """Yield every type that the program declares, with its path, down to the last property."""
    pending: list[tuple[Path, TypeSpec]] = [
        (("inputs", name), spec) for name, spec in (context.facts.program.inputs or {}).items()
    ]
    called = {step.home: step for step in context.facts.flow.steps if isinstance(step, InvokeStep)}
    for home, step in called.items():
        pending.extend(((*home, "inputs", name), spec) for name, spec in step.declared.items())
    for name, tool in (context.facts.program.tools or {}).items():
        pending.extend((("tools", name, "args", arg), spec) for arg, spec in (tool.args or {}).items())
        if tool.returns is not None:
            pending.append((("tools", name, "returns"), tool.returns))
    while pending:
        path, spec = pending.pop()
        yield path, spec
        pending.extend(((*path, "properties", name), inner) for name, inner in (spec.properties or {}).items())
        if spec.items is not None:
            pending.append(((*path, "items"), spec.items))


def _place(use: Use) -> Place:
    return Place(use.path, within=(use.start, use.end) if use.end else None)


def _step(context: Context, path: Path) -> str | None:
    return context.facts.flow.steps[path[1]].id if len(path) > 1 and isinstance(path[1], int) else None


class QuotedReference(Rule):
    """A reference in quotes is text, so the condition compares the characters of `'$name'` and not the value.

    ## What it does
    Reports a text literal in a condition or expression that contains only a reference, such as `'$status'`. In prompts
    and arguments, a reference is written inside the text. In expressions, it is written without quotes. In a program of
    language 1, the rule also reports a reference in a list or an object of `set`, where only language 2 reads it.

    ## Why it is bad
    The condition never reads the value. Its result is the same in every run, so one of its branches is never taken.

    ## Example
    ```yaml
    name: order_check
    inputs: {status: {type: string}}
    steps:
      - {id: is_paid, type: condition, condition: "'$status' == 'paid'", then: ship, otherwise: wait}
      - {id: ship, type: end}
      - {id: wait, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: order_check
    inputs: {status: {type: string}}
    steps:
      - {id: is_paid, type: condition, condition: "$status == 'paid'", then: ship, otherwise: wait}
      - {id: ship, type: end}
      - {id: wait, type: end, outcome: failure}
    ```
    """

    code = "SW204"
    name = "quoted-reference"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every text literal that is a reference in quotes, and in language 1 every one that a `set` nests."""
        yield from expression_findings(self, context)
        for number, step in enumerate(context.facts.flow.steps):
            if isinstance(step, SetStep) and context.facts.program.language == 1:
                yield from self._nested(context, number, step)

    def _nested(self, context: Context, number: int, step: SetStep) -> Iterator[Finding]:
        """Yield the references in the lists and objects of a `set`: in language 1 they are text."""
        data = {name: value for name, value in step.set.items() if not isinstance(value, str)}
        help = "add `language: 2` to the program, where it is read"
        correction: Correction | None = SAY_2
        if "language" in context.facts.program.model_fields_set:
            help, correction = "write `language: 2` instead of `language: 1`: there it is read", None
        for quoted in embedded(data, (*context.facts.flow.layout.path(number), "set")):
            message = f"`{quoted.reference.text()}` is in a list or object of `set`, where it is text in language 1"
            place = Place(quoted.path, within=(quoted.reference.start, quoted.reference.end))
            is_known = context.facts.meaning.names.meaning(quoted.reference.names) is not None
            yield self.finding(message, help, place, step=step.id, correction=correction if is_known else None)


class ImpossibleValue(Rule):
    """The program compares a reference with a value that it never has.

    ## What it does
    Reports a comparison by `==`, `!=`, `in` or `contains` with a value outside the `enum` or the `allowed_outputs` of
    the other side. It also reports two references that have no value in common. Upper and lower case count: `Yes` is
    not `yes`.

    ## Why it is bad
    The comparison has the same result in every run, so a branch that its author relies on is never taken. Often a value
    was renamed in one line and not in the other.

    ## Example
    ```yaml
    name: triage
    inputs: {ticket: {type: string}}
    steps:
      - {id: sort, type: llm, prompt: "Bug or question? $ticket", output_key: kind, allowed_outputs: [bug, question]}
      - {id: is_bug, type: condition, condition: $kind == 'Bug', then: to_engineers, otherwise: to_support}
      - {id: to_engineers, type: end}
      - {id: to_support, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: triage
    inputs: {ticket: {type: string}}
    steps:
      - {id: sort, type: llm, prompt: "Bug or question? $ticket", output_key: kind, allowed_outputs: [bug, question]}
      - {id: is_bug, type: condition, condition: $kind == 'bug', then: to_engineers, otherwise: to_support}
      - {id: to_engineers, type: end}
      - {id: to_support, type: end, outcome: failure}
    ```
    """

    code = "SW205"
    name = "impossible-value"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every comparison with a value outside an `enum` or `allowed_outputs`."""
        yield from expression_findings(self, context)


def expression_findings(rule: Rule, context: Context) -> Iterator[Finding]:
    """Yield the problems of the program's expressions that are findings of one rule."""
    for clause, problem in context.analyses.type_problems:
        if problem.code == rule.code:
            place = clause.place(problem.start, problem.end)
            is_whole = (
                problem.rewrite and not clause.is_of_fields
            )  # several expressions are no text that can be replaced
            correction = Correction(Place(clause.path), problem.rewrite) if is_whole else None
            step = context.facts.flow.steps[clause.step].id
            yield rule.finding(problem.message, problem.help, place, step=step, correction=correction)
