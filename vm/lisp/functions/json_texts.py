"""JSON: texts in, values out, and back."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Vector, kind
from stepward.vm.values import ValueRefused, freeze, to_json

SHELF: Final = FunctionTable("JSON", "json")


def _refuse(word: str) -> None:
    raise ValueRefused(f"`{word}` is no value")


@SHELF.function("json/parse-string", "s", 1, 1)
def parse_string(ctx: Context, source: Any) -> Any:
    """Return the value of a JSON text, nil if it is none; the keys of objects are texts."""
    from stepward.vm.lisp.boundary import to_lisp

    if not isinstance(source, str):
        raise type_fault("json/parse-string", "a text", kind(source))
    ctx.meter.expect(12 * len(source), f"a JSON text of {len(source)} characters")
    ctx.meter.step(len(source) // 16)
    try:
        value = json.loads(source, parse_float=Decimal, parse_int=_whole, parse_constant=_refuse)
        return to_lisp(ctx, freeze(value))
    except (ValueError, ValueRefused, RecursionError, ArithmeticError):
        return None


def _whole(digits: str) -> int:
    if len(digits) > 1_001:
        raise ValueRefused("a number is too long")
    return int(digits)


@SHELF.function("json/parse-lines", "s", 1, 1)
def parse_lines(ctx: Context, source: Any) -> Vector:
    """Return the values of the lines of a text that are not empty, each as `json/parse-string` gives it."""
    if not isinstance(source, str):
        raise type_fault("json/parse-lines", "a text", kind(source))
    return ctx.vector(parse_string(ctx, line) for line in source.splitlines() if line.strip())


@SHELF.function("json/generate-string", "x", 1, 1)
def generate_string(ctx: Context, value: Any) -> str:
    """Return a value as a JSON text; keywords are texts, sets are arrays."""
    from stepward.vm.lisp.boundary import to_data

    ctx.written((value,), readable=True)
    return ctx.text(to_json(to_data(ctx, value)))
