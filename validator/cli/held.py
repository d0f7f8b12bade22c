"""What commands that drive runs have for breakers: an option, and a word for a run that one holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import Whole

if TYPE_CHECKING:
    from stepward.vm.machine.run import Run

break_option = click.option(
    "--break-after",
    type=Whole(1),
    metavar="N",
    help="Open the breaker of a tool after N failures in a row (`stepward breaker`).",
)


def say_held(run: Run) -> None:
    """Say on standard error if a breaker holds a run, and how it goes on."""
    if run.held_by is not None:
        from stepward.validator.report.text import safe

        close = command("breaker close", run.held_by, "--why", "TEXT", "--by", "NAME")
        click.echo(f"held: breaker `{safe(run.held_by)}` is open; after `{safe(close)}` the run is due again", err=True)
