"""Injection: the tools are functions, as users of the machine write them, behind the adapter of the product."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import ContextVar
from functools import partial
from inspect import Parameter, Signature
from types import ModuleType, SimpleNamespace, coroutine
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import Asking, ProcessTools, result_of
from stepward.vm.machine.tools import FunctionTools, ToolContext
from stepward.vm.values import freeze, to_json

PATIENCE_SECONDS: Final = 60
"""The time limit, in seconds, for a thread to start and to end; its work is immediate."""

ROUNDS: Final = 3
"""The number of rounds of the event loop after which the result of a thread is there."""

_ASKED_FOR: Final = ("context", "idempotency_key")
_KINDS: Final = (
    "blocking",
    "async",
    "an object",
    "an async object",
    "async, partly called",
    "blocking, gives a coroutine",
)
_CONTAINERS: Final = ("a mapping", "an object", "a module")


class _Unwritable(Exception):  # noqa: N818 - what it is called is part of the specimen
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("the connection is closed")


_RAISED: Final[dict[str, Callable[[str], BaseException]]] = {
    "an error": RuntimeError,
    "an error of 100,000 letters": lambda text: RuntimeError(text.ljust(100_000, "!")),
    "an error that can't be written": _Unwritable,
    "an error of time": TimeoutError,
    "a cancellation": asyncio.CancelledError,
    "an end of the process": SystemExit,
    "an end of an iterator": StopIteration,
    "an end of a generator": GeneratorExit,
    "an interrupt": KeyboardInterrupt,
}
_ENDS_LOOPS: Final = ("an end of an iterator", "an end of a generator", "an interrupt")
"""Errors that only a function in a thread may raise. Elsewhere Python itself uses them, or they end the process."""


class Form(NamedTuple):
    """The form of a tool: the kind of function, and which of _ASKED_FOR are its parameters."""

    kind: str
    asks: tuple[str, ...]

    @property
    def blocks(self) -> bool:
        """Whether it has to run in a thread."""
        return "async" not in self.kind


class Handed(NamedTuple):
    """The expected call of a function, and its result."""

    asking: Asking
    context: ToolContext
    answer: CallAnswer
    raised: Callable[[str], BaseException] | None
    threads: list[threading.Thread]
    coming: list[Coroutine[Any, Any, Any]]


class Adapted:
    """Tools that are functions, called by the adapter of the product. Each checks its arguments.

    The world answers before the adapter is called, and the event loop blocks while a thread runs, so that a seed is
    reproducible. `called` counts the calls of functions.
    """

    def __init__(self, trial: Trial, points: Points) -> None:
        self.called = 0
        self._trial = trial
        self._world = ProcessTools(trial.world, points)
        self._handed: ContextVar[Handed] = ContextVar("handed")
        self._wrong: list[str] = []
        self._looping: threading.Thread | None = None
        self._forms = self._drawn()
        self._functions = FunctionTools(self._functions_held())

    def has(self, name: str) -> bool:
        """Return whether there is a function of that name."""
        return self._functions.has(name)

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        asking, answer = await self._world.met(name, args, context)
        form = self._forms[name]
        handed = Handed(asking, context, answer, self._raised(form, asking, answer), [], [])
        self._handed.set(handed)
        self._looping = threading.current_thread()
        self.called += 1
        awaitable = self._functions.call(name, dict(args), context)
        try:
            return await (_in_turn(awaitable, handed, self._wrong) if form.blocks else awaitable)
        finally:
            self._hold(name, handed)

    def _hold(self, name: str, handed: Handed) -> None:
        """Check that the function was called once, with the expected arguments."""
        for coming in handed.coming:  # a machine without a defence may not have awaited it
            coming.close()
        if len(handed.threads) != 1:
            self._wrong.append(f"was called {len(handed.threads)} times for one attempt")
        if self._wrong:
            self._trial.case.error = Breach(Invariant.DATA, f"function `{name}` {self._wrong[0]}")
            raise Killed(self._wrong[0])

    def _raised(self, form: Form, asking: Asking, answer: CallAnswer) -> Callable[[str], BaseException] | None:
        """Return the error that a failing function raises."""
        from hypothesis import strategies as st

        if answer.kind != "fails":
            return None
        # Errors that end loops are more frequent: they must not pass from a thread to its caller.
        names = [
            *(name for name in _RAISED if form.blocks or name not in _ENDS_LOOPS),
            *(3 * _ENDS_LOOPS * form.blocks),
        ]
        return _RAISED[self._trial.case.pick(self._trial.named(f"raised: {asking.name}"), st.sampled_from(names))]

    # -- the functions -------------------------------------------------------------------------------------------------

    def _drawn(self) -> dict[str, Form]:
        from hypothesis import strategies as st

        case, forms = self._trial.case, {}
        asks = st.lists(st.sampled_from(_ASKED_FOR), unique=True)
        how = st.fixed_dictionaries({"is": st.sampled_from(_KINDS), "asks for": asks})
        for call in self._trial.target.calls.values():
            if not call.is_model:
                drawn = case.pick(f"function `{call.tool}`", how)
                forms[call.tool] = Form(drawn["is"], tuple(drawn["asks for"]))
        return forms

    def _functions_held(self) -> object:
        """Return the functions in a mapping, a module or an object."""
        from hypothesis import strategies as st

        container = self._trial.case.pick("functions are in", st.sampled_from(_CONTAINERS))
        functions = {name: self._function(form) for name, form in self._forms.items()}
        if container == "a mapping" or any(name.startswith("_") for name in functions):
            return functions
        found = SimpleNamespace() if container == "an object" else ModuleType("tools")
        vars(found).update(functions)
        return found

    def _function(self, form: Form) -> Callable[..., Any]:
        """Return a function of a form, with the parameters of the form and any others."""
        meet = partial(self._meet, form)

        def blocking(**arguments: Any) -> Any:
            return meet(arguments)

        async def waits(**arguments: Any) -> Any:
            await asyncio.sleep(0)
            return meet(arguments)

        async def come(value: Any) -> Any:
            await asyncio.sleep(0)
            return value

        def later(value: Any) -> Coroutine[Any, Any, Any]:
            coming, handed = come(value), self._handed.get(None)
            if handed is not None:
                handed.coming.append(coming)
            return coming

        functions: dict[str, Any] = {
            "blocking": blocking,
            "async": waits,
            "an object": type("Tool", (), {"__call__": staticmethod(blocking)})(),
            "an async object": type("Tool", (), {"__call__": staticmethod(waits)})(),
            "async, partly called": waits,
            "blocking, gives a coroutine": lambda **arguments: later(meet(arguments)),
        }
        function = functions[form.kind]
        named = [Parameter(name, Parameter.KEYWORD_ONLY) for name in form.asks]
        function.__signature__ = Signature([*named, Parameter("others", Parameter.VAR_KEYWORD)])
        return partial(function) if form.kind == "async, partly called" else function

    def _meet(self, form: Form, arguments: dict[str, Any]) -> Any:
        """Handle a call: record wrong arguments, and do what the world has answered."""
        handed = self._handed.get(None)
        if handed is None:
            self._wrong.append("does not have the context variables of its caller")
            return None
        here = threading.current_thread()
        handed.threads.append(here)
        if form.blocks and here is self._looping:
            self._wrong.append("blocks the event loop")
        self._look(form, arguments, handed)
        if handed.raised is not None:
            raise handed.raised("it broke")
        return result_of(handed.asking.call, handed.answer)

    def _look(self, form: Form, arguments: dict[str, Any], handed: Handed) -> None:
        """Compare the arguments of a function with its parameters and with the program."""
        args = dict(handed.asking.args)
        if "context" in form.asks and "context" not in args and arguments.pop("context", None) != handed.context:
            self._wrong.append("was given the context of another attempt")
        if "idempotency_key" in form.asks:
            args["idempotency_key"] = handed.asking.key
        if arguments.keys() != args.keys() or to_json(freeze(arguments)) != to_json(freeze(args)):
            self._wrong.append(f"was given {sorted(arguments)} of its own, and the program says {sorted(args)}")


@coroutine
def _in_turn(awaitable: Awaitable[Any], handed: Handed, wrong: list[str]) -> Generator[Any, Any, Any]:
    """Await a function in a thread, blocking the loop until the thread has ended."""
    steps = awaitable.__await__()
    try:
        waits = next(steps)
    except StopIteration as stop:
        return stop.value
    until = time.monotonic() + PATIENCE_SECONDS
    while not handed.threads and not wrong and time.monotonic() < until:
        time.sleep(0)
    for thread in handed.threads:
        if thread is not threading.current_thread():
            thread.join(PATIENCE_SECONDS)
    for _ in range(ROUNDS):
        yield
    if not waits.done():
        wrong.append("has answered, and the machine never hears of it")
        return None
    return (yield from steps)


class ToolsAsFunctions(Attack):
    """The tools are functions of every kind, in a mapping, a module or an object, in threads or not. They have
    parameters for the key, the context or neither, and raise errors that end iterators, loops and processes.
    """

    family = Family.INJECTION
    surface = "tools that are functions"
    action = "functions of every kind, and the exceptions that they raise"
    invariant = Invariant.DATA
    defence = (
        "each attempt calls its function once, with its own arguments, and any exception from a thread is a "
        "failed attempt"
    )
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Run with functions, and check that the program follows their answers."""
        trial = Trial(case)
        adapted: list[Adapted] = []

        def around(points: Points) -> Adapted:
            adapted.append(Adapted(trial, points))
            return adapted[-1]

        points = Points()
        trial.finish(trial.machine(points, around=lambda _: around(points)))
        return Outcome.ABSORBED if adapted[0].called else Outcome.NOT_APPLICABLE
