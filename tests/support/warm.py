"""Processes that begin as forks of a warm one, which has imported already what they need.

A command spends most of its time on imports: 0.6 seconds in all, 1.5 where it serves MCP. Within `warm_starts` each
`subprocess.Popen` of the command, or of Python with a script, a module (`-m`) or a text (`-c`), begins as a fork of a
process that has done nothing but import.
It has its own arguments, folder, environment and streams, is a child like any other, and can be killed like any other.
What needs a new interpreter gets one: a shell, a hash seed, limits, another encoding.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from paths import STEPWARD, SUPPORT

IS_POSSIBLE: Final = sys.platform == "linux"
SUBREAPER: Final = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: the children of a process below that ends fall to this one."""

BARE: Final = frozenset({"PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
"""The variables of the interpreter that a fork can obey, or that change nothing that it says."""

COMMON: Final = (
    "networkx", "rich.console", "rich.table", "yaml", "stepward.vm", "stepward.vm.journal.sqlite",
    "stepward.vm.machine.execution", "stepward.vm.reading.yaml_format", "stepward.validator.analysis.unknown_reasons",
    "stepward.validator.cli.check", "stepward.validator.cli.run", "stepward.validator.cli.runs",
    "stepward.validator.cli.worker", "stepward.validator.engine.dead", "stepward.validator.engine.guardrails",
    "stepward.validator.engine.reach", "stepward.validator.gate.checking", "stepward.validator.rechecking",
    "stepward.validator.report.full", "stepward.validator.report.text", "stepward.validator.rules.registry",
    "stepward.validator.validator",
)  # fmt: skip
SERVING: Final = (
    "mcp", "mcp.client.stdio", "mcp.client.streamable_http", "mcp.server", "mcp.server.stdio",
    "mcp.server.streamable_http_manager", "starlette.applications", "uvicorn", "stepward.validator.gateway.server",
    "stepward.vm.remote.servers",
)  # fmt: skip
TESTING: Final = ("pytest",)
AT_FIRST: Final = dict(os.environ)
NAMES: Final = re.compile(r"^(?:from|import) (mcp|uvicorn|starlette)\b", re.M)


@cache
def is_served(script: str) -> bool:
    """Return whether a script imports what servers need."""
    return NAMES.search(Path(script).read_text(encoding="utf-8")) is not None


class Warm:
    """The warm process of this one, which begins when it is first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.channel: socket.socket | None = None
        self.libc = ctypes.CDLL(None)

    def begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # No variable of the interpreter, and no folder of a test, is older than the process that is asked for.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
            COLD(
                [sys.executable, str(SUPPORT / "warm_child.py"), str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd="/",
                env=environment,
            )  # fmt: skip
        return ours

    def fork(self, job: dict[str, Any], streams: list[int]) -> int:
        """Return the id of a new process, a child of this one."""
        with self.lock:
            self.channel = self.channel or self.begin()
            self.libc.prctl(SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self.channel, [json.dumps(job).encode()], streams)
                pid = int(self.channel.recv(100))
                assert self.channel.recv(100) == b"yours"
            finally:
                self.libc.prctl(SUBREAPER, 0, 0, 0, 0)
        return pid


COLD: Final = subprocess.Popen
WARM: Final = Warm()


def job_of(args: Any, cwd: Any, env: Any) -> dict[str, Any] | None:
    """Return what a fork needs to begin; None where only a new interpreter will do."""
    environment = {
        os.fsdecode(name): os.fsdecode(value) for name, value in (os.environ if env is None else env).items()
    }
    if any(name.startswith("PYTHON") and name not in BARE for name in environment):
        return None
    arguments = [os.fsdecode(one) for one in ([args] if isinstance(args, (str, os.PathLike)) else args)]
    folder = os.getcwd() if cwd is None else os.fsdecode(cwd)
    way = way_of(arguments, folder, environment.get("PATH"))
    return way and {**way, "folder": folder, "environment": environment}


def way_of(arguments: list[str], folder: str, path: str | None) -> dict[str, Any] | None:
    """Return what a fork runs: its arguments, how it is run (`-m`, `-c`, or "" for a file), and what it imports."""
    if shutil.which(arguments[0], path=path) == str(STEPWARD):
        modules = COMMON + SERVING * ("mcp" in arguments[1:2])
        return {"how": "", "arguments": [str(STEPWARD), *arguments[1:]], "modules": modules}
    if arguments[0] != sys.executable or not arguments[1:]:
        return None
    if arguments[1] in ("-m", "-c"):
        modules = COMMON + TESTING * (arguments[1:3] == ["-m", "pytest"])
        return {"how": arguments[1], "arguments": arguments[2:], "modules": modules}
    if arguments[1].endswith(".py"):
        script = os.path.join(folder, arguments[1])
        return {"how": "", "arguments": [script, *arguments[2:]], "modules": COMMON + SERVING * is_served(script)}
    return None


class Popen(COLD):  # type: ignore[misc, valid-type]
    """A process that begins as a fork of the warm one, where it can."""

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, *more: Any
    ) -> None:
        cwd, env, _, _, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _, *who, session, group = more
        is_plain = not (executable or preexec_fn or pass_fds or shell) and who == [None, None, None, -1] and group == -1
        job = job_of(args, cwd, env) if is_plain else None
        if job is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, *more)
            return
        streams = [given if given != -1 else ours for ours, given in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = WARM.fork({**job, "session": bool(session)}, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def left_behind() -> list[str]:
    """Return the variables of the interpreter that have come or changed since the tests began: no fork obeys them."""
    return [
        name
        for name, value in os.environ.items()
        if name.startswith("PYTHON") and name not in BARE and AT_FIRST.get(name) != value
    ]


@contextmanager
def warm_starts() -> Iterator[None]:
    """Let the commands and scripts that are started begin as forks of the warm process, where the system can do it."""
    assert not left_behind(), f"an earlier test has left {left_behind()}, with which each process starts cold"
    with pytest.MonkeyPatch.context() as patch:
        if IS_POSSIBLE:
            patch.setattr(subprocess, "Popen", Popen)
        yield
