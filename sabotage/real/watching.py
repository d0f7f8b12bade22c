"""Observes a tool by audit hooks (PEP 578) and line traces, and stops it or makes it fail."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

FILE_EVENTS: Final = frozenset(
    (
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "os.chown",
        "os.utime",
        "os.setxattr",
        "os.removexattr",
    )
)
SOCKET_EVENTS: Final = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"))
LOOK_UPS: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname"))
PROCESS_EVENTS: Final = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn")
)
LIBRARY_EVENTS: Final = frozenset(("ctypes.dlopen", "sqlite3.connect"))
CHANGING_METHODS: Final = frozenset(("PUT", "PATCH", "DELETE"))
"""Methods of HTTP that are for changes alone; POST is used for questions, too."""

MAX_SEEN: Final = 200
MAX_DETAIL: Final = 200


class Seen(NamedTuple):
    """One operation of a tool: `kind` is write, network, change (over the network) or unseen."""

    kind: str
    what: str


class Watch:
    """Observes the operations of the process while it is on.

    With `fail_at`, the n-th operation on the outside world fails (1 is the first). With `pause_at`, the thread that
    reaches the n-th line of the tool's own code waits there until `release`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._own = ""
        self._is_on = False
        self._inside = threading.local()
        self.seen: list[Seen] = []
        self.tried = self.lines = 0
        self.fail_at = self.pause_at = 0
        self.paused: Callable[[], object] = lambda: None
        self.has_stopped = False
        self._go_on = threading.Event()
        sys.addaudithook(self._hear)

    def begin(self, *, fail_at: int = 0, pause_at: int = 0) -> None:
        """Start observing."""
        self.seen, self.tried, self.lines = [], 0, 0
        self.fail_at, self.pause_at, self.has_stopped = fail_at, pause_at, False
        self._go_on.clear()
        self._is_on = True

    def end(self) -> None:
        """Stop observing, and release a waiting thread."""
        self._is_on = False
        self.release()

    def release(self) -> None:
        """Release the thread that waits at its line."""
        self.pause_at = 0
        self._go_on.set()

    # -- events --------------------------------------------------------------------------------------------------------

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_on or getattr(self._inside, "is_hearing", False):
            return
        self._inside.is_hearing = True
        try:
            seen = self._judged(event, args)
        finally:
            self._inside.is_hearing = False
        if seen is None:
            return
        if len(self.seen) < MAX_SEEN:
            self.seen.append(seen)
        self.tried += 1
        if self.tried == self.fail_at:
            raise OSError(errno.EIO, "made to fail by `stepward sabotage`")

    def _judged(self, event: str, args: tuple[Any, ...]) -> Seen | None:
        if event == "open":
            path, _, flags = args
            return self._file("opens for writing", path) if isinstance(flags, int) and flags & WRITING else None
        if event in FILE_EVENTS:
            return self._file(f"calls `{event}` on", args[0])
        if event in SOCKET_EVENTS:
            return Seen("network", f"calls `{event}` with {_shown(args[1:])}")
        if event in LOOK_UPS:
            return Seen("network", f"looks up {_shown(args[0])}")
        return _other(event, args)

    def _file(self, what: str, path: Any) -> Seen | None:
        if isinstance(path, int) or path is None:
            return None  # the file was opened before
        where = os.path.realpath(os.path.join(os.getcwd(), os.fsdecode(path)))
        if where == self._folder or where.startswith(self._folder + os.sep):
            # Files in the folder are compared later, so that a file that is gone again is no write.
            return Seen("scratch", f"{what} `{where[:MAX_DETAIL]}`")
        is_device = where.startswith(("/dev/", "/proc/")) and not where.startswith("/dev/shm/")
        return None if is_device else Seen("write", f"{what} `{where[:MAX_DETAIL]}`")

    # -- lines ---------------------------------------------------------------------------------------------------------

    def owns(self, module_file: str) -> None:
        """Count the lines of the code in a file's folder from now on."""
        self._own = os.path.dirname(os.path.realpath(module_file)) + os.sep
        self._is_installed = "site-packages" in self._own

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count a line; a trace function for `threading.settrace`."""
        if not self._is_on:
            return None
        if event == "call":
            return self.trace if self._is_own(frame.f_code) else None
        if event == "line" and self.comes_to_stop():
            self._go_on.wait()
        return self.trace

    def _is_own(self, code: CodeType) -> bool:
        name = code.co_filename
        return name.startswith(self._own) and ("site-packages" not in name or self._is_installed)

    def comes_to_stop(self) -> bool:
        """Count a possible stop of a tool, and return whether to stop there."""
        self.lines += 1
        if self.lines != self.pause_at:
            return False
        self.has_stopped = True
        self.paused()
        return True


def _other(event: str, args: tuple[Any, ...]) -> Seen | None:
    if event == "http.client.connect":
        method = getattr(args[0], "_method", None)
        host = _shown(args[1])
        return Seen("change", f"sends `{method}` to {host}") if method in CHANGING_METHODS else None
    if event == "smtplib.connect":
        return Seen("change", f"sends mail by way of {_shown(args[1])}")
    if event in PROCESS_EVENTS:
        command = args[0] if args and event != "subprocess.Popen" else args[1] if len(args) > 1 else ""
        return Seen("unseen", f"starts a process: `{event}` {_shown(command)}")
    if event == "socket.__new__" and args[1] not in (socket.AF_INET, socket.AF_INET6):
        return Seen("unseen", f"opens a socket of the family {args[1]!s}, which leads nowhere here")
    if event in LIBRARY_EVENTS:
        return Seen("unseen", f"leaves Python for C: `{event}` {_shown(args[0] if args else '')}")
    return None


def _shown(value: object) -> str:
    return f"`{str(value)[:MAX_DETAIL]}`"
