"""A server in a child process: starts it, and carries messages over its standard streams, of bounded size.

The transport of the SDK keeps a line of any length in memory, and gives a server more of the environment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.abc import Process
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from stepward.vm.remote.results import printable
from stepward.vm.remote.servers import ServerRefused, StdioServer

MAX_MESSAGE: Final = 4 << 20
"""Bytes of the longest message of a server."""

MAX_TAIL: Final = 2_000
"""Bytes of the end of a server's standard error that are kept, for a message."""

GRACE: Final = 2.0
"""Seconds that a server gets to end after its input has ended, and again after SIGTERM."""


class Line:
    """What is known of a connection: whether it is lost, why, and the last words of the server's standard error."""

    def __init__(self) -> None:
        self.is_lost = False
        self.why = ""
        self.tail = b""

    def lose(self, why: str = "") -> None:
        """Note that no more messages come, and why."""
        self.is_lost = True
        self.why = self.why or why

    @property
    def last_words(self) -> str:
        """The last line of the server's standard error."""
        return printable(self.tail.decode(errors="replace").strip().rpartition("\n")[2])


@asynccontextmanager
async def child_streams(server: StdioServer, line: Line) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server, and yield the streams of messages from it and to it; the server ends with the block.

    Raises ServerRefused if it can't be started.
    """
    process = await _started(server)
    inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sending, outward = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, inward, received, sending, outward:
        tasks.start_soon(_read, process, inward, line)
        tasks.start_soon(_write, process, outward, line)
        tasks.start_soon(_keep_tail, process, line)
        try:
            yield received, sending
        finally:
            line.lose()
            with anyio.CancelScope(shield=True):
                await _end(process)
            tasks.cancel_scope.cancel()


async def _started(server: StdioServer) -> Process:
    environment = server.environment()
    command = server.command
    if os.sep in command and server.folder is not None:
        command = os.path.join(server.folder, command)
    found = shutil.which(command)
    if found is None:
        raise ServerRefused(f"there is no command `{server.command}`")
    try:
        return await anyio.open_process(
            [found, *server.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=server.folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ServerRefused(f"`{server.command}` can't be started: {error}") from None


async def _read(process: Process, inward: Any, line: Line) -> None:
    """Pass on the messages of a server, until one is none, or is too long."""
    assert process.stdout is not None, "it is a pipe"
    buffer = bytearray()
    async with inward:
        try:
            async for part in process.stdout:
                buffer += part
                while (end := buffer.find(b"\n")) >= 0:
                    message = jsonrpc_message_adapter.validate_json(bytes(buffer[:end]), by_name=False)
                    del buffer[: end + 1]
                    await inward.send(SessionMessage(message))
                if len(buffer) > MAX_MESSAGE:
                    line.lose(f"it sent a message of more than {MAX_MESSAGE:,} bytes")
                    break
        except ValueError:
            line.lose("it wrote something that is no message on its standard output")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        line.lose("it ended, or closed its standard output")


async def _write(process: Process, outward: Any, line: Line) -> None:
    assert process.stdin is not None, "it is a pipe"
    async with outward:
        try:
            async for message in outward:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            line.lose("it reads no more")


async def _keep_tail(process: Process, line: Line) -> None:
    assert process.stderr is not None, "it is a pipe"
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for part in process.stderr:
            line.tail = (line.tail + part)[-MAX_TAIL:]


async def _end(process: Process) -> None:
    """End a server: its input ends; then it, and what it has started, are asked to end, and then made to."""
    assert process.stdin is not None, "it is a pipe"
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.aclose()
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with anyio.move_on_after(GRACE):
            await process.wait()
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, kind)
    else:
        with anyio.move_on_after(GRACE):
            await process.wait()
    with anyio.move_on_after(GRACE):
        await process.aclose()
