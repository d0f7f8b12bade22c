"""`stepward manifest mcp:NAME`: proposes a manifest for an MCP server, and pins the tools that policies declare."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import load_policies
from stepward.validator.cli.output import json_of, write_output
from stepward.validator.cli.printed import command
from stepward.validator.cli.servers import configured_servers
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.validator.gate.servers import NamedServer
    from stepward.vm.language.policy import Policy
    from stepward.vm.remote.pins import Listed, Pins


def server_manifest(name: str, options: dict[str, Any], *, pin: bool) -> None:
    """Write a proposed policy with the manifest of a server's tools, or pin those that policies declare."""
    servers = configured_servers(options)
    found = next((one for one in servers if one.name == name), None)
    if found is None:
        names = ", ".join(f"`mcp:{one.name}`" for one in servers)
        help = f"write {names}" if names else f"add `[mcp-servers.{name}]` to the configuration"
        raise AdvisedError(f"the configuration names no MCP server `{name}`", help)
    if pin:
        _pin(found, _confirmed(found, load_policies({**options, "policies": ()})))
        return
    listed = _listed(found)
    text = json_of(_data(found, listed)) if options["output_format"] == "json" else _yaml(found, listed)
    if options["output_file"] is None:
        click.echo(text, nl=False)
    else:
        write_output(options["output_file"], text, "correct the path of `--output-file`")


def _listed(server: NamedServer) -> list[Listed]:
    import asyncio

    from stepward.vm.errors import StepwardError
    from stepward.vm.remote.tools import McpTools

    try:
        with McpTools([server.server()]) as tools:
            found = asyncio.run(tools.listed(server.name))
    except (StepwardError, OSError) as error:
        raise AdvisedError(str(error)) from None
    return sorted(one for one in found if one.name.isprintable() and not set(one.name) & set("`: #"))


def _data(server: NamedServer, listed: Iterable[Listed]) -> dict[str, Any]:
    from stepward.vm.remote.proposal import proposed

    return {"policy": f"mcp-{server.name}", "tools": {f"{server.name}.{one.name}": proposed(one) for one in listed}}


def _yaml(server: NamedServer, listed: list[Listed]) -> str:
    """Return the proposal as YAML, with remarks on each tool."""
    from stepward.vm.reading.yaml_writer import to_yaml
    from stepward.vm.remote.proposal import proposed, remarks

    lines = [
        f"# Proposed from what MCP server `{server.name}` says. Correct it, and list this file in `policies`; then",
        f"# `stepward manifest mcp:{server.name} --pin`.",
        *to_yaml({"policy": f"mcp-{server.name}"}).splitlines(),
        "tools:" if listed else "tools: {}",
    ]
    for one in listed:
        entry = to_yaml({f"{server.name}.{one.name}": proposed(one)}).splitlines()
        lines += [f"  {entry[0]}", *(f"    # {line}" for line in remarks(one)), *(f"  {line}" for line in entry[1:])]
    return "".join(f"{line}\n" for line in lines)


def _confirmed(server: NamedServer, policies: Iterable[Policy]) -> set[str]:
    """Return the tools of a server of which policies state the facts; raises AdvisedError if there are none."""
    declared = {tool for policy in policies for tool in policy.tools or ()}
    confirmed = {tool.partition(".")[2] for tool in declared if tool.partition(".")[0] == server.name and "." in tool}
    if not confirmed:
        help = f"`{command('manifest', f'mcp:{server.name}')}` proposes a policy: correct it, and list it in `policies`"
        raise AdvisedError(f"no policy states the facts of a tool of MCP server `{server.name}`", help)
    return confirmed


def _pin(server: NamedServer, confirmed: Collection[str]) -> None:
    """Pin tools as they are listed now, and say what has changed since they were pinned."""
    from stepward.vm.remote.pins import Pins

    chosen = [one for one in _listed(server) if one.name in confirmed]
    absent = set(confirmed) - {one.name for one in chosen}
    if absent:
        help = "correct the name in the policy, or remove it there"
        raise AdvisedError(f"MCP server `{server.name}` has no tool `{min(absent)}`", help)
    before, pins = server.server().pins, Pins.of(chosen)
    write_output(server.pins_file, pins.text(), "make its folder one that you can write")
    for one in chosen:
        click.echo(f"{server.name}.{one.name}: {_change(before, pins, one.name)}")
    for name in sorted(before.tools.keys() - pins.tools.keys()):
        click.echo(f"{server.name}.{name}: not pinned any more")


def _change(before: Pins, after: Pins, name: str) -> str:
    if name not in before.tools:
        return "pinned"
    changes = before.tools[name].changes(after.tools[name])
    return f"pinned again: {', '.join(changes)} changed" if changes else "as before"
