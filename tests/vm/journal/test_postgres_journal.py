"""What is PostgreSQL's own: lost connections, one schema made by many, rows that old transactions still see."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from databases import Place
from stepward.vm.journal import postgres as module
from stepward.vm.journal.postgres import PostgresJournal
from stepward.vm.journal.store import AppendConflict, Head, JournalError, Lease, LeaseLost
from stepward.vm.journal.trials import NOW, TTL, behind, created, entries, first, following, picture


@pytest.fixture
def store(postgres: Place) -> Iterator[PostgresJournal]:
    store = PostgresJournal(postgres.conninfo, schema=postgres.schema)
    yield store
    store.close()


@pytest.fixture
def admin(postgres: Place) -> Iterator[psycopg.Connection]:
    """A connection of somebody else."""
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(postgres.schema)))
        yield connection


MANY_WAITING = b"""INSERT INTO runs (run, program, status, seq, digest, started, updated, holder, fence, expires, due)
    SELECT 'run ' || number, 'p', 'SUSPENDED', 3, '', 1, 1, 'a', 1, 0, 1e9 + number
    FROM generate_series(1, 5000) AS number"""


def terminate(admin: psycopg.Connection, store: PostgresJournal) -> None:
    """Take a store's connection away, as a restart of the server does."""
    pid = store._connection._connection.info.backend_pid
    assert admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,)).fetchone() == (True,)


@pytest.mark.usefixtures("warm")
def test_processes_that_make_one_schema_at_once_share_it(postgres: Place) -> None:
    code = """
import sys
from stepward.vm.journal.postgres import PostgresJournal
from stepward.vm.journal.trials import *
print("ready", flush=True)
sys.stdin.readline()
store = PostgresJournal(sys.argv[1], schema=sys.argv[2])
print(store.create(first("one run"), "p", sys.argv[3], TTL) is not None)
"""
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", code, *postgres, str(number)], stdin=pipe, stdout=pipe, text=True)
        for number in range(6)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert sorted(results) == ["False"] * 5 + ["True"]


OLDER = {
    3: (
        "DROP INDEX runs_held",
        "ALTER TABLE runs DROP COLUMN held",
        "DROP TABLE switches",
        "UPDATE layout SET version = 3",
    ),
    2: ("ALTER TABLE runs DROP COLUMN kept", "UPDATE layout SET version = 2"),
    1: ("DROP INDEX runs_due", "ALTER TABLE runs DROP COLUMN due", "UPDATE layout SET version = 1"),
}
"""What makes a schema of each older version from one of the version after it."""


def test_a_lease_whose_end_is_no_number_is_over(store: PostgresJournal, admin: psycopg.Connection) -> None:
    run, fence = created(store)
    admin.execute(b"UPDATE runs SET status = 'RUNNING', expires = 'NaN', due = 0")
    assert store.due(NOW) == {"program": 1}
    assert [lease.run for lease in store.claim("h", NOW, TTL, 9)] == [run]
    admin.execute(b"UPDATE runs SET expires = 'NaN'")
    lease = store.acquire(run, "other", NOW, TTL)
    assert lease is not None
    assert lease.fence > fence
    assert store.acquire(run, "h", NOW, TTL) is None


@pytest.mark.parametrize("version", OLDER)
def test_a_schema_of_an_older_version_is_brought_to_this_one(
    postgres: Place, admin: psycopg.Connection, version: int
) -> None:
    older = PostgresJournal(postgres.conninfo, schema=postgres.schema)
    run, fence = created(older)
    admin.execute(b"UPDATE runs SET status = 'RUNNING', expires = 0, due = 0")
    for one in range(3, version - 1, -1):
        for statement in OLDER[one]:
            admin.execute(statement.encode())
    for _ in range(2):
        newer = PostgresJournal(postgres.conninfo, schema=postgres.schema, create=False)
        assert newer.due(NOW) == {"program": 1}
        newer.close()
    newer = PostgresJournal(postgres.conninfo, schema=postgres.schema)
    assert [lease.run for lease in newer.claim("h", NOW, TTL, 9)] == [run]
    with pytest.raises(LeaseLost):
        newer.append(behind(run, entries(1), following(entries(1), 1)), fence)
    assert newer.prune(Head(run, 0, entries(1)[0].digest, None), b"kept")
    assert newer.kept(run) == b"kept"
    admin.execute(b"UPDATE layout SET version = 9")
    with pytest.raises(JournalError, match="a newer version"):
        PostgresJournal(postgres.conninfo, schema=postgres.schema)


def test_a_claim_waits_for_nobody_and_finds_its_own_leases_again(
    store: PostgresJournal, admin: psycopg.Connection
) -> None:
    names = [f"run {number}" for number in range(3)]
    for name in names:
        assert store.create(first(name)._replace(due=NOW), "p", "a", 0.0)
    with admin.transaction():
        admin.execute("SELECT 1 FROM runs WHERE run = 'run 0' FOR UPDATE")
        assert [lease.run for lease in store.claim("h", NOW, TTL, 1)] == ["run 1"]
        # As after a lost connection: the same call once more.
        assert [(lease.run, lease.fence) for lease in store.claim("h", NOW, TTL, 1)] == [("run 1", 3)]
    assert [lease.run for lease in store.claim("other", NOW, TTL, 9)] == ["run 0", "run 2"]


def test_what_is_due_is_found_by_its_index_among_many_that_wait(
    store: PostgresJournal, admin: psycopg.Connection
) -> None:
    admin.execute(MANY_WAITING)
    admin.execute("ANALYZE runs")
    assert store.create(first("run")._replace(due=NOW), "p", "a", 0.0)
    seen: list[str] = []
    rows = store._connection.rows

    def explained(statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        plan = rows("EXPLAIN (ANALYZE, FORMAT JSON) " + statement, values)
        seen.append(json.dumps(plan))
        return [("run", 2, NOW, NOW, 1)]

    with patch.object(store._connection, "rows", explained):
        store.claim("h", NOW, TTL, 4, ["p"], {"other": 1})
    assert "runs_due" in seen[0]
    assert '"Seq Scan"' not in seen[0]


def test_a_connection_lost_between_calls_is_opened_again(store: PostgresJournal, admin: psycopg.Connection) -> None:
    run, fence = created(store)
    held = entries(1)
    for _ in range(3):
        terminate(admin, store)
        batch = following(held, 2)
        store.append(behind(run, held, batch), fence)
        held += batch
        terminate(admin, store)
        assert store.read(run) == held
    terminate(admin, store)
    assert store.create(first(run), "p", "a", TTL) is None


class Wire:
    """A way to the server that loses the answers to the next appends: they happen, and nobody hears of it."""

    def __init__(self, conninfo: str) -> None:
        where = conninfo_to_dict(conninfo)
        self._server = (str(where["host"]), int(str(where["port"])))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.conninfo = make_conninfo(conninfo, port=self._listener.getsockname()[1], sslmode="disable")
        self.losing = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            while True:
                for end in select.select([client, server], [], [])[0]:
                    data = end.recv(1 << 16)
                    (server if end is client else client).sendall(data)
                    if end is client and self.losing and b"INSERT INTO records" in data:
                        self.losing -= 1
                        server.recv(1 << 16)
                        data = b""
                    if not data:
                        return


@pytest.fixture
def wire(postgres: Place) -> Wire:
    return Wire(postgres.conninfo)


@pytest.fixture
def far(wire: Wire, postgres: Place) -> PostgresJournal:
    return PostgresJournal(wire.conninfo, schema=postgres.schema)


def test_an_append_whose_answer_was_lost_happens_once(wire: Wire, far: PostgresJournal) -> None:
    wire.losing = 1
    run, fence = created(far)
    assert far.read(run) == entries(1)
    wire.losing = 1
    far.append(behind(run, entries(1), following(entries(1), 2)), fence)
    assert wire.losing == 0, "no answer was lost"
    assert far.read(run) == entries(3)


def test_an_append_whose_answer_was_lost_knows_its_own_entries_among_equal_ones(
    wire: Wire, far: PostgresJournal, store: PostgresJournal
) -> None:
    run, _ = created(store)
    batch = following(entries(1), 2)
    store.append(behind(run, entries(1), batch), None)
    wire.losing = 1
    with pytest.raises(AppendConflict):
        far.append(behind(run, entries(1), batch), None)
    assert wire.losing == 0, "no answer was lost"


def test_an_answer_that_was_lost_twice_says_that_nobody_knows(
    wire: Wire, far: PostgresJournal, store: PostgresJournal
) -> None:
    run, fence = created(store)
    wire.losing = 2
    with pytest.raises(JournalError, match="lost twice; what was asked for may have happened: read the run before"):
        far.append(behind(run, entries(1), following(entries(1), 2)), fence)
    assert far.read(run) == entries(3)


def test_leases_only_rise_when_connections_are_lost(store: PostgresJournal, admin: psycopg.Connection) -> None:
    run, fence = created(store)
    terminate(admin, store)
    lease = store.acquire(run, "a", NOW, TTL)
    assert lease is not None
    assert lease.fence > fence
    terminate(admin, store)
    assert store.renew(lease, NOW, 2 * TTL) == lease._replace(expires=NOW + 2 * TTL)
    terminate(admin, store)
    store.release(lease)
    assert store.acquire(run, "b", NOW, TTL) == Lease(run, lease.fence + 1, NOW + TTL)


def test_a_fork_does_not_share_the_connection(store: PostgresJournal) -> None:
    run, _ = created(store)
    pid = os.fork()
    if pid == 0:
        refusals = 0
        for call in (lambda: store.read(run), store.close, lambda: store.vault.erase(run)):
            try:
                call()
            except JournalError as error:
                refusals += "was opened by another process; open it again after a fork" in str(error)
        os._exit(refusals)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert store.read(run) == entries(1)


def test_what_is_durable_waits_for_the_disk_and_the_rest_does_not(
    store: PostgresJournal, admin: psycopg.Connection
) -> None:
    run, fence = created(store)
    admin.execute("CREATE TABLE heard (setting text)")
    admin.execute("""CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO heard VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$""")
    admin.execute("CREATE TRIGGER hear AFTER INSERT ON records EXECUTE FUNCTION hear()")
    for size, durable in ((1, True), (2, False), (3, True)):
        store.append(behind(run, entries(size), following(entries(size), 1), durable=durable), fence)
    assert admin.execute("SELECT * FROM heard").fetchall() == [("on",), ("off",), ("on",)]
    assert store._connection._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_change_behind_the_back_of_the_store_is_told(store: PostgresJournal, admin: psycopg.Connection) -> None:
    run, fence = created(store)
    admin.execute("UPDATE records SET seq = 1")
    before = store.head(run)
    with pytest.raises(JournalError, match="somebody else has written into the schema"):
        store.append(behind(run, entries(1), following(entries(1), 1)), fence)
    assert store.head(run) == before


def test_rows_that_an_old_transaction_sees_are_not_called_destroyed(
    store: PostgresJournal, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.3)
    store.vault.put("run", {"a": b"1"})
    with admin.transaction():
        admin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        admin.execute("SELECT 1")
        with pytest.raises(JournalError, match="deleted but not destroyed: a transaction that began before still sees"):
            store.vault.erase("run")
        assert store.vault.get("run") == {}
    store.vault.erase("run")


def test_an_erased_value_is_in_no_file_of_the_database(store: PostgresJournal, admin: psycopg.Connection) -> None:
    (folder,) = admin.execute("""SELECT current_setting('data_directory') || '/base/' || oid
        FROM pg_database WHERE datname = current_database()""").fetchone() or ("",)
    if not os.access(folder, os.R_OK | os.X_OK):
        pytest.skip("the files of the server can't be looked at")
    secrets = {size: os.urandom(size // 2).hex().encode() for size in (64, 6_000, 60_000)}
    store.vault.put("other", {"a": b"the other's value"})
    store.vault.put("run", {str(size): value for size, value in secrets.items()})

    def holding() -> set[int]:
        admin.execute("CHECKPOINT")
        contents = [file.read_bytes() for file in Path(folder).iterdir()]
        return {size for size, value in secrets.items() if any(value[:30] in content for content in contents)}

    assert holding() == set(secrets)
    assert store.vault.erase("run") == 3
    assert holding() == set()
    assert store.vault.get("other") == {"a": b"the other's value"}


def message(conninfo: str, **options: object) -> str:
    with pytest.raises(JournalError) as caught:
        PostgresJournal(conninfo, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_without_create_nothing_is_made(postgres: Place) -> None:
    expected = f"there is no journal in the schema `{postgres.schema}` of the PostgreSQL database"
    assert message(postgres.conninfo, schema=postgres.schema, create=False) == expected
    with psycopg.connect(postgres.conninfo) as connection:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
        assert connection.execute(query, (postgres.schema,)).fetchone() == (0,)
    run, _ = created(PostgresJournal(postgres.conninfo, schema=postgres.schema))
    again = PostgresJournal(postgres.conninfo, schema=postgres.schema, create=False)
    assert picture(again, run)[0] == entries(1)


def test_a_schema_of_something_else_is_refused_and_left_as_it_was(postgres: Place, admin: psycopg.Connection) -> None:
    admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(postgres.schema)))
    admin.execute("CREATE TABLE documents (of_mine text)")
    why = 'relation "documents" already exists; name a schema that contains nothing else'
    expected = f"the journal in PostgreSQL can't be opened: {why}"
    assert message(postgres.conninfo, schema=postgres.schema) == expected
    query = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
    assert admin.execute(query, (postgres.schema,)).fetchone() == (1,)


def test_a_newer_layout_is_refused(postgres: Place, store: PostgresJournal, admin: psycopg.Connection) -> None:
    admin.execute("UPDATE layout SET version = 9")
    expected = f"the schema `{postgres.schema}` was written by a newer version; update Stepward"
    assert message(postgres.conninfo, schema=postgres.schema) == expected


def test_a_role_that_may_not_is_told(postgres: Place, admin: psycopg.Connection) -> None:
    role = f"role_{postgres.schema.split(chr(34))[1]}"
    admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        expected = "the journal in PostgreSQL can't be opened: permission denied for database "
        refusal = message(make_conninfo(postgres.conninfo, user=role), schema=postgres.schema)
        assert refusal.startswith(expected)
        assert refusal.endswith("; grant it to the role")
    finally:
        admin.execute(f"DROP ROLE {role}".encode())


def test_a_server_that_does_not_answer_is_told_without_the_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    refusal = message(f"host=127.0.0.1 port={port} user=a password=extremely-secret")
    assert refusal.startswith("the journal in PostgreSQL can't be opened: connection ")
    assert refusal.endswith("; look whether the server runs, and whether its address is right")
    assert "secret" not in refusal


def test_without_psycopg_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from stepward.vm.journal.postgres import PostgresJournal
PostgresJournal("")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "install Stepward with its extra: `pip install 'stepward[postgres]'`" in done.stderr.splitlines()[-1]


def test_an_erasure_waits_for_values_that_are_being_put(store: PostgresJournal, admin: psycopg.Connection) -> None:
    values = {"run": "run", "references": ["a"], "values": [b"<the value>"]}
    counts: list[int] = []
    erasing = threading.Thread(target=lambda: counts.append(store.vault.erase("run")))
    with admin.transaction():
        admin.execute(module._PUT.encode(), values)
        erasing.start()
        waits = b"SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        while admin.execute(waits).fetchone() is None:
            assert erasing.is_alive(), "the erasure did not wait"
    erasing.join(60)
    assert counts == [1]
    assert store.vault.get("run") == {}
    with pytest.raises(LeaseLost, match="the values of run `run` were erased"):
        store.vault.put("run", {"b": b"later"})
    assert admin.execute("SELECT reference FROM secrets").fetchall() == [("",)]
