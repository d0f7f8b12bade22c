"""What a verdict hangs on beside the file and what is configured: our own code, the libraries under it, and Python."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Final

LIBRARIES: Final = ("networkx", "pydantic", "pydantic_core", "re2", "yaml", "z3")
"""The libraries that have a say in what a check finds, by the names that they are imported by."""

_DISTRIBUTIONS: Final = {"re2": "google-re2", "yaml": "pyyaml", "z3": "z3-solver"}
"""What a library is distributed as, where that is another name."""

_INFO: Final = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+?)(?:-py[\d.]+)?\.(?:dist|egg)-info")


def version_digest() -> str | None:
    """Return a digest of everything that runs in a check; None when it can't be told, so that nothing may be kept.

    Our own code counts by its contents, not by its version: an editable install changes the one without the other.
    """
    digest = hashlib.sha256()
    for part in (sys.version, sys.platform, os.environ.get("Z3_LIBRARY_PATH", "")):
        _add(digest, part.encode("utf-8", "surrogateescape"))
    for library in LIBRARIES:
        found = _library(library)
        if found is None:
            return None
        _add(digest, found.encode())
    folders = _own_folders()
    if folders is None:
        return None
    for folder in folders:
        for name, content in _sources(folder):
            _add(digest, name.encode("utf-8", "surrogateescape"))
            _add(digest, content)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    # With the length before it no two lists of parts make the same text.
    digest.update(b"%d:" % len(part))
    digest.update(part)


def _library(name: str) -> str | None:
    """Return a library with its version, as its installer wrote it beside the code that would be imported.

    Asking `importlib.metadata` would cost more than all the rest of a run that has nothing to do.
    """
    spec = PathFinder.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    wanted = _DISTRIBUTIONS.get(name, name).replace("_", "-")
    try:
        beside = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
    except OSError:
        return None
    found = sorted(
        entry
        for entry in beside
        if (match := _INFO.fullmatch(entry)) and re.sub(r"[-_.]+", "-", match["name"]).lower() == wanted
    )
    return ",".join(found) or None


def _own_folders() -> list[str] | None:
    import stepward.validator
    import stepward.vm

    folders = [*stepward.vm.__path__, *stepward.validator.__path__]
    return folders if all(map(os.path.isdir, folders)) else None


def _sources(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of a package, in a fixed order."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = os.path.join(parent, name)
            with open(path, "rb", buffering=0) as file:
                yield os.path.relpath(path, folder), file.read()
