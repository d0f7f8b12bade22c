"""Acts with connections to MCP servers: lists, calls, links that break, and servers that can't be used."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.remote.listings import RETURNS, VALUES, drawn_tool
from stepward.sabotage.recorded.stages.props import Act, Props
from stepward.vm import ToolContext
from stepward.vm.language.types import TypeSpec
from stepward.vm.remote.pins import NO_PINS, Listed, Pins
from stepward.vm.remote.servers import HttpServer, StdioServer

# -- calls -------------------------------------------------------------------------------------------------------------


def _text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


_ANSWERS: Final[tuple[Any, ...]] = (
    *(
        _text("yes"),
        _text("[1, 2.50]"),
        _text("no money", isError=True),
        _text("paid", structuredContent={"receipt": "R"}),
    ),
    *({"content": []}, {"content": [{"type": "image", "data": "", "mimeType": "image/png"}]}, {"content": 7}, {}),
    *({"code": code, "message": "in\nvain"} for code in (-32601, -32602, -32603, -32600, -32000, 1)),
    *({"resultType": "input_required", "inputRequests": {}}, "no message", '{"jsonrpc": "2.0"}', None),
)
_ODD_LISTS: Final[tuple[Any, ...]] = (
    *({"tools": 7}, {}, {"code": -32603, "message": "no list"}, {"tools": [{"name": 7}]}, "no message", None),
    {"tools": [{"name": "x", "inputSchema": {"type": "object"}}], "nextCursor": "0"},
)
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


def _pins(tools: Mapping[str, Mapping[str, Any]]) -> Pins:
    return Pins.of(
        Listed(name, one.get("description"), one["inputSchema"], one.get("outputSchema"), {})
        for name, one in tools.items()
    )


def _context(number: int, chance: Random) -> ToolContext:
    data = chance.choice(RETURNS)
    returns = None if data is None else TypeSpec.model_validate(data)
    return ToolContext("p" * 64, "r", f"s{number}", 1, 1, 1, "", chance.choice((None, 2.5)), returns)


_CHANGES: Final[dict[str, Any]] = {
    **{"description": "other", "inputSchema": {"type": "object", "x": 1}, "outputSchema": {"type": "object", "x": 1}},
    "annotations": {"readOnlyHint": True},
}


class _Session:
    """Tools of a server in a scene, and all that is asked of them."""

    def __init__(self, props: Props, server: Any, world: Any, functions: Any = None) -> None:
        from stepward.vm.remote import link
        from stepward.vm.remote.tools import McpTools

        props.swap(link, "version", lambda name: f"the version of {name}")
        self.props = props
        self.chance = props.chance
        self.world = world
        self.tools = McpTools([server], functions=functions, patience=5.0)
        props.stack.callback(self.tools.close)

    def settle(self) -> None:
        """Let the connections come to rest."""

        async def rest() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.tools._threads.submit(rest()).result()

    def play(self, number: int) -> None:
        """Ask something of the tools."""
        props, chance, tools = self.props, self.chance, self.tools
        name = chance.choice(("world.pay", "world.pay", "world.mail", "world.look", "world.other", "plain", "missing"))
        match chance.choice(
            (
                "call",
                "call",
                "call",
                "call",
                "require",
                "list",
                "change",
                "tell",
                "odd",
                "close",
                "back",
                "told",
                "told",
            )
        ):
            case "call" if tools.has(name):
                args = {one: chance.choice(VALUES) for one in chance.sample(("a", "sum", "idempotency_key"), 1)}
                self._call(name, args, number)
            case "require":
                names = chance.sample(("world.pay", "world.mail", "plain", "world.other"), 2)
                props.do(names, lambda: props.wait(tools.require_current(names)))
            case "list":
                props.do("list", lambda: props.wait(tools.listed("world")))
            case "change":
                part = chance.choice(("description", "inputSchema", "outputSchema", "annotations"))
                change = {part: _CHANGES[part]}
                self.world.tools["pay"] = {**self.world.tools["pay"], **change}
                if chance.random() < 0.2:
                    self.world.tools.pop(chance.choice(("mail", "look")), None)
            case "tell":
                told = ("notifications/tools/list_changed", "notifications/message", "notifications/progress")
                self.world.tells = [chance.choice(told)]
            case "told" if tools.has("world.pay"):
                self.world.tells = ["notifications/tools/list_changed"]
                if chance.random() < 0.5:
                    self.world.tools["pay"] = {**self.world.tools["pay"], "description": "told"}
                self._call("world.pay", {}, number, "yes")
                self.settle()
                self._call("world.pay", {}, number, "yes")
            case "odd":
                self.world.odd_list = chance.choice((None, None, *_ODD_LISTS))
            case "close":
                tools.close()
            case "back":
                self.world.odd_list = None
        self.settle()

    def _call(self, name: str, args: dict[str, Any], number: int, says: str = "") -> None:
        props, chance = self.props, self.chance
        self.world.answers = [chance.choice(_ANSWERS)]
        if says or chance.random() < 0.4:
            self.world.answers = [_text(says or "yes")]
        elif chance.random() < 0.03:
            self.world.answers = ["y" * ((8 << 20) + chance.choice((-1, 1)))]  # it comes in two parts, and a new line
        context = _context(number, chance)
        props.do(f"{name} {args}", lambda: props.wait(self.tools.call(name, args, context)))


def _heard(props: Props) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            props.notes.add("log", record.levelname, record.getMessage())

    log, handler = logging.getLogger("stepward.remote"), Handler()
    log.addHandler(handler)
    props.stack.callback(log.removeHandler, handler)
    props.swap(log, "propagate", False)


def call_children(props: Props) -> None:
    """Call tools of a server that is a child process."""
    from stepward.sabotage.recorded.remote.children import World, start_children

    chance, world = props.chance, World(props)
    _heard(props)
    world.tools, world.is_modern, world.page = _tools(chance), chance.random() < 0.5, chance.choice((1, 2, 3, 100))
    ends_at = chance.choice((0, 0, 0, 0, 0, 15, 9)) if chance.random() < 0.5 else 0
    said = chance.choice((b"", b"a last word", b"one\ntwo \xff\n", b"x" * 2100 + b"\nlast"))
    start_children(props, world, said, ends_at)
    props.variable("SCENE_TEAM", "red")
    pins = _pins({name: one for name, one in world.tools.items() if chance.random() < 0.9})
    command, folder = chance.choice(_COMMANDS), chance.choice((None, Path("/folder")))
    server = StdioServer("world", command, ("a", "b"), chance.choice(((), ("SCENE_TEAM",))), folder, pins)
    session = _Session(props, server, world, {"plain": lambda **args: ["plain", sorted(args)]})
    for number in range(7):
        session.play(number)
    session.tools.close()
    session.tools.close()


def call_web(props: Props) -> None:
    """Call tools of a server at an address."""
    from stepward.sabotage.recorded.remote.children import World, serve_web

    chance, world = props.chance, World(props)
    _heard(props)
    world.tools, world.is_modern = _tools(chance), chance.random() < 0.4
    share = chance.choice((0.0, 0.1, 0.3))
    serve_web(props, world, lambda asked: _odd_response(chance, share, asked))
    props.variable("SCENE_TOKEN", chance.choice(("Bearer x", "Bearer x", None)))
    props.variable("SCENE_TEAM", "red")
    headers = chance.choice(({}, {"Authorization": "SCENE_TOKEN", "X-Team": "SCENE_TEAM"}))
    server = HttpServer(
        "world", chance.choice(("https://h/mcp", "http://127.0.0.1:8/mcp")), headers, _pins(world.tools)
    )
    session = _Session(props, server, world)
    for number in range(5):
        session.play(number)
    session.tools.close()


def _odd_response(chance: Random, share: float, asked: Mapping[str, Any]) -> Any:
    """Return another response than that of the world, or None."""
    import httpx2

    if chance.random() >= share or "id" not in asked:
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


def list_many(props: Props) -> None:
    """List as many pages and tools as are taken, or one more; mostly there is no such list."""
    from stepward.sabotage.recorded.remote.children import World, start_children

    if props.chance.random() < 0.93:
        return
    world = World(props)
    start_children(props, world)
    number, world.page = props.chance.choice(((100, 1), (101, 1), (2000, 1000), (2001, 2001), (2001, 1999), (3, 2)))
    world.tools = {f"t{one}": {} for one in range(number)}
    world.tools |= {"t0'": {}} if number == 3 else {}
    session = _Session(props, StdioServer("world", "serve"), world)
    found = props.quiet(lambda: props.wait(session.tools.listed("world")))
    props.notes.add(number, found and len(found))
    session.tools.close()


def wait_in_vain(props: Props) -> None:
    """Ask a server that does not answer, for a short time."""
    from stepward.sabotage.recorded.remote.children import World, start_children
    from stepward.vm.remote.tools import McpTools

    if props.chance.random() < 0.8:
        return
    count, world = len(props.notes.texts), World(props)
    world.is_silent = True
    start_children(props, world)
    with McpTools([StdioServer("world", "serve", pins=_pins({"pay": {"inputSchema": {}}}))], patience=0.02) as tools:
        why = props.quiet(lambda: props.wait(tools.require_current(["world.pay"])))
        said = props.notes.texts[-1]
    del props.notes.texts[count:]  # what was sent meanwhile depends on the computer
    props.notes.add(why, said)


async def _used(tools: Any) -> None:
    async with tools as found:
        assert found is tools


def equip(props: Props) -> None:
    """Make providers of tools whose names meet, and ask them for what they have."""
    from stepward.vm.remote.tools import McpTools

    chance = props.chance
    servers = [
        StdioServer(
            chance.choice(("a", "b")), "serve", pins=_pins(_tools(chance)) if chance.random() < 0.7 else NO_PINS
        )
        for _ in range(chance.choice((0, 1, 2)))
    ]
    functions = chance.choice((None, {}, {"a.pay": len}, {"pay": len, "b.other": len}, json))
    made = props.quiet(lambda: McpTools(servers, functions=functions))
    if made is not None:
        names = ("a.pay", "b.pay", "a.other", "b.other", "pay", "dumps", "")
        props.notes.add([made.has(name) for name in names], made.names(), made._patience, sorted(made._homes.items()))
        if chance.random() < 0.5:
            props.wait(_used(made))
        with made:
            props.do("functions alone", lambda: props.wait(made.require_current(["pay", "x"])))
        made.close()


ACTS: Final[tuple[Act, ...]] = (
    *(call_children, call_children, call_children, call_web, call_web, equip, list_many, wait_in_vain),
)
