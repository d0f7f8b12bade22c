"""The server of the studio: pages and parts of pages for who reads, and actions for who has the operator's token."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, tostring

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stepward.validator.files import why_not
from stepward.validator.http_server import Server
from stepward.validator.result import AdvisedError
from stepward.validator.studio.acting import ActionRefused, act, text_of, words_of
from stepward.validator.studio.guard import LOOPBACK, Guard, Token
from stepward.vm.errors import StepwardError
from stepward.vm.machine.refusals import NoSuchRun

if TYPE_CHECKING:
    from stepward.validator.studio.parts import StudioParts

MOST_BODY: Final = 64 << 10
"""Bytes of the longest request."""

MOST_CONNECTIONS: Final = 100
"""Connections at a time; more are refused with status 503."""

GRACE: Final = 5.0
"""Seconds that calls under way get when the studio ends."""

PATIENCE: Final = 2.0
"""Seconds that the page waits for an action; a run that takes longer goes on, and the page shows it as it goes."""

OWN: Final = {
    "page.css": ("stepward.validator.review", "text/css"),
    "page.js": ("stepward.validator.review", "text/javascript"),
    "studio.css": ("stepward.validator.studio", "text/css"),
    "studio.js": ("stepward.validator.studio", "text/javascript"),
}
"""The files that the page loads, and where they are."""


class Unwelcome(Exception):  # noqa: N818 - it is an answer
    """A request that is answered with a status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def listening(port: int) -> socket.socket:
    """Return a socket on the loopback interface; for port 0 the system chooses one. Raises AdvisedError."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise AdvisedError(f"port {port} can't be used: {why_not(error)}", "name another port, or 0") from None


def server_of(parts: StudioParts, token: str, sock: socket.socket) -> Server:
    """Return a server for a studio; its `run` serves on the socket until the process is interrupted."""
    handler = RequestHandler(parts, Token(token))
    return Server(app(handler, sock.getsockname()[1]), MOST_CONNECTIONS, handler.stop, handler.close)


def app(handler: RequestHandler, port: int) -> Starlette:
    """Return the application. Reading needs no token; what acts does."""
    routes = [
        Route("/", handler.page),
        Route("/events", handler.events),
        Route("/run", handler.run),
        Route("/picture", handler.picture),
        Route("/program", handler.program),
        Route("/analysis", handler.analysis),
        Route("/sandbox", handler.sandbox),
        Route("/act", handler.act, methods=["POST"]),
        Route("/disturb", handler.disturb, methods=["POST"]),
        Route("/token", handler.token, methods=["POST"]),
        *(Route(f"/{name}", partial(_own, name)) for name in OWN),
    ]
    refused: Any = {Unwelcome: _unwelcome}
    return Starlette(routes=routes, middleware=[Middleware(Guard, port=port)], exception_handlers=refused)


async def _unwelcome(_: Request, error: Unwelcome) -> Response:
    return PlainTextResponse(error.text, error.status)


async def _own(name: str, _: Request) -> Response:
    package, kind = OWN[name]
    return Response(files(package).joinpath(name).read_bytes(), media_type=kind)


def _number(text: str) -> int:
    """Return the number in a query; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


class RequestHandler:
    """Answers requests from the parts of a studio."""

    def __init__(self, parts: StudioParts, token: Token) -> None:
        self._parts = parts
        self._token = token
        self._acting: set[asyncio.Task[Any]] = set()
        self._stopping = asyncio.Event()
        parts.operator.machine.stop_with(self._stopping, parks=False)

    # -- ending --------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let no call start any more, because the studio ends."""
        self._stopping.set()

    async def close(self) -> None:
        """End the streams of updates and what is under way: calls have GRACE seconds to come back.

        What comes back is recorded, and the leases of the runs are given back.
        """
        await self._parts.live.end()
        acting = {*self._acting}
        try:
            if acting:
                await asyncio.wait(acting, timeout=GRACE)
        finally:
            for task in acting:
                task.cancel()
            await asyncio.gather(*acting, return_exceptions=True)
            self._parts.operator.machine.let_go()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def page(self, _: Request) -> Response:
        """Return the page."""
        return Response(self._parts.page, media_type="text/html")

    async def events(self, request: Request) -> Response:
        """Return the stream of updates."""
        live = self._parts.live
        if live.is_full:
            raise Unwelcome(503, "too many pages are open: close one")
        updates = live.updates(request.headers.get("last-event-id", ""))
        return StreamingResponse(updates, media_type="text/event-stream")

    async def run(self, request: Request) -> Response:
        """Return a run, with its records from number `first` on."""
        name, first = request.query_params.get("run", ""), _number(request.query_params.get("first", ""))
        return await self._part(lambda: self._parts.views.run(name, first))

    async def picture(self, request: Request) -> Response:
        """Return the diagram of a run's program."""
        return await self._part(lambda: self._parts.views.picture(request.query_params.get("run", "")))

    async def program(self, request: Request) -> Response:
        """Return a program with its findings and verdicts; it is checked now, if it was not before."""
        name = request.query_params.get("file", "")
        return await self._part(lambda: self._parts.programs.part(name))

    async def analysis(self, _: Request) -> Response:
        """Return the plots of the runs that ended last."""
        return await self._part(self._parts.analysis.part)

    async def sandbox(self, request: Request) -> Response:
        """Return what came of a disturbance."""
        number = _number(request.query_params.get("number", ""))
        return await self._part(lambda: self._parts.sandboxes.part(number))

    async def _part(self, make: Callable[[], Element]) -> Response:
        """Return a part of the page, made in a thread because journals block."""
        try:
            text = await asyncio.to_thread(lambda: tostring(make(), encoding="unicode", method="html"))
        except NoSuchRun as error:
            raise Unwelcome(404, str(error)) from None
        except StepwardError as error:
            raise Unwelcome(409, words_of(error)) from None
        return Response(text, media_type="text/html")

    # -- acting --------------------------------------------------------------------------------------------------------

    async def token(self, request: Request) -> Response:
        """Say whether a token is the operator's."""
        self._require(request)
        return Response(status_code=204)

    async def act(self, request: Request) -> Response:
        """Do something about a run of this journal."""
        body = await self._json_body(request)

        async def acted() -> str:
            found = await asyncio.to_thread(self._parts.views.history, str(body.get("run")))
            return (await act(self._parts.operator, found, body)).status

        return await self._answer(acted())

    async def disturb(self, request: Request) -> Response:
        """Disturb a copy of a run of this journal, and tell all who look of the result."""
        body = await self._json_body(request)

        def disturbed() -> str:
            found = self._parts.views.history(str(body.get("run")))
            what, step = text_of(body, "what"), text_of(body, "step", optional=True)
            return self._parts.sandboxes.disturb(found, what, step)

        return await self._answer(asyncio.to_thread(disturbed))

    async def _answer(self, work: Coroutine[Any, Any, str]) -> Response:
        """Say what came of some work; what takes long goes on, and is said to."""
        task = asyncio.create_task(work)
        self._acting.add(task)
        task.add_done_callback(self._settled)
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done:
            return JSONResponse({"said": "under way"}, 202)
        try:
            return JSONResponse({"said": task.result()})
        except NoSuchRun as error:
            raise Unwelcome(404, str(error)) from None
        except ActionRefused as error:
            raise Unwelcome(400, str(error)) from None
        except StepwardError as error:
            raise Unwelcome(409, words_of(error)) from None

    def _settled(self, task: asyncio.Task[Any]) -> None:
        self._acting.discard(task)
        if not task.cancelled():
            task.exception()  # a run that failed later says so in its records
        telling = asyncio.ensure_future(self._parts.live.tell())
        self._acting.add(telling)
        telling.add_done_callback(self._acting.discard)

    def _require(self, request: Request) -> None:
        """Raise Unwelcome for a request without the operator's token."""
        header = request.headers.get("authorization")
        if self._token.is_in(header):
            return
        where = "it is behind `#token=` in the second address that the studio has printed at its start"
        if header and header.partition(" ")[2].strip():
            raise Unwelcome(401, f"this is not the operator's token of this studio: {where}")
        raise Unwelcome(401, f"this needs the operator's token: {where}")

    async def _json_body(self, request: Request) -> Mapping[str, Any]:
        """Return the JSON object in a request that may act; raises Unwelcome for any other."""
        self._require(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Unwelcome(415, "the body is no JSON")
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY:
                    raise Unwelcome(413, f"the body has more than {MOST_BODY:,} bytes")
        except ClientDisconnect:
            raise Unwelcome(400, "the body is cut off") from None
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise Unwelcome(400, "the body is no JSON") from None
        if not isinstance(data, dict):
            raise Unwelcome(400, "the body is no JSON object")
        return data
