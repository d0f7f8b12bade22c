"""`stepward sabotage --call-real-tools`: the user's own tools are called in isolation, and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import print_report
from stepward.validator.cli.output import json_of, progress_bar
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.sabotage.real.campaign import Orders, ToolMatrix
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program

FOR_THE_MACHINE: Final = ("families", "attacks", "save", "replay", "self_test", "no_specimens", "dask")
"""Options that are about attacks on the machine."""

BREACHED, UNCONFIRMED, NOT_ALL_RAN = 1, 3, 4


def calls_real_tools(options: dict[str, Any]) -> bool:
    """Return whether the user's own tools are to be called; raises click.UsageError for options that clash."""
    if not options["call_real_tools"]:
        for name in ("tools", "probe"):
            if options[name] is not None:
                raise click.UsageError(
                    f"`--{name}` is for `--call-real-tools`, which calls the real functions: give both"
                )
        return False
    if options["tools"] is None:
        raise click.UsageError("`--call-real-tools` needs `--tools MODULE` with the functions to call")
    for name in FOR_THE_MACHINE:
        if options[name]:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"`--{option}` is about attacks on the machine: leave it out with `--call-real-tools`"
            )
    if options["workers"] > 1:
        raise click.UsageError("`--call-real-tools` calls one tool at a time: leave out `--workers`")
    return True


def attack_real_tools(program: Program, policies: Sequence[Policy], options: dict[str, Any], orders: Orders) -> int:
    """Call the tools, print the results, and return the exit status."""
    matrix = _matrix(program, policies, options, orders)
    _print_matrix(matrix, options)
    from stepward.sabotage.real.study import ToolOutcome

    if matrix.of(ToolOutcome.BREACHED):
        return BREACHED
    if matrix.of(ToolOutcome.UNCONFIRMED):
        return UNCONFIRMED
    open_ones = matrix.of(ToolOutcome.NOT_RUN) + matrix.of(ToolOutcome.NOT_OBSERVED)
    return NOT_ALL_RAN if options["require_all"] and open_ones else 0


def _matrix(program: Program, policies: Sequence[Policy], options: dict[str, Any], orders: Orders) -> ToolMatrix:
    from hypothesis.errors import Unsatisfiable

    from stepward.sabotage.real.campaign import attack_tools
    from stepward.sabotage.real.isolation import IsolationError
    from stepward.sabotage.real.sandbox import Sandbox, ToolsRefused, located
    from stepward.vm.errors import ProgramError

    try:
        with (
            Sandbox(located(options["tools"]), _probe(options["probe"])) as sandbox,
            progress_bar("the tools are imported") as progress,
        ):
            return attack_tools(program, sandbox, policies, orders, progress)
    except IsolationError as error:
        help = "no tool was called. Run it on Linux, where the kernel lets you make user and network namespaces"
        raise AdvisedError(f"tools can't be separated from the network here: {error}", help) from None
    except ToolsRefused as error:
        help = (
            "the module runs without network, in an empty folder; give it from the folder where you give this command"
        )
        raise AdvisedError(str(error), help) from None
    except ProgramError as error:
        help = "`stepward check` says what to fix"
        raise AdvisedError(f"no machine can run `{program.name}`: {error.problems[0].message}", help) from None
    except Unsatisfiable:
        help = "look at `pattern`, `minimum` and `maximum` of the tools' `args`"
        raise AdvisedError("some type of an argument seems to allow no value", help) from None


def _probe(name: str | None) -> str | None:
    """Return the name of a probe for the process of the tools."""
    if name is None:
        return None
    from stepward.sabotage.real.sandbox import located

    module, colon, function = name.rpartition(":")
    if not colon or not module or not function:
        raise click.UsageError(f"`--probe {name}` names no function: write `--probe MODULE:function`")
    return f"{located(module)}:{function}"


def _print_matrix(matrix: ToolMatrix, options: dict[str, Any]) -> None:
    from stepward.validator.report.real_tools import to_data, to_junit, to_text

    formats: dict[str, Callable[[bool], str]] = {
        "json": lambda _: json_of(to_data(matrix)),
        "junit": lambda _: to_junit(matrix),
        "text": lambda color: to_text(matrix, details=options["details"], color=color),
    }
    print_report(formats[options["output_format"]], options["output_file"])
