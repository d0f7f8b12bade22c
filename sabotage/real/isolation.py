"""Namespaces of Linux for the process that calls real tools: no network, no other process, one folder to write to.

The calls go through the C library, as Python 3.11 has no functions for them: unshare(2), mount(2), mount_setattr(2),
prctl(2) and seccomp(2). A refusal of the kernel is an `IsolationError`, and then no tool is called.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import Any, Final

NEW_USER, NEW_NETWORK, NEW_MOUNTS, NEW_PROCESSES = 0x1000_0000, 0x4000_0000, 0x0002_0000, 0x2000_0000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x4_0000
MOUNT_SETATTR: Final = 442
HERE, ALL_BELOW, READ_ONLY = -100, 0x8000, 1
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
DIE_WITH_PARENT, KILL = 1, 9

SOCKET_CALLS: Final = {"x86_64": (0xC000_003E, 41), "aarch64": (0xC000_00B7, 198)}
"""For each type of processor, its number in the kernel and the number of its system call `socket`."""

OPEN_SOCKETS: Final = (2, 10, 16)
"""Families of sockets that a tool may open: IPv4, IPv6 and netlink, which all belong to the network namespace."""

IO_URING_SETUP: Final = 425


class IsolationError(Exception):
    """The kernel refuses to isolate a tool."""


def require_platform() -> None:
    """Raise IsolationError on a platform without isolation: not Linux, or an unknown processor."""
    if sys.platform != "linux":
        raise IsolationError(f"it takes network namespaces of Linux, and this is {platform.system() or sys.platform}")
    if platform.machine() not in SOCKET_CALLS or sys.byteorder != "little":
        raise IsolationError(f"no filter of system calls is known for processors of the kind `{platform.machine()}`")


def isolate(folder: Path) -> None:
    """Detach from the network, from other processes and from all folders but one.

    This process itself stays visible. The first process that it forks is in a new namespace, and all processes in it
    end with that first one. Raises IsolationError.
    """
    require_platform()
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _do(libc.unshare(NEW_USER | NEW_NETWORK | NEW_MOUNTS | NEW_PROCESSES), "no namespaces: unshare")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise IsolationError(f"no user namespace: {error.strerror}") from None
    _protect_files(libc, os.fsencode(folder))


def _protect_files(libc: Any, folder: bytes) -> None:
    """Make all file systems read-only except one folder, only in this namespace."""
    _do(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None), "no mounts of its own: mount")
    _do(libc.mount(folder, folder, None, BIND, None), "no folder of its own: mount")
    for path, flags, on, off in ((b"/", ALL_BELOW, READ_ONLY, 0), (folder, 0, 0, READ_ONLY)):
        change = struct.pack("=4Q", on, off, 0, 0)
        number, here, size = (ctypes.c_long(value) for value in (MOUNT_SETATTR, HERE, len(change)))
        result = libc.syscall(number, here, path, ctypes.c_long(flags), change, size)
        _do(result, "files can't be made read-only: mount_setattr")


def die_with_parent() -> None:
    """End this process when its parent has ended. Raises IsolationError."""
    _do(ctypes.CDLL(None, use_errno=True).prctl(DIE_WITH_PARENT, KILL, 0, 0, 0), "no end with the parent: prctl")


def lock() -> None:
    """Refuse sockets that lead out of the namespace, also to processes started from here. Raises IsolationError.

    A network namespace does not block the socket files of local services, or sockets to a hypervisor.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _do(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no lock on privileges: prctl")
    code = _socket_filter()
    place = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(place))
    _do(libc.prctl(SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0), "no filter of system calls: seccomp")


def _socket_filter() -> bytes:
    """Return the BPF program that refuses sockets of other families, system calls of other processors, and io_uring."""
    kind, socket = SOCKET_CALLS[platform.machine()]
    load, equal, at_least, back = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF_0000, 0x0005_0000 | 13  # the number of EACCES
    lines = (
        (load, 0, 0, 4),  # the kind of processor
        (equal, 0, 9, kind),  # another: refuse
        (load, 0, 0, 0),  # the number of the call
        (at_least, 7, 0, 0x4000_0000),  # x32 has its own numbers: refuse
        (equal, 6, 0, IO_URING_SETUP),  # it opens sockets without the `socket` call: refuse
        (equal, 0, 4, socket),  # another: allow
        (load, 0, 0, 16),  # the first argument: the family
        (equal, 2, 0, OPEN_SOCKETS[0]),
        (equal, 1, 0, OPEN_SOCKETS[1]),
        (equal, 0, 1, OPEN_SOCKETS[2]),
        (back, 0, 0, allow),
        (back, 0, 0, refuse),
    )
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _do(status: int, what: str) -> None:
    if status != 0:
        raise IsolationError(f"{what}: {os.strerror(ctypes.get_errno())}")
