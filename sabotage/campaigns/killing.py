"""Processes to be killed for real: this end talks to a warm process of our own that forks them."""

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
"""How long an answer may take: longer than the processes that it tells of may live."""


class Died(NamedTuple):
    """How a process ended: its exit status, or minus the signal; events that it made, and what it told."""

    status: int
    events: int
    story: Sequence[str]
    breach: Sequence[str] | None

    def hold(self) -> None:
        """Raise the breach that the process met with, or what it died of."""
        if self.breach is not None:
            raise Breach(Invariant[self.breach[0]], self.breach[1])
        if self.status:
            raise Breach(Invariant.KEPT, f"a process that nobody killed ended with {self.status}")


def command() -> list[str]:
    """Return what starts the warm process."""
    return [sys.executable, "-m", "stepward.sabotage.campaigns.killed"]


class Forks:
    """The warm process, started when it is asked for the first time. It ends with this object, or with this process."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._told: Target | None = None

    def play(self, target: Target, folder: Path, made: Mapping[str, Any], deed: str, **more: Any) -> list[Died]:
        """Have processes do something on the store in a folder, with the decisions that were made, and wait for them.

        `more` may say at which point to `kill` them, how many `processes` there are, and which `generation` they are:
        each begins when every lease of the one before is over.
        """
        job = {"folder": str(folder), "made": dict(made), "deed": deed, "target": target.plan.digest}
        job |= {"kill": None, "processes": 1, "generation": 0} | more
        server = self._started()
        if self._told is not target:
            self._write(server, {"target": target.plan.digest, **_plain(target)})
            self._told = target
        self._write(server, job)
        return [Died(**said) for said in json.loads(_line(server), parse_float=Decimal)]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            self._server = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            weakref.finalize(self, _stop, self._server)
        return self._server

    def _write(self, server: subprocess.Popen[bytes], job: Mapping[str, Any]) -> None:
        assert server.stdin is not None, "it was started with one"
        server.stdin.write(to_json(freeze(dict(job))).encode() + b"\n")
        server.stdin.flush()


def _plain(target: Target) -> dict[str, Any]:
    return {
        "program": target.program.to_dict(),
        "policies": [policy.model_copy(update={"applies_to": None}).to_data() for policy in target.policies],
        "routes": [[route.inputs, list(route.script)] for route in target.routes],
    }


def _line(server: subprocess.Popen[bytes]) -> bytes:
    """Return the next line of the answer; raises StepwardError when there is none in time."""
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
    """End the warm process: it ends with its input, and is killed if it does not."""
    assert server.stdin is not None, "it was started with one"
    assert server.stdout is not None, "it was started with one"
    server.stdin.close()
    server.stdout.close()
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
