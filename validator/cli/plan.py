"""`stepward plan`: a model writes a program for a task, and the gate decides."""

from __future__ import annotations

import gc
import sys
from contextlib import closing, redirect_stdout
from decimal import Decimal, InvalidOperation
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.continuing import continuation_of, continued, continuing, continuing_options
from stepward.validator.cli.machine import (
    INTERRUPTED,
    MachineError,
    Means,
    by_option,
    driving_options,
    exit_status,
    explained,
    format_option,
    load_means,
    load_policies,
    open_journal,
    policy_options,
    print_json,
    print_run,
)
from stepward.validator.cli.models import FORMS
from stepward.validator.cli.output import print_error, write_output
from stepward.validator.cli.printed import GONE, command, say_interrupted
from stepward.validator.cli.ranges import FILE, Whole
from stepward.validator.cli.starting import require_starter
from stepward.validator.cli.tool_facts import facts_of_tools, note_tools
from stepward.validator.cli.written import Written
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from pathlib import Path

    from stepward.validator.planner.brief import Brief
    from stepward.validator.planner.planner import Planned, Planner
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.run import Run as MachineRun

NOT_PLANNED = 1


def money(_: click.Context, __: click.Parameter, value: str | None) -> Decimal | None:
    """Return the exact number of an option; raises click.BadParameter."""
    if value is None:
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal(0)
    if not (number.is_finite() and number > 0):
        raise click.BadParameter(f"`{value}` is no number above 0")
    return number


@click.command()
@click.argument("task")
@click.option(
    "--takes",
    multiple=True,
    metavar="NAME=TYPE",
    help="An input that the program may read, and its type: `sum=number`, `id={type: string}` (repeatable).",
)
@continuing_options
@click.option("--name", default="plan", show_default=True, metavar="NAME", help="The name of the program.")
@click.option("--tries", type=Whole(1, 20), default=3, show_default=True, help="How often the model may try.")
@click.option("--max-tokens", type=Whole(1), metavar="N", help="The most tokens of all tries together.")
@click.option("--max-cost", callback=money, metavar="SUM", help="The most that all tries together may cost.")
@click.option("-o", "--output-file", cls=Written, type=FILE, metavar="FILE", help="The file for the program.")
@click.option("--run", "is_run", is_flag=True, help="Run the program if the gate accepts it.")
@click.option("--input", "pairs", multiple=True, metavar="NAME=VALUE", help="An input of that run (repeatable).")
@click.option("--inputs", metavar="FILE", help="The inputs of that run, as one YAML or JSON mapping.")
@driving_options
@click.option("--journal", metavar="FILE", help="The journal: a SQLite file, or `postgresql://…`.  [default: memory]")
@click.option(
    "--run-id", metavar="ID", help="The id of the plan in the journal. A plan that exists is shown, or continued."
)
@by_option
@policy_options
@format_option
def plan(task: str, **options: Any) -> None:
    """Let a model write a program for TASK; the gate decides whether it is accepted.

    The program may call the functions of `--tools`, or without them the tools that the policies declare. It is printed,
    or saved with `-o`. With `--run` it is run, under the same policies; then standard output is that of `stepward run`.
    The journal has every try.

    With `--continues` the model sees how far an interrupted run came, without sensitive values, and its program does
    what is left: the rules go on where they were, and no write is repeated.

    Exit status: 0 the program was accepted, and its run ended in SUCCESS if there was one, 1 no program was accepted,
    or the run ended in another way, 2 the command can't be used, 4 the run has not ended.
    """
    if not options["is_run"] and (options["pairs"] or options["inputs"] is not None):
        raise click.UsageError("--input and --inputs are for the run of the program: add --run")
    gc.enable()  # unlike a check, a plan may last
    with explained():
        types, continues = _types(options["takes"]), continuing(options)
        policies, means = load_policies(options), load_means(options)
        if means.model is None:
            raise MachineError("a plan needs a model, and there is none", f"give one with `--model`: {FORMS}")
        # What is wrong is said before a model is asked, and before the journal is opened, which may make a file.
        inputs = None
        if continues is None:
            brief = _planner(means, policies, options, None).brief(task, name=options["name"], inputs=types)
            inputs = _given_early(brief, means, options)
            note_tools(brief, options["tools"], policies)
        _require_place(options["output_file"])
        with closing(open_journal(options["journal"], create=continues is None)) as journal:
            planner = _planner(means, policies, options, journal)
            found = _planned(planner, task, {"inputs": types, "continues": continues}, options)
            _save(found, options["output_file"])
            _tell(found, options)
            if found.program is None:
                _tell_why(found, options)
                sys.exit(NOT_PLANNED)
            if options["is_run"]:
                run = _run(means, found, journal, inputs, options)
                print_run(run, journal, options)
                sys.exit(exit_status(run))


def _types(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the types of `--takes` as plain data, by name; None without the option."""
    from stepward.validator.cli.values import ValueUnreadable, value_of

    if not pairs:
        return None
    types: dict[str, Any] = {}
    for text in pairs:
        name, separator, written = text.partition("=")
        if not separator or not name or not written.strip():
            raise ValueUnreadable(f"`--takes {text}` is no `name=type`", "write `--takes sum=number`")
        if name in types:
            raise ValueUnreadable(f"input `{name}` is given twice", "give its type once")
        found = value_of(written, None, f"the type of input `{name}`")
        types[name] = {"type": found} if isinstance(found, str) else found
    return types


def _planner(means: Means, policies: list[Policy], options: dict[str, Any], journal: Journal | None) -> Planner:
    from stepward.validator.planner.planner import Planner

    assert means.model is not None, "a plan without a model is refused"
    manifest, about = facts_of_tools(means, policies, options)
    return Planner(
        means.model,
        manifest,
        policies,
        journal,
        about=about,
        key=means.key,
        trusted=means.trusted,
        tries=options["tries"],
        max_tokens=options["max_tokens"],
        max_cost=options["max_cost"],
        observer=means.telemetry,
    )


def _require_place(file: Path | None) -> None:
    """Raise MachineError if a file can't be made where an option says: a plan may cost money."""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        why = "it is a folder" if file.is_dir() else "there is no such folder"
        raise MachineError(f"`{file}` can't be written: {why}", "correct `--output-file`")


def _save(found: Planned, file: Path | None) -> None:
    """Write an accepted program to a file; if that fails, the program is printed, so that it is not lost."""
    if file is None or found.program is None:
        return
    try:
        write_output(file, found.text, "correct `--output-file`")
    except AdvisedError:
        click.echo(found.text, nl=False)
        raise


def _planned(planner: Planner, task: str, request: dict[str, Any], options: dict[str, Any]) -> Planned:
    from stepward.validator.report.text import safe

    if options["run_id"] is None:
        options["run_id"] = f"run-{token_hex(16)}"
    try:
        with redirect_stdout(sys.stderr):  # output of an adapter is no part of the program
            return planner.plan_sync(task, name=options["name"], run_id=options["run_id"], by=options["by"], **request)
    except KeyboardInterrupt:
        again = command("plan", "--run-id", options["run_id"], task, options=options, repeats_all=True)
        is_kept = options["journal"] is not None
        click.echo(f"\ninterrupted: {f'`{safe(again)}` goes on with the plan' if is_kept else GONE}", err=True)
        sys.exit(INTERRUPTED)


def _given_early(brief: Brief, means: Means, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the inputs of the run, if their types are known before there is a program; None if they are not.

    Raises MachineError if the run will have no tools, and ValueUnreadable for inputs that don't fit.
    """
    from stepward.validator.cli.values import inputs_of

    if not options["is_run"]:
        return None
    if brief.manifest and options["tools"] is None and not means.servers:
        help = "name the module with their functions: `--tools package.module` or `--tools FILE.py`"
        raise MachineError("`--run` runs a program with tools, and there is no `--tools`", help)
    if brief.inputs is None:
        return None
    return inputs_of(options["pairs"], options["inputs"], dict(brief.inputs), brief.name)


def _run(
    means: Means, found: Planned, journal: Journal, inputs: dict[str, Any] | None, options: dict[str, Any]
) -> MachineRun:
    """Run an accepted program under the policies of its plan; the id of its run is that of the plan with an ending."""
    from stepward.validator.cli.values import inputs_of
    from stepward.vm.machine.plan import Plan

    assert found.program is not None, "it was accepted"
    prepared = Plan(found.program, list(found.policies))
    if inputs is None and found.before is None:
        inputs = inputs_of(options["pairs"], options["inputs"], prepared.input_types, found.program.name)
    inputs = {name: value for name, value in (inputs or {}).items() if name in prepared.input_types}
    require_starter(prepared, options["by"])
    means.require(prepared)
    machine = means.machine(journal, found.policies)
    try:
        with redirect_stdout(sys.stderr):
            if found.before is not None:
                reads = found.before.reads_of(found.program)
                return continued(machine, found.before, found.program, reads, options["by"])
            return machine.run_sync(found.program, inputs, run_id=f"{found.run}-run", by=options["by"])
    except KeyboardInterrupt:
        machine.let_go()
        own = f"{found.run}-run" if journal.head(f"{found.run}-run") is not None else None
        say_interrupted(options, own if found.before is None else continuation_of(journal, found.before))
        sys.exit(INTERRUPTED)


# -- what is printed ---------------------------------------------------------------------------------------------------


def _tell(found: Planned, options: dict[str, Any]) -> None:
    """Print the tries on standard error, and the program, or all of it as JSON, on standard output."""
    from stepward.validator.report.text import safe

    is_json = options["output_format"] == "json"
    for number, proposal in enumerate(found.proposals, 1):
        if not is_json or options["is_run"]:
            answer = "".join(f"  {safe(line)}".rstrip() + "\n" for line in proposal.answer.splitlines())
            click.echo(f"try {number}:\n{answer}", err=True)
    where = f" It is in `{options['output_file']}`." if options["output_file"] is not None and found.text else ""
    if found.text and not is_json:
        tries = "1 try" if len(found.proposals) == 1 else f"{len(found.proposals)} tries"
        click.echo(f"plan `{safe(found.run)}`: accepted after {tries}, {found.tokens:,} tokens.{where}", err=True)
    if is_json and not options["is_run"]:
        print_json(_data(found))
    elif found.text and options["output_file"] is None:
        click.echo(found.text, nl=False, err=options["is_run"])


def _tell_why(found: Planned, options: dict[str, Any]) -> None:
    """Print on standard error why there is no program, but where the JSON says it."""
    from stepward.validator.report.text import safe

    if options["output_format"] == "json" and not options["is_run"]:
        return
    name = f"plan `{safe(found.run)}`"
    if found.proposals and found.proposals[-1].is_accepted:
        click.echo("".join(f"{safe(line)}\n" for line in found.reason.splitlines()), err=True)
        print_error(f"{name}: its program was accepted once, and is not any more", "plan anew, with another `--run-id`")
    elif len(found.proposals) >= options["tries"]:
        help = "say more in the task, give more tries with `--tries`, or take another model"
        print_error(f"{name}: no try was accepted", help)
    else:
        print_error(f"{name}: {safe(found.reason)}", "look at the model, its options and `--max-tokens`")


def _data(found: Planned) -> dict[str, Any]:
    from stepward.vm.values import as_text

    return {
        "version": 1,
        "plan": found.run,
        "accepted": found.program is not None,
        "program": found.text or None,
        "reason": found.reason or None,
        "tries": [{"reply": one.reply, "answer": one.answer, "accepted": one.is_accepted} for one in found.proposals],
        "tokens": found.tokens,
        "cost": as_text(found.cost),
    }
