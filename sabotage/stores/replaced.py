"""A SQLite connection that stands in place of that of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from stepward.vm.journal.sqlite_file import DatabaseFile


class ReplacedConnection(ABC):
    """Replaces the connection of a file until `restore`, and sees each statement before it is executed."""

    def __init__(self, file: DatabaseFile) -> None:
        real: Any = file
        self._file = real
        self._inner: sqlite3.Connection = real._connection
        self._around = real._execute  # the file has a cursor for the statements around its transactions
        real._connection, real._execute = self, self._execute

    def restore(self) -> None:
        """Give the file its own connection back."""
        self._file._connection, self._file._execute = self._inner, self._around

    @abstractmethod
    def before(self, statement: str) -> None:
        """See a statement; what is raised here, the statement raises."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        self.before(statement)
        return self._inner.execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """Execute a statement for rows."""
        self.before(statement)
        return self._inner.executemany(statement, rows)

    def _execute(self, statement: str) -> Any:
        self.before(statement)
        return self._around(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
