"""What it costs to pick up what is due among runs that wait, in PostgreSQL: `python benchmarks/due.py`.

`STEPWARD_TEST_POSTGRES` names a server (`tests/postgres_server.sh python benchmarks/due.py`). Two schemas hold few and
many runs that wait for a later time, and the same number of runs that are due. Both are asked in turns. README.md
beside this file says what the figures mean.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import psycopg
from check import table
from clock import multiple, spread
from psycopg import sql

from stepward.vm.journal.postgres import PostgresJournal

FEW: Final = 1_000
MANY: Final = 100_000
DUE: Final = 20
"""The number of runs that are due, in either schema."""

NOW: Final = 1_000.0

_FILL: Final = b"""INSERT INTO runs (run, program, status, seq, digest, started, updated, holder, fence, expires, due)
    SELECT 'run ' || number, 'p', 'SUSPENDED', 3, '', 1, 1, 'a', 1, 0,
        CASE WHEN number <= %(due)s THEN number ELSE 1e9 + number END FROM generate_series(1, %(count)s) AS number"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each number of runs")
    rounds = parser.parse_args(arguments).rounds
    server = os.environ.get("STEPWARD_TEST_POSTGRES")
    if not server:
        sys.exit("name a server by STEPWARD_TEST_POSTGRES, or run this by `tests/postgres_server.sh`")
    schemas = {count: f"due {uuid.uuid4().hex}" for count in (FEW, MANY)}
    with psycopg.connect(server, autocommit=True) as admin:
        try:
            work = {count: contender(server, admin, schema, count) for count, schema in schemas.items()}
            few, many = zip(*[[seconds(one) for one in work.values()] for _ in range(rounds + 1)][1:], strict=True)
        finally:
            for schema in schemas.values():
                admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
    rows = [[f"{MANY:,} against {FEW:,}", f"{multiple(many, few):.2f}", f"±{spread(many, few):.0%}"]]
    table(f"{DUE} claims of what is due, by the number of runs that wait", ["runs", "ratio", ""], rows)


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes, by the clock on the wall: the server works in other processes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def contender(server: str, admin: psycopg.Connection, schema: str, count: int) -> Callable[[], object]:
    """Fill a new schema, and return what claims the runs that are due one by one and makes them free again."""
    journal = PostgresJournal(server, schema=schema)
    admin.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
    admin.execute(_FILL, {"due": DUE, "count": count})
    admin.execute("ANALYZE runs")

    def work() -> None:
        leases = [journal.claim(f"h{number}", NOW, 60.0, 1, ["p"]) for number in range(DUE)]
        assert all(len(one) == 1 for one in leases), "each claim gets a run"
        assert journal.claim("nobody", NOW, 60.0, 1, ["p"]) == [], "nothing else is due"
        for (lease,) in leases:
            journal.release(lease)

    return work


if __name__ == "__main__":
    main()
