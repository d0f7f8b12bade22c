"""Looks at what a client sends before the SDK does, whose errors about a malformed body over HTTP repeat it, and which
leaves a malformed line of standard input without an answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Self

from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

_NO_JSON: Final = PARSE_ERROR, "the line is no JSON"

_NO_MESSAGE: Final = json.dumps(
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "the body is no message of the protocol"}}
).encode()


class Messages:
    """The messages of a stream, for the server of the SDK; a line that is none gets the error of JSON-RPC for it.

    `reader` gives the error of its reader for such a line, `writer` takes the answers.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader, self._writer = reader, writer

    @property
    def last_context(self) -> Any:
        """The context of the message that came last."""
        return self._reader.last_context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while isinstance(item := await self._reader.receive(), Exception):
            await self._writer.send(SessionMessage(_error_of(item)))
        return item  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Close the stream."""
        await self._reader.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _error_of(why: Exception) -> JSONRPCError:
    """Return the answer to a line that is no message; nobody knows the request that it might be."""
    is_json = not (isinstance(why, ValidationError) and why.errors()[0]["type"] == "json_invalid")
    code, message = (INVALID_REQUEST, "the line is no message of the protocol") if is_json else _NO_JSON
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))


class OnlyMessages:
    """Passes requests on whose body is one message of JSON-RPC, and answers all others; bounds no size."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request as ASGI asks for it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return
        if not _is_message(body):
            kind = [(b"content-type", b"application/json"), (b"content-length", str(len(_NO_MESSAGE)).encode())]
            await send({"type": "http.response.start", "status": 400, "headers": kind})
            await send({"type": "http.response.body", "body": _NO_MESSAGE})
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, again, send)


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body; None if the client has gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _is_message(body: bytes) -> bool:
    """Return whether a body is a request or a notification: the server asks nothing, so no client has to answer."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(data, dict)
        and data.get("jsonrpc") == "2.0"
        and isinstance(data.get("method"), str)
        and isinstance(data.get("params", {}), dict)
        and ("id" not in data or type(data["id"]) in (str, int))
    )
