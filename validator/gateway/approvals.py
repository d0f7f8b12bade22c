"""The operator's channel: a file with the resume tokens of suspended runs. No caller ever gets one."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any

from stepward.vm.machine.run import Run
from stepward.vm.values import to_json


class Approvals:
    """Writes a line of JSON for each suspension: `caller`, `run`, `step`, `request` and `token`.

    Only the owner of the file can read it. A suspension is written once, also after a restart.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: set[bytes] = set()
        if path.exists():
            import json

            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self._known.add(_digest(json.loads(line)["token"]))
                except (ValueError, TypeError, KeyError):
                    continue  # somebody else's line, or half of one

    def announce(self, caller: str, run: Run) -> None:
        """Write the suspensions of a run that are not in the file yet; raises OSError if that is not possible."""
        with self._lock:
            for waits in run.suspensions:
                if not waits.token or _digest(waits.token) in self._known:
                    continue
                line: dict[str, Any] = {"caller": caller, "run": run.id, "program": run.program, "step": waits.step}
                self._write(to_json({**line, "request": waits.request, "token": waits.token}))
                self._known.add(_digest(waits.token))

    def _write(self, line: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
