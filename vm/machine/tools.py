"""Tools: how the machine calls functions, and what they may raise and return."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stepward.vm.errors import StepwardError
from stepward.vm.machine.keeping import begin
from stepward.vm.machine.keys import FrameName, idempotency_key
from stepward.vm.machine.models import is_async

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec


class InDoubt(StepwardError):  # noqa: N818 - it is no error: it says that nobody knows
    """Raised by a tool that can't know whether its effect happened: a connection was lost after a request was sent.

    Every other exception means that the effect did not happen.
    """


class ToolError(StepwardError):
    """Raised by a tool to fail with an error that its manifest lists: `raise ToolError("CardDeclined", "no funds")`.

    It is for code without a class for each error: an exception whose class has a listed name is that error, too.
    """

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(text or name)
        self.name = name


class Suspend(NamedTuple):
    """Returned by a tool to suspend the run until somebody resumes it; the resume payload is the tool's output.

    `request` is for whoever resumes the run: the question, and for whom it is. It is recorded in the journal.
    """

    request: Any = None


class ToolContext(NamedTuple):
    """The argument of a tool's parameter `context`: which call this is.

    `program` is the digest of the program, `run` the id of the run, `step` the id of the step or sub-step. `visit`
    counts how often the run came to the step, `attempt` the tries of this visit, and `performance` the effects that are
    tried for: attempts under one idempotency key are one performance. All three count from 1. `resume_token` resumes
    the run after the tool has returned Suspend; it is empty unless the manifest says that the tool `suspends`.
    `timeout` is how many seconds the machine waits for the output, None for no limit; `returns` is the declared type of
    the output, if there is one. `frame` says for which items of for_each steps the call is: for each of them, from the
    outside in, the step id, its visit, its round and the number of the item from 0.
    """

    program: str
    run: str
    step: str
    visit: int
    attempt: int
    performance: int
    resume_token: str
    timeout: float | None = None
    returns: TypeSpec | None = None
    frame: FrameName = ()

    @property
    def idempotency_key(self) -> str:
        """The key of the performance: the same for every attempt of it, in any process."""
        return idempotency_key(self.program, self.run, self.step, self.visit, self.performance, self.frame)


class Tools(Protocol):
    """A provider of tools, such as FunctionTools.

    A provider whose tools may change while nobody looks also has an async method `require_current`. It gets the names
    of the tools that a run calls, before the run starts or goes on, and raises RunRefused if one must not be called.
    """

    def has(self, name: str) -> bool:
        """Return whether there is a tool with a name."""
        ...

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable of a tool's output or Suspend; it raises what the tool raises."""
        ...


class FunctionTools:
    """Python functions as tools, by name: a mapping, or the public callables of a module or object.

    The tools of a module are those in its `__all__`, else all but imports from the standard library.

    A parameter named `idempotency_key` gets the key, one named `context` the ToolContext; all others are arguments.
    Functions that are not async run in threads of their own.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | object) -> None:
        self._functions = functions
        self._known: dict[str, tuple[Callable[..., Any], bool, frozenset[str]]] = {}

    def has(self, name: str) -> bool:
        """Return whether there is a function with a name."""
        return self._find(name) is not None

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return the function with a name, or None if there is none."""
        found = self._find(name)
        return None if found is None else found[0]

    def special(self, name: str) -> frozenset[str]:
        """Return which of the parameters `idempotency_key` and `context` a function has."""
        found = self._find(name)
        return frozenset() if found is None else found[2]

    def names(self) -> list[str]:
        """Return the names of all tools, sorted."""
        known = self._functions if isinstance(self._functions, Mapping) else dir(self._functions)
        return sorted(name for name in known if not name.startswith("_") and self.has(name))

    def _find(self, name: str) -> tuple[Callable[..., Any], bool, frozenset[str]] | None:
        if name not in self._known:
            if isinstance(self._functions, Mapping):
                function = self._functions.get(name)
            else:
                function = None if name.startswith("_") else getattr(self._functions, name, None)
            if not callable(function) or not _is_own(self._functions, name, function):
                return None
            self._known[name] = (function, is_async(function), _special_parameters(function))
        return self._known[name]

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable of a tool's output; it raises what the tool raises."""
        found = self._known.get(name) or self._find(name)
        assert found is not None, "a run without its tools is refused"
        function, waits, special = found
        arguments = dict(args)
        if special:
            if "idempotency_key" in special:
                arguments["idempotency_key"] = context.idempotency_key
            if "context" in special:
                arguments.setdefault("context", context)
        return function(**arguments) if waits else in_thread(function, arguments)


def _is_own(functions: object, name: str, function: Any) -> bool:
    """Return whether a function is a tool of a module: functions of the standard library that it imports are not."""
    if not isinstance(functions, ModuleType):
        return True
    if hasattr(functions, "__all__"):
        return name in functions.__all__
    if not hasattr(
        function, "__name__"
    ):  # an instance of an imported class, made in the module: `functools.partial`, a mock
        return True
    return str(getattr(function, "__module__", "")).partition(".")[0] not in sys.stdlib_module_names


def _special_parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(names) & {"idempotency_key", "context"}


async def in_thread(function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Run a function that may block in a thread, and return its result.

    Each call has a daemon thread of its own: a call that hangs after its time-out must not keep the process alive.
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
            result = context.run(function, **args)
        except BaseException as error:
            # Exceptions that end loops, tasks and processes can't be passed between threads.
            passes = isinstance(error, Exception) and not isinstance(error, StopIteration)
            failure = error if passes else RuntimeError(f"the tool raised {type(error).__name__}")
        finish()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="stepward-tool", daemon=True).start()
    result = await answer
    return await result if inspect.isawaitable(result) else result
