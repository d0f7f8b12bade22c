"""`stepward coverage`: which steps, branches and error routes of a program no run of a journal has taken."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import (
    MachineError,
    explained,
    format_option,
    history_of,
    journal_option,
    open_journal,
    print_report,
)
from stepward.validator.cli.output import json_of
from stepward.validator.cli.ranges import FILE, Real
from stepward.validator.cli.written import Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepward.vm.journal.store import Journal
    from stepward.vm.trace import AnyRecord

BELOW, NO_RUN = 1, 3


@click.command()
@click.argument("program", type=FILE)
@journal_option
@format_option
@click.option(
    "--output-file", cls=Written, type=FILE, metavar="FILE", help="The file to write, instead of standard output."
)
@click.option("--fail-under", type=Real(0, 100), metavar="PERCENT", help="Exit with 1 below this.")
@click.option("--program", "name", metavar="NAME", help="The name of the program, if the file has several.")
def coverage(program: Path, journal: str, name: str | None, **options: Any) -> None:
    """Show which steps, branches and error routes of PROGRAM the runs of a journal have taken.

    Exits with 0, with 1 below `--fail-under`, with 2 when the command can't be used, with 3 when the journal has no run
    of this program.
    """
    from stepward.validator.cli.loading import load_program
    from stepward.validator.coverage import coverage_of
    from stepward.validator.files import absolute, shown_name
    from stepward.validator.report.coverage import render, to_data
    from stepward.vm.errors import ProgramError

    loaded = load_program(program, name)
    with explained(), closing(open_journal(journal)) as opened:
        try:
            result = coverage_of(loaded, _traces(opened), shown_name(absolute(program)))
        except ProgramError as error:
            help = "`stepward check` says what to fix"
            raise MachineError(f"no machine can run `{loaded.name}`: {error.problems[0].message}", help) from None
    if not result.runs:
        others = f"; {result.others} are of other programs, or of other versions of it" if result.others else ""
        help = "run this program with `--journal`, as the file has it now"
        print_nothing(f"`{journal}` has no run of `{loaded.name}`{others}", help)
    as_text = options["output_format"] == "text"
    print_report(lambda _: render(result) if as_text else json_of(to_data(result)), options["output_file"])
    least = options["fail_under"]
    if least is not None and result.percent < least:
        click.echo(f"error: the coverage is below {least:g} %", err=True)
        sys.exit(BELOW)


def print_nothing(message: str, help: str) -> None:
    """Say that nothing was measured, and exit."""
    from stepward.validator.cli.output import print_error

    print_error(message, help)
    sys.exit(NO_RUN)


def _traces(journal: Journal) -> Iterator[tuple[AnyRecord, ...]]:
    from stepward.vm.machine.runs import run_of

    for run in journal.names():
        yield run_of(history_of(journal, run)).trace
