"""The commands that commands print can be copied as they are: each has what it shares with the one that prints it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import click
import pytest

from paths import ROOT
from shops import GIVEN, ORDER, STEPWARD, advice, crashed, database, open_shop, shop, stepward
from stepward.validator.cli import main
from stepward.validator.cli.printed import FEWER, SHARED, command

TARGETS = {
    "runs": ("run", "runs resume", "runs show"),
    "runs recover": (
        "run",
        "plan",
        "repl",
        "runs recover",
        "runs resume",
        "runs reconcile",
        "runs show",
        "runs cancel",
    ),
    "runs resume": ("run", "plan", "runs recover", "runs resume", "runs reconcile", "runs show"),
    "runs reconcile": ("run", "plan", "runs recover", "runs resume", "runs reconcile", "runs show"),
    "breaker close": ("run", "runs recover", "runs resume", "runs reconcile"),
    "check": ("worker", "graph", "sabotage"),
    "manifest": ("run", "plan", "repl", "worker", "runs recover", "runs resume"),
}
"""The commands that are printed, with those that print them."""

ANEW = {
    "by": "somebody else may settle a call",
    "output_format": "how it is shown is asked for each time",
    "output": "what a tool returned, and where a receipt goes, are said each time",
    "payload": "the answer is said each time",
    "run": "the run is an argument",
    "token": "so is the token",
    "step": "so is the step",
    "verdict": "so is the verdict",
    "statuses": "the list is another one",
    "program": "the list is another one",
    "since": "the list is another one",
    "limit": "the list is another one",
    "why": "so is the reason",
    "name": "a file, a breaker or a program is named by an argument",
    "tools": "a check with tools asks more",
    "model": "a check asks no model",
    "output_file": "the report of one command is no place for that of another",
    "baseline": "that of a worker is one of runs",
}
"""Parameters of one name that two commands have, and that are not repeated, and why."""


def of(words: str) -> click.Command:
    found: click.Command = main
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None
        found = inner
    return found.commands["list"] if isinstance(found, click.Group) else found


def names(one: click.Command) -> set[str]:
    return {parameter.name or "" for parameter in one.params}


def test_what_two_commands_share_is_repeated_or_said_anew() -> None:
    seen = set()
    for target, printers in TARGETS.items():
        for printer in printers:
            kept = FEWER.get(target, SHARED)
            for name in names(of(target)) & names(of(printer)) - set(kept):
                assert name in ANEW, f"`{printer}` prints `{target}` without `{name}`"
            seen |= names(of(target)) & names(of(printer)) & set(kept)
    assert seen == set(SHARED), "each is shared by two commands"


VALUES: dict[str, Any] = {
    "journal": "my runs.db",
    "tools": "my tools.py",
    "model": "script:replies.yaml",
    "model_options": Path("options.yaml"),
    "prices": Path("prices.yaml"),
    "cache": "cache.db",
    "key_file": Path("a key"),
    "old_keys": (Path("old"), Path("older")),
    "config": Path("stepward.toml"),
    "policies": (Path("one.yaml"), Path("two $.yaml")),
    "isolated": True,
    "break_after": 3,
    "otel": True,
    "otel_values": True,
}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "runs": ("r 1",),
    "runs recover": ("r 1",),
    "runs resume": ("token", "--payload", "JSON", "--by", "NAME"),
    "runs reconcile": ("r 1", "each[3]/pay", "done", "--output", "JSON"),
    "breaker close": ("tool:pay", "--why", "TEXT", "--by", "NAME"),
    "check": ("a file.yaml",),
    "manifest": ("mcp:shop", "--pin"),
}


@pytest.mark.parametrize("words", TARGETS)
def test_a_printed_command_is_read_as_it_was_meant(words: str) -> None:
    assert VALUES.keys() == set(SHARED)
    printed = shlex.split(command(words, *ARGUMENTS[words], options=VALUES))
    count = len(words.split())
    assert printed[: count + 1] == ["stepward", *words.split()]
    target = of("runs show" if words == "runs" else words)
    context = target.make_context(words, printed[count + 1 :], help_option_names=["-h", "--help"])
    for name in names(target).intersection(FEWER.get(words, SHARED)):
        assert context.params[name] == VALUES[name], name


def test_nothing_is_said_that_was_not_given() -> None:
    assert command("runs recover", "r1", options={"journal": "runs.db", "tools": None, "otel": False}) == (
        "stepward runs recover r1"
    )


def test_no_password_is_printed() -> None:
    options = {"journal": "postgresql://me:hush@host/db", "tools": "my tools"}
    printed = command("runs recover", options=options)
    assert printed == "stepward runs recover --journal postgresql://me@host/db --tools 'my tools'"


MADE_BY_HAND = {
    "stepward run PROGRAM --journal {}": "a template: the program is not known",
    "stepward check --policy {} PROGRAM": "a template: the program is not known",
    "stepward replay {}": "it needs nothing but the file",
    "stepward recheck {}": "it needs nothing but the folder",
    "stepward sabotage --replay {}": "it needs nothing but the file",
    "stepward run {} {} --tools tools.py --journal runs.db --run-id first": "in a new project, with all that it needs",
    "stepward sabotage {} --families injection --examples 5 --no-specimens": "in a new project",
    "stepward runs {}": "an action that is meant, without its arguments",
    "stepward {} {}": "a version",
    "stepward {}": "a command that is meant, without its arguments",
    "stepward manifest mcp:{} --pin": "a comment in a file, and a message of a library, which know no options",
}
"""The commands with values in them that are written in place, and why they are whole."""


def test_every_other_command_with_values_is_made_by_one_function() -> None:
    found = set()
    for folder in ("validator", "vm", "sabotage"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "stepward " in text else ():
                if isinstance(node, ast.JoinedStr):
                    parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
                    said = "".join(map(str, parts))
                    found |= {one.strip() for one in re.findall(r"stepward [a-z{][^`\n;]*", said) if "{}" in one}
    assert found == set(MADE_BY_HAND)


# -- done literally ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_shop(tmp_path, monkeypatch)
    Path("open.yaml").write_text("policy: open\nallow: [ask, pay, tell]\n")


MORE = ("--policy", "open.yaml", "--isolated", "--break-after", "9", "--cache", "replies.db")


def interrupted(*arguments: str) -> list[str]:
    """Interrupt a command while a tool works; return the arguments of the command that it prints then."""
    # What a tool prints is seen at once, with a buffer and without.
    own = {**os.environ, "PYTHONUNBUFFERED": "1" if "r1" in arguments else ""}
    pipe = subprocess.PIPE
    with subprocess.Popen([STEPWARD, *arguments], stdout=pipe, stderr=pipe, text=True, env=own) as running:
        assert running.stderr
        assert running.stderr.readline() == "a tool prints\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    (printed,) = re.findall(r"\ninterrupted: `stepward (.*)` goes on with it\n", f"\n{err}")
    return shlex.split(printed)


@pytest.mark.parametrize("named", [("--run-id", "r1"), ()])
def test_an_interrupted_run_goes_on_with_what_is_printed(named: tuple[str, ...]) -> None:
    start = ["run", "shop.yaml", *ORDER, "--input", "amount=10", *GIVEN, *MORE, "--journal", "my.db", *named]
    again = interrupted(*start)
    assert again[:2] == ["runs", "recover"]
    assert (again[2] == "r1") == bool(named)
    for option in (*GIVEN, *MORE, "--journal", "my.db"):
        assert option in again
    doubt = stepward(*again)
    assert doubt.exit_code == 4, "the write is in doubt"
    done = advice(doubt, "it did:")
    done[done.index("JSON")] = '"paid 10"'
    assert stepward(*done).exit_code == 0


def test_an_interrupted_answer_goes_on_with_what_is_printed() -> None:
    """The answer is in the journal when the tool behind it works."""
    program = Path("shop.yaml").read_text().replace("{amount: $amount}", "{amount: 10}")
    Path("shop.yaml").write_text(program)
    waits = shop(*MORE, "--run-id", "r1", amount=60, journal="my.db")
    assert waits.exit_code == 4
    resume = advice(waits, "resume:")
    resume[resume.index("JSON")] = '{"ok": true}'
    again = interrupted(*resume)
    doubt = stepward(*again)
    assert doubt.exit_code == 4
    given_up = advice(doubt, "give up:")
    assert stepward(*given_up).exit_code == 1
    assert "CANCELLED" in stepward("runs", "r1", "--journal", "my.db").stdout


def test_what_an_open_breaker_holds_goes_on_with_what_is_printed() -> None:
    assert stepward("runs", "list", "--journal", "my.db").exit_code == 2
    shop("--run-id", "other", journal="my.db")
    opened = ("breaker", "open", "tool:pay", "--why", "it fails", "--by", "ann", "--journal", "my.db")
    assert stepward(*opened).exit_code == 0
    held = shop("--run-id", "r1", journal="my.db")
    (printed,) = re.findall(r"after `stepward (.*)` the run is due again", held.stderr)
    assert stepward(*shlex.split(printed)).exit_code == 0
    assert stepward("runs", "recover", "r1", *GIVEN, "--journal", "my.db").exit_code == 0


def test_a_token_of_another_step_is_looked_up_where_it_was_given() -> None:
    waits = shop("--run-id", "r1", amount=60, journal="my.db")
    resume = advice(waits, "resume:")
    resume[resume.index("JSON")] = '{"ok": true}'
    assert stepward(*resume).exit_code == 0
    used = stepward(*resume)
    (printed,) = re.findall(r"`stepward (runs r1[^`]*)` shows", used.stderr)
    assert stepward(*shlex.split(printed)).exit_code == 0


def test_a_lease_of_a_wrong_clock_is_passed_over_by_what_is_printed() -> None:
    crashed("r1", 9, "my.db")
    with database("my.db") as connection:
        connection.execute("UPDATE runs SET expires = ?", (time.time() + 10 * 365 * 86_400,))
    left = stepward("runs", "recover", *GIVEN, *MORE, "--journal", "my.db")
    (printed,) = re.findall(r"`stepward (runs recover r1[^`]*)` passes it over", left.stderr)
    assert "IN_DOUBT" in stepward(*shlex.split(printed)).stdout


# -- what has come since -----------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_shown_from_there() -> None:
    waits = shop("--run-id", "r1", amount=60, journal="my.db")
    resume = advice(waits, "resume:")
    resume[resume.index("JSON")] = '{"ok": true}'
    rest = stepward(*resume).stdout
    before = len([line for line in waits.stdout.splitlines() if re.match(r" *\d+ ", line)])
    assert f"\n{before} records before, which `stepward runs r1 --journal my.db` shows; then:\n" in rest
    numbers = [int(line.split()[0]) for line in rest.splitlines() if re.match(r" *\d+ +\d\d:", line)]
    assert numbers == list(range(before, before + len(numbers)))
    whole = stepward("runs", "r1", "--journal", "my.db").stdout
    assert "records before" not in whole
    assert len([line for line in whole.splitlines() if re.match(r" *\d+ +\d\d:", line)]) == before + len(numbers)
    assert stepward("runs", "cancel", "r1", "--journal", "my.db").stdout == whole, "nothing has come since"
