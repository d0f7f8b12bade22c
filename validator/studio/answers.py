"""What somebody has typed as an answer: read as JSON or as text, and compared with the type before it is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepward.validator.result import AdvisedError
from stepward.validator.studio.examples import NoExample, example_of, type_in_words
from stepward.vm.errors import ProgramError
from stepward.vm.language.types import refusal
from stepward.vm.reading.json_format import read_json
from stepward.vm.values import ValueRefused, freeze, to_json

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec

_STARTS: Final = ("{", "[", '"')
"""The first characters of JSON that is no plain text: a mistake in it is a mistake."""


def advice_on(spec: TypeSpec | None) -> str:
    """Return in words what an answer of a type is, with an example."""
    if spec is not None and spec.kinds == {"string"}:
        return f"write {type_in_words(spec)}, without quotation marks"
    shown = example_text(spec)
    return f"write {type_in_words(spec)}" + (f", for example `{shown}`" if shown else "")


def example_text(spec: TypeSpec | None) -> str:
    """Return an example of an answer as somebody types it; empty if none is easily found, or if anything is right."""
    if spec is None:
        return ""
    try:
        value = example_of(spec)
    except NoExample:
        return ""
    return value if spec.kinds == {"string"} else to_json(freeze(value))


def value_typed(text: str, spec: TypeSpec | None, name: str) -> Any:
    """Return the value that somebody has typed; raises AdvisedError, with `name` for the value, if it is not its type.

    Where the type is only text, the value is what was typed. Else it is read as JSON; what is none, or is not of the
    type, is a text where the type allows one.
    """
    if spec is not None and spec.kinds == {"string"}:
        return _fitting(text, spec, name)
    if not text.strip():
        raise AdvisedError(f"{name} is empty", advice_on(spec))
    is_text = spec is not None and spec.admits("string")
    try:
        value = _read(text.strip(), spec, name)
        return _fitting(value, spec, name)
    except AdvisedError:
        if is_text or (spec is None and not text.lstrip().startswith(_STARTS)):
            return _fitting(text, spec, name)
        raise


def _read(text: str, spec: TypeSpec | None, name: str) -> Any:
    try:
        found = read_json(name, text)
    except ProgramError as error:
        problems = error.problems
    else:
        problems = found.problems
        if not problems:
            return found.data
    problem = problems[0]
    where = "" if problem.span is None else f" (line {problem.span.line}, column {problem.span.column})"
    why = problem.message.removeprefix("not readable as JSON: ")
    raise AdvisedError(f"{name} can't be read as JSON: {why}{where}", advice_on(spec))


def _fitting(value: Any, spec: TypeSpec | None, name: str) -> Any:
    try:
        why = None if spec is None else refusal(freeze(value), spec)
    except ValueRefused as error:
        why = str(error)
    if why is not None:
        raise AdvisedError(f"{name} is not of its type: {why}", advice_on(spec))
    return value
