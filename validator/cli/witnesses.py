"""`stepward check --witnesses DIR`: a file for each violation that the machine has confirmed."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stepward.validator.engine.witnesses.witness import Witness
    from stepward.validator.failures import Failures
    from stepward.validator.result import RunResult


def write_witnesses(result: RunResult, folder: Path, failures: Failures) -> None:
    """Write the witnesses of all findings into a folder, which is created if needed, and print the file of each.

    `failures` records internal errors that prevent a witness.
    """
    from stepward.validator.files import why_not
    from stepward.validator.gate.settings import ConfigurationError
    from stepward.validator.report.text import position, safe

    seen: Counter[str] = Counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for finding in result.findings:
            witness = finding.evidence.witness if finding.evidence is not None else None
            if witness is None:
                continue
            name = _name(witness)
            seen[name] += 1
            file = folder / (name + (f"-{seen[name]}" if seen[name] > 1 else "") + ".json")
            if not failures.attempt(f"the witness `{file.name}`", partial(_saved, witness, file), lambda _: False):
                continue
            where = finding.file + position(finding.place, finding.span)
            click.echo(
                f"witness of {finding.code} at {safe(where)}: stepward replay {safe(shlex.quote(str(file)))}", err=True
            )
    except OSError as error:
        message = f"`{folder}` can't be written to: {why_not(error)}"
        raise ConfigurationError(message, "correct the folder of `--witnesses`") from None


def _saved(witness: Witness, file: Path) -> bool:
    witness.save(file)
    return True


def _name(witness: Witness) -> str:
    """Return the file name for a witness, such as `claims-SW401-pay`."""
    parts = (witness.program.name, witness.claim.code, witness.claim.step)
    return "-".join(re.sub(r"[^A-Za-z0-9_]+", "_", part)[:60] for part in parts)
