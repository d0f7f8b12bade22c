"""How two runs differ, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, cut, safe
from stepward.validator.report.trace import words_of
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.validator.runs.difference import Difference
    from stepward.vm.machine.history import History

MAX_CELL: Final = 60
"""Characters of a value in the table; the JSON has all of them."""

NOTHING: Final = "—"


def render_differences(found: Sequence[Difference], first: History, second: History, *, color: bool = False) -> str:
    """Return the table of the differences between two runs, and where the runs part."""
    one, other = (f"`{safe(run.run)}`" for run in (first, second))
    if not found:
        return f"{one} and {other} do not differ but in times and keys\n"
    columns = [Column("where"), Column(first.run), Column(second.run)]
    rows = [[_where(row), _cell(row, first, 0), _cell(row, second, 1)] for row in found]
    parting = parting_of(found)
    end = "both went the same way"
    if parting is not None:
        end = f"they part at {_event_name(parting)}"
    return f"{render(columns, rows, color=color)}\n{counted(len(found), 'difference')}; {safe(end)}\n"


def parting_of(found: Sequence[Difference]) -> Difference | None:
    """Return the first difference in which the runs go different ways, or None if they went the same way."""
    return next((row for row in found if row.is_of_control), None)


def _event_name(row: Difference) -> str:
    visit = f", visit {row.visit}" if row.visit > 1 else ""
    return f"`{row.step}`{visit}" if row.step else f"the record `{row.event}`"


def _where(row: Difference) -> str:
    name = row.step or row.event
    if row.visit > 1:
        name += f" (visit {row.visit})"
    return f"{name}: {_path_text(row.path)}" if row.path else name


def _path_text(path: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _cell(row: Difference, run: History, which: int) -> str:
    seq = row.seq[which]
    if seq is None or row.missing == which + 1:
        return NOTHING
    text = to_json((row.before, row.after)[which]) if row.path else words_of(run.events[seq])
    return cut(text, MAX_CELL)


def difference_words(path: Sequence[str | int], before: Any, after: Any, missing: int) -> str:
    """Return in words what was changed in a record: where, from what, to what."""
    one, other = (
        NOTHING if missing == side else cut(json.dumps(value, ensure_ascii=False), MAX_CELL)
        for side, value in ((1, before), (2, after))
    )
    return f"{_path_text(path)}: {one} → {other}"


def differences_data(found: Sequence[Difference], first: History, second: History) -> dict[str, Any]:
    """Return the differences between two runs as plain data."""
    parting = parting_of(found)
    return {
        "version": 1,
        "runs": [{"id": run.run, "trace_hash": run.state.trace.hex()} for run in (first, second)],
        "same": not found,
        "parting": None if parting is None else found.index(parting),
        "differences": [
            {
                "event": row.event,
                "step": row.step or None,
                "visit": row.visit or None,
                "seq": list(row.seq),
                "path": list(row.path),
                "values": [row.before, row.after],
                "missing_in": (None, *(run.run for run in (first, second)))[row.missing],
            }
            for row in found
        ],
    }
