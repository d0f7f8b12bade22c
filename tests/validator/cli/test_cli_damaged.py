"""Slow in part: a column of a journal or its vault holds what it can't: an answer or an error, no sensitive value.

By day each two of column, value and command meet; with `STEPWARD_MANY=1` all three.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from shops import GIVEN, MAIL, crashed, database, open_shop, shop, stepward
from sizes import square_by_day

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


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a journal of runs that ended, wait, are in doubt and crashed, and with a breaker."""
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        open_shop(folder, patch)
        assert shop("--run-id", "ended").exit_code == 0
        assert shop("--run-id", "wait", amount=60).exit_code == 4
        assert shop("--run-id", "doubt", amount=7).exit_code == 4
        crashed("crashed", 9)
        assert stepward("breaker", "open", "tool:pay", "--why", "it fails", "--by", "ann").exit_code == 0
    Path(folder, "programs").mkdir()
    shutil.copy(folder / "shop.yaml", folder / "programs")
    return folder


@pytest.fixture
def journal(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go into a folder with that journal, and a copy of it."""
    shutil.copytree(good, tmp_path, dirs_exist_ok=True)
    open_shop(tmp_path, monkeypatch)
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


class Case(NamedTuple):
    """A column of a table, what is put into it, and the command that is asked then."""

    table: str
    column: str
    what: str
    command: tuple[str, ...]


def cases(
    columns: Collection[tuple[str, str]], values: Collection[str], commands: Collection[tuple[str, ...]]
) -> list[Case]:
    """Return all cases; by day those in which each two meet."""
    return [Case(*column, what, command) for column, what, command in square_by_day(columns, values, commands)]


COLUMNS: Final = [
    *(("runs", column) for column in ("run", "program", "status", "seq", "digest", "started", "updated")),
    *(("runs", column) for column in ("holder", "fence", "expires", "due", "kept", "held")),
    *(("records", column) for column in ("run", "seq", "record", "digest")),
    *(("documents", column) for column in ("digest", "text")),
    *(("switches", column) for column in ("number", "name", "is_open", "at", "why", "by")),
    *(("secrets", column) for column in ("run", "reference", "value")),
]


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_column_of_a_journal_makes_an_internal_error(table: str, column: str) -> None:
    """`stepward` fails for an internal error."""
    for case in cases(COLUMNS, ODD, COMMANDS):
        if (case.table, case.column) == (table, column) and damaged(table, column, ODD[case.what]):
            result = stepward(*case.command)
            assert MAIL not in result.output, case
            assert result.exit_code in (0, 1, 2, 3, 4), case


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("what", ODD)
def test_a_vault_with_another_value_is_not_verified(what: str) -> None:
    if damaged("secrets", "value", ODD[what]):
        result = stepward("verify", "runs.db")
        assert result.exit_code == 1
        assert MAIL not in result.output
        assert any(
            words in result.output
            for words in ("is neither in the vault nor erased", "is not the one that was put there")
        )


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
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'stepward' AND table_name = ANY(%s) ORDER BY 1, ordinal_position",
            [list(tables)],
        ).fetchall()
        for case in cases(columns, ODD_ON_A_SERVER, commands):
            for name in tables:
                connection.execute(f"TRUNCATE {name}".encode())
                back = f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM public.good_{name}"
                connection.execute(back.encode())
            where = " WHERE run = 'wait'" if case.column in ("run", "seq") else ""
            value = ODD_ON_A_SERVER[case.what]
            try:
                connection.execute(f"UPDATE {case.table} SET {case.column} = {value}{where}".encode())
            except psycopg.Error:
                continue  # the server does not let it
            assert MAIL not in stepward(*case.command).output, case
