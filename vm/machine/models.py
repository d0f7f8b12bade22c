"""Models: the interface of adapters, and a scripted model for tests and replays."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Container, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol

from stepward.vm.arguments import MAPPING, require
from stepward.vm.errors import StepwardError
from stepward.vm.machine.keys import FrameName


class ModelRequest(NamedTuple):
    """A request to a model. It holds only what the `model` view allows, and nothing of the machine.

    `allowed` is the closed set of replies, `schema` the JSON Schema of a structured one, as plain JSON data. `step`,
    `visit`, `attempt` and `frame` are for adapters that log or follow a script; they are not sent. `model` is the name
    that the step gives to the model that it wants, `temperature` and `max_output_tokens` are for the call. Each is None
    where the step does not say it.
    """

    prompt: str
    system: str | None
    allowed: tuple[str, ...] | None
    schema: Mapping[str, Any] | None
    step: str
    visit: int
    attempt: int
    model: str | None = None
    temperature: int | Decimal | None = None
    max_output_tokens: int | None = None
    frame: FrameName = ()

    @property
    def settings(self) -> dict[str, Any]:
        """What the step says of the model and of the call, by name; empty where it says nothing."""
        found = {"model": self.model, "temperature": self.temperature, "max_output_tokens": self.max_output_tokens}
        return {name: value for name, value in found.items() if value is not None}


class ModelReply(NamedTuple):
    """The reply of a model: a text, or data if the adapter has parsed a structured reply itself.

    `cost` is exact, in the currency of the adapter. None says that the adapter does not know it: journals record 0.
    Tokens and costs below 0 count as 0.
    """

    content: Any
    tokens: int = 0
    cost: int | Decimal | None = 0
    model: str = ""


class ModelFailed(StepwardError):  # noqa: N818 - reads better where it is raised than with a suffix
    """A call of a model failed, and may have cost something: an adapter raises it so that the run is charged.

    `spent` has the tokens, the cost and the name of the model; its content is ignored.
    """

    def __init__(self, message: str, spent: ModelReply | None = None) -> None:
        super().__init__(message)
        self.spent = ModelReply(None) if spent is None else spent


class Model(Protocol):
    """An adapter to a model: any object with a method `complete`, plain or async.

    If `complete` raises, the attempt has failed, and the step is retried or goes to its error step as the program says.
    `ModelFailed` charges the run for the attempt; any other exception says that it cost nothing.

    The machine counts and charges each attempt, so an adapter asks once. It may ask again only where the server has
    done nothing and says when to come back (429 or 503 with `Retry-After`). It bounds its attempts and its waiting, and
    waits so that it can be cancelled: that is how the time-out of a step ends it.

    An adapter may have an attribute `parameters`: a mapping of plain JSON data with all that decides a reply besides
    the request, such as the name of the model and the temperature, and without secrets. A
    recording compares it, and replies are kept in a cache under it.

    An adapter that knows models by the names that steps give has an attribute `names`: a collection of these names. A
    step with another name in its field `model` fails, and no model is asked. `NamedModels` is such an adapter.
    """

    def complete(self, request: ModelRequest) -> ModelReply | Awaitable[ModelReply]:
        """Return the reply, or an awaitable for it. A function that is not async runs in a thread."""
        ...


def parameters_of(model: Model) -> dict[str, Any]:
    """Return what a model says of itself besides its requests: its `parameters`, and the name of its class."""
    parameters = getattr(model, "parameters", None)
    return {"adapter": type(model).__qualname__, **(parameters if isinstance(parameters, Mapping) else {})}


async def reply_of(model: Model, request: ModelRequest) -> ModelReply:
    """Return the reply of a model, for adapters that ask another one; a `complete` that is not async gets a thread."""
    if is_async(model.complete):
        reply = model.complete(request)
    else:
        reply = await asyncio.to_thread(model.complete, request)
    return await reply if inspect.isawaitable(reply) else reply


class _AnyName(Container[object]):
    def __contains__(self, name: object) -> bool:
        return True


ANY_NAME: Final[Container[object]] = _AnyName()
"""The names of an adapter that takes every name, because it asks no model."""


def names_of(model: Model) -> Container[object]:
    """Return the names of models that an adapter knows; none without an attribute `names`."""
    names = getattr(model, "names", ())
    return names if isinstance(names, Container) else ()


class ScriptError(StepwardError):
    """A scripted model has no reply for a request: add one for that step and visit to its script."""


Scripted = str | Mapping[str, Any] | list[Any] | ModelReply | Exception


class ScriptedModel:
    """Replies by a script, per step: each reply in turn, and then the last one forever.

    `ScriptedModel({"analyze": "yes", "draft": ["first", "second"]})`. An exception in a script is raised. `asked` lists
    the requests so far. Replies are kept in a cache if `parameters` are given.
    """

    names = ANY_NAME

    def __init__(
        self, script: Mapping[str, Scripted | Iterable[Scripted]], *, parameters: Mapping[str, Any] | None = None
    ) -> None:
        require(MAPPING, script=script)
        require(MAPPING.or_none(), parameters=parameters)
        self.parameters = parameters
        self.script: dict[str, list[Scripted]] = {
            step: list(replies)
            if isinstance(replies, list | tuple) and not isinstance(replies, ModelReply)
            else [replies]  # type: ignore[list-item]
            for step, replies in script.items()
        }
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply of the step, or raise it if it is an exception; raises ScriptError if there is none."""
        replies = self.script.get(request.step)
        if not replies:
            raise ScriptError(f"the script has no reply for `{request.step}`")
        number = sum(1 for request_before in self.asked if request_before.step == request.step)
        self.asked.append(request)
        reply = replies[min(number, len(replies) - 1)]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ModelReply) else ModelReply(reply)


def is_async(function: Any) -> bool:
    """Return whether calling a function returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
