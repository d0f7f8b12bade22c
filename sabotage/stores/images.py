"""Images of the files of a SQLite store: now, after a torn write, and after a loss of power.

The index of the write-ahead log (`-shm`) is left out: it does not survive a crash, and SQLite rebuilds it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.store import Entry, Head

T = TypeVar("T")

SECTOR: Final = 512
WAL_HEADER: Final = 32
FRAME_HEADER: Final = 24
UNLIMITED: Final = 2**30
SYNCED: Final = 2
"""The least level of `synchronous` at which SQLite waits for the disk at every commit to a write-ahead log."""

_MEMORY: Final = "/dev/shm"


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Lend a temporary folder, in memory if possible, since images decide what survives a loss of power."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="stepward-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Image(NamedTuple):
    """The bytes of a store's files: database, write-ahead log and vault. None stands for a missing file."""

    database: bytes
    log: bytes | None
    vault: bytes | None

    @classmethod
    def of(cls, path: Path) -> Image:
        """Return the current files of the store at a path."""
        database = _bytes(path)
        assert database is not None, "an open store has its file"
        return cls(database, _bytes(path.with_name(f"{path.name}-wal")), _bytes(path.with_name(f"{path.name}.vault")))

    def restore(self, path: Path) -> None:
        """Write the files to a path that does not exist yet."""
        for part, suffix in zip(self, ("", "-wal", ".vault"), strict=True):
            if part is not None:
                path.with_name(f"{path.name}{suffix}").write_bytes(part)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


class Tear(NamedTuple):
    """A kind of torn write.

    `cut`: from a byte on, the old bytes remain. `frame`: from a frame of the log on. `zeros`, `old`: one sector is
    zero, or remains old. `stripes`: every other sector remains old. `where` is the position, as a share of the written
    bytes.
    """

    how: str
    where: float = 0.0

    @property
    def description(self) -> str:
        """The kind of tear, in words."""
        return f"{self.how} at {self.where:.3f} of what was written"


TEARS: Final = (
    *(Tear("cut", share / 8) for share in range(8)),
    Tear("cut", 0.999999),
    *(Tear("frame", share) for share in (0.25, 0.5, 0.75, 0.999999)),
    *(Tear("zeros", share) for share in (0.0, 0.5, 0.999999)),
    *(Tear("old", share) for share in (0.0, 0.5, 0.999999)),
    Tear("stripes"),
)


def torn(before: Image, after: Image, tear: Tear) -> Image:
    """Return the files after a loss of power during a write of SQLite.

    SQLite writes the log before the database: either the log is torn, or the database is while the log is whole.
    """
    if before.log != after.log:
        return before._replace(log=_torn_log(before.log or b"", after.log or b"", tear))
    return checkpointed(before, after, tear)


def checkpointed(before: Image, after: Image, tear: Tear) -> Image:
    """Return the files after a loss of power during a checkpoint, which moves the log into the database."""
    return after._replace(database=torn_pages(before.database, after.database, tear))


def torn_pages(old: bytes, new: bytes, tear: Tear) -> bytes:
    """Tear scattered writes: only sectors that changed."""
    changed = _changed(old, new)
    number = int(len(changed) * tear.where)
    chosen = {"cut": changed[number:], "frame": changed[number:], "stripes": changed[::2]}
    torn = new
    for start in chosen.get(tear.how, changed[number : number + 1]):
        end = min(start + SECTOR, len(new))
        torn = _spliced(bytes(len(new)) if tear.how == "zeros" else old, torn, start, end)
    return torn


def _torn_log(old: bytes, new: bytes, tear: Tear) -> bytes:
    """Tear a contiguous write."""
    first, last = _written(old, new)
    at = first + int((last - first) * tear.where)
    if tear.how == "cut":
        return _spliced(old, new, at, len(new))
    if tear.how == "frame":
        size = FRAME_HEADER + int.from_bytes(new[8:12])
        return _spliced(old, new, WAL_HEADER + max(0, at - WAL_HEADER) // size * size, len(new))
    # A disk may lose what it was writing, but no other bytes: SQLite relies on that.
    sector = at // SECTOR * SECTOR
    start, end = max(sector, first), min(sector + SECTOR, last)
    if tear.how == "zeros":
        return new[:start] + bytes(end - start) + new[end:]
    if tear.how == "old":
        return _spliced(old, new, start, end)
    torn = new
    for start in range(first // SECTOR * SECTOR, last, 2 * SECTOR):
        torn = _spliced(old, torn, max(start, first), min(start + SECTOR, last))
    return torn


def _spliced(old: bytes, new: bytes, start: int, end: int) -> bytes:
    """Return the new bytes with the old ones from start to end. Past the old end the file ends, or has zeros."""
    between = old[start:end]
    if end < len(new):
        between = between.ljust(end - start, b"\0")
    return new[:start] + between + new[end:]


def _changed(old: bytes, new: bytes) -> list[int]:
    """Return the offsets of the sectors that changed."""
    return [i for i in range(0, len(new), SECTOR) if old[i : i + SECTOR] != new[i : i + SECTOR]]


def _written(old: bytes, new: bytes) -> tuple[int, int]:
    """Return the start and end of the written bytes."""
    changed = _changed(old, new)
    if not changed:
        return len(new), len(new)
    low, high = changed[0], min(changed[-1] + SECTOR, len(new))
    first = next(i for i in range(low, high) if old[i : i + 1] != new[i : i + 1])
    last = next(i for i in range(high, low, -1) if old[i - 1 : i] != new[i - 1 : i])
    return first, last


class PhotographedJournal(ThroughStore):
    """A SQLite store that takes images of its files around appends, and of the synced content.

    `images` has the images before and after each append, including the creation of a run; `ends` has the number of the
    last entry at each. With `dies_in`, the process is killed in the append of that number, after it is written.
    """

    def __init__(
        self,
        path: Path,
        dies_in: int | None = None,
        points: Points | None = None,
        *,
        pages: int = 1000,
        page_bytes: int = 0,
    ) -> None:
        if page_bytes:
            _prepare(path, page_bytes)
        store = SQLiteJournal(path)
        super().__init__(store)
        self.path = path
        self.images: list[tuple[Image, Image]] = []
        self.ends: list[int] = []
        self.synced = Image.of(path)
        self._store = store
        self._dies_in = dies_in
        self._points = points
        connection(store._file).execute(f"PRAGMA wal_autocheckpoint = {pages}")

    @property
    def unsynced(self) -> bool:
        """Whether a loss of power would undo a write."""
        return Image.of(self.path) != self.synced

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    @property
    def pages(self) -> int:
        """The number of pages of the database, including those in the log."""
        (found,) = connection(self._store._file).execute("PRAGMA page_count").fetchone()
        return int(found)

    @property
    def room(self) -> int | None:
        """The largest number of pages that the database may have."""
        (found,) = connection(self._store._file).execute("PRAGMA max_page_count").fetchone()
        return int(found)

    @room.setter
    def room(self, pages: int | None) -> None:
        connection(self._store._file).execute(f"PRAGMA max_page_count = {pages or UNLIMITED}")

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that writes, and take images around it if it is an append."""
        if function.__name__ not in ("create", "append"):
            return self._written(function, *args)
        before = Image.of(self.path)
        result = self._written(function, *args)
        self.images.append((before, Image.of(self.path)))
        self.ends.append(args[0].entries[-1].seq)
        if self._dies_in == len(self.images) - 1:
            assert self._points is not None, "a process that dies has points"
            self._points.is_dead = True
            raise Killed("in the midst of an append")
        return result

    def _written(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that writes, and record what SQLite has synced."""
        result = function(*args)
        now = Image.of(self.path)
        # SQLite syncs the log before it moves the log into the database, and syncs the database afterwards.
        is_moved = now.database != self.synced.database and level(self._store._file) > 0
        if is_moved or level(self._store._file) >= SYNCED:
            self.synced = now._replace(vault=self.synced.vault)
        opened = self._store._values._opened
        if opened is not None and level(opened) >= SYNCED:
            self.synced = self.synced._replace(vault=now.vault)
        return result


def _prepare(path: Path, page_bytes: int) -> None:
    """Make an empty database with pages of another size."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("VACUUM")


def connection(file: DatabaseFile) -> Any:
    """Return the connection to a file."""
    return file._connection


def level(file: DatabaseFile) -> int:
    """Return the level of `synchronous` of the last commit."""
    (found,) = connection(file).execute("PRAGMA synchronous").fetchone()
    return int(found)


class StoreFiles:
    """Opens stores in a folder, each in its own file. `close` closes all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._made = 0

    def path(self) -> Path:
        """Return a path that does not exist yet."""
        self._made += 1
        return self._folder / f"{self._made}.db"

    def open(self, image: Image | None = None, **options: Any) -> PhotographedJournal:
        """Open a new store, or one from an image."""
        path = self.path()
        if image is not None:
            image.restore(path)
        store = PhotographedJournal(path, **options)
        self._stack.callback(store.close)
        return store

    def glance(self, image: Image, run: str) -> tuple[list[Entry], Head | None]:
        """Open an image and return the entries and head of a run. Raises JournalError if it can't be opened."""
        path = self.path()
        image.restore(path)
        with closing(SQLiteJournal(path)) as store:
            return store.read(run), store.head(run)

    def close(self) -> None:
        """Close every store."""
        self._stack.close()


@contextmanager
def temporary_stores() -> Iterator[StoreFiles]:
    """Lend a `StoreFiles` in a temporary folder."""
    with memory_folder() as folder, closing(StoreFiles(folder)) as files:
        yield files
