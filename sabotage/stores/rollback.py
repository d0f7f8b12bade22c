"""Commits of a SQLite vault with their rollback journals, and the states after a torn commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from stepward.sabotage.stores.images import Tear, connection, torn_pages
from stepward.vm.journal.sqlite_file import DatabaseFile

MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
HEADER: Final = 28
SECTORS: Final = (512, 4096)
"""The sizes in bytes that a journal's header may have, depending on the sector size that SQLite assumes."""

SAMPLED: Final = 200
"""The checksum of a page covers every byte at this distance, counted from its end."""


class Commit(NamedTuple):
    """One commit: the file before and after it, and its journal during the write, or None if there was none."""

    before: bytes
    journal: bytes | None
    after: bytes


class Torn(NamedTuple):
    """The files after a loss of power during a commit. `is_done` says that the commit may have taken effect."""

    database: bytes
    journal: bytes | None
    is_done: bool = False


class PhotographedFile:
    """Takes images around every commit of a file. SQLite leaves the journal without its header; this class restores
    it."""

    def __init__(self, file: DatabaseFile) -> None:
        self.commits: list[Commit] = []
        self._path = Path(file._path)
        self._writing, self._rewrite = file.writing, file.rewrite
        self.has_journal = connection(file).execute("PRAGMA journal_mode").fetchone() == ("delete",)
        if self.has_journal:
            connection(file).execute("PRAGMA journal_mode = persist")
        vars(file).update(writing=self.writing, rewrite=self.rewrite)

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Lend the connection for one transaction."""
        before = self._path.read_bytes()
        with self._writing(durable=durable) as lent:
            yield lent
        self._note(before)

    def rewrite(self) -> None:
        """Write the whole file again."""
        before = self._path.read_bytes()
        self._rewrite()
        self._note(before)

    def _note(self, before: bytes) -> None:
        after = self._path.read_bytes()
        if after == before:
            return
        journal = journal_of(self._path).read_bytes() if self.has_journal else None
        self.commits.append(Commit(before, journal and revived(journal, before), after))


def journal_of(path: Path) -> Path:
    """Return the path of a file's journal."""
    return path.with_name(f"{path.name}-journal")


def revived(journal: bytes, before: bytes) -> bytes:
    """Return a journal with its original header, and without remains of older journals after its records."""
    size = int.from_bytes(before[16:18]) or 65_536
    size = 65_536 if size == 1 else size
    sector = next(sector for sector in SECTORS if _is_page(journal[sector : sector + 4 + size], before, size))
    nonce, count = 0, 0
    for start in range(sector, len(journal) - size - 7, size + 8):
        record = journal[start : start + size + 8]
        own = (int.from_bytes(record[-4:]) - sum(record[4 + size - SAMPLED : 4 : -SAMPLED])) % 2**32
        if count and own != nonce:
            break
        nonce, count = own, count + 1
    numbers = (count, nonce, len(before) // size, sector, size)
    header = MAGIC + b"".join(number.to_bytes(4) for number in numbers)
    return header + journal[HEADER : sector + count * (size + 8)]


def _is_page(record: bytes, before: bytes, size: int) -> bool:
    number = int.from_bytes(record[:4])
    return number > 0 and record[4:] == before[(number - 1) * size : number * size]


def tears(commit: Commit, tear: Tear) -> Iterator[Torn]:
    """Yield the states after a tear: of the journal, of the file with a whole journal, or at the journal's removal."""
    journal = commit.journal
    if journal is not None:
        # SQLite writes the number of records after they are on the disk, and changes the file only then.
        begun = journal[: len(MAGIC)] + bytes(4) + journal[len(MAGIC) + 4 :]
        yield Torn(commit.before, torn_pages(b"", begun, tear))
        yield Torn(commit.after, journal)
    yield Torn(torn_pages(commit.before, commit.after, tear), journal)
    yield Torn(commit.after, None, is_done=True)


def written(torn: Torn, path: Path) -> None:
    """Write the files after a tear to a path that does not exist yet."""
    path.write_bytes(torn.database)
    if torn.journal is not None:
        journal_of(path).write_bytes(torn.journal)
