"""The MCP servers that a configuration names: `[mcp-servers.NAME]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stepward.vm.remote.servers import Server

_STREAMS: Final = ("command", "args", "env")
_WEB: Final = ("url", "headers")
_EXAMPLE: Final = 'write `command = "…"` for a server that is started here, or `url = "https://…"`'


@dataclass(frozen=True)
class NamedServer:
    """A server of the configuration in `folder`: it has either a command or an address.

    `headers` are pairs of a header and the variable of the environment that has its value.
    """

    name: str
    folder: FilePath
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def pins_file(self) -> FilePath:
        """The file with the pins of the server, beside the configuration."""
        return self.folder / f"{self.name}.pins.json"

    def server(self) -> Server:
        """Return the server with its pins, none if there is no file of pins.

        Raises PinsRefused for a file that has none, ServerRefused for an address that can't be used.
        """
        from stepward.vm.remote.pins import Pins
        from stepward.vm.remote.servers import HttpServer, StdioServer

        pins = Pins.load(self.pins_file) if self.pins_file.exists() else Pins()
        if self.url:
            return HttpServer(self.name, self.url, dict(self.headers), pins)
        return StdioServer(self.name, self.command, self.args, self.env, self.folder, pins)


Refuse = Callable[[str, str], Exception]
"""Makes an error of a message and a help."""


def read_servers(table: Any, folder: FilePath, refuse: Refuse) -> tuple[NamedServer, ...]:
    """Return the servers in the table `mcp-servers` of a configuration; raises what `refuse` makes."""
    if not isinstance(table, Mapping):
        raise refuse("`mcp-servers` must be a table of servers", "write `[mcp-servers.NAME]`")
    return tuple(_server(name, entry, folder, refuse) for name, entry in table.items())


def _server(name: str, entry: Any, folder: FilePath, refuse: Refuse) -> NamedServer:
    from stepward.vm.remote.servers import ServerRefused, require_name, require_url

    key = f"mcp-servers.{name}"
    if not isinstance(entry, Mapping):
        raise refuse(f"`{key}` must be a table", f"write `[{key}]`")
    if ("command" in entry) == ("url" in entry):
        raise refuse(f"`{key}` needs either a `command` or a `url`", _EXAMPLE)
    known = _STREAMS if "command" in entry else _WEB
    for field, value in entry.items():
        if field not in known:
            raise refuse(f"unknown key `{key}.{field}`", f"the keys here are {', '.join(f'`{one}`' for one in known)}")
        if field in ("args", "env") and not _is_texts(value):
            raise refuse(f"`{key}.{field}` must be a list of texts", f'write `{field} = ["…", "…"]`')
        if field in ("command", "url") and not (isinstance(value, str) and value):
            raise refuse(f"`{key}.{field}` must be text", _EXAMPLE)
    headers = entry.get("headers", {})
    if not isinstance(headers, Mapping) or not _is_texts(list(headers.values())):
        help = 'write `headers = {Authorization = "NAME_OF_A_VARIABLE"}`: the variable has the value'
        raise refuse(f"`{key}.headers` must be a table of names of variables", help)
    try:
        require_name(name)
        if "url" in entry:
            require_url(entry["url"])
    except ServerRefused as error:
        raise refuse(f"`{key}`: {error}", _EXAMPLE) from None
    return NamedServer(
        name,
        folder,
        entry.get("command", ""),
        tuple(entry.get("args", ())),
        tuple(entry.get("env", ())),
        entry.get("url", ""),
        tuple(headers.items()),
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
