"""Texts of expressions and documents whose values are known without a parser of them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

from stepward.sabotage.reference.plain import same, to_value

OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, PRIMARY = range(8)
"""How tightly an expression binds, from the loosest."""

MOST_DEPTH: Final = 4
CHARACTERS: Final = "ab'\"\\\n\r\té😀 $"
ESCAPES: Final = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
NUMBERS: Final[tuple[tuple[str, Any], ...]] = (
    ("0", 0),
    ("1", 1),
    ("2", 2),
    ("3", 3),
    ("7", 7),
    ("1.50", Decimal("1.5")),
    ("2e1", 20),
    ("12e-1", Decimal("1.2")),
)
SHARE_OF_FUNCTIONS: Final = 0.3
"""The share of texts that are values of functions."""

CALLED: Final[tuple[tuple[str, str, str], ...]] = (
    ("lower", "AbÉ", "abé"),
    ("lower", "ΟΔΟΣ", "οδοσ"),
    ("lower", "İI", "ii"),
    ("upper", "aß", "Aß"),
    ("upper", "éǆ", "ÉǄ"),
    ("trim", " a b\t", "a b"),
    ("trim", "\n\u2003a\u00a0", "a"),
    ("trim", "\u3000\x1f", ""),
    ("trim", "\u200ba\ufeff", "\u200ba\ufeff"),
)
"""Functions, texts, and their values ("Functions": case by code points, white space by Unicode)."""

COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
IN_TEXTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "contains": operator.contains,
    "not contains": lambda one, other: other not in one,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "==": operator.eq,
    "!=": operator.ne,
}
SCALARS: Final[tuple[tuple[str, Any], ...]] = (
    ("yes", "yes"),
    ("No", "No"),
    ("on", "on"),
    ("off", "off"),
    ("2027-06-30", "2027-06-30"),
    ("true", True),
    ("false", False),
    ("~", None),
    ("null", None),
    ("", None),
    ("0o17", 15),
    ("1e3", 1000),
    ("1.50", Decimal("1.5")),
    ("-12", -12),
    ('"12"', "12"),
    ("'true'", "true"),
    ("1:30", "1:30"),
)
"""Plain scalars of YAML 1.2 and their values ("Documents and limits")."""


class Spelled(NamedTuple):
    """The text of an expression, its value, and how tightly it binds."""

    text: str
    value: Any
    binds: int = PRIMARY


def spelled(chance: Random) -> Spelled:
    """Return a random expression, of numbers or of booleans, with few parentheses, or a text."""
    return chance.choice((_number, _truth, _truth))(chance, 0) if chance.random() < 0.8 else _text(chance)


def _within(one: Spelled, least: int, chance: Random) -> str:
    """Return an expression as an operand, in parentheses where it binds too loosely."""
    return f"({one.text})" if one.binds < least or chance.random() < 0.05 else one.text


def _number(chance: Random, depth: int) -> Spelled:
    if depth >= MOST_DEPTH or chance.random() < 0.25:
        return Spelled(*chance.choice(NUMBERS))
    left, right = _number(chance, depth + 1), _number(chance, depth + 1)
    match chance.choice(("+", "-", "-", "*", "negative", "len")):
        case "*":
            text = f"{_within(left, PRODUCT, chance)} * {_within(right, UNARY, chance)}"
            return Spelled(text, left.value * right.value, PRODUCT)
        case "negative":
            return Spelled(f"-{_within(left, UNARY, chance)}", -left.value, UNARY)
        case "len":
            measured = _text(chance)
            return Spelled(f"len({measured.text})", len(measured.value))
        case word:
            value = left.value + right.value if word == "+" else left.value - right.value
            return Spelled(f"{_within(left, SUM, chance)} {word} {_within(right, PRODUCT, chance)}", value, SUM)


def _truth(chance: Random, depth: int) -> Spelled:
    if depth < MOST_DEPTH and chance.random() < 0.6:
        left, right = _truth(chance, depth + 1), _truth(chance, depth + 1)
        match chance.choice(("or", "and", "not")):
            case "or":
                text = f"{_within(left, OR, chance)} or {_within(right, AND, chance)}"
                return Spelled(text, left.value or right.value, OR)
            case "and":
                text = f"{_within(left, AND, chance)} and {_within(right, NOT, chance)}"
                return Spelled(text, left.value and right.value, AND)
            case _:
                return Spelled(f"not {_within(left, NOT, chance)}", not left.value, NOT)
    match chance.choice(("numbers", "numbers", "texts", "list", "word")):
        case "numbers":
            word, one, other = chance.choice(list(COMPARED)), _number(chance, 2), _number(chance, 2)
            text = f"{_within(one, SUM, chance)} {word} {_within(other, SUM, chance)}"
            return Spelled(text, COMPARED[word](one.value, other.value), COMPARISON)
        case "texts":
            word, one, other = chance.choice(list(IN_TEXTS)), _text(chance), _text(chance)
            return Spelled(f"{one.text} {word} {other.text}", IN_TEXTS[word](one.value, other.value), COMPARISON)
        case "list":
            one = _number(chance, 3)
            items = [chance.choice((1, -1)) * chance.randint(0, 3) for _ in range(chance.randint(0, 3))]
            end = ",]" if items and chance.random() < 0.3 else "]"
            word = chance.choice(("in", "not in"))
            is_in = one.value in items
            text = f"{_within(one, SUM, chance)} {word} [{', '.join(map(str, items))}{end}"
            return Spelled(text, is_in == (word == "in"), COMPARISON)
        case _:
            value = chance.random() < 0.5
            return Spelled(str(value).lower(), value)


def _text(chance: Random) -> Spelled:
    if chance.random() < SHARE_OF_FUNCTIONS:
        word, of, value = chance.choice(CALLED)
        return Spelled(f"{word}({_literal(of, chance)})", value)
    value = "".join(chance.choices(CHARACTERS, k=chance.randint(0, 4)))
    return Spelled(_literal(value, chance), value)


def _literal(value: str, chance: Random) -> str:
    quote = chance.choice("'\"")
    return quote + "".join(_spelled_character(one, quote, chance) for one in value) + quote


def _spelled_character(character: str, quote: str, chance: Random) -> str:
    if character in ("\\", "\n", "\r", "\t", quote):
        return ESCAPES[character]
    if ord(character) < 1 << 16 and chance.random() < 0.2:
        return f"\\u{ord(character):04x}"
    return ESCAPES[character] if character in ESCAPES and chance.random() < 0.3 else character


def misread_text(data: Mapping[str, Any], chance: Random) -> str | None:
    """Return how the text of a document is read as other data, by the readers of JSON or YAML, or None."""
    from stepward.vm.reading.files import read_text

    text = json.dumps(data, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 1)))
    for is_json in (True, False):
        (document,) = read_text("drawn", text, is_json=is_json)
        if not same(to_value(document.data), to_value(data)):
            return f"the text of a program is read as {document.data!r}, not as {data!r}"
    for scalar, value in chance.sample(SCALARS, 3):
        (document,) = read_text("drawn", f"a: {scalar}\nb: [x]\n", is_json=False)
        if not same(to_value(document.data), to_value({"a": value, "b": ["x"]})):
            return f"`{scalar}` is read as {document.data!r}"
    return None
