"""The client of the process with the real tools, which starts, asks and ends it."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from stepward.sabotage.real.isolation import IsolationError, require_platform
from stepward.vm.values import freeze, to_json

CASE_SECONDS: Final = 20.0
"""The time limit of a case in seconds, including imports."""

START_SECONDS: Final = 60.0


class ToolsRefused(Exception):  # noqa: N818 - it says what is the matter with the user's module
    """The module of tools or the probe can't be used."""


class CaseFailed(Exception):  # noqa: N818 - it is an answer
    """A case did not finish: it took too long, or its process ended."""


class Sandbox:
    """A process without network that calls the functions of a module. Use it in a `with`.

    `tools` is a module or the absolute path of a .py file, `probe` is `MODULE:function`. Raises IsolationError if the
    kernel refuses a network namespace; then no tool is imported.
    """

    def __init__(self, tools: str, probe: str | None = None, *, seconds: float = CASE_SECONDS) -> None:
        require_platform()
        self.tools = tools
        self.probe = probe
        self.seconds = seconds
        self.cases = 0
        self._folder = tempfile.mkdtemp(prefix="stepward-tools-")
        try:
            self._process = self._started()
            answer = self._line(START_SECONDS)
            if answer is None or answer.get("refused") is not None:
                raise IsolationError("it did not start" if answer is None else answer["refused"])
        except BaseException:
            self.close()
            raise

    def _started(self) -> subprocess.Popen[bytes]:
        folder = os.path.join(self._folder, "work")
        os.mkdir(folder)
        temporary = os.path.join(folder, "tmp")
        environment = {
            **os.environ,
            **dict.fromkeys(("TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), temporary),
            "HOME": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        # `-P`: modules of the current folder are imported only after the network is gone.
        command = [sys.executable, "-P", "-m", "stepward.sabotage.real.child", folder, os.getcwd()]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def play(self, deeds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Do deeds in a fresh process, one after the other, and return the answer of each.

        Raises CaseFailed if they did not finish, and ToolsRefused if the module or the probe can't be used.
        """
        job = {"tools": self.tools, "probe": self.probe, "seconds": self.seconds, "deeds": list(deeds)}
        self.cases += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(to_json(freeze(job)).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise CaseFailed("the process of the tools has ended") from None
        answer = self._line(self.seconds + START_SECONDS)
        if answer is None:
            raise CaseFailed("the process of the tools has ended, or does not answer")
        if answer["fault"] is not None:
            raise (ToolsRefused if answer.get("is_theirs") else CaseFailed)(answer["fault"])
        answers: list[dict[str, Any]] = answer["answers"]
        return answers

    def _line(self, seconds: float) -> dict[str, Any] | None:
        """Return the next line of the process, or None if it has ended or is silent for that many seconds."""
        assert self._process.stdout is not None
        reading, until, text = self._process.stdout.fileno(), time.monotonic() + seconds, b""
        while not text.endswith(b"\n"):
            if not select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            part = os.read(reading, 1 << 16)
            if not part:
                return None
            text += part
        answer: dict[str, Any] = json.loads(text)
        return answer

    def close(self) -> None:
        """End the process with all its children, and remove its folder."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()  # its children end with it
            process.wait()
            for pipe in (process.stdin, process.stdout):
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def located(name: str) -> str:
    """Return a name of a module of tools that is valid in every folder: an absolute path or the module's name.

    Raises ToolsRefused for a missing file.
    """
    if not name.endswith(".py") and os.sep not in name:
        return name
    file = Path(name).absolute()
    if not file.is_file():
        raise ToolsRefused(f"`{name}` is no file")
    return str(file)
