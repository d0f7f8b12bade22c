"""What every check of a task needs: the folder of the newcomer, the start files, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

CACHES = (".ruff_cache", ".mypy_cache", ".pytest_cache", ".stepward_cache", "__pycache__")
"""Folders that `make lint` and the like may leave in a checkout: no part of a task."""


@dataclass(frozen=True)
class Done:
    """What a command did: its exit status, and what it wrote on standard output."""

    status: int
    output: str


Command = Callable[[Sequence[str], Path], Done]
"""Runs `stepward` with arguments in a folder."""


@dataclass(frozen=True)
class Trial:
    """One attempt at a task: `task` is its name, `folder` is what the newcomer has made."""

    task: str
    folder: Path
    stepward: Command

    @property
    def start(self) -> Path:
        """The folder with the start files of the task."""
        return HERE / self.task

    def errors(self, *arguments: str) -> Iterator[str]:
        """Yield what `stepward check` with these arguments reports as errors, without any settings of the folder."""
        done = self.stepward(["check", "--isolated", "--no-cache", "--output-format", "json", *arguments], self.folder)
        if done.status not in (0, 1):
            yield f"`stepward check {' '.join(arguments)}` ends with status {done.status}"
            return
        report: dict[str, Any] = json.loads(done.output)
        for finding in report["findings"]:
            if finding["severity"] == "error":
                yield f"`stepward check` reports {finding['code']}: {finding['message']}"


def installed(arguments: Sequence[str], folder: Path) -> Done:
    """Run the `stepward` that is installed beside this Python."""
    command = [str(Path(sys.executable).with_name("stepward")), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return Done(done.returncode, done.stdout)
