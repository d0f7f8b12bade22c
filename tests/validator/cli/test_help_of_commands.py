"""Helps of refused commands name only options that the command has, or that a command beside them has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands import CLEAN, put
from stepward.validator.cli import main

ASKED = {
    "verify nosuch.db": "another argument names another journal",
    "replay nosuch.db run": "another argument names another journal",
    "replay runs.db nosuch": "another argument names another journal",
    "replay text.yaml": "a journal and a run of it",
    "replay empty.json": "evidence.witness",
    "verify :memory:": "name a file",
    "runs nosuch --journal runs.db": "`--journal` names another journal",
    "runs --journal nosuch.db": "`--journal` names another journal",
    "coverage clean.yaml --journal nosuch.db": "`--journal` names another journal",
    "run text.yaml": "`stepward check --skip-non-programs`",
    "coverage text.yaml": "`stepward check --skip-non-programs`",
    "sabotage text.yaml": "stepward check",
    "graph text.yaml": "stepward check",
}


@pytest.mark.parametrize("words", ASKED)
def test_a_help_names_what_the_command_has(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("clean.yaml", CLEAN)
    put("text.yaml", "a: 1\n")
    put("empty.json", "")
    assert CliRunner().invoke(main, ["run", "clean.yaml", "--journal", "runs.db"]).exit_code == 0
    command, *rest = words.split()
    result = CliRunner().invoke(main, [command, *rest])
    help = "".join(line for line in result.output.splitlines(keepends=True) if "= help:" in line)
    assert result.exit_code != 0
    assert ASKED[words] in help, result.output
    usage = CliRunner().invoke(main, [command, *(["show"] if command == "runs" else []), "--help"]).output
    own = set(re.findall(r"--[a-z-]+", re.sub(r"`stepward [^`]*`", "", help)))
    assert own <= set(re.findall(r"--[a-z-]+", usage)), help


FILES = {
    "policy.yaml": "policy: shop\n",
    "text.yaml": "a: 1\n",
    "empty.yaml": "",
    "list.json": "[1]",
    "broken.yaml": "steps: [",
    "two.yaml": f"{CLEAN}---\n{CLEAN}",
    "tools.py": "x = 1\n",
    "bad.py": "1/0\n",
    "made.py": "from stepward.vm import Program\np = Program.from_dict({'name': str(1), 'steps': list(range(3))})\n",
    "undefined.yaml": "name: u\nsteps: [{id: a, type: llm, prompt: $x}]\n",
    "asks.yaml": "name: a\ninputs: {n: {type: integer}}\nsteps: [{id: a, type: llm, prompt: $n}]\n",
    "tool.yaml": "name: t\ntools: {t: {effect: write}}\nsteps: [{id: a, type: tool, tool: t}]\n",
    "folder": None,
    "nosuch.yaml": None,
    "runs.db": None,
    ":memory:": None,
}
"""What may be named in place of a program, a journal and so on."""

TAKE_FILES = (
    "check",
    "check --policy",
    "check --baseline",
    "run",
    "run clean.yaml --policy",
    "run clean.yaml --tools",
    "run clean.yaml --model",
    "run clean.yaml --inputs",
    "run clean.yaml --key",
    "run clean.yaml --journal",
    "run clean.yaml --config",
    "coverage",
    "coverage clean.yaml --journal",
    "graph",
    "graph --run one --journal",
    "report",
    "sabotage --examples 1 --attacks guessed-token --no-specimens",
    "sabotage clean.yaml --examples 1 --attacks guessed-token --no-specimens --policy",
    "sabotage --replay",
    "verify",
    "verify runs.db --key",
    "replay",
    "replay runs.db",
    "recheck",
    "manifest",
    "plan something --model",
    "plan something --model script:clean.yaml --tools",
    "runs --journal",
    "runs show --journal runs.db",
    "runs export --journal",
    "runs migrate one --journal runs.db",
    "runs resume",
    "runs reconcile one",
    "analyze",
    "repl --tools",
    "worker --tools",
    "key",
)


@pytest.mark.parametrize("words", TAKE_FILES)
def test_no_help_names_what_the_command_lacks(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {**FILES, "clean.yaml": CLEAN}.items():
        if text is not None:
            put(name, text)
    Path("folder").mkdir()
    assert CliRunner().invoke(main, ["run", "clean.yaml", "--journal", "runs.db", "--run-id", "one"]).exit_code == 0
    path = words.split()[: 2 if words.startswith("runs ") and not words.startswith("runs --") else 1]
    known = options(path)
    for name in FILES:
        text = CliRunner().invoke(main, [*words.split(), name], input="").output
        said = [line for line in text.splitlines() if re.match(r"\s*(= help|error|note|Error)", line)]
        own = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"`stepward [^`]*`", "", "\n".join(said))))
        assert own <= known, text
        for phrase in re.findall(r"`stepward ([^`]*)`", "\n".join(said)):
            named = [word for word in phrase.split()[:2] if word.isalpha() and word.islower()]
            assert set(re.findall(r"--[a-z][a-z-]+", phrase)) <= options(named), text


def options(path: list[str]) -> set[str]:
    """Return the options of a command, and of the one that it is without a further word."""
    usage = CliRunner().invoke(main, [*path, "--help"]).output
    more = CliRunner().invoke(main, [*path, "show", "--help"]).output if path == ["runs"] else ""
    return set(re.findall(r"--[a-z][a-z-]+", f"{usage}{more}"))
