"""A table of text: aligned with spaces for pipes and files, by rich on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stepward.validator.report.text import columns_of, safe

_GAP: Final = "  "


class Column(NamedTuple):
    """A column: its heading, and whether its cells are numbers, which are aligned to the right."""

    heading: str
    is_number: bool = False


def render(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, color: bool = False) -> str:
    """Return a table without its empty columns; with `color`, as wide as the terminal."""
    used = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    shown = [columns[number] for number in used]
    cells = [[safe(row[number]) for number in used] for row in rows]
    return _rich(shown, cells) if color else _plain(shown, cells)


def _plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    lines = [[column.heading for column in columns], *rows]
    widths = [max(columns_of(line[number]) for line in lines) for number in range(len(columns))]
    return "".join(_line(line, columns, widths) for line in lines)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - columns_of(cell))
        padded.append(space + cell if column.is_number else cell + space)
    return _GAP.join(padded).rstrip() + "\n"


def _rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        justify = "right" if column.is_number else "left"
        # Only details may be wrapped.
        table.add_column(column.heading, justify=justify, no_wrap=column.heading != "detail", overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    out = StringIO()
    Console(file=out, force_terminal=True, width=Console().width, highlight=False).print(table)
    return out.getvalue().lstrip("\n")


_GOOD, _BAD, _WAITS = "green", "bold red", "yellow"
_STYLES: Final = {
    "SUCCESS": _GOOD,
    "FAILED": _BAD,
    "BUDGET_EXCEEDED": _BAD,
    "STALLED": _BAD,
    "CANCELLED": _BAD,
    "SUSPENDED": _WAITS,
    "IN_DOUBT": _WAITS,
    "RUNNING": _WAITS,
    "success": _GOOD,
    "failed": _BAD,
    "blocked": _BAD,
    "rejected": _BAD,
    "in doubt": _WAITS,
    "suspended": _WAITS,
}
