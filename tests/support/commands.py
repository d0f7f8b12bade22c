"""Programs in files, and `stepward check` on them."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from stepward.validator.cli import main
from stepward.validator.gate.discovery import Candidate, read_candidate
from stepward.vm import Program

CLEAN = "name: good\ninputs: {}\nsteps:\n  - {id: a, type: end}\n"
BAD = "name: bad\ninputs: {}\nsteps:\n  - {id: a, type: llm, prompt: x, next_step: gone}\n"
WARNS = """\
name: warns
inputs: {amount: {type: number}}
steps:
  - {id: c, type: condition, condition: $amount > 5, then: e, otherwise: e}
  - {id: e, type: end}
"""


def put(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def check(*arguments: str, stdin: str | bytes | None = None, is_caught: bool = False) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], input=stdin, catch_exceptions=is_caught)


def program_in(path: Path) -> Program:
    """Return the program of a file, as the command reads it."""
    (document,) = read_candidate(Candidate(path, is_named=True)).documents
    return Program.from_document(document)
