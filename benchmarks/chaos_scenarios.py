"""The scenarios of the chaos suite: each makes adversarial events on the real machine, and says what it found."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from chaos_stage import MAX_TURNS, REFUSALS, RUNS_OF_A_STORE, Stage, Weaken, footprint, inputs_of, stages
from chaos_world import GENERATION, Died, Rates, Score, World, machine, order_of, program, settled

from stepward.sabotage.stores.through import ThroughStore
from stepward.vm import Run, SQLiteJournal
from stepward.vm.journal.store import Journal
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import cached_plans, misfits
from stepward.vm.machine.runs import INLINE

# -- the scenarios -----------------------------------------------------------------------------------------------------


async def replays(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    stage = Stage(seed, score, Rates(noise=0.1, fails=0.1, doubt=0.1, late=0.1), weaken)
    runs = [await stage.finish(stage.next_order()) for _ in range(min(100, count))]
    effects = {key: list(keys) for key, keys in stage.world.happened.items()}
    plans = cached_plans(stage.journal)
    score.events = 0
    for number in range(count):
        run = runs[number % len(runs)]
        score.events += 1
        if number % 3:
            again = await stage.start(order_of(run.id))
            if (again.head, again.status) != (run.head, run.status):
                score.complain(f"`{run.id}`, asked for again, is another run")
            continue
        found = load(stage.journal, run.id, plans)
        assert found is not None
        faults, folded = misfits(found), Run(run.id, found.plan, found.state, found.last)
        if faults:
            score.complain(f"`{run.id}`, folded again: {faults[0].what}")
        elif (folded.snapshot(), folded.trace_hash, folded.head) != (run.snapshot(), run.trace_hash, run.head):
            score.complain(f"`{run.id}`, folded again, is in another state")
    if effects != stage.world.happened:
        score.doubled += 1
        score.complain("a replay had an effect")


class ThreadedStore(ThroughStore):
    """A store that is asked from threads, so that those who come at once do get in each other's way."""

    blocks = True


async def duplicates(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    async for stage in stages(count, seed, score, Rates(doubt=0.3), lambda store: ThreadedStore(weaken(store))):
        run = await stage.until_asked()
        order, token = order_of(run.id), run.suspensions[0].token
        answer = stage.answer(order)
        score.events += 3
        others = [machine(stage.journal, stage.world) for _ in range(2)]
        came = await settled(*(vm.resume(token, answer) for vm in (stage.machine, *others, stage.machine)))
        if sum(isinstance(one, Run) for one in came) != 1 or not all(isinstance(one, (Run, *REFUSALS)) for one in came):
            score.complain(f"a token delivered four times at once came to {came}")
        await stage.refused("a used token", stage.machine.resume(token, answer))
        run = await stage.machine.get(run.id)
        if run.doubts:
            score.events += 2
            came = await settled(*(stage.reconciled(run) for _ in range(3)))
            if sum(isinstance(one, Run) for one in came) != 1:
                score.complain(f"a doubt settled three times at once came to {came}")
        score.events += 1
        await stage.start(order)
        await stage.finish(order)


async def out_of_order(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    async for stage in stages(count, seed, score, Rates(), weaken):
        await _out_of_order(stage)


async def _out_of_order(stage: Stage) -> None:
    """Deliver to a run that has ended, one that waits and one in doubt what belongs to another, or to another time."""
    ended, waits, other = [await stage.until_asked() for _ in range(3)]
    used, later = ended.suspensions[0].token, other.suspensions[0].token
    over = await stage.finish(order_of(ended.id))
    stage.world.rates = Rates(doubt=1.0)
    stage.world.approved[order_of(other.id)] = True
    doubtful = await stage.machine.resume(later, {"approved": True})
    stage.world.rates = Rates()
    token, vm = waits.suspensions[0].token, stage.machine
    moves: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
        ("a token of an ended run", lambda: vm.resume(used, {"approved": True})),
        ("a token of the step before", lambda: vm.resume(later, {"approved": True})),
        ("a token with the end of another", lambda: vm.resume(token[:-16] + used[-16:], {"approved": True})),
        ("a token that nobody gave", lambda: vm.resume(token[:-2], {"approved": True})),
        ("a verdict on a step that is not in doubt", lambda: vm.reconcile(waits.id, "pay", "done", "R-9")),
        ("a verdict on a step that waits", lambda: vm.reconcile(waits.id, "ask", "done", {"approved": True})),
        ("a verdict on a step that comes later", lambda: vm.reconcile(doubtful.id, "mail", "done", "sent")),
        ("a verdict on an ended run", lambda: vm.reconcile(over.id, "pay", "not_done")),
        ("a verdict on no run", lambda: vm.reconcile("run-999999", "pay", "done", "R-9")),
        ("a run of the same id with other inputs", lambda: vm.run(program(), inputs_of(7777), run_id=waits.id)),
    ]
    before = [footprint(await vm.get(run.id)) for run in (over, waits, doubtful)]
    for _ in range(3):
        stage.world.chance.shuffle(moves)
        for what, move in moves:
            await stage.refused(what, move())
    if before != [footprint(await vm.get(run.id)) for run in (over, waits, doubtful)]:
        stage.score.complain("a delivery that was refused changed a run")
    for run in (waits, other):
        await stage.finish(order_of(run.id))


async def corrupted(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    async for stage in stages(count, seed, score, Rates(corrupt=0.3), weaken):
        run = await stage.until_asked()
        before = footprint(run)
        for _ in range(10):
            payload = stage.world.garbage()
            await stage.refused(f"payload {str(payload)[:60]}", stage.machine.resume(run.suspensions[0].token, payload))
        if footprint(await stage.machine.get(run.id)) != before:
            score.complain("a payload that was refused changed a run")
        await stage.finish(order_of(run.id))


def _plain(rates: Rates) -> Callable[[int, str, Score, Weaken], Awaitable[None]]:
    async def scenario(count: int, seed: str, score: Score, weaken: Weaken) -> None:
        async for stage in stages(count, seed, score, rates, weaken):
            await stage.finish(stage.next_order())

    return scenario


async def reentrancy(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    async for stage in stages(count, seed, score, Rates(), lambda store: ThreadedStore(weaken(store))):
        order = stage.next_order()
        others = [machine(stage.journal, stage.world) for _ in range(3)]

        async def meanwhile(context: Any, others: Any = others, stage: Stage = stage) -> None:
            """Start, recover and answer the run from within its own tool."""
            stage.world.meanwhile = None
            score.events += 3
            inputs = inputs_of(order_of(context.run))
            came = await settled(
                others[0].run(program(), inputs, run_id=context.run),
                others[1].recover(context.run),
                others[2].reconcile(context.run, "pay", "not_done"),
            )
            if any(not isinstance(one, (Run, list, *REFUSALS)) for one in came):
                score.complain(f"a run entered from within came to {came}")
            stage.world.meanwhile = meanwhile

        stage.world.meanwhile = meanwhile
        score.events += 3
        starts = (vm.run(program(), inputs_of(order), run_id=f"run-{order}") for vm in (stage.machine, *others))
        for one in await settled(*starts):
            if not isinstance(one, (Run, *REFUSALS)):
                score.complain(f"a run started four times at once came to {one!r}")
        await stage.finish(order)


async def everything(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    """All of it at once: `count` runs, not events."""
    rates = Rates(noise=0.3, fails=0.15, doubt=0.1, late=0.2, corrupt=0.1, dies=0.02)
    stage = Stage(seed, score, rates, weaken)
    for number in range(count):
        if number and number % RUNS_OF_A_STORE == 0:
            stage = Stage(f"{seed}/{number}", score, rates, weaken)
        await _attacked(stage, stage.next_order())


async def million(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    """All of it at once, until there are so many events."""
    rates = Rates(noise=0.4, fails=0.2, doubt=0.2, late=0.2, corrupt=0.2, dies=0.02)
    async for stage in stages(count, seed, score, rates, weaken):
        await _attacked(stage, stage.next_order())


async def _attacked(stage: Stage, order: int) -> None:
    """Play a run in which everything goes wrong, with forged and repeated deliveries wherever it stops."""
    score = stage.score
    try:
        run = await stage.start(order)
        if run.suspensions:
            token, answer = run.suspensions[0].token, stage.answer(order)
            for _ in range(4):
                await stage.refused("a payload", stage.machine.resume(token, stage.world.garbage()))
                await stage.refused("a forged token", stage.machine.resume(f"{token[:-8]}AAAAAAAA", answer))
                await stage.refused("a verdict too early", stage.machine.reconcile(run.id, "pay", "done", "R-9"))
            score.events += 1
            came = await settled(stage.machine.resume(token, answer), stage.machine.resume(token, answer))
            if any(isinstance(one, Died) for one in came):
                raise Died
            if sum(isinstance(one, Run) for one in came) > 1:
                score.complain("a token was taken twice")
            await stage.refused("a used token", stage.machine.resume(token, answer))
    except Died:
        stage.reborn()
    await stage.finish(order)


# -- processes that are killed -----------------------------------------------------------------------------------------


def crashes(count: int, seed: str, score: Score, weaken: Weaken) -> None:
    """Kill real processes at appends and around effects, on SQLite, and go on in others: `count` kills."""
    warm = Stage(seed, Score(), Rates(), weaken)
    asyncio.run(warm.finish(warm.next_order()))  # what every fork needs
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        order = 0
        while score.events < count:
            order += 1
            Killing(Path(folder), order, seed, weaken).play(score)


class Killing(NamedTuple):
    """One run in processes that are killed: where its store and its world are, and its order."""

    folder: Path
    order: int
    seed: str
    weaken: Weaken

    @property
    def _said(self) -> Path:
        """Where a process that can't go on says why."""
        return self.folder / f"said-{self.order}"

    def stage(self, generation: int, journal: Journal, score: Score) -> Stage:
        """Return the stage of a process; the first three are killed, unless they are quick."""
        seed = f"{self.seed}/{self.order}/{generation}"
        stage = Stage(seed, score, Rates(), self.weaken, journal)
        # A process moves its clock on whenever it takes over: the next one comes after all leases that it may leave.
        stage.clock.time += generation * 2 * MAX_TURNS * GENERATION * 1_000_000
        stage.world = World(seed, score, stage.clock, self.folder / f"world-{self.order}")
        stage.world.rates = Rates(dies=0.08 if generation < 3 else 0.0)
        stage.world.dies = lambda: os.kill(os.getpid(), signal.SIGKILL)
        stage.world.said[self.order] = "refund"  # another process may have heard it
        stage.answer(self.order)
        stage.machine = machine(stage.journal, stage.world)
        return stage

    def play(self, score: Score) -> None:
        """Play the run, and judge what the last process has left."""
        for generation in range(MAX_TURNS):
            code = self._forked(generation)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                score.broken += 1
                said = self._said.read_text() if self._said.exists() else f"status {code}"
                score.complain(f"process {generation} can't go on: {said}")
                return
            score.events += 1
        with closing(SQLiteJournal(self.folder / "runs.db")) as journal:
            stage = self.stage(MAX_TURNS, journal, score)
            stage.world.judge(asyncio.run(stage.machine.get(f"run-{self.order}")))
            found = load(journal, f"run-{self.order}", cached_plans(journal))
            if found is None or misfits(found):
                score.complain(f"the journal of `run-{self.order}` is not what a machine writes")

    def _forked(self, generation: int) -> int:
        """Go on with the run in another process, and return how that ended: its exit status, or minus a signal."""
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        status = 1
        try:
            status = asyncio.run(self._work(generation))
        finally:
            os._exit(status)

    async def _work(self, generation: int) -> int:
        score = Score()
        INLINE.set(True)  # as the forms without `async` have it: no threads for the store
        with closing(SQLiteJournal(self.folder / "runs.db")) as journal:
            await self.stage(generation, journal, score).finish(self.order)
        if score.complaints:
            self._said.write_text(score.complaints[0])
        return 3 if score.broken else 0


# -- the list ----------------------------------------------------------------------------------------------------------


class Scenario(NamedTuple):
    """A scenario: how much of it there is at full scale, in which unit, on which store, and what is asserted."""

    name: str
    count: int
    unit: str
    store: str
    play: Callable[[int, str, Score, Weaken], Awaitable[None] | None]
    asserts: str


SCENARIOS: Final = (
    Scenario(
        "replays",
        450_000,
        "replays",
        "memory",
        replays,
        "a run that is asked for again is the same; one that is folded again has the same state; no effect",
    ),
    Scenario(
        "duplicate attacks",
        50_000,
        "duplicates",
        "memory",
        duplicates,
        "of deliveries at once one is taken, all others are refused; one payment, one mail",
    ),
    Scenario(
        "mid-step crashes",
        2_000,
        "kill -9",
        "SQLite",
        crashes,
        "another process ends the run; what it says happened did, once; its journal is one that a machine writes",
    ),
    Scenario(
        "out-of-order events",
        50_000,
        "events",
        "memory",
        out_of_order,
        "every one is refused, and no run changes",
    ),
    Scenario(
        "corrupted payloads",
        50_000,
        "payloads",
        "memory",
        corrupted,
        "every one is refused, the run waits on, and a sound one ends it; corrupted outputs pass for none",
    ),
    Scenario(
        "tool failure cascades",
        50_000,
        "failures",
        "memory",
        _plain(Rates(fails=0.6, doubt=0.2)),
        "the run ends, and says of each effect what happened; none twice",
    ),
    Scenario(
        "66 % time-outs",
        50_000,
        "time-outs",
        "memory",
        _plain(Rates(late=0.66)),
        "the same, where half of what timed out had happened",
    ),
    Scenario(
        "re-entrancy",
        50_000,
        "entries",
        "memory",
        reentrancy,
        "four machines start one run, its tools start, recover and reconcile it: each effect happens once",
    ),
    Scenario(
        "noise of models",
        50_000,
        "replies",
        "memory",
        _plain(Rates(noise=0.9)),
        "nothing is paid unless the model's last reply was the very word",
    ),
    Scenario(
        "all at once",
        50_000,
        "runs",
        "memory",
        everything,
        "all of the above in one run, whose machine dies at any append and around any effect",
    ),
    Scenario(
        "a million adversarial events",
        1_000_000,
        "events",
        "memory",
        million,
        "the same, with more of each",
    ),
)


def play(scenario: Scenario, count: int, seed: str, weaken: Weaken = lambda journal: journal) -> Score:
    """Play so much of a scenario, and return what it found; `seconds` are of CPU, with those of killed processes."""
    score = Score()
    began = time.process_time() + sum(os.times()[2:4])
    try:
        playing = scenario.play(count, seed, score, weaken)
        if playing is not None:
            asyncio.run(playing)  # type: ignore[arg-type]
    except Exception as error:  # the machine has a defect, or the scenario: neither is a success
        score.broken += 1
        score.complain(f"{scenario.name} could not go on: {type(error).__name__}: {error}")
    score.seconds = time.process_time() + sum(os.times()[2:4]) - began
    return score
