"""Fast: `stepward run`: what it prints, its exit status, and which programs and policies it takes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from paths import ROOT
from shops import ENDS, MAIL, as_json, says, shop, stepward, trace

pytestmark = pytest.mark.usefixtures("in_shop")


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
    told |= {"spent": {"judge": {"tokens": 0, "cost": "0", "model": ""}}}
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
    says(stepward("run", "gone.yaml", "--accept", "SW101,SW102"), 2, "names no step", "can't be accepted, only fixed")


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
