"""What of the language needs `language: 2`: one table, a row for each kind of feature.

A program that uses a feature without saying `language: 2` is refused, with a help that says what to add. A machine that
does not know the feature refuses the program by its `language`, in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stepward.vm.errors import ExpressionError, Problem
from stepward.vm.expressions.fields import is_indexed
from stepward.vm.expressions.operators import FUNCTIONS
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.paths import is_path
from stepward.vm.expressions.syntax import Built, Expression, FunctionCall, all_references, walk
from stepward.vm.language.guardrails import Guardrail, Never, has_past
from stepward.vm.language.layout import Layout
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.steps import BranchStep, SetStep, parts
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Correction, Path, Place


class Written(NamedTuple):
    """The parts of a program in which features stand."""

    inputs: Mapping[str, TypeSpec]
    tools: Mapping[str, ToolSpec]
    guardrails: Sequence[Guardrail]
    layout: Layout
    timeout: object
    """Its `timeout_seconds`, None without it."""


def misplaced_past(program: Written) -> Problem | None:
    """Return the problem of a rule that says what runs before left of it: only the machine knows, and not here."""
    rules: dict[Path, Guardrail] = {("guardrails", number): rule for number, rule in enumerate(program.guardrails)}
    for owner in program.layout.bodies:
        own = getattr(program.layout.steps[owner], "guardrails", ())
        rules |= {(*program.layout.rules_path(owner), number): rule for number, rule in enumerate(own)}
    path = next((path for path, rule in rules.items() if has_past(rule)), None)
    if path is None:
        return None
    message = "the machine writes `already`, for a run that continues another"
    return Problem("SW002", message, "remove it", Place((*path, "already")))


class Use(NamedTuple):
    """A use of a feature: the feature as messages name it, and where it stands."""

    feature: str
    place: Place


_FUNCTION_WORDS: Final = "|".join(word for word, row in FUNCTIONS.items() if row.language == 2)
_IN_TEXT: Final = re.compile(rf"\b(?:{_FUNCTION_WORDS})\b|[\w\]]\[|\[[^\]]*\$")
"""What stands in the text of every expression with a feature of language 2."""


def _functions(tree: Expression) -> Iterator[tuple[str, Expression]]:
    for node in walk(tree):
        if isinstance(node, FunctionCall) and FUNCTIONS[node.function].language == 2:
            yield f"the function `{node.function}`", node


def _brackets(tree: Expression) -> Iterator[tuple[str, Expression]]:
    for reference in all_references(tree):
        if is_indexed(reference.names):
            yield "an index", reference
        elif '"]' in reference.text():
            yield "a field in brackets", reference


def _lists(tree: Expression) -> Iterator[tuple[str, Expression]]:
    for node in walk(tree):
        if isinstance(node, Built):
            yield "a reference in a list", node


IN_EXPRESSIONS: Final[tuple[Callable[[Expression], Iterator[tuple[str, Expression]]], ...]] = (
    _functions,
    _brackets,
    _lists,
)
"""The features of expressions: each row yields its uses in one expression, with the node."""


def _of_expressions(program: Written) -> Iterator[Use]:
    for path, text in _expressions(program):
        if _IN_TEXT.search(text) is None:
            continue  # most texts have none: they are not parsed here
        try:
            tree = parse(text)
        except ExpressionError:
            continue  # SW301 says so
        for row in IN_EXPRESSIONS:
            for feature, node in row(tree):
                yield Use(feature, Place(path, within=(node.start, node.end)))


def needs_language_2(text: str) -> bool:
    """Return whether an expression has a feature of language 2; raises ExpressionError for one that does not parse."""
    tree = parse(text)
    return any(next(row(tree), None) is not None for row in IN_EXPRESSIONS)


def _expressions(program: Written) -> Iterator[tuple[Path, str]]:
    for number, step in enumerate(program.layout.steps):
        for path, text, _, _ in step.expressions:
            yield (*program.layout.path(number), *path), text
    for number, rule in enumerate(program.guardrails):
        if isinstance(rule, Never) and rule.when is not None:
            yield ("guardrails", number, "when"), rule.when


_TYPE_WORDS: Final = frozenset(
    ["const", "exclusive_minimum", "exclusive_maximum", "min_length", "min_items", "max_items"]
)
"""The fields of a type that need language 2."""


def _of_types(program: Written) -> Iterator[Use]:
    for where, spec in _types(program):
        for path, part in _parts(where, spec):
            for name in sorted(part.model_fields_set & _TYPE_WORDS):
                word = TypeSpec.model_fields[name].alias or name
                yield Use(f"the type word `{word}`", Place((*path, word), key=True))


def _types(program: Written) -> Iterator[tuple[Path, TypeSpec]]:
    for name, spec in (program.inputs).items():
        yield ("inputs", name), spec
    for name, tool in (program.tools).items():
        yield from ((("tools", name, "args", arg), spec) for arg, spec in (tool.args or {}).items())
        if tool.returns is not None:
            yield ("tools", name, "returns"), tool.returns
    for number, step in enumerate(program.layout.steps):
        for sub, call in step.calls:
            if call.type == "llm" and call.returns is not None:
                yield (*program.layout.path(number, sub), "returns"), call.returns
        if step.type == "compute" and step.returns is not None:
            yield (*program.layout.path(number), "returns"), step.returns


def _of_steps(program: Written) -> Iterator[Use]:
    for number in program.layout.forks:
        yield Use("`branches`", Place((*program.layout.path(number), "branches"), key=True))
    for number in program.layout.bodies:
        if isinstance(program.layout.steps[number], BranchStep):
            continue
        yield Use(f"the step type `{program.layout.steps[number].type}`", Place((*program.layout.path(number), "type")))


def _of_paths(program: Written) -> Iterator[Use]:
    for number, step in enumerate(program.layout.steps):
        for key in step.set if isinstance(step, SetStep) else ():
            if is_path(key):
                yield Use("a path in `set`", Place((*program.layout.path(number), "set", key), key=True))


def _of_errors(program: Written) -> Iterator[Use]:
    for name, tool in program.tools.items():
        if tool.errors is not None:
            yield Use("`errors` of a tool", Place(("tools", name, "errors"), key=True))
    for number, step in enumerate(program.layout.steps):
        for sub, part in parts(step):
            for field in ("catch", "retry"):
                if getattr(part, field, None) is not None:
                    yield Use(f"`{field}`", Place((*program.layout.path(number, sub), field), key=True))


def _parts(path: Path, spec: TypeSpec) -> Iterator[tuple[Path, TypeSpec]]:
    """Yield a type and the types of its parts, each with its path."""
    yield path, spec
    if spec.items is not None:
        yield from _parts((*path, "items"), spec.items)
    for name, inner in (spec.properties or {}).items():
        yield from _parts((*path, "properties", name), inner)
    if isinstance(spec.additional_properties, TypeSpec):
        yield from _parts((*path, "additionalProperties"), spec.additional_properties)


_FIELDS_OF_CALLS: Final = ("model", "temperature", "max_output_tokens")
"""The fields of an `llm` step that need language 2."""


def _of_calls(program: Written) -> Iterator[Use]:
    for number, step in enumerate(program.layout.steps):
        for sub, call in step.calls:
            for name in _FIELDS_OF_CALLS if call.type == "llm" else ():
                if getattr(call, name) is not None:
                    yield Use(f"the field `{name}`", Place((*program.layout.path(number, sub), name), key=True))


def _of_order(program: Written) -> Iterator[Use]:
    for number, step in enumerate(program.layout.steps):
        for sub, part in enumerate(step.sub_steps):
            if part.depends_on:
                yield Use("`depends_on`", Place((*program.layout.path(number, sub), "depends_on"), key=True))


def _of_compute(program: Written) -> Iterator[Use]:
    for number, step in enumerate(program.layout.steps):
        if step.type == "compute":
            yield Use("a `compute` step", Place((*program.layout.path(number), "type")))


def _of_time(program: Written) -> Iterator[Use]:
    if program.timeout is not None:
        yield Use("`timeout_seconds` of a program", Place(("timeout_seconds",), key=True))
    for number, step in enumerate(program.layout.steps):
        if step.type == "wait":
            yield Use("a `wait` step", Place((*program.layout.path(number), "type")))
        for sub, call in step.calls:
            if call.type == "tool" and call.deadline_seconds is not None:
                place = Place((*program.layout.path(number, sub), "deadline_seconds"), key=True)
                yield Use("`deadline_seconds`", place)


SAY_2: Final = Correction(Place(), "2", "language", is_number=True)
"""The correction of a program that does not say its language."""

FEATURES: Final[tuple[Callable[[Written], Iterator[Use]], ...]] = (
    _of_steps,
    _of_expressions,
    _of_types,
    _of_calls,
    _of_errors,
    _of_order,
    _of_compute,
    _of_time,
    _of_paths,
)
"""The table: each row yields the uses of its features in a program."""


def missing_language(program: Written, *, says_1: bool) -> Problem | None:
    """Return the problem of the first feature that a program without `language: 2` uses, None if it uses none.

    One help corrects all uses of all features, so that only one is reported. `says_1`: the program says `language: 1`.
    """
    use = next((use for row in FEATURES for use in row(program)), None)
    if use is None:
        return None
    help = "write `language: 2` instead of `language: 1`" if says_1 else "add `language: 2` to the program"
    correction = None if says_1 else SAY_2
    where, path = use.place, use.place.path
    step = program.layout.step_at(path)
    return Problem("SW002", f"{use.feature} needs language 2", help, where, step=step, correction=correction)
