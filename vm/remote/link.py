"""The connection to one server: it lists the tools, compares them with their pins, and sends calls.

Everything here runs on one event loop. Nothing that a server asks for is answered: neither sampling nor elicitation nor
roots are offered, and its progress and its logs are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    ToolListChangedNotification,
)
from pydantic import PrivateAttr, TypeAdapter

from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.tools import InDoubt
from stepward.vm.remote.pins import Listed, Pin
from stepward.vm.remote.results import CallFailed, printable
from stepward.vm.remote.servers import HttpServer, Server, ServerRefused
from stepward.vm.remote.streams import Line, child_streams
from stepward.vm.remote.web import http_streams

MAX_PAGES: Final = 100
MAX_TOOLS: Final = 2_000
"""Pages and tools of the longest list."""

MAX_ENDING: Final = 15.0
"""Seconds in which a connection ends. A child process is killed well before that."""

log = logging.getLogger("stepward.remote")

NOT_DONE: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
"""The errors of the protocol that say that a call was not performed. After any other, nobody knows."""

_ANSWER: Final[TypeAdapter[Any]] = TypeAdapter(CallToolResult | InputRequiredResult)

# The SDK writes warnings and tracebacks about what servers send; what matters is in our errors.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class _Call(CallToolRequest):
    """A call whose arguments are sent as they are: the SDK leaves out those that are null."""

    _arguments: dict[str, Any] = PrivateAttr()

    def model_dump(self, **options: Any) -> dict[str, Any]:
        data = super().model_dump(**options)
        data["params"]["arguments"] = self._arguments
        return data


class Link:
    """The connection to one server; it is made when it is first needed, and made anew when it was lost."""

    def __init__(self, server: Server, patience: float) -> None:
        self.server = server
        self._patience = patience
        self._line = Line()
        self._client: Client | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._tools: dict[str, Listed] = {}
        self._is_stale = False

    async def tools(self) -> dict[str, Listed]:
        """Return the tools of the server by name, listed now; raises ServerRefused."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._fetched()
        except TimeoutError:
            raise self._refused(f"has not answered within {self._patience:g} seconds") from None

    async def require(self, names: Iterable[str]) -> None:
        """Raise RunRefused unless tools are listed now as they were pinned."""
        try:
            tools = await self.tools()
        except ServerRefused as error:
            raise RunRefused(str(error)) from None
        for name in names:
            why = self._difference(tools, name)
            if why is not None:
                raise RunRefused(why)

    async def call(self, name: str, args: dict[str, Any], meta: Mapping[str, Any], key: str) -> CallToolResult:
        """Call a tool, and return the answer.

        `meta` goes into the metadata of the request, and `key` into the argument `idempotency_key` of a tool that has
        one. Raises CallFailed if the call had no effect, InDoubt if that is not known.
        """
        client = await self._ready(name)
        properties = self._tools[name].input_schema.get("properties")
        if isinstance(properties, Mapping) and "idempotency_key" in properties:
            args = {**args, "idempotency_key": key}
        request = _Call(params=CallToolRequestParams(name=name, _meta=dict(meta)))
        request._arguments = args
        try:
            answer = await client.session.send_request(request, _ANSWER)
        except MCPError as error:
            if error.code in NOT_DONE:
                raise CallFailed(f"{self._named} does not perform the call: {printable(error.message)}") from None
            raise InDoubt(f"{self._named} was called, and no result came{self._words()}") from None
        except Exception as error:  # streams that are closed, answers that are none of the protocol
            why = f"{self._named} was called, and no result can be read ({type(error).__name__})"
            raise InDoubt(why + self._words()) from None
        if isinstance(answer, InputRequiredResult):
            raise InDoubt(f"{self._named} was called, and asks for something instead of answering: that is refused")
        assert isinstance(answer, CallToolResult), "the adapter knows no others"
        return answer

    async def close(self) -> None:
        """End the connection, and the server if it is a child process."""
        async with self._connecting:
            await self._end()

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _named(self) -> str:
        return f"MCP server `{self.server.name}`"

    def _refused(self, why: str) -> ServerRefused:
        return ServerRefused(f"{self._named} {why}{self._words()}")

    def _words(self) -> str:
        """Return why the connection is lost, to be added to a message; the log says what the server said last.

        Messages may reach a caller of a gateway. The words of a server must not.
        """
        if self._line.last_words:
            log.warning("%s said last, on standard error: %s", self._named, self._line.last_words)
        return f": {self._line.why}" if self._line.why else ""

    def _difference(self, tools: Mapping[str, Listed], name: str) -> str | None:
        """Return why a tool is not as it was pinned, or None. No word of the server is in it."""
        pin = self.server.pins.tools.get(name)
        if pin is None:
            return f"tool `{name}` of {self._named} is not pinned"
        if name not in tools:
            return f"{self._named} has no tool `{name}` any more"
        changes = pin.changes(Pin.of(tools[name]))
        if not changes:
            return None
        parts = " and ".join((", ".join(changes[:-1]), changes[-1])) if len(changes) > 1 else changes[0]
        return (
            f"tool `{name}` of {self._named} is not as it was pinned: {parts} changed; "
            f"look at what it does now, and pin it again: `stepward manifest mcp:{self.server.name} --pin`"
        )

    async def _fetched(self) -> dict[str, Listed]:
        """Return the tools, listed now: over the present connection, or else over a new one."""
        if self._client is not None:
            try:
                return await self._list(self._client)
            except Exception as error:
                # Other calls may be under way over this connection: it is given up only if it can be of no more use.
                if isinstance(error, ServerRefused) or not (self._is_lost or isinstance(self.server, HttpServer)):
                    raise self._unlisted(error) from None
                await self._end()
        client = await self._connected()
        try:
            return await self._list(client)
        except Exception as error:
            raise self._unlisted(error) from None

    def _unlisted(self, error: Exception) -> ServerRefused:
        if isinstance(error, ServerRefused):
            return error
        return self._refused(f"does not list its tools ({_kind(error)})")

    async def _list(self, client: Client) -> dict[str, Listed]:
        tools: dict[str, Listed] = {}
        cursor = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            for one in page.tools:
                if one.name in tools:
                    raise self._refused("lists two tools of one name")
                hints = {} if one.annotations is None else one.annotations.model_dump(by_alias=True, exclude_none=True)
                tools[one.name] = Listed(one.name, one.description, one.input_schema, one.output_schema, hints)
            cursor = page.next_cursor
            if len(tools) > MAX_TOOLS:
                break
            if cursor is None:
                self._tools, self._is_stale = tools, False
                return tools
        raise self._refused("lists too many tools")

    async def _ready(self, name: str) -> Client:
        """Return a client for a call of a tool that is as it was pinned, by the last list or by a new one."""
        try:
            if self._client is None or self._is_lost or self._is_stale:
                await self.tools()
        except ServerRefused as error:
            raise CallFailed(str(error)) from None
        why = self._difference(self._tools, name)
        if why is not None:
            raise CallFailed(why)
        assert self._client is not None, "its tools were listed"
        return self._client

    @property
    def _is_lost(self) -> bool:
        return self._line.is_lost or self._serving is None or self._serving.done()

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is not None and not self._is_lost:
                return self._client
            await self._end()
            self._line, self._stop = Line(), asyncio.Event()
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(ready, self._line, self._stop))
            try:
                self._client = await ready
            except asyncio.CancelledError:
                self._give_up()
                raise
            return self._client

    async def _serve(self, ready: asyncio.Future[Client], line: Line, stop: asyncio.Event) -> None:
        """Hold a connection: it has to be opened and closed in one task."""
        server = self.server
        transport = http_streams(server, line) if isinstance(server, HttpServer) else child_streams(server, line)
        us = Implementation(name="stepward", version=version("stepward"))
        try:
            async with Client(transport, cache=None, client_info=us, message_handler=self._hear) as client:
                ready.set_result(client)
                await stop.wait()
        except Exception as error:
            if not ready.done():
                kind = next((str(one) for one in _inner(error) if isinstance(one, ServerRefused)), None)
                ready.set_exception(ServerRefused(kind) if kind else self._refused(f"can't be used ({_kind(error)})"))
        finally:
            line.lose()
            ready.cancel()

    async def _hear(self, message: object) -> None:
        """Note that the list of tools has changed; all else that a server tells is dropped."""
        if isinstance(message, ToolListChangedNotification):
            self._is_stale = True

    def _give_up(self) -> None:
        """Let the present connection end, if there is one; `_ending` has what has not ended yet."""
        serving, self._serving = self._serving, None
        if serving is None:
            return
        if self._client is None:  # it is still being made
            serving.cancel()
        self._stop.set()
        self._client, self._tools = None, {}
        self._ending.add(serving)
        serving.add_done_callback(self._ending.discard)

    async def _end(self) -> None:
        """Give up the present connection, and wait until all have ended."""
        self._give_up()
        if self._ending:
            await asyncio.wait(self._ending, timeout=MAX_ENDING)
        for task in list(self._ending):
            task.cancel()


def _inner(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _inner(one)
    else:
        yield error


def _kind(error: BaseException) -> str:
    """Return the kinds of an error, without its text, which may have secrets."""
    return ", ".join(dict.fromkeys(type(one).__name__ for one in _inner(error)))
