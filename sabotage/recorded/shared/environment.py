"""The environment of a scene: a clock, stores and machines that depend on a seed alone, and notes of the results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.machine import DrawnCase, Parted, raised
from stepward.sabotage.drawn.values import respelled
from stepward.sabotage.drawn.world import DrawnWorld, inputs_of
from stepward.sabotage.operations.stores import Files
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.playing.virtual_time import VirtualLoop
from stepward.sabotage.playing.world import TooLate, WorldClock
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.inline import inline
from stepward.sabotage.reference import Answer, Lost, Raised, Replied, Returned, TimedOut, Waits
from stepward.vm import ExecutionVM, InDoubt, ModelReply, Suspend, ToolContext
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Journal
from stepward.vm.language.policy import Policy
from stepward.vm.machine.history import Plans
from stepward.vm.machine.models import ANY_NAME, ModelRequest
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import cached_plans

T = TypeVar("T")

MODELS: Final = ("", "small", "large-2")
SHARE_OF_DEATHS: Final = 0.03
"""The share of the calls in which a process dies."""

SHARE_OF_OTHERS: Final = 0.08
"""The share of the calls during which others do something."""


class SceneProgram(NamedTuple):
    """A program of a scene, with its policies and its world."""

    case: DrawnCase
    plan: Plan
    world: DrawnWorld


class Environment(EveryTool):
    """The environment of one scene. `chance` decides everything, `notes` has the results.

    The methods that tools and models call answer as the world of the run's program. A process that has died does
    nothing any more.
    """

    names = ANY_NAME
    parameters: Mapping[str, Any] = {"model": "the stage"}

    def __init__(self, seed: str, stack: ExitStack, options: Mapping[str, Any], *, in_files: bool = False) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.notes = Notes()
        self.clock = WorldClock()
        self.new_store: Callable[[], Journal] = Files(stack) if in_files else MemoryJournal
        self._plans: dict[Journal, Plans] = {}
        self._programs: dict[tuple[int, ...], tuple[tuple[Policy, ...], dict[Any, Any]]] = {}
        """The plans of programs, under policies that are the same objects."""
        self.store = self.new_store()
        self.programs: list[SceneProgram] = []
        self.is_dead = False
        self.may_die = True
        """Whether a process may die in a call. The tasks of a worker are not to."""
        self.meanwhile: Callable[[str], Awaitable[None]] | None = None
        """What others do while a tool or a model of a run is asked."""
        self._options = options
        self._calls = 0
        self._run = ""
        self._runner = stack.enter_context(asyncio.Runner(loop_factory=VirtualLoop))  # no timer of this computer counts

    # -- programs ------------------------------------------------------------------------------------------------------

    def add(self, theme: str, name: str) -> SceneProgram | None:
        """Draw a program of a theme, and return it; None if none was drawn."""
        try:
            case = drawn_case(theme, f"{self.seed} {name}")
        except Parted:
            return None
        return None if case is None else self.add_case(case)

    def add_case(self, case: DrawnCase) -> SceneProgram:
        """Add a program with its policies and a world, and return it."""
        plan = Plan(case.program, case.policies)
        world = DrawnWorld(plan, case.seed, case.manner, case.secrets, case.limits.output_bytes)
        self.programs.append(SceneProgram(case, plan, world))
        return self.programs[-1]

    def inputs(self, chosen: SceneProgram) -> Mapping[str, Any]:
        """Return inputs of a program."""
        return inputs_of(chosen.plan, chosen.world) if chosen.case.inputs is None else chosen.case.inputs

    def machine(self, policies: Sequence[Policy], key: SigningKey | None = None, **more: Any) -> Process:
        """Return a machine in a process of its own, which nothing has killed yet."""
        self.is_dead = False
        random = Random(f"{self.seed} {self._calls} {self.clock.time}").randbytes
        options = {"clock": self.clock, "random": random, "key": key, "checker": None, **self._options, **more}
        process = Process(self, self, self.store, policies, **options)
        process._stored = self.plans()  # documents do not change, and to read them anew takes long
        _, process._plans = self._programs.setdefault(tuple(map(id, process.policies)), (process.policies, {}))
        return process

    def plans(self) -> Plans:
        """Return the plans of the documents of the present store, which are read once."""
        if self.store not in self._plans:
            self._plans[self.store] = cached_plans(self.store)
        return self._plans[self.store]

    def do(self, what: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Note what comes of a request to a machine; return its result, or None where it was refused."""
        self.notes.add(what)
        try:
            found = self.quiet(work)
        except Killed:
            self.notes.add("the process died")
        except Exception as error:
            self.notes.add_error(error)
        else:
            self.notes.add(found)
            return found
        return None

    def quiet(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a request that is not noted. Raises its errors."""
        return self._runner.run(inline(work))

    # -- the world -----------------------------------------------------------------------------------------------------

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Answer as the world of a program."""
        self.notes.add(f"call {name}", args, context)
        self._run = context.run
        answer = await self._answer(context.program, context.step, context.visit, context.attempt, context.frame)
        if isinstance(answer, Waits):
            return Suspend(answer.request)
        return respelled(answer.value, Random(f"{self.seed} {name}")) if isinstance(answer, Returned) else "well"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Reply as the world of a program."""
        self.notes.add("ask", *request)
        answer = await self._answer("", request.step, request.visit, request.attempt, request.frame)
        if not isinstance(answer, Replied):
            return ModelReply("well", 2, 1)
        name = Random(f"{self.seed} {request.step}").choice(MODELS)
        return ModelReply(answer.content, answer.tokens, answer.cost, name)

    async def _answer(self, program: str, step: str, visit: int, attempt: int, frame: Sequence[Any]) -> Answer:
        self._calls += 1
        worlds = [chosen.world for chosen in self.programs if step in chosen.world.calls]
        worlds = [world for world in worlds if world.plan.digest == program] or worlds
        if not worlds:
            return Returned("well")
        world, place = worlds[0], (step, visit, attempt, *frame)
        if self.may_die and world.chance("dies", *place).random() < SHARE_OF_DEATHS:
            self.is_dead = True
            raise Killed(step)
        if self.meanwhile is not None and world.chance("meanwhile", *place).random() < SHARE_OF_OTHERS:
            await self.meanwhile(self._run)
        answer = world.answer(*place)
        match answer:
            case Raised():
                raise raised(answer.names, f"{answer.why} {world.words(*place)}")
            case Lost():
                raise InDoubt(world.words(*place))
            case TimedOut():
                raise TooLate
            case _:
                return answer


class Process(ExecutionVM):
    """A machine that does nothing any more once its process has died."""

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        if isinstance(self.model, Environment) and self.model.is_dead:
            raise Killed("the process is dead")
        return await super()._io(function, *args)
