"""The operator's channel: a file with the resume tokens of suspended runs. No caller ever gets one."""

from __future__ import annotations

import json
import os
import threading
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any

from stepward.validator.files import why_not
from stepward.validator.result import AdvisedError
from stepward.vm.machine.run import Run
from stepward.vm.values import to_json


class Approvals:
    """Writes a line of JSON for each suspension: `caller`, `run`, `step`, `request` and `token`.

    Only the owner of the file can read it. A suspension is written once, also after a restart. Raises AdvisedError for
    a file that can't be written, or that others can read.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: set[bytes] = set()
        try:
            text = self._opened()
        except OSError as error:
            raise AdvisedError(f"`{path}` can't be used: {why_not(error)}", "name a file that you can write") from None
        for line in text.splitlines():
            try:
                self._known.add(_digest(json.loads(line)["token"]))
            except (ValueError, TypeError, KeyError):
                continue  # somebody else's line, or half of one

    def _opened(self) -> str:
        """Return the text of the file, which is made if there is none."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise AdvisedError(
                    f"others can read `{self._path}`, and resume tokens go there", f"`chmod 600 {self._path}`"
                )
            return file.read()

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
