"""`stepward runs copy`: copies a journal into another one, for a backup, a restoration or a move."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import ExitStack, closing
from typing import Any

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
    with ExitStack() as stack:
        stack.enter_context(explained())
        source = stack.enter_context(closing(open_journal(options["journal"], locked=True)))
        opened = stack.enter_context(closing(open_journal(target, create=True, locked=True)))
        from stepward.vm.journal.copying import copy_runs
        from stepward.vm.machine.stored_due import stored_due

        for one in copy_runs(source, opened, stored_due(source)):
            if one.why is None:
                runs, records = runs + 1, records + one.records
            else:
                left.append({"run": one.run, "why": one.why})
    if options["output_format"] == "json":
        print_json({"version": 1, "runs": runs, "records": records, "left": left})
    else:
        for fault in left:
            click.echo(f"left: run `{safe(fault['run'])}`: {safe(fault['why'])}", err=True)
        click.echo(f"{counted(runs, 'run')} in `{safe(without_password(target))}`, {counted(records, 'record')} copied")
    sys.exit(1 if left else 0)


def _is_same(target: str, journal: str) -> bool:
    if "://" in target or "://" in journal:
        return target == journal
    return os.path.realpath(target) == os.path.realpath(journal)
