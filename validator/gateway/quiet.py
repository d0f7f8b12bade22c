"""Tools whose exceptions say nothing to a caller: their texts may have passwords, paths or data of other people."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.machine.tools import FunctionTools, InDoubt, Suspend, ToolContext
from stepward.vm.values import ByteBudget, TooLarge, ValueRefused, freeze

log = logging.getLogger("stepward.gateway")

MOST: Final = 2 << 20
"""Bytes of an output that are read here; the machine refuses one that is larger."""


class Failed(StepwardError):  # noqa: N818 - a record shows its text alone
    """A tool or a model has failed; its text names the kind of the error, and the log of the operator the rest."""


def failed(what: str, error: BaseException) -> Failed:
    """Log an error for the operator, and return one without its text."""
    log.warning("%s raised %s", what, type(error).__name__, exc_info=error)
    return Failed(f"it raised {type(error).__name__}")


class QuietTools(FunctionTools):
    """The tools of an operator; a caller is told the kind of an exception, never its text."""

    def __init__(self, tools: object) -> None:
        super().__init__(tools)
        self._inner = tools if isinstance(tools, FunctionTools) else FunctionTools(tools)

    def has(self, name: str) -> bool:
        """Return whether there is a tool with a name."""
        return self._inner.has(name)

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return the function with a name, or None if there is none."""
        return self._inner.function(name)

    async def require_current(self, names: Collection[str]) -> None:
        """Raise RunRefused if a tool of an MCP server has changed since it was pinned."""
        look = getattr(self._inner, "require_current", None)
        if look is not None:
            await look(names)

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable of a tool's output; it raises Failed or InDoubt, without the text of the tool."""
        return self._called(name, args, context)

    async def _called(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        what = f"tool `{name}` in run {context.run}"
        try:
            output = await self._inner.call(name, args, context)
            return output if issubclass(type(output), Suspend) else _read(output)
        except InDoubt as error:
            log.warning("%s is in doubt", what, exc_info=error)
            raise InDoubt("it can't know whether its effect has happened") from None
        except (Exception, SystemExit) as error:
            raise failed(what, error) from None


def _read(output: Any) -> Any:
    """Return an output that nobody has to read again: a lazy one may raise while it is read."""
    try:
        return freeze(output, room=ByteBudget(MOST))
    except (TooLarge, ValueRefused):
        return output  # the machine refuses it, in its own words
