"""Values on the command line: text, parsed by the type that the program declares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.gate.settings import did_you_mean
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec

_WRITTEN: Final = ("{", "[", '"', "'")
"""The first characters of values that are no plain scalars."""


class ValueUnreadable(AdvisedError):  # noqa: N818 - a name without Error
    """A value on the command line, or a file of values, can't be read."""


def value_of(text: str, spec: TypeSpec | None, name: str) -> Any:
    """Return the value that a text stands for; raises ValueUnreadable, with `name` for the value, if it is none.

    Where the type is only text, the value is the text itself. Else it is read as a YAML 1.2 scalar or as JSON; if the
    result does not fit the type but text does, the value is the text.
    """
    if spec is not None and spec.kinds == {"string"}:
        return text
    try:
        value = _read(text.strip(), name)
    except ValueUnreadable:
        if spec is None or not spec.admits("string"):
            raise
        return text
    return text if spec is not None and not _is_wanted(value, spec) and spec.admits("string") else value


def answer_of(text: str, spec: TypeSpec | None, name: str) -> Any:
    """Return the value that a text stands for which is to be JSON; raises ValueUnreadable as `value_of`.

    A text in JSON is that text. What is no JSON, or is no text and not of the type, is read as `value_of` does: so a
    word without quotes is a text, where the type allows one.
    """
    from stepward.vm.errors import ProgramError
    from stepward.vm.reading.json_format import read_json

    try:
        found = read_json(name, text)
    except ProgramError:
        if not text.strip() and (spec is None or not spec.admits("string")):
            raise _unreadable(name, "it is empty") from None
        return value_of(text, spec, name)
    is_wanted = spec is None or isinstance(found.data, str) or _is_wanted(found.data, spec)
    return found.data if is_wanted and not found.problems else value_of(text, spec, name)


def _read(text: str, name: str) -> Any:
    from stepward.vm.errors import ProgramError
    from stepward.vm.reading.scalars import resolve
    from stepward.vm.reading.yaml_format import read_yaml

    try:
        if not text.startswith(_WRITTEN):
            return resolve(text)
        documents = read_yaml(name, text)
    except ValueError as error:
        raise ValueUnreadable(f"{name} can't be read: {error}", "write a shorter number") from None
    except ProgramError as error:
        raise _unreadable(name, error.problems[0].message) from None
    problems = [problem for document in documents for problem in document.problems]
    if problems or len(documents) != 1:
        raise _unreadable(name, problems[0].message if problems else "it is more than one value")
    return documents[0].data


def _unreadable(name: str, why: str) -> ValueUnreadable:
    return ValueUnreadable(
        f"{name} can't be read: {why}", "write JSON, in single quotes for the shell: `'{\"key\": [1, 2]}'`"
    )


def _is_wanted(value: Any, spec: TypeSpec) -> bool:
    from stepward.vm.language.types import refusal
    from stepward.vm.values import ValueRefused, freeze

    try:
        return refusal(freeze(value), spec) is None
    except ValueRefused:
        return False


def inputs_of(
    pairs: Sequence[str], file: str | None, types: Mapping[str, TypeSpec | None], program: str
) -> dict[str, Any]:
    """Return the inputs of a run: those of a file, overridden by `name=value` pairs.

    Raises ValueUnreadable for values that can't be read, for unknown names, and for missing inputs.
    """
    from stepward.vm.values import ValueRefused, freeze

    values = {} if file is None else dict(values_in(file, "inputs"))
    named: set[str] = set()
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise ValueUnreadable(f"`--input {pair}` is no `name=value`", "write `--input amount=120`")
        if name in named:
            raise ValueUnreadable(f"input `{name}` is given twice", "give it once")
        named.add(name)
        _refuse_unknown(name, types, program)
        values[name] = value_of(text, types[name], f"input `{name}`")
    for name, value in values.items():
        _refuse_unknown(name, types, program)
        try:
            freeze(value)
        except ValueRefused as error:
            raise ValueUnreadable(f"input `{name}` is no value: {error}", "give another one") from None
    missing = [name for name, spec in types.items() if name not in values and not (spec and spec.has_default)]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        what = "input" if len(missing) == 1 else "inputs"
        help = f"give `--input {missing[0]}=…`, or all of them with `--inputs FILE`"
        raise ValueUnreadable(f"`{program}` needs the {what} {names}", help)
    return values


def _refuse_unknown(name: str, types: Mapping[str, TypeSpec | None], program: str) -> None:
    if name in types:
        return
    known = ", ".join(f"`{known}`" for known in types)
    help = did_you_mean(name, types, f"its inputs are {known}" if known else "it has none")
    raise ValueUnreadable(f"`{program}` has no input `{name}`", help)


def values_in(file: str, what: str) -> Mapping[str, Any]:
    """Return the mapping in a YAML or JSON file (`-` is standard input); raises ValueUnreadable if there is none."""
    from stepward.validator.files import why_not
    from stepward.vm.errors import ProgramError
    from stepward.vm.reading.files import decode, read_file, read_text
    from stepward.vm.reading.limits import MAX_BYTES

    try:
        if file == "-":
            documents = read_text("<stdin>", decode(sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>"), is_json=False)
        else:
            documents = read_file(Path(file))
    except OSError as error:
        raise ValueUnreadable(f"the {what} in `{file}` can't be read: {why_not(error)}", "correct the path") from None
    except ProgramError as error:
        raise ValueUnreadable(f"the {what} in `{file}` can't be read: {error.problems[0].message}", "fix it") from None
    problems = [problem for document in documents for problem in document.problems]
    if problems:
        raise ValueUnreadable(f"the {what} in `{file}` can't be read: {problems[0].message}", "fix it")
    if len(documents) != 1 or not isinstance(documents[0].data, Mapping):
        raise ValueUnreadable(f"`{file}` holds no {what}", "write one mapping from names to values, in YAML or JSON")
    return documents[0].data
