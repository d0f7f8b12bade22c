"""Confirms a breach by replaying its script in a fresh process. Only confirmed breaches are reported as such."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from stepward.sabotage.campaigns.script import Script

SHOWS: Final = 1
"""The exit status of a process that reproduces the breach."""

MAX_SECONDS: Final = 120
"""The time limit of a replay, in seconds of wall time."""


def is_repeated(script: Script, postgres: str | None = None) -> bool:
    """Return whether a fresh process that replays the script's file reproduces the breach."""
    with tempfile.TemporaryDirectory(prefix="stepward-") as folder:
        file = Path(folder, "breach.json")
        file.write_text(script.to_json(), encoding="utf-8")
        command = [sys.executable, "-P", "-m", __name__, str(file), *(() if postgres is None else (postgres,))]
        try:
            process = subprocess.run(command, capture_output=True, timeout=MAX_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
    return process.returncode == SHOWS and process.stdout.startswith(b"breached")


def main(file: str, postgres: str | None = None) -> int:
    """Replay the script in a file, print the outcome, and return the exit status."""
    outcome, breach, _ = Script.load(file).replay(postgres)
    print(outcome)
    return SHOWS if breach is not None else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
