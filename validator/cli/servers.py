"""Shared by the commands that use tools of MCP servers: which servers are configured, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.printed import command
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.validator.gate.servers import NamedServer
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.tools import FunctionTools


def configured_servers(options: Mapping[str, Any]) -> tuple[NamedServer, ...]:
    """Return the servers that the configuration of the present folder names, or that of `--config`.

    The folder of a program does not count: who writes a program must not name what is started.
    """
    from stepward.validator.gate.settings import Configurations, Overrides

    configurations = Configurations(
        Overrides(), config=options.get("config"), is_isolated=bool(options.get("isolated"))
    )
    return configurations.above(Path.cwd()).mcp_servers


def is_of_server(tool: str, options: Mapping[str, Any]) -> bool:
    """Return whether a tool is one of a server that is configured here."""
    server, dot, _ = tool.partition(".")
    return bool(dot) and any(one.name == server for one in configured_servers(options))


def with_servers(functions: Any, servers: Iterable[NamedServer]) -> FunctionTools:
    """Return functions and the pinned tools of servers as one provider, which is closed with the command.

    Raises AdvisedError for a server that can't be used.
    """
    from stepward.vm.machine.tools import FunctionTools

    named = list(servers)
    if not named:
        return FunctionTools(functions or {})
    from stepward.vm.errors import StepwardError
    from stepward.vm.remote.tools import McpTools

    try:
        tools = McpTools([one.server() for one in named], functions=functions)
    except (StepwardError, OSError) as error:
        raise AdvisedError(str(error)) from None
    click.get_current_context().call_on_close(tools.close)
    return tools


def require_pinned(missing: Iterable[str], servers: Iterable[NamedServer]) -> None:
    """Raise AdvisedError if a missing tool is one of a configured server: it is not pinned."""
    names = {server.name for server in servers}
    for tool in missing:
        server = tool.partition(".")[0]
        if server in names:
            pin = command("manifest", f"mcp:{server}", "--pin")
            help = f"look at what it does, confirm its manifest, and pin it: `{pin}`"
            raise AdvisedError(f"tool `{tool}` is not pinned", help)


def require_confirmed(called: Iterable[str], policies: Collection[Policy], servers: Iterable[NamedServer]) -> None:
    """Raise AdvisedError for a tool of a server of which no policy states the facts: a program could state any."""
    names = {server.name for server in servers}
    known = {tool for policy in policies for tool in policy.tools or ()}
    for tool in called:
        server = tool.partition(".")[0]
        if server in names and "." in tool and tool not in known:
            help = f"`{command('manifest', f'mcp:{server}')}` proposes a policy: correct it, and list it in `policies`"
            raise AdvisedError(f"no policy states the facts of tool `{tool}`", help)


def server_facts(servers: Iterable[NamedServer], policies: Sequence[Policy]) -> dict[str, Any]:
    """Return the facts that policies state of the tools of servers, as plain data by tool."""
    from stepward.vm.language.meaning import Meaning
    from stepward.vm.language.program import Program

    names = {server.name for server in servers}
    nothing = Program.from_dict({"name": "nothing", "inputs": {}, "steps": [{"id": "end", "type": "end"}]})
    manifest = Meaning(nothing, policies).manifest
    stated = {tool for policy in policies for tool in policy.tools or ()}
    return {
        tool: spec.to_data()
        for tool, spec in manifest.items()
        if tool in stated and "." in tool and tool.partition(".")[0] in names
    }
