"""A server at an address: a client of HTTP whose answers are of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from stepward.vm.remote.servers import HttpServer
from stepward.vm.remote.streams import MAX_MESSAGE, Line

CONNECT: Final = 10.0
"""Seconds in which a connection is made."""


@asynccontextmanager
async def http_streams(server: HttpServer, line: Line) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from a server and to it; raises ServerRefused for a header without a value.

    How long an answer may take is for the caller to bound: a tool may need long.
    """
    client = httpx2.AsyncClient(
        headers={**server.given_headers(), "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(None, connect=CONNECT),
        transport=_Bounded(line),
    )
    try:
        async with (
            client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams
    finally:
        line.lose()


class _Bounded(httpx2.AsyncHTTPTransport):
    """Ends an answer that is too long. A stream of events may last: the SDK bounds each of them."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            self._line.lose(f"it can't be reached ({type(error).__name__})")
            raise
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            self._line.why = "it sent a compressed answer, which nobody asked for"
            raise httpx2.StreamError(self._line.why)
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return response
        response.stream = _Short(response.stream, self._line)
        return response


class _Short(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, line: Line) -> None:
        self._stream = stream
        self._line = line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MAX_MESSAGE:
                self._line.why = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                raise httpx2.StreamError(self._line.why)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
