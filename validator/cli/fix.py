"""`stepward check --fix` and `--diff`: findings are fixed, or their fixes are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stepward.validator.findings import Finding
    from stepward.validator.gate.fixing import FixedFile
    from stepward.validator.gate.settings import Configurations
    from stepward.validator.result import RunResult


def show_diff(result: RunResult, configurations: Configurations) -> int:
    """Print what `--fix` would change, and return the exit status: 1 if there is a change, else 0."""
    from stepward.validator.gate.fixing import fixed_files, unified_diff

    fixed = fixed_files(result, _check(configurations))
    for one in fixed:
        # As bytes: the encoding or the line ends of a terminal would change the diff.
        sys.stdout.buffer.write(unified_diff(one).encode())
    sys.stdout.flush()
    click.echo(f"would fix {_counted(fixed)}" if fixed else "nothing to fix", err=True)
    return 1 if fixed else 0


def fix(result: RunResult, configurations: Configurations) -> bool:
    """Write the files that all fixes change, print their number, and return whether there is one."""
    from stepward.validator.gate.fixing import fixed_files, write_fixed

    written = []
    for one in fixed_files(result, _check(configurations)):
        why = write_fixed(one)
        if why is None:
            written.append(one)
        else:
            click.echo(f"warning: `{one.file}` is not fixed: {why}", err=True)
    click.echo(f"fixed {_counted(written)}" if written else "nothing fixed", err=True)
    return bool(written)


def _check(configurations: Configurations) -> Callable[[str, str], Sequence[Finding]]:
    from stepward.validator.gate.checking import Run

    def check(file: str, text: str) -> Sequence[Finding]:
        run = Run(configurations, with_fixes=True)
        run.check_text(text.encode(), file)
        return run.result().findings

    return check


def _counted(fixed: list[FixedFile]) -> str:
    from stepward.validator.report.text import counted

    return f"{counted(sum(one.count for one in fixed), 'finding')} in {counted(len(fixed), 'file')}"
