"""More than one at a run: callers of one id, drivers, deliveries, whoever cancels; in one process and in several."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from crash_programs import APPROVAL, program_of
from crash_world import RUN, TOOLS, Recorder, TickingTools
from machines import unchecked
from paths import SUPPORT
from sizes import size
from stepward.vm import (
    DeliveryRefused,
    ExecutionVM,
    MemoryJournal,
    Policy,
    Program,
    Run,
    RunBusy,
    RunRefused,
    ScriptedModel,
    SQLiteJournal,
    Suspend,
)
from stepward.vm.journal.records import write_record
from stepward.vm.journal.store import Append, Journal, JournalError, LeaseLost
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.runs import MAX_REFUSALS

CHILD = SUPPORT / "race_child.py"
REFUSED = ("refused", '{"what":"resume","why":"a test"}')
CANCEL = ("cancel", "{}")

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")


# -- several processes -------------------------------------------------------------------------------------------------


def races(folder: Path, scenario: str, **spec: Any) -> dict[str, Any]:
    command = [sys.executable, str(CHILD), json.dumps({"folder": str(folder), "scenario": scenario, **spec})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@forks
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("scenario", ["same_id", "one_token", "paused", "taken", "cancelled"])
def test_two_processes_at_one_run(tmp_path: Path, scenario: str) -> None:
    said = races(tmp_path, scenario)
    assert not said["faults"], "\n".join(said["faults"][:20])
    least = {"same_id": 5, "one_token": 5, "paused": size(13, 60), "taken": 4, "cancelled": size(13, 40)}
    assert said["trials"] >= least[scenario]


@forks
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_machine_without_a_fence_is_caught(tmp_path: Path) -> None:
    """The canary: whoever was paused between the intent and the effect comes back to life, and pays again."""
    said = races(tmp_path / "paused", "paused", without="fence", only="after append", sought=["doubled: ('pay'", 1])
    assert any("doubled: ('pay'" in fault for fault in said["faults"]), said["faults"]
    said = races(tmp_path / "taken", "taken", without="fence", sought=["came back to life", 1])
    assert any("came back to life" in fault for fault in said["faults"]), said["faults"]


# -- one process -------------------------------------------------------------------------------------------------------


class Bench:
    """A machine over some journal, with tools whose effects are recorded."""

    def __init__(self, folder: Path, journal: Journal, name: str = "every", *, threads: bool = False) -> None:
        self.journal = journal
        self.program, self.inputs = program_of(name)
        self.recorder = Recorder(folder)
        self.threads = threads

    def machine(self, *policies: Policy) -> ExecutionVM:
        tools = TickingTools(self.recorder, lambda point: None, threads=self.threads)
        return unchecked(tools, ScriptedModel({"think": "yes", "analyze": "yes"}), self.journal, policies)

    def done(self) -> Counter[tuple[str, str]]:
        return Counter(effect.what for effect in self.recorder.effects())

    def kinds(self) -> list[str]:
        return [json.loads(entry.record)["kind"] for entry in self.journal.read(RUN)]

    def check(self) -> None:
        """Hold what every trial has in common: the journal verifies, and nothing was doubled."""
        verdict = verify(self.journal, RUN, replay=replayer(self.journal, RUN))
        assert verdict.is_intact, verdict.faults
        assert set(self.done().values()) <= {1}, self.done()


@pytest.fixture(params=["memory", "sqlite", "threads"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "memory":
        yield Bench(tmp_path, MemoryJournal())
    else:
        with closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
            yield Bench(tmp_path, journal, threads=request.param == "threads")


def test_twenty_callers_of_one_id_in_one_process(bench: Bench) -> None:
    vms = [bench.machine(), bench.machine()]

    async def everybody() -> list[Run]:
        calls = [vm.run(bench.program, bench.inputs, run_id=RUN) for vm in vms for _ in range(10)]
        return await asyncio.gather(*calls)

    runs = asyncio.run(everybody())
    assert {run.id for run in runs} == {RUN}
    assert [run.status for run in runs].count("SUCCESS") >= 1
    bench.check()
    assert len(bench.done()) == 7
    again = vms[0].run_sync(bench.program, bench.inputs, run_id=RUN)
    assert again.status == "SUCCESS"
    assert bench.kinds().count("started") == 1
    assert len(bench.done()) == 7


def test_an_id_of_something_else_is_refused(bench: Bench) -> None:
    bench.machine().run_sync(bench.program, bench.inputs, run_id=RUN)
    before, done = bench.journal.read(RUN), bench.done()
    other = Program.from_dict(bench.program.to_data() | {"description": "another program"})
    policy = Policy.from_dict({"policy": "another", "applies_to": ["*"]})
    for vm, program, inputs, what in (
        (bench.machine(), other, bench.inputs, "another program"),
        (bench.machine(policy), bench.program, bench.inputs, "other policies"),
        (bench.machine(), bench.program, {"amount": 41}, "other inputs"),
    ):
        with pytest.raises(RunRefused, match=what):
            vm.run_sync(program, inputs, run_id=RUN)
    assert bench.journal.read(RUN) == before
    assert bench.done() == done


def test_twenty_callers_of_one_id_who_want_two_things(bench: Bench) -> None:
    """Whoever comes first has the id; each of the others gets that run or a refusal, never a mixture."""
    vm = bench.machine()

    async def one(amount: int) -> int | None:
        try:
            run = await vm.run(bench.program, {"amount": amount}, run_id=RUN)
        except RunRefused:
            return None
        return run.view("tool")["amount"]  # type: ignore[no-any-return]

    async def everybody() -> list[int | None]:
        return await asyncio.gather(*(one(40 + number % 2) for number in range(20)))

    got = asyncio.run(everybody())
    (winner,) = set(got) - {None}
    assert got == [winner if 40 + number % 2 == winner else None for number in range(20)]
    bench.check()
    assert len(bench.done()) == 7


@pytest.fixture(params=["memory", "sqlite"])
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A refund that waits for its manager."""
    with closing(MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "runs.db")) as journal:
        bench = Bench(tmp_path, journal, "refund")
        assert bench.machine().run_sync(bench.program, bench.inputs, run_id=RUN).status == "SUSPENDED"
        yield bench


def test_one_delivery_of_many_is_accepted(waiting: Bench) -> None:
    vms = [waiting.machine(), waiting.machine()]
    (held,) = vms[0].get_sync(RUN).suspensions

    async def one(vm: ExecutionVM) -> str:
        try:
            return (await vm.resume(held.token, APPROVAL)).status
        except DeliveryRefused:
            return "refused"

    async def everybody() -> list[str]:
        return await asyncio.gather(*(one(vm) for vm in vms for _ in range(10)))

    assert Counter(asyncio.run(everybody())) == {"SUCCESS": 1, "refused": 19}
    assert waiting.kinds().count("refused") == 19
    assert waiting.kinds().count("resumed") == 1
    waiting.check()
    assert len(waiting.done()) == 2


def test_refusals_in_a_journal_are_bounded(waiting: Bench) -> None:
    vm = waiting.machine()

    async def one() -> None:
        with pytest.raises(DeliveryRefused):
            await vm.resume(f"{RUN}.guessed", APPROVAL)

    async def everybody() -> None:
        for _ in range(MAX_REFUSALS // 5 + 5):
            await asyncio.gather(*(one() for _ in range(5)))

    asyncio.run(everybody())
    assert waiting.kinds().count("refused") == MAX_REFUSALS
    (held,) = vm.get_sync(RUN).suspensions
    assert vm.resume_sync(held.token, APPROVAL).status == "SUCCESS"
    waiting.check()


def test_two_verdicts_on_one_doubt(tmp_path: Path) -> None:
    """One is taken; the other one is refused, and can't have the write performed again."""
    bench = Bench(tmp_path, MemoryJournal())

    class Breaks(MemoryJournal):
        def append(self, append: Append, fence: int | None) -> None:
            if bench.done():
                raise JournalError("the disk failed")
            super().append(append, fence)

    bench.journal = Breaks()
    with pytest.raises(JournalError):
        bench.machine().run_sync(bench.program, bench.inputs, run_id=RUN)
    Breaks.append = MemoryJournal.append  # type: ignore[method-assign]
    vm = bench.machine()
    (run,) = vm.recover_sync()
    assert [doubt.step for doubt in run.doubts] == ["pay"]

    async def one(verdict: str) -> str:
        try:
            output = {"receipt": "paid-40"} if verdict == "done" else None
            return (await vm.reconcile(RUN, "pay", verdict, output)).status  # type: ignore[arg-type]
        except (DeliveryRefused, RunBusy) as error:
            return type(error).__name__

    async def both() -> list[str]:
        return await asyncio.gather(one("done"), one("not_done"), one("done"))

    got = asyncio.run(both())
    assert got[0] == "SUCCESS"
    assert set(got[1:]) <= {"DeliveryRefused", "RunBusy"}
    bench.check()


def test_a_damaged_run_does_not_keep_others_from_recovery(bench: Bench) -> None:
    """It is said, once the others have gone on; and its lease is not kept."""
    vm = bench.machine()
    names = ["first", "second", "third"]

    async def abandoned() -> None:
        for name in names:
            assert await vm._create(vm._plan(bench.program), name, bench.inputs) is not None

    asyncio.run(abandoned())
    last = bench.journal.read("first")[-1]
    forged = write_record(1, last.digest, "nonsense", "{}", "{}", 0)
    bench.journal.append(Append("first", 0, [forged], "RUNNING", 0.0, True), None)
    vm.clock.now = lambda: 4_000_000_000_000_000  # type: ignore[method-assign]
    with pytest.raises(JournalError, match="`nonsense`"):
        vm.recover_sync()
    assert [row.status for row in bench.journal.rows()] == ["RUNNING", "SUCCESS", "SUCCESS"]
    assert bench.journal.rows()[0].expires == 0.0


# -- records of others, between any two of the driver's ----------------------------------------------------------------


class Crowded:
    """A journal to which somebody else appends just before the driver does, at some of its appends."""

    def __init__(self, inner: Journal, plan: Callable[[int], list[tuple[str, str]]]) -> None:
        self.inner = inner
        self.plan = plan
        self.count = 0
        self.given: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, append: Append, fence: int | None) -> None:
        self.count += 1
        for kind, body in self.plan(self.count):
            self.intrude(append.run, kind, body)
        self.inner.append(append, fence)

    def intrude(self, run: str, kind: str, body: str) -> None:
        last = self.inner.read(run)[-1]
        (row,) = self.inner.rows()
        if json.loads(last.record)["kind"] == "ended":
            return
        entry = write_record(last.seq + 1, last.digest, kind, body, "{}", 1_800_000_000_000_000)
        self.inner.append(Append(run, last.seq, [entry], row.status, row.updated, True), None)
        self.given.append(entry.seq)


def crowded(folder: Path, store: str, name: str, plan: Callable[[int], list[tuple[str, str]]]) -> tuple[Bench, Run]:
    """Run a program while somebody else appends, and return what came of it."""
    folder.mkdir(parents=True)
    inner: Journal = MemoryJournal() if store == "memory" else SQLiteJournal(folder / "runs.db")
    bench = Bench(folder, Crowded(inner, plan), name, threads=store == "threads")  # type: ignore[arg-type]
    vm = bench.machine()

    async def all_of_it() -> Run:
        run = await vm.run(bench.program, bench.inputs, run_id=RUN)
        for held in run.suspensions:
            run = await vm.resume(held.token, APPROVAL)
        return run

    run = asyncio.run(all_of_it())
    bench.check()
    return bench, run


STORES = [
    ("memory", "every"),
    ("memory", "refund"),
    pytest.param("sqlite", "every", marks=pytest.mark.slow),
    pytest.param("sqlite", "refund", marks=pytest.mark.slow),
    pytest.param("threads", "every", marks=pytest.mark.slow),
]


def step(store: str) -> int:
    """Return how far the cases are apart that are tried: in memory each is tried."""
    return 1 if store == "memory" else size(3, 1)


@pytest.mark.parametrize(("store", "name"), STORES)
def test_a_driver_gives_way_to_refusals(tmp_path: Path, store: str, name: str) -> None:
    """At each of its appends, at four in a row, and at each first try: the run is as it would have been.

    On a disk by day at some of them.
    """
    bench, alone = crowded(tmp_path / "alone", store, name, lambda count: [])
    expected = json.loads(alone.snapshot())
    plans: list[Callable[[int], list[tuple[str, str]]]] = [lambda count: [REFUSED] if count % 2 else []]
    plans += [lambda count, at=at: [REFUSED] * 2 if count == at else [] for at in range(1, bench.journal.count + 1)]  # type: ignore[attr-defined, misc]
    plans += [
        lambda count, at=at: [REFUSED] if at <= count < at + 4 else []  # type: ignore[misc]
        for at in range(1, bench.journal.count + 1)  # type: ignore[attr-defined]
    ]
    for number, plan in islice(enumerate(plans), 0, None, step(store)):
        other, run = crowded(tmp_path / str(number), store, name, plan)
        given = len(other.journal.given)  # type: ignore[attr-defined]
        assert given or store == "threads", number  # there the number of appends varies
        assert other.kinds().count("refused") == given
        assert other.done() == bench.done()
        state = json.loads(run.snapshot())
        assert state["refusals"] == given
        if name == "every":  # elsewhere what is sealed has another reference each time
            assert state == expected | {"refusals": given}
            assert run.trace_hash == alone.trace_hash
        assert (run.status, run.output) == (alone.status, alone.output)


@pytest.mark.parametrize(("store", "name"), STORES)
def test_a_driver_gives_way_to_a_cancellation(tmp_path: Path, store: str, name: str) -> None:
    """The call that is under way is finished, and settled; nothing starts any more, and the run ends CANCELLED.

    On a disk by day at some of the appends.
    """
    bench, _ = crowded(tmp_path / "alone", store, name, lambda count: [])
    count = bench.journal.count  # type: ignore[attr-defined]
    for at in range(1, count + 1, step(store)):
        for number, foreign in enumerate(([CANCEL], [REFUSED, CANCEL, REFUSED], [CANCEL, CANCEL])):
            other, run = crowded(tmp_path / f"{at}-{number}", store, name, lambda now: foreign if now == at else [])  # noqa: B023
            if not other.journal.given:  # type: ignore[attr-defined]
                continue
            records = [json.loads(entry.record) for entry in other.journal.read(RUN)]
            since = next(seq for seq, record in enumerate(records) if record["kind"] == "cancel")
            late = [record["kind"] for record in records[since:]]
            assert run.is_over
            assert run.status == "CANCELLED" or records[-1]["body"]["ends"] == "SUCCESS"
            assert "intent" not in late, (at, late)
            assert "doubt" not in late
            settled = {record["body"]["step"] for record in records if record["kind"] == "attempt"}
            assert {record["body"]["step"] for record in records if record["kind"] == "intent"} <= settled
            assert other.done() <= bench.done()
            written = [record["note"]["key"] for record in records if record["kind"] == "intent"]
            happened = {effect.key for effect in other.recorder.effects()}
            writes = [record for record in records if record["kind"] == "intent" and TOOLS[record["body"]["tool"]][0]]
            assert happened == {record["note"]["key"] for record in writes}
            assert len(written) == len(set(written))


@pytest.mark.parametrize("kind", ["attempt", "intent", "ended", "assigned", "erased", "nonsense"])
def test_a_driver_does_not_give_way_to_another_driver(tmp_path: Path, kind: str) -> None:
    """A record that only a driver writes says that there is one: the first stops, and starts nothing more."""
    body = '{"step":"stock"}'
    other = Bench(tmp_path, MemoryJournal())
    journal = Crowded(MemoryJournal(), lambda count: [(kind, body)] if count == 1 else [])
    other.journal = journal  # type: ignore[assignment]
    vm = other.machine()
    with pytest.raises(JournalError, match="record") as caught:
        vm.run_sync(other.program, other.inputs, run_id=RUN)
    assert not isinstance(caught.value, LeaseLost)  # the run is read again, and its journal is no journal
    assert not other.done()
    assert len(other.journal.read(RUN)) == 2


class Interrupted(ExecutionVM):
    """A machine in whose way somebody comes, once, before it calls its store by the name of a method."""

    def interrupt(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        self.waiting = {name: work}

    async def _io(self, function: Any, *args: Any) -> Any:
        work = self.waiting.pop(function.__name__, None)
        if work is not None:
            await work()
        return await super()._io(function, *args)


ASKING = {
    "name": "asking",
    "inputs": {},
    "tools": {"ask": {"effect": "none", "suspends": True, "returns": {"type": "string", "sensitive": True}}},
    "steps": [{"id": "ask", "type": "tool", "tool": "ask"}],
}


def test_a_cancellation_after_the_last_append_is_heard_by_the_driver_that_still_has_the_lease() -> None:
    journal = MemoryJournal()
    other = unchecked({"ask": Suspend}, journal=journal)
    vm = Interrupted({"ask": Suspend}, journal=journal, checker=None)
    vm.interrupt("release", lambda: other.cancel("one"))
    assert asyncio.run(vm.run(Program.from_dict(ASKING), run_id="one")).status == "CANCELLED"
    assert other.get_sync("one").status == "CANCELLED"


def test_a_driver_that_was_fenced_brings_nothing_back_into_an_erased_vault() -> None:
    journal, clock = MemoryJournal(), ManualClock()
    tools = {"ask": lambda: "a secret"}
    other = unchecked(tools, journal=journal, clock=clock)
    vm = Interrupted(tools, journal=journal, clock=clock, checker=None)

    async def erase() -> None:
        clock.time += 3_600_000_000
        assert (await other.erase("one")).is_over

    vm.interrupt("put", erase)
    assert asyncio.run(vm.run(Program.from_dict(ASKING), run_id="one")).status == "CANCELLED"
    assert journal.vault.get("one") == {}


def test_a_cancellation_is_heard_between_reads_that_take_their_time() -> None:
    journal, clock = MemoryJournal(), ManualClock()
    steps = [{"id": f"s{number}", "type": "tool", "tool": "look"} for number in range(40)]
    program = Program.from_dict({"name": "reads", "inputs": {}, "tools": {"look": {"effect": "read"}}, "steps": steps})
    asked = []

    async def look() -> str:
        asked.append("look")
        clock.time += 5_000_000
        if len(asked) == 1:
            await unchecked({"look": look}, journal=journal, clock=clock).cancel("one")
        return "seen"

    run = asyncio.run(unchecked({"look": look}, journal=journal, clock=clock).run(program, run_id="one"))
    assert run.status == "CANCELLED"
    assert len(asked) <= 3
