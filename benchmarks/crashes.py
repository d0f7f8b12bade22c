"""What a crash between an effect and the record of it does: `python crashes.py ENGINE FOLDER begin|resume`.

Three steps; the second is the effect: it appends a line to a file, and the first time its process is killed right
after, before anything can be written about it. Another process then does what its engine's documentation says to do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from machine_peers import DBOS, LANGGRAPH, DBOSRuns, LangGraphRuns

from stepward.vm import ExecutionVM, Program, RunBusy, SQLiteJournal

PLAIN, IDEMPOTENT = "Stepward, write", "Stepward, idempotent write"
ENGINES: Final = (PLAIN, IDEMPOTENT, LANGGRAPH, DBOS)
RUN: Final = "crash"
LEASE_SECONDS: Final = 0.5


class Outcome(NamedTuple):
    """What was found after the recovery: how often the effect was performed, under which keys, and how the run is."""

    performed: int
    keys: frozenset[str]
    status: str


def crash(engine: str, folder: Path) -> Outcome:
    """Kill an engine's process behind its effect, recover in another, and return what was found."""
    for phase, expected in (("begin", -signal.SIGKILL), ("resume", 0)):
        command = [sys.executable, __file__, engine, str(folder), phase]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == expected, f"{engine}, {phase}: status {done.returncode}\n{done.stdout}{done.stderr}"
        if phase == "begin":
            assert len(_lines(folder)) == 1
    assert (folder / "first").read_text() == "done\n", "the step before was performed again"
    return Outcome(len(_lines(folder)), frozenset(_lines(folder)), done.stdout.splitlines()[-1])


def _lines(folder: Path) -> list[str]:
    return (folder / "effects").read_text().splitlines()


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def _effect(folder: Path, key: str) -> None:
    _append(folder / "effects", key)
    if len(_lines(folder)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _ours(folder: Path, phase: str, idempotent: bool) -> str:
    def first() -> None:
        _append(folder / "first", "done")

    def effect(idempotency_key: str) -> None:
        _effect(folder, idempotency_key)

    data: dict[str, Any] = {
        "name": "crash",
        "inputs": {},
        "tools": {
            "first": {"effect": "write", "idempotent": True},
            "effect": {"effect": "write", "idempotent": idempotent},
            "last": {"effect": "none"},
        },
        "steps": [{"id": f"{name}_step", "type": "tool", "tool": name} for name in ("first", "effect", "last")],
    }
    tools = {"first": first, "effect": effect, "last": lambda: None}
    journal = SQLiteJournal(folder / "journal.db")
    machine = ExecutionVM(tools, journal=journal, checker=None, lease_seconds=LEASE_SECONDS)
    if phase == "begin":
        return machine.run_sync(Program.from_dict(data), run_id=RUN).status
    while True:
        try:
            return machine.recover_sync(RUN)[0].status
        except RunBusy:  # the lease of the process that was killed has not ended yet
            time.sleep(0.05)


def _peer(engine: str, folder: Path, phase: str) -> str:
    def step(number: int) -> None:
        if number == 0:
            _append(folder / "first", "done")
        elif number == 1:
            _effect(folder, "")

    kind = LangGraphRuns if engine == LANGGRAPH else DBOSRuns
    peer = kind(folder / "peer.db", 3, step)
    (peer.run if phase == "begin" else peer.resume)(RUN)
    assert peer.persisted(RUN) == 3
    peer.close()
    return "SUCCESS"


def main() -> None:
    engine, folder, phase = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if engine in (PLAIN, IDEMPOTENT):
        print(_ours(folder, phase, engine == IDEMPOTENT))
    else:
        print(_peer(engine, folder, phase))


if __name__ == "__main__":
    main()
