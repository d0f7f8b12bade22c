"""The natural programs: what teams write, in `natural/`, with the policies that some of them are under.

The set was written down before the checker saw it. A first comment `# planted SW401: ...` names the mistake that a
program was given on purpose, and the code that should tell it. Helpers only; no tests stand here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from paths import DATA
from stepward.validator import ProgramValidator, Report
from stepward.vm import Policy, Program

FOLDER: Final = DATA / "natural"
_PLANTED: Final = re.compile(r"# planted (SW\d{3}): ")


def natural_files() -> list[Path]:
    """Return the files of the programs, by name."""
    return sorted(FOLDER.glob("*.yaml"))


def planted_code(path: Path) -> str | None:
    """Return the code that should tell the planted mistake of a program; None where nothing was planted."""
    found = _PLANTED.match(path.read_text(encoding="utf-8"))
    return found[1] if found else None


@cache
def policies() -> tuple[Policy, ...]:
    """Return the policies; each says itself to which programs it applies."""
    return tuple(Policy.load(path) for path in sorted((FOLDER / "policies").glob("*.yaml")))


def natural_report(path: Path) -> Report:
    """Return what the checker says of a program, under the policies that apply to it."""
    return ProgramValidator(Program.load(path), policies=policies()).validate()
