"""The saved programs of callers: one folder for each caller, one file for each program."""

from __future__ import annotations

import os
import re
from pathlib import Path as FilePath
from typing import Final

from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm.writing import put

MAX_PROGRAMS: Final = 100
"""Programs that one caller may save."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SUFFIX: Final = ".program"


class SavedPrograms:
    """The saved programs below a folder. A name is no path: it has no full stop and no slash."""

    def __init__(self, folder: FilePath | None) -> None:
        self._folder = folder

    def save(self, caller: str, name: str, text: str) -> None:
        """Save a text, in place of an earlier one of that name; raises RequestRefused for no name or too many."""
        path = self._path(caller, name)
        names = self.names(caller)
        if name not in names and len(names) >= MAX_PROGRAMS:
            raise RequestRefused(
                f"you have {MAX_PROGRAMS} saved programs", "save it under the name of one that you no longer need"
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(path, text.encode(), mode=0o600)

    def text(self, caller: str, name: str) -> str:
        """Return a saved text; raises RequestRefused if there is none."""
        path = self._path(caller, name)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
                return file.read()
        except OSError:
            raise RequestRefused(
                "you have no saved program of this name", "`list_programs` names those that you have"
            ) from None

    def names(self, caller: str) -> list[str]:
        """Return the names of a caller's saved programs, sorted."""
        if self._folder is None:
            return []
        return sorted(path.name.removesuffix(_SUFFIX) for path in (self._folder / caller).glob(f"*{_SUFFIX}"))

    def _path(self, caller: str, name: str) -> FilePath:
        if self._folder is None:
            raise RequestRefused("the operator keeps no programs", "send the text of the program with each run")
        if not _NAME.fullmatch(name):
            raise RequestRefused(
                "this is no name of a saved program",
                "write 1 to 64 lower-case letters, digits, `-` and `_`, and begin with a letter or digit",
            )
        return self._folder / caller / f"{name}{_SUFFIX}"
