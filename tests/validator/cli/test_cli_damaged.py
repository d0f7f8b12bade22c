"""Slow in part: a column of a journal or its vault holds what it can't: an answer or an error, no sensitive value."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from shops import GIVEN, MAIL, crashed, database, shop, stepward

pytestmark = pytest.mark.usefixtures("in_shop", "warm")

ODD: Final = {
    "nothing": "NULL",
    "a text": "'odd'",
    "a text that is no UTF-8": "CAST(x'ff6f6464' AS TEXT)",
    "bytes": "x'ff00'",
    "infinity": "9e999",
    "more than a date": "1e300",
    "less than a date": "-9e999",
    "a negative number": "-1e300",
    "a number": "7",
    "itself as a text": "CAST({column} AS TEXT)",
}
"""What is put into columns, as expressions of SQL."""

COMMANDS: Final = (
    ("runs",),
    ("runs", "--output-format", "json"),
    ("runs", "wait"),
    ("verify", "runs.db"),
    ("runs", "recover", *GIVEN),
    ("breaker", "list", "--all"),
    ("worker", "--journal", "runs.db", "--programs", "programs", "--once", *GIVEN),
)

FILES: Final = ("runs.db", "runs.db.vault")


@pytest.fixture
def journal(in_shop: None) -> None:
    """Make a journal with runs that ended, wait, are in doubt and crashed, and with a breaker, and a copy of it."""
    assert shop("--run-id", "ended").exit_code == 0
    assert shop("--run-id", "wait", amount=60).exit_code == 4
    assert shop("--run-id", "doubt", amount=7).exit_code == 4
    crashed("crashed", 9)
    assert stepward("breaker", "open", "tool:pay", "--why", "it fails", "--by", "ann").exit_code == 0
    Path("programs").mkdir()
    shutil.copy("shop.yaml", "programs")
    for file in FILES:
        shutil.copy(file, f"good.{file}")


def damaged(table: str, column: str, value: str) -> bool:
    """Put a value into a column of the whole table of a fresh copy, and return whether its type lets it."""
    for file in FILES:
        for beside in ("-wal", "-shm"):
            Path(file + beside).unlink(missing_ok=True)
        shutil.copy(f"good.{file}", file)
    where = " WHERE run = 'wait'" if column in ("run", "seq") else ""
    try:
        with database(FILES[table == "secrets"]) as connection:
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {value.format(column=column)}{where}")
    except sqlite3.IntegrityError:
        return False
    return True


def outputs(table: str, column: str, value: str) -> Iterator[tuple[str, str, int]]:
    """Yield what each command says of a damaged copy, and its exit status; `stepward` fails for an internal error."""
    for command in COMMANDS:
        if damaged(table, column, value):
            result = stepward(*command)
            yield " ".join(command), result.output, result.exit_code


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("column", ["run", "reference", "value"])
def test_no_message_about_a_vault_shows_what_is_in_it(column: str) -> None:
    for what, value in ODD.items():
        for command, output, status in outputs("secrets", column, value):
            assert MAIL not in output, (what, command)
            if column == "value" and command.startswith("verify"):
                assert status == 1, what
                assert "is neither in the vault nor erased" in output or "is not the one that was put there" in output


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("runs", column) for column in ("run", "program", "status", "seq", "digest", "started", "updated")),
        *(("runs", column) for column in ("holder", "fence", "expires", "due", "kept", "held")),
        *(("records", column) for column in ("run", "seq", "record", "digest")),
        *(("documents", column) for column in ("digest", "text")),
        *(("switches", column) for column in ("number", "name", "is_open", "at", "why", "by")),
    ],
)
def test_no_column_of_a_journal_makes_an_internal_error(table: str, column: str) -> None:
    for what, value in ODD.items():
        for command, output, status in outputs(table, column, value):
            assert MAIL not in output, (what, command)
            assert status in (0, 1, 2, 3, 4), (what, command)


SAID: Final = [
    ("runs", "started", "infinity", ("runs",), "the list is damaged at run `wait`: `started` can't be read"),
    ("runs", "updated", "more than a date", ("runs",), "the list is damaged at run `wait`: `updated` can't be read"),
    ("runs", "started", "infinity", ("verify", "runs.db"), "the list of runs is damaged: `started` can't be read"),
    ("runs", "expires", "infinity", ("runs", "--output-format", "json"), '"leased_until": "9999-12-31T23:59:59'),
    (
        "runs",
        "expires",
        "infinity",
        ("runs", "recover", *GIVEN),
        "its lease is of a clock that was wrong",
    ),
    ("runs", "expires", "infinity", ("runs", "recover", "crashed", *GIVEN), "run `crashed` of `shop`"),
    ("switches", "at", "infinity", ("breaker", "list"), "the list of breakers is damaged: `at` can't be read"),
    ("switches", "why", "bytes", ("breaker", "list"), "the list of breakers is damaged: `why` can't be read"),
]


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(("table", "column", "what", "command", "words"), SAID)
def test_what_can_not_be_read_is_named(
    table: str, column: str, what: str, command: tuple[str, ...], words: str
) -> None:
    assert damaged(table, column, ODD[what])
    assert words in stepward(*command).output


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("what", ["a text", "bytes", "a number"])
def test_a_run_that_was_removed_is_never_due(what: str) -> None:
    assert damaged("runs", "kept", ODD[what])
    assert stepward("runs", "recover", *GIVEN).output.strip() == "0 runs"


ODD_ON_A_SERVER: Final = {
    "nothing": "NULL",
    "a text": "'odd'",
    "bytes": "'\\xff00'::bytea",
    "infinity": "'Infinity'::float8",
    "no number": "'NaN'::float8",
    "more than a date": "1e300",
    "less than a date": "'-Infinity'::float8",
    "a number": "7",
    "true": "true",
}


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
def test_no_column_of_a_journal_in_postgresql_makes_an_internal_error(empty_postgres: str) -> None:
    import psycopg

    where = {name: str(value) for name, value in conninfo_to_dict(empty_postgres).items()}
    url = f"postgresql:///{where.pop('dbname')}?{urlencode(where)}"
    assert stepward("runs", "copy", url, "--journal", "runs.db").exit_code == 0
    assert stepward("breaker", "open", "tool:ask", "--why", "it fails", "--by", "ann", "--journal", url).exit_code == 0
    commands = [
        *(
            ("runs", *more, "--journal", url)
            for more in ([], ["--output-format", "json"], ["wait"], ["recover", *GIVEN])
        ),
        ("verify", url),
        ("breaker", "list", "--all", "--journal", url),
        ("worker", "--journal", url, "--programs", "programs", "--once", *GIVEN),
    ]
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute("SET search_path = stepward")
        tables = ("runs", "records", "documents", "switches", "secrets")
        for table in tables:
            connection.execute(f"CREATE TABLE public.good_{table} AS TABLE {table}".encode())
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'stepward'"
        ).fetchall()
        for table, column in columns:
            for what, value in ODD_ON_A_SERVER.items():
                if table not in tables:
                    continue
                for name in tables:
                    connection.execute(f"TRUNCATE {name}".encode())
                    back = f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM public.good_{name}"
                    connection.execute(back.encode())
                where = " WHERE run = 'wait'" if column in ("run", "seq") else ""
                try:
                    connection.execute(f"UPDATE {table} SET {column} = {value}{where}".encode())
                except psycopg.Error:
                    continue  # the server does not let it
                for command in commands:
                    assert MAIL not in stepward(*command).output, (table, column, what, command)
