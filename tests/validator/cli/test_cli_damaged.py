"""Slow in part: a column of a journal or its vault holds what it can't: an answer or an error, no sensitive value."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from shops import GIVEN, MAIL, crashed, database, shop, stepward

pytestmark = pytest.mark.usefixtures("in_shop", "warm")

ODD: Final = {
    "nothing": "NULL",
    "a text": "'odd'",
    "a text that is no UTF-8": "CAST(x'ff6f6464' AS TEXT)",
    "bytes": "x'ff00'",
    "infinity": "9e999",
    "more than a date": "1e300",
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
    ("worker", "--once", *GIVEN),
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
