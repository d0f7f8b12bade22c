"""A random case, and its machines, whose tools and model answer as a random world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.fate import Manner, World
from stepward.sabotage.drawn.values import respelled
from stepward.sabotage.reference import Answer, Asked, Lost, Raised, Replied, Returned, TimedOut, Waits
from stepward.vm import ExecutionVM, InDoubt, ModelReply, Policy, Program, Suspend, ToolContext
from stepward.vm.journal.store import Journal
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Limits

SECRETS: Final = (  # texts and numbers that inputs and outputs have, sensitive now and then
    "refund",
    "e" * 12,
    "4711471147",
    "9422942294",
    "9422942294",
)
DAYS: Final = {"2026-01-01": 1_767_225_600_000_000, "2026-01-02": 1_767_312_000_000_000}
"""The days on which machines run programs, with the microsecond at which each begins."""

LATE: Final = 22 * 3_600_000_000
"""Microseconds after midnight: late in a day, but early enough for a whole run."""

USUAL: Final = Manner()


class DrawnCase(NamedTuple):
    """A program, its policies, and a world for it.

    `later` are policies of later machines that continue the run: new ones, or new versions of those with the same
    names. `secrets` are repeated by outputs, errors and requests; those of `unique` occur only in sensitive values.
    `inputs` are drawn unless they are given. `day` is one of DAYS.
    """

    program: Program
    seed: str
    policies: Sequence[Policy] = ()
    later: Sequence[Policy] = ()
    manner: Manner = USUAL
    limits: Limits = Limits()
    secrets: tuple[str, ...] = SECRETS
    unique: tuple[str, ...] = ()
    inputs: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    day: str = "2026-01-01"

    def held(self, later: int) -> list[Policy]:
        """Return the policies of a machine with a number of the later ones, which replace those of their names."""
        names = {policy.policy for policy in self.later[:later]}
        return [*(policy for policy in self.policies if policy.policy not in names), *self.later[:later]]

    def waived(self, policies: Sequence[Policy]) -> list[str]:
        """Return the rules that policies waive on the day of the case, as `policy:rule`."""
        return [
            f"{policy.policy}:{waiver.rule}"
            for policy in policies
            for waiver in policy.waivers
            if waiver.program == self.program.name and waiver.expiry >= self.day
        ]


class Parted(AssertionError):  # noqa: N818 - it says what they did
    """The machine and the reference differ; `about` names the subject."""

    def __init__(self, about: str, what: str) -> None:
        super().__init__(f"{about}: {what}")
        self.about = about


def equal(what: str, ours: Any, theirs: Any, more: str = "") -> None:
    """Raise Parted unless both values are equal."""
    if ours != theirs:
        raise Parted(what, f"{ours} to the machine, {theirs} to the reference {more}")


Processes = dict[int, ExecutionVM]
"""The machines that stay alive, by the number of their later policies."""


class Machine:
    """The machine's side: tools and a model that answer as the world, and record their calls."""

    def __init__(self, world: World, case: DrawnCase, journal: Journal, run: str, processes: Processes) -> None:
        self.world = world
        self.case = case
        self.run = run
        self.clock = ManualClock(DAYS[case.day] + world.chance("hour").choice((0, LATE)))
        self.journal = journal
        self._spelling = world.chance("spelling")
        self._processes = processes
        self._keeps = world.chance("processes").random() < 0.5
        self.asked: list[Asked] = []
        self.cost = Decimal(0)
        self._keys: dict[tuple[str, int, int], str] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def vm(self, later: int = 0) -> ExecutionVM:
        """Return a machine with a number of the later policies, often in a new process."""
        old = self._processes.get(later)
        vm = self._processes[later] = ExecutionVM(
            self,
            self,
            self.journal,
            self.case.held(later),
            checker=None,
            clock=self.clock,
            limits=self.case.limits,
            random=Random(f"{len(self.asked)} {self.clock.time}").randbytes,
            **self.case.options,
        )
        if old is not None and self._keeps:  # it is the old process, with its caches
            vm._plans, vm._stored, vm._known, vm._equipped = old._plans, old._stored, old._known, old._equipped
        return vm

    def respelled(self, value: Any) -> Any:
        """Return a value with a random spelling, which must not matter."""
        return respelled(value, self._spelling)

    def has(self, name: str) -> bool:
        """Return True: there is every tool."""
        del name
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Answer as the world."""
        step, visit, attempt, performance = context.step, context.visit, context.attempt, context.performance
        self.asked.append(Asked(step, visit, attempt, performance, name, args))
        self._note_key((step, visit, performance), context.idempotency_key)
        said = await self._said(step, visit, attempt)
        if isinstance(said, Waits):
            return Suspend({"for": self.world.words(step, visit, attempt)})
        return self.respelled(said.value) if isinstance(said, Returned) else None

    def _note_key(self, performance: tuple[str, int, int], key: str) -> None:
        equal("key", key, self._keys.setdefault(performance, key), str(performance))
        others = [one for one, held in self._keys.items() if held == key and one != performance]
        equal("performances under one key", others, [])

    async def complete(self, request: Any) -> ModelReply:
        """Answer as the world."""
        step, visit, attempt = request.step, request.visit, request.attempt
        self.asked.append(Asked(step, visit, attempt, 0, "", {}, request.prompt, request.system))
        call = self.world.calls[step].call
        allowed, returns = getattr(call, "allowed_outputs", None), getattr(call, "returns", None)
        equal("allowed", request.allowed, allowed)
        equal("schema", request.schema, None if returns is None else returns.to_data())
        said = await self._said(step, visit, attempt)
        if not isinstance(said, Replied):
            return ModelReply("late")
        cost = Decimal(self.world.cost(step, visit, attempt))
        self.cost += cost
        return ModelReply(self.respelled(said.content), said.tokens, cost)

    async def _said(self, step: str, visit: int, attempt: int) -> Answer:
        if self.world.cancels(step, len(self.asked)):
            await self.vm().cancel(self.run)
        said = self.world.answer(step, visit, attempt)
        if isinstance(said, Raised):
            raise ValueError(f"{said.why} {self.world.words(step, visit, attempt)}")
        if isinstance(said, Lost):
            raise InDoubt(self.world.words(step, visit, attempt))
        if isinstance(said, TimedOut):
            self.clock.time += 10_000_000  # microseconds: longer than any time-out, within one day
        return said

    def stored_plan(self, *names: Any) -> Plan:
        """Return the cached plan of the store, which is read once for each run."""
        if names not in self._plans:
            self._plans[names] = stored_plan(self.journal, *names)
        return self._plans[names]

    def history(self) -> History:
        """Return the history of the run from its journal."""
        found = load(self.journal, self.run, self.stored_plan)
        assert found is not None
        return found
