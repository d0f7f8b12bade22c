"""The group of commands, and the handling of errors in all of them."""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from stepward.validator.cli.output import print_error
from stepward.validator.cli.streams import give_up, set_up_streams
from stepward.validator.failures import REPORT_IT
from stepward.validator.files import why_not
from stepward.validator.result import AdvisedError

COMMANDS: Final = (
    "check",
    "explain",
    "graph",
    "report",
    "init",
    "schema",
    "plan",
    "repl",
    "run",
    "runs",
    "worker",
    "breaker",
    "replay",
    "recheck",
    "coverage",
    "analyze",
    "sabotage",
    "verify",
    "manifest",
    "mcp",
    "studio",
    "key",
    "completion",
)
"""The commands, each in the module of its name, so that `check` need not import the machine."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""Errors of a disk that can't be written to: no bug of ours."""

INTERNAL = 2
INTERRUPTED = 130


class _Command(click.Group):
    """A group that turns every error into a message, without a traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the command of this process, whose streams and garbage collector it sets up."""
        # The process is short, and nearly all its objects live to the end, so that each pass of the collector is
        # useless: without them loading a large program takes half the time.
        gc.disable()
        set_up_streams()
        return super().__call__(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; click would end with 1 for Ctrl-C."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command and return the command; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"stepward.validator.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with; for another word, say which command is meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from stepward.validator.cli.meant import meant_by

            similar = meant_by(args[0], COMMANDS)
            ctx.fail(f"no such command `{args[0]}`; {similar or '`stepward --help` lists all commands'}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error ends in a message and a status."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except AdvisedError as error:
            _stop(error.message, error.help)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                _give_up_output()
                _stop(f"the output can't be written: {why_not(error)}", "make room, or write it somewhere else")
            _refuse_document(error)
            if os.environ.get("STEPWARD_DEBUG") == "1":
                raise
            _stop(f"internal error: {type(error).__name__}: {error}", REPORT_IT)


def _give_up_output() -> None:
    """Discard output that can't be written: Python would try again at its end, and fail with its own status."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up(sys.stdout)


def _refuse_document(error: Exception) -> None:
    """Say what is wrong with a file that is no program or policy, and exit, if that is the error."""
    from stepward.validator.cli.printed import command
    from stepward.vm.errors import DocumentError, ProgramError

    if not isinstance(error, DocumentError):
        return
    for problem in error.problems[:-1]:
        print_error(f"`{error.name}`: {problem.message}", problem.help)
    last, help = error.problems[-1], "correct the policy"
    if isinstance(error, ProgramError):
        help = f"`{command('check', error.name)}` says where, and what to do"
    _stop(f"`{error.name}`: {last.message}", last.help or help)


def _stop(message: str, help: str) -> NoReturn:
    print_error(message, help)
    sys.exit(INTERNAL)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="stepward", prog_name="stepward", message="%(prog)s %(version)s")
def main() -> None:
    """Stepward checks workflow programs, runs them, and attacks the machine that runs them.

    If you are new here, `stepward init` makes a first project.
    """
