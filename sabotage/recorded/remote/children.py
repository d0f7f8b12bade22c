"""MCP servers without processes and without network: what they list and answer, and what they are sent."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
import httpx2

from stepward.sabotage.recorded.shared.context import SceneContext
from stepward.vm.remote import streams

MODERN: Final = "2026-07-28"
OLD: Final = "2025-06-18"
UNKNOWN: Final = -32601
PLAIN: Final[dict[str, Any]] = {"inputSchema": {"type": "object"}}


class World:
    """A server: `tools` are listed, `answers` are given to calls in turn, the last one again. Notes have the calls.

    An answer is a result, an error with a `code`, a text that is written as it is, or None for the end of the server.
    """

    def __init__(self, context: SceneContext) -> None:
        self.context = context
        self.tools: dict[str, dict[str, Any]] = {}
        self.answers: list[Any] = [{"content": []}]
        self.page = 100
        self.odd_list: Any = None
        self.is_modern = False
        self.is_silent = False
        self.tells: list[str] = []
        """The notifications that come before the next answer."""

    def answer(self, request: dict[str, Any]) -> Any:
        """Return the answer to a message; False for none."""
        method, params = request.get("method", ""), request.get("params") or {}
        match method:
            case "server/discover" if self.is_modern:
                return {"supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": True}}}
            case "initialize":
                self.context.notes.add("initialize", params.get("clientInfo"), params.get("capabilities"))
                server = {"name": "scene", "version": "1"}
                return {"protocolVersion": OLD, "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                return self._listed(params.get("cursor"))
            case "tools/call":
                meta = params.get("_meta") or {}
                ours = {name: value for name, value in meta.items() if name.startswith("stepward/")}
                self.context.notes.add("called", params.get("name"), params.get("arguments"), ours)
                return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            case _ if "id" in request:
                return {"code": UNKNOWN, "message": "no such method"}
            case _:
                return False

    def _listed(self, cursor: str | None) -> Any:
        self.context.notes.add("listed", cursor)
        if self.odd_list is not None:
            return self.odd_list
        rows = [{"name": name.removesuffix("'"), **PLAIN, **tool} for name, tool in self.tools.items()]
        first = int(cursor or 0)
        more = {"nextCursor": str(first + self.page)} if first + self.page < len(rows) else {}
        return {"tools": rows[first : first + self.page], **more}

    def written(self, request: dict[str, Any]) -> list[str] | None:
        """Return the lines with which a message is answered, or None for the end of the server."""
        found: Any = False if self.is_silent else self.answer(request)
        if found is None:
            return None
        if found is False:
            return []
        before = [json.dumps({"jsonrpc": "2.0", "method": method, "params": {}}) for method in self.tells]
        self.tells = []
        if isinstance(found, str):
            return [*before, found]
        name = "error" if "code" in found else "result"
        if self.is_modern and name == "result":
            found = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private", **found}
        return [*before, json.dumps({"jsonrpc": "2.0", "id": request.get("id"), name: found})]


class Child:
    """A process that is none: `ends_at` is the signal at which it ends, 0 for the end of its input."""

    pid = 4242

    def __init__(self, world: World, errors: bytes, ends_at: int) -> None:
        self.world = world
        self.ends_at = ends_at
        self.stdout_in, self.stdout = anyio.create_memory_object_stream[bytes](math.inf)
        self.stderr_in, self.stderr = anyio.create_memory_object_stream[bytes](math.inf)
        self.ended = asyncio.Event()
        self.stdin = self
        self.has_failed = False
        for part in (errors[:3], errors[3:]):
            self.stderr_in.send_nowait(part) if part else None

    async def send(self, data: bytes) -> None:
        """Take a line, and answer it."""
        if self.has_failed:
            raise anyio.BrokenResourceError
        lines = self.world.written(json.loads(data))
        if lines is None:
            self.end()
            return
        text = "".join(f"{line}\n" for line in lines).encode()
        middle = len(text) // 2
        for part in (text[:middle], text[middle:]):
            if part:
                self.stdout_in.send_nowait(part)

    def end(self) -> None:
        """End the process."""
        self.has_failed = True
        self.stdout_in.close()
        self.stderr_in.close()
        self.ended.set()

    async def aclose(self) -> None:
        """Close the input, or the process."""
        if not self.ends_at:
            self.end()

    async def wait(self) -> int:
        """Wait for the end."""
        await self.ended.wait()
        return 0


def start_children(context: SceneContext, world: World, errors: bytes = b"", ends_at: int = 0) -> list[Child]:
    """Have processes that are started be children of a world; return those that are started."""
    started: list[Child] = []

    async def open_process(command: list[str], **options: Any) -> Child:
        environment = dict(options.pop("env"))
        has_path = environment.pop("PATH", None) == os.environ.get("PATH", os.defpath)
        context.notes.add("started", command, environment, has_path, options)
        if "broken" in command[0]:
            raise OSError("not at all")
        started.append(Child(world, errors, ends_at))
        return started[-1]

    def killpg(pid: int, kind: int) -> None:
        context.notes.add("signal", pid, int(kind))
        if ends_at == kind:
            started[-1].end()
        elif ends_at < 0:
            raise ProcessLookupError

    def which(command: str) -> str | None:
        return None if "none" in command else f"/found/{command}"

    context.swap(anyio, "open_process", open_process)
    context.swap(os, "killpg", killpg)
    context.swap(shutil, "which", which)
    if ends_at:
        context.swap(streams, "GRACE", 0.002)
    return started


class _Parts(httpx2.AsyncByteStream):
    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


def serve_web(context: SceneContext, world: World, odd: Any = None) -> None:
    """Answer requests over HTTP as a world does; `odd` may give another response to a request."""

    async def handle(_: Any, request: httpx2.Request) -> httpx2.Response:
        ours = {name: request.headers.get(name) for name in ("authorization", "x-team", "accept-encoding")}
        body = json.loads(await request.aread() or b"{}")
        context.notes.add(request.method, str(request.url), ours, body.get("method"))
        response = None if odd is None else odd(body)
        if isinstance(response, Exception):
            raise response
        if response is not None:
            status, headers, parts = response
            return httpx2.Response(status, headers=headers, stream=_Parts(parts))
        if request.method != "POST":
            return httpx2.Response(405, stream=_Parts([]))
        lines = world.written(body)
        if not lines:
            return httpx2.Response(202 if lines is not None else 500, stream=_Parts([]))
        return httpx2.Response(200, headers={"content-type": "application/json"}, stream=_Parts([lines[-1].encode()]))

    async def nothing(*_: Any) -> None: ...

    transport = httpx2.AsyncHTTPTransport
    context.swap(transport, "__init__", lambda *_, **__: None)
    context.swap(transport, "__aenter__", nothing)
    context.swap(transport, "__aexit__", nothing)
    context.swap(transport, "aclose", nothing)
    context.swap(transport, "handle_async_request", handle)
