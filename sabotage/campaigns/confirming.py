"""Whether a breach shows again when a fresh process plays its file: before that it is not reported as one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from stepward.sabotage.campaigns.script import Script

SHOWS: Final = 1
"""The exit status of a process in which the breach shows."""

MAX_SECONDS: Final = 120
"""Seconds of wall time that a breach may take to show."""


def is_repeated(script: Script, postgres: str | None = None) -> bool:
    """Return whether a fresh process that reads the script's file sees the breach."""
    with tempfile.TemporaryDirectory(prefix="stepward-") as folder:
        file = Path(folder, "breach.json")
        file.write_text(script.to_json(), encoding="utf-8")
        command = [sys.executable, "-P", "-m", __name__, str(file), *(() if postgres is None else (postgres,))]
        try:
            done = subprocess.run(command, capture_output=True, timeout=MAX_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == SHOWS and done.stdout.startswith(b"breached")


def main(file: str, postgres: str | None = None) -> int:
    """Play the script in a file, print what became of it, and return the exit status."""
    outcome, breach, _ = Script.load(file).replay(postgres)
    print(outcome)
    return SHOWS if breach is not None else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
