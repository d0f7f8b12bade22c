"""A web without network: what stands in place of the libraries `httpx2`, `litellm` and `redis` in a scene."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

from stepward.sabotage.recorded.shared.context import SceneContext, module, thing

LONG: Final = 0.5
"""Seconds that a late answer takes. Nobody waits for it."""


class HTTPError(Exception):
    """Any fault of a request."""


class ConnectError(HTTPError):
    """A server that is not reached."""


class InvalidURL(Exception):  # noqa: N818 - it has the name that the library gives it
    """An address that is none."""


class StreamError(RuntimeError):
    """A stream that breaks."""


class Sent(NamedTuple):
    """What a server sends: `fault` is raised in place of it, or after its parts if `breaks` is True."""

    status: int = 200
    headers: Mapping[str, str] = {}
    parts: tuple[bytes, ...] = ()
    fault: Exception | None = None
    breaks: bool = False
    late: bool = False


class _Response:
    def __init__(self, response: Sent) -> None:
        self.status_code = response.status
        self.headers = response.headers
        self._sent = response

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        for part in self._sent.parts:
            yield part
        if self._sent.fault is not None:
            raise self._sent.fault


class Web(ModuleType):
    """Stands for `httpx2`: each request gets the next of `answers`, or the last one; notes have what was asked."""

    HTTPError, ConnectError, InvalidURL, StreamError = HTTPError, ConnectError, InvalidURL, StreamError

    def __init__(self, context: SceneContext) -> None:
        super().__init__("httpx2")
        self.context = context
        self.answers: list[Sent] = [Sent()]
        self.certificates: OSError | None = None
        self.AsyncClient = self._client

    def create_ssl_context(self) -> str:
        """Return what stands for the certificates of the machine."""
        if self.certificates is not None:
            raise self.certificates
        return "certificates"

    def URL(self, url: str) -> str:  # noqa: N802 - it has the name that the library gives it
        """Take an address. Raises InvalidURL for one with a large port."""
        if ":99999" in url:
            raise InvalidURL(url)
        return url

    @asynccontextmanager
    async def _client(self, **options: Any) -> AsyncIterator[Any]:
        self.context.notes.add("client", options)
        yield thing(stream=self._stream)

    @asynccontextmanager
    async def _stream(self, method: str, url: str, **request: Any) -> AsyncIterator[_Response]:
        self.context.notes.add(method, url, request)
        response = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if response.late:
            await asyncio.sleep(LONG)
        if response.fault is not None and not response.breaks:
            raise response.fault
        yield _Response(response)


class Lite(ModuleType):
    """Stands for `litellm`; notes have what was asked."""

    def __init__(self, context: SceneContext) -> None:
        super().__init__("litellm")
        self.context = context
        self.says: Any = thing(choices=[thing(message=thing(content="yes"))], usage=None, model=None)
        self.cost: Any = 0
        self.takes_schemas: Any = True

    async def acompletion(self, **arguments: Any) -> Any:
        """Note a request, and return the answer."""
        self.context.notes.add("sent", arguments)
        return self.says

    def completion_cost(self, completion_response: Any) -> Any:
        """Return the cost, or raise it."""
        self.context.notes.add("cost of", completion_response is self.says)
        if isinstance(self.cost, Exception):
            raise self.cost
        return self.cost

    def supports_response_schema(self, model: str) -> Any:
        """Return whether a model takes schemas, or raise it."""
        self.context.notes.add("takes schemas", model)
        if isinstance(self.takes_schemas, Exception):
            raise self.takes_schemas
        return self.takes_schemas


class RedisError(Exception):
    """A fault of the client of Redis."""


def redis_of(context: SceneContext) -> ModuleType:
    """Return what stands for `redis`: servers are tables by URL, and may fail as `faults` says."""

    class Redis:
        """A server."""

        faults: list[Exception | None] = []  # noqa: RUF012 - it belongs to one scene
        tables: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - it belongs to one scene

        def __init__(self, url: str) -> None:
            self.table = self.tables.setdefault(url, {})

        @classmethod
        def from_url(cls, url: str, **options: Any) -> Redis:
            """Return the server at a URL."""
            context.notes.add("redis", url, options)
            if "bad" in url:
                raise ValueError(url)
            return cls(url)

        def _may_fail(self) -> None:
            fault = self.faults.pop(0) if self.faults else None
            if fault is not None:
                raise fault

        def get(self, name: str) -> Any:
            """Return a value."""
            context.notes.add("redis get", name)
            self._may_fail()
            return self.table.get(name)

        def set(self, name: str, value: Any, **options: Any) -> None:
            """Keep a value."""
            context.notes.add("redis set", name, value, options)
            self._may_fail()
            self.table[name] = value

        def close(self) -> None:
            """Close the connection."""
            context.notes.add("redis closed")

    return module("redis", Redis=Redis, RedisError=RedisError)
