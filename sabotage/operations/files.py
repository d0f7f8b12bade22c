"""Stores in files, for the length of a sequence of operations."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal


class Files:
    """Makes stores in files, which are gone with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
        self._count = 0

    def __call__(self) -> Journal:
        """Return a new store."""
        self._count += 1
        made = SQLiteJournal(os.path.join(self._folder, f"runs{self._count}.db"))
        self._stack.callback(made.close)
        return made
