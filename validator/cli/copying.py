"""`stepward runs copy`: copies a journal into another one, for a backup, a restoration or a move."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import (
    MachineError,
    explained,
    format_option,
    journal_option,
    open_journal,
    print_json,
)
from stepward.validator.cli.printed import without_password
from stepward.validator.cli.written import SIDES, is_same_file

if TYPE_CHECKING:
    from stepward.vm.journal.copying import Copied


@click.command()
@click.argument("target", metavar="TARGET")
@journal_option
@format_option
def copy(target: str, **options: Any) -> None:
    """Copy all runs of the journal into the journal TARGET.

    TARGET is a SQLite file or `postgresql://…`, and is made if it does not exist. The copy is of one moment, and runs
    may go on meanwhile. It has programs, policies, signatures and sensitive values; encrypted ones stay encrypted, and
    their keys are not copied. Each run is checked. A second copy into the same TARGET adds what is new.

    Exit status: 0 every run is in the TARGET, 1 some are not, 2 the command can't be used.
    """
    from stepward.validator.report.text import counted, safe

    gc.enable()
    runs = records = 0
    left: list[dict[str, str]] = []
    if _is_same(target, options["journal"]):
        raise MachineError("a journal can't be copied into itself", "name another TARGET")
    is_new = "://" not in target and not os.path.exists(target)
    try:
        for one in _copied(target, options["journal"]):
            if one.why is None:
                runs, records = runs + 1, records + one.records
            else:
                left.append({"run": one.run, "why": one.why})
    except BaseException:
        if is_new and not runs:
            _remove(target)
        raise
    if options["output_format"] == "json":
        print_json({"version": 1, "runs": runs, "records": records, "left": left})
    else:
        for fault in left:
            click.echo(f"left: run `{safe(fault['run'])}`: {safe(fault['why'])}", err=True)
        click.echo(f"{counted(runs, 'run')} in `{safe(without_password(target))}`, {counted(records, 'record')} copied")
    sys.exit(1 if left else 0)


def _copied(target: str, journal: str) -> Iterator[Copied]:
    """Copy all runs, and yield what came of each; raises MachineError."""
    from stepward.vm.journal.copying import copy_runs
    from stepward.vm.machine.stored_due import stored_due

    with (
        explained(),
        closing(open_journal(journal, locked=True)) as source,
        closing(open_journal(target, create=True, locked=True)) as opened,
    ):
        yield from copy_runs(source, opened, stored_due(source))


def _remove(target: str) -> None:
    """Remove a new file into which nothing could be copied, as on a full disk: it would look like a copy."""
    for end in ("", "-wal", "-shm", ".vault"):
        with suppress(OSError):
            os.remove(f"{target}{end}")


def _is_same(target: str, journal: str) -> bool:
    if "://" in target or "://" in journal:
        return target == journal
    return any(is_same_file(target, f"{journal}{side}") for side in SIDES)
