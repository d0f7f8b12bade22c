"""Tools: how the machine calls the functions that it is given, and what they may say."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from stepward.vm.errors import StepwardError
from stepward.vm.machine.keeping import begin
from stepward.vm.machine.keys import idempotency_key
from stepward.vm.machine.models import is_async


class InDoubt(StepwardError):  # noqa: N818 - it is no error: it says that nobody knows
    """Raise it in a tool that can't know whether its effect happened: a connection lost after the request was sent.

    Every other exception says that the effect did not happen.
    """


class Suspend(NamedTuple):
    """Return it from a tool to suspend the run until somebody resumes it; the resume payload is the tool's output.

    `request` is for whoever resumes: what is asked, of whom. It is kept in the journal.
    """

    request: Any = None


class ToolContext(NamedTuple):
    """What the machine tells a tool that has a parameter `context`. `resume_token` is empty unless it may suspend."""

    program: str
    run: str
    step: str
    visit: int
    attempt: int
    performance: int
    resume_token: str

    @property
    def idempotency_key(self) -> str:
        """The key of the performance: the same whenever the same one is started again, in any process."""
        return idempotency_key(self.program, self.run, self.step, self.visit, self.performance)


class Tools(Protocol):
    """Something that has tools. `FunctionTools` has functions; a script has answers."""

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        ...

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return what to await for the output of a tool, or Suspend; it raises what the tool raises."""
        ...


class FunctionTools:
    """Python functions as tools, by name: a mapping, or a module or object whose public callables they are.

    Of a module that is what its `__all__` lists, else all but what comes from the standard library.

    A parameter named `idempotency_key` gets the key, one named `context` the ToolContext; all others are arguments.
    Functions that are not async run in threads of their own.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | object) -> None:
        self._functions = functions
        self._known: dict[str, tuple[Callable[..., Any], bool, frozenset[str]]] = {}

    def has(self, name: str) -> bool:
        """Return whether there is a function of that name."""
        return self._find(name) is not None

    def _find(self, name: str) -> tuple[Callable[..., Any], bool, frozenset[str]] | None:
        if name not in self._known:
            if isinstance(self._functions, Mapping):
                function = self._functions.get(name)
            else:
                function = None if name.startswith("_") else getattr(self._functions, name, None)
            if not callable(function) or not _is_own(self._functions, name, function):
                return None
            self._known[name] = (function, is_async(function), _asked_for(function))
        return self._known[name]

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return what to await for the output of a tool; it raises what the tool raises."""
        found = self._find(name)
        assert found is not None, "a run without its tools is refused"
        function, waits, asked = found
        given = dict(args)
        if asked:
            if "idempotency_key" in asked:
                given["idempotency_key"] = context.idempotency_key
            if "context" in asked:
                given.setdefault("context", context)
        return function(**given) if waits else in_thread(function, given)


def _is_own(functions: object, name: str, function: Any) -> bool:
    """Whether a module offers a function as a tool: what it imports from the standard library it does not."""
    if not isinstance(functions, ModuleType):
        return True
    if hasattr(functions, "__all__"):
        return name in functions.__all__
    if not hasattr(
        function, "__name__"
    ):  # made where it stands, of a class from elsewhere: `functools.partial`, a mock
        return True
    return str(getattr(function, "__module__", "")).partition(".")[0] not in sys.stdlib_module_names


def _asked_for(function: Callable[..., Any]) -> frozenset[str]:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(names) & {"idempotency_key", "context"}


async def in_thread(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Return what a function returns that may block.

    Each call has a daemon thread of its own: one that hangs after its time-out must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()
    finish = begin()

    def settle(result: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = context.run(function, **given)
        except BaseException as error:
            # What ends loops, tasks and processes can't be raised across threads.
            passes = isinstance(error, Exception) and not isinstance(error, StopIteration)
            failure = error if passes else RuntimeError(f"the tool raised {type(error).__name__}")
        finish()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="stepward-tool", daemon=True).start()
    result = await answer
    return await result if inspect.isawaitable(result) else result
