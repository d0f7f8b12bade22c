"""SW203 to SW205: do values have the types that they are used with."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import Rule
from stepward.validator.rules.shape import all_steps
from stepward.vm.language.inference import Use
from stepward.vm.language.steps import Call, LlmCall, ToolCall
from stepward.vm.language.typecheck import WORDS
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.reading.source import Path, Place


class TypeMismatch(Rule):
    """An operator gets a value of a type that it does not work on, or a default is not of its own type."""

    code = "SW203"
    name = "type-mismatch"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield ill-typed operands, uses of a name that no type serves, and defaults and fallbacks of a wrong type."""
        yield from expression_findings(self, context)
        yield from self._conflicts(context)
        yield from self._defaults(context)
        yield from self._fallbacks(context)

    def _conflicts(self, context: Context) -> Iterator[Finding]:
        covered = {
            (clause.path, problem.start, problem.end)
            for clause, problem in context.type_problems
            if problem.code == "SW203"
        }
        for conflict in context.meaning.typing.conflicts:
            first, second = conflict.first, conflict.second
            if any(path == second.path and start <= second.start and second.end <= end for path, start, end in covered):
                continue
            message = f"`{conflict.name}` is used as {_kinds(second)} here, and as {_kinds(first)} elsewhere"
            help = "declare its type where it comes from, and use it as that"
            related = [Label(_place(first), f"used as {_kinds(first)} here")] if first.path else []
            yield self.finding(message, help, _place(second), step=_step(context, second.path), related=related)

    def _defaults(self, context: Context) -> Iterator[Finding]:
        for path, spec in _declared_types(context):
            if spec.has_default:
                why = refusal(spec.default, spec)
                if why is not None:
                    message = f"the default of `{path[-1]}` is not of its type: it {why}"
                    yield self.finding(message, "correct the default or the type", Place((*path, "default")))

    def _fallbacks(self, context: Context) -> Iterator[Finding]:
        for path, step in all_steps(context):
            if not isinstance(step, Call) or step.fallback is None:
                continue
            spec = context.declared_output(step) if isinstance(step, LlmCall | ToolCall) else None
            why = refusal(step.fallback, spec) if spec is not None else None
            if why is not None:
                message = f"the fallback of `{step.id}` is not of the type of its output: it {why}"
                yield self.finding(
                    message, "write a fallback that the type admits", Place((*path, "fallback")), step=step.id
                )


def _declared_types(context: Context) -> Iterator[tuple[Path, TypeSpec]]:
    """Yield every type that the program declares, with its path, down to the last property."""
    pending: list[tuple[Path, TypeSpec]] = [
        (("inputs", name), spec) for name, spec in (context.program.inputs or {}).items()
    ]
    for name, tool in (context.program.tools or {}).items():
        pending.extend((("tools", name, "args", arg), spec) for arg, spec in (tool.args or {}).items())
        if tool.returns is not None:
            pending.append((("tools", name, "returns"), tool.returns))
    while pending:
        path, spec = pending.pop()
        yield path, spec
        pending.extend(((*path, "properties", name), inner) for name, inner in (spec.properties or {}).items())
        if spec.items is not None:
            pending.append(((*path, "items"), spec.items))


def _kinds(use: Use) -> str:
    return " or ".join(WORDS[word] for word in sorted(use.kinds))


def _place(use: Use) -> Place:
    return Place(use.path, within=(use.start, use.end) if use.end else None)


def _step(context: Context, path: Path) -> str | None:
    return context.program.steps[path[1]].id if len(path) > 1 and isinstance(path[1], int) else None


class QuotedReference(Rule):
    """A reference in quotes is text: it is compared letter by letter, dollar sign and all."""

    code = "SW204"
    name = "quoted-reference"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every text literal that is a reference in quotes."""
        yield from expression_findings(self, context)


class ImpossibleValue(Rule):
    """A comparison with a value that the other side never has."""

    code = "SW205"
    name = "impossible-value"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every comparison with a value outside an `enum` or `allowed_outputs`."""
        yield from expression_findings(self, context)


def expression_findings(rule: Rule, context: Context) -> Iterator[Finding]:
    """Yield the findings of one rule among what is wrong with the program's expressions."""
    for clause, problem in context.type_problems:
        if problem.code == rule.code:
            place = Place(clause.path, within=(problem.start, problem.end))
            yield rule.finding(problem.message, problem.help, place, step=context.program.steps[clause.step].id)
