"""What a server answers to a call, as an output of the language or as a failure."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.machine.tools import InDoubt

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec

MAX_SAID: Final = 500
"""Characters of a server's text in an error."""


class CallFailed(StepwardError):  # noqa: N818 - a record shows its text alone
    """A call of a tool of an MCP server has failed, and had no effect."""


def output_of(answer: Any, returns: TypeSpec | None) -> Any:
    """Return the output in an answer: its structured content, else its text.

    The text is read as JSON where `returns` says what the tool returns, and allows no text; else it stays text. Raises
    CallFailed for an answer that says that the call has failed, InDoubt for one that can't be read.
    """
    if answer.is_error:
        raise CallFailed(f"the server says that the call has failed: {printable(text_of(answer, '…'))}")
    if answer.structured_content is not None:
        return answer.structured_content
    text = text_of(answer, None)
    if returns is None or returns.admits("string"):
        return text
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError, ArithmeticError):  # an exponent may be too large for a decimal
        raise InDoubt("the server answered with a text that is no JSON, where the manifest wants a value") from None


def text_of(answer: Any, otherwise: str | None) -> str:
    """Return the text of an answer; content that is no text becomes `otherwise`, or raises InDoubt if that is None."""
    texts = []
    for part in answer.content:
        if part.type == "text":
            texts.append(part.text)
        elif otherwise is None:
            raise InDoubt("the server answered with content that is no text")
        else:
            texts.append(otherwise)
    return "\n".join(texts)


def printable(text: str) -> str:
    """Return a text of a server for a message: short, on one line, without signs that a terminal obeys."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text[: MAX_SAID + 1])
    return shown if len(shown) <= MAX_SAID else f"{shown[:MAX_SAID]}…"


def json_argument(value: Any) -> Any:
    """Return an argument as JSON has it; raises CallFailed for a number that JSON libraries would round."""
    if isinstance(value, dict):
        return {name: json_argument(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_argument(item) for item in value]
    if isinstance(value, Decimal):
        if value == value.to_integral_value() and abs(value) < 1 << 53:
            return int(value)
        number = float(value)
        if Decimal(repr(number)) != value:
            raise CallFailed(f"the number {value} can't be sent exactly")
        return number
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
