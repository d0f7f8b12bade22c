"""New stores for the length of a sequence of operations: in memory, in files, or on the server of a campaign."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

from stepward.sabotage.stores.servers import lent_beside
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.postgres import PostgresJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal


def new_stores(beside: Journal, stack: ExitStack, *, in_files: bool) -> Callable[[], Journal]:
    """Return what makes new stores, which are gone with the stack.

    Where the store of the case is on a server they are on that one, too; else `in_files` says where they are.
    """
    if isinstance(beside, PostgresJournal):
        return lambda: stack.enter_context(lent_beside(beside))
    return Files(stack) if in_files else MemoryJournal


class Files:
    """Makes stores in files, which are gone with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
        self._count = 0

    def __call__(self) -> Journal:
        """Return a new store."""
        self._count += 1
        journal = SQLiteJournal(os.path.join(self._folder, f"runs{self._count}.db"))
        self._stack.callback(journal.close)
        return journal
