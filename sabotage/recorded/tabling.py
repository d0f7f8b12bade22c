"""Tables of cases, which scenes deal out among them, and what a case comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from stepward.sabotage.recorded.notes import Notes


class Table(NamedTuple):
    """Cases, and what shows one: it returns what is noted. `cases` is asked once."""

    name: str
    cases: Callable[[], Iterable[tuple[Any, ...]]]
    show: Callable[..., Any]


STEP: Final = 7
"""Rows of a scene are this many scenes apart, so that neighbours in a table are in different scenes."""


def show_tables(notes: Notes, tables: Sequence[Table], seed: str, scenes: int) -> None:
    """Show the cases of a scene, by the number at the end of its seed."""
    number = int(seed.rpartition(" ")[2])
    for at, table in enumerate(tables):
        for case in _cases(table)[(number + STEP * at) % scenes :: scenes]:
            try:
                found = table.show(*case)
            except Exception as error:
                notes.add(table.name, case)
                notes.add_error(error)
            else:
                notes.add(table.name, case, found)


def outcome(work: Callable[[], Any]) -> Any:
    """Return what a call comes to, or its error."""
    try:
        return work()
    except Exception as error:
        own = type(error).__module__.startswith("stepward.")
        return f"{type(error).__name__}: {error}" if own else type(error).__name__


@cache
def _cases(table: Table) -> tuple[tuple[Any, ...], ...]:
    return tuple(table.cases())
