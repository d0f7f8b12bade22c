"""Loads the one program that a command is about, and creates the gate for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.written import refuse_all, refuse_called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepward.validator.gate.checking import Run
    from stepward.validator.gate.settings import Configurations
    from stepward.vm.language.program import Program


def load_program(file: Path, name: str | None) -> Program:
    """Return the program in a file; of several the one with the name.

    Raises DocumentError for a file that is no program, TargetError for one that can't be read or an unknown name,
    OverwriteError if the command would write over a file that the program names.
    """
    from stepward.validator.files import absolute
    from stepward.validator.gate.discovery import Candidate, TargetError, read_candidate
    from stepward.vm.language.program import Program

    context = click.get_current_context(silent=True)
    if context is not None:  # a shell that completes a line has none
        refuse_called(context, [file])
    try:
        contents = read_candidate(Candidate(absolute(file), is_named=True))
    except TargetError as error:
        raise TargetError(error.message, "correct the path") from None
    if contents.error is not None:
        raise contents.error
    programs = [Program.from_document(document) for document in contents.documents]
    chosen = [program for program in programs if name in (None, program.name)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(f"`{program.name}`" for program in programs)
    if not chosen:
        raise TargetError(f"there is no program `{name}` in `{file}`", f"it holds {names}")
    raise TargetError(f"there are {len(chosen)} programs in `{file}`", f"name one with `--program`: {names}")


def configurations_of(options: dict[str, Any]) -> Configurations:
    """Return the configurations that `--policy`, `--config` and `--isolated` name."""
    from stepward.validator.gate.settings import Configurations, Overrides

    overrides = Overrides(policies=options["policies"])
    return Configurations(overrides, config=options["config"], is_isolated=options["isolated"])


def gate_of(options: dict[str, Any]) -> Run:
    """Return a gate with these configurations, for one program."""
    from stepward.validator.gate.checking import Run

    return Run(configurations_of(options))


def programs_in(paths: Sequence[str], configurations: Configurations) -> list[Path]:
    """Return the files with programs among files and folders, but for those that settings exclude."""
    from stepward.validator.gate.discovery import find_candidates, read_candidate

    candidates = find_candidates(paths, configurations)
    return [one.path for one in candidates if not one.is_excluded and read_candidate(one).documents]


def refuse_configured(file: Path, options: dict[str, Any]) -> None:
    """Raise OverwriteError if a command would write over a policy or a baseline of the program in a file."""
    configurations = configurations_of(options)
    configurations.above(file.parent)
    refuse_all(click.get_current_context(), configurations)
