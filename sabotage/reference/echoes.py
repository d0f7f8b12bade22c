"""Finds sensitive values that outputs repeat, after "Data" 8 and its table of spellings."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.reference.escapes import read
from stepward.sabotage.reference.plain import kind, written

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec

FieldPath = tuple[str, ...]

LEAST: Final = 6
"""The least length of a value that is searched for."""

_SEPARATORS: Final = frozenset(" \t\n\r\f\v.,:;_'’/|-")
_MASKED: Final = r"(?:…|\.\.\.|\*\*|••|··|●●|▪▪|██|xx|##)"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{5,}")


def sought(value: Any, spec: TypeSpec | None, *, inside: bool = False) -> Iterator[str]:
    """Yield the searched parts of a value: its sensitive texts and numbers, but no member of an `enum`."""
    if spec is None and not inside:
        return
    inside = inside or bool(spec is not None and spec.sensitive)
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from sought(item, _part(spec, name), inside=inside)
    elif isinstance(value, tuple):
        for item in value:
            yield from sought(item, spec.items if spec is not None else None, inside=inside)
    elif inside and kind(value) in ("string", "number") and (spec is None or spec.enum is None):
        text = written(value)
        if len(text) >= LEAST and _squeezed(text):
            yield text


def numbers_in(value: Any, paths: Iterable[FieldPath]) -> Iterator[str]:
    """Yield the numbers in the hidden parts of a value, as texts."""
    for path in paths:
        inner = value
        for name in path:
            if isinstance(inner, tuple):
                inner = inner[int(name[1:-1])]
            else:
                inner = inner.get(name) if isinstance(inner, Mapping) else None
        yield from (written(one) for one in _numbers(inner) if len(written(one)) >= LEAST)


def _numbers(value: Any) -> Iterator[int | Decimal]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif kind(value) == "number":
        yield value


def _part(spec: TypeSpec | None, name: str) -> TypeSpec | None:
    if spec is None:
        return None
    others = None if isinstance(spec.additional_properties, bool) else spec.additional_properties
    return (spec.properties or {}).get(name, others)


def echoes(value: Any, spec: TypeSpec | None, secrets: Iterable[str]) -> set[FieldPath]:
    """Return the fields and items of an output that repeat a secret; `()` is the whole value."""
    if not secrets or (spec is not None and spec.enum is not None):
        return set()
    if isinstance(value, Mapping):
        declared = (spec.properties if spec is not None else None) or {}
        if any(says(name, secret) for name in value if name not in declared for secret in secrets):
            return {()}
        return {(name, *path) for name, item in value.items() for path in echoes(item, _part(spec, name), secrets)}
    if isinstance(value, tuple):
        items = spec.items if spec is not None else None
        return {(f"[{at}]", *path) for at, item in enumerate(value) for path in echoes(item, items, secrets)}
    return {()} if any(says(value, secret) for secret in secrets) else set()


def says(value: Any, secret: str) -> bool:
    """Return whether a text contains a secret in some spelling, or a number equals it."""
    if kind(value) == "number":
        return _is_number(written(value).lower(), secret.casefold())
    if not isinstance(value, str):
        return False
    marked = secret.replace("...", "\u2026")
    return any(_says(_folded(text), marked) or _encodes(text, secret.encode()) for text in read(value))


def _folded(text: str) -> str:
    """Return a text in which case does not matter, and three full stops are a mask, not separators."""
    return text.replace("...", "\u2026").casefold()


def _is_number(number: str, secret: str) -> bool:
    digits = _squeezed(number)
    return number == secret or (len(digits) >= LEAST and digits == _squeezed(secret))


def _says(text: str, secret: str) -> bool:
    if _folded(secret) in text or _is_masked(text, secret):
        return True
    text, secret = _squeezed(text), _squeezed(secret)
    return len(secret) >= LEAST and (_folded(secret) in text or _is_masked(text, secret))


def _is_masked(text: str, secret: str) -> bool:
    """Whether at least half of a secret is next to a mask."""
    half = max((len(secret) + 1) // 2, LEAST)
    if not re.search(_MASKED, text) or not (_folded(secret[:half]) in text or _folded(secret[-half:]) in text):
        return False
    starts = (re.escape(_folded(secret[:length])) + _MASKED for length in range(half, len(secret)))
    ends = (_MASKED + re.escape(_folded(secret[-length:])) for length in range(half, len(secret)))
    return any(re.search(one, text) for one in (*starts, *ends))


def _squeezed(text: str) -> str:
    return "".join(character for character in text if character not in _SEPARATORS)


def _encodes(text: str, secret: bytes) -> bool:
    if secret.hex() in _squeezed(text.casefold()):
        return True
    in_one_line = "".join(line.strip() for line in text.splitlines())
    plain = f"{text} {in_one_line}".replace("-", "+").replace("_", "/")
    for run in _BASE64.findall(plain):
        for start in range(4):
            whole = run[start : start + (len(run) - start) // 4 * 4]
            rest = run[start + len(whole) :]
            padded = whole + (rest + "A" * (4 - len(rest)) if len(rest) > 1 else "")
            try:
                if secret in base64.b64decode(padded):
                    return True
            except binascii.Error:
                continue
    return False
