"""Looks at the body of a request over HTTP before the SDK does, whose errors about a malformed one repeat it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stepward.validator.http_server import App, Message, Receive, Send

_NO_MESSAGE: Final = json.dumps(
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "the body is no message of the protocol"}}
).encode()


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
