"""Resolves plain scalars of YAML 1.2 (core schema): `yes`, `no`, `on` are texts, `0o17` is fifteen."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from stepward.vm.reading.limits import MAX_NUMBER

_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def within_limit(number: str) -> str:
    """Return the text of a number; raises ValueError if it is so long that converting it would be slow."""
    if len(number) > MAX_NUMBER:
        raise ValueError(f"a number has over {MAX_NUMBER} characters")
    return number


def resolve(text: str) -> Any:
    """Return the value of a plain scalar under the core schema (YAML 1.2.2, section 10.3.2).

    Numbers are int or Decimal, so that nothing is rounded; `.inf` and `.nan` are returned as float, and the models
    refuse them. Raises ValueError for a number of over MAX_NUMBER characters.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(within_limit(text))
    if _BASED.fullmatch(text):
        return int(within_limit(text), 0)
    if _DECIMAL.fullmatch(text):
        return Decimal(within_limit(text))
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text
