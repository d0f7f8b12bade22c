"""`stepward replay`: a run folded again, and held against what the machine would have done."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import click

from stepward.validator.cli.machine import (
    MachineError,
    complete_runs,
    explained,
    format_option,
    history_of,
    open_journal,
    print_json,
    uses_color,
)

DIFFERS = 1


@click.command()
@click.argument("journal", type=click.Path())
@click.argument("run", shell_complete=complete_runs)
@format_option
def replay(journal: str, run: str, **options: Any) -> None:
    """Fold the records of a RUN again, and hold each against what the machine would have written.

    No tool and no model is called. Exits with 0 when all agree, 1 when one does not.
    """
    with explained(), closing(open_journal(journal)) as opened:
        from stepward.validator.report.trace import render_outcome, render_trace, run_data, trace_data
        from stepward.vm.machine.replay import replay as replayed

        found = history_of(opened, run)
        result = replayed(opened, run)
        if result is None:
            raise MachineError(f"there is no run `{run}`")
        if options["output_format"] == "json":
            faults = [
                {"run": fault.run, "seq": fault.seq, "what": fault.what, "help": fault.help} for fault in result.faults
            ]
            data = {"version": 1, "run": run_data(result.run, found), "trace": trace_data(found)}
            print_json(data | {"same": not result.faults, "faults": faults})
        else:
            color = uses_color()
            text = f"{render_trace(found, color=color)}\n{render_outcome(result.run, found)}\n"
            click.echo(text + _verdict(result.faults, result.steps), nl=False, color=color)
    sys.exit(DIFFERS if result.faults else 0)


def _verdict(faults: Any, records: int) -> str:
    from stepward.validator.report.text import counted, safe

    if not faults:
        return f"the same: the machine would have written {counted(records, 'record')} as they are\n"
    lines = [f"not the same: {safe(fault.what)}\n  = help: {safe(fault.help)}\n" for fault in faults]
    return "".join(lines)
