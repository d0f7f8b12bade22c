"""The group of commands, and what every one of them does about errors."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Any, NoReturn

import click

from stepward.validator.cli.check import check
from stepward.validator.cli.completion import completion
from stepward.validator.cli.explain import explain
from stepward.validator.cli.graph import graph
from stepward.validator.cli.key import key
from stepward.validator.cli.replay import replay
from stepward.validator.cli.run import run
from stepward.validator.cli.runs import runs
from stepward.validator.cli.schema import schema
from stepward.validator.cli.verify import verify
from stepward.validator.gate.settings import AdvisedError

INTERNAL = 2
INTERRUPTED = 130


class _Command(click.Group):
    """A group that lets nobody see a traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the command of this process, which therefore may be set up as a whole."""
        # The process is short and nearly all that it allocates it keeps to the end, so that each pass of the
        # collector is in vain: without them loading a large program takes half the time.
        gc.disable()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; what goes wrong ends in a message and a status."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except AdvisedError as error:
            _stop(error.message, error.help)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read our output has seen enough; click ends the process without a word
            if os.environ.get("STEPWARD_DEBUG") == "1":
                raise
            where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            words = f"internal error{where}: {type(error).__name__}: {error}"
            _stop(words, "this is a bug of Stepward's: please report it, with the traceback of `STEPWARD_DEBUG=1`")


def _stop(message: str, help: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    if help:
        click.echo(f"  = help: {help}", err=True)
    sys.exit(INTERNAL)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="stepward", prog_name="stepward", message="%(prog)s %(version)s")
def main() -> None:
    """Stepward proves that a workflow program can only go where it is allowed to go."""


for command in (check, explain, graph, schema, run, runs, replay, verify, key, completion):
    main.add_command(command)
