"""Output of commands: errors with their help, files, colors and progress."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from stepward.validator.files import why_not
from stepward.validator.result import AdvisedError
from stepward.vm.writing import put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def uses_color(stream: TextIO | None = None) -> bool:
    """Return whether a stream, by default standard output, is a terminal that may have colors."""
    is_terminal = (stream or sys.stdout).isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_error(message: str, help: str = "") -> None:
    """Print an error on standard error, and what to do about it."""
    click.echo(f"error: {message}", err=True)
    if help:
        click.echo(f"  = help: {help}", err=True)


def refuse_two_configurations(*, config: Path | None, isolated: bool) -> None:
    """Raise click.UsageError where both `--config` and `--isolated` are given."""
    if config and isolated:
        raise click.UsageError("--config names a configuration, --isolated leaves all out: give one of the two")


def write_output(path: Path, content: str | bytes, help: str) -> None:
    """Write a file that an option names; raises AdvisedError with this help when that is not possible."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe
            path.write_bytes(data)
        else:
            whole = path.resolve()  # a link that the caller names is followed
            put(whole, data, mode=whole.stat().st_mode & 0o7777 if whole.exists() else None)
    except OSError as error:
        raise AdvisedError(f"`{path}` can't be written: {why_not(error)}", help) from None


def json_of(data: Any) -> str:
    """Return plain data as the text of a JSON file."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function to call for each part, with its name, how many are done, and of how many.

    It draws a bar on standard error if that is a terminal; else None is yielded.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)
