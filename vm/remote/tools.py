"""Tools of MCP servers for a machine."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Awaitable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stepward.vm.arguments import NUMBER, made, require, require_each
from stepward.vm.machine.tools import FunctionTools, ToolContext
from stepward.vm.remote.pins import Listed
from stepward.vm.remote.results import json_argument, output_of
from stepward.vm.remote.servers import HttpServer, Server, ServerRefused, StdioServer

if TYPE_CHECKING:
    from stepward.vm.remote.link import Link

T = TypeVar("T")

KEY: Final = "stepward/idempotency-key"
TIMEOUT: Final = "stepward/time-out-seconds"
"""The names, in the metadata of a call, of its idempotency key and of its time-out."""

MAX_CLOSING: Final = 60.0
"""Seconds in which all connections end."""


class McpTools(FunctionTools):
    """The pinned tools of MCP servers, named `SERVER.TOOL`, beside functions (`functions`, as for ExecutionVM).

    Before each run, and before a run goes on, the tools that it calls are listed anew and compared with their pins: a
    changed one is refused (RunRefused). A connection is made when it is first needed, and kept: use the object as a
    context manager, with or without `async`, or call `close`. `patience` is how many seconds a server may take to start
    and to list its tools. How long a call may take is said by the program.

    Raises ServerRefused if the library `mcp` is missing (`pip install 'stepward[mcp]'`), and for two servers, or a
    function and a tool, of one name.
    """

    def __init__(self, servers: Sequence[Server], *, functions: object = None, patience: float = 30.0) -> None:
        require_each(made(StdioServer, HttpServer), servers=servers)
        require(NUMBER, patience=patience)
        super().__init__({} if functions is None else functions)
        require_library()
        self._patience = patience
        self._servers = {server.name: server for server in servers}
        if len(self._servers) < len(servers):
            raise ServerRefused("two MCP servers have one name: give each a name of its own")
        self._homes = {f"{one.name}.{tool}": (one.name, tool) for one in servers for tool in one.pins.tools}
        for name in self._homes:
            if super().has(name):
                raise ServerRefused(f"there is a function `{name}`, and an MCP server has a tool of that name")
        self._threads = _Threads()
        weakref.finalize(self, self._threads.close)

    def has(self, name: str) -> bool:
        """Return whether there is a pinned tool or a function with a name."""
        return name in self._homes or super().has(name)

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable of a tool's output; it raises CallFailed or InDoubt, or what a function raises."""
        return self._called(name, args, context) if name in self._homes else super().call(name, args, context)

    async def require_current(self, names: Collection[str]) -> None:
        """Raise RunRefused unless tools are as they were pinned, by lists that are fetched now.

        Names of functions are passed over.
        """
        needed: dict[str, list[str]] = {}
        for name in names:
            if name in self._homes:
                server, tool = self._homes[name]
                needed.setdefault(server, []).append(tool)
        if needed:
            waiting = [self._links(server).require(tools) for server, tools in needed.items()]
            for answer in await asyncio.gather(*map(self._done, waiting), return_exceptions=True):
                if answer is not None:
                    raise answer

    async def listed(self, server: str) -> list[Listed]:
        """Return the tools of a server, listed now, whether or not they are pinned; raises ServerRefused."""
        return list((await self._done(self._links(server).tools())).values())

    async def _called(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        server, tool = self._homes[name]
        meta: dict[str, Any] = {KEY: context.idempotency_key}
        if context.timeout is not None:
            meta[TIMEOUT] = context.timeout
        arguments = {name: json_argument(value) for name, value in args.items()}
        link = self._links(server)
        return output_of(await self._done(link.call(tool, arguments, meta, meta[KEY])), context.returns)

    def _links(self, server: str) -> Link:
        return self._threads.link(self._servers[server], self._patience)

    def _done(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return asyncio.wrap_future(self._threads.submit(work))

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connections, and the servers that are child processes. It may be called again."""
        self._threads.close()

    def __enter__(self) -> McpTools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> McpTools:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


class _Threads:
    """The connections, on an event loop of their own in a thread of its own.

    A machine may be driven from several event loops, one after the other; a connection belongs to one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._links: dict[str, Link] = {}

    def link(self, server: Server, patience: float) -> Link:
        """Return the connection to a server."""
        from stepward.vm.remote.link import Link

        with self._lock:
            if server.name not in self._links:
                self._links[server.name] = Link(server, patience)
            return self._links[server.name]

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop of the connections."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="stepward-mcp", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End all connections, the loop and its thread."""
        with self._lock:
            loop, thread, links = self._loop, self._thread, list(self._links.values())
            self._loop, self._thread = None, None
            self._links.clear()
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_all_closed(links), loop).result(MAX_CLOSING)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _all_closed(links: Sequence[Link]) -> None:
    await asyncio.gather(*(link.close() for link in links), return_exceptions=True)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1)


def require_library() -> None:
    """Raise ServerRefused unless the library `mcp` can be imported."""
    try:
        import mcp.client  # noqa: F401
    except ImportError as error:
        advice = "install Stepward with its extra: `python -m pip install 'stepward[mcp]'`"
        raise ServerRefused(f"tools of MCP servers need the library `mcp` ({error}); {advice}") from None
