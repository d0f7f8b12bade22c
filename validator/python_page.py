"""The page of all public names, specs/guide/python.md, made from their docstrings.

To write it again: `python -m stepward.validator.python_page > specs/guide/python.md`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

MODULES: Final = ("stepward.vm", "stepward.validator", "stepward.sabotage", "stepward.testing")

_INTRODUCTION: Final = """\
# Python reference

Every public name, with its docstring. Whatever is not on this page may change. `make docs` writes the page from the
docstrings: correct them in the code. The [guide](first-workflow.md) shows how the names are used together.
"""


def python_page() -> str:
    """Return the page in Markdown: a section for each module that is installed, with its public names by alphabet."""
    parts = [_INTRODUCTION]
    for name in MODULES:
        if find_spec(name) is not None:
            parts += _module(name)
    return "\n".join(parts)


def public_names(name: str) -> list[str]:
    """Return the public names of a module, by alphabet; a module without `__all__` has none."""
    return sorted(getattr(import_module(name), "__all__", ()), key=str.lower)


def _module(name: str) -> Iterator[str]:
    module, names = import_module(name), public_names(name)
    yield f"## `{name}`\n"
    yield f"{_text(module)}\n"
    if names:
        yield " · ".join(f"[{one}](#{one.lower()})" for one in names) + "\n"
    for one in names:
        yield f"### `{one}`\n"
        yield from _entry(one, getattr(module, one))


def _entry(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        if callable(value):
            yield f"```text\n{name}{_signature(value)}\n```\n"
        yield f"{_text(value)}\n"
        return
    if _is_constructed(value):
        yield f"```text\n{name}{_signature(value)}\n```\n"
    yield f"{_text(value)}\n"
    if issubclass(value, Enum):
        yield f"Its values are {', '.join(f'`{one.value}`' for one in value)}.\n"
    for member, kind in _members(value):
        if isinstance(kind, property) or hasattr(kind, "func"):
            yield f"- **`{member}`**: {_indented(_text(getattr(kind, 'fget', None) or kind))}"
        else:
            text = f"`{member}{_signature(getattr(value, member))}`"
            prefix = "async " if inspect.iscoroutinefunction(getattr(value, member)) else ""
            yield f"- {prefix}**{text}**: {_indented(_text(kind))}"
    if any(_members(value)):
        yield ""


def _is_constructed(value: type[Any]) -> bool:
    """Return whether users call the class: not exceptions, choices and protocols, nor what is loaded from files."""
    if getattr(value, "_is_protocol", False) or hasattr(value, "model_fields"):
        return False
    return not issubclass(value, BaseException | Enum)


def _members(value: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods and properties of a class, in the order in which they are written."""
    seen = set()
    for base in value.__mro__:
        if not base.__module__.startswith("stepward."):
            continue
        for name, member in list(vars(base).items()):
            function = getattr(member, "__func__", member)
            is_member = callable(function) or isinstance(member, property) or hasattr(member, "func")
            if not name.startswith(("_", "model_")) and name not in seen and is_member and _text(function):
                seen.add(name)
                yield name, function


def _text(value: Any) -> str:
    """Return the docstring of a value, or nothing where Python made it."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return "" if re.match(r"\w+\([\w, =:|\[\].'\"]*\)$", text) else text


def _indented(text: str) -> str:
    return re.sub(r"\n(?=.)", "\n  ", text)


def _signature(value: Any) -> str:
    """Return a signature as Python writes it, without the quotes of annotations and the addresses of defaults."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        one.replace(annotation=_plain(one.annotation), default=_default(one.default))
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    returns = _plain(signature.return_annotation)
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return text if returns is inspect.Signature.empty else f"{text} -> {_name(returns)}"


class _Word:
    """An annotation or a default that prints as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(annotation: Any) -> Any:
    return annotation if annotation is inspect.Parameter.empty else _Word(_name(annotation))


def _name(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        text = annotation.__name__
    return re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)


def _default(default: Any) -> Any:
    is_short = default is inspect.Parameter.empty or (len(repr(default)) <= 40 and "<" not in repr(default))
    return default if is_short else _Word("...")


if __name__ == "__main__":
    print(python_page(), end="")
