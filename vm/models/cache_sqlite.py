"""The default cache of replies: one SQLite file, for all processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
from typing import Final

from stepward.vm.arguments import COUNT, PATH, require
from stepward.vm.journal.sqlite_file import DatabaseFile, Layout
from stepward.vm.journal.store import JournalError
from stepward.vm.models.cache import CacheFault

MOST_BYTES: Final = 64 << 20

_LAYOUT: Final = Layout(
    kind="cache",
    application_id=0x53747043,
    version=1,
    journal_mode="wal",
    synchronous="NORMAL",
    tables=("CREATE TABLE replies (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, entry BLOB NOT NULL)",),
    patience=0.25,
    cure="delete it: the cache is made anew",
)
_PUT: Final = "INSERT OR REPLACE INTO replies (key, entry) VALUES (?, ?)"
_DROP_OLDEST: Final = """DELETE FROM replies WHERE number <= (
    SELECT number FROM replies ORDER BY number LIMIT 1 OFFSET (SELECT count(*) / 8 FROM replies))"""


class SQLiteCache:
    """Replies in the SQLite file at `path`, which is created when it is first used, readable only for its owner.

    The file has about `most_bytes` bytes at most: when it is full, the oldest eighth of the replies is dropped. A reply
    that is kept again counts as new. The file must be on a local disk; a process may use it while others do.
    """

    def __init__(self, path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> None:
        """Raises CacheFault for a name that is no file's."""
        require(PATH, path=path)
        require(COUNT, most_bytes=most_bytes)
        self._name = os.fspath(path)
        if self._name in ("", ":memory:"):
            raise CacheFault(f"`{self._name}` is no file for a cache; name one")
        self._most_bytes = most_bytes
        self._file: DatabaseFile | None = None
        self._process = 0
        self._opening = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key, or None if there is none; raises CacheFault."""
        try:
            with self._opened().reading() as connection:
                row = connection.execute("SELECT entry FROM replies WHERE key = ?", (key,)).fetchone()
        except JournalError as error:
            raise CacheFault(str(error)) from None
        return None if row is None or type(row[0]) is not bytes else row[0]

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry as the newest; raises CacheFault. An entry of over an eighth of the whole is not kept."""
        if len(entry) > self._most_bytes / 8:
            return
        try:
            with self._opened().writing(durable=False) as connection:
                connection.execute(_PUT, (key, entry))
                while self._used(connection) > self._most_bytes:
                    if connection.execute(_DROP_OLDEST).rowcount < 1:
                        break
        except JournalError as error:
            raise CacheFault(str(error)) from None

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        with self._opening:
            if self._file is not None and self._process == os.getpid():
                self._file.close()
            self._file = None

    def _opened(self) -> DatabaseFile:
        """Return the file, opened by this process: a child must not use the connection of its parent."""
        with self._opening:
            if self._file is None or self._process != os.getpid():
                self._file = DatabaseFile(os.path.realpath(self._name), self._name, _LAYOUT, create=True)
                self._process = os.getpid()
            return self._file

    @staticmethod
    def _used(connection: sqlite3.Connection) -> int:
        """Return the bytes of the pages in use: those of dropped replies are used again."""
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)
