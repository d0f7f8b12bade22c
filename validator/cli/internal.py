"""Messages of commands about internal errors."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click

from stepward.validator.cli.output import print_error
from stepward.validator.failures import REPORT_IT, Failure


def print_failures(failures: Iterable[Failure]) -> None:
    """Print on standard error which parts internal errors ended, without those that a report has."""
    for line in dict.fromkeys(f"{one.part}: {one.error} ({one.place})" for one in failures):
        print_error(f"an internal error ended {line}", REPORT_IT)


def show_tracebacks(failures: Iterable[Failure]) -> None:
    """Print the tracebacks of internal errors on standard error, where the environment asks for them."""
    if os.environ.get("STEPWARD_DEBUG") == "1":
        for one in failures:
            click.echo(f"{one.part}:\n{one.traceback}", err=True)
