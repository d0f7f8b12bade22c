"""PostgreSQL databases for tests, on the server that `STEPWARD_TEST_POSTGRES` names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest


class Place(NamedTuple):
    """Where a PostgreSQL journal of a test is."""

    conninfo: str
    schema: str


@contextmanager
def new_database() -> Iterator[str]:
    """Make an empty database on the server of the tests, and drop it afterwards; skips without a server."""
    server = os.environ.get("STEPWARD_TEST_POSTGRES")
    if not server:
        pytest.skip("there is no PostgreSQL server; run the tests by `tests/postgres_server.sh make fast`")
    import psycopg
    from psycopg.conninfo import make_conninfo

    name = f"stepward_test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
