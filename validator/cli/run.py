"""`stepward run`: the machine runs a program."""

from __future__ import annotations

import gc
import sys
from contextlib import closing, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn

import click

from stepward.validator.cli.continuing import (
    READ,
    before_run,
    continuation_of,
    continued,
    continuing,
    continuing_options,
    left_over,
    pairs_read,
    planned_after,
)
from stepward.validator.cli.held import break_option, say_held
from stepward.validator.cli.machine import (
    INTERRUPTED,
    MachineError,
    by_option,
    driving_options,
    exit_status,
    explained,
    format_option,
    load_means,
    load_telemetry,
    open_journal,
    policy_options,
    print_json,
    print_run,
)
from stepward.validator.cli.output import print_error, refuse_two_configurations, uses_color
from stepward.validator.cli.printed import say_interrupted
from stepward.validator.cli.ranges import FILE, FileName
from stepward.validator.cli.starting import require_starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepward.validator.gate.checking import Run as Gate
    from stepward.validator.planner.before import Continuing
    from stepward.validator.result import RunResult
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.plan import Plan
    from stepward.vm.machine.run import Run as MachineRun

REFUSED = 2


def _complete_inputs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the inputs of the program that the command line names so far, each with its `=`."""
    from stepward.validator.cli.loading import load_program

    try:
        # Without the value of its last option click does not parse the rest of a command line.
        file = context.params.get("file") or context.args[0]
        program = load_program(Path(file), context.params.get("name"))
    except Exception:  # completion in a shell shows no errors
        return []
    return [f"{name}=" for name in program.inputs or () if name.startswith(incomplete)]


@click.command()
@click.argument("file", metavar="PROGRAM", type=FILE)
@click.option(
    "--input",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input (repeatable). A value is text if the program declares text; otherwise it is YAML or JSON.",
    shell_complete=_complete_inputs,
)
@click.option(
    "--inputs",
    metavar="FILE",
    help="The inputs, as one YAML or JSON mapping; `-` is standard input.",
    type=FileName(),
)
@continuing_options
@READ
@driving_options
@break_option
@click.option("--journal", metavar="FILE", help="The journal: a SQLite file, or `postgresql://…`.  [default: memory]")
@click.option(
    "--run-id", metavar="ID", help="The id of the run. If a run with this id exists, it is shown and not run again."
)
@click.option(
    "--queue", "is_queued", is_flag=True, help="Write the run for the next `stepward worker`, and print its id."
)
@by_option
@click.option(
    "--accept",
    multiple=True,
    metavar="CODES",
    help="Run the program in spite of findings with these codes (repeatable).",
)
@click.option("--program", "name", metavar="NAME", help="The name of the program, if the file has several.")
@policy_options
@format_option
def run(file: Path, **options: Any) -> None:
    """Run a program if it passes the gate.

    PROGRAM is a file. Prints the trace of the run.

    With `--continues` it does what an interrupted run has left: the rules go on where they were, no write is repeated,
    and an input has what that run has under its name.

    Exit status: 0 the run ended in SUCCESS, or was queued, 1 it ended in another way, 2 it was refused or the command
    can't be used, 4 it has not ended: it is suspended, in doubt, or driven by somebody else.
    """
    refuse_two_configurations(config=options["config"], isolated=options["isolated"])
    with explained():
        continues = continuing(options)
    if continues is not None and (options["run_id"] is not None or options["is_queued"]):
        raise click.UsageError("a continuation has its own id, and runs at once: leave --run-id and --queue out")
    if options["is_queued"]:
        _require_queueable(options)
    gc.enable()  # unlike a check, a run may last
    accepted = _accepted(options["accept"])
    with explained():
        load_telemetry(options)  # before anything is done, so that what is missing is said first
    if continues is not None:
        _continue(file, continues, options, accepted)
    program, policies = _admitted(file, options, accepted)
    with explained():
        plan = _plan(program, policies)
        inputs = _inputs(program, plan, options)
        require_starter(plan, options["by"])
        means = load_means(options)
        if not options["is_queued"]:
            means.require(plan)
        # The journal is opened last, so that a misspelt option makes no file.
        with closing(open_journal(options["journal"], create=True)) as journal:
            name = options["run_id"]
            if name and journal.head(name) is not None:
                click.echo(f"run `{name}` exists: this is how it is", err=True)
            machine = means.machine(journal, policies)
            if options["is_queued"]:
                queued = machine.queue_sync(program, inputs, run_id=options["run_id"], by=options["by"])
                _print_queued(queued, options)
                return
            name = f"run-{token_hex(16)}" if name is None else name
            start = partial(machine.run_sync, program, inputs, run_id=name, by=options["by"])
            run = _driven(machine, start, options, lambda: name if journal.head(name) is not None else None)
            print_run(run, journal, options)
            say_held(run)
    sys.exit(exit_status(run))


def _continue(file: Path, continues: Continuing, options: dict[str, Any], accepted: frozenset[str]) -> NoReturn:
    """Continue a run by the program in a file if it passes the gate from where that run has ended, and exit."""
    with explained(), closing(open_journal(options["journal"])) as journal:
        with _loaded(file, options) as (gate, program):
            policies = gate.policies_of(program)
            before = before_run(journal, continues, program, policies)
            plan, reads = planned_after(before, program, pairs_read(options["reads"]), accepted)
            gate.check_program(plan.program, plan.policies)
        _require_passed(gate, program, options, accepted, left_over(before, program, plan))
        require_starter(plan, options["by"])
        means = load_means(options)
        means.require(plan)
        machine = means.machine(journal, policies)
        start = partial(continued, machine, before, program, reads, options["by"], accepted)
        run = _driven(machine, start, options, lambda: continuation_of(journal, before))
        print_run(run, journal, options)
        say_held(run)
    sys.exit(exit_status(run))


def _require_queueable(options: dict[str, Any]) -> None:
    """Raise UsageError for options that don't go with `--queue`."""
    if options["journal"] is None:
        raise click.UsageError("--queue needs the journal of the workers: add --journal")
    for name in ("tools", "model", "cache"):
        if options[name] is not None:
            raise click.UsageError(f"--{name} is for whoever drives the run: leave it out, and give it to the worker")


def _print_queued(run: MachineRun, options: dict[str, Any]) -> None:
    """Print the id of a queued run."""
    if options["output_format"] == "json":
        print_json({"version": 1, "run": {"id": run.id, "program": run.program, "status": run.status}})
        return
    click.echo(run.id)


def _driven(
    machine: ExecutionVM,
    start: Callable[[], MachineRun],
    options: dict[str, Any],
    run_name: Callable[[], str | None],
) -> MachineRun:
    """Start a run and drive it; after an interrupt, say how it goes on. `run_name` names it once the journal has it."""
    try:
        with redirect_stdout(sys.stderr):  # output of a tool is no part of the trace
            return start()
    except KeyboardInterrupt:
        machine.let_go()  # the tool that was under way ends with this process
        say_interrupted(options, run_name())
        sys.exit(INTERRUPTED)


def _plan(program: Program, policies: list[Policy]) -> Plan:
    from stepward.vm.errors import DocumentError
    from stepward.vm.machine.plan import Plan

    try:
        from stepward.vm.language.within import applying

        return Plan(program, applying(program, policies))
    except DocumentError as error:
        problem = error.problems[0]
        help = f"{problem.code} leaves no one meaning to the program: it can't be accepted, only fixed"
        raise MachineError(problem.message, help) from None


def _inputs(program: Program, plan: Plan, options: dict[str, Any]) -> dict[str, Any]:
    from stepward.validator.cli.values import inputs_of

    return inputs_of(options["pairs"], options["inputs"], plan.input_types, program.name)


# -- the gate ----------------------------------------------------------------------------------------------------------


def _accepted(texts: tuple[str, ...]) -> frozenset[str]:
    codes = [code.strip().upper() for text in texts for code in text.split(",") if code.strip()]
    if not codes:
        if texts:
            raise click.UsageError("--accept names no code")
        return frozenset()
    from stepward.validator.gate.settings import near_code
    from stepward.validator.rules.registry import RULE_BY_CODE

    for code in codes:
        if code not in RULE_BY_CODE:
            raise click.UsageError(f"--accept: `{code}` is not a code; {near_code(code)}")
    return frozenset(codes)


def _admitted(file: Path, options: dict[str, Any], accepted: frozenset[str]) -> tuple[Program, list[Policy]]:
    """Return the program and its policies if it passes the gate; else print why not, and exit."""
    with _loaded(file, options) as (gate, program):
        policies = gate.check_program(program)
    _require_passed(gate, program, options, accepted)
    return program, policies


@contextmanager
def _loaded(file: Path, options: dict[str, Any]) -> Iterator[tuple[Gate, Program]]:
    """Yield the gate and the program in a file; print why it, or a policy, can't be used, and exit."""
    from stepward.validator.cli.loading import gate_of, load_program
    from stepward.validator.gate.policies import policy_result
    from stepward.vm.errors import PolicyError, ProgramError

    gate = gate_of(options)
    try:
        yield gate, load_program(file, options["name"])
    except PolicyError as error:
        _refuse(policy_result(error), "a policy can't be used, so nothing was run")
    except ProgramError:
        gate.check_paths([file])
        _refuse(gate.result(), f"`{file}` is no program that can be run")


def _require_passed(
    gate: Gate, program: Program, options: dict[str, Any], accepted: frozenset[str], note: str = ""
) -> None:
    """Print why a program does not pass the gate, with a note, and exit, if it does not."""
    result = gate.result()
    telemetry = load_telemetry(options)
    if telemetry is not None:
        telemetry.count_findings(program.name, result.findings)
    _refuse_findings(result, program, accepted, note)


def _refuse_findings(result: RunResult, program: Program, accepted: frozenset[str], note: str) -> None:
    from dataclasses import replace

    from stepward.validator.findings import Severity

    found = [one for one in result.findings if one.severity is Severity.ERROR and one.code not in accepted]
    if found:
        codes = ",".join(sorted({one.code for one in found}))
        message = f"`{program.name}` does not pass the gate, so it was not run{note}"
        _refuse(
            replace(result, findings=tuple(found)), message, f"fix it, or run it all the same with `--accept {codes}`"
        )


def _refuse(result: RunResult, message: str, help: str = "") -> NoReturn:
    from stepward.validator.report import render

    color = uses_color(sys.stderr)
    click.echo(render(result, "full", color=color), nl=False, err=True, color=color)
    print_error(message, help)
    sys.exit(REFUSED)
