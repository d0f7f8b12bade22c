"""Sensitive values in a SQLite file of their own, from which they can be destroyed."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Final

from stepward.vm.journal.refusals import erased
from stepward.vm.journal.sqlite_file import DatabaseFile, Layout

# A write-ahead log would keep old pages until a checkpoint; EXTRA, because after a loss of power a rollback journal
# whose removal was not written would bring back what was erased.
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
_BURIED: Final = "SELECT 1 FROM secrets WHERE run = ? AND reference = ''"
_ERASE: Final = "DELETE FROM secrets WHERE run = ? AND reference <> ''"
_BURY: Final = "INSERT OR IGNORE INTO secrets VALUES (?, '', x'01')"


class SQLiteVault:
    """The values of a SQLiteJournal's runs, in a file beside it that is made when the first one is put, or erased.

    After `erase` no file holds them. Blocks, snapshots and backups that a file system keeps are beyond it.
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
            if connection.execute(_BURIED, (run,)).fetchone():
                raise erased(run)
            connection.executemany("INSERT OR REPLACE INTO secrets VALUES (?, ?, ?)", rows)

    def get(self, run: str) -> dict[str, bytes]:
        if not self._exists():
            return {}
        with self._file().reading() as connection:
            found = connection.execute("SELECT reference, value FROM secrets WHERE run = ?", (run,)).fetchall()
        return {reference: value for reference, value in found if reference != ""}

    def erase(self, run: str) -> int:
        """Destroy every value of a run, and return how many there were; on return no file holds them.

        Call it again when it fails: values that are deleted but still in the file are destroyed then.
        """
        file = self._file()
        with file.writing(durable=True) as connection:
            count = connection.execute(_ERASE, (run,)).rowcount
            connection.execute(_BURY, (run,))
        # secure_delete is not enough: pages that were split keep copies of rows in their unused space.
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
