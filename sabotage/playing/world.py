"""The environment of the machine: tools and a model whose answers the attack decides, with a count of effects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from stepward.sabotage.playing.answers import CallAnswer, answers
from stepward.sabotage.playing.case import Case, named
from stepward.sabotage.playing.places import Place
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.target import Route, Target
from stepward.vm.machine.clock import ManualClock, T
from stepward.vm.machine.keys import FrameName, shown
from stepward.vm.machine.models import ANY_NAME, ModelReply, ModelRequest
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, Tools
from stepward.vm.values import to_json

Inner = TypeVar("Inner", bound=Tools)

TOKENS_OF_A_REPLY: Final = 10
COST_OF_A_REPLY: Final = Decimal("0.01")
MAX_SLEEPS: Final = 10_000
"""The number of waits in one case after which the machine counts as waiting for ever."""

LATE_BY: Final = 1_000
"""The delay of a late answer after its time-out, in microseconds."""


class TooLate(Exception):  # noqa: N818 - it is what happened
    """An answer comes after its time-out."""


class WorldClock(ManualClock):
    """A clock without real waiting. An answer is late if and only if the world says so."""

    async def sleep(self, seconds: float) -> None:
        """Advance the time. Raises RuntimeError for a machine that waits for ever."""
        await super().sleep(seconds)
        if len(self.slept) > MAX_SLEEPS:
            raise RuntimeError("the machine waits without end")

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the awaited result. Raises TimeoutError if it is too late."""
        try:
            return await awaited
        except TooLate:
            self.time += int(seconds * 1_000_000) + LATE_BY
            raise TimeoutError from None


Decide = Callable[["Asking"], CallAnswer | None]
"""An answer of the attack in place of the world, or None to leave it to the world."""


class Asking(NamedTuple):
    """One attempt of a call, as the world sees it: `args` of a tool, `request` of a model. `frame` is where it is."""

    call: CallPlan
    visit: int
    attempt: int
    performance: int
    args: Mapping[str, Any]
    key: str = ""
    token: str = ""
    request: ModelRequest | None = None
    frame: FrameName = ()

    @property
    def place(self) -> Place:
        """The step, the visit and the frame of the attempt."""
        return self.call.id, self.visit, self.frame

    @property
    def visited(self) -> str:
        """The place in the names of decisions. The frame has its visits and rounds, since each of them is another."""
        text = f"{self.call.id}, visit {self.visit}"
        for step, visit, round_, item in reversed(self.frame):
            text += f", of {step}[{item}], visit {visit}, round {round_}"
        return text

    @property
    def name(self) -> str:
        """The name of the answer in a script."""
        return f"{self.visited}, attempt {self.attempt}"


class AnsweredCall(NamedTuple):
    """An attempt and its answer."""

    asking: Asking
    answer: CallAnswer


Performance = tuple[Place, int]
"""A place, and the number of the performance there."""


class Effect(NamedTuple):
    """An effect that really happened in the world."""

    step: str
    tool: str
    visit: int
    performance: int
    args: str
    key: str
    frame: FrameName = ()

    @property
    def done(self) -> Performance:
        """The performance that the effect belongs to."""
        return (self.step, self.visit, self.frame), self.performance


class Observer(Protocol):
    """Is notified of every attempt before the machine gets the answer. Both methods raise Breach."""

    def asked(self, asking: Asking) -> None:
        """Check an attempt before its answer."""

    def answered(self, asking: Asking, answer: CallAnswer) -> None:
        """Record the answer."""


class World:
    """Tools and a model for one run of `target`.

    Answers are decisions of the case, named after the `trial`, or those of the `route` that the run follows. `observer`
    is notified of every attempt.

    `attempts` lists all attempts, `effects` lists each effect once: an idempotent tool does nothing when it is called
    again under the same key. `settled` counts for each step in its frame how often its effect was found not to have
    happened, so that the step is tried again.
    """

    observer: Observer

    def __init__(self, case: Case, target: Target, trial: str, route: Route | None, *, faults: bool) -> None:
        self.case = case
        self.target = target
        self.faults = faults
        self._trial = trial
        self._route = route
        self.attempts: list[AnsweredCall] = []
        self.effects: list[Effect] = []
        self.decides: list[Decide] = []
        self.settled: Counter[str] = Counter()
        self._done: set[str] = set()

    def answer(self, asking: Asking) -> CallAnswer:
        """Return the answer to an attempt. Equal attempts get equal answers."""
        for decide in self.decides:
            answer = decide(asking)
            if answer is not None:
                return answer
        again = self.settled[shown(asking.frame, asking.call.id)]
        name = named(self._trial, f"{asking.name}, after {again} reconciliations" if again else asking.name)
        route = self._route and self._route.answer(asking.call.id, self._time(asking), asking.attempt)
        if route:
            answer = _routed(asking.call, route)
            self.case.choices.decisions.setdefault(name, answer.data())
        data = self.case.pick(name, answers(self.target, asking.call, faults=self.faults))
        return CallAnswer(data["does"], data["value"])

    def _time(self, asking: Asking) -> int:
        """Return the number of the visit as routes count it: in a body, over all its items."""
        if not asking.frame:
            return asking.visit
        before = (one.asking.place for one in self.attempts if one.asking.call.id == asking.call.id)
        return list(dict.fromkeys((*before, asking.place))).index(asking.place) + 1

    def meet(self, asking: Asking) -> CallAnswer:
        """Notify the observer of an attempt, answer it, and perform its effect.

        An error here kills the process; otherwise the machine would take it for an error of the tool.
        """
        try:
            self.observer.asked(asking)
            answer = self._honest(asking, self.answer(asking))
            self.observer.answered(asking, answer)
        except Exception as error:
            self.case.error = error
            raise Killed(str(error)) from error
        self.attempts.append(AnsweredCall(asking, answer))
        if answer.happens:
            self.perform(asking)
        return answer

    def _honest(self, asking: Asking, answer: CallAnswer) -> CallAnswer:
        """Return a truthful answer: a tool that performed the effect under this key can't say that it failed."""
        is_done = asking.call.keeps_key and asking.key in self._done
        return CallAnswer("unknown") if is_done and answer.kind == "fails" else answer

    def perform(self, asking: Asking) -> None:
        """Perform an effect, unless the tool has already done it under this key."""
        call = asking.call
        if not call.writes or (call.keeps_key and asking.key in self._done):
            return
        self._done.add(asking.key)
        args = to_json(asking.args)
        place = asking.visit, asking.performance
        self.effects.append(Effect(call.id, call.tool, *place, args, asking.key, asking.frame))


def _routed(call: CallPlan, answer: Mapping[str, Any]) -> CallAnswer:
    """Convert an answer of a witness to an answer of the world."""
    if answer["does"] == "returns":
        value = answer.get("value")
        return (
            CallAnswer("suspends", {"asks": call.id})
            if call.may_suspend and value is None
            else CallAnswer("returns", value)
        )
    kinds: dict[str, CallAnswer] = {
        "fails": CallAnswer("fails", "it broke"),
        "times out": CallAnswer("late") if call.timeout is not None else CallAnswer("fails", "it hung"),
        "in doubt": CallAnswer("unknown"),
        "misses its deadline": CallAnswer("suspends", {"asks": call.id}),
        "returns no value": CallAnswer("fails", "it returned no value"),
    }
    return kinds[answer["does"]]


class ProcessTools:
    """The tools of one process. Calls reach the world only while the process lives."""

    def __init__(self, world: World, points: Points) -> None:
        self._world = world
        self._points = points

    def has(self, name: str) -> bool:
        """Return whether the program declares a tool of that name."""
        return any(call.tool == name for call in self._world.target.calls.values())

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        asking, answer = await self.met(name, args, context)
        return result_of(asking.call, answer)

    async def met(self, name: str, args: Mapping[str, Any], context: ToolContext) -> tuple[Asking, CallAnswer]:
        """Call the world; return the attempt and its answer."""
        world = self._world
        call = world.target.calls[context.step]
        asking = Asking(
            call,
            context.visit,
            context.attempt,
            context.performance,
            args,
            context.idempotency_key,
            context.resume_token,
            frame=context.frame,
        )
        world.case.count()
        await self._points.pass_by(f"before {name} is asked by `{call.id}`")
        answer = world.meet(asking)
        await self._points.pass_by(f"after {name} was asked by `{call.id}`")
        return asking, answer


class AroundTools(ABC, Generic[Inner]):
    """The base of tools around other tools."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return self._inner.has(name)

    @abstractmethod
    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""


class ProcessModel:
    """The model of one process."""

    parameters: ClassVar = {"model": "that of the world"}
    names = ANY_NAME

    def __init__(self, world: World, points: Points) -> None:
        self._world = world
        self._points = points

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply, or raise the error that the world decided."""
        asking, answer = await self.met(request)
        return replied(asking, answer)

    async def met(self, request: ModelRequest) -> tuple[Asking, CallAnswer]:
        """Call the world; return the attempt and its answer."""
        world = self._world
        call = world.target.calls[request.step]
        asking = Asking(call, request.visit, request.attempt, 1, {}, request=request, frame=request.frame)
        world.case.count()
        await self._points.pass_by(f"before the model is asked by `{call.id}`")
        answer = world.meet(asking)
        await self._points.pass_by(f"after the model was asked by `{call.id}`")
        return asking, answer


def replied(asking: Asking, answer: CallAnswer) -> ModelReply:
    """Return the reply of a model, or raise its error."""
    return ModelReply(result_of(asking.call, answer), TOKENS_OF_A_REPLY, COST_OF_A_REPLY)


def result_of(call: CallPlan, answer: CallAnswer) -> Any:
    """Return the result of a call, or raise its error."""
    if answer.kind == "fails":
        raise RuntimeError(answer.value)
    if answer.kind in ("unknown", "unknown-done"):
        raise InDoubt("the connection was lost")
    if answer.kind == "suspends":
        return Suspend(answer.value)
    if answer.kind == "late":
        assert call.timeout is not None, "only what has a time-out is late"
        raise TooLate
    return answer.value
