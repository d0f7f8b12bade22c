"""Programs and journals for tests of the review page."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from stepward.validator.cli import main
from stepward.vm import ExecutionVM, Program, SQLiteJournal

NAME: Final = "<script>document.title='run'</script>"
HOSTILE: Final = "</script><script>document.title='run'</script><img src=x onerror=document.title='run'>"


def bypassed() -> dict[str, Any]:
    """Return a program with one guardrail that one branch goes around."""
    return {
        "name": "bypass",
        "inputs": {"amount": {"type": "integer", "minimum": 0, "maximum": 100}},
        "tools": {"pay": {"effect": "write", "idempotent": False}, "look": {"effect": "read"}},
        "guardrails": [{"name": "look-first", "protects": {"tool": "pay"}, "requires": {"tool": "look"}}],
        "steps": [
            {"id": "check", "type": "condition", "condition": "$amount > 50", "then": "look", "otherwise": "pay"},
            {"id": "look", "type": "tool", "tool": "look", "next_step": "pay"},
            {"id": "pay", "type": "tool", "tool": "pay"},
        ],
    }


def large() -> dict[str, Any]:
    """Return a program of 150 steps with 30 findings, which branches go around guardrails."""
    steps = []
    for number in range(75):
        onward = f"c{number + 1}" if number < 74 else "e"
        way = {"then": f"t{number}", "otherwise": onward}
        steps.append({"id": f"c{number}", "type": "condition", "condition": f"$n > {number}", **way})
        steps.append({"id": f"t{number}", "type": "tool", "tool": "pay", "next_step": onward})
    rules = [
        {"name": f"g{number}", "protects": {"step": f"t{number}"}, "requires": {"tool": "ask"}} for number in range(30)
    ]
    return {
        "name": "large",
        "inputs": {"n": {"type": "integer"}},
        "tools": {"pay": {"effect": "write", "idempotent": False}, "ask": {"effect": "read"}},
        "guardrails": rules,
        "steps": [*steps, {"id": "e", "type": "tool", "tool": "ask"}],
    }


def hostile() -> dict[str, Any]:
    """Return a program whose names and values are markup and script."""
    data = bypassed()
    data["name"] = NAME
    data["guardrails"][0]["name"] = "<b onmouseover=alert(1)>"
    data["inputs"]["text"] = {"type": "string", "default": HOSTILE}
    data["steps"][0]["condition"] = f"$amount > 50 and $text != {json.dumps(HOSTILE)}"
    return data


def write_report(folder: Path, program: dict[str, Any] | Path, *options: str) -> Path:
    """Write the page of a program, and return its path."""
    file = folder / "program.json"
    if isinstance(program, Path):
        file = program
    else:
        file.write_text(json.dumps(program, indent=1))
    page = folder / "report.html"
    result = CliRunner().invoke(main, ["report", str(file), "--isolated", "-o", str(page), *options])
    assert result.exit_code in (0, 1), result.output
    return page


def journal_of_two_runs(folder: Path, more: int = 0) -> tuple[Path, Path]:
    """Return the files of a program and of a journal with two of its runs, `large-1` and `small-1`, and some more."""
    data = {
        "name": "two",
        "inputs": {"amount": {"type": "integer"}, "mail": {"type": "string", "sensitive": True}},
        "steps": [
            {"id": "check", "type": "condition", "condition": "$amount > 50", "then": "large", "otherwise": "small"},
            {"id": "large", "type": "end", "output": "$amount"},
            {"id": "small", "type": "end", "output": HOSTILE},
        ],
    }
    file, journal = folder / "two.json", folder / "runs.db"
    file.write_text(json.dumps(data))
    with closing(SQLiteJournal(str(journal))) as opened:
        machine = ExecutionVM(journal=opened, checker=None)
        program = Program.from_dict(data)
        others = [(f"more-{number}", 40 + number) for number in range(more)]
        for run, amount in (("large-1", 60), ("small-1", 7), *others):
            machine.run_sync(program, {"amount": amount, "mail": "ann@example.com"}, run_id=run)
    return file, journal
