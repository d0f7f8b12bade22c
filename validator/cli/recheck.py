"""`stepward recheck`: certificates are checked again by code that shares only the language with the engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import format_option, print_json
from stepward.validator.cli.output import print_error, uses_color
from stepward.validator.cli.ranges import FILE
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.validator.recheck.checking import Rechecked

REFUSED, NOTHING_THERE = 1, 3


@click.command()
@click.argument("source", type=FILE, metavar="DIR|CERTIFICATE")
@format_option
def recheck(source: Path, **options: Any) -> None:
    """Check certificates of proofs again.

    `stepward check --certificates` writes them. This command evaluates their tables and gives their formulas to a
    solver: cvc5, or Z3 if cvc5 is not installed.

    Exit status: 0 all are accepted, 1 one is refused, 2 the command can't be used, 3 there is no certificate.
    """
    from stepward.validator.recheck.certificates import recheck as rechecked

    files = _files(source)
    if not files:
        print_error(f"there is no certificate in {source}", "`stepward check --certificates DIR` writes them")
        sys.exit(NOTHING_THERE)
    found = []
    for file in files:
        try:
            found.append(rechecked(file))
        except OSError as error:
            raise _unreadable(file, error) from None
    if options["output_format"] == "json":
        _print_json(found)
    else:
        click.echo(_text(found), nl=False, color=uses_color())
    sys.exit(0 if all(one.is_accepted for one in found) else REFUSED)


def _files(source: Path) -> list[Path]:
    """Return the certificates in a folder, or the one file, and warn about other files."""
    try:
        if not source.is_dir():
            if not source.exists():
                raise AdvisedError(f"`{source}` does not exist", "name the folder of `stepward check --certificates`")
            return [source]
        files = sorted(one for one in source.iterdir() if one.is_file())
    except OSError as error:
        raise _unreadable(source, error) from None
    for one in files:
        if one.suffix != ".json":
            click.echo(f"warning: `{one}` is no certificate by its name, and was not looked at", err=True)
    return [one for one in files if one.suffix == ".json"]


def _unreadable(file: Path, error: OSError) -> AdvisedError:
    from stepward.validator.files import why_not

    return AdvisedError(f"`{file}` can't be read: {why_not(error)}", "correct the path")


def _print_json(found: list[Rechecked]) -> None:
    refused = sum(not one.is_accepted for one in found)
    summary = {"certificates": len(found), "accepted": len(found) - refused, "refused": refused}
    print_json({"version": 1, "certificates": [one.to_data() for one in found], "summary": summary})


def _text(found: list[Rechecked]) -> str:
    from stepward.validator.report.table import Column, render
    from stepward.validator.report.text import counted, safe

    columns = [Column(name) for name in ("program", "property", "about", "kind", "checked by", "verdict")]
    text = render(columns, [_row(one) for one in found], color=uses_color())
    for one in found:
        if not one.is_accepted:
            text += f"refused: {safe(one.file)}: {safe(one.why_not)}\n"
    refused = sum(not one.is_accepted for one in found)
    ending = f"{counted(refused, 'certificate')} refused" if refused else "all accepted"
    return f"{text}{counted(len(found), 'certificate')}: {ending}\n"


def _row(one: Rechecked) -> list[str]:
    claim = one.claim
    about = Path(one.file).name
    if claim is not None:
        named = claim.step if claim.property == "allow" and claim.step else claim.rule
        about = f"{claim.policy}/{named}" if claim.policy else named
    kinds, checkers = ", ".join(one.kinds), " and ".join(one.checkers)
    verdict = "accepted" if one.is_accepted else "refused"
    return [one.program, claim.property if claim is not None else "", about, kinds, checkers, verdict]
