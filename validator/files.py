"""Files that the command writes beside the files of a repository, where somebody else may have put a link."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def put(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Put `content` in place of a file, in one step.

    A symbolic link of that name is replaced, not followed: a pull request can bring one. `mode` are the permissions of
    the file, those that the process gives to new files unless given. Raises OSError where nothing can be written.
    """
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            os.chmod(temporary, _usual_mode() if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
