"""`stepward runs versions` and `stepward runs migrate`: on which programs runs wait, and how one moves to another."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import (
    MachineError,
    by_option,
    complete_runs,
    driving_options,
    explained,
    format_option,
    history_of,
    journal_option,
    load_means,
    load_policies,
    open_journal,
    policy_options,
    print_json,
)
from stepward.validator.cli.output import uses_color
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.machine.history import History
    from stepward.vm.machine.migration import Migration

SHOWN: Final = 12
"""Digits of a digest in the list."""


@click.command()
@journal_option
@format_option
def versions(**options: Any) -> None:
    """List on which versions of programs runs have not ended.

    One line for each program, with the digests of the program, its tools and its policies, and the step on which runs
    wait. A run that moves to another version is listed under the one that it has, and `to` names the other.
    """
    gc.enable()
    with explained(), closing(open_journal(options["journal"])) as journal:
        found = _versions(journal)
    if options["output_format"] == "json":
        print_json({"version": 1, "versions": found})
        return
    from stepward.validator.report.table import Column, render
    from stepward.validator.report.text import counted

    names = ("program", "digest", "tools", "policies", "status", "step", "to")
    columns = [*map(Column, names), Column("runs", is_number=True)]
    cells = [[_cell(name, one[name]) for name in names] + [str(len(one["runs"]))] for one in found]
    text = f"{render(columns, cells, color=uses_color())}\n" if found else ""
    click.echo(f"{text}{counted(len(found), 'version')}", color=uses_color())


def _cell(name: str, value: Any) -> str:
    if name == "policies":
        return " ".join(digest[:SHOWN] for digest in value) or "-"
    return (str(value)[:SHOWN] if name in ("digest", "tools", "to") else str(value)) or "-"


def _versions(journal: Journal) -> list[dict[str, Any]]:
    from stepward.vm.machine.events import UNFINISHED

    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in journal.rows(UNFINISHED):
        history = history_of(journal, row.run)
        one = _version(history)
        key = (*(tuple(value) if isinstance(value, list) else value for value in one.values()),)
        found.setdefault(key, {**one, "runs": []})["runs"].append(row.run)
    return [found[key] for key in sorted(found)]


def _version(history: History) -> dict[str, Any]:
    from stepward.vm.journal.canonical import canonical, portable
    from stepward.vm.journal.records import document_digest
    from stepward.vm.language.steps import Stage

    plan, state = history.plan, history.state
    tools = {name: spec.to_data() for name, spec in plan.meaning.manifest.items()}
    step = plan.steps[state.at].step
    return {
        "program": plan.program.name,
        "digest": plan.digest,
        "tools": document_digest(canonical(portable(tools)).encode()),
        "policies": list(plan.digests_under(state.governed)),
        "status": state.status,
        "step": step.owner if isinstance(step, Stage) else step.id,
        "to": state.moved,
    }


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option("--to", "file", type=FILE, required=True, metavar="FILE", help="The new version of the program.")
@click.option("--program", "name", metavar="NAME", help="The name of the program, if the file has several.")
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="BUDGET=N",
    help="What is added to the `steps`, `tokens` or `cost` that the run has left (repeatable).",
)
@click.option("--apply", "applies", is_flag=True, help="Move the run; without it, only say whether it can move.")
@click.option("--head", metavar="DIGEST", help="Move the run only if this is still the digest of its last record.")
@by_option
@driving_options
@policy_options
@journal_option
@format_option
def migrate(run: str, file: Path, **options: Any) -> None:
    """Move a suspended run to a new version of its program.

    The gate proves what is left of the new version from the present state of the run: with its values, and with its
    guardrails where they are. Without `--apply` nothing is changed. A run that moves keeps its resume token; once its
    step has ended, a run with the next id goes on.

    Exit status: 0 the run can move, or moves; 2 it can't, or the command can't be used.
    """
    from stepward.validator import check_program
    from stepward.validator.cli.continuing import granted
    from stepward.validator.cli.loading import load_program
    from stepward.vm.machine.refusals import RunRefused

    if options["head"] is not None and not options["applies"]:
        raise click.UsageError("--head is for --apply: without that nothing is changed")
    gc.enable()
    program = load_program(file, options["name"])
    grant = dict(map(granted, options["grants"]))
    with explained(), closing(open_journal(options["journal"])) as journal:
        history_of(journal, run)
        machine = load_means(options).machine(journal, load_policies(options), check_program)
        try:
            if options["applies"]:
                found = machine.migrate_sync(run, program, head=options["head"], grant=grant, by=options["by"])
            else:
                found = machine.migration_sync(run, program, grant=grant)
        except RunRefused as error:
            help = error.help or "correct the new version, or let the run end with the one that it has"
            raise MachineError(str(error), help) from None
    _print(found, file, options)


def _print(found: Migration, file: Path, options: dict[str, Any]) -> None:
    if options["output_format"] == "json":
        print_json({"version": 1, "migration": {**found._asdict(), "applied": options["applies"]}})
        return
    from stepward.validator.report.text import safe

    verb = "moves" if options["applies"] else "can move"
    lines = [f"run `{safe(found.run)}` {verb} to version {found.version[:SHOWN]} when `{found.step}` has ended"]
    lines += [f"  goes on as run `{safe(found.becomes)}`", f"  reads {', '.join(found.carries) or 'nothing'}"]
    lines += [f"  proved from where it is: {name}" for name in found.guardrails]
    if not options["applies"]:
        arguments = (found.run, "--to", file, "--apply", "--head", found.head)
        lines.append("\nnothing was changed; to move it:")
        lines.append(f"  {safe(command('runs migrate', *arguments, options=options, repeats_all=True))}")
    click.echo("\n".join(lines))
