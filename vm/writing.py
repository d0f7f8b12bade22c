"""Writes a file in one step: whoever reads it finds the old content or the new one, and never a part of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def put(path: Path, content: bytes, *, mode: int | None = None, owner: tuple[int, int] | None = None) -> None:
    """Replace a file by `content`, in one step.

    A symbolic link of that name is replaced, not followed: a pull request can bring one. `mode` are the permissions of
    the file, by default those of new files of the process. The file is given to `owner`, a user and a group, where
    that is permitted. Raises OSError where the file can't be written.
    """
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            os.chmod(temporary, _usual_mode() if mode is None else mode)
            if owner is not None:
                with suppress(OSError):  # only root can give a file to somebody else
                    os.chown(temporary, *owner)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def create(path: str | os.PathLike[str], content: bytes, *, mode: int) -> None:
    """Write a new file and have it on the disk; what can't be written whole is removed.

    Raises FileExistsError if there is a file of that name, and OSError where it can't be written.
    """
    # Created with its mode: before a later chmod others could read it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
