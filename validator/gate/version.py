"""A digest of the code that verdicts depend on: our own code, its libraries, and Python."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Final

LIBRARIES: Final = ("networkx", "pydantic", "pydantic_core", "re2", "yaml", "z3")
"""The libraries that the findings of a check depend on, by their import names."""

_DISTRIBUTIONS: Final = {"re2": "google-re2", "yaml": "pyyaml", "z3": "z3-solver"}
"""The distribution names of libraries whose import name differs."""

_INFO: Final = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+?)(?:-py[\d.]+)?\.(?:dist|egg)-info")


def version_digest() -> str | None:
    """Return a digest of all code that runs in a check; None when that is unknown, so that nothing may be cached.

    Our own code counts by its contents, not by its version: an editable install changes the one without the other.
    """
    digest = hashlib.sha256()
    for part in (sys.version, sys.platform, os.environ.get("Z3_LIBRARY_PATH", "")):
        _add(digest, part.encode("utf-8", "surrogateescape"))
    for library in LIBRARIES:
        version = _library(library)
        if version is None:
            return None
        _add(digest, version.encode())
    folders = _own_folders()
    if folders is None:
        return None
    for folder in folders:
        for name, content in _sources(folder):
            _add(digest, name.encode("utf-8", "surrogateescape"))
            _add(digest, content)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    # Lengths keep two lists of parts from giving the same text.
    digest.update(b"%d:" % len(part))
    digest.update(part)


def _library(name: str) -> str | None:
    """Return the name and version of a library, which its installer wrote beside the code that is imported.

    `importlib.metadata` would take more time than all the rest of a run that finds everything in the cache.
    """
    spec = PathFinder.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    normal_name = _DISTRIBUTIONS.get(name, name).replace("_", "-")
    try:
        beside = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
    except OSError:
        return None
    info = sorted(
        entry
        for entry in beside
        if (match := _INFO.fullmatch(entry)) and re.sub(r"[-_.]+", "-", match["name"]).lower() == normal_name
    )
    return ",".join(info) or None


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
