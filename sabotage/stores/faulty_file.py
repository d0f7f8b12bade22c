"""A SQLite connection of which one statement fails. Only the statements before it take effect."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from stepward.sabotage.stores.replaced import ReplacedConnection

if TYPE_CHECKING:
    from stepward.vm.journal.sqlite_file import DatabaseFile


class FaultyFile(ReplacedConnection):
    """Fails the changing statement of number `fails`, counted from 0. A rollback does not fail."""

    def __init__(self, file: DatabaseFile, fails: int) -> None:
        super().__init__(file)
        self.has_failed = False
        self._left = fails

    def before(self, statement: str) -> None:
        """Count a statement that changes something. Raises sqlite3.OperationalError for the one that fails."""
        if statement == "ROLLBACK" or statement.startswith("SELECT"):
            return
        self._left -= 1
        if self._left == -1:
            self.has_failed = True
            raise sqlite3.OperationalError("disk I/O error")
