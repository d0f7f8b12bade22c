"""Parts of `stepward runs` that read records: how two runs differ, runs for other tools, a run as it goes on."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import (
    MachineError,
    complete_runs,
    explained,
    format_option,
    history_of,
    journal_option,
    open_journal,
    print_json,
)
from stepward.validator.cli.output import json_of, uses_color, write_output
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE
from stepward.validator.cli.run_lists import filters, since
from stepward.validator.cli.streams import is_unread
from stepward.validator.cli.written import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepward.vm.journal.store import Journal

DIFFERENT: Final = 1

PAUSE: Final = 0.25
"""Seconds between two looks at a run that is followed."""


@click.command()
@click.argument("first", metavar="A", shell_complete=complete_runs)
@click.argument("second", metavar="B", shell_complete=complete_runs)
@journal_option
@click.option("--other-journal", metavar="FILE", help="The journal of B, if it is in another one.")
@format_option
def diff(first: str, second: str, journal: str, other_journal: str | None, output_format: str) -> None:
    """Show what differs between the runs A and B.

    It compares their terms and inputs, their steps in order, and every value. Times, durations and keys are left out,
    and a sensitive value is equal to any other. Exits with 0 if nothing differs, with 1 if something does.
    """
    from stepward.validator.report.difference import differences_data, render_differences
    from stepward.validator.report.trace import trace_data
    from stepward.validator.runs.difference import differences

    with explained(), closing(open_journal(journal)) as opened:
        one = history_of(opened, first)
        if other_journal is None:
            other = history_of(opened, second)
        else:
            with closing(open_journal(other_journal)) as also_opened:
                other = history_of(also_opened, second)
        found = differences(trace_data(one), trace_data(other))
    if output_format == "json":
        print_json(differences_data(found, one, other))
    else:
        color = uses_color()
        click.echo(render_differences(found, one, other, color=color), nl=False, color=color)
    sys.exit(DIFFERENT if found else 0)


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=complete_runs)
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "otlp", "chrome"]), default="jsonl", show_default=True,
    help="One record a line; spans as OTLP in JSON; trace events for Perfetto.",
)  # fmt: skip
@click.option(
    "-o", "--output", cls=Written, type=FILE, metavar="FILE", help="The file to write, instead of standard output."
)
@click.option("--values", is_flag=True, help="Spans with inputs, arguments and outputs, but never sensitive ones.")
@filters
@journal_option
def export(
    runs: tuple[str, ...], form: str, output: Path | None, values: bool, statuses: tuple[str, ...], **options: Any
) -> None:
    """Write runs in a format of other tools.

    Without RUN it writes all runs, or those that the options choose. `otlp` can be sent to any OpenTelemetry collector,
    and `chrome` opens in Perfetto.
    """
    chosen = {name: options[name] for name in ("program", "since", "limit")}
    if runs and (statuses or any(option is not None for option in chosen.values())):
        raise click.UsageError("name runs, or choose them with options: not both")
    if values and form == "jsonl":
        raise click.UsageError("--values is for spans; records have their values always")
    chosen["since"] = None if options["since"] is None else since(options["since"], time.time())
    with explained(), closing(open_journal(options["journal"])) as journal:
        names = runs or [row.run for row in journal.rows(statuses or None, **chosen)]
        text = _lines(journal, names) if form == "jsonl" else _spans(journal, names, form, values=values)
    if output is None:
        click.echo(text, nl=False)
        return
    write_output(output, text, "correct the path of `-o`")


def _lines(journal: Journal, names: Sequence[str]) -> str:
    from stepward.validator.report.trace import trace_data
    from stepward.vm.values import to_json

    records = ((name, record) for name in names for record in trace_data(history_of(journal, name)))
    return "".join(f"{to_json({'run': name, **record})}\n" for name, record in records)


def _spans(journal: Journal, names: Sequence[str], form: str, *, values: bool) -> str:
    from stepward.validator.runs.export import chrome, otlp, spans_of
    from stepward.vm.telemetry.outline import outline_of

    found = []
    for name in names:
        run = history_of(journal, name)
        document = journal.document(run.plan.digest)
        if document is None:
            raise MachineError(f"the program of run `{name}` is missing", "`stepward verify` says what else is")
        found.append((name, spans_of(name, run.records, outline_of(document), values=values)))
    return json_of(otlp([spans for _, spans in found]) if form == "otlp" else chrome(found))


def follow(journal: Journal, run: str, *, as_json: bool, wait: Callable[[float], None] = time.sleep) -> None:
    """Print the records of a run as they come, until it is over; in JSON, one record a line.

    A run that waits for somebody is not over: it is followed until the reader stops the command, or is gone.
    """
    from stepward.validator.report.text import safe
    from stepward.validator.report.trace import trace_data, trace_lines
    from stepward.vm.values import to_json

    shown = 0
    while True:
        row = journal.row(run)
        if row is not None and row.seq < shown:  # nothing new: its records are not read again
            wait(PAUSE)
            continue
        found = history_of(journal, run)
        if as_json:
            lines = [to_json(record) for record in trace_data(found)[shown:]]
        else:
            lines = [safe(one) for one in trace_lines(found, shown)]
        click.echo("\n".join(lines))
        sys.stdout.flush()
        shown = len(found.records)
        if is_unread():
            return
        if found.state.is_over:
            if not as_json:
                click.echo(f"\n{found.state.status}; `{command('runs', run)}` shows the whole")
            return
