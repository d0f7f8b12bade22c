"""`format`: values in a text, by the directives of Java's formatter."""

from __future__ import annotations

import decimal
import re
from decimal import Decimal
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import is_number, kind

SHELF: Final = FunctionTable("formats")

MAX_WIDTH: Final = 1_000
"""Maximal width and precision of one directive."""

_DIRECTIVE: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_HINT: Final = "directives are `%s`, `%d`, `%f`, `%.2f`, `%e`, `%x`, `%o`, `%b`, `%c`, `%n` and `%%`"
_HALF_UP: Final = decimal.Context(
    prec=4_000, rounding=decimal.ROUND_HALF_UP, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN
)


@SHELF.function("format", "fmt x …", 1, None)
def format_(ctx: Context, template: Any, *values: Any) -> str:
    """Return a text with values in the place of directives: `%s` `%d` `%.2f` `%05d` `%x`."""
    if not isinstance(template, str):
        raise type_fault("format", "a text", kind(template))
    parts, at, following, length = [], 0, 0, 0
    for match in _DIRECTIVE.finditer(template):
        between = template[at : match.start()]
        if "%" in between:
            raise _unknown(between)
        number_of, _, _, _, letter = match.groups()
        value = None
        if letter not in "%n":
            position = int(number_of[:4]) - 1 if number_of else following
            following += not number_of
            if not 0 <= position < len(values):
                raise Fault(
                    "arity_error", f"`{match[0]}` of the format has no value", "give one value for each directive"
                )
            value = values[position]
        piece = _piece(ctx, match, value)
        parts += [between, piece]
        length += len(between) + len(piece)
        ctx.meter.step()
        ctx.meter.expect(2 * length, f"a text of {length} characters")
        at = match.end()
    if "%" in template[at:]:
        raise _unknown(template[at:])
    parts.append(template[at:])
    return ctx.text("".join(parts))


def _unknown(rest: str) -> Fault:
    return Fault("invalid_form", f"`{rest[rest.index('%') :][:10]}` is no directive of `format`", _HINT)


def _piece(ctx: Context, match: re.Match[str], value: Any) -> str:
    """Return the text of one directive."""
    _, flags, width, precision, letter = match.groups()
    if int((width or "0")[:6]) > MAX_WIDTH or int((precision or "0")[:6]) > MAX_WIDTH:
        raise Fault("bounds_error", f"`{match[0]}` is wider than {MAX_WIDTH} characters", "write a smaller width")
    if letter == "n":
        return "\n"
    if letter == "%":
        return "%".rjust(int(width)) if width and "-" not in flags else "%".ljust(int(width or 0))
    digits = int(precision) if precision is not None else None
    if letter in "sSbBcC":
        piece = _as_text(ctx, letter.lower(), value)
        piece = piece if digits is None else piece[:digits]
    elif letter in "dxXofeEg":
        piece = "null" if value is None else _as_number(letter, flags, digits, value, int(width or 0))
    else:
        raise _unknown(match[0])
    if letter.isupper():
        piece = piece.upper()
    return piece.ljust(int(width)) if width and "-" in flags else piece.rjust(int(width or 0))


def _as_text(ctx: Context, letter: str, value: Any) -> str:
    if letter == "b":
        return "false" if value is None or value is False else "true"
    if value is None:
        return "null"
    if letter == "c" and type(value) is int and 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000:
        return chr(value)
    if letter == "c" and not (isinstance(value, str) and len(value) == 1):
        raise type_fault("format", "a character for `%c`", kind(value))
    return ctx.written((value,), readable=False)


def _as_number(letter: str, flags: str, digits: int | None, value: Any, width: int) -> str:
    if not is_number(value):
        raise type_fault("format", f"a number for `%{letter}`", kind(value))
    if letter in "dxXo":
        if type(value) is not int:
            raise type_fault(
                "format", f"a whole number for `%{letter}`", "one with a fraction", "write `%.2f`, or `int`"
            )
        body = format(Decimal(abs(value)), "f") if letter == "d" else format(abs(value), letter.lower())
        if "#" in flags and letter != "d":
            body = ("0" if letter == "o" else "0x") + body
    else:
        body = _fraction(letter, 6 if digits is None else digits, abs(Decimal(value)))
    if "," in flags:
        whole, point, rest = body.partition(".")
        body = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", whole) + point + rest
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    if "(" in flags and value < 0:
        return f"({body})"
    return sign + (body.zfill(width - len(sign)) if "0" in flags else body)


def _fraction(letter: str, digits: int, value: Decimal) -> str:
    if letter == "f":
        rounded = value.quantize(Decimal(1).scaleb(-digits), context=_HALF_UP)
        return format(rounded, f".{digits}f")
    if not value:
        return format(0.0, f".{digits}e") if letter != "g" else format(0.0, f".{max(digits - 1, 0)}f")
    exponent = value.adjusted()
    scaled = value.scaleb(-exponent, context=_HALF_UP).quantize(Decimal(1).scaleb(-digits), context=_HALF_UP)
    if scaled >= 10:
        scaled, exponent = scaled / 10, exponent + 1
    if letter == "g" and -4 <= exponent < max(digits, 1):
        return _fraction("f", max(digits - 1 - exponent, 0), value)
    shown = format(scaled, f".{digits - (letter == 'g')}f")
    return f"{shown}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
