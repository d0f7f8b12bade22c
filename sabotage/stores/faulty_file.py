"""A SQLite connection of which one statement fails. Only the statements before it take effect."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepward.vm.journal.sqlite_file import DatabaseFile


class FaultyFile:
    """Replaces the connection of a file until `restore`. The changing statement of number `fails`, counted from 0,
    fails."""

    def __init__(self, file: DatabaseFile, fails: int) -> None:
        self.has_failed = False
        self._left = fails
        held: Any = file
        self._file = held
        self._inner: sqlite3.Connection = held._connection
        self._file._connection = self

    def restore(self) -> None:
        """Give the file its own connection back."""
        self._file._connection = self._inner

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement, or fail. A rollback does not fail."""
        self._count(statement)
        return self._inner.execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """Execute a statement for rows, or fail."""
        self._count(statement)
        return self._inner.executemany(statement, rows)

    def _count(self, statement: str) -> None:
        if statement == "ROLLBACK" or statement.startswith("SELECT"):
            return
        self._left -= 1
        if self._left == -1:
            self.has_failed = True
            raise sqlite3.OperationalError("disk I/O error")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
