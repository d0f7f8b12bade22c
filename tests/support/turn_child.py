"""Sessions that are killed in their turns; a helper that is run as a script, no tests stand here.

    python tests/support/turn_child.py '{"folder": "/somewhere", "trials": 10, "seed": 1}'

A process takes turns of a session, and is killed with SIGKILL at a drawn point: before or after a call of the store, or
before or after the effect of a tool. Another process goes on with the session, may be killed itself, and a last one
takes the turns that are left. The judge knows what happened from a file to which tools append a line for each effect.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from crash_world import HOUR, forked, waited_for, why_failed
from stepward.validator.repl import state
from stepward.validator.repl.session import Session
from stepward.vm import ExecutionVM, Policy, Program, SQLiteJournal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.tools import FunctionTools

NUMBER: dict[str, Any] = {"args": {"n": {"type": "integer"}}, "returns": {"type": "integer"}}
POLICY: dict[str, Any] = {
    "policy": "effects",
    "tools": {
        "send": {"effect": "write", "idempotent": False, **NUMBER},
        "mark": {"effect": "write", "idempotent": True, **NUMBER},
    },
    "allow": ["send", "mark"],
    "guardrails": [{"name": "few", "never": {"tool": "send"}, "when": "$args.n > 3"}],
}
TURNS = (
    "(def a (tool/send {:n 1})) (defn plus [x] (+ x a))",
    '(def b 100) (def a 0) (tool/mark {:n 2}) (tool/send {:n 3}) (fail "no")',
    "(def b (plus (tool/mark {:n 2}))) (tool/send {:n 3})",
    "(doseq [n [4 5]] (tool/mark {:n n})) (return [a b])",
)
"""Turns of a session: the third is the retry of the second, which fails with two effects behind it."""
EFFECTS = ("mark 2", "mark 4", "mark 5", "send 1", "send 3")
RESULT = (10, 30)
MOST = 8
"""Processes after which a session that has not ended is stuck."""


class Points:
    """Counts the points of a process, and kills it at one of them; 0 for none."""

    def __init__(self, target: int) -> None:
        self.target, self.seen = target, 0

    def pass_one(self) -> None:
        self.seen += 1
        if self.seen == self.target:
            os.kill(os.getpid(), signal.SIGKILL)


class Journal(SQLiteJournal):
    """A store with a point before and after what it writes."""

    points: Points

    def create(self, *args: Any) -> Any:
        return self._between(super().create, *args)

    def append(self, *args: Any) -> Any:
        return self._between(super().append, *args)

    def acquire(self, *args: Any) -> Any:
        return self._between(super().acquire, *args)

    def _between(self, write: Any, *args: Any) -> Any:
        self.points.pass_one()
        found = write(*args)
        self.points.pass_one()
        return found


class Later(SystemClock):
    """A clock by which the leases of dead processes are over."""

    hours = 0

    def now(self) -> int:
        return super().now() + self.hours * HOUR


def tools(folder: Path, points: Points) -> dict[str, Any]:
    def done(tool: str, n: int, key: str) -> int:
        points.pass_one()
        with (folder / "effects").open("a") as file:
            file.write(f"{tool} {n} {key}\n")
        points.pass_one()
        return 10 * n

    def send(n: int, idempotency_key: str) -> int:
        return done("send", n, idempotency_key)

    def mark(n: int, idempotency_key: str) -> int:
        return done("mark", n, idempotency_key)

    return {"send": send, "mark": mark}


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


async def _open(document: Any, policies: Any, earlier: Any) -> Any:
    """Let every turn through: the proofs have tests of their own."""
    return None, Program.from_document(document)


def play(folder: Path, hours: int, target: int) -> None:
    """Go on with the session of a folder to its end, or until the process is killed."""
    points, clock = Points(target), Later()
    clock.hours = hours
    with closing(Journal(folder / "runs.db")) as journal:
        journal.points = points

        def machine(given: Any, policies: Any) -> ExecutionVM:
            return ExecutionVM(given, None, journal, policies, checker=None, clock=clock)

        session = Session(
            FunctionTools(tools(folder, points)),
            [Policy.from_dict(POLICY)],
            machine,
            journal,
            name="s",
            signature="[:int]",
            max_steps=200,
            gate=_open,
        )
        asyncio.run(_to_the_end(session, machine, folder))
    (folder / "points").write_text(str(points.seen))


async def _to_the_end(session: Session, machine: Any, folder: Path) -> None:
    await session.catch_up()
    while session.pending:
        answer = await session.settle()
        if answer is not None and answer.error is not None and answer.error.reason == "waits":
            person = machine(tools(folder, Points(0)), ())
            for doubt in (await person.get(answer.run)).doubts:
                done = [int(line.split()[1]) for line in effects(folder) if line.split()[2] == doubt.key]
                verdict = ("done", 10 * done[0]) if done else ("not_done", None)
                await person.reconcile(answer.run, doubt.step, *verdict)
    for text in TURNS[session.next_number - 1 :]:
        answer = await session.turn(text)
        is_meant = "(fail" in text
        assert (answer.error is not None) == is_meant, answer.error
    told = session.values
    (folder / "end").write_text(json.dumps([int(told["a"]), int(told["b"])]))


def judged(folder: Path) -> str:
    """Return what is wrong with the session of a folder, empty if nothing is."""
    lines = effects(folder)
    by_key = {line.split()[2]: " ".join(line.split()[:2]) for line in lines}
    doubled = [line for line, count in Counter(lines).items() if count > 1 and line.startswith("send")]
    if doubled or sorted(by_key.values()) != sorted(EFFECTS):
        return f"the effects are {lines}"
    if tuple(json.loads((folder / "end").read_text())) != RESULT:
        return f"the values are {(folder / 'end').read_text()}"
    with closing(SQLiteJournal(folder / "runs.db")) as journal:
        names = sorted(journal.names())
        if names != [f"s.{number}" for number in range(1, 1 + len(TURNS))]:
            return f"the runs are {names}"
        for name in names:
            faults = verify(journal, name, replay=replayer(journal, name)).faults
            if faults:
                return f"{name}: {faults[0].what}"
    return ""


def main(folder: Path, trials: int, seed: int, without: str = "") -> dict[str, Any]:
    """Try that many sessions; return the number of kills, and what was wrong. `without` is left out, for a canary."""
    gc.disable()
    if without == "memory":
        state.calls_in = lambda history, turn: []
    chance, kills, wrong = random.Random(seed), 0, []
    whole = folder / "whole"
    whole.mkdir()
    assert waited_for(forked(whole, play, whole, 0, 0)) == 0, why_failed(whole)
    points = int((whole / "points").read_text())
    wrong += [f"without a kill: {found}"] if (found := judged(whole)) else []
    for number in range(trials):
        place = folder / str(number)
        place.mkdir()
        # The first process is killed at each of the points in turn, those behind it at a few.
        targets = [1 + (number * points) // trials + chance.randrange(max(points // trials, 1))]
        targets += [chance.randrange(1, points) for _ in range(chance.randrange(3))]
        for hours in range(MOST):
            target = targets[hours] if hours < len(targets) else 0
            status = waited_for(forked(place, play, place, hours, target))
            kills += status == -signal.SIGKILL
            if status == 0:
                break
            if status != -signal.SIGKILL:
                wrong.append(f"trial {number}, {targets}: {why_failed(place)}")
                break
        else:
            wrong.append(f"trial {number}, {targets}: it does not end")
        if status == 0 and (found := judged(place)):
            wrong.append(f"trial {number}, {targets}: {found}")
    return {"points": points, "kills": kills, "wrong": wrong}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(main(Path(asked.pop("folder")), **asked)))
