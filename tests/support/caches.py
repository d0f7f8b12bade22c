"""A project with a cache of its own, and who looks what is really checked."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from commands import BAD, check, put
from paths import PROGRAMS
from sizes import by_day, size
from stepward.validator.findings import Report
from stepward.validator.gate.cache import FOLDER

POLICY = "policy: p\nguardrails:\n  - {name: no-mail, never: {tool: mail}}\n"

MAILS = """\
name: mails
inputs: {}
tools: {mail: {effect: write, idempotent: true, args: {}, returns: {type: string}}}
steps:
  - {id: send, type: tool, tool: mail, output_key: sent, next_step: done}
  - {id: done, type: end}
"""


def own_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user without a cache, in an empty project."""
    monkeypatch.delenv("STEPWARD_NO_CACHE")
    monkeypatch.delenv("STEPWARD_CACHE_KEY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "user"))
    (folder / "project").mkdir()
    monkeypatch.chdir(folder / "project")


def entries(folder: str = FOLDER) -> list[Path]:
    return sorted(path for path in Path(folder).glob("*") if re.fullmatch("[0-9a-f]{64}", path.name))


def watch_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the documents that were really checked, since the list was cleared."""
    from stepward.validator import validator

    seen: list[str] = []
    real = validator.validate_document

    def validate(document: object, *arguments: object, **options: object) -> Report:
        seen.append(Path(document.name).name)  # type: ignore[attr-defined]
        return real(document, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(validator, "validate_document", validate)
    return seen


def is_hit(checked: list[str], *arguments: str) -> bool:
    checked.clear()
    check(*arguments)
    return not checked


def put_programs(folder: Path, *, codes: tuple[str, ...] | None) -> None:
    """Copy the examples, each bad one beside a configuration that names its policy.

    Without `codes` it is by day one bad program of each code and a third of the good ones, and by night all of them.
    """
    copied: Counter[str] = Counter()
    for path in sorted((PROGRAMS / "bad").rglob("*")):
        if path.suffix in {".yaml", ".json", ".py"} and not path.name.endswith(".policy.yaml"):
            code = path.parent.name
            if (codes is not None and code not in codes) or (codes is None and copied[code] == size(1, 1_000)):
                continue
            copied[code] += 1
            home = folder / code / path.name
            home.mkdir(parents=True)
            shutil.copy(path, home)
            policy = path.with_suffix(".policy.yaml")
            if policy.exists():
                shutil.copy(policy, home)
                (home / "stepward.toml").write_text(f'policies = ["{policy.name}"]\n')
    if codes is None:
        (folder / "good").mkdir()
        for path in by_day(sorted((PROGRAMS / "good").iterdir()), 3):
            shutil.copy(path, folder / "good")


def kept_bad() -> Path:
    """Keep a finding, and return its entry."""
    put("bad.yaml", BAD)
    assert check().exit_code == 1
    (entry,) = entries()
    return entry
