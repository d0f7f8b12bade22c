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
