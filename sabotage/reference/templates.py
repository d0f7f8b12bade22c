"""References in prompts, arguments and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stepward.sabotage.reference.expressions import Read
from stepward.sabotage.reference.plain import Unworded, written

# In a called program the first name of a reference has codes for what no name may have, such as a slash.
_CODE = re.compile("\u3164([0-9a-f]+)\u3164")

# A name is a letter or underscore, then letters, digits and underscores, of any script ("Documents, Choices").
_REFERENCE = re.compile(r"\$\$|\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def filled(value: Any, read: Read) -> Any:
    """Return a value with its references replaced, at any depth, but not in keys ("Data" 4 and Choices).

    Raises Undefined if one can't be read.
    """
    if isinstance(value, str):
        return _filled_text(value, read)
    if isinstance(value, Mapping):
        return {key: filled(item, read) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(filled(item, read) for item in value)
    return value


def _filled_text(text: str, read: Read) -> Any:
    """Replace the references of a text in one pass. A text that is one reference becomes its value, with its type."""
    alone = _REFERENCE.fullmatch(text)
    if alone is not None and alone[1] is not None:
        return read(_names(alone[1]))
    found: list[Any] = []

    def replaced(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        found.append(read(_names(match[1])))
        return written(found[-1])

    result = _REFERENCE.sub(replaced, text)
    errors = [value for value in found if isinstance(value, Unworded)]
    return Unworded.telling(result, (one for error in errors for one in error.says)) if errors else result


def is_built(value: Any, language: int) -> bool:
    """Return whether a value of a `set` is a list or an object with templates in it ("Steps", language 2)."""
    if language == 1 or isinstance(value, str):
        return False
    return any(_REFERENCE.search(text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def alone(value: Any) -> tuple[str, ...] | None:
    """Return the names of the one reference of which a text consists, None for any other value."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return None if found is None or found[1] is None else _names(found[1])


def names_in(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names of the references of a value."""
    if isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            if match[1] is not None:
                yield _names(match[1])
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from names_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from names_in(item)


def _names(words: str) -> tuple[str, ...]:
    first, *fields = words.split(".")
    return _CODE.sub(lambda found: chr(int(found[1], 16)), first), *fields
