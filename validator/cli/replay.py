"""`stepward replay`: a run is replayed and compared with the machine, or a witness is run on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import (
    MachineError,
    complete_runs,
    explained,
    format_option,
    open_journal,
    print_json,
)
from stepward.validator.cli.output import uses_color
from stepward.validator.cli.ranges import FileName

if TYPE_CHECKING:
    from stepward.vm.journal.verdict import Fault
    from stepward.vm.machine.history import History
    from stepward.vm.machine.replay import Replayed

DIFFERS = 1


@click.command()
@click.argument("source", type=FileName(), metavar="JOURNAL|WITNESS")
@click.argument("run", required=False, shell_complete=complete_runs)
@format_option
def replay(source: str, run: str | None, **options: Any) -> None:
    """Replay a run of a journal, or a witness.

    For a run, the machine replays the records and compares each with the record that it would write. It calls no tool
    and no model. Runs that continue one another are replayed together. For a witness, the machine runs the program with
    the inputs and answers of the witness. Exits with 0 if all records agree or the violation is confirmed, and with 1
    otherwise.
    """
    if run is None and not _may_be_witness(source):
        if os.path.isfile(source) and not _is_sqlite(source):
            help = "name a file that `stepward check --witnesses DIR` has written, or a journal and a run of it"
            raise MachineError(f"`{source}` is neither a witness nor a journal", help)
        raise click.UsageError("Missing argument 'RUN': a journal is replayed run by run.")
    is_same = replay_witness(source, options) if run is None else replay_run(source, run, options)
    sys.exit(0 if is_same else DIFFERS)


def replay_run(journal: str, run: str, options: dict[str, Any]) -> bool:
    """Replay a run, with all runs of its chain, and print them; return whether the machine would have written the same
    records."""
    with explained(), closing(open_journal(journal)) as opened:
        from stepward.validator.runs.chains import chain_of
        from stepward.vm.machine.replay import replay as replayed

        chain = chain_of(opened, run)
        results = [result for found in chain if (result := replayed(opened, found.run)) is not None]
        if options["output_format"] == "json":
            print_json(_data(chain, results, run))
        else:
            color = uses_color()
            click.echo(_text(chain, results, color=color), nl=False, color=color)
    return not any(result.faults for result in results)


def _data(chain: Sequence[History], results: Sequence[Replayed], run: str) -> dict[str, Any]:
    """Return a replay as plain data: the run that was asked for, and where it has a chain, all runs of that."""
    from stepward.validator.report.trace import run_data, trace_data

    runs = {
        found.run: {"run": run_data(result.run, found), "trace": trace_data(found)}
        for found, result in zip(chain, results, strict=True)
    }
    faults = [
        {"run": fault.run, "seq": fault.seq, "what": fault.what, "help": fault.help}
        for result in results
        for fault in result.faults
    ]
    more = {"chain": list(runs.values())} if len(chain) > 1 else {}
    return {"version": 1, **runs[run], **more, "same": not faults, "faults": faults}


def _text(chain: Sequence[History], results: Sequence[Replayed], *, color: bool) -> str:
    """Return a replay in words, the runs of a chain in order and with the boundaries marked."""
    from stepward.validator.report.text import safe
    from stepward.validator.report.trace import render_boundary, render_outcome, render_trace
    from stepward.validator.runs.chains import boundary_of

    text = ""
    for number, (found, result) in enumerate(zip(chain, results, strict=True)):
        text += render_boundary(boundary_of(found, chain[number - 1])) if number else ""
        text += f"run `{safe(found.run)}` of `{safe(result.run.program)}`\n\n" if len(chain) > 1 else ""
        text += f"{render_trace(found, color=color)}\n{render_outcome(result.run, found)}\n"
    faults = [fault for result in results for fault in result.faults]
    return text + _verdict(faults, sum(result.steps for result in results), len(chain))


def _verdict(faults: Sequence[Fault], records: int, runs: int) -> str:
    from stepward.validator.report.text import counted, safe

    if not faults:
        of = "" if runs == 1 else f" of {counted(runs, 'run')}"
        return f"the same: the machine would have written {counted(records, 'record')}{of} as they are\n"
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


def _is_sqlite(file: str) -> bool:
    try:
        with open(file, "rb") as content:
            return content.read(16) == b"SQLite format 3\0"
    except OSError:
        return True  # the journal says why it can't be read


def replay_witness(file: str, options: dict[str, Any]) -> bool:
    """Run a witness and print what happened; return whether the violation shows."""
    from stepward.validator.engine.witnesses.replay import WitnessNotReplayed
    from stepward.validator.engine.witnesses.replay import replay as replayed

    witness = read_witness(file)
    try:
        seen = replayed(witness)
    except WitnessNotReplayed as error:
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
