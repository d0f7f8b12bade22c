"""Runs in processes that are really killed. This module runs as a warm process that forks one process for each run.

Jobs arrive as lines of JSON on the standard input; answers go to the standard output; the process ends with its input.
Every event of the world is written to a file before a tool continues. The processes share only this file and the store.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.choices import Recorded
from stepward.sabotage.playing.places import frame_of
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.sabotage.playing.world import AnsweredCall, Asking, Effect, World
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

PATIENCE_SECONDS: Final = 60
"""The time limit of a process, in seconds, after which the system ends it."""


class Settled(Recorded):
    """Recorded decisions, with the simplest value for a missing one."""

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name."""
        if name not in self.decisions:
            from hypothesis import find, settings

            self.decisions[name] = find(among, lambda _: True, settings=settings(database=None))
        return self.decisions[name]


class SharedWorld(World):
    """A world that several processes share through a file, with one line for each attempt and each payload."""

    def __init__(self, trial: Trial, path: Path) -> None:
        super().__init__(trial.case, trial.target, trial.name, trial.route, faults=True)
        self._oracle = trial.oracle
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        self._read = 0

    def meet(self, asking: Asking) -> CallAnswer:
        """Answer an attempt, and write it to the disk before returning."""
        # The lock keeps other processes out; it ends with its process.
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self.refresh()
            effects = len(self.effects)
            answer = super().meet(asking)
            call = asking.call
            place = [call.id, asking.visit, asking.attempt, asking.performance, asking.args, asking.key, asking.frame]
            self._write({"asked": place, "answer": answer.data(), "happened": len(self.effects) > effects})
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return answer

    def deliver(self, step: str, number: int, payload: Any) -> None:
        """Record a delivered payload."""
        self._write({"payload": [step, number, payload]})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._read += os.write(self._file, to_json(freeze(dict(line))).encode() + b"\n")
        os.fsync(self._file)

    def refresh(self) -> None:
        """Read the new lines of other processes."""
        new = os.pread(self._file, os.fstat(self._file).st_size, self._read)
        for text in new.splitlines():
            line = json.loads(text, parse_float=Decimal)
            if "payload" in line:
                step, number, payload = line["payload"]
                self._oracle.known(step, number, payload)
            else:
                self._take(line)
        self._read += len(new)

    def _take(self, line: Mapping[str, Any]) -> None:
        step, visit, attempt, performance, args, key, within = line["asked"]
        frame = frame_of({"frame": within})
        call = self.target.calls[step]
        answer = CallAnswer(line["answer"]["does"], line["answer"]["value"])
        self.attempts.append(AnsweredCall(Asking(call, visit, attempt, performance, args, key, frame=frame), answer))
        if line["happened"]:
            self._done.add(key)
            self.effects.append(Effect(step, call.tool, visit, performance, to_json(args), key, frame))


class Deadly(Points):
    """Points, at one of which the process kills itself."""

    async def pass_by(self, name: str) -> None:
        """Pass a point, or die there."""
        if len(self.passed) == self.target:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed.append(name)


def play(target: Target, job: Mapping[str, Any]) -> dict[str, Any]:
    """Do a job in this process and return its report."""
    folder = Path(job["folder"])
    with asyncio.Runner() as runner, closing(SQLiteJournal(folder / "runs.db")) as store:
        case = Case(target, Settled(job["made"]), store, "killed", runner)
        try:
            _DEEDS[job["deed"]](_trial(case, folder, job), job["kill"])
        except Breach as breach:
            return _report(case, breach)
        except Exception as error:
            return _report(case, Breach(Invariant.REFUSAL, f"{type(error).__name__} was raised: {error}"))
        return _report(case, None)


def _report(case: Case, breach: Breach | None) -> dict[str, Any]:
    broken = None if breach is None else [breach.invariant.name, breach.what]
    return {"events": case.events, "story": case.story, "breach": broken}


def _trial(case: Case, folder: Path, job: Mapping[str, Any]) -> Trial:
    """Return the trial in the state that earlier processes left."""
    trial = Trial(case)
    trial.clock.time += int(2 * LEASE_SECONDS * 1_000_000) * job["generation"]
    world = SharedWorld(trial, folder / "world")
    trial.enter(world)
    expect = trial.oracle.expect

    def expected(step: str, payload: Any) -> None:
        world.deliver(step, trial.oracle.due(step), payload)
        expect(step, payload)

    trial.oracle.expect = expected  # type: ignore[method-assign]
    world.refresh()
    if job["deed"] == "recover":
        trial.oracle.rest()  # another process writes at the same time; the last one judges both
    else:
        trial.oracle.forget()
    trial.oracle.look(durable=True)  # what another process wrote has survived that process
    return trial


def _begin(trial: Trial, kill: int | None) -> None:
    machine = trial.machine(Deadly(kill))
    trial.carry_on(trial.start(machine), machine)


def _recover(trial: Trial, kill: int | None) -> None:
    """Recover runs while another process does the same."""
    trial.case.do(trial.machine(Deadly(kill)).recover())


def _end(trial: Trial, kill: int | None) -> None:
    from stepward.sabotage.attacks.crashes import refuse_needless_doubts

    machine = trial.machine(Deadly(kill))
    run = trial.found() or trial.start(machine)
    row = trial.store.inner.row(trial.run)
    if row is not None:  # who died may have let time pass until the end of a wait, and leased the run then
        trial.clock.time = max(trial.clock.time, int(row.expires * 1e6) + 1)
    if run.status == "RUNNING":
        run = trial.deliver(run, machine)
    refuse_needless_doubts(trial)
    trial.oracle.judge(trial.carry_on(run, machine))


_DEEDS: Final[dict[str, Callable[[Trial, int | None], None]]] = {
    "begin": _begin,
    "recover": _recover,
    "end": _end,
}


# -- the warm process --------------------------------------------------------------------------------------------------


def forked(work: Callable[[], dict[str, Any]]) -> tuple[int, int]:
    """Start a process that does some work and writes the result. Return its id and the descriptor to read from."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        signal.alarm(PATIENCE_SECONDS)
        answer = json.dumps(work()).encode()
        while answer:
            answer = answer[os.write(writing, answer) :]
        status = 0
    finally:
        os._exit(status)


def result_of(process: tuple[int, int]) -> dict[str, Any]:
    """Wait for a process. Return its result with its exit status, or minus the signal that ended it."""
    pid, reading = process
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"status": status, **(json.loads(text) if text else {"events": 0, "story": [], "breach": None})}


def serve() -> None:
    """Answer jobs until the input ends. A job names the deed, the number of processes and the target."""
    import hypothesis.strategies  # noqa: F401 - every fork needs it

    targets: dict[str, Target] = {}
    # Garbage collection in a fork would copy the shared memory, and find nothing: a fork ends with its run.
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        job = json.loads(line, parse_float=Decimal)
        if "program" in job:
            targets = {job["target"]: _target(job)}
            continue
        work = partial(play, targets[job["target"]], job)
        processes = [forked(work) for _ in range(job["processes"])]
        print(json.dumps([result_of(process) for process in processes]), flush=True)


def _target(job: Mapping[str, Any]) -> Target:
    try:
        return Target.of(job["program"], job["policies"], job["routes"])
    except StepwardError as error:
        raise AssertionError("what was a target is one here") from error


if __name__ == "__main__":
    serve()
