"""What an operator says of an MCP server: how to reach it, and which of its tools are pinned."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final
from urllib.parse import urlsplit

from stepward.vm.arguments import MAPPING, PATH, TEXT, made, require, require_each
from stepward.vm.errors import StepwardError
from stepward.vm.remote.pins import NO_PINS, Pins

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
"""The names of servers. They have no dot: a tool is called `SERVER.TOOL`."""

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class ServerRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """An MCP server can't be used: its settings are wrong, it can't be reached, or the library `mcp` is missing."""


@dataclass(frozen=True)
class StdioServer:
    """An MCP server in a child process, over its standard streams. It is started without a shell.

    `env` names the variables of this process that the server gets besides PATH; it gets no others. `folder` is its
    working folder, and where a `command` with a slash is found. Raises ServerRefused for a name that can't be used.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    folder: FilePath | None = None
    pins: Pins = NO_PINS

    def __post_init__(self) -> None:
        require_name(self.name)
        require(TEXT, command=self.command)
        require_each(TEXT, args=self.args, env=self.env)
        require(PATH.or_none(), folder=self.folder)
        require(made(Pins), pins=self.pins)

    def environment(self) -> dict[str, str]:
        """Return the environment of the server; raises ServerRefused for a named variable that is not set."""
        variables = {name: variable(self.name, name) for name in self.env}
        return {"PATH": os.environ.get("PATH", os.defpath), **variables}


@dataclass(frozen=True)
class HttpServer:
    """An MCP server at an address, over streamable HTTP.

    `headers` names, for each header of a request, the variable of this process that has its value. Raises
    ServerRefused for a name that can't be used, and for an address that is neither https nor on the loopback interface.
    """

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    pins: Pins = NO_PINS

    def __post_init__(self) -> None:
        require_name(self.name)
        require(TEXT, url=self.url)
        require(MAPPING, headers=self.headers)
        require(made(Pins), pins=self.pins)
        require_url(self.url)

    def given_headers(self) -> dict[str, str]:
        """Return the headers with their values; raises ServerRefused for a named variable that is not set."""
        return {header: variable(self.name, name) for header, name in self.headers.items()}


Server = StdioServer | HttpServer


def require_name(name: Any) -> None:
    """Raise ServerRefused unless a text can be the name of a server."""
    if not isinstance(name, str) or not NAME.match(name):
        raise ServerRefused(f"`{name}` is no name of a server: it has small letters, digits, `-` and `_`, 40 at most")


def require_url(url: str) -> None:
    """Raise ServerRefused unless an address can be trusted with the headers: https, or the loopback interface."""
    try:
        parts = urlsplit(url)
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_known = False
    if not is_known:
        raise ServerRefused(f"`{url}` is no address of a server: write `https://…`")
    if parts.username is not None or parts.password is not None:
        raise ServerRefused("the address of a server has a password: give it in a header, from the environment")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ServerRefused(f"`{url}` is not encrypted: write `https://…`; `http://` is for this machine alone")


def variable(server: str, name: str) -> str:
    """Return a variable of the environment that a server needs; raises ServerRefused if it is not set."""
    value = os.environ.get(name)
    if value is None:
        raise ServerRefused(f"MCP server `{server}` needs the variable `{name}` of the environment, and it is not set")
    return value
