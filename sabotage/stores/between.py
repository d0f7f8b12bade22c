"""A SQLite connection that lets something else happen between two of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stepward.sabotage.stores.replaced import ReplacedConnection

if TYPE_CHECKING:
    from stepward.vm.journal.sqlite_file import DatabaseFile


class BetweenStatements(ReplacedConnection):
    """Calls `meanwhile` once, before statement number `at`, counted from 0."""

    def __init__(self, file: DatabaseFile, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(file)
        self._left = at
        self._meanwhile = meanwhile

    def before(self, statement: str) -> None:
        """Count a statement."""
        del statement
        self._left -= 1
        if self._left == -1:
            self._meanwhile()
