"""SW211: does a prompt or an argument have placeholders of another language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from stepward.validator.context import Context
from stepward.validator.findings import Finding
from stepward.validator.rules.base import Rule
from stepward.validator.rules.intended import intended
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.paths import Paths
from stepward.vm.language.steps import AnyStep, ForEachStep, InvokeStep
from stepward.vm.reading.source import Correction, Path, Place

_NAMES: Final = rf"{NAME}(?:\.{NAME})*"
_PLACEHOLDER: Final = re.compile(
    rf"""\$\$
    |\$\{{\s*(?P<shell>{_NAMES})\s*\}}
    |\{{\{{\s*\$?(?P<braces>{_NAMES})\s*\}}\}}
    |\$(?P<array>{_NAMES})\[-?[0-9]+\]
    |\$(?P<owner>{_NAMES})\[(?P<quote>['"])(?P<field>{NAME})(?P=quote)\]""",
    re.VERBOSE,
)


class ForeignPlaceholder(Rule):
    """A prompt or an argument contains a placeholder of another language, which the machine does not replace.

    ## What it does
    Reports `${name}`, `{{ name }}`, `$list[0]` and `$object['field']` in prompts, arguments, outputs, and in lists and
    objects of `set`. Only `$name` and `$name.field` are replaced there; an index can only be read in an expression. A
    placeholder in braces is reported if the program has that name, or if the placeholder is the whole text. `$$` is an
    escaped dollar sign, so `$${name}` gives the text `${name}`.

    ## Why it is bad
    The model or the tool gets the braces and not the value. The run still succeeds, and a customer reads `Hello {{ name
    }}`.

    ## Example
    ```yaml
    name: welcome
    inputs: {customer: {type: string}}
    steps:
      - {id: greet, type: llm, prompt: "Greet {{ customer }} in one sentence."}
    ```

    ## Use instead
    ```yaml
    name: welcome
    inputs: {customer: {type: string}}
    steps:
      - {id: greet, type: llm, prompt: "Greet $customer in one sentence."}
    ```
    """

    code = "SW211"
    name = "foreign-placeholder"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every placeholder of another language in the texts that references are filled into."""
        for number, step in enumerate(context.facts.flow.steps):
            for path, value in _filled(step, context.facts.program.language):
                for text_path, text in braced_texts(value, (*context.facts.flow.layout.path(number), *path)):
                    for match in _PLACEHOLDER.finditer(text):
                        yield from self._found(context, step.id, text_path, match)

    def _found(self, context: Context, step: str, path: Path, match: re.Match[str]) -> Iterator[Finding]:
        token, text = match.group(), match.string
        place = Place(path, within=match.span())
        if match["array"]:
            message = (
                f"`{token}` gives the whole of `${match['array']}`, followed by the text `{token[token.index('[') :]}`"
            )
            help = "let a tool return the item"
            if "-" not in token:
                help = f"write `item: {token}` in a `set` step before it, and `$item` here"
                if context.facts.program.language == 1:
                    help += "; for an index, the program says `language: 2`"
            yield self.finding(message, help, place, step=step)
            return
        if token == "$$":
            return
        names = (*match["owner"].split("."), match["field"]) if match["field"] else _names(match)
        intended_names = intended(context, names)
        if intended_names is None and token != text.strip():
            return
        reference = "$" + written(intended_names or names)
        message = f"`{token}` is not a reference here, so it is not replaced"
        help = f"write `{reference}` instead"
        glued = re.match(rf"\w|\.{NAME}", text[match.end() :]) is not None
        if glued:
            help += ", followed by a space"
        if intended_names is None:
            help += f", and declare `{names[0]}` under `inputs`"
        correction = (
            None if glued or intended_names is None or intended_names != names else Correction(place, reference)
        )
        yield self.finding(message, help, place, step=step, correction=correction)


def _filled(step: AnyStep, language: int) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a step with texts into which references are filled, each with its path below the step."""
    yield from ((path, value) for _, path, value in step.templates)
    if isinstance(step, InvokeStep):
        yield ("args",), step.args
    elif language > 1:  # where references in a list or an object are read
        word = "carry" if isinstance(step, ForEachStep) else "set"
        for name, value in step.assigns.items():
            assigned = value.items() if isinstance(value, Paths) else [(name, value)]
            yield from (((word, key), one) for key, one in assigned if not isinstance(one, str))


def _names(match: re.Match[str]) -> tuple[str, ...]:
    return tuple((match["shell"] or match["braces"]).split("."))


def braced_texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a value that have a brace or a bracket, at any depth, each with its path."""
    if isinstance(value, str):
        if "{" in value or "[" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from braced_texts(item, (*path, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from braced_texts(item, (*path, number))
