"""SW301 to SW305: can a condition be parsed, and does it decide anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.constants import constant_text
from stepward.validator.context import Context
from stepward.validator.findings import COVERAGE, EXCLUSIVE_CASES, Evidence, Finding, Label, Severity, Verdict
from stepward.validator.rules.base import EngineRule, Rule
from stepward.validator.rules.feasibility import unreached_words
from stepward.validator.rules.regions import is_asked_again, is_last_clause, removal_suggestion
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.parser import parse, parses
from stepward.vm.language.editions import SAY_2, needs_language_2
from stepward.vm.language.guardrails import Never
from stepward.vm.language.program import Program
from stepward.vm.language.steps import ConditionStep
from stepward.vm.reading.source import Correction, Path, Place

if TYPE_CHECKING:
    from stepward.validator.engine.verdicts import Judged


_INTERPOLATED: Final = re.compile(rf"\${NAME}[^$]*[^\W\d]\w+|[^\W\d]\w+[^$]*\${NAME}")
"""A reference beside a word, as in a prompt."""

_OR_DROP: Final = ", or remove this case with the steps that only it leads to"


class ConditionSyntax(Rule):
    """A condition or an expression has a syntax error.

    ## What it does
    Reports a condition, a case, a text in `set` or the `when` of a guardrail of the program if it is not a valid
    expression. The message says where the error is and what was expected there. For notations of other languages (`&&`,
    `!`, `=`, `.lower()`), the help says what to write instead. A text constant in `set` needs its own quotes:
    `"'paid'"`.

    ## Why it is bad
    An expression with a syntax error has no value, and a guess at its meaning could select the wrong branch. Everything
    that depends on the expression can't be checked either.

    ## Example
    ```yaml
    name: order_check
    inputs: {paid: {type: boolean}, amount: {type: number}}
    steps:
      - {id: is_fine, type: condition, condition: $paid == true && $amount < 500, then: ship, otherwise: hold}
      - {id: ship, type: end}
      - {id: hold, type: end, outcome: failure}
    ```

    ## Use instead
    ```yaml
    name: order_check
    inputs: {paid: {type: boolean}, amount: {type: number}}
    steps:
      - {id: is_fine, type: condition, condition: $paid == true and $amount < 500, then: ship, otherwise: hold}
      - {id: ship, type: end}
      - {id: hold, type: end, outcome: failure}
    ```
    """

    code = "SW301"
    name = "condition-syntax"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every expression of a step or of a guardrail's `when` that does not parse."""
        for clause in context.facts.meaning.clauses:
            error = clause.error
            if error is not None:
                help = error.help if clause.is_condition else _text_help(error, clause.name)
                place = clause.place(error.start, error.end)
                step = context.facts.flow.steps[clause.step].id
                correction = None
                if help == error.help:
                    help, correction = _offer(error, place.path, context.facts.program)
                yield self.finding(error.message, help, place, step=step, correction=correction)
        for number, rule in enumerate(context.facts.program.guardrails):
            error = _syntax_error(rule.when) if isinstance(rule, Never) and rule.when is not None else None
            if error is not None:
                place = Place(("guardrails", number, "when"), within=(error.start, error.end))
                help, correction = _offer(error, place.path, context.facts.program)
                yield self.finding(error.message, help, place, correction=correction)


def _offer(error: ExpressionError, path: Path, program: Program) -> tuple[str, Correction | None]:
    """Return the help for an expression, and its correction; a rewrite may need `language: 2`, too."""
    correction = _correction(error, path)
    if program.language == 2 or not error.rewrite or not needs_language_2(error.rewrite):
        return error.help, correction
    says_1 = "language" in program.model_fields_set
    help = f"write `{error.rewrite}`, and {'write' if says_1 else 'add'} `language: 2`"
    return help, None if says_1 or correction is None else correction._replace(also=SAY_2)


def _correction(error: ExpressionError, path: Path) -> Correction | None:
    """Return the edit that writes an expression of another language in ours, if its meaning is certain."""
    from stepward.vm.expressions.hints import equivalent

    rewrite = equivalent(error.text, parses) if error.rewrite else None
    # White space around the expression belongs to the layout of the document.
    return Correction(Place(path), error.text.replace(error.text.strip(), rewrite)) if rewrite else None


def _syntax_error(text: str) -> ExpressionError | None:
    try:
        parse(text)
    except ExpressionError as error:
        return error
    return None


def _text_help(error: ExpressionError, name: str) -> str:
    """Return the help for a text of `set` that is no expression: a plain word mostly lacks its quotes."""
    if re.fullmatch(rf"{NAME}(?:[ -]+{NAME})*", error.text.strip()):
        return f"write `\"'{error.text.strip()}'\"` for the text: a value in `set` is an expression"
    if not error.rewrite and _INTERPOLATED.search(error.text):
        return f"`set` fills in no texts: write `{error.text.strip()}` in the prompt or argument that reads `${name}`"
    return error.help


class UncoveredCondition(EngineRule):
    """In some state the condition takes no branch, so the run ends FAILED at it.

    ## What it does
    Reports a condition that takes no branch in some state: no case holds and there is no `otherwise`, or a two-way
    condition has no branch for the result. The message names such a state, and the finding shows a path to it. States
    that earlier conditions and assignments rule out do not count. If Stepward can't decide whether a condition always
    takes a branch, it reports SW408 `unproved`.

    ## Why it is bad
    The run ends with the reason `uncovered`, and nobody planned this ending. Usually this happens after somebody added
    a value to an `enum` or to a list of replies.

    ## Example
    A parcel of exactly 20 kg is neither light nor heavy:

    ```yaml
    name: choose_carrier
    inputs: {kilos: {type: number}}
    steps:
      - id: by_weight
        type: condition
        cases:
          - {name: light, when: $kilos < 20, then: van}
          - {name: heavy, when: $kilos > 20, then: freight}
      - {id: van, type: end}
      - {id: freight, type: end}
    ```

    ## Use instead
    ```yaml
    name: choose_carrier
    inputs: {kilos: {type: number}}
    steps:
      - id: by_weight
        type: condition
        cases:
          - {name: light, when: $kilos < 20, then: van}
        otherwise: freight
      - {id: van, type: end}
      - {id: freight, type: end}
    ```
    """

    code = "SW302"
    name = "uncovered-condition"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield conditions that take no branch in a state that certainly occurs."""
        for number, step, judged in _judged(context, COVERAGE, Verdict.VIOLATED):
            place = Place((*context.facts.flow.layout.path(number), "id"))
            if judged.when:
                message = f"`{step.id}` takes no branch when {judged.when}"
                help = _missing_branch(step)
                yield self.finding(message, help, place, step=step.id, evidence=judged.evidence)
            else:
                message = f"`{step.id}` takes no branch: its condition is always false and there is no `otherwise`"
                if step.condition is not None and step.then is None:
                    message = f"`{step.id}` takes no branch: its condition is always true and there is no `then`"
                help, evidence = "add the branch, or remove the condition", judged.evidence
                yield self.finding(message, help, place, step=step.id, evidence=evidence)


def undecided_conditions(context: Context, rule: Rule) -> Iterator[Finding]:
    """Yield a finding of `rule` for each condition whose coverage or exclusive cases are neither proved nor refuted."""
    for number, step, judged in _judged(context, COVERAGE, Verdict.UNKNOWN):
        unknown, broken = f"`{step.id}` always takes a branch", f"`{step.id}` takes no branch"
        message, help = _undecided_message(unknown, broken, judged), _missing_branch(step)
        yield rule.finding(
            message,
            help,
            Place((*context.facts.flow.layout.path(number), "id")),
            step=step.id,
            evidence=judged.evidence,
        )
    for number, step, judged in _judged(context, EXCLUSIVE_CASES, Verdict.UNKNOWN):
        message = _undecided_message(f"no two cases of `{step.id}` hold at once", _both_hold(step, judged.pair), judged)
        help = "remove `exclusive: true`: the first case that holds wins anyway"
        yield rule.finding(
            message,
            help,
            Place((*context.facts.flow.layout.path(number), "exclusive")),
            step=step.id,
            evidence=judged.evidence,
        )


def _undecided_message(unknown: str, broken: str, judged: Judged) -> str:
    """Return a message: what is not known, or what happens in a state that was found but may not occur."""
    message = f"it is neither proved nor refuted that {unknown}"
    if judged.when:
        message = f"{broken} when {judged.when}, if that can happen here"
    return f"{message}: {judged.evidence.reason}"


def _judged(context: Context, name: str, verdict: Verdict) -> Iterator[tuple[int, ConditionStep, Judged]]:
    """Yield the conditions whose property of this name has this verdict."""
    for number, step, judged, known in context.verdicts.conditions:
        if known.name == name and known.verdict is verdict:
            yield number, step, judged


def _missing_branch(step: ConditionStep) -> str:
    """Return a help that names the missing branch, and no step: only the author knows where this case belongs."""
    missing = "then" if step.condition is not None and step.then is None else "otherwise"
    return f"add `{missing}` with the step for this case"


class ConstantCondition(EngineRule):
    """A condition that is always true, or always false, decides nothing.

    ## What it does
    Reports a two-way condition that has the same value in every run that evaluates it. The cause can be constants, the
    types of the values that it reads, or earlier conditions and assignments. The message names the steps that only the
    other branch leads to. For a case that is never taken, see SW304.

    ## Why it is bad
    One branch is never taken, although the program looks as if it could be. Often somebody disabled a condition for a
    test and did not enable it again.

    ## Example
    An amount that reaches `is_tiny` is above 500, so it is never below 20:

    ```yaml
    name: refund
    inputs: {amount: {type: number, minimum: 0}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 500, then: accept, otherwise: is_tiny}
      - {id: is_tiny, type: condition, condition: $amount < 20, then: accept, otherwise: review}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```

    ## Use instead
    ```yaml
    name: refund
    inputs: {amount: {type: number, minimum: 0}}
    steps:
      - {id: is_small, type: condition, condition: $amount <= 500, then: accept, otherwise: review}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```
    """

    code = "SW303"
    name = "constant-condition"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every two-way condition whose value is decided by constants, types or the steps before it."""
        quoted = {clause.path for clause, problem in context.analyses.type_problems if problem.code == "SW204"}
        for number, step in context.facts.conditions:
            if step.condition is None or is_asked_again(context, number):
                continue
            branch = context.facts.decided_branch(number)
            value = branch == "then" if branch is not None else None
            help, evidence = "compare a reference such as `$name`", None
            if value is None:
                decision = context.verdicts.decided.constant(number)
                if decision is None:
                    continue
                value, evidence = decision
                by_what_comes_before = (
                    "earlier conditions and assignments decide the result: compare with another value"
                )
                by_types = "the types of the values decide the result: compare with another value"
                help = by_what_comes_before if _is_by_what_comes_before(evidence) else by_types
                if value and is_last_clause(context, number) and help == by_what_comes_before:
                    continue
            if (*context.facts.flow.layout.path(number), "condition") not in quoted:
                never = "otherwise" if value else "then"
                is_written = getattr(step, never) is not None
                message = f"the condition is always {str(value).lower()}"
                message += f": `{never}` is never taken{unreached_words(context, number)}" if is_written else ""
                help, place = (
                    help + removal_suggestion(number, context),
                    Place((*context.facts.flow.layout.path(number), "condition")),
                )
                yield self.finding(message, help, place, step=step.id, evidence=evidence)


class ShadowedCase(EngineRule):
    """A case is never taken, because an earlier case always holds first or because the case can't hold at all.

    ## What it does
    The first case that holds is taken. Reports a case that can't hold because of its constants or the types of the
    values that it reads. Also reports a case that repeats an earlier one, or that holds only if an earlier one holds.
    Also reports a case that is never the first to hold for the values that reach the step. A step that only such a case
    leads to is also reported as SW103.

    ## Why it is bad
    For the values that the author meant, the run does not go to the step that the case names. The case looks like a
    business rule, but it is never applied.

    ## Example
    ```yaml
    name: discount
    inputs: {tier: {type: string, enum: [basic, silver, gold]}}
    steps:
      - id: by_tier
        type: condition
        cases:
          - {name: silver, when: $tier == 'silver', then: small_discount}
          - {name: gold, when: $tier == 'silver', then: large_discount}
        otherwise: no_discount
      - {id: small_discount, type: end}
      - {id: large_discount, type: end}
      - {id: no_discount, type: end}
    ```

    ## Use instead
    ```yaml
    name: discount
    inputs: {tier: {type: string, enum: [basic, silver, gold]}}
    steps:
      - id: by_tier
        type: condition
        cases:
          - {name: silver, when: $tier == 'silver', then: small_discount}
          - {name: gold, when: $tier == 'gold', then: large_discount}
        otherwise: no_discount
      - {id: small_discount, type: end}
      - {id: large_discount, type: end}
      - {id: no_discount, type: end}
    ```
    """

    code = "SW304"
    name = "shadowed-case"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield cases that are never taken because of constants, earlier cases, or the values that reach the step."""
        for number, step in context.facts.conditions:
            if step.cases is not None:
                yield from self._never_taken(context, number, step)

    def _never_taken(self, context: Context, number: int, step: ConditionStep) -> Iterator[Finding]:
        first: dict[str, Place] = {}
        always: Place | None = None
        for position, case in enumerate(step.cases or ()):
            place = Place((*context.facts.flow.layout.path(number), "cases", position, "when"))
            value, text = constant_text(case.when, context.facts.program.language), " ".join(case.when.split())
            if always is not None:
                related = [Label(always, "this case always holds")]
                message = "this case is never taken: an earlier one always holds"
                yield self.finding(message, "move this case up" + _OR_DROP, place, step=step.id, related=related)
            elif value is False:
                message, help = "this case is never taken: it is always false", "compare a reference such as `$name`"
                yield self.finding(message, help + _OR_DROP, place, step=step.id)
            elif text in first and _syntax_error(case.when) is None:
                related = [Label(first[text], "the same case is here")]
                message = "this case is never taken: the same case comes before it"
                yield self.finding(message, "remove one of the two", place, step=step.id, related=related)
            elif value is None:
                yield from self._never_first(context, number, step, position)
            if value is True and always is None:
                always = place
            first.setdefault(text, place)

    def _never_first(self, context: Context, number: int, step: ConditionStep, position: int) -> Iterator[Finding]:
        """Yield the case if no value that its types allow and that reaches the step makes it the first to hold."""
        decision = context.verdicts.decided.never_taken(number, position)
        if decision is None:
            return
        evidence, is_false, earlier = decision
        place = Place((*context.facts.flow.layout.path(number), "cases", position, "when"))
        message = "this case is never taken: whenever it holds, an earlier one does"
        help = "move this case up" + _OR_DROP
        related = []
        if _is_by_what_comes_before(evidence):
            message = "this case is never taken: nothing that gets here makes it the first to hold"
            help = "earlier conditions and assignments decide the result: compare with another value" + _OR_DROP
        elif is_false:
            message = "this case is never taken: no value of its types makes it true"
            help = "compare with a value that can be" + _OR_DROP
        elif earlier is not None:
            related = [
                Label(
                    Place((*context.facts.flow.layout.path(number), "cases", earlier, "when")),
                    "this case holds whenever it does",
                )
            ]
        yield self.finding(message, help, place, step=step.id, related=related, evidence=evidence)


def _is_by_what_comes_before(evidence: Evidence) -> bool:
    from stepward.validator.engine.verdicts import HERE

    return evidence.cut[0].startswith(HERE)


class OverlappingCases(EngineRule):
    """Two cases can hold at once, although the condition has `exclusive: true`.

    ## What it does
    Reports a condition with `exclusive: true` if two of its cases hold in some state. The message names such a state,
    and the finding shows a path to it. States that earlier conditions and assignments rule out do not count. If
    Stepward can't decide whether two cases can hold at once, it reports SW408 `unproved`.

    ## Why it is bad
    The order of the list decides which of the two cases is taken, but `exclusive: true` promises that the order does
    not matter. If somebody reorders the list, the program behaves differently.

    ## Example
    An amount of exactly 100 is both low and high:

    ```yaml
    name: review_level
    inputs: {amount: {type: number}}
    steps:
      - id: by_amount
        type: condition
        exclusive: true
        cases:
          - {name: low, when: $amount <= 100, then: accept}
          - {name: high, when: $amount >= 100, then: review}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```

    ## Use instead
    Let one case end exactly where the next begins. Or remove `exclusive: true`; then the order of the list decides:

    ```yaml
    name: review_level
    inputs: {amount: {type: number}}
    steps:
      - id: by_amount
        type: condition
        exclusive: true
        cases:
          - {name: low, when: $amount <= 100, then: accept}
          - {name: high, when: $amount > 100, then: review}
      - {id: accept, type: end}
      - {id: review, type: end}
    ```
    """

    code = "SW305"
    name = "overlapping-cases"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield conditions of which two cases hold in a state that certainly occurs."""
        for number, step, judged in _judged(context, EXCLUSIVE_CASES, Verdict.VIOLATED):
            if judged.pair is not None:
                first, second = (
                    Place((*context.facts.flow.layout.path(number), "cases", case, "when")) for case in judged.pair
                )
                message = f"{_both_hold(step, judged.pair)} when {judged.when}"
                help = (
                    "change the two so that only one can hold, or remove `exclusive: true` to take the first that holds"
                )
                related = [Label(first, "this case holds as well")]
                yield self.finding(message, help, second, step=step.id, related=related, evidence=judged.evidence)


def _both_hold(step: ConditionStep, pair: tuple[int, int] | None) -> str:
    """Return the words that two cases of a condition hold."""
    cases = step.cases or ()
    names = [f"`{cases[case].name}`" if cases[case].name else f"case {case + 1}" for case in pair or ()]
    return f"{' and '.join(names)} of `{step.id}` both hold"
