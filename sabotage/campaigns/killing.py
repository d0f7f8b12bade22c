"""The client of the warm process (`killed.py`), which forks processes that are really killed."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.values import freeze, to_json

PATIENCE_SECONDS: Final = 150
"""The time limit of an answer, in seconds: longer than the time limit of the processes."""


class Died(NamedTuple):
    """The end of a process: exit status or minus the signal, number of events, story and breach."""

    status: int
    events: int
    story: Sequence[str]
    breach: Sequence[str] | None

    def hold(self) -> None:
        """Raise the breach of the process, or the error that ended it."""
        if self.breach is not None:
            raise Breach(Invariant[self.breach[0]], self.breach[1])
        if self.status:
            raise Breach(Invariant.KEPT, f"a process that nobody killed ended with {self.status}")


def command() -> list[str]:
    """Return the command that starts the warm process."""
    return [sys.executable, "-m", "stepward.sabotage.campaigns.killed"]


class Forks:
    """The warm process, started on first use. It ends with this object or with this process."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._sent: Target | None = None

    def play(self, target: Target, folder: Path, decisions: Mapping[str, Any], deed: str, **more: Any) -> list[Died]:
        """Let processes do a deed on the store in a folder with the given decisions, and wait for them.

        `more` may give the point at which to `kill` them, the number of `processes`, and their `generation`: each
        generation begins after all leases of the previous one have expired.
        """
        job = {"folder": str(folder), "made": dict(decisions), "deed": deed, "target": target.plan.digest}
        job |= {"kill": None, "processes": 1, "generation": 0} | more
        server = self._started()
        if self._sent is not target:
            self._write(server, {"target": target.plan.digest, **target.to_data()})
            self._sent = target
        self._write(server, job)
        return [Died(**fields) for fields in json.loads(_line(server), parse_float=Decimal)]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            self._server = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            weakref.finalize(self, _stop, self._server)
        return self._server

    def _write(self, server: subprocess.Popen[bytes], job: Mapping[str, Any]) -> None:
        assert server.stdin is not None, "it was started with one"
        server.stdin.write(to_json(freeze(dict(job))).encode() + b"\n")
        server.stdin.flush()


def _line(server: subprocess.Popen[bytes]) -> bytes:
    """Return the next line of the answer. Raises StepwardError if none arrives in time."""
    assert server.stdout is not None, "it was started with one"
    text = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(server.stdout, selectors.EVENT_READ)
        while not text.endswith(b"\n"):
            part = os.read(server.stdout.fileno(), 65536) if waiting.select(PATIENCE_SECONDS) else b""
            if not part:
                raise StepwardError("the process that forks others does not answer")
            text += part
    return text


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the warm process by closing its input, or kill it."""
    assert server.stdin is not None, "it was started with one"
    assert server.stdout is not None, "it was started with one"
    server.stdin.close()
    server.stdout.close()
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
