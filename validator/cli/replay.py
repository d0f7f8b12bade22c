"""`stepward replay`: a run is replayed and compared with the machine, or a witness is run on it."""

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
)
from stepward.validator.cli.output import uses_color

DIFFERS = 1


@click.command()
@click.argument("source", type=click.Path(), metavar="JOURNAL|WITNESS")
@click.argument("run", required=False, shell_complete=complete_runs)
@format_option
def replay(source: str, run: str | None, **options: Any) -> None:
    """Replay a run of a journal, or a witness.

    For a run, the machine replays the records and compares each with the record that it would write. It calls no tool
    and no model. For a witness, the machine runs the program with the inputs and answers of the witness. Exits with 0
    if all records agree or the violation is confirmed, and with 1 otherwise.
    """
    if run is None and not _may_be_witness(source):
        raise click.UsageError("Missing argument 'RUN': a journal is replayed run by run.")
    is_same = replay_witness(source, options) if run is None else replay_run(source, run, options)
    sys.exit(0 if is_same else DIFFERS)


def replay_run(journal: str, run: str, options: dict[str, Any]) -> bool:
    """Replay a run and print it; return whether the machine would have written the same records."""
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
    return not result.faults


def _verdict(faults: Any, records: int) -> str:
    from stepward.validator.report.text import counted, safe

    if not faults:
        return f"the same: the machine would have written {counted(records, 'record')} as they are\n"
    lines = [f"not the same: {safe(fault.what)}\n  = help: {safe(fault.help)}\n" for fault in faults]
    return "".join(lines)


# -- witnesses ---------------------------------------------------------------------------------------------------------


def _may_be_witness(file: str) -> bool:
    """Return whether a file is meant as a witness: its name ends in `.json`, or it starts as a JSON object."""
    if file.endswith(".json"):
        return True
    try:
        with open(file, "rb") as content:
            return content.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def replay_witness(file: str, options: dict[str, Any]) -> bool:
    """Run a witness and print what happened; return whether the violation shows."""
    from stepward.validator.engine.witnesses.replay import Refused
    from stepward.validator.engine.witnesses.replay import replay as replayed

    witness = read_witness(file)
    try:
        seen = replayed(witness)
    except Refused as error:
        raise MachineError(
            f"the machine does not start the run of `{file}`: {error}", "save the witness again"
        ) from None
    if options["output_format"] == "json":
        from stepward.validator.report.trace import run_data, trace_data

        found = seen.history()
        shows = witness.to_data()["shows"]
        data = {"version": 1, "run": run_data(seen.run, found), "trace": trace_data(found), "shows": shows}
        print_json(data | {"confirmed": seen.confirmed, "why": seen.why, "set_aside": list(seen.set_aside)})
    else:
        click.echo(_witness_text(witness, seen), nl=False, color=uses_color())
    return seen.confirmed


def read_witness(file: str) -> Any:
    """Return the witness in a file; raises MachineError with the reason if it has none."""
    from stepward.validator.engine.witnesses.witness import Witness, WitnessRefused
    from stepward.validator.files import why_not

    help = "`evidence.witness` of a finding in `stepward check --output-format json` is one; a run needs its id as well"
    try:
        return Witness.load(file)
    except OSError as error:
        raise MachineError(f"`{file}` can't be read: {why_not(error)}", "correct the path") from None
    except WitnessRefused as error:
        raise MachineError(f"`{file}` is no witness: {error}", help) from None


def _witness_text(witness: Any, seen: Any) -> str:
    from stepward.validator.report.text import safe
    from stepward.validator.report.trace import render_trace

    claim = witness.claim
    of = f" of policy `{claim.policy}`" if claim.policy else ""
    about = f"`{claim.reference}` is undefined" if claim.rule is None else f"guardrail `{claim.rule}`{of}"
    lines = [f"{claim.code} at `{claim.step}` of `{witness.program.name}`: {about}"]
    if seen.set_aside:
        others = ", ".join(f"`{name}`" for name in dict.fromkeys(seen.set_aside))
        lines.append(f"set aside, because the run would not get there: {others}")
    verdict = f"confirmed: {seen.why}" if seen.confirmed else f"not confirmed: {seen.why}"
    table = render_trace(seen.history(), color=uses_color())
    return "".join(f"{safe(line)}\n" for line in lines) + f"\n{table}\n{safe(verdict)}\n"
