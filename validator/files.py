"""Files of users: their names in reports, the reason why one can't be used, and how one is written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def absolute(path: str | Path) -> Path:
    """Return an absolute path; links in it are not resolved."""
    return Path(os.path.abspath(path))


def shown_name(path: Path) -> str:
    """Return the name of a file in reports: its path below the current folder, else from the root, with `/`."""
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    # A name that is not UTF-8 can't be printed.
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def why_not(error: OSError | ValueError) -> str:
    """Return the reason of an error, in the words of the system."""
    words = str(getattr(error, "strerror", None) or error)
    return words[:1].lower() + words[1:]


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


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
