"""Files of users: what reports call them, why one can't be used, and how one is written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def absolute(path: str | Path) -> Path:
    """Return a path from the root, with the links that its user sees."""
    return Path(os.path.abspath(path))


def shown_name(path: Path) -> str:
    """Return what reports call a file: its path below the current folder, else from the root, with `/`."""
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    # A name that is not UTF-8 can't be printed as it is.
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def why_not(error: OSError | ValueError) -> str:
    """Return why the system did not do what was asked of it, in its words."""
    words = str(getattr(error, "strerror", None) or error)
    return words[:1].lower() + words[1:]


def put(path: Path, content: bytes, *, mode: int | None = None, owner: tuple[int, int] | None = None) -> None:
    """Put `content` in place of a file, in one step.

    A symbolic link of that name is replaced, not followed: a pull request can bring one. `mode` are the permissions of
    the file, those that the process gives to new files unless given; it is given to `owner`, a user and a group, where
    that is permitted. Raises OSError where nothing can be written.
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
