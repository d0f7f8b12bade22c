"""Patterns of paths in the manner of .gitignore."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Patterns:
    """Patterns in the manner of .gitignore, relative to a folder."""

    folder: FilePath
    lines: tuple[str, ...]

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        try:
            return GitIgnoreSpec.from_lines(self.lines)
        except ValueError:
            return GitIgnoreSpec.from_lines(line for line in self.lines if is_pattern(line))

    def verdict(self, path: FilePath, *, is_folder: bool = False) -> bool | None:
        """Return whether a pattern matches (True), a `!` pattern takes the path out again (False), or neither."""
        relative = os.path.relpath(path, self.folder).replace(os.sep, "/")
        if not self.lines or relative == "." or relative.startswith("../"):
            return None
        return self._spec.check_file(relative + "/" * is_folder).include


def is_pattern(line: str) -> bool:
    """Return whether a line is a pattern that .gitignore could hold."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
