"""Plain scalars of YAML 1.2 (core schema): `yes`, `no`, `on` are text, `0o17` is fifteen."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from stepward.vm.reading.limits import MAX_NUMBER

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAY_BE_SPECIAL: Final = frozenset("~nNtTfF-+.0123456789")


def within_limit(number: str) -> str:
    """Return the text of a number; raises ValueError when it is so long that work on it would be felt."""
    if len(number) > MAX_NUMBER:
        raise ValueError(f"a number has over {MAX_NUMBER} characters")
    return number


def resolve(text: str) -> Any:
    """Return what a plain scalar stands for under the core schema (YAML 1.2.2, section 10.3.2).

    Numbers are int or Decimal, so that nothing is rounded; `.inf` and `.nan` come back as float, for the models to
    refuse. Raises ValueError for a number of over MAX_NUMBER characters.
    """
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INTEGER.fullmatch(text):
        return int(within_limit(text))
    if _BASED.fullmatch(text):
        return int(within_limit(text), 0)
    if _DECIMAL.fullmatch(text):
        return Decimal(within_limit(text))
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text
