"""`stepward graph`: a diagram of a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stepward.vm.language.program import Program

FORMATS = ("svg", "png", "dot")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write it; the suffix gives the format.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="The format.  [default: by the suffix, or dot]")
@click.option("--program", "name", metavar="NAME", help="Which program, when the file holds several.")
def graph(file: Path, output: Path | None, format_: str | None, name: str | None) -> None:
    """Draw the program in FILE as an SVG or PNG picture, or as DOT text.

    Without -o it is written to standard output.
    """
    chosen = format_ or _format_of(output)
    from stepward.validator.diagram import render, to_dot

    picture = render(to_dot(_load(file, name)), chosen)
    if output is None:
        sys.stdout.buffer.write(picture)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        from stepward.validator.gate.paths import why_not
        from stepward.validator.gate.settings import ConfigurationError

        raise ConfigurationError(f"`{output}` can't be written: {why_not(error)}", "correct the path of `-o`") from None


def _format_of(output: Path | None) -> str:
    if output is None:
        return "dot"
    suffix = {".gv": "dot"}.get(output.suffix, output.suffix[1:])
    if suffix not in FORMATS:
        raise click.UsageError(f"--output: `{output}` does not end in .svg, .png or .dot; say which with --format")
    return suffix


def _load(file: Path, name: str | None) -> Program:
    from stepward.validator.cli.loading import load_program
    from stepward.vm.errors import DocumentError

    try:
        return load_program(file, name)
    except DocumentError as error:
        for problem in error.problems:
            click.echo(f"error: `{file}`: {problem.message}", err=True)
        click.echo(f"  = help: `stepward check {file}` says where, and what to do", err=True)
        sys.exit(2)
