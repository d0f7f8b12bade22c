"""What SQLite is told by whoever opens it: each commit, how durable it is, and how many records are new in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from floors import Commit


class _Ear:
    """Hears the statements of one connection."""

    def __init__(self, heard: list[Commit]) -> None:
        self.heard = heard
        self.durable = True
        self.writes = self.records = 0

    def __call__(self, statement: str) -> None:
        said = statement.upper()
        if said.startswith("PRAGMA SYNCHRONOUS ="):
            self.durable = said.endswith(("FULL", "EXTRA"))
        elif said.startswith("BEGIN"):
            self.writes = self.records = 0
        elif said.startswith("INSERT INTO RECORDS"):
            self.records += 1
        elif said.startswith(("INSERT", "UPDATE", "DELETE", "CREATE")):
            self.writes += 1
        elif said.startswith("COMMIT") and self.writes + self.records:
            self.heard.append(Commit(self.durable, self.records))


@contextmanager
def listening() -> Iterator[list[Commit]]:
    """Hear every commit of the connections that are opened inside, for as long as they are open."""
    heard: list[Commit] = []
    connect = sqlite3.connect

    def opened(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(_Ear(heard))
        return connection

    with patch.object(sqlite3, "connect", opened):
        yield heard
