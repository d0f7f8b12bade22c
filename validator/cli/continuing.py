"""The options of `stepward plan` for the continuation of a run, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import complete_runs

if TYPE_CHECKING:
    from stepward.validator.planner.before import Continuing
    from stepward.validator.planner.planner import Planned
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.run import Run

OPTIONS = (
    click.option(
        "--continues",
        metavar="RUN",
        help="The interrupted run in `--journal` that the program is to continue.",
        shell_complete=complete_runs,
    ),
    click.option(
        "--grant",
        "grants",
        multiple=True,
        metavar="BUDGET=N",
        help="What is added to the `steps`, `tokens` or `cost` that the run has left (repeatable).",
    ),
    click.option("--after-failure", is_flag=True, help="Continue a run that has ended FAILED, too."),
    click.option(
        "--max-continuations",
        type=click.IntRange(1),
        default=3,
        show_default=True,
        metavar="N",
        help="How often the runs of a chain may be continued.",
    ),
)


def continuing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a continuation to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def continuing(options: dict[str, Any]) -> Continuing | None:
    """Return the run that the program is to continue, with what the operator allows; None without `--continues`.

    Raises click.UsageError for options that do not go together, ValueUnreadable for a grant that is none.
    """
    from stepward.validator.planner.before import Continuing

    if options["continues"] is None:
        if options["grants"] or options["after_failure"]:
            raise click.UsageError("--grant and --after-failure are for the continuation of a run: add --continues")
        return None
    if options["takes"] or options["pairs"] or options["inputs"] is not None:
        raise click.UsageError("a continuation has the inputs that it reads: leave --takes, --input and --inputs out")
    if options["journal"] is None:
        raise click.UsageError("--continues needs the journal of the run: add --journal")
    grants = dict(map(granted, options["grants"]))
    return Continuing(options["continues"], grants, options["after_failure"], options["max_continuations"])


def granted(text: str) -> tuple[str, Any]:
    """Return what `--grant` adds, and to which budget; raises ValueUnreadable."""
    from stepward.validator.cli.values import ValueUnreadable
    from stepward.vm.machine.continuing import BUDGETS

    name, _, written = text.partition("=")
    try:
        number = Decimal(written)
    except InvalidOperation:
        number = Decimal(0)
    is_whole = name == "cost" or number == number.to_integral_value()
    if name not in BUDGETS or not number.is_finite() or number <= 0 or not is_whole:
        raise ValueUnreadable(f"`--grant {text}` adds nothing to a budget", "write `--grant steps=20`")
    return name, number if name == "cost" else int(number)


def continued(machine: ExecutionVM, found: Planned, by: str | None) -> Run:
    """Continue the run for which a program was accepted, if nothing has happened to it meanwhile."""
    assert found.program is not None, "it was accepted"
    assert found.before is not None, "it was accepted for that run"
    asked = found.before.asked
    return machine.continue_run_sync(
        found.before.run,
        found.program,
        found.before.reads_of(found.program),
        head=found.before.head,
        grant=asked.grant or {},
        after_failure=asked.after_failure,
        max_continuations=asked.max_continuations,
        by=by,
    )
