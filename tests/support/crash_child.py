"""Runs that are killed for real; a helper that is run as a script, no tests stand here.

One warm interpreter forks a process for each kill point: the fork opens the journal, runs the program, and kills itself
with SIGKILL at that point. Two more forks recover the run at once, another drives it to its end. What happened in the
world is what the recorder says: a file that tools append one line to for each real effect. It shares nothing with the
machine, and `judge` holds the machine's word against it.

    python tests/support/crash_child.py '{"folder": "/somewhere", "program": "every"}'
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from paths import GOOD
from stepward.vm import DeliveryRefused, ExecutionVM, NoSuchRun, Program, Run, ScriptedModel, SQLiteJournal, Suspend
from stepward.vm.journal.store import Append, Entry, Journal, Lease
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.tools import FunctionTools, ToolContext

RUN = "crashing"
HOUR = 3_600_000_000
PATIENCE = 300
"""Seconds after which a process ends that still has not done its work: it is stuck."""

EVERY = """
name: every_kind_of_step
language: 1
inputs:
  amount: {type: integer}
tools:
  look: {effect: read, idempotent: true, args: {what: {type: string}}, returns: {type: integer}}
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}}
  ship: {effect: write, idempotent: false, args: {item: {type: integer}}, returns: {type: string}}
guardrails:
  - {name: one-payment, at_most_once: {tool: pay}}
  - {name: only-what-fits, protects: {tool: pay}, requires: {step: fits, branch: then}}
steps:
  - {id: begin, type: set, set: {n: 0}}
  - {id: stock, type: tool, tool: look, args: {what: stock}, output_key: left}
  - {id: think, type: llm, prompt: "Pay $amount?", allowed_outputs: ["yes", "no"], output_key: decision}
  - {id: fits, type: condition, condition: '$decision == "yes" and $amount <= $left', then: pay, otherwise: refuse}
  - {id: pay, type: tool, tool: pay, args: {amount: $amount}, output_key: paid, next_step: tell}
  - {id: tell, type: tool, tool: mail, args: {text: "paid: $paid.receipt"}, on_error: retry}
  - id: both
    type: parallel
    max_concurrency: 2
    parallel_steps:
      - {id: box, type: tool, tool: ship, args: {item: 100}}
      - {id: bag, type: tool, tool: ship, args: {item: 200}}
      - {id: note, type: tool, tool: mail, args: {text: both}}
    next_step: count
  - {id: count, type: set, set: {n: "$n + 1"}, next_step: each}
  - {id: each, type: tool, tool: ship, args: {item: $n}}
  - {id: more, type: condition, condition: "$n < 2", then: count, otherwise: done}
  - {id: refuse, type: tool, tool: mail, args: {text: refused}, outcome: failure}
  - {id: done, type: end, output: {receipt: $paid.receipt, items: $n}}
"""

APPROVAL = {"approved": True, "approver": "kim"}
REFUND = {"order_id": "ORD-000001", "request": "it broke", "amount": 700, "customer_email": "a@example.com"}


@cache
def program_of(name: str) -> tuple[Program, dict[str, Any]]:
    """Return a program of the tests, with inputs."""
    if name == "every":
        return Program.from_yaml(EVERY), {"amount": 40}
    return Program.load(GOOD / "customer_refund.yaml"), dict(REFUND)


# name: whether it writes, whether it is idempotent, what it returns
TOOLS: dict[str, tuple[bool, bool, Callable[..., Any]]] = {
    "look": (False, True, lambda what: 50),
    "pay": (True, False, lambda amount: {"receipt": f"paid-{amount}"}),
    "mail": (True, True, lambda text: f"sent {text}"),
    "ship": (True, False, lambda item: f"shipped {item}"),
    "get_order": (False, True, lambda order_id: {"total": 900, "days_since_delivery": 3}),
    "ask_manager": (False, True, lambda order_id, amount: Suspend({"amount": amount})),
    "issue_refund": (True, False, lambda order_id, amount: {"refund_id": f"R-{amount}"}),
    "send_email": (True, True, lambda to, template, reference: f"sent {template}"),
    "open_ticket": (True, True, lambda queue, subject: "T-1"),
}


class Effect(NamedTuple):
    """A line of the recorder: something that really happened."""

    tool: str
    args: str
    key: str
    output: Any

    @property
    def what(self) -> tuple[str, str]:
        """What happened, whatever the machine calls it."""
        return self.tool, self.args


class Recorder:
    """The world: an append-only file with one line for each effect, on the disk before the tool goes on."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "effects"

    def record(self, tool: str, args: Mapping[str, Any], key: str, output: Any) -> None:
        line = json.dumps([tool, json.dumps(args, sort_keys=True), key, output]) + "\n"
        file = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(file, line.encode())
        os.fsync(file)
        os.close(file)

    def effects(self) -> list[Effect]:
        if not self.path.exists():
            return []
        return [Effect(*json.loads(line)) for line in self.path.read_text().splitlines()]


class Ticker:
    """Counts the points that a process passes, and kills it at one of them; or sends it another signal."""

    def __init__(self, target: int = 0, path: Path | None = None, how: signal.Signals = signal.SIGKILL) -> None:
        self.target = target
        self.how = how
        self.count = 0
        self._lock = threading.Lock()
        self._file = None if path is None else os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def __call__(self, point: str) -> None:
        with self._lock:
            self.count += 1
            if self._file is not None:
                os.write(self._file, f"{point}\n".encode())
            if self.count == self.target:
                os.kill(os.getpid(), self.how)
                assert self.how != signal.SIGKILL, "nobody is here any more"


class TickingJournal:
    """A journal with a point before and after whatever it writes."""

    blocks = True

    def __init__(self, journal: Journal, tick: Callable[[str], None]) -> None:
        self.inner = journal
        self.tick = tick
        self.vault = TickingVault(journal.vault, tick)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextmanager
    def between(self, point: str) -> Iterator[None]:
        self.tick(f"before {point}")
        yield
        self.tick(f"after {point}")

    def create(self, append: Append, *args: Any) -> Lease | None:
        with self.between("append: started"):
            return self.inner.create(append, *args)

    def append(self, append: Append, fence: int | None) -> None:
        kinds = ",".join(json.loads(entry.record)["kind"] for entry in append.entries)
        with self.between(f"append: {kinds}"):
            self.inner.append(append, fence)

    def acquire(self, *args: Any) -> Lease | None:
        with self.between("acquire"):
            return self.inner.acquire(*args)

    def release(self, lease: Lease) -> None:
        with self.between("release"):
            self.inner.release(lease)

    def put_document(self, digest: str, text: bytes) -> None:
        with self.between("document"):
            self.inner.put_document(digest, text)


class Hasty(TickingJournal):
    """Says that an intent is written, and writes it with what comes next: a machine without intents before effects."""

    def __init__(self, journal: Journal, tick: Callable[[str], None]) -> None:
        super().__init__(journal, tick)
        self.held: list[Entry] = []

    def append(self, append: Append, fence: int | None) -> None:
        entries = [*self.held, *append.entries]
        if json.loads(entries[-1].record)["kind"] == "intent":
            self.held = entries
        else:
            expected = append.expected - len(self.held)
            self.held = []
            super().append(append._replace(entries=entries, expected=expected), fence)


class TickingVault:
    """A vault with a point before and after whatever it writes."""

    def __init__(self, vault: Any, tick: Callable[[str], None]) -> None:
        self.inner = vault
        self.tick = tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        self.tick("before secrets")
        self.inner.put(run, secrets)
        self.tick("after secrets")


class TickingTools:
    """Real functions as tools, with a point before the effect, after it, and after the function has returned."""

    def __init__(
        self, recorder: Recorder, tick: Callable[[str], None], slowness: float = 0.0, *, threads: bool = False
    ) -> None:
        self.recorder = recorder
        self.tick = tick
        self.slowness = slowness
        make = self._blocking if threads else self._waiting
        self.inner = FunctionTools({name: make(name) for name in TOOLS})

    def _perform(self, name: str, key: str, args: Mapping[str, Any]) -> Any:
        writes, _, answer = TOOLS[name]
        output = answer(**args)
        self.tick(f"before {name}")
        if writes:
            time.sleep(self.slowness * (1 + args.get("item", 0) // 100))  # siblings come back one after another
            self.recorder.record(name, args, key, output)
            self.tick(f"behind {name}")
        return output

    def _blocking(self, name: str) -> Callable[..., Any]:
        def tool(idempotency_key: str, **args: Any) -> Any:
            return self._perform(name, idempotency_key, args)

        return tool

    def _waiting(self, name: str) -> Callable[..., Any]:
        async def tool(idempotency_key: str, **args: Any) -> Any:
            return self._perform(name, idempotency_key, args)

        return tool

    def has(self, name: str) -> bool:
        return self.inner.has(name)

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        output = await self.inner.call(name, args, context)
        self.tick(f"after {name}")
        return output


class Later(SystemClock):
    """The time some hours from now, when every lease of today is over."""

    def __init__(self, hours: int = 0) -> None:
        self.hours = hours

    def now(self) -> int:
        return super().now() + self.hours * HOUR


class World:
    """One trial: a folder with a journal and the recorder's file, and what a process needs to go on with the run."""

    tools = TickingTools

    def __init__(
        self, folder: Path, name: str, mode: str = "inline", shelf: type[TickingJournal] = TickingJournal
    ) -> None:
        self.folder = folder
        self.program, self.inputs = program_of(name)
        self.mode = mode
        self.shelf = shelf
        self.has_manager = True
        self.lease_seconds = 60.0
        self.slowness = 0.0
        self.recorder = Recorder(folder)

    @contextmanager
    def machine(self, hours: int = 0, tick: Callable[[str], None] = lambda point: None) -> Iterator[ExecutionVM]:
        """Open the journal in this process, and lend a machine on it."""
        with closing(SQLiteJournal(self.folder / "runs.db")) as journal:
            tools = self.tools(self.recorder, tick, self.slowness, threads=self.mode == "threads")
            model = ScriptedModel({"think": "yes", "analyze": "yes"})
            yield ExecutionVM(
                tools,
                model,
                self.shelf(journal, tick),
                checker=None,
                clock=Later(hours),
                retry_delay=lambda attempt: 0.0,
                lease_seconds=self.lease_seconds,
            )

    def waited(self, vm: ExecutionVM, method: str, *args: Any, **more: Any) -> Any:
        """Call the machine as code without an event loop does, or as code with one."""
        if self.mode == "inline":
            return getattr(vm, f"{method}_sync")(*args, **more)
        return asyncio.run(getattr(vm, method)(*args, **more))

    def begin(self, tick: Callable[[str], None]) -> None:
        """Run the program, as its caller does."""
        with self.machine(0, tick) as vm:
            run = self.waited(vm, "run", self.program, self.inputs, run_id=RUN)
            self.answer(vm, run)

    def recover(self, hours: int, tick: Callable[[str], None]) -> None:
        """Go on with the run, if it was begun at all, until somebody has to look."""
        with self.machine(hours, tick) as vm:
            self.waited(vm, "recover")
            try:
                self.answer(vm, self.waited(vm, "get", RUN))
            except NoSuchRun:
                return

    def answer(self, vm: ExecutionVM, run: Run) -> None:
        """Be the manager who is asked."""
        for waiting in run.suspensions if self.has_manager else ():
            with suppress(DeliveryRefused):  # the other process may be first
                self.waited(vm, "resume", waiting.token, APPROVAL)

    def cancel(self, hours: int, tick: Callable[[str], None]) -> None:
        """Ask for the run to be cancelled."""
        with self.machine(hours, tick) as vm:
            self.waited(vm, "cancel", RUN)

    def erase(self, hours: int, tick: Callable[[str], None]) -> None:
        """Ask for the run's sensitive values to be destroyed."""
        with self.machine(hours, tick) as vm:
            self.waited(vm, "erase", RUN)

    def finish(self, hours: int, tick: Callable[[str], None] = lambda point: None) -> None:
        """Drive the run to its end, and settle its doubts by what the recorder says."""
        with self.machine(hours, tick) as vm:
            self.waited(vm, "recover")
            self.answer(vm, self.waited(vm, "run", self.program, self.inputs, run_id=RUN))
            run = self.waited(vm, "get", RUN)
            while run.doubts:
                doubt = run.doubts[0]
                found = [effect for effect in self.recorder.effects() if effect.key == doubt.key]
                said = ("done", found[0].output) if found else ("not_done",)
                self.answer(vm, self.waited(vm, "reconcile", RUN, doubt.step, *said))
                run = self.waited(vm, "get", RUN)
            ended = {
                "status": run.status,
                "trace": run.trace_hash,
                "state": json.loads(run.snapshot()),
                "output": json.loads(json.dumps(run.output)),
            }
        (self.folder / "ended").write_text(json.dumps(ended))

    def ended(self) -> dict[str, Any]:
        """Return how the run ended."""
        return json.loads((self.folder / "ended").read_text())  # type: ignore[no-any-return]


# -- processes ---------------------------------------------------------------------------------------------------------


def forked(folder: Path, work: Callable[..., None], *args: Any) -> int:
    """Start a process that does some work, and return its id; what it raises is in the folder's `errors`."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    signal.alarm(PATIENCE)
    try:
        work(*args)
        status = 0
    except BaseException:
        with (folder / "errors").open("a") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(status)


def waited_for(pid: int) -> int:
    """Return how a process ended: its exit status, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def why_failed(folder: Path) -> str:
    """Return what the processes of a folder raised; one that raised nothing was stuck."""
    path = folder / "errors"
    return path.read_text() if path.exists() else f"a process did not end in {PATIENCE} seconds: the run is stuck"


# -- the judge ---------------------------------------------------------------------------------------------------------


def records_of(journal: Journal) -> list[dict[str, Any]]:
    return [json.loads(entry.record) for entry in journal.read(RUN)]


def settled_keys(records: list[dict[str, Any]]) -> tuple[dict[str, str], set[str]]:
    """Return the keys of writes whose outcome is recorded, with that outcome, and of those in doubt."""
    begun: dict[str, str] = {}
    settled: dict[str, str] = {}
    doubted: set[str] = set()
    for record in records:
        step, kind = record["body"].get("step"), record["kind"]
        if kind == "intent" and TOOLS[record["body"]["tool"]][0]:
            begun[step] = record["note"]["key"]
        elif kind in ("attempt", "resumed", "reconciled", "doubt") and step in begun:
            outcome = record["body"].get("kind", "doubt")
            if kind == "reconciled":
                outcome = {"done": "success"}.get(record["note"]["verdict"], record["note"]["verdict"])
            (doubted.add if outcome == "doubt" else doubted.discard)(begun[step])
            if outcome != "doubt":
                settled[begun[step]] = outcome
    return settled, doubted


def verdicts_of(records: list[dict[str, Any]]) -> set[str]:
    """Return what people said of the run's doubts."""
    return {record["note"]["verdict"] for record in records if record["kind"] == "reconciled"}


def told(world: World) -> list[str]:
    """Return what a recovered run does not tell of: effects without outcome or doubt; and whether it is stuck."""
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        rows, records = journal.rows(), records_of(journal)
    faults = [f"the run is stuck: {row.status}" for row in rows if row.status in ("RUNNING", "SUSPENDED")]
    settled, doubted = settled_keys(records)
    for effect in world.recorder.effects():
        if effect.key not in settled and effect.key not in doubted:
            faults.append(f"lost: {effect.tool} {effect.args} happened, and is neither settled nor in doubt")
    if rows and (rows[0].status == "IN_DOUBT") != bool(doubted):
        faults.append(f"the run is {rows[0].status}, and {len(doubted)} writes are in doubt")
    return faults


def judge(world: World, reference: dict[str, Any], expected: list[Effect]) -> list[str]:
    """Return what is wrong with an ended run: against the recorder, the reference and its own journal."""
    effects = world.recorder.effects()
    faults = miscounted(effects, {effect.what for effect in expected})
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        records = records_of(journal)
        verdict = verify(journal, RUN, replay=replayer(journal, RUN))
    faults += [f"verify: {fault}" for fault in verdict.faults]
    settled, doubted = settled_keys(records)
    happened = {effect.key for effect in effects}
    faults += [
        f"lost: {key} is settled as {how}" for key, how in settled.items() if how == "success" and key not in happened
    ]
    if doubted:
        faults.append("a write is still in doubt at the end")
    ended = world.ended()
    return faults + differences(ended, reference, verdicts_of(records), world.program.name)


def miscounted(effects: list[Effect], once: set[tuple[str, str]]) -> list[str]:
    """Return what happened too often, or not at all."""
    faults = []
    keys: dict[tuple[str, str], set[str]] = {}
    for effect in effects:
        keys.setdefault(effect.what, set()).add(effect.key)
    for what, count in Counter(effect.what for effect in effects).items():
        if count > 1 and not TOOLS[what[0]][1]:
            faults.append(f"doubled: {what} happened {count} times")
        if len(keys[what]) > 1:
            faults.append(f"doubled: {what} under {len(keys[what])} keys")
    faults += [f"lost: {what} never happened" for what in once - keys.keys()]
    faults += [f"too much: {what} happened" for what in keys.keys() - once]
    return faults


def differences(ended: dict[str, Any], reference: dict[str, Any], verdicts: set[str], name: str) -> list[str]:
    """Return how the end differs from that of a run that was never killed."""
    faults = [
        f"{part} is {ended[part]!r}, not {reference[part]!r}"
        for part in ("status", "output")
        if ended[part] != reference[part]
    ]
    if name in ("customer_refund", "stubborn"):
        return faults  # what is sealed has another reference each time, and a further attempt is a step more
    here, there = ended["state"], reference["state"]
    if here["trace"] != ended["trace"]:
        faults.append("the run's trace hash is not that of its state")
    parts = set(here)
    if "not_done" in verdicts:
        parts -= {"steps"}  # a further attempt costs a step
    return faults + [f"state: {part} differs" for part in sorted(parts) if here[part] != there[part]]


# -- trials ------------------------------------------------------------------------------------------------------------


class Campaign:
    """All trials of one program: `spec` names it, and which share of its kill points is wanted."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.folder = Path(spec["folder"])
        self.name = spec["program"]
        self.mode = spec.get("mode", "inline")
        self.share, self.shares = spec.get("share", (0, 1))
        self.depth, self.deepest = spec.get("depth", (0, 0))
        self.only = spec.get("only", "")
        self.shelf = Hasty if spec.get("without") == "intents" else TickingJournal
        self.trials = 0
        self.killed = 0
        self.faults: list[str] = []
        world = self.world("reference")
        self.points = self.counted(world, world.begin)
        assert waited_for(forked(world.folder, world.finish, 1)) == 0, why_failed(world.folder)
        self.reference = world.ended()
        self.expected = world.recorder.effects()

    def world(self, name: str) -> World:
        folder = self.folder / name
        folder.mkdir(parents=True)
        return World(folder, self.name, self.mode, self.shelf)

    def counted(self, world: World, work: Callable[..., None], *args: Any) -> list[str]:
        """Do some work in a process that is not killed, and return the points that it passed."""
        path = world.folder / f"points-{work.__name__}"
        pid = forked(world.folder, lambda: work(*args, Ticker(0, path)))
        assert waited_for(pid) == 0, why_failed(world.folder)
        return path.read_text().splitlines()

    def run(self) -> None:
        for number in range(1, len(self.points) + 1):
            if number % self.shares == self.share and self.only in self.points[number - 1]:
                self.trial(number)

    def trial(self, number: int) -> None:
        """Kill the run at a point, and recover it by two processes at once; then again, and kill the recovery too."""
        where = f"{number} ({self.points[number - 1]})"
        world = self.world(f"{number}")
        self.kill(world, world.begin, number)
        self.race(world, 1)
        self.end(world, 2, where)
        # An effect without an outcome is where recovery has most to do.
        depth = self.deepest if "behind" in where else self.depth
        for again in range(1, depth + 1):
            world = self.world(f"{number}-{again}")
            self.kill(world, world.begin, number)
            if not self.kill(world, world.finish, 1, again):
                break
            self.race(world, 2)
            self.end(world, 3, f"{where}, in recovery at {again}")

    def kill(self, world: World, work: Callable[..., None], *args: int) -> bool:
        """Do some work in a process that is killed at a point, and return whether it came there."""
        *given, target = args
        status = waited_for(forked(world.folder, lambda: work(*given, Ticker(target))))
        if status not in (0, -signal.SIGKILL):
            self.faults.append(f"{world.folder.name}: {why_failed(world.folder)}")
        self.killed += status == -signal.SIGKILL
        return status == -signal.SIGKILL

    def race(self, world: World, hours: int) -> None:
        """Let two processes recover the run at once."""
        ready, start = os.pipe(), os.pipe()

        def racer() -> None:
            os.close(start[1])
            os.write(ready[1], b".")
            os.read(start[0], 1)  # returns when the parent closes its end
            world.recover(hours, lambda point: None)

        racers = [forked(world.folder, racer) for _ in range(2)]
        for _ in racers:
            os.read(ready[0], 1)
        os.close(start[1])
        statuses = [waited_for(pid) for pid in racers]
        for end in (*ready, start[0]):
            os.close(end)
        if any(statuses):
            self.faults.append(f"{world.folder.name}: {why_failed(world.folder)}")

    def end(self, world: World, hours: int, where: str) -> None:
        """Drive the run to its end, and judge it."""
        self.trials += 1
        faults = told(world)
        if waited_for(forked(world.folder, world.finish, hours)):
            faults.append(why_failed(world.folder))
        else:
            faults += judge(world, self.reference, self.expected)
        self.faults += [f"{where}: {fault}" for fault in faults]


def erased(world: World, in_doubt: list[str]) -> list[str]:
    """Return what is wrong with a run that was cancelled and erased."""
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        verdict = verify(journal, RUN, replay=replayer(journal, RUN))
        status, records = journal.rows()[0].status, records_of(journal)
    faults = [f"verify: {fault}" for fault in verdict.faults]
    if status != "CANCELLED":
        faults.append(f"the run is {status}, not cancelled")
    named = [record["body"].get("in_doubt", []) for record in records if record["kind"] == "ended"]
    if named != [in_doubt]:
        faults.append(f"in doubt are {named}, not {in_doubt}")
    secret = REFUND["customer_email"].encode()
    faults += [f"{path.name} holds a secret" for path in world.folder.glob("runs.db*") if secret in path.read_bytes()]
    return faults


class Endings(Campaign):
    """Kills whoever cancels or erases a run that waits, or that is in doubt."""

    def run(self) -> None:
        for work in ("cancel", "erase"):
            for start in ("suspended", "in doubt"):
                number = 1
                while self.ending(start, work, number):
                    number += 1

    def ending(self, start: str, work: str, number: int) -> bool:
        """Kill a process that cancels or erases at a point; return whether it came there."""
        where = f"{work} of a run that is {start}, killed at {number}"
        world = self.world(where.replace(" ", "-"))
        world.has_manager = start == "in doubt"
        self.kill(world, world.begin, self.points.index("behind issue_refund") + 1 if world.has_manager else 0)
        if world.has_manager:
            self.race(world, 1)
        happened = world.recorder.effects()
        is_killed = self.kill(world, getattr(world, work), 2, number)
        self.race(world, 3)
        with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
            status, asked = journal.rows()[0].status, [record["kind"] for record in records_of(journal)].count("cancel")
        faults = [f"asked to cancel {asked} times"] if asked > 1 else []
        if asked and status != "CANCELLED":
            faults.append(f"stuck: somebody asked to cancel, and the run is {status}")
        if waited_for(forked(world.folder, lambda: world.erase(4, lambda point: None))):
            faults.append((world.folder / "errors").read_text())
        faults += erased(world, ["refund"] if world.has_manager else [])
        if world.recorder.effects() != happened:
            faults.append("something happened while the run was ended")
        self.trials += 1
        self.faults += [f"{where}: {fault}" for fault in faults]
        return is_killed


def main() -> None:
    spec = json.loads(sys.argv[1])
    gc.freeze()  # what every fork shares is not to be copied by its collector
    campaign = (Endings if spec.get("endings") else Campaign)(spec)
    campaign.run()
    said = {"points": campaign.points, "trials": campaign.trials, "killed": campaign.killed, "faults": campaign.faults}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
