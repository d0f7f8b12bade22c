"""The tables of specs/lisp.md: `python -m stepward.vm.lisp.page specs/lisp.md` makes them from the code."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Final

from stepward.vm.lisp.functions.table import rows
from stepward.vm.lisp.limits import Limits
from stepward.vm.lisp.names import refusals

_WRITTEN: Final = re.compile(r"(<!-- (\w+): made by `make docs` -->\n).*?(<!-- end -->)", re.DOTALL)


def functions() -> str:
    """Return a table of the functions for each subject."""
    parts = []
    for subject, found in groupby(rows().values(), key=lambda row: row.subject):
        lines = [f"| `{row.usage}` | {row.doc} |" for row in found]
        parts.append(
            "\n".join([f"**{subject[0].upper()}{subject[1:]}**", "", "| call | what it does |", "|---|---|", *lines])
        )
    return "\n\n".join(parts)


def limits() -> str:
    """Return the table of limits."""
    usual = Limits()
    lines = [
        ("`steps`", f"{usual.steps:,}", "evaluated forms and handled items", "`steps_exceeded`"),
        ("`memory`", f"{usual.memory:,}", "bytes of live data", "`memory_exceeded`"),
        ("`depth`", f"{usual.depth:,}", "evaluations within evaluations", "`depth_exceeded`"),
        ("`seconds`", f"{usual.seconds:g}", "time on the clock", "`timeout`"),
        ("`text`", f"{usual.text:,}", "characters of the program", "`parse_error`"),
        ("`printed`", f"{usual.printed:,}", "characters of `println`", "no error: the rest is cut and counted"),
    ]
    return "\n".join(
        [
            "| limit | usual | what is counted | reason |",
            "|---|---|---|---|",
            *(f"| {' | '.join(line)} |" for line in lines),
        ]
    )


def refused() -> str:
    """Return the table of names that the language refuses."""
    lines = (f"| {', '.join(f'`{name}`' for name in names)} | {instead} |" for instead, names in refusals().items())
    return "\n".join(["| name | instead |", "|---|---|", *lines])


_TABLES: Final = {"functions": functions, "limits": limits, "refused": refused}


def with_tables(page: str) -> str:
    """Return the page with its tables as the code has them."""
    return _WRITTEN.sub(lambda found: f"{found[1]}{_TABLES[found[2]]()}\n{found[3]}", page)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
