"""A SQLite connection that lets something else happen between two of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from stepward.vm.journal.sqlite_file import DatabaseFile


class BetweenStatements:
    """Replaces the connection of a file until `restore`. `meanwhile` is called once, before statement number `at`,
    counted from 0."""

    def __init__(self, file: DatabaseFile, at: int, meanwhile: Callable[[], None]) -> None:
        held: Any = file
        self._file = held
        self._inner: sqlite3.Connection = held._connection
        self._left = at
        self._meanwhile = meanwhile
        self._file._connection = self

    def restore(self) -> None:
        """Give the file its own connection back."""
        self._file._connection = self._inner

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        self._count()
        return self._inner.execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """Execute a statement for rows."""
        self._count()
        return self._inner.executemany(statement, rows)

    def _count(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._meanwhile()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
