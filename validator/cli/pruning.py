"""`stepward runs prune`: removes old runs, and keeps of each what a receipt needs."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import closing
from typing import Any

import click

from stepward.validator.cli.machine import (
    by_option,
    explained,
    format_option,
    journal_option,
    key_option,
    load_means,
    open_journal,
    print_json,
)
from stepward.validator.cli.run_lists import since


@click.command()
@click.option(
    "--older-than", "limit", required=True, metavar="TIME", help="Runs that ended before: `2026-07-01`, `36h`, `90d`."
)
@click.option("--program", metavar="NAME", help="Only runs of this program.")
@click.option("--apply", "applies", is_flag=True, help="Prune; without it, only say which runs would be pruned.")
@by_option
@key_option
@journal_option
@format_option
def prune(limit: str, program: str | None, applies: bool, **options: Any) -> None:
    """Remove the records and sensitive values of old runs.

    Only runs that have ended are pruned, and none on which a later run stands that stays: one that continues it, or the
    next turn of its session. The digests of the records are kept, so receipts can still be verified, and so is the id:
    no other run ever gets it. Without `--apply` nothing is changed.

    Exit status: 0 done, 1 some runs can't be read or have changed meanwhile, 2 the command can't be used.
    """
    from stepward.validator.report.text import counted, safe

    gc.enable()
    before = since(limit, time.time(), "--older-than")
    with explained(), closing(open_journal(options["journal"])) as journal:
        machine = load_means(options).machine(journal)
        if applies:
            found = machine.prune_sync(before, program=program, by=options["by"])
        else:
            found = machine.prunable_sync(before, program=program)
    going = [one.run for one in found if one.why is None]
    stays = [one for one in found if one.why is not None]
    if options["output_format"] == "json":
        left = [{"run": one.run, "why": one.why} for one in stays]
        print_json({"version": 1, "applied": applies, "pruned": going, "left": left})
    else:
        for one in stays:
            click.echo(f"left: run `{safe(one.run)}`: {safe(str(one.why))}", err=True)
        if not applies:
            click.echo("".join(f"{safe(run)}\n" for run in going), nl=False)
        click.echo(f"{counted(len(going), 'run')} {'pruned' if applies else 'to prune; add `--apply`'}")
    sys.exit(1 if any(one.is_fault for one in stays) else 0)
