"""The process of a machine: tools and a model that note their calls, and that may be the end of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stepward.sabotage.operations.tasks import echo
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.points import Killed
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ANY_NAME, ModelReply, ModelRequest
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext
from stepward.vm.values import freeze

T = TypeVar("T")


class TaskTools(EveryTool):
    """Tools and a model. `fates` says what becomes of the first call of a step, and of a log by its number; `tokens`
    has those of the last ones."""

    names = ANY_NAME
    parameters: Mapping[str, Any] = {"model": "the desk"}

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fates: dict[str, str] = {}
        self.tokens: dict[tuple[str, str], str] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.is_dead = False

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Note a call, and return its output. Raises Killed where the process dies, and InDoubt."""
        place = context.run, str(args["n"]) if name == "log" else context.step
        self.calls.append((name, *place, dict(args)))
        fate = "well" if place in self.keys else self.fates.get(place[1], "well")
        self.keys.setdefault(place, context.idempotency_key)
        if (
            self.keys[place] != context.idempotency_key and name != "ask"
        ):  # a question that is asked again is another one
            self.calls.append(("another key", *place))
        if fate == "dies":
            self.is_dead = True
            raise Killed(context.step)
        if fate == "doubt":
            raise InDoubt("nobody knows")
        if context.resume_token:
            self.tokens[place] = context.resume_token
            return Suspend(f"of {context.step}")
        return echo() if name == "get" else "well"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Note a prompt; each reply costs two tokens, and three in money."""
        self.calls.append(("think", str(freeze(request.prompt)).rpartition(" ")[2]))
        return ModelReply("well", 2, 3)


class Process(ExecutionVM):
    """A machine that does nothing any more once its process has died in a tool."""

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        if isinstance(self.model, TaskTools) and self.model.is_dead:
            raise Killed("the process is dead")
        return function(*args)
