"""Options that name a file to write: a file that the command reads is never written over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.ranges import FileName
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.validator.gate.settings import Configurations

SIDES: Final = ("", "-wal", "-shm", "-journal", ".vault", ".vault-wal", ".vault-shm", ".vault-journal")
"""What SQLite and the vault of a journal add to its name for files of their own."""

_SETTINGS: Final = ("stepward.toml", "pyproject.toml")

_READ: Final = frozenset({"FILE", "URL", "MODULE", "MODULE:NAME", "MODULE:FUNCTION", "RUNS..."})
"""The metavars of parameters that name a file, or a module, to read."""


class OverwriteError(AdvisedError):
    """A command would write over a file that it reads."""


class Written(click.Option):
    """An option that names a file to write, and that refuses what the other options and arguments name."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Return the value; raises OverwriteError for a file that this command reads."""
        value, rest = super().handle_parse_result(ctx, opts, args)
        if not isinstance(value, Path) or ctx.resilient_parsing:
            return value, rest
        if value.name in _SETTINGS and value.exists():
            raise _refused(value, self)
        for other in ctx.command.params:
            is_allowed = self.name == "write_baseline" and other.name == "baseline"
            if other is not self and not is_allowed and not isinstance(other, Written) and _is_read(other):
                given = opts[other.name] if other.name in opts else other.get_default(ctx)
                texts = given if isinstance(given, list | tuple) else [given]
                refuse_inputs(value, self, [one for text in texts for one in _named(text)])
        return value, rest


def refuse_inputs(output: Path | None, option: click.Parameter | str, inputs: Iterable[str | Path]) -> None:
    """Raise OverwriteError if an output is one of the files that a command reads, or a part of such a journal."""
    if output is not None and any(is_same_file(output, f"{one}{side}") for one in inputs for side in SIDES):
        raise _refused(output, option)


def refuse_all(ctx: click.Context, configurations: Configurations, programs: Iterable[str | Path] = ()) -> None:
    """Raise OverwriteError if an option of a command names a program or a policy that is read, or a baseline.

    So is a file that `programs` of a program names. `configurations` has read the settings of the folders by now.
    """
    policies, baselines = configurations.named_files()
    programs = list(programs)
    for option, output in _outputs(ctx):
        also = () if option.name == "write_baseline" else baselines
        refuse_inputs(output, option, (*policies, *programs, *also))
    refuse_called(ctx, programs)


def refuse_called(ctx: click.Context, programs: Iterable[str | Path]) -> None:
    """Raise OverwriteError if an option of a command names a file that `programs` of one of these programs names."""
    outputs = _outputs(ctx)
    if not outputs:
        return
    from stepward.vm.language.called_files import called_files

    read = called_files(programs)
    for option, output in outputs:
        refuse_inputs(output, option, read)


def _outputs(ctx: click.Context) -> list[tuple[click.Parameter, Path]]:
    """Return the options of a command that name a file to write, with the file."""
    named = [(one, ctx.params.get(one.name or "")) for one in ctx.command.params if isinstance(one, Written)]
    return [(one, output) for one, output in named if isinstance(output, Path)]


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two names mean one file, also through links; the file need not exist."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def _refused(output: Path, option: click.Parameter | str) -> OverwriteError:
    name = option if isinstance(option, str) else option.opts[0]
    return OverwriteError(
        f"`{output}` is read by this command, and is never written over", f"name another file with `{name}`"
    )


def _is_read(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, FileName) or parameter.metavar in _READ or parameter.name in ("module", "model")


def _named(value: Any) -> Iterator[str]:
    """Yield the files that a value may name: `FILE`, `script:FILE`, `record:FILE:MODEL`, `module:NAME`, `a.module`."""
    if not isinstance(value, str | os.PathLike) or "://" in (text := os.fspath(value)) or not text:
        return
    yield text
    for part in text.split(":"):
        if part:
            yield part
            yield f"{part.replace('.', os.sep)}.py"
            yield os.path.join(part.replace(".", os.sep), "__init__.py")
