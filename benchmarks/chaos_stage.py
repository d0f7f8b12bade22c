"""Where the chaos scenarios are played: a store with a world around it, and machines that come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from chaos_world import GENERATION, Died, Rates, Score, World, machine, order_of, program

from stepward.vm import DeliveryRefused, ExecutionVM, MemoryJournal, NoSuchRun, Run, RunBusy, RunRefused
from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import Journal
from stepward.vm.machine.clock import ManualClock

Weaken = Callable[[Journal], Journal]
"""Takes a defence away from a store: for the test that the table can show a violation."""

MAX_TURNS: Final = 60
RUNS_OF_A_STORE: Final = 200
"""Runs after which a scenario gets a new store in memory, so that memory stays flat."""

REFUSALS: Final = (DeliveryRefused, RunBusy, RunRefused, NoSuchRun)


class Stage:
    """A store with a world around it, and machines that come and go."""

    def __init__(self, seed: str, score: Score, rates: Rates, weaken: Weaken, journal: Journal | None = None) -> None:
        self.score = score
        self.clock = ManualClock()
        self.world = World(seed, score, self.clock)
        self.world.rates = rates
        self.journal = weaken(MemoryJournal() if journal is None else journal)
        self.machine = machine(self.journal, self.world)
        self._orders = 0

    def reborn(self) -> ExecutionVM:
        """Return another machine, which comes when the lease of the last one has ended."""
        self.clock.time += GENERATION * 1_000_000
        self.world.is_dead = False
        self.machine = machine(self.journal, self.world)
        return self.machine

    def next_order(self) -> int:
        self._orders += 1
        return self._orders

    async def start(self, order: int) -> Run:
        """Start the run of an order, or go on with it."""
        return await self.machine.run(program(), inputs_of(order), run_id=f"run-{order}")

    async def until_asked(self) -> Run:
        """Return a new run that waits for its approval."""
        for _ in range(MAX_TURNS):
            run = await self.start(self.next_order())
            if run.suspensions:
                return run
            self.world.judge(run)
        raise AssertionError("no run comes to its question")

    async def finish(self, order: int) -> Run:
        """Go on with the run of an order until it has ended, whatever dies meanwhile, and judge it."""
        run: Run | None = None
        for _ in range(MAX_TURNS):
            try:
                run = await self._turn(order)
            except Died:
                self.reborn()
                continue
            except StepwardError as error:
                self.score.broken += 1
                self.score.complain(f"`run-{order}` can't go on: {type(error).__name__}: {error}")
                self.reborn()
                continue
            if run.is_over:
                break
        if run is None:
            raise AssertionError(f"`run-{order}` never began")
        self.world.judge(run)
        return run

    async def _turn(self, order: int) -> Run:
        vm, name = self.machine, f"run-{order}"
        try:
            run = await vm.get(name)
        except NoSuchRun:
            return await self.start(order)
        if run.suspensions:
            return await vm.resume(run.suspensions[0].token, self.answer(order))
        if run.doubts:
            return await self.reconciled(run)
        if not run.is_over:
            return (await self.reborn().recover(name))[0]
        return run

    def answer(self, order: int) -> dict[str, bool]:
        """Return what the manager says: yes, four times of five."""
        self.world.approved[order] = order % 5 != 0
        return {"approved": self.world.approved[order]}

    async def reconciled(self, run: Run) -> Run:
        """Say of the write in doubt what really became of it."""
        doubt = run.doubts[0]
        if doubt.key in self.world.happened.get((doubt.tool, order_of(run.id)), ()):
            return await self.machine.reconcile(run.id, doubt.step, "done", "R-1")
        return await self.machine.reconcile(run.id, doubt.step, "not_done")

    async def refused(self, what: str, attempt: Awaitable[Any]) -> None:
        """Make an attempt that has to be refused."""
        self.score.events += 1
        try:
            await attempt
        except REFUSALS:
            return
        except Exception as error:
            self.score.complain(f"{what}: {type(error).__name__}, not a refusal: {error}")
            return
        self.score.complain(f"{what} was accepted")


def inputs_of(order: int) -> dict[str, int]:
    return {"order": order, "amount": 1 + order % 1000}


def footprint(run: Run) -> tuple[Any, ...]:
    """Return what no refused delivery may change of a run."""
    return run.status, run.reason, run.step, run.steps, run.trace_hash


async def stages(count: int, seed: str, score: Score, rates: Rates, weaken: Weaken) -> Any:
    """Yield a stage as long as there are too few events, a new one every RUNS_OF_A_STORE runs."""
    number = 0
    while score.events < count:
        stage, began = Stage(f"{seed}/{number}", score, rates, weaken), score.runs
        while score.events < count and score.runs - began < RUNS_OF_A_STORE:
            yield stage
        number += 1
