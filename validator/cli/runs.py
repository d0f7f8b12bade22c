"""`stepward runs`: lists, shows and continues the runs of a journal."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from stepward.validator.cli.copying import copy
from stepward.validator.cli.held import break_option, say_held
from stepward.validator.cli.machine import (
    UNFINISHED,
    MachineError,
    Means,
    by_option,
    complete_runs,
    driving_options,
    exit_status,
    explained,
    format_option,
    history_of,
    journal_option,
    key_option,
    load_means,
    load_policies,
    open_journal,
    policy_options,
    print_json,
    print_run,
)
from stepward.validator.cli.output import uses_color, write_output
from stepward.validator.cli.printed import command, say_interrupted
from stepward.validator.cli.pruning import prune
from stepward.validator.cli.ranges import FILE
from stepward.validator.cli.refused_tokens import refusal_explained
from stepward.validator.cli.run_lists import filters, since
from stepward.validator.cli.run_studies import diff, export, follow
from stepward.validator.cli.signing import sign
from stepward.validator.cli.versions import migrate, versions
from stepward.validator.cli.written import Written

if TYPE_CHECKING:
    from stepward.vm.errors import StepwardError
    from stepward.vm.journal.store import Journal, Row
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.history import History
    from stepward.vm.machine.plan import CallPlan
    from stepward.vm.machine.run import Run

_DEFAULT: Final = "show"


class _Runs(click.Group):
    """A group in which an argument that is no action is a run to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as those of `show` if they don't begin with an action."""
        is_action = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        # A shell that completes an empty line wants the actions.
        if not is_action and not (ctx.resilient_parsing and not args):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the actions and the runs as completions."""
        show = self.commands[_DEFAULT]
        with click.Context(show, info_name=_DEFAULT, parent=ctx) as inner:
            offered = [item for parameter in show.params for item in parameter.shell_complete(inner, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *offered]


run_argument = click.argument("run", metavar="RUN", shell_complete=complete_runs)


@click.group(cls=_Runs)
def runs() -> None:
    """List the runs of a journal, show one, or act on one.

    `stepward runs` lists the runs, and `stepward runs RUN` shows the trace of one. If the id of a run is the name of an
    action, use `stepward runs show RUN`. Commands that continue a run have the exit status of `stepward run`.

    \b
    The list can be filtered:
      stepward runs --status SUSPENDED              the runs that wait for somebody
      stepward runs --program refund --since 7d     those of a program, of the last 7 days
      stepward runs --limit 20 --journal runs.db    the newest 20 of a journal
    """


runs.add_command(diff)
runs.add_command(export)
runs.add_command(versions)
runs.add_command(migrate)
runs.add_command(sign)
runs.add_command(copy)
runs.add_command(prune)

# -- looking -----------------------------------------------------------------------------------------------------------


@runs.command("list")
@filters
@journal_option
@format_option
@click.pass_context
def list_runs(ctx: click.Context, /, **options: Any) -> None:
    """List the runs, as `stepward runs` does."""
    ctx.invoke(show, run=None, follows=False, **options)


@runs.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_runs)
@filters
@journal_option
@format_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Show the records of RUN until it ends.")
def show(run: str | None, statuses: tuple[str, ...], follows: bool, **options: Any) -> None:
    """List the runs, or show the trace of one, between those of the runs that it continues and that continue it."""
    if follows:
        if run is None:
            raise click.UsageError("--follow is for one run; name it: `stepward runs show RUN --follow`")
        with explained(), closing(open_journal(options["journal"])) as journal:
            follow(journal, run, as_json=options["output_format"] == "json")
        return
    chosen = {name: options[name] for name in ("program", "since", "limit")}
    for name, value in {"status": statuses or None, **chosen}.items():
        if run is not None and value is not None:
            raise click.UsageError(f"--{name} is for the list; leave it out to show a run")
    chosen["since"] = None if options["since"] is None else since(options["since"], time.time())
    with explained(), closing(open_journal(options["journal"])) as journal:
        if run is not None:
            from stepward.vm.machine.execution import ExecutionVM

            machine = ExecutionVM(journal=journal, checker=None)
            _print_chain(machine.get_sync(run), journal, options)
            return
        _list(journal.rows(statuses or None, **chosen), options)


def _print_chain(run: Run, journal: Journal, options: dict[str, Any]) -> None:
    """Print a run, in text between the runs of its chain, in order and with the boundaries marked."""
    from stepward.validator.report.trace import render_boundary
    from stepward.validator.runs.chains import boundary_of, chain_of
    from stepward.vm.machine.runs import run_of

    chain = chain_of(journal, run.id)
    if options["output_format"] == "json":
        print_run(run, journal, options)
        return
    for number, found in enumerate(chain):
        if number:
            click.echo(f"\n{render_boundary(boundary_of(found, chain[number - 1]))}", nl=False)
        print_run(run if found.run == run.id else run_of(found), journal, options)


def _list(rows: list[Row], options: dict[str, Any]) -> None:
    from stepward.validator.report.table import Column, render
    from stepward.validator.report.text import counted, safe

    if options["output_format"] == "json":
        print_json({"version": 1, "runs": [_row_data(row) for row in rows]})
        return
    color = uses_color()
    columns = [Column(name) for name in ("run", "program", "status")]
    columns += [Column("records", is_number=True), Column("started"), Column("updated")]
    cells = [
        [row.run, row.program, row.status, str(row.seq + 1), _short(row.started), _short(row.updated)] for row in rows
    ]
    text = f"{render(columns, cells, color=color)}\n" if rows else ""
    click.echo(f"{text}{counted(len(rows), 'run')}", color=color)
    for row in rows:
        if row.fault:
            click.echo(f"warning: the list is damaged at run `{safe(row.run)}`: {row.fault}", err=True)


def _short(seconds: float) -> str:
    return _timestamp(seconds).replace("T", " ").partition(".")[0] + "Z"


def _timestamp(seconds: float) -> str:
    from stepward.validator.report.trace import moment
    from stepward.vm.journal.store import EARLIEST, LATEST

    return moment(round(max(EARLIEST, min(seconds, LATEST)) * 1e6))


def _row_data(row: Row) -> dict[str, Any]:
    from stepward.vm.machine.events import UNFINISHED

    return {
        "id": row.run,
        "program": row.program,
        "status": row.status,
        "seq": row.seq,
        "started": _timestamp(row.started),
        "updated": _timestamp(row.updated),
        "leased_until": _timestamp(row.expires) if row.expires and row.status in UNFINISHED else None,
    }


@runs.command()
@run_argument
@click.option(
    "-o", "--output", cls=Written, type=FILE, metavar="FILE", help="The file to write, instead of standard output."
)
@key_option
@journal_option
def receipt(run: str, output: Path | None, **options: Any) -> None:
    """Write a receipt for a run.

    It shows later whether the journal was rewritten or cut since then. Store it outside of the journal. With a key, the
    run must be signed by that key or an old one, because a receipt covers all records of the run.
    """
    from stepward.validator.cli.machine import load_key, load_old_keys
    from stepward.vm.journal.receipts import Receipt

    with explained(), closing(open_journal(options["journal"])) as journal:
        key = load_key(options["key_file"])
        found = history_of(journal, run, () if key is None else (key.public, *load_old_keys(options["old_keys"], key)))
        state, last = found.state, found.last
        text = Receipt.give(run, last.seq, last.digest, state.status, state.trace, key).to_json()
    if output is None:
        click.echo(text)
        return
    write_output(output, f"{text}\n", "correct the path of `-o`")


# -- going on ----------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("token")
@click.option(
    "--payload",
    required=True,
    metavar="JSON",
    help="The output of the step that waits; a word that is no JSON is a text.",
)
@by_option
@driving_options
@break_option
@policy_options
@journal_option
@format_option
def resume(token: str, payload: str, **options: Any) -> None:
    """Resume a suspended run.

    `stepward runs RUN` shows the TOKEN for which the run waits. A token works once.

    Exit status, of the run that goes on: 0 it ended in SUCCESS, 1 it ended in another way, 2 the answer was refused or
    the command can't be used, 4 it has not ended: it is suspended again, in doubt, or driven by somebody else.
    """
    from stepward.validator.cli.values import answer_of
    from stepward.vm.machine.keys import Token

    read = Token.read(token)
    if read is None:
        raise MachineError("this is no resume token", "`stepward runs RUN` shows the tokens of a suspended run")
    with _opened_run(options, read.run) as (journal, found):
        means = load_means(options)
        machine = means.machine(journal, load_policies(options))
        step = next((waits.step for waits in machine.get_sync(read.run).suspensions if waits.token == token), None)
        if step is not None:  # else the machine reports the error in the token
            means.require(found.plan)
        calls = _present_calls(found)
        spec = next((call.returns for call in calls if call.id == step), None)
        value = answer_of(payload, spec, "the payload")

        def act() -> Run:
            with refusal_explained(read, journal):
                return machine.resume_sync(token, value, by=options["by"])

        _act_and_print(found, machine, act, journal, options)


@runs.command()
@run_argument
@click.argument("step")
@click.argument("verdict", type=click.Choice(["done", "not-done", "abandon"]))
@click.option(
    "--output",
    metavar="JSON",
    help="What the tool returned, with `done`; a word that is no JSON is a text.",
)
@by_option
@driving_options
@break_option
@policy_options
@journal_option
@format_option
def reconcile(run: str, step: str, verdict: str, output: str | None, **options: Any) -> None:
    """Record whether a write in doubt has happened.

    STEP is the id of its step, and in items that run at once its place, such as `each[3]/pay`.
    done: the write of STEP happened, and the run continues. not-done: it did not happen, so it is repeated with its
    key, and the run continues. abandon: the run ends CANCELLED.
    """
    from stepward.validator.cli.values import answer_of
    from stepward.vm.machine.runs import run_of

    if verdict == "done" and output is None:
        raise click.UsageError("`done` needs --output, what the tool returned; `null` where it returns nothing")
    if verdict != "done" and output is not None:
        raise click.UsageError(f"--output is for `done`: `{verdict}` has no output")
    with _opened_run(options, run) as (journal, found):
        means = load_means(options)
        if verdict != "abandon":
            means.require(found.plan)
        calls = _present_calls(found)
        ids = {step, *(doubt.step for doubt in run_of(found).doubts if doubt.place == step)}
        spec = next((call.returns for call in calls if call.id in ids), None)
        value = None if output is None else answer_of(output, spec, "the output")
        word: Any = verdict.replace("-", "_")
        machine = means.machine(journal, load_policies(options))
        _act_and_print(
            found, machine, lambda: machine.reconcile_sync(run, step, word, value, by=options["by"]), journal, options
        )


@runs.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_runs)
@driving_options
@break_option
@policy_options
@journal_option
@format_option
def recover(run: str | None, **options: Any) -> None:
    """Continue runs that lost their machine.

    Without RUN, it continues all such runs. If a write had started and its tool is idempotent, it is repeated with its
    key. If the tool is not idempotent, the run is in doubt.
    """
    if run is not None:
        with _opened_run(options, run) as (journal, found):
            means = load_means(options)
            machine = means.machine(journal, load_policies(options))
            if found.state.is_over:
                _act_and_print(found, machine, lambda: machine.get_sync(run), journal, options)
            means.require(found.plan)
            _act_and_print(found, machine, lambda: machine.recover_sync(run)[0], journal, options)
        return
    with explained(), closing(open_journal(options["journal"])) as journal:
        gc.enable()
        means = load_means(options)
        machine = means.machine(journal, load_policies(options))
        with redirect_stdout(sys.stderr), _releasing_leases(machine, options):
            picked_up, failures = machine.recover_all_sync()
        names = dict.fromkeys(run.id for run in picked_up)
        _list([row for name in names if (row := journal.row(name)) is not None], options)
        left = journal.rows(["RUNNING"])
        for row in left:
            _print_why_left(row, means, journal, failures.get(row.run))
    sys.exit(UNFINISHED if left else exit_status(*picked_up))


def _print_why_left(row: Row, means: Means, journal: Journal, refused: StepwardError | None) -> None:
    from stepward.validator.report.text import safe
    from stepward.vm.machine.runs import LONGEST_LEASE

    if refused is not None:
        click.echo(f"left: run `{safe(row.run)}`: {safe(str(refused))}", err=True)
        return
    try:
        means.require(history_of(journal, row.run).plan)
        left = row.expires - time.time()
        if left > LONGEST_LEASE:
            one = command("runs recover", row.run)
            why = f"its lease is of a clock that was wrong, or this one is; `{safe(one)}` passes it over"
        else:
            why = f"somebody else drives it, or was killed; its lease ends in {round(max(0, left))} s"
    except MachineError as error:
        why = f"{error.message}; {error.help}"
    click.echo(f"left: run `{safe(row.run)}`: {why}", err=True)


# -- ending ------------------------------------------------------------------------------------------------------------


@runs.command()
@run_argument
@by_option
@key_option
@journal_option
@format_option
def cancel(run: str, **options: Any) -> None:
    """End a run as CANCELLED.

    If a call is in progress, it is finished first.

    Exit status: 0 the run is CANCELLED, 1 it had ended in another way, 4 its driver still has to end it.
    """
    with _opened_run(options, run) as (journal, found):
        machine = load_means(options).machine(journal)
        _act_and_print(
            found,
            machine,
            lambda: machine.cancel_sync(run, by=options["by"]),
            journal,
            options,
            lambda run: 0 if run.status == "CANCELLED" else exit_status(run) or 1,
            line_of=lambda run: (
                f"nothing was cancelled: the run had ended {run.status}" if found.state.is_over else None
            ),
        )


@runs.command()
@run_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@by_option
@key_option
@journal_option
@format_option
def erase(run: str, yes: bool, **options: Any) -> None:
    """Destroy the sensitive values of a run.

    They can't be restored. An unfinished run is cancelled first.
    """
    with _opened_run(options, run) as (journal, found):
        if not yes:
            click.confirm(f"destroy every sensitive value of run `{run}` for ever?", abort=True, err=True)
        machine = load_means(options).machine(journal)
        _act_and_print(
            found,
            machine,
            lambda: machine.erase_sync(run, by=options["by"]),
            journal,
            options,
            lambda _: 0,
            line_of=lambda _: _erased(found, history_of(journal, run)),
        )


def _erased(before: History, after: History) -> str:
    """Return what an erasure has destroyed of a run, in words."""
    from stepward.validator.report.text import counted

    new = after.records[len(before.records) :]
    count = sum(len(one.body["references"]) for one in new if one.kind == "erased")
    return (
        f"destroyed: {counted(count, 'sensitive value')}"
        if count
        else "nothing was destroyed: no sensitive value is stored"
    )


# -- shared ------------------------------------------------------------------------------------------------------------


def _present_calls(found: History) -> list[CallPlan]:
    """Return the calls of the present steps of a run."""
    from stepward.vm.machine.forks import leaves

    return [call for here in leaves(found.plan, found.state) for call in found.plan.steps[here.at].calls]


@contextmanager
def _opened_run(options: dict[str, Any], run: str) -> Iterator[tuple[Journal, History]]:
    """Open the journal for a command that changes a run, and read the run."""
    gc.enable()
    with explained(), closing(open_journal(options["journal"])) as journal:
        yield journal, history_of(journal, run)


def _act_and_print(
    found: History,
    machine: ExecutionVM,
    act: Callable[[], Run],
    journal: Journal,
    options: dict[str, Any],
    status: Callable[[Run], int] = exit_status,
    *,
    line_of: Callable[[Run], str | None] = lambda _: None,
) -> NoReturn:
    """Act, print what has come to the run that was `found`, and exit with its status; `line_of` is one line more."""
    with redirect_stdout(sys.stderr), _releasing_leases(machine, options, found.run):  # what tools print is no trace
        run = act()
    print_run(run, journal, options, len(found.records) if run.id == found.run else 0)
    say_held(run)
    if (line := line_of(run)) is not None:
        click.echo(line, err=True)
    sys.exit(status(run))


@contextmanager
def _releasing_leases(machine: ExecutionVM, options: dict[str, Any], *run: str) -> Iterator[None]:
    """Release the leases of a machine on an interrupt, and say how its runs go on; a tool ends with the process."""
    try:
        yield
    except KeyboardInterrupt:
        machine.let_go()
        if "tools" in options:  # a command that ends a run can be given again
            say_interrupted(options, *run)
        raise
