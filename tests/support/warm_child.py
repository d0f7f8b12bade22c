"""The warm process: a helper that is run as a script, no tests stand here. `warm.py` starts it and asks it for forks.

    python tests/support/warm_child.py SOCKET

Each message on the socket is what a process needs to begin, in JSON, with its three standard streams. The answers are
the process id, and a second message when the process has become a child of the one that asked.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import warnings
from typing import Any

MOST_BYTES = 1 << 18
PLUGINS = frozenset({"anyio", "hypothesis", "xdist", "pytest_cov"})
JOB: dict[str, Any] = {}
"""What the new process is to do."""


def load(modules: list[str]) -> None:
    """Import what the process would import, once for all that follow."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if missing:
        # What is there now lives as long as the forks do: their collectors need not look at it, nor copy its pages.
        gc.collect()
        gc.freeze()


def fork(job: dict[str, Any], streams: list[int], channel: socket.socket) -> bool:
    """Return whether this is the new process. It is nobody's child here, so that it falls to the one that asked."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        channel.send(b"yours")
        return False
    new = os.fork()
    if new:
        channel.send(str(new).encode())
        os._exit(0)
    channel.close()
    begin(job, streams)
    JOB.update(job)
    return True


def begin(job: dict[str, Any], streams: list[int]) -> None:
    """Make of a fork what a new interpreter is."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if job["session"]:
        os.setsid()
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = os.environ.get("PYTHONWARNINGS", "").split(",")
    warnings._processoptions([one for one in asked if one])  # type: ignore[attr-defined]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end, as all three
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = job["arguments"]
    # A script finds what stands beside it; a module and a text, what stands where the process does.
    sys.path[0] = {"-m": job["folder"], "-c": ""}.get(job["how"], os.path.dirname(sys.argv[0]))
    gc.enable()


def next_job() -> None:
    """Fork for each message; return in the forks."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    while True:
        message, streams, _, _ = socket.recv_fds(channel, MOST_BYTES, 3)
        if not message:
            os._exit(0)
        job = json.loads(message)
        load(job["modules"])
        if fork(job, streams, channel):
            return
        for stream in streams:
            os.close(stream)


def forget(packages: frozenset[str]) -> None:
    """Let packages be imported again: pytest warns of plugins that it can't rewrite as they are imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def run() -> None:
    """Run what the interpreter would."""
    if JOB["how"] == "-m":
        forget(PLUGINS if sys.argv[0] == "pytest" else frozenset())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif JOB["how"] == "-c":
        text, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    next_job()
    run()
