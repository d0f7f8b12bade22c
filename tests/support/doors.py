"""A model's side of the door: clients of the SDK, in this process or of a server in its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.gateway import Gateway
from stepward.validator.gateway.server import server_of

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
MODES: Final = {OLD: "legacy", NEW: NEW}
STEPWARD: Final = str(Path(sys.executable).parent / "stepward")
PATIENCE: Final = 60.0
"""Seconds in which every server of a test starts and answers."""


class Door:
    """A client, with its answers as texts."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, tool: str, **arguments: Any) -> str:
        """Return the answer; fails if it is a refusal."""
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        return _text(answer)

    async def data(self, tool: str, **arguments: Any) -> Any:
        return json.loads(await self.ask(tool, **arguments))

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Return the words of a refusal; fails if it is none."""
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error, answer.content
        return _text(answer)

    async def read(self, path: str) -> str:
        found = await self.client.read_resource(f"stepward://{path}")
        return str(found.contents[0].text)  # type: ignore[union-attr]


def _text(answer: Any) -> str:
    (content,) = answer.content
    return str(content.text)


@asynccontextmanager
async def door(gateway: Gateway, caller: Caller, protocol: str = NEW) -> AsyncIterator[Door]:
    """A client of a server in this process, without a transport."""
    async with Client(server_of(gateway, lambda _: caller), mode=MODES[protocol]) as client:
        yield Door(client)


@asynccontextmanager
async def door_by_streams(arguments: list[str], folder: Path, token: str, protocol: str) -> AsyncIterator[Door]:
    """A client of a server that it starts, over standard streams."""
    started = StdioServerParameters(
        command=STEPWARD, args=["mcp", *arguments], cwd=folder, env={"STEPWARD_CALLER_TOKEN": token}
    )
    async with Client(started, mode=MODES[protocol], read_timeout_seconds=PATIENCE) as client:
        yield Door(client)


@asynccontextmanager
async def door_by_http(url: str, token: str, protocol: str) -> AsyncIterator[Door]:
    """A client of a server that runs, over HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=MODES[protocol]) as client,
    ):
        yield Door(client)


@contextmanager
def http_server(arguments: list[str], folder: Path) -> Iterator[str]:
    """A server in a process of its own; yields its address."""
    command = [STEPWARD, "mcp", *arguments, "--http", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("serving at "), line + process.stderr.read()
            yield line.removeprefix("serving at ").strip()
        finally:
            process.terminate()
            process.wait(PATIENCE)
