"""The names of a reference below its first: fields of objects, and indexes of arrays.

An index is the name `[0]`, `[1]` and so on. So a field whose own name begins with a bracket can't be read in an
expression, and no two names that a reference can have are the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.inner_names import as_word
from stepward.vm.expressions.lexer import NAME, tokens

ITEMS: Final = "[]"
"""Stands for any item of an array in the path of a type."""

_NAME: Final = re.compile(NAME)
_OF_CALL: Final = re.compile(rf"[^.\[]+/{NAME}")
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def index_of(name: str) -> int | None:
    """Return the number of an index, None for the name of a field."""
    return int(name[1:-1]) if name[:1] == "[" and name != ITEMS else None


def is_indexed(names: tuple[str, ...]) -> bool:
    """Return whether an index is among some names."""
    return any(name[:1] == "[" and name != ITEMS for name in names)


def of_type(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a type that values at some names have: every index stands for any item."""
    return tuple(map(_of_type, names)) if any(name[:1] == "[" for name in names) else names


def _of_type(name: str) -> str:
    return ITEMS if name[:1] == "[" else name


def part(value: Any, name: str, absent: Any) -> Any:
    """Return a field of an object or an item of an array; `absent` where the value has none."""
    if name[:1] != "[":
        return value.get(name, absent) if isinstance(value, dict) else absent
    number = int(name[1:-1])
    return value[number] if isinstance(value, tuple) and number < len(value) else absent


def names_in(reference: str) -> tuple[str, ...]:
    """Return the names of a reference as it is written, with or without its dollar sign: the inverse of `written`.

    The first one may be a name of a called program, as in `charge/amount`. Raises ExpressionError for a text that is no
    reference.
    """
    text = reference.removeprefix("$")
    called = _OF_CALL.match(text)
    token = tokens("$" + (as_word(called[0]) + text[called.end() :] if called else text))[0]
    if token.kind != "reference":
        raise ExpressionError(reference, "it is no reference", 0, len(reference))
    names: tuple[str, ...] = token.value
    return names


@lru_cache(maxsize=4096)
def written(names: Sequence[str]) -> str:
    """Return names as a reference writes them, without the dollar sign: `order.lines[0]["unit-price"]`."""
    text = names[0]
    for name in names[1:]:
        if name[:1] == "[":
            text += name
        elif _NAME.fullmatch(name):
            text += f".{name}"
        else:
            quoted = "".join(_ESCAPES.get(letter, letter) for letter in name)
            text += f'["{quoted}"]'
    return text
