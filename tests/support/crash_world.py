"""The world of a run that is killed: its tools, what happened in it, and the processes of a trial.

What happened is what the recorder says: a file that tools append one line to for each real effect. It shares nothing
with the machine.
"""

import asyncio
import gc
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from crash_programs import APPROVAL, program_of
from stepward.vm import (
    DeliveryRefused,
    ExecutionVM,
    NoSuchRun,
    Run,
    ScriptedModel,
    SQLiteJournal,
    Suspend,
    ToolError,
)
from stepward.vm.journal.store import Append, Entry, Journal, Lease
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.tools import FunctionTools, ToolContext

RUN = "crashing"
HOUR = 3_600_000_000
PATIENCE = 300
"""Seconds after which a process ends that still has not done its work: it is stuck."""

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
        if context.attempt == 1 and str(args.get("text", "")).startswith("busy at first"):
            raise ToolError("Busy", "try again")
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
                self.answer(vm, self.waited(vm, "reconcile", RUN, doubt.place, *said))
                run = self.waited(vm, "get", RUN)
            ended = {
                "status": run.status,
                "trace": run.trace_hash,
                "state": json.loads(run.snapshot()),
                "output": json.loads(json.dumps(run.output)),
            }
        (self.folder / "ended").write_text(json.dumps(ended))

    def rehearse(self) -> None:
        """Do all of it in this process, before it forks: what is built when it is first used, each fork has then."""
        self.mode = "inline"
        self.begin(lambda point: None)
        self.finish(0)

    def ended(self) -> dict[str, Any]:
        """Return how the run ended."""
        return json.loads((self.folder / "ended").read_text())  # type: ignore[no-any-return]


def forked(folder: Path, work: Callable[..., None], *args: Any) -> int:
    """Start a process that does some work, and return its id; what it raises is in the folder's `errors`."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    signal.alarm(PATIENCE)
    gc.disable()  # it ends before there is anything to collect
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
