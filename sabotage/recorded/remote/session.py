"""The tools of an MCP server in a scene: what is asked of them, and what the server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.remote.listings import RETURNS, VALUES
from stepward.sabotage.recorded.shared.context import SceneContext
from stepward.vm import ToolContext
from stepward.vm.language.types import TypeSpec
from stepward.vm.remote.pins import Listed, Pins


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


def pins_of(tools: Mapping[str, Mapping[str, Any]]) -> Pins:
    """Return the pins of tools as a server lists them."""
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


class Session:
    """Tools of a server in a scene, and all that is asked of them."""

    def __init__(self, context: SceneContext, server: Any, world: Any, functions: Any = None) -> None:
        from stepward.vm.remote import link
        from stepward.vm.remote.tools import McpTools

        context.swap(link, "version", lambda name: f"the version of {name}")
        self.context = context
        self.chance = context.chance
        self.world = world
        self.tools = McpTools([server], functions=functions, patience=5.0)
        context.stack.callback(self.tools.close)

    def settle(self) -> None:
        """Let the connections come to rest."""

        async def rest() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.tools._threads.submit(rest()).result()

    def play(self, number: int) -> None:
        """Ask something of the tools."""
        context, chance, tools = self.context, self.chance, self.tools
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
                context.do(names, lambda: context.wait(tools.require_current(names)))
            case "list":
                context.do("list", lambda: context.wait(tools.listed("world")))
            case "change":
                part = chance.choice(("description", "inputSchema", "outputSchema", "annotations"))
                change = {part: _CHANGES[part]}
                self.world.tools["pay"] = {**self.world.tools["pay"], **change}
                if chance.random() < 0.2:
                    self.world.tools.pop(chance.choice(("mail", "look")), None)
            case "tell":
                method = ("notifications/tools/list_changed", "notifications/message", "notifications/progress")
                self.world.tells = [chance.choice(method)]
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
        context, chance = self.context, self.chance
        self.world.answers = [chance.choice(_ANSWERS)]
        if says or chance.random() < 0.4:
            self.world.answers = [_text(says or "yes")]
        elif chance.random() < 0.03:
            self.world.answers = ["y" * ((8 << 20) + chance.choice((-1, 1)))]  # it comes in two parts, and a new line
        tool_context = _context(number, chance)
        context.do(f"{name} {args}", lambda: context.wait(self.tools.call(name, args, tool_context)))
