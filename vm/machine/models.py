"""Models: what the machine asks of an adapter, and the scripted one for tests and replays."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from stepward.vm.errors import StepwardError


class ModelRequest(NamedTuple):
    """What a model is asked. It holds what the MODEL view admits, and nothing of the machine.

    `allowed` is the closed set of replies, `schema` the JSON Schema of a structured one. `step`, `visit` and `attempt`
    are for adapters that log or follow a script; they are not sent.
    """

    prompt: str
    system: str | None
    allowed: tuple[str, ...] | None
    schema: Mapping[str, Any] | None
    step: str
    visit: int
    attempt: int


class ModelReply(NamedTuple):
    """What a model said: text, or data where the adapter has read a structured reply itself.

    `cost` is exact, in whatever money the adapter counts in.
    """

    content: Any
    tokens: int = 0
    cost: int | Decimal = 0
    model: str = ""


class Model(Protocol):
    """An adapter to a model. `complete` may raise: the attempt has failed then."""

    def complete(self, request: ModelRequest) -> ModelReply | Awaitable[ModelReply]:
        """Return the reply, or something to await for it. What does not return an awaitable runs in a thread."""
        ...


class ScriptError(StepwardError):
    """A scripted model is asked for a reply that its script does not have: add one for that step and visit."""


Scripted = str | Mapping[str, Any] | list[Any] | ModelReply | Exception


class ScriptedModel:
    """Says what a script says, by step: each reply in turn, the last one again and again.

    `ScriptedModel({"analyze": "yes", "draft": ["first", "second"]})`. An exception in a script is raised. `asked` is
    every request so far.
    """

    def __init__(self, script: Mapping[str, Scripted | Iterable[Scripted]]) -> None:
        self.script: dict[str, list[Scripted]] = {
            step: list(said) if isinstance(said, list | tuple) and not isinstance(said, ModelReply) else [said]  # type: ignore[list-item]
            for step, said in script.items()
        }
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply of the step; raises ScriptError when there is none, or what is scripted."""
        said = self.script.get(request.step)
        if not said:
            raise ScriptError(f"the script has no reply for `{request.step}`")
        number = sum(1 for asked in self.asked if asked.step == request.step)
        self.asked.append(request)
        reply = said[min(number, len(said) - 1)]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ModelReply) else ModelReply(reply)


def is_async(function: Any) -> bool:
    """Return whether calling a function gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
