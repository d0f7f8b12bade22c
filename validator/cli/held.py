"""What commands that drive runs have for breakers: an option, and a word for a run that one holds."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stepward.vm.machine.run import Run

break_option = click.option(
    "--break-after",
    type=click.IntRange(1),
    metavar="N",
    help="Open the breaker of a tool after N failures in a row (`stepward breaker`).",
)


def say_held(run: Run) -> None:
    """Say on standard error if a breaker holds a run, and how it goes on."""
    if run.held_by is not None:
        from stepward.validator.report.text import safe

        command = f"stepward breaker close {shlex.quote(run.held_by)}"
        click.echo(
            f"held: breaker `{safe(run.held_by)}` is open; after `{safe(command)}` the run is due again", err=True
        )
