"""Tables of lasting connections: tools change, and their server tells so or not, between calls of several tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.remote.session import Session, pins_of
from stepward.sabotage.recorded.shared.context import SceneContext
from stepward.sabotage.recorded.tabling import Table
from stepward.vm import ToolContext
from stepward.vm.remote.servers import StdioServer

# Each letter is something that happens: see `_play`.
_TOLD: Final = "pctp pctpp pctmp pctmmp pctmqp pctmep pctmbp pctbmp ptmp ptp pctmcp mctmp mctmpm pctmzp pctmomp pctomp"
_OF_PAY: Final = "p pp qp ep mp cp cq ctp pcp pcq pce pcep pcmp pcrp ctmp pbp zp"
_GONE: Final = "xm xr mxm mxtm mxtpm mxtpmp pxtpm rxr mxep mxem pxtmp pzxm pzp pzm mzctp pzop poq pop potmp otp pozp"
_BOTH: Final = "dp dm pdtmp pdtmm mdtpm rdtmr pcdtmp pcxtmp pxctpm pwtmp pwtmm wm wp rwr pwep"


def _context() -> ToolContext:
    return ToolContext("p" * 64, "r", "s", 1, 1, 1, "key", None, None)


def _show_link(letters: str, change: str, is_modern: Any) -> Any:
    # The library of the protocol is an extra.
    from stepward.sabotage.recorded.remote.children import World, start_children

    with ExitStack() as stack:
        context = SceneContext(f"link {letters}", stack, {})
        world = World(context)
        world.is_modern = is_modern
        keyed = {"type": "object", "properties": {"idempotency_key": {"type": "string"}}}
        before: dict[str, dict[str, Any]] = {
            "pay": {"description": "pays", "inputSchema": keyed},
            "mail": {"description": "mails", "inputSchema": {"type": "object"}},
        }
        world.tools = {name: dict(tool) for name, tool in before.items()}
        start_children(context, world)
        server = StdioServer("world", "serve", pins=pins_of(world.tools))
        session = Session(context, server, world)
        for letter in letters:
            _play(letter, session, before, change)
            session.settle()
        session.tools.close()
        return context.notes.texts


def _play(letter: str, session: Session, before: dict[str, dict[str, Any]], change: str) -> None:
    context, world, tools = session.context, session.world, session.tools
    schema = {"type": "object", "a": 1}
    changed = {**before["pay"], change: "x" if change == "description" else schema}
    match letter:
        case "p" | "m":
            name = "pay" if letter == "p" else "mail"
            world.answers = [{"content": [{"type": "text", "text": name}]}]
            context.do(name, lambda: context.wait(tools.call(f"world.{name}", {"a": None}, _context())))
        case "q" | "r":
            names = ["world.pay", "world.mail"][: 1 + (letter == "r")]
            context.do(names, lambda: context.wait(tools.require_current(names)))
        case "e":
            context.do("list", lambda: sorted(context.wait(tools.listed("world"))))
        case "c":
            world.tools["pay"] = changed
        case "d":
            world.tools["mail"] = {**before["mail"], "description": "y"}
        case "w":
            world.tools["new"] = dict(before["mail"])
        case "b":
            world.tools["pay"] = dict(before["pay"])
        case "x":
            world.tools.pop("mail", None)
        case "t":
            world.tells = ["notifications/tools/list_changed"]
        case "o":
            world.odd_list = None if world.odd_list else {"code": -32603, "message": "no list"}
        case _:  # the server ends within a call
            world.answers = [None]
            context.do("lost", lambda: context.wait(tools.call("world.mail", {}, _context())))


def _links() -> Iterator[tuple[Any, ...]]:
    yield from product((*_OF_PAY.split(), *_TOLD.split()), ("description",), (False, True))
    yield from product((*_GONE.split(), *_BOTH.split()), ("description",), (False,))
    yield from product(_TOLD.split()[:8], ("inputSchema",), (False,))


TABLES: Final = (Table("links", _links, _show_link),)
