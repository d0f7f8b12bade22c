"""Stores sensitive values in a SQLite file of their own, in which they can be destroyed."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from typing import Final

from stepward.vm.journal.refusals import erased
from stepward.vm.journal.sqlite_file import DatabaseFile, Layout

# Not a write-ahead log, which would hold old pages until a checkpoint. EXTRA, because after a loss of power a rollback
# journal whose removal was not on the disk would restore erased values.
_LAYOUT: Final = Layout(
    kind="vault",
    application_id=0x53745661,
    version=1,
    journal_mode="delete",
    synchronous="EXTRA",
    tables=(
        "CREATE TABLE secrets (run TEXT, reference TEXT, value BLOB NOT NULL, PRIMARY KEY (run, reference))"
        " WITHOUT ROWID",
    ),
    settings=("secure_delete = ON", "temp_store = MEMORY"),
)

# The row with an empty reference is the tombstone of a run.
_IS_ERASED: Final = "SELECT 1 FROM secrets WHERE run = ? AND reference = ''"
_ERASE: Final = "DELETE FROM secrets WHERE run = ? AND reference <> ''"
_MARK_ERASED: Final = "INSERT OR IGNORE INTO secrets VALUES (?, '', x'01')"


class SQLiteVault:
    """The values of a SQLiteJournal's runs, in a file beside it that is created by the first put or erasure.

    After `erase` no file holds them. It can't reach old blocks, snapshots and backups of a file system.
    """

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name
        self._opening = threading.Lock()
        self._opened: DatabaseFile | None = None

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        if not secrets:
            return
        rows = [(run, reference, value) for reference, value in secrets.items()]
        with self._file().writing(durable=True) as connection:
            if connection.execute(_IS_ERASED, (run,)).fetchone():
                raise erased(run)
            connection.executemany("INSERT OR REPLACE INTO secrets VALUES (?, ?, ?)", rows)

    def get(self, run: str) -> dict[str, bytes]:
        if not self._exists():
            return {}
        with self._file().reading() as connection:
            found = connection.execute("SELECT reference, value FROM secrets WHERE run = ?", (run,)).fetchall()
        return {reference: value for reference, value in found if reference != "" and type(value) is bytes}

    def erase(self, run: str) -> int:
        """Destroy every value of a run, and return their number; on return no file holds them.

        Call it again if it fails: then it destroys values that are deleted but still in the file.
        """
        return self.erase_all([run])

    def erase_all(self, runs: Collection[str]) -> int:
        file, count = self._file(), 0
        with file.writing(durable=True) as connection:
            for run in runs:
                count += connection.execute(_ERASE, (run,)).rowcount
                connection.execute(_MARK_ERASED, (run,))
        # secure_delete is not enough: pages that were split have copies of rows in their unused space.
        file.rewrite()
        return count

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _exists(self) -> bool:
        return self._opened is not None or os.path.exists(self._path)

    def _file(self) -> DatabaseFile:
        with self._opening:
            if self._opened is None:
                self._opened = DatabaseFile(self._path, self._name, _LAYOUT, create=True)
            return self._opened
