"""Acts with connections to MCP servers: lists, calls, links that break, and servers that can't be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.remote.listings import drawn_tool
from stepward.sabotage.recorded.remote.session import Session, pins_of
from stepward.sabotage.recorded.shared.context import Act, SceneContext
from stepward.vm.remote.pins import NO_PINS
from stepward.vm.remote.servers import HttpServer, StdioServer

# -- calls -------------------------------------------------------------------------------------------------------------

_COMMANDS: Final = ("serve", "serve", "serve", "serve", "serve", "./serve", "none", "broken")


def _tools(chance: Random) -> dict[str, dict[str, Any]]:
    listed = (drawn_tool(chance, name) for name in ("pay", "mail", "look"))
    found: dict[str, dict[str, Any]] = {}
    for tool in listed:
        row: dict[str, Any] = {"description": tool.description, "inputSchema": {"type": "object", **tool.input_schema}}
        row |= {} if tool.output_schema is None else {"outputSchema": {"type": "object"}}
        if isinstance(row["inputSchema"].get("properties"), list):  # the library refuses such a list
            row["inputSchema"] = {"type": "object"}
        found[tool.name] = {name: value for name, value in row.items() if value is not None}
    return found


def call_children(context: SceneContext) -> None:
    """Call tools of a server that is a child process."""
    from stepward.sabotage.recorded.remote.children import World, start_children

    chance, world = context.chance, World(context)
    context.note_log("stepward.remote")
    world.tools, world.is_modern, world.page = _tools(chance), chance.random() < 0.5, chance.choice((1, 2, 3, 100))
    ends_at = chance.choice((0, 0, 0, 0, 0, 15, 9)) if chance.random() < 0.5 else 0
    errors = chance.choice((b"", b"a last word", b"one\ntwo \xff\n", b"x" * 2100 + b"\nlast"))
    start_children(context, world, errors, ends_at)
    context.variable("SCENE_TEAM", "red")
    pins = pins_of({name: one for name, one in world.tools.items() if chance.random() < 0.9})
    command, folder = chance.choice(_COMMANDS), chance.choice((None, Path("/folder")))
    server = StdioServer("world", command, ("a", "b"), chance.choice(((), ("SCENE_TEAM",))), folder, pins)
    session = Session(context, server, world, {"plain": lambda **args: ["plain", sorted(args)]})
    for number in range(7):
        session.play(number)
    session.tools.close()
    session.tools.close()


def call_web(context: SceneContext) -> None:
    """Call tools of a server at an address."""
    from stepward.sabotage.recorded.remote.children import World, serve_web

    chance, world = context.chance, World(context)
    context.note_log("stepward.remote")
    world.tools, world.is_modern = _tools(chance), chance.random() < 0.4
    share = chance.choice((0.0, 0.1, 0.3))
    serve_web(context, world, lambda body: _odd_response(chance, share, body))
    context.variable("SCENE_TOKEN", chance.choice(("Bearer x", "Bearer x", None)))
    context.variable("SCENE_TEAM", "red")
    headers = chance.choice(({}, {"Authorization": "SCENE_TOKEN", "X-Team": "SCENE_TEAM"}))
    server = HttpServer(
        "world", chance.choice(("https://h/mcp", "http://127.0.0.1:8/mcp")), headers, pins_of(world.tools)
    )
    session = Session(context, server, world)
    for number in range(5):
        session.play(number)
    session.tools.close()


def _odd_response(chance: Random, share: float, body: Mapping[str, Any]) -> Any:
    """Return another response than that of the world, or None."""
    import httpx2

    if chance.random() >= share or "id" not in body:
        return None
    json_type, large = {"content-type": "application/json"}, b"x" * (2 << 20)
    return chance.choice((
        (500, {}, []),
        (404, {}, []),
        (200, {**json_type, "content-encoding": "gzip"}, [b"x"]),
        (200, json_type, [large, large, b"x"]),
        (200, json_type, [large, large]),
        (200, json_type, [b"{"]),
        (200, {"content-type": "text/html"}, [b"x"]),
        httpx2.ConnectError("no way"),
        httpx2.ReadError("broken"),
    ))  # fmt: skip


def list_many(context: SceneContext) -> None:
    """List as many pages and tools as are taken, or one more; mostly there is no such list."""
    from stepward.sabotage.recorded.remote.children import World, start_children

    if context.chance.random() < 0.93:
        return
    world = World(context)
    start_children(context, world)
    number, world.page = context.chance.choice(((100, 1), (101, 1), (2000, 1000), (2001, 2001), (2001, 1999), (3, 2)))
    world.tools = {f"t{one}": {} for one in range(number)}
    world.tools |= {"t0'": {}} if number == 3 else {}
    session = Session(context, StdioServer("world", "serve"), world)
    found = context.quiet(lambda: context.wait(session.tools.listed("world")))
    context.notes.add(number, found and len(found))
    session.tools.close()


def wait_in_vain(context: SceneContext) -> None:
    """Ask a server that does not answer, for a short time."""
    from stepward.sabotage.recorded.remote.children import World, start_children
    from stepward.vm.remote.tools import McpTools

    if context.chance.random() < 0.8:
        return
    count, world = len(context.notes.texts), World(context)
    world.is_silent = True
    start_children(context, world)
    with McpTools([StdioServer("world", "serve", pins=pins_of({"pay": {"inputSchema": {}}}))], patience=0.02) as tools:
        why = context.quiet(lambda: context.wait(tools.require_current(["world.pay"])))
        note = context.notes.texts[-1]
    del context.notes.texts[count:]  # what was sent meanwhile depends on the computer
    context.notes.add(why, note)


async def _used(tools: Any) -> None:
    async with tools as found:
        assert found is tools


def equip(context: SceneContext) -> None:
    """Make providers of tools whose names meet, and ask them for what they have."""
    from stepward.vm.remote.tools import McpTools

    chance = context.chance
    servers = [
        StdioServer(
            chance.choice(("a", "b")), "serve", pins=pins_of(_tools(chance)) if chance.random() < 0.7 else NO_PINS
        )
        for _ in range(chance.choice((0, 1, 2)))
    ]
    functions = chance.choice((None, {}, {"a.pay": len}, {"pay": len, "b.other": len}, json))
    tools = context.quiet(lambda: McpTools(servers, functions=functions))
    if tools is not None:
        names = ("a.pay", "b.pay", "a.other", "b.other", "pay", "dumps", "")
        context.notes.add(
            [tools.has(name) for name in names], tools.names(), tools._patience, sorted(tools._homes.items())
        )
        if chance.random() < 0.5:
            context.wait(_used(tools))
        with tools:
            context.do("functions alone", lambda: context.wait(tools.require_current(["pay", "x"])))
        tools.close()


ACTS: Final[tuple[Act, ...]] = (
    *(call_children, call_children, call_children, call_web, call_web, equip, list_many, wait_in_vain),
)
