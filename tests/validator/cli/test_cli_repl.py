"""`stepward repl`: forms from standard input, what is shown, its commands, its journal, and a model that works."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paths import STEPWARD
from stepward.validator.cli import main
from stepward.vm import ExecutionVM, SQLiteJournal

TOOLS = '''\
from stepward.vm import tool


@tool(effect="read")
def get_orders(customer: str) -> list[dict]:
    """Return the orders of a customer."""
    print("asking the shop")
    return [{"id": 1, "total": 10.5}, {"id": 2, "total": 4}]


@tool(effect="write", idempotent=True)
def refund(amount: float) -> str:
    if amount == 13:
        raise ValueError("bad luck")
    return "paid"
'''
ASKING = """
from typing import Literal
from stepward.vm import Suspend, tool


@tool(effect="none", suspends=True)
def ask() -> Literal["yes", "no"]:
    return Suspend({"question": "may it?"})


@tool(effect="write", idempotent=True)
def refund(amount: float) -> str:
    return "paid"
"""
POLICY = """\
policy: shop
guardrails:
  - {name: once, at_most_once: {tool: refund}}
"""
PATIENCE = 60.0
"""Seconds in which a terminal shows something more."""
USUAL = ("--tools", "tools.py", "--policy", "policy.yaml", "--input", "customer=ada")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def repl(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["repl", *USUAL, *arguments], input=text, catch_exceptions=False)


SCRIPT = """\
(def found
  (tool/get_orders
   {:customer data/customer}))

; a comment
(println (count found) "orders")
(sum-by :total
 found)
"""


def test_a_script_of_forms() -> None:
    result = repl(SCRIPT)
    assert result.exit_code == 0
    assert result.stdout == '=> [{"id" 1, "total" 10.5} {"id" 2, "total" 4}]\n2 orders\n=> nil\n=> 14.5\n'
    assert "asking the shop" in result.stderr


def test_errors_are_shown_with_place_and_help() -> None:
    result = repl("(tool/refund {:amount 5})\n(tool/refund\n  {:amount 6})\n(fitler odd? [1])\n(let [x")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        '=> "paid"',
        "error[gate] at 1:1: `refund` can repeat what a run before this one has done "
        "(guardrail `once` of policy `shop`)",
        "  path: refund starts",
        "  turn 1 of this session: (tool/refund {:amount 5})",
        "  help: route the run around `refund`",
        "error[unbound_var] at 1:2: `fitler` has no value",
        "  help: did you mean `filter` or `filterv`?",
        "error[parse_error] at 1:6: `[` is never closed",
        "  help: add `]` at its end",
    ]


def test_the_end_is_clean_and_return_ends_a_script() -> None:
    assert (repl("").exit_code, repl("").stdout) == (0, "")
    assert repl("(+ 1 1)\n:quit\n(+ 2 2)\n").stdout == "=> 2\n"
    assert repl("(return 5)\n(+ 2 2)\n").stdout == "=> 5\n"


def test_commands() -> None:
    result = repl(":help\n:tools\n:names\n(def a 1)\n:names\n:card\n")
    assert result.exit_code == 0
    for words in (":quit", "get_orders:", "data/customer: a string\na: an integer", "# PTC-Lisp on one card"):
        assert words in result.stdout
    wrong = repl(":nothing\n:ask\n:ask sum it\n(do :keyword)\n")
    assert wrong.exit_code == 1
    assert [line for line in wrong.stdout.splitlines() if not line.startswith("  help")] == [
        "error: there is no `:nothing`",
        "error: `:ask` needs a task",
        "error: there is no model",
        '=> "keyword"',
    ]


def test_each_answer_is_an_object_of_json() -> None:
    result = repl("(+ 1 1)\n(+ 1 nil)\n", "--output-format", "json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["value"], first["shown"], second["error"]["reason"]) == (2, "2", "type_error")


def test_a_session_lies_in_its_journal() -> None:
    given = ("--journal", "runs.db", "--session", "mine")
    assert repl("(def a (tool/refund {:amount 5}))\n(str a)\n", *given).exit_code == 0
    for command in (
        ["runs", "--journal", "runs.db"],
        ["runs", "mine.2", "--journal", "runs.db"],
        ["verify", "runs.db", "mine.1"],
        ["verify", "runs.db"],
        ["replay", "runs.db", "mine.2"],
    ):
        assert CliRunner().invoke(main, command, catch_exceptions=False).exit_code == 0
    other = repl("(+ 5 5)\n", *given)
    assert (other.exit_code, other.stdout) == (0, "session `mine` goes on after turn 2\n=> 10\n")


def test_a_turn_that_waited_is_settled_when_the_session_goes_on(folder: Path) -> None:
    (folder / "tools.py").write_text(ASKING)
    given = ("--journal", "runs.db", "--session", "mine")
    text = '(def said (tool/ask {})) (when (= said "yes") (tool/refund {:amount 5}))\n'
    assert repl(text, *given).exit_code == 4
    waits = repl("(+ 1 1)\n", *given)
    assert (waits.exit_code, "error[waits]: a call waits for a person" in waits.stdout) == (4, True)
    with closing(SQLiteJournal("runs.db")) as journal:
        machine = ExecutionVM({"ask": lambda: "yes", "refund": lambda amount: "paid"}, None, journal, checker=None)
        machine.resume_sync(machine.get_sync("mine.1").suspensions[0].token, "yes")
    done = repl(f"{text}said\n", *given)
    shown = f'session `mine` goes on after turn 1\n> {text}=> "paid"\n=> "paid"\n=> "yes"\n'
    assert (done.exit_code, done.stdout) == (0, shown)
    other = repl("1\n", *given, "--max-steps", "7")
    assert (other.exit_code, "was started with no bound as the most of its steps" in other.output) == (2, True)


def test_a_model_works_on_a_task() -> None:
    replies = ["(def found (tool/get_orders {:customer data/customer}))", "(return {:total (sum-by :total found)})"]
    Path("replies.yaml").write_text(json.dumps({"write": replies}), encoding="utf-8")
    result = repl("", "--task", "sum it", "--model", "script:replies.yaml", "--signature", "{:total :float}")
    assert result.exit_code == 0, result.output
    assert "> (return {:total (sum-by :total found)})\n" in result.stdout
    assert result.stdout.endswith('=> {"total" 14.5}\n')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--signature", ":money"), "`:money` is no type"),
        (("--task", "x"), "a task needs a model"),
        (("--input", "customer"), "is no `name=value`"),
        (("--inputs", "-"), "standard input is for the turns"),
        (("--journal", ""), "names no file"),
        (("--max-steps", "0"), "0 is not in the range"),
    ],
)
def test_options_that_can_not_be_used(arguments: tuple[str, ...], words: str) -> None:
    result = repl("(+ 1 1)\n", *arguments)
    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_a_terminal_gets_a_prompt_and_control_c_clears_a_line(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from stepward.validator.cli import main; main()", "repl", "--isolated"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True)
    os.close(theirs)
    told = ""

    def until(words: str) -> None:
        nonlocal told
        while words not in told and select.select([ours], [], [], PATIENCE)[0]:
            told += os.read(ours, 4_096).decode()
        assert words in told, told
        told = told.partition(words)[2]

    try:
        until("turn 1> ")
        os.write(ours, b"(+ 1\n")
        until("..> ")
        # A signal between the prompt and the reading of a key is noticed with the next key or signal only.
        for _ in range(round(PATIENCE)):
            process.send_signal(signal.SIGINT)
            if select.select([ours], [], [], 1.0)[0]:
                break
        until("turn 1> ")
        os.write(ours, b"(+ 1\n")
        until("..> ")
        os.write(ours, b"2)\n")
        until("=> 3")
        until("turn 2> ")
        os.write(ours, b":quit\n")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


SLOW = """
import asyncio, sys
from stepward.vm import tool


@tool(effect="read")
async def slow() -> int:
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(2)
    return 1
"""


@pytest.mark.usefixtures("warm")
def test_an_interrupted_turn_ends_in_words_and_gives_its_lease_back() -> None:
    Path("slow.py").write_text(SLOW)
    arguments = ["repl", "--tools", "slow.py", "--journal", "s.db", "--session", "s"]
    process = [STEPWARD, *arguments]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(process, **pipes) as running:
        assert running.stdin
        assert running.stderr
        running.stdin.write("(tool/slow)\n")
        running.stdin.flush()
        assert running.stderr.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.startswith("\ninterrupted: `stepward repl --session s")
    assert len(err.splitlines()) == 2, "no traceback follows"
    again = subprocess.run(process, input="(+ 1 1)\n", capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stdout
    assert "somebody else drives" not in again.stdout
