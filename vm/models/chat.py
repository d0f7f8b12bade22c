"""A request as chat models take it: messages, the form of the reply, and how the reply is read.

A reply that the program restricts is asked for in one of three ways. Which of them a server can do is not guessed: it
is an option of the adapter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from stepward.vm.machine.models import ModelRequest

Structured = Literal["schema", "object", "prompt"]
"""How a restricted reply is asked for.

`schema` sends the JSON Schema in `response_format`. `object` sends a `response_format` for any JSON object, and the
schema in words. `prompt` sends words alone, and reads the JSON between two marks.
"""

REPLY: Final = "reply"
"""The field for a reply that is not an object, because providers accept only schemas of objects."""

OPENING, CLOSING = f"<{REPLY}>", f"</{REPLY}>"
"""The marks around a reply that is asked for in words."""

_MARKED: Final = (
    f"Write your reply as JSON between {OPENING} and {CLOSING}, and write each of these marks once."
    " The JSON fits this JSON Schema:"
)


class Chat(NamedTuple):
    """What is sent for a request: `messages`, and `options` of the call. `read` returns the content of the reply."""

    messages: list[dict[str, str]]
    options: dict[str, Any]
    is_wrapped: bool
    is_marked: bool

    def read(self, content: Any) -> Any:
        """Return the reply in a content. One of another form is returned unchanged: the machine refuses it."""
        if self.is_wrapped:
            return _unwrapped(content)
        return _between_marks(content) if self.is_marked else content


def chat_of(request: ModelRequest, structured: Structured) -> Chat:
    """Return what is sent for a request."""
    schema = _reply_schema(request)
    if schema is None:
        return Chat(_messages(request, ""), {}, is_wrapped=False, is_marked=False)
    if structured == "prompt":
        is_marked = request.allowed is None
        advice = _choices(request.allowed) if request.allowed is not None else f"{_MARKED} {_written(schema)}"
        return Chat(_messages(request, advice), {}, is_wrapped=False, is_marked=is_marked)
    is_wrapped = schema.get("type") != "object"
    root = _wrapped(schema) if is_wrapped else schema
    if structured == "schema":
        form: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": REPLY, "schema": root}}
        return Chat(_messages(request, ""), {"response_format": form}, is_wrapped, is_marked=False)
    advice = f"Reply with one JSON object alone. It fits this JSON Schema: {_written(root)}"
    options = {"response_format": {"type": "json_object"}}
    return Chat(_messages(request, advice), options, is_wrapped, is_marked=False)


def settings_of(request: ModelRequest, limit: str = "max_tokens") -> dict[str, Any]:
    """Return the fields of a call for what the step says of it; `limit` is the server's name for the most tokens."""
    found = {"temperature": plain(request.temperature), limit: request.max_output_tokens}
    return {name: value for name, value in found.items() if value is not None}


def plain(value: Any) -> Any:
    """Return data as JSON has it: lists, dicts, and no exact numbers."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _messages(request: ModelRequest, advice: str) -> list[dict[str, str]]:
    system = "\n\n".join(text for text in (request.system, advice) if text)
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": request.prompt}]


def _reply_schema(request: ModelRequest) -> dict[str, Any] | None:
    """Return the JSON Schema of the reply, or None if any text is accepted."""
    if request.allowed is not None:
        return {"type": "string", "enum": list(request.allowed)}
    if request.schema is None or "string" in _kinds_of(request.schema):
        return None
    schema: dict[str, Any] = _without_ours(request.schema)
    return schema


def _kinds_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _without_ours(value: Any) -> Any:
    """Return a schema without our own `sensitive`."""
    if isinstance(value, Mapping):
        return {
            key: _without_ours(item) for key, item in value.items() if key != "sensitive" or not isinstance(item, bool)
        }
    if isinstance(value, list | tuple):
        return [_without_ours(item) for item in value]
    return value


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {REPLY: schema}, "required": [REPLY], "additionalProperties": False}


def _unwrapped(content: Any) -> Any:
    try:
        return json.loads(content, parse_float=Decimal)[REPLY]
    except (ValueError, TypeError, KeyError, RecursionError, ArithmeticError):
        return content


def _between_marks(content: Any) -> Any:
    """Return the text between the marks, if each of them is there once: a quoted mark must choose no reply."""
    if not isinstance(content, str) or content.count(OPENING) != 1 or content.count(CLOSING) != 1:
        return content
    inner, closing, _ = content.partition(OPENING)[2].partition(CLOSING)
    return inner.strip() if closing else content


def _choices(allowed: tuple[str, ...]) -> str:
    choices = ", ".join(_written(choice) for choice in allowed)
    return f"Reply with exactly one of these texts, without quotes and without another word: {choices}"


def _written(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
