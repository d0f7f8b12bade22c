"""SW301 to SW305: can a condition be read, and does it decide."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from stepward.validator.constants import constant_text
from stepward.validator.context import Context
from stepward.validator.findings import Evidence, Finding, Label, Property, Severity, Verdict
from stepward.validator.rules.base import Rule
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.parser import parse
from stepward.vm.language.guardrails import Never
from stepward.vm.language.steps import ConditionStep
from stepward.vm.reading.source import Place


class ConditionSyntax(Rule):
    """A condition or an expression can't be read."""

    code = "SW301"
    name = "condition-syntax"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every expression of a step or of a guardrail's `when` that does not parse."""
        for clause in context.meaning.clauses:
            error = _syntax_error(clause.text)
            if error is not None:
                help = error.help if clause.is_condition else _text_help(error)
                place = Place(clause.path, within=(error.start, error.end))
                yield self.finding(error.message, help, place, step=context.program.steps[clause.step].id)
        for number, rule in enumerate(context.program.guardrails):
            error = _syntax_error(rule.when) if isinstance(rule, Never) and rule.when is not None else None
            if error is not None:
                place = Place(("guardrails", number, "when"), within=(error.start, error.end))
                yield self.finding(error.message, error.help, place)


def _syntax_error(text: str) -> ExpressionError | None:
    try:
        parse(text)
    except ExpressionError as error:
        return error
    return None


def _text_help(error: ExpressionError) -> str:
    """A text of `set` is an expression; who writes a plain word there mostly means the word."""
    import re

    if re.fullmatch(rf"{NAME}(?:[ -]+{NAME})*", error.text.strip()):
        return f"write `\"'{error.text.strip()}'\"` for the text: what stands in `set` is an expression"
    return error.help


class UncoveredCondition(Rule):
    """In some state no branch covers the condition, and the run ends FAILED."""

    code = "SW302"
    name = "uncovered-condition"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield conditions whose one missing branch is the one that constants make them take."""
        for number, step in enumerate(context.program.steps):
            if isinstance(step, ConditionStep) and _coverage(context, number, step) is Verdict.VIOLATED:
                message = f"`{step.id}` takes no branch: its condition is always false and there is no `otherwise`"
                if step.condition is not None and step.then is None:
                    message = f"`{step.id}` takes no branch: its condition is always true and there is no `then`"
                help = "add the branch, or remove the condition"
                yield self.finding(message, help, Place(("steps", number, "id")), step=step.id)


def _coverage(context: Context, number: int, step: ConditionStep) -> Verdict:
    """Return whether every state takes a branch, as far as constants and the branches that are there say."""
    decided = context.decided_branch(number)
    if decided is not None:
        has_branch = (
            step.otherwise is not None if decided == "otherwise" else decided != "then" or step.then is not None
        )
        return Verdict.PROVED if has_branch else Verdict.VIOLATED
    if step.otherwise is not None and (step.cases is not None or step.then is not None):
        return Verdict.PROVED
    return Verdict.UNKNOWN


def uncovered(context: Context) -> Iterator[tuple[int, ConditionStep]]:
    """Yield the conditions of which it is not known whether a branch covers every state; note the verdict on each."""
    for number, step in enumerate(context.program.steps):
        if not isinstance(step, ConditionStep):
            continue
        started = perf_counter()
        verdict = _coverage(context, number, step)
        reason = "a branch is missing, and which states get here is for the engine to say"
        evidence = Evidence(
            "graph",
            cut=("every outcome has a branch",) if verdict is Verdict.PROVED else (),
            reason=reason if verdict is Verdict.UNKNOWN else "",
        )
        seconds = perf_counter() - started
        context.properties.append(
            Property("coverage", step.id, verdict, evidence, seconds, context.program.source_name)
        )
        if verdict is Verdict.UNKNOWN:
            yield number, step


class ConstantCondition(Rule):
    """A condition that is always true, or always false, decides nothing."""

    code = "SW303"
    name = "constant-condition"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every two-way condition whose value constants alone decide."""
        quoted = {clause.path for clause, problem in context.type_problems if problem.code == "SW204"}
        for number, step in enumerate(context.program.steps):
            if not isinstance(step, ConditionStep) or step.condition is None:
                continue
            value = constant_text(step.condition)
            if value is not None and ("steps", number, "condition") not in quoted:
                never = "otherwise" if value else "then"
                message = f"the condition is always {str(value).lower()}: `{never}` is never taken"
                help = "compare a reference such as `$name`, or name the successor without a condition"
                place = Place(("steps", number, "condition"))
                yield self.finding(message, help, place, step=step.id)


class ShadowedCase(Rule):
    """A case that is never taken: an earlier one always holds first, or it can't hold at all."""

    code = "SW304"
    name = "shadowed-case"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield cases that constants rule out, cases after one that always holds, and cases asked twice."""
        for number, step in enumerate(context.program.steps):
            if isinstance(step, ConditionStep) and step.cases is not None:
                yield from self._cases(number, step)

    def _cases(self, number: int, step: ConditionStep) -> Iterator[Finding]:
        seen: dict[str, Place] = {}
        always: Place | None = None
        for position, case in enumerate(step.cases or ()):
            place = Place(("steps", number, "cases", position, "when"))
            value, text = constant_text(case.when), " ".join(case.when.split())
            if always is not None:
                related = [Label(always, "this case always holds")]
                help = "move it up, or remove it"
                message = "this case is never taken: an earlier one always holds"
                yield self.finding(message, help, place, step=step.id, related=related)
            elif value is False:
                message = "this case is never taken: it is always false"
                yield self.finding(message, "compare a reference such as `$name`, or remove it", place, step=step.id)
            elif text in seen and _syntax_error(case.when) is None:
                related = [Label(seen[text], "the same case stands here")]
                message = "this case is never taken: the same one stands before it"
                yield self.finding(message, "remove one of the two", place, step=step.id, related=related)
            if value is True and always is None:
                always = place
            seen.setdefault(text, place)


class OverlappingCases(Rule):
    """Two cases can hold at once, and `exclusive: true` asked that none do."""

    code = "SW305"
    name = "overlapping-cases"

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing yet: whether two cases can hold at once is for the engine to prove."""
        return iter(())


def overlap_open(context: Context) -> Iterator[tuple[int, ConditionStep]]:
    """Yield the conditions that ask for exclusive cases and have more than one."""
    for number, step in enumerate(context.program.steps):
        if isinstance(step, ConditionStep) and step.exclusive and len(step.cases or ()) > 1:
            yield number, step
