"""A shop in a folder of its own, and the commands about its runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import paths
from stepward.validator.cli import main

STEPWARD = str(paths.STEPWARD)

SHOP = """
name: shop
inputs:
  amount: {type: number, minimum: 0, maximum: 100}
  order: {type: string}
  mail: {type: string, default: nobody, sensitive: true}
tools:
  ask:
    {effect: none, suspends: true, args: {order: {type: string}},
     returns: {type: object, properties: {ok: {type: boolean}}, required: [ok]}}
  pay: {effect: write, idempotent: false, args: {amount: {type: number}}, returns: {type: string}}
  tell: {effect: write, idempotent: true, args: {to: {type: string}, text: {type: string}}, returns: {type: string}}
steps:
  - {id: judge, type: llm, prompt: "is $order good?", allowed_outputs: [yes, no], output_key: view}
  - {id: good, type: condition, condition: '$view == "yes"', then: large, otherwise: refuse}
  - {id: large, type: condition, condition: '$amount > 50', then: ask, otherwise: pay}
  - {id: ask, type: tool, tool: ask, args: {order: $order}, output_key: said, next_step: agreed}
  - {id: agreed, type: condition, condition: '$said.ok', then: pay, otherwise: refuse}
  - {id: pay, type: tool, tool: pay, args: {amount: $amount}, output_key: paid, next_step: tell}
  - {id: tell, type: tool, tool: tell, args: {to: $mail, text: $paid}, next_step: done}
  - {id: done, type: end, output: {order: $order, paid: $paid, mail: $mail}}
  - {id: refuse, type: end, outcome: failure}
"""

TOOLS = """
import os, signal, time
from stepward.vm import InDoubt, Suspend

def ask(order):
    return Suspend({"question": f"is {order} fine?"})

def pay(amount):
    print("a tool prints")
    if amount == 7:
        raise InDoubt("the line went dead")
    if amount == 8:
        raise ValueError("no money")
    if amount == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    if amount == 10:
        time.sleep(60)
    return f"paid {amount}"

def tell(to, text, idempotency_key):
    return "told"
"""

MAIL = "ann@example.com"

GIVEN = ["--tools", "tools.py", "--model", "script:replies.yaml"]

ORDER = ["--input", "order=007", "--input", f"mail={MAIL}"]

ENDS = "name: ends\ninputs: {}\nsteps: [{id: e, type: end, output: fine}]\n"


def open_shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go into a folder with the shop, its tools and its replies, and with what is no program."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("shop.yaml").write_text(SHOP)
    Path("ends.yaml").write_text(ENDS)
    Path("tools.py").write_text(TOOLS)
    Path("replies.yaml").write_text("judge: yes\n")
    Path("list.yaml").write_text("- 1\n")
    Path("broken.yaml").write_text("a: [\n")


@contextmanager
def database(name: str) -> Iterator[sqlite3.Connection]:
    """Lend a SQLite file, behind the machine's back."""
    with closing(sqlite3.connect(name)) as connection, connection:
        yield connection


def stepward(*arguments: object, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    return result


def shop(*arguments: object, amount: object = 20, journal: str | None = "runs.db", **options: Any) -> Result:
    """Run the shop."""
    kept = ["--journal", journal] if journal else []
    return stepward("run", "shop.yaml", *ORDER, "--input", f"amount={amount}", *GIVEN, *kept, *arguments, **options)


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def trace(result: Result) -> list[str]:
    """Return step and kind of every line of a trace in JSON."""
    lines = [(entry["body"].get("step", "-"), entry["kind"]) for entry in as_json(result)["trace"]]
    return [f"{step} {kind}" for step, kind in lines]


def says(result: Result, status: int, *words: str) -> None:
    """Assert how a command that can't do what was asked ends: its words in order, nothing else said."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    found = -1
    for word in words:
        assert word in result.stderr, result.stderr
        assert result.stderr.index(word) > found
        found = result.stderr.index(word)


def advice(result: Result, word: str) -> list[str]:
    """Return the arguments of the command that a run's output advises behind a word, without the optional ones."""
    (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith(word)]
    line = line.removesuffix(" [--by NAME]")
    return shlex.split(line.partition(":")[2])[1:]


def crashed(run: str, amount: int, journal: str = "runs.db") -> None:
    """Run the shop in a process of its own that is killed while it pays, and let its lease end."""
    child = os.fork()
    if not child:
        shop("--run-id", run, amount=amount, journal=journal)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    with database(journal) as connection:
        connection.execute("UPDATE runs SET expires = 0")
