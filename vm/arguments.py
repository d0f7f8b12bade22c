"""What public functions take. A wrong argument is refused at the door, by the name of its parameter."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """A kind of argument: its name in messages, and a function that tells whether a value is one."""

    words: str
    fits: Callable[[object], bool]

    def or_none(self) -> Kind:
        """Return the kind that also takes None."""
        return Kind(f"{self.words}, or None", lambda value: value is None or self.fits(value))


def made(*types: type, words: str = "") -> Kind:
    """Return the kind of the instances of a class, or of one of several; `words` is its name if it has another."""
    return Kind(words or with_article(types[0].__name__), lambda value: isinstance(value, types))


def able(words: str, *methods: str) -> Kind:
    """Return the kind of the objects that have these methods; a class is none."""
    return Kind(
        words,
        lambda value: not isinstance(value, type) and all(callable(getattr(value, one, None)) for one in methods),
    )


FUNCTION: Final = Kind("a function", callable)
MAPPING: Final = made(Mapping, words="a mapping")
TEXT: Final = made(str, words="a text")
BYTES: Final = made(bytes, words="bytes")
PATH: Final = made(str, os.PathLike, words="the path of a file")
COUNT: Final = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUMBER: Final = Kind("a number", lambda value: isinstance(value, int | float | Decimal) and not isinstance(value, bool))
COLLECTION: Final = Kind(
    "a list, a tuple or the like",
    lambda value: isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Mapping),
)


def require(kind: Kind, **arguments: object) -> None:
    """Raise TypeError for the first of these arguments that is not of a kind."""
    for name, value in arguments.items():
        if not kind.fits(value):
            raise TypeError(f"`{name}` must be {kind.words}, not {shown_type(value)}")


def require_each(kind: Kind, **arguments: object) -> None:
    """Raise TypeError for the first of these arguments that is no collection of things of a kind."""
    for name, values in arguments.items():
        if not isinstance(values, Collection) or not COLLECTION.fits(values):
            raise TypeError(f"`{name}` must be {COLLECTION.words}, each item {kind.words}, not {shown_type(values)}")
        for number, value in enumerate(values):
            if not kind.fits(value):
                raise TypeError(f"`{name}[{number}]` must be {kind.words}, not {shown_type(value)}")


def shown_type(value: object) -> str:
    """Return what a value is, by its type: `a str`, `None`, `the class Program`."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else with_article(type(value).__name__)


def with_article(word: str) -> str:
    """Return a word behind `a` or `an`."""
    return f"an {word}" if word[0] in "aeiouAEIOU" else f"a {word}"
