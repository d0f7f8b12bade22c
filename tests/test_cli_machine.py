"""Fast: the commands about runs: run, runs, replay, verify, key; every option, and every kind of bad input."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conftest import Place
from stepward.validator.cli import main

ROOT = Path(__file__).parents[1]
STEPWARD = str(Path(sys.executable).parent / "stepward")

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


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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


# -- run ---------------------------------------------------------------------------------------------------------------


def test_a_run_prints_its_trace_and_what_became_of_it() -> None:
    result = shop("--run-id", "r1")
    assert result.exit_code == 0
    assert result.stderr == "a tool prints\n"
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "hh:mm:ss.mmm", result.stdout)
    text = re.sub(r"\b[0-9a-f]{64}\b", "<digest>", re.sub(r" +[\d.]+ (µs|ms)", "  <took>", text))
    lines = [re.sub("  +", "  ", line).strip() for line in text.splitlines()]
    assert lines == [
        "run `r1` of `shop`",
        "",
        "seq  time (UTC)  step  what  took  detail",
        '0  hh:mm:ss.mmm  started  amount: 20, mail: "[sensitive]", order: "007"',
        '1  hh:mm:ss.mmm  judge  success  <took>  "yes"',
        "2  hh:mm:ss.mmm  good  branch  then → large",
        "3  hh:mm:ss.mmm  large  branch  otherwise → pay",
        "4  hh:mm:ss.mmm  pay  intent  pay(amount: 20)",
        '5  hh:mm:ss.mmm  pay  success  <took>  "paid 20"',
        '6  hh:mm:ss.mmm  tell  intent  tell(text: "paid 20", to: "[sensitive]")',
        '7  hh:mm:ss.mmm  tell  success  <took>  "told"',
        '8  hh:mm:ss.mmm  done  ended  {"mail": "[sensitive]", "order": "007", "paid": "paid 20"}; ends SUCCESS',
        "",
        "SUCCESS (declared) at `done`: 6 steps",
        'output: {"mail": "[sensitive]", "order": "007", "paid": "paid 20"}',
        "head 8: <digest>",
        "trace hash: <digest>",
    ]


def test_a_run_in_json_says_the_same() -> None:
    data = as_json(shop("--run-id", "r1", "--output-format", "json"))
    assert data["version"] == 1
    run = data["run"]
    assert run["output"] == {"mail": "[sensitive]", "order": "007", "paid": "paid 20"}
    told = {"id": "r1", "program": "shop", "status": "SUCCESS", "reason": "declared", "error": None, "step": "done"}
    told |= {"steps": 6, "tokens": 0, "cost": "0", "seq": 8, "broken": [], "suspensions": [], "doubts": []}
    assert told.items() <= run.items()
    assert run.keys() == told.keys() | {"output", "head", "trace_hash"}
    assert [entry["seq"] for entry in data["trace"]] == list(range(9))
    assert all(entry.keys() == {"seq", "at", "kind", "body", "note"} for entry in data["trace"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", data["trace"][0]["at"])
    assert data["trace"][0]["body"]["inputs"] == {"amount": 20, "mail": "[sensitive]", "order": "007"}


def test_nothing_that_is_sensitive_is_ever_shown() -> None:
    shop("--run-id", "r1")
    for arguments in (["runs"], ["runs", "r1"], ["replay", "runs.db", "r1"], ["verify", "runs.db"]):
        for format in ("text", "json"):
            assert MAIL not in stepward(*arguments, "--output-format", format).output


def test_without_a_journal_a_run_leaves_nothing() -> None:
    before = set(os.listdir())
    assert shop(journal=None).exit_code == 0
    assert set(os.listdir()) - {"__pycache__"} == before


@pytest.mark.parametrize(
    ("amount", "status", "words"),
    [
        (8, 1, ["FAILED (error) at `pay`", "error: no money"]),
        (60, 4, ["SUSPENDED at `ask`", '`ask` waits for somebody, and asks: {"question": "is 007 fine?"}']),
        (7, 4, ["IN_DOUBT at `pay`", "`pay` is in doubt: the line went dead"]),
    ],
)
def test_the_exit_status_says_how_the_run_is(amount: int, status: int, words: list[str]) -> None:
    result = shop(amount=amount)
    assert result.exit_code == status
    assert all(word in result.stdout for word in words)


def test_a_declared_failure_exits_with_1() -> None:
    Path("replies.yaml").write_text('judge: "no"\n')
    result = shop()
    assert result.exit_code == 1
    assert "FAILED (declared) at `refuse`" in result.stdout


def test_a_run_id_names_one_run() -> None:
    first = shop("--run-id", "r1", "--output-format", "json")
    again = shop("--run-id", "r1", "--output-format", "json")
    assert first.stdout == again.stdout
    assert again.stderr == "run `r1` exists: this is how it is\n", "no tool was called"
    other = shop("--run-id", "r1", amount=21)
    says(other, 2, "run `r1` exists: ", "error: run `r1` exists, and has other inputs", "= help: name the new run oth")
    other = stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "r1")
    says(other, 2, "error: run `r1` exists, and is of another program")
    says(stepward("run", "ends.yaml", "--run-id", ""), 2, "error: a run id has 1 to 200 printable characters")


def test_a_policy_is_held_by_the_gate_and_by_the_machine() -> None:
    Path("caps.yaml").write_text("policy: caps\nallow: [ask, tell, {tool: pay, when: '$args.amount <= 10'}]\n")
    result = shop("--policy", "caps.yaml", "--accept", "SW408,SW403", "--output-format", "json")
    assert result.exit_code == 1
    assert "policy `caps` does not allow tool `pay` with these arguments" in as_json(result)["run"]["error"]
    assert "pay rejected" in trace(result)
    Path("stepward.toml").write_text('policies = ["caps.yaml"]\n')
    assert shop("--accept", "SW408", "--accept", "SW403").exit_code == 1
    assert shop("--isolated").exit_code == 0
    Path("other.toml").write_text("")
    assert shop("--config", "other.toml").exit_code == 0


def test_the_gate_refuses_a_program_with_errors_unless_they_are_accepted() -> None:
    bad = (ROOT / "specs/programs/bad/SW401/obvious.yaml").read_text()
    Path("bad.yaml").write_text(bad)
    Path("pays.py").write_text("def screen_payee(payee): raise OSError\ndef transfer(payee, amount): return 'x'\n")
    arguments = ["bad.yaml", "--input", "payee=7", "--input", "amount=3", "--tools", "pays"]
    refused = stepward("run", *arguments)
    says(
        refused, 2, "error[SW401] guardrail-bypassed: `pay` can start", "--> bad.yaml:14:10", "^^^", "`--accept SW401`"
    )
    assert refused.stderr.startswith(stepward("check", "bad.yaml").stdout)
    accepted = stepward("run", *arguments, "--accept", "sw401")
    assert accepted.exit_code == 1
    assert "guardrail `screening-before-transfer` forbids `pay` to start" in accepted.stdout


def test_what_has_no_one_meaning_can_not_be_accepted() -> None:
    Path("gone.yaml").write_text("name: gone\ninputs: {}\nsteps: [{id: a, type: set, set: {x: 1}, next_step: b}]\n")
    says(stepward("run", "gone.yaml", "--accept", "SW101,SW102"), 2, "names no step", "can't be accepted, only mended")


def test_what_the_project_silences_does_not_refuse_a_run() -> None:
    loop = "name: p\ninputs: {}\nsteps:\n  - {id: a, type: set, set: {x: 1}, next_step: a}\n"
    Path("loop.yaml").write_text(loop)
    assert stepward("run", "loop.yaml").exit_code == 2
    Path("stepward.toml").write_text('ignore = ["SW1"]\n')
    os.environ.pop("STEPWARD_DEBUG", None)
    assert stepward("check", "loop.yaml").exit_code == 0
    Path("loop.yaml").write_text(loop + "max_steps: 5\n")
    assert "BUDGET_EXCEEDED (max_steps) at `a`: 5 steps" in stepward("run", "loop.yaml").stdout


def test_of_several_programs_in_a_file_one_is_named() -> None:
    Path("two.yaml").write_text(ENDS + "---\n" + ENDS.replace("ends", "other") + "max_steps: 3\n")
    says(stepward("run", "two.yaml"), 2, "there are 2 programs in `two.yaml`", "`--program`: `ends`, `other`")
    says(stepward("run", "two.yaml", "--program", "x"), 2, "there is no program `x` in `two.yaml`")
    assert "of `other`" in stepward("run", "two.yaml", "--program", "other").stdout
    Path("two.yaml").write_text(ENDS + "---\n" + ENDS.replace("type: end", "type: end, next_step: gone"))
    assert stepward("check", "two.yaml").exit_code == 1


def test_a_program_in_python_source_runs() -> None:
    Path("p.py").write_text('PROGRAM = {"name": "lit", "inputs": {}, "steps": [{"id": "e", "type": "end"}]}\n')
    assert "run `x` of `lit`" in stepward("run", "p.py", "--run-id", "x").stdout


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("none.yaml", ["error: `none.yaml` can't be read: no such file", "= help: correct the path"]),
        (".", ["error: `.` can't be read: is a directory"]),
        ("broken.yaml", ["error[SW001]", "--> broken.yaml:2:1", "error: `broken.yaml` is no program that can be run"]),
        ("list.yaml", ["error[SW001] unreadable: `list.yaml` is not a program"]),
        ("fields.yaml", ["error[SW002]", "did you mean `steps`"]),
    ],
)
def test_what_is_no_program_is_refused_as_check_does(file: str, words: list[str]) -> None:
    Path("fields.yaml").write_text("name: x\nsteeps: []\nsteps: []\n")
    if file == "fields.yaml":
        words = ["error[SW002]", "`steeps`"]
    says(stepward("run", file), 2, *words)


# -- inputs ------------------------------------------------------------------------------------------------------------

TYPED = """
name: typed
inputs:
  text: {type: string, default: ""}
  choice: {enum: ["1", "2"], default: "1"}
  number: {type: number, default: 0}
  flag: {type: boolean, default: false}
  list: {type: array, default: []}
  object: {type: object, default: {}}
  maybe: {type: [string, "null"], default: null}
  either: {type: [integer, string], default: 0}
  any: {default: 0}
steps: [{id: e, type: end, output: [$text, $choice, $number, $flag, $list, $object, $maybe, $either, $any]}]
"""
NAMES = ("text", "choice", "number", "flag", "list", "object", "maybe", "either", "any")


def typed(*pairs: str) -> Any:
    arguments = [word for pair in pairs for word in ("--input", pair)]
    result = stepward("run", "typed.yaml", "--output-format", "json", *arguments)
    assert result.exit_code == 0, result.output
    return dict(zip(NAMES, as_json(result)["run"]["output"], strict=True))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("text=007", "007"),
        ("text=", ""),
        ("text= a=b ", " a=b "),
        ("text=true", "true"),
        ('text="q"', '"q"'),
        ("text=[1]", "[1]"),
        ("choice=2", "2"),
        ("number=1.50", 1.5),
        ("number=0x10", 16),
        ("number=-3", -3),
        ("flag=true", True),
        ("list=[1, yes, {a: 2}]", [1, "yes", {"a": 2}]),
        ('object={"a": [null]}', {"a": [None]}),
        ("maybe=null", None),
        ("maybe=007", "007"),
        ("maybe={a", "{a"),
        ("either=7", 7),
        ("either=x", "x"),
        ("either=7.5", "7.5"),
        ("any=yes", "yes"),
        ("any='7'", "7"),
        ("any=null", None),
    ],
)
def test_an_input_is_read_as_its_type_wants_it(pair: str, value: Any) -> None:
    Path("typed.yaml").write_text(TYPED)
    name = pair.partition("=")[0]
    found = typed(pair)[name]
    assert (found, type(found)) == (value, type(value))


def test_inputs_come_from_a_file_or_a_pipe_and_pairs_go_on_top() -> None:
    Path("in.json").write_text(json.dumps({"amount": 8, "order": "A", "mail": MAIL}))
    Path("in.yaml").write_text("amount: 8\norder: A\n")
    for file, stdin in (("in.json", None), ("in.yaml", None), ("-", "{amount: 8, order: A}")):
        arguments = ["run", "shop.yaml", *GIVEN, "--inputs", file, "--output-format", "json"]
        assert stepward(*arguments, stdin=stdin).exit_code == 1
        result = stepward(*arguments, "--input", "amount=3", stdin=stdin)
        assert result.exit_code == 0
        assert as_json(result)["run"]["output"]["order"] == "A"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["`shop` needs the inputs `amount`, `order`", "`--input amount=…`, or all of them with `--inputs FILE`"]),
        (["--input", "order=x"], ["`shop` needs the input `amount`"]),
        (["--input", "amuont=3"], ["`shop` has no input `amuont`", "did you mean `amount`?"]),
        (["--input", "zzz=3"], ["`shop` has no input `zzz`", "its inputs are `amount`, `order`, `mail`"]),
        (["--input", "amount"], ["`--input amount` is no `name=value`"]),
        (["--input", "=3"], ["`--input =3` is no `name=value`"]),
        (["--input", "amount=3", "--input", "amount=4"], ["input `amount` is given twice"]),
        (["--input", "amount={a"], ["input `amount` can't be read: not readable as YAML", "write JSON"]),
        (["--input", "amount=[1]\n---\n[2]"], ["input `amount` can't be read: it is more than one value"]),
        (["--input", "amount={a: 1, a: 2}"], ["input `amount` can't be read:"]),
        (["--input", "amount=" + "9" * 5000], ["input `amount` can't be read:"]),
        (["--input", "amount=.nan", "--input", "order=x"], ["input `amount` is no value: a number must be finite"]),
        (["--input", "amount=x", "--input", "order=x"], ['input `amount`: must be a number, not `"x"`']),
        (["--input", "amount=101", "--input", "order=x"], ["input `amount`: must be at most 100, not 101"]),
        (["--inputs", "none.json"], ["the inputs in `none.json` can't be read: no such file", "correct the path"]),
        (["--inputs", "broken.yaml"], ["the inputs in `broken.yaml` can't be read: not readable as YAML"]),
        (["--inputs", "twice.yaml"], ["the inputs in `twice.yaml` can't be read:"]),
        (["--inputs", "list.yaml"], ["`list.yaml` holds no inputs"]),
        (["--inputs", "latin.yaml"], ["the inputs in `latin.yaml` can't be read:", "not UTF-8"]),
    ],
)
def test_bad_inputs_are_refused_in_words(arguments: list[str], words: list[str]) -> None:
    Path("twice.yaml").write_text("a: 1\na: 2\n")
    Path("latin.yaml").write_bytes(b"a: \xe9\n")
    result = stepward("run", "shop.yaml", *GIVEN, "--journal", "made.db", *arguments)
    says(result, 2, f"error: {words[0]}", *words[1:])
    run_was_refused_by_the_machine = "--input" in arguments and "order=x" in arguments and len(arguments) == 4
    assert Path("made.db").exists() == (run_was_refused_by_the_machine and ".nan" not in "".join(arguments))


def test_a_sensitive_input_of_the_wrong_type_is_not_shown() -> None:
    Path("shop.yaml").write_text(SHOP.replace("{type: string, default: nobody,", "{type: string, pattern: '@',"))
    result = stepward("run", "shop.yaml", *GIVEN, "--input", "amount=1", "--input", "order=x", "--input", "mail=hush")
    says(result, 2, "error: input `mail` is not of its type")
    assert "hush" not in result.output


def test_a_program_without_inputs_has_its_names_for_inputs_of_the_type_they_are_used_as() -> None:
    Path("old.yaml").write_text(
        "name: old\nsteps:\n"
        "  - {id: c, type: condition, condition: '$text starts_with \"0\" and $n < 5', then: e, otherwise: e}\n"
        "  - {id: e, type: end, output: [$text, $n]}\n"
    )
    result = stepward("run", "old.yaml", "--input", "text=007", "--input", "n=3", "--output-format", "json")
    assert as_json(result)["run"]["output"] == ["007", 3]


# -- tools, models, keys, journals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tools", "tools.py", "./tools.py", "team.tools", "team/tools.py"])
def test_tools_are_a_module_or_a_file(name: str) -> None:
    Path("team").mkdir()
    Path("team/words.py").write_text("TOLD = 'told'\n")
    Path("team/tools.py").write_text(TOOLS)
    sys.modules.pop("tools", None)
    sys.modules.pop("team", None)
    result = shop("--tools", name)
    assert result.exit_code == 0, result.output


def test_a_file_of_tools_imports_its_neighbours() -> None:
    Path("team").mkdir()
    Path("team/neighbour_of_tools.py").write_text("def tell(to, text): return 'told'\n")
    Path("team/more.py").write_text(TOOLS.partition("def tell")[0] + "from neighbour_of_tools import tell\n")
    assert shop("--tools", "team/more.py").exit_code == 0


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        (None, ["the program calls tools `ask`, `pay`, `tell`, and there is no `--tools`", "`--tools package.module`"]),
        ("none.such", ["`none.such` can't be had: ModuleNotFoundError"]),
        ("none.py", ["`none.py` is no file"]),
        ("list.yaml", ["`list.yaml` can't be had"]),
        ("raises.py", ["`raises.py` can't be had: RuntimeError: no database"]),
        ("leaves.py", ["`leaves.py` can't be had: SystemExit: 3"]),
        ("syntax.py", ["`syntax.py` can't be had: SyntaxError"]),
        ("json", ["`json` has no function for tools `ask`, `pay`, `tell`", "write a function `ask` there"]),
        ("few.py", ["`few.py` has no function for tool `tell`"]),
        ("", ["`` can't be had"]),
    ],
)
def test_tools_that_are_not_there_are_told(tools: str | None, words: list[str]) -> None:
    Path("raises.py").write_text('raise RuntimeError("no database")\n')
    Path("leaves.py").write_text("import sys; sys.exit(3)\n")
    Path("syntax.py").write_text("x = (\n")
    Path("few.py").write_text("def ask(order): ...\ndef pay(amount): ...\n_tell = tell = 3\n")
    named = [] if tools is None else ["--tools", tools]
    arguments = ["run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[2:], "--journal", "made.db"]
    says(stepward(*arguments, *named), 2, f"error: {words[0]}", *words[1:])
    assert not Path("made.db").exists(), "nothing is made for a run that does not start"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, ["`judge` asks a model, and there is none", "`script:FILE` with a reply for each step"]),
        ("", ["`--model` names no model"]),
        ("script:", ["`--model` names no model"]),
        ("script:none.yaml", ["the replies in `none.yaml` can't be read: no such file"]),
        ("script:broken.yaml", ["the replies in `broken.yaml` can't be read: not readable as YAML"]),
        ("script:list.yaml", ["`list.yaml` holds no replies"]),
        ("openai/small", ["the model `openai/small` needs LiteLLM", "pip install 'stepward[litellm]'"]),
    ],
)
def test_a_model_that_is_not_there_is_told(
    model: str | None, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    named = [] if model is None else ["--model", model]
    result = stepward("run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[:2], *named)
    says(result, 2, f"error: {words[0]}", *words[1:])


def test_a_script_without_the_reply_fails_the_step_and_a_list_is_said_in_turn() -> None:
    Path("replies.yaml").write_text("other: 1\n")
    assert "the script has no reply for `judge`" in shop().stdout
    Path("replies.yaml").write_text("judge: [maybe, yes]\n")
    Path("shop.yaml").write_text(SHOP.replace("output_key: view}", "output_key: view, on_error: retry}"))
    Path("quick.py").write_text(TOOLS)
    result = shop("--output-format", "json")
    assert [(entry["body"]["kind"], entry["body"].get("rule")) for entry in as_json(result)["trace"][1:3]] == [
        ("again", "allowed_outputs"),
        ("success", None),
    ]
    text = stepward("runs", as_json(result)["run"]["id"]).stdout
    assert re.search(r"judge +failed .*rejected by `allowed_outputs`; .*; again\n", text)
    assert re.search(r'judge +success \(attempt 2\) .*"yes"\n', text)


def test_a_model_of_litellm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from test_litellm import Fake

    fake = Fake()
    fake.says = '{"reply": "yes"}'
    monkeypatch.setitem(sys.modules, "litellm", fake)
    result = shop("--model", "openai/small")
    assert result.exit_code == 0
    assert "SUCCESS (declared) at `done`: 6 steps, 17 tokens, cost 0.0000135" in result.stdout
    assert re.search(r"judge +success +[\d.]+ (µs|ms) +17 +0.0000135 +\"yes\"", result.stdout)


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ("", ["`--journal` names no file"]),
        (":memory:", ["`--journal` names no file"]),
        (".", ["the journal `.` is a folder"]),
        ("none/runs.db", ["the journal `none/runs.db` can't be made: no such file"]),
        ("list.yaml", ["the journal `list.yaml` can't be opened: it is no database"]),
        ("other.db", ["the journal `other.db` is a database of something else"]),
        ("postgresql://u:hush@127.0.0.1:1/x?connect_timeout=2", ["the journal in PostgreSQL can't be opened"]),
    ],
)
def test_what_is_no_journal_is_told(journal: str, words: list[str]) -> None:
    with database("other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    Path("list.yaml").write_text("- 1\n" * 999)
    for command in (["run", "ends.yaml", "--journal", journal], ["runs", "--journal", journal], ["verify", journal]):
        result = stepward(*command)
        if command[0] != "run" and journal == "none/runs.db":
            words = ["there is no journal at `none/runs.db`", "name one with `--journal`"]
        says(result, 2, f"error: {words[0]}", *words[1:])
        assert "hush" not in result.output


def test_a_key_that_is_none_is_told() -> None:
    for command in (["run", "ends.yaml"], ["run", "ends.yaml", "--journal", "made.db"]):
        says(stepward(*command, "--key", "none.pem"), 2, "error: `none.pem` can't be read: no such file")
        says(stepward(*command, "--key", "list.yaml"), 2, "error: `list.yaml` holds no private key in PEM")
    assert not Path("made.db").exists()


def test_options_that_contradict_each_other_are_refused() -> None:
    says(stepward("run", "ends.yaml", "--config", "a", "--isolated"), 2, "--config names a configuration")
    says(stepward("run", "ends.yaml", "--accept", "SW999"), 2, "--accept: `SW999` is not a code")
    says(stepward("run", "ends.yaml", "--accept", ","), 2, "--accept names no code")
    says(stepward("run", "ends.yaml", "--policy", "none.yaml"), 2, "the policy `none.yaml` can't be read")
    says(stepward("run", "ends.yaml", "--policy", "list.yaml"), 2, "error[SW002]", "so nothing was run")
    says(stepward("run"), 2, "Missing argument 'PROGRAM'")


# -- resuming, reconciling, recovering, ending -------------------------------------------------------------------------


def advice(result: Result, word: str) -> list[str]:
    """Return the arguments of the command that a run's output advises behind a word."""
    (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith(word)]
    return shlex.split(line.partition(":")[2])[1:]


def test_a_suspended_run_is_resumed_by_the_command_that_it_prints() -> None:
    suspended = shop("--run-id", "it's me", amount=60, journal="other.db")
    arguments = advice(suspended, "resume:")
    assert arguments[:2] == ["runs", "resume"]
    assert arguments[3:5] == ["--payload", "JSON"]
    assert arguments[5:] == ["--journal", "other.db", *GIVEN]
    arguments[4] = '{"ok": 1}'
    says(stepward(*arguments), 2, "error: the output of `ask`: `ok` must be a boolean, not `1`", "`stepward runs RUN`")
    arguments[4] = "{ok: true"
    says(stepward(*arguments), 2, "error: the payload can't be read")
    arguments[4] = '{"ok": true}'
    result = stepward(*arguments, "--output-format", "json")
    assert result.exit_code == 0
    assert trace(result)[4:9] == ["ask intent", "ask attempt", "- refused", "ask resumed", "agreed branched"]
    says(stepward(*arguments), 2, "error: the token was used, or is for another step or program")
    assert (
        trace(stepward("runs", "show", "it's me", "--journal", "other.db", "--output-format", "json"))[-1]
        == "- refused"
    )


def test_a_token_of_nothing_is_refused() -> None:
    shop("--run-id", "r1")
    says(stepward("runs", "resume", "x", "--payload", "1"), 2, "error: this is no resume token")
    says(stepward("runs", "resume", "r2.x", "--payload", "1"), 2, "error: there is no run `r2`")
    says(stepward("runs", "resume", "r1.x", "--payload", "1"), 2, "error: the token was used, or is for another")
    says(stepward("runs", "resume", "r1.x"), 2, "Missing option '--payload'")
    token = as_json(shop("--output-format", "json", amount=60))["run"]["suspensions"][0]["token"]
    says(stepward("runs", "resume", token, "--payload", "1"), 2, "error: the program calls tools `ask`, `pay`, `tell`")


def test_a_run_in_memory_that_waits_says_that_it_is_gone() -> None:
    result = shop(amount=60, journal=None)
    assert result.exit_code == 4
    assert "this run was in memory and is gone" in result.stdout
    assert "stepward runs" not in result.stdout


def test_a_write_in_doubt_is_reconciled_by_the_commands_that_it_prints() -> None:
    for run in ("done", "again", "up"):
        doubt = shop("--run-id", run, amount=7)
    assert advice(doubt, "give up:") == ["runs", "reconcile", "up", "pay", "abandon", *GIVEN]
    assert advice(doubt, "it did not:")[4] == "not-done"
    assert advice(doubt, "it did:")[4:7] == ["done", "--output", "JSON"]
    done = stepward("runs", "reconcile", "done", "pay", "done", "--output", "paid 7", *GIVEN)
    assert done.exit_code == 0
    assert re.search(r'pay +reconciled +done; "paid 7"\n', done.stdout)
    again = stepward("runs", "reconcile", "again", "pay", "not-done", *GIVEN, "--output-format", "json")
    assert again.exit_code == 4, "the line goes dead again"
    assert trace(again)[-4:] == ["pay attempt", "pay reconciled", "pay intent", "pay attempt"]
    up = stepward("runs", "reconcile", "up", "pay", "abandon")
    assert up.exit_code == 1
    assert "CANCELLED (abandoned) at `pay`" in up.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["r1", "pay", "done"], ["`done` needs --output"]),
        (["r1", "pay", "abandon", "--output", "1"], ["--output is for `done`"]),
        (["r1", "pay", "perhaps"], ["'perhaps' is not one of 'done', 'not-done', 'abandon'"]),
        (["none", "pay", "not-done"], ["error: there is no run `none`", "`stepward runs` lists them"]),
        (["r1", "tell", "not-done", *GIVEN], ["error: `tell` is not in doubt in run `r1`"]),
        (["r1", "pay", "not-done"], ["error: the program calls tools"]),
    ],
)
def test_bad_reconciliations_are_refused(arguments: list[str], words: list[str]) -> None:
    shop("--run-id", "r1", amount=7)
    says(stepward("runs", "reconcile", *arguments), 2, *words)


def crashed(run: str, amount: int, journal: str = "runs.db") -> None:
    """Run the shop in a process that is killed while it pays, and let its lease end."""
    arguments = ["run", "shop.yaml", *ORDER, "--input", f"amount={amount}", *GIVEN, "--run-id", run]
    done = subprocess.run([STEPWARD, *arguments, "--journal", journal], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    with database(journal) as connection:
        connection.execute("UPDATE runs SET expires = 0")


def test_a_crashed_run_is_recovered() -> None:
    crashed("r1", 9)
    shown = stepward("runs", "r1")
    assert advice(shown, "stepward runs recover") or "stepward runs recover r1" in shown.stdout
    result = stepward("runs", "recover", "r1", *GIVEN)
    assert result.exit_code == 4
    assert "IN_DOUBT at `pay`" in result.stdout
    assert "`pay` is in doubt: the machine stopped while it ran" in result.stdout
    shop("--run-id", "over")
    assert stepward("runs", "recover", "over").exit_code == 0, "there is nothing left to do"
    says(stepward("runs", "recover", "none"), 2, "error: there is no run `none`")


def test_all_crashed_runs_are_recovered_and_those_of_other_tools_left() -> None:
    crashed("r1", 9)
    left = stepward("runs", "recover")
    assert left.exit_code == 4
    assert left.stdout == "0 runs\n"
    assert left.stderr.startswith("left: run `r1`: the program calls tools `ask`, `pay`, `tell`, and there is no")
    result = stepward("runs", "recover", *GIVEN)
    assert result.exit_code == 4
    assert re.search(r"r1 +shop +IN_DOUBT +6 ", result.stdout)
    assert result.stdout.endswith("\n1 run\n")
    nothing = stepward("runs", "recover", *GIVEN)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "0 runs\n", "")


def test_a_run_that_somebody_drives_is_left_to_them() -> None:
    crashed("r1", 9)
    with database("runs.db") as connection:
        connection.execute("UPDATE runs SET expires = ?", (time.time() + 99,))
    says(stepward("runs", "recover", "r1", *GIVEN), 2, "error: somebody else drives run `r1`", "= help: wait until")
    assert "left: run `r1`: somebody else drives it" in stepward("runs", "recover", *GIVEN).stderr
    seen = stepward("runs", "r1")
    assert seen.exit_code == 0
    assert "stepward runs recover r1" in seen.stdout
    assert shop("--run-id", "r1", amount=9).exit_code == 4
    cancelled = stepward("runs", "cancel", "r1")
    assert cancelled.exit_code == 4
    assert "cancel asked for" in cancelled.stdout
    says(stepward("runs", "erase", "r1", "--yes"), 2, "error: somebody else drives run `r1`")


def test_a_lease_of_a_clock_that_was_wrong_is_passed_over_by_naming_the_run() -> None:
    crashed("r1", 9)
    with database("runs.db") as connection:
        connection.execute("UPDATE runs SET expires = ?", (time.time() + 10 * 365 * 86_400,))
    refused = stepward("runs", "erase", "r1", "--yes")
    says(
        refused,
        2,
        "error: the lease of run `r1` lasts 3,650 more days",
        "`stepward runs recover RUN` passes such a lease",
    )
    assert "wait" not in refused.stderr, "it would be for years"
    left = stepward("runs", "recover", *GIVEN)
    assert left.exit_code == 4
    assert "left: run `r1`: its lease is of a clock that was wrong" in left.stderr
    assert "`stepward runs recover r1` passes it over" in left.stderr
    assert "CANCELLED" in stepward("runs", "recover", "r1", *GIVEN).stdout, "the erasure had asked for it"


def test_a_run_is_cancelled() -> None:
    shop("--run-id", "waits", amount=60)
    shop("--run-id", "over")
    assert stepward("runs", "cancel", "waits").exit_code == 0
    assert "CANCELLED (cancelled) at `ask`" in stepward("runs", "waits").stdout
    assert stepward("runs", "cancel", "waits").exit_code == 0
    assert stepward("runs", "cancel", "over").exit_code == 1, "it had ended in another way"
    says(stepward("runs", "cancel", "none"), 2, "error: there is no run `none`")
    says(stepward("runs", "cancel"), 2, "Missing argument 'RUN'")


def test_an_erased_value_is_in_no_file_and_the_run_still_tells() -> None:
    shop("--run-id", "r1")
    shop("--run-id", "waits", amount=60)
    assert MAIL.encode() in Path("runs.db.vault").read_bytes()
    asked = stepward("runs", "erase", "r1", stdin="n\n")
    assert asked.exit_code != 0
    assert "destroy every sensitive value of run `r1` for ever?" in asked.stderr
    assert stepward("runs", "erase", "r1", stdin="y\n").exit_code == 0
    assert stepward("runs", "erase", "waits", "--yes").exit_code == 0
    assert all(MAIL.encode() not in path.read_bytes() for path in Path().glob("runs.db*"))
    shown = stepward("runs", "r1")
    assert 'to: "[erased]"' in shown.stdout
    assert re.search(r"erased +1 value\n", shown.stdout)
    assert "CANCELLED" in stepward("runs", "waits").stdout
    assert stepward("replay", "runs.db", "r1").exit_code == 0
    assert stepward("verify", "runs.db").exit_code == 0


def test_an_interrupted_run_stays_in_the_journal() -> None:
    arguments = ["run", "shop.yaml", *ORDER, "--input", "amount=10", *GIVEN, "--journal", "runs.db", "--run-id", "r1"]
    with subprocess.Popen([STEPWARD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        assert running.stderr.readline() == "a tool prints\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (130, "")
    assert "interrupted: `stepward runs` lists the run, `stepward runs recover` goes on with it" in err
    assert stepward("runs", "recover", "r1", *GIVEN).exit_code == 4


# -- the list ----------------------------------------------------------------------------------------------------------


def test_runs_are_listed_the_oldest_first() -> None:
    shop("--run-id", "b")
    shop("--run-id", "a", amount=60)
    result = stepward("runs")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["run", "program", "status", "records", "started", "updated"]
    assert [line[:4] for line in lines[1:3]] == [["b", "shop", "SUCCESS", "9"], ["a", "shop", "SUSPENDED", "6"]]
    assert lines[3:] == [[], ["2", "runs"]]
    assert "SUCCESS" not in stepward("runs", "--status", "SUSPENDED", "--status", "FAILED").stdout
    data = as_json(stepward("runs", "show", "--output-format", "json"))
    assert data["version"] == 1
    assert [(row["id"], row["seq"], row["leased_until"]) for row in data["runs"]] == [("b", 8, None), ("a", 5, None)]
    assert data["runs"][0].keys() == {"id", "program", "status", "seq", "started", "updated", "leased_until"}


def test_an_empty_list_is_no_error() -> None:
    sys.modules.pop("stepward_nothing", None)
    from stepward.vm import SQLiteJournal

    SQLiteJournal("empty.db").close()
    assert stepward("runs", "--journal", "empty.db").stdout == "0 runs\n"
    says(stepward("verify", "empty.db"), 3, "error: nothing to verify: the journal has no runs")
    assert as_json(stepward("runs", "--journal", "empty.db", "--output-format", "json")) == {"version": 1, "runs": []}


def test_a_run_is_shown_also_when_its_id_is_the_name_of_an_action() -> None:
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "cancel")
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "plain")
    assert "run `cancel` of `ends`" in stepward("runs", "show", "cancel").stdout
    for arguments in (["plain", "--journal", "runs.db"], ["--journal", "runs.db", "plain"], ["show", "plain"]):
        assert "run `plain` of `ends`" in stepward("runs", *arguments).stdout
    says(stepward("runs", "plain", "--status", "FAILED"), 2, "--status is for the list")
    says(stepward("runs", "none"), 2, "error: there is no run `none`", "`stepward runs` lists them")
    says(stepward("runs", "--journal", "none.db"), 2, "there is no journal at `none.db`", "--journal none.db")


def test_what_would_repaint_a_terminal_is_shown_as_signs() -> None:
    Path("tools.py").write_text(TOOLS.replace('"no money"', '"\\x1b[2Jred \\u202e"'))
    result = shop(amount=8)
    assert "\x1b" not in result.output
    assert "␛[2Jred \ufffd" in result.output


def test_a_long_detail_is_cut_in_the_table_and_whole_in_the_json() -> None:
    Path("long.yaml").write_text(
        "name: long\ninputs: {text: {type: string}}\nsteps: [{id: e, type: end, output: $text}]\n"
    )
    arguments = ["run", "long.yaml", "--input", "text=" + "é" * 5000]
    assert max(map(len, stepward(*arguments).stdout.splitlines()[:5])) < 250
    assert as_json(stepward(*arguments, "--output-format", "json"))["trace"][0]["body"]["inputs"]["text"] == "é" * 5000


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize(
    ("variables", "is_painted"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_on_a_terminal_the_table_is_painted_and_fits(variables: dict[str, str], is_painted: bool) -> None:
    import pty

    shop("--run-id", "r1")
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    if "NO_COLOR" not in variables:
        environment.pop("NO_COLOR", None)
    with subprocess.Popen([STEPWARD, "runs", "r1"], stdout=slave, stderr=subprocess.PIPE, env=environment):
        os.close(slave)
        out = b""
        while chunk := _read(master):
            out += chunk
    os.close(master)
    text = out.decode().replace("\r\n", "\n")
    assert ("\x1b[" in text) == is_painted
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "[sensitive]" in plain
    assert "SUCCESS (declared) at `done`" in plain
    if is_painted:
        assert max(map(len, plain.split("\n\n")[1].splitlines())) <= 100
    assert not set(plain) & set("│┃━─┏╭|")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # what Linux says when nobody has the other end any more
        return b""


# -- replay and verify -------------------------------------------------------------------------------------------------


def test_a_replay_tells_the_same() -> None:
    shop("--run-id", "r1")
    result = stepward("replay", "runs.db", "r1")
    assert result.exit_code == 0
    assert result.stdout.endswith("the same: the machine would have written 9 records as they are\n")
    data = as_json(stepward("replay", "runs.db", "r1", "--output-format", "json"))
    assert (data["same"], data["faults"], data["run"]["status"]) == (True, [], "SUCCESS")
    assert len(data["trace"]) == 9
    says(stepward("replay", "runs.db", "none"), 2, "error: there is no run `none`")
    says(stepward("replay", "none.db", "r1"), 2, "error: there is no journal at `none.db`")
    says(stepward("replay", "runs.db"), 2, "Missing argument 'RUN'")


def rewritten(seq: int, old: str, new: str) -> None:
    """Change a record of the only run, and hash everything behind it, and the head, anew."""
    from hashlib import sha256

    with database("runs.db") as connection:
        rows = connection.execute("SELECT seq, record FROM records ORDER BY seq").fetchall()
        before = ""
        for number, record in rows:
            text = record.decode()
            if number == seq:
                assert old in text
                text = text.replace(old, new)
            if number > seq:
                text = re.sub(r'"prev":"[0-9a-f]{64}"', f'"prev":"{before}"', text)
            digest = sha256(b"stepward.record.1\n" + text.encode()).digest()
            before = digest.hex()
            connection.execute(
                "UPDATE records SET record = ?, digest = ? WHERE seq = ?", (text.encode(), digest, number)
            )
        connection.execute("UPDATE runs SET digest = ?", (digest,))


def test_a_journal_rewritten_whole_is_found_by_running_it_again() -> None:
    shop("--run-id", "r1")
    rewritten(4, '"amount":20', '"amount":99')
    replayed = stepward("replay", "runs.db", "r1")
    assert replayed.exit_code == 1
    assert "not the same: record 4: `pay` has other arguments than the program says" in replayed.stdout
    data = as_json(stepward("replay", "runs.db", "r1", "--output-format", "json"))
    assert (data["same"], [fault["seq"] for fault in data["faults"]]) == (False, [4])
    verified = stepward("verify", "runs.db")
    assert verified.exit_code == 1
    assert "  error: record 4: `pay` has other arguments" in verified.stdout


def test_a_changed_bit_is_found_where_it_is() -> None:
    shop("--run-id", "r1")
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "r2")
    assert stepward("verify", "runs.db").stdout.splitlines()[:3] == [
        "run `r1`: 9 records, intact",
        "run `r2`: 2 records, intact",
        "2 of 2 runs intact",
    ]
    with database("runs.db") as connection:
        (record,) = connection.execute("SELECT record FROM records WHERE run = 'r1' AND seq = 5").fetchone()
        changed = record.replace(b"paid 20", b"paid 21")
        connection.execute("UPDATE records SET record = ? WHERE run = 'r1' AND seq = 5", (changed,))
    result = stepward("verify", "runs.db")
    assert result.exit_code == 1
    assert "run `r1`: 9 records, 1 fault\n  error: record 5 was changed" in result.stdout
    assert "1 of 2 runs intact" in result.stdout
    assert stepward("verify", "runs.db", "r2").exit_code == 0
    data = as_json(stepward("verify", "runs.db", "r1", "--output-format", "json"))
    assert data["version"] == 1
    (run,) = data["runs"]
    assert (run["intact"], run["records"], [fault["seq"] for fault in run["faults"]]) == (False, 9, [5])
    assert run.keys() == {"run", "records", "head", "signed_by", "receipts", "intact", "faults"}
    for command in (["runs", "r1"], ["replay", "runs.db", "r1"], ["runs", "receipt", "r1"], ["runs", "cancel", "r1"]):
        says(stepward(*command), 2, "error: record 5 of run `r1` is not what was written; see `stepward verify`")


def test_a_journal_whose_columns_have_other_types_is_damaged_not_a_bug() -> None:
    shop("--run-id", "r1")
    with database("runs.db") as connection:
        connection.execute("UPDATE records SET record = CAST(record AS TEXT) WHERE seq = 3")
    assert stepward("verify", "runs.db").exit_code == 1
    says(stepward("runs", "r1"), 2, "error: record 3 of run `r1` is not what was written")


def test_a_run_that_is_gone_or_was_never_there_is_a_fault() -> None:
    shop("--run-id", "r1")
    result = stepward("verify", "runs.db", "r9")
    assert result.exit_code == 1
    assert "error: there is no run `r9`" in result.stdout


def test_a_pair_of_keys_signs_and_verifies() -> None:
    made = stepward("key", "k")
    assert re.fullmatch("key [0-9a-f]{16}: private `k`, public `k.pub`\n", made.stdout)
    assert Path("k").stat().st_mode & 0o777 == 0o600
    says(stepward("key", "k"), 2, "error: `k.pub` exists already, and a key is never written over")
    Path("k.pub").rename("public")
    says(stepward("key", "k"), 2, "error: `k` exists already, and a key is never written over")
    says(stepward("key", "none/k"), 2, "error: `none/k` can't be written: no such file")
    shop("--run-id", "r1", "--key", "k")
    assert "run `r1`: 9 records, signed by " in stepward("verify", "runs.db", "--key", "public").stdout
    assert "note:" not in stepward("verify", "runs.db", "--key", "public").stdout
    assert "note: without a key or a receipt" in stepward("verify", "runs.db").stdout
    says(stepward("verify", "runs.db", "--key", "k"), 2, "error: `k` is a private key")
    stepward("key", "other")
    assert stepward("verify", "runs.db", "--key", "other.pub").exit_code == 1
    assert stepward("verify", "runs.db", "--key", "other.pub", "--key", "public").exit_code == 0
    shop("--run-id", "r2", "--key", "k", amount=60)
    assert stepward("runs", "cancel", "r2", "--key", "k").exit_code == 0
    assert stepward("runs", "erase", "r2", "--yes", "--key", "k").exit_code == 0
    assert stepward("verify", "runs.db", "--key", "public").exit_code == 0


def test_a_receipt_shows_what_was_cut() -> None:
    stepward("key", "k")
    shop("--run-id", "r1", "--key", "k")
    printed = stepward("runs", "receipt", "r1")
    assert as_json(printed).items() >= {"run": "r1", "seq": 8, "status": "SUCCESS", "signature": None}.items()
    assert stepward("runs", "receipt", "r1", "--key", "k", "-o", "receipt.json").stdout == ""
    says(stepward("runs", "receipt", "r1", "-o", "none/r"), 2, "error: `none/r` can't be written: no such file")
    verified = stepward("verify", "runs.db", "--receipt", "receipt.json", "--key", "k.pub")
    assert ", 1 receipt, intact" in verified.stdout
    Path("unsigned.json").write_text(printed.stdout)
    assert stepward("verify", "runs.db", "--receipt", "unsigned.json").exit_code == 0
    assert stepward("verify", "runs.db", "--receipt", "unsigned.json", "--key", "k.pub").exit_code == 1
    stepward("key", "other")
    shop("--run-id", "r2")
    for run, key in (("r1", "other"), ("r2", "k")):
        refused = stepward("runs", "receipt", run, "--key", key)
        says(refused, 2, f"error: the head of run `{run}` is not signed by the key")
    with database("runs.db") as connection:
        connection.execute("DELETE FROM records")
        connection.execute("DELETE FROM runs")
    gone = stepward("verify", "runs.db", "--receipt", "receipt.json")
    assert gone.exit_code == 1
    assert "there is no run `r1`" in gone.stdout
    for file, words in (("none.json", "can't be read: no such file"), ("list.yaml", "one JSON object")):
        says(
            stepward("verify", "runs.db", "--receipt", file),
            2,
            f"error: {'the receipt ' * (file[0] == 'n')}`{file}`",
            words,
        )


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def test_a_journal_in_postgresql(postgres: Place) -> None:
    from psycopg.conninfo import conninfo_to_dict

    parts = {name: str(value) for name, value in conninfo_to_dict(postgres.conninfo).items()}
    query = "&".join(f"{name}={value}" for name, value in parts.items() if name != "dbname")
    url = f"postgresql:///{parts['dbname']}?{query}"
    waits = shop("--run-id", "r1", amount=60, journal=url)
    assert waits.exit_code == 4
    arguments = advice(waits, "resume:")
    arguments[4] = '{"ok": true}'
    assert stepward(*arguments).exit_code == 0
    assert stepward("runs", "--journal", url).stdout.endswith("\n1 run\n")
    assert stepward("verify", url, "r1").exit_code == 0
    assert stepward("replay", url, "r1").exit_code == 0


def test_no_password_of_a_journal_is_printed() -> None:
    from stepward.validator.cli.machine import _again

    options = {"journal": "postgresql://me:hush@host/db", "tools": "my tools"}
    assert _again(options) == " --journal postgresql://me@host/db --tools 'my tools'"


# -- completion, and what is not paid for ------------------------------------------------------------------------------


def completed(*words: str) -> set[str]:
    from click.shell_completion import BashComplete

    shell = BashComplete(main, {}, "stepward", "_STEPWARD_COMPLETE")
    return {found.value for found in shell.get_completions(list(words[1:-1]), words[-1])}


def test_the_shell_completes_what_is_new() -> None:
    shop("--run-id", "red")
    shop("--run-id", "green")
    assert {"run", "runs"} <= completed("stepward", "ru")
    assert completed("stepward", "run", "shop.yaml", "--input", "o") == {"order="}
    assert completed("stepward", "run", "none.yaml", "--input", "o") == set()
    assert "--run-id" in completed("stepward", "run", "--r")
    assert completed("stepward", "runs", "re") == {"receipt", "reconcile", "recover", "resume", "red"}
    assert completed("stepward", "runs", "cancel", "") == {"red", "green"}
    assert completed("stepward", "runs", "cancel", "--journal", "none.db", "") == set()
    assert completed("stepward", "runs", "reconcile", "red", "pay", "") == {"done", "not-done", "abandon"}
    assert completed("stepward", "replay", "runs.db", "g") == {"green"}
    assert completed("stepward", "verify", "runs.db", "r") == {"red"}


def loaded_after(*arguments: str) -> set[str]:
    code = f"import sys\nfrom stepward.validator.cli import main\nmain({list(arguments)!r}, standalone_mode=False)\n"
    script = (
        f"try:\n    exec({code!r})\nexcept SystemExit: pass\nimport sys, json\nprint(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_check_does_not_know_the_machine_and_a_run_in_a_pipe_not_the_painter() -> None:
    checked = loaded_after("check", "shop.yaml")
    assert not {name for name in checked if name.startswith(("stepward.vm.machine", "stepward.vm.journal", "rich"))}
    ran = loaded_after("run", "ends.yaml", "--journal", "x.db")
    assert "stepward.vm.machine.execution" in ran
    heavy = {name.partition(".")[0] for name in ran} & {"rich", "networkx", "z3", "hypothesis", "psycopg", "litellm"}
    assert not heavy
    assert "cryptography" not in {name.partition(".")[0] for name in ran}
