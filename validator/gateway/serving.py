"""Serves a gateway over standard streams, or over HTTP on the loopback interface."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from typing import Any, Final, Self

from anyio import EndOfStream
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from stepward.validator.files import why_not
from stepward.validator.gateway.callers import Caller, Callers
from stepward.validator.gateway.gateway import Gateway
from stepward.validator.gateway.messages import OnlyMessages
from stepward.validator.gateway.server import Context, server_of
from stepward.validator.http_server import Server
from stepward.validator.result import AdvisedError

_NO_JSON: Final = PARSE_ERROR, "the line is no JSON"

LOOPBACK: Final = "127.0.0.1"
PATH: Final = "/mcp"

MAX_BODY: Final = 4 << 20
"""Bytes of the longest request."""

MAX_CONNECTIONS: Final = 100
"""Connections and requests at a time; more are refused with status 503."""

GRACE: Final = 5
"""Seconds that calls under way get when the server stops."""


class Messages:
    """The messages of a stream, for the server of the SDK; a line that is none gets the error of JSON-RPC for it.

    The reader of the SDK gives an error for such a line, which the server would drop. `writer` takes the answers.
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


async def serve_streams(gateway: Gateway, caller: Caller) -> None:
    """Serve one caller over standard input and output, until the input ends.

    What tools print goes to standard error, so that it is no part of the protocol.
    """
    server = server_of(gateway, lambda _: caller)
    async with stdio_server() as (reader, writer):
        # The library has turned the descriptor to standard error, and gives it back at the end. What Python's own
        # buffer holds by then would come out behind the last message.
        sys.stdout.flush()
        with redirect_stdout(sys.stderr):
            try:
                await server.run(Messages(reader, writer), writer, server.create_initialization_options())
            finally:
                await gateway.close(GRACE)


def serve_http(gateway: Gateway, callers: Callers, port: int, ready: Callable[[str], None]) -> None:
    """Serve callers over HTTP until SIGTERM, or SIGINT, comes; `ready` is called with the address.

    With port 0 the system chooses one. Raises AdvisedError if the port can't be used, and KeyboardInterrupt for SIGINT.
    """
    with _listening(port) as listening:
        chosen = listening.getsockname()[1]
        app = http_app(gateway, callers, chosen)
        server = Server(app, MAX_CONNECTIONS, gateway.stop, partial(gateway.close, GRACE))
        ready(f"http://{LOOPBACK}:{chosen}{PATH}")
        server.run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise AdvisedError(f"port {port} can't be used: {why_not(error)}", "name another port, or 0") from None


def http_app(gateway: Gateway, callers: Callers, port: int) -> Starlette:
    """Return the application: every request names its caller by a bearer token.

    There are no sessions: what a request may do depends on its own token alone. `Host` and `Origin` have to be those of
    this server, else a web page could reach it through a name that points to the loopback interface.
    """

    def caller_of(context: Context) -> Caller:
        request: Any = context.request
        return callers.by_name[request.user.username]

    names = [f"{host}:{port}" for host in (LOOPBACK, "localhost")]
    manager = StreamableHTTPSessionManager(
        server_of(gateway, caller_of),
        stateless=True,
        security_settings=TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        ),
        max_request_body_size=MAX_BODY,
    )
    inner: Any = OnlyMessages(manager.handle_request)
    endpoint: Any = RequireAuthMiddleware(RequestBodyLimitMiddleware(inner, MAX_BODY), [])
    return Starlette(
        routes=[Route(PATH, endpoint=endpoint)],
        middleware=[Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(callers)))],
        lifespan=lambda _: manager.run(),
    )


class _Verifier:
    """Recognises callers by their tokens, for the SDK."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who has a token, without the token itself; None for nobody."""
        caller = self._callers.of_token(token)
        return None if caller is None else AccessToken(token="", client_id=caller.name, scopes=[])
