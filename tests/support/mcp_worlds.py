"""MCP servers for tests: what they list, what they were called with, and machines with their tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from stepward.vm.remote.pins import Listed, Pins
from stepward.vm.remote.servers import HttpServer, StdioServer

CHILD: Final = str(Path(__file__).with_name("mcp_child.py"))
TOKEN: Final = "WORLD_AUTHORIZATION"
"""The variable of the environment that has the header of requests over HTTP."""

PATIENCE: Final = 120.0
"""Seconds in which a server starts, on a machine that is busy."""


def arguments(**properties: Any) -> dict[str, Any]:
    """A schema of arguments that are all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


PAY: Final[dict[str, Any]] = {
    "description": "Pays a sum.",
    "inputSchema": arguments(sum={"type": "number"}, idempotency_key={"type": "string"}),
    "outputSchema": arguments(receipt={"type": "string"}, sum={"type": "number"}),
    "annotations": {"readOnlyHint": True, "idempotentHint": True},
}
TOOLS: Final[dict[str, Any]] = {
    "echo": {"description": "Repeats a text.", "inputSchema": arguments(text={"type": "string"})},
    "pay": PAY,
    **{
        name: {"inputSchema": {"type": "object"}}
        for name in ("refuse", "wrong", "slow", "die", "huge", "numbers", "picture", "ask", "chat", "swap")
    },
}


class World:
    """A server that is started when it is needed; its list of tools is a file."""

    def __init__(self, folder: Path, tools: dict[str, Any] | None = None, **fields: Any) -> None:
        self.folder = folder
        self.set(tools or TOOLS, **fields)

    def set(self, tools: dict[str, Any], **fields: Any) -> None:
        """Change what the server lists from now on."""
        (self.folder / "world.json").write_text(json.dumps({"tools": tools, **fields}))

    def change(self, tool: str, **parts: Any) -> None:
        """Change what the server says of one tool; a part of None is left out."""
        data = json.loads((self.folder / "world.json").read_text())
        changed = {**data["tools"][tool], **parts}
        data["tools"][tool] = {name: part for name, part in changed.items() if part is not None}
        (self.folder / "world.json").write_text(json.dumps(data))

    def pins(self) -> Pins:
        """The pins of what the server lists now."""
        tools = json.loads((self.folder / "world.json").read_text())["tools"]
        listed = [
            Listed(name, one.get("description"), one["inputSchema"], one.get("outputSchema"), {})
            for name, one in tools.items()
        ]
        return Pins.of(listed)

    def server(self, **fields: Any) -> StdioServer:
        """The server in a child process, pinned as it is now."""
        given: dict[str, Any] = {"args": (CHILD, str(self.folder)), "pins": self.pins(), **fields}
        return StdioServer("world", sys.executable, **given)

    @contextmanager
    def over_http(self) -> Iterator[HttpServer]:
        """The server at an address of the loopback interface, pinned as it is now."""
        command = [sys.executable, CHILD, str(self.folder), "--http"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield HttpServer("world", process.stdout.readline().strip(), {"Authorization": TOKEN}, self.pins())
            finally:
                process.kill()
                process.wait(PATIENCE)

    def calls(self, tool: str | None = None) -> list[dict[str, Any]]:
        """The calls that the server has got."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if tool in (None, call["tool"])]
