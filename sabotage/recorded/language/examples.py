"""Texts and values that scenes of the language are given: a line of JSON for each, with its kind first.

They were chosen so that together they reach what the language can do and what it refuses. A value that JSON does not
have stands in an object with one sign: `$n` is an exact number, `$f` a float, `$b` are bytes, `$t` is a tuple, and `$d`
an object with other keys.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

SCENES: Final = 200
"""The number of scenes among which the examples of a file are dealt out."""


class Example(NamedTuple):
    """One example: its kind, and what is given."""

    kind: str
    given: tuple[Any, ...]


def examples(name: str) -> tuple[Example, ...]:
    """Return the examples of a file."""
    return _read(name)


def dealt(name: str, seed: str) -> tuple[Example, ...]:
    """Return the examples for a scene, by the number at the end of its seed."""
    number = int(seed.rpartition(" ")[2]) % SCENES
    return _read(name)[number::SCENES]


@cache
def _read(name: str) -> tuple[Example, ...]:
    lines = (Path(__file__).parents[1] / name / "examples.txt").read_text(encoding="ascii").splitlines()
    found = [json.loads(line) for line in lines]
    return tuple(Example(kind, tuple(map(_value, values))) for kind, *values in found)


def _value(written: Any) -> Any:
    match written:
        case {"$n": str(text), **rest} if not rest:
            return int(text) if text.lstrip("-").isdigit() else Decimal(text)
        case {"$f": str(text), **rest} if not rest:
            return float(text)
        case {"$b": str(text), **rest} if not rest:
            return bytes.fromhex(text)
        case {"$t": list(items), **rest} if not rest:
            return tuple(map(_value, items))
        case {"$d": list(items), **rest} if not rest:
            return {_value(key): _value(item) for key, item in items}
        case dict():
            return {key: _value(item) for key, item in written.items()}
        case list():
            return [_value(item) for item in written]
    return written
