"""How long hostile programs keep a check, and how much memory it takes for them.

Each is checked by a process of its own, as a user does it, with `--time-limit 5`. It has to end by itself, with a
report, within five seconds more than that, and below a gigabyte. Processor time is that of the process and of those
that it started, memory the most that one of them held.

    python benchmarks/hostile.py                 # all of them
    python benchmarks/hostile.py enum sum        # those whose names contain one of the words
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hostile_programs import HOSTILE, Hostile

LIMIT: Final = 5.0
GRACE: Final = 5.0
MEBIBYTES: Final = 1_000

PATIENCE: Final = 60.0
"""Seconds after which a check is killed that does not end by itself."""

CAP: Final = 4_000
"""Mebibytes of address space beyond which a process gets none, so that the machine goes on."""


@dataclass(frozen=True)
class Measured:
    """What a check took: seconds by the clock and of processors, mebibytes, and how it ended."""

    seconds: float
    cpu: float
    mebibytes: float
    ended: str

    @property
    def holds(self) -> bool:
        """Whether it ended by itself, in time, with a report, in little memory."""
        in_time = self.seconds <= LIMIT + GRACE and self.mebibytes <= MEBIBYTES
        return in_time and self.ended.startswith("report")


def _capped() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (CAP << 20, CAP << 20))


def measure(program: dict[str, Any], limit: float, patience: float = PATIENCE) -> Measured:
    """Check one program in a process of its own, and say what that took."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder) / "program.json", Path(folder) / "report.json"
        file.write_text(json.dumps(program))
        options = ["--isolated", "--no-cache", f"--time-limit={limit:g}", "--json-output", str(report)]
        command = [str(Path(sys.executable).with_name("stepward")), "check", str(file), *options]
        started = time.monotonic()
        with (Path(folder) / "said").open("w+") as said:
            child = subprocess.Popen(command, stdout=said, stderr=said, preexec_fn=_capped)  # noqa: PLW1509
            killed, peak = False, 0.0
            while True:
                peak = max(peak, _peak(child.pid))
                pid, status, used = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                if not killed and time.monotonic() - started > limit + patience:
                    killed = True
                    child.kill()
                time.sleep(0.02)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            last = said.read()[-2000:].strip().splitlines()
        seconds = time.monotonic() - started
        ended = "killed" if killed else _ended(child.returncode, report, last)
        return Measured(seconds, used.ru_utime + used.ru_stime, peak or used.ru_maxrss / 1024, ended)


def _peak(pid: int) -> float:
    """Return the most memory that a process has had, in mebibytes; 0 where the system does not say it.

    What `wait4` says begins with the memory of the process that forked.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _ended(status: int, report: Path, last: list[str]) -> str:
    if status not in (0, 1):
        return f"status {status}: {' '.join(last)[:150]}"
    data = json.loads(report.read_text())
    codes = sorted({finding["code"] for finding in data["findings"]})
    return f"report: {', '.join(codes) or 'no finding'}"


def row(one: Hostile, found: Measured) -> str:
    """Return a line of the table."""
    verdict = "holds" if found.holds else "FAILS"
    return (
        f"{one.name:<44} {found.seconds:6.1f} s {found.cpu:6.1f} s {found.mebibytes:6.0f} MB  {verdict}  {found.ended}"
    )


def main() -> int:
    """Print the table; 1 where a program breaks its bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="measure those whose names contain one of these")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of `--time-limit`")
    options = parser.parse_args()
    chosen = [one for one in HOSTILE if not options.words or any(word in one.name for word in options.words)]
    broken = 0
    for one in chosen:
        found = measure(one.program(), options.limit)
        broken += not found.holds
        print(row(one, found), flush=True)
    print(f"{len(chosen) - broken} of {len(chosen)} hold their bounds")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
