"""Renders DOT text as pictures, with a `dot` on the path or the one that is installed with Stepward."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path as FilePath
from typing import Final

from stepward.validator.result import AdvisedError

TIME_LIMIT_SECONDS: Final = 120

_HELP: Final = "write `-o diagram.mmd`, which needs no program that draws, and please report it"


class DiagramError(AdvisedError):
    """A diagram can't be drawn."""


class NotDrawnError(DiagramError):
    """The program that draws can't draw this one diagram; it may draw others."""


def render(source: str, format: str) -> bytes:
    """Return the picture of DOT text as `svg` or `png`; raises DiagramError when there is no program to draw it.

    The error is NotDrawnError when there is one, and it fails.
    """
    command = [_program(), f"-T{format}"]
    try:
        done = subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=TIME_LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"the diagram was not drawn within {TIME_LIMIT_SECONDS} seconds"
        raise NotDrawnError(message, "write `-o diagram.dot`, and draw it with another layout") from None
    if done.returncode != 0 or not done.stdout:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotDrawnError(f"`{command[0]}` did not draw the diagram: {why[-1] if why else 'it says nothing'}", _HELP)
    return done.stdout


def _program() -> str:
    """Return the program that draws: `dot` on the path, else the one beside this interpreter."""
    beside = [FilePath(sys.executable).parent, FilePath(sysconfig.get_path("scripts"))]
    found = shutil.which("dot") or next(
        (path for folder in beside if (path := shutil.which("graphviz-pure", path=str(folder)))), None
    )
    found = found or shutil.which("graphviz-pure")
    if found is None:
        raise DiagramError("there is no `dot` to draw with", "install Graphviz, or `pip install graphviz-pure`")
    return found
