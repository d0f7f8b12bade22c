"""A server over HTTP that ends in order: what is under way comes back or is let go, and nobody sees a traceback."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import uvicorn

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

ANSWERING: Final = 1.0
"""Seconds that requests get to send their answers, once what they waited for has ended."""

_ENDS: Final = b"the server ends"


class Server(uvicorn.Server):
    """Serves an application until SIGINT or SIGTERM comes, and then lets `end` end what is under way.

    `stop` is called first, and at once, so that nothing begins any more. Requests that come meanwhile are refused with
    status 503. Requests that have no answer after `end` are cancelled; a second signal does so at once.
    """

    def __init__(self, app: App, most: int, stop: Callable[[], None], end: Callable[[], Awaitable[None]]) -> None:
        self._requests = Requests(app)
        settings = uvicorn.Config(
            self._requests,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=most,
            timeout_graceful_shutdown=1,  # the requests have ended by then
        )
        super().__init__(settings)
        self._stop, self._end = stop, end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None
        self.ended_by: int | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes, and return; raises KeyboardInterrupt for SIGINT."""
        super().run(sockets)
        if self.ended_by == signal.SIGINT:
            raise KeyboardInterrupt

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Begin to end; the second time, cancel what is under way."""
        assert self._loop is not None, "signals come here while it serves"
        if self.ended_by is not None:
            self.should_exit = True
        self.ended_by = self.ended_by or sig
        # A signal comes in the middle of anything, so the loop does it.
        self._loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        if self._ending is None:
            self._stop()
            self._ending = asyncio.ensure_future(self._end_in_order())

    async def _end_in_order(self) -> None:
        try:
            self._requests.refuse()
            await self._end()
            await self._requests.wait(ANSWERING)
        finally:
            self.should_exit = True  # not before: libraries cut off their streams then

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cancel what is left, and close all connections."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.wait({self._ending})
        await self._requests.cancel()
        await super().shutdown(sockets)


class Requests:
    """Passes requests on to `app`, and knows those that are under way."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    def refuse(self) -> None:
        """Refuse all requests from now on."""
        self._is_ending = True

    async def wait(self, seconds: float) -> None:
        """Wait for the requests that are under way, at most so long."""
        if self._under_way:
            await asyncio.wait({*self._under_way}, timeout=seconds)

    async def cancel(self) -> None:
        """Cancel the requests that are under way, and wait for them."""
        self.refuse()
        for task in self._under_way:
            task.cancel()
        await self.wait(ANSWERING)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request as ASGI asks for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer, task = _Answer(send), asyncio.current_task()
        assert task is not None, "the server calls it in a task"
        if self._is_ending:
            await answer.end()
            return
        self._under_way.add(task)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
        finally:
            self._under_way.discard(task)
        if self._is_ending:
            await answer.end()


class _Answer:
    """What was sent of an answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = self._is_complete = False

    async def send(self, message: Message) -> None:
        """Send a part."""
        await self._send(message)
        self._is_begun = True
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end(self) -> None:
        """Complete an answer that was cut off; one that was not begun says so."""
        if self._is_complete:
            return
        body = b"" if self._is_begun else _ENDS
        with suppress(Exception):  # one with a length that was promised can't be completed
            if not self._is_begun:
                kind = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
                await self.send({"type": "http.response.start", "status": 503, "headers": kind})
            await self.send({"type": "http.response.body", "body": body})
