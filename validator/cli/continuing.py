"""The options of `stepward plan` and `stepward run` for the continuation of a run, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import MachineError, complete_runs
from stepward.validator.cli.ranges import MOST, Whole

if TYPE_CHECKING:
    from stepward.validator.planner.before import Before, Continuing
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.plan import Plan
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
        type=Whole(1),
        default=3,
        show_default=True,
        metavar="N",
        help="How often the runs of a chain may be continued.",
    ),
)


READ = click.option(
    "--read",
    "reads",
    multiple=True,
    metavar="INPUT=NAME",
    help="What an input of the continuation has of that run, if not its value of the same name (repeatable).",
)

_ONLY_THERE = {"grants": "--grant", "after_failure": "--after-failure", "reads": "--read"}
_NOT_THERE = {"takes": "--takes", "pairs": "--input", "inputs": "--inputs"}
"""Options that need `--continues`, and options that don't go with it."""


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
        for name, option in _ONLY_THERE.items():
            if options.get(name):
                raise click.UsageError(f"{option} is for the continuation of a run: add --continues")
        return None
    unusable = [option for name, option in _NOT_THERE.items() if options.get(name)]
    if unusable:
        raise click.UsageError(f"a continuation has the inputs that it reads: leave {', '.join(unusable)} out")
    if options["journal"] is None:
        raise click.UsageError("--continues needs the journal of the run: add --journal")
    grants = dict(map(granted, options["grants"]))
    return Continuing(options["continues"], grants, options["after_failure"], options["max_continuations"])


def granted(text: str) -> tuple[str, Any]:
    """Return what `--grant` adds, and to which budget; raises ValueUnreadable."""
    from stepward.validator.cli.values import ValueUnreadable
    from stepward.vm.machine.continuing import BUDGETS, FRACTIONS

    name, _, written = text.partition("=")
    try:
        number = Decimal(written)
    except InvalidOperation:
        number = Decimal(0)
    if number.is_finite() and number > MOST:
        raise ValueUnreadable(f"`--grant {text}` adds more than any budget has", "write `--grant steps=20`")
    fits = name in BUDGETS and number.is_finite() and number > 0
    if not fits or not (name in FRACTIONS or number == number.to_integral_value()):
        raise ValueUnreadable(f"`--grant {text}` adds nothing to a budget", "write `--grant steps=20`")
    return name, number if name in FRACTIONS else int(number)


def pairs_read(pairs: Sequence[str]) -> dict[str, str]:
    """Return what `--read` names, by the inputs; raises ValueUnreadable for a text that is no pair."""
    from stepward.validator.cli.values import ValueUnreadable

    found: dict[str, str] = {}
    for text in pairs:
        name, _, source = text.partition("=")
        if not name or not source.strip():
            raise ValueUnreadable(f"`--read {text}` is no `input=name`", "write `--read sum=check.output`")
        if name in found:
            raise ValueUnreadable(f"input `{name}` is read twice", "name once what it has")
        found[name] = source.strip().removeprefix("$")
    return found


def before_run(journal: Journal, continuing: Continuing, program: Program, policies: Sequence[Policy]) -> Before:
    """Return the runs that a program of a person is to continue, under the policies that apply to it.

    Raises PlanRefused if they can't be continued.
    """
    from stepward.validator.planner.before import before_of

    return before_of(journal, continuing, [one for one in policies if one.applies(program.name, program.source_name)])


def planned_after(
    before: Before, program: Program, reads_given: Mapping[str, str], accepted: Collection[str] = ()
) -> tuple[Plan, dict[str, str]]:
    """Return the plan of a continuation and what it reads, `reads_given` and whatever else has the name of an input.

    Raises MachineError if the program can't continue the run, and DocumentError if it can't run at all.
    """
    from stepward.vm.machine.refusals import RunRefused

    unknown = sorted(reads_given.keys() - before.inputs_of(program))
    if unknown:
        help = "correct `--read`, or add it to `inputs` of the program"
        raise MachineError(f"`{program.name}` has no input `{unknown[0]}`", help)
    reads = {**before.reads_of(program), **reads_given}
    try:
        return before.plan(program, reads, accepted), reads
    except RunRefused as error:
        help = error.help or _help(str(error), before)
        raise MachineError(str(error), help + (f", or `--accept {error.accept}`" if error.accept else "")) from None


def left_over(before: Before, program: Program, plan: Plan) -> str:
    """Return the words for the budgets of a program that are smaller because of the run before, or an empty text."""
    from stepward.vm.machine.continuing import BUDGETS
    from stepward.vm.values import as_text

    less = {name: getattr(plan.program, field) for name, field in BUDGETS.items()}
    smaller = [f"{as_text(most)} of `{name}`" for name, most in less.items() if most != getattr(program, BUDGETS[name])]
    return f"; run `{before.run}` and its grants leave it {', '.join(smaller)}" if smaller else ""


def _help(why: str, before: Before) -> str:
    """Return what to do about the refusal of a program."""
    if "the operator may grant more" in why:
        return (
            "add, for example, `--grant time=3600`"
            if "`timeout_seconds`" in why
            else "add, for example, `--grant steps=20`"
        )
    if why.startswith("input ") and why.endswith(" is missing"):
        there = ", ".join(f"`{name}`" for name in sorted(set(before.reads.values()))) or "nothing"
        return f"run `{before.run}` has {there}: name one with `--read INPUT=NAME`, or give the input a default"
    return "change the program, so that it goes on where the run has ended"


def continuation_of(journal: Journal, before: Before) -> str | None:
    """Return the run that continues another one; None if none does."""
    from stepward.validator.runs.chains import chain_of

    last = chain_of(journal, before.run)[-1].run
    return None if last == before.run else last


def continued(
    machine: ExecutionVM,
    before: Before,
    program: Program,
    reads: Mapping[str, str],
    by: str | None,
    accepted: Collection[str] = (),
) -> Run:
    """Continue a run by a program that was accepted for it, if nothing has happened to the run meanwhile."""
    asked = before.asked
    return machine.continue_run_sync(
        before.run,
        program,
        reads,
        head=before.head,
        grant=asked.grant or {},
        after_failure=asked.after_failure,
        max_continuations=asked.max_continuations,
        accept=accepted,
        by=by,
    )
