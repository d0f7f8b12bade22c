"""`stepward run --continues`: a program of a person goes on where a run has ended, through the gate from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepward.validator.cli import main

TOOLS = """\
from stepward.vm import tool


@tool(effect="write", idempotent=True)
def pay(sum: float, idempotency_key: str) -> None:
    print("paid", sum)


@tool(effect="read")
def is_agreed(sum: float) -> bool:
    return True
"""
SPECS = """\
tools:
  pay: {effect: write, idempotent: true, args: {sum: {type: number}}}
  is_agreed: {effect: read, args: {sum: {type: number}}, returns: {type: boolean}}
"""
FIRST = f"""\
name: first
inputs: {{small: {{type: number}}, large: {{type: number}}}}
{SPECS}guardrails:
  - {{name: agreed, protects: {{tool: pay}}, requires: {{step: may_pay, branch: then}}}}
max_steps: 3
steps:
  - {{id: ask, type: tool, tool: is_agreed, args: {{sum: $large}}, output_key: agreed, error_step: stop}}
  - {{id: may_pay, type: condition, condition: $agreed, then: pay_small, otherwise: stop}}
  - {{id: pay_small, type: tool, tool: pay, args: {{sum: $small}}, error_step: stop, next_step: pay_large}}
  - {{id: pay_large, type: tool, tool: pay, args: {{sum: $large}}, error_step: stop, next_step: end}}
  - {{id: end, type: end}}
  - {{id: stop, type: end, outcome: failure}}
"""


def second(sum: str = "$large", *, inputs: str = "inputs: {large: {type: number}}\n", more: str = "") -> str:
    return f"""\
name: second
{inputs}{SPECS}{more}steps:
  - {{id: pay_rest, type: tool, tool: pay, args: {{sum: {sum}}}, error_step: stop, next_step: end}}
  - {{id: end, type: end}}
  - {{id: stop, type: end, outcome: failure}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "first.yaml").write_text(FIRST)
    found = stepward(
        "run", "first.yaml", "--input", "small=10", "--input", "large=90", "--run-id", "one", "--accept", "SW601"
    )
    assert "BUDGET_EXCEEDED (max_steps) at `pay_large`" in found.stdout, found.stderr
    return tmp_path


def stepward(*words: str) -> Result:
    return CliRunner().invoke(main, [words[0], *words[1:], "--tools", "tools.py", "--journal", "runs.db"])


def go_on(text: str, *options: str) -> Result:
    Path("second.yaml").write_text(text)
    grant = () if any(one.startswith("steps=") for one in options) else ("--grant", "steps=5")
    return stepward("run", "second.yaml", "--continues", "one", *grant, *options)


def test_a_person_continues_a_run_by_a_program() -> None:
    found = go_on(second())
    assert found.exit_code == 0, found.output
    assert "run `one~1` of `second`" in found.stdout
    assert "continues run `one`, as number 1 of its chain; reads large" in found.stdout
    assert found.stderr == "paid 90\n"
    verified = CliRunner().invoke(main, ["verify", "runs.db"])
    assert (verified.exit_code, "2 of 2 runs intact" in verified.output) == (0, True)


def test_inputs_read_other_names_and_what_an_undeclared_reference_names() -> None:
    found = go_on(second("$sum", inputs="inputs: {sum: {type: number}}\n"), "--read", "sum=$large")
    assert "reads sum (large)" in found.stdout, found.output
    again = go_on(second())
    assert again.exit_code == 2
    assert "run `one` is continued already, by run `one~1`" in again.stderr


def test_a_program_without_inputs_reads_what_it_names() -> None:
    found = go_on(second(inputs=""), "--output-format", "json")
    assert json.loads(found.stdout)["run"]["continues"]["reads"] == {"large": "large"}


def test_the_gate_goes_on_where_the_rules_were() -> None:
    Path("once.yaml").write_text("policy: once\nguardrails: [{name: once, at_most_once: {tool: pay}}]\n")
    found = go_on(second(), "--policy", "once.yaml")
    assert found.exit_code == 2
    assert "SW404" in found.stderr
    assert (
        "`pay_rest` can repeat what a run before this one has done (guardrail `once` of policy `once`)" in found.stderr
    )
    assert "paid 90" not in found.stderr
    accepted = go_on(second(), "--policy", "once.yaml", "--accept", "SW404")
    assert (accepted.exit_code, "rejected" in accepted.stdout) == (1, True), accepted.output


def test_a_write_is_not_repeated() -> None:
    found = go_on(second("$small", inputs="inputs: {small: {type: number}}\n"))
    assert found.exit_code == 1
    assert "has called tool `pay` in this way" in found.stdout


def test_nothing_is_spent_beyond_what_is_left_and_granted() -> None:
    found = go_on(second(more="max_steps: 50\n"), "--grant", "steps=1")
    assert found.exit_code == 2
    assert "error[SW601]" in found.stderr
    assert "it was not run; run `one` and its grants leave it 1 of `steps`" in found.stderr
    none = stepward("run", "second.yaml", "--continues", "one")
    assert (none.exit_code, "run `one` has no steps left" in none.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "options", "says", "help"),
    [
        (second(), ["--input", "large=3"], "leave --input out", ""),
        (second(), ["--run-id", "mine"], "leave --run-id and --queue out", ""),
        (second(), ["--queue"], "leave --run-id and --queue out", ""),
        (second(), ["--read", "large"], "`--read large` is no `input=name`", "write `--read sum=check.output`"),
        (second(), ["--read", "large=small", "--read", "large=large"], "input `large` is read twice", "name once"),
        (second(), ["--read", "sum=small"], "`second` has no input `sum`", "correct `--read`"),
        (second(), ["--read", "large=nothing"], "`nothing` is not defined at the end of run `one`", "change"),
        (second(inputs="inputs: {sum: {type: number}}\n"), [], "input `sum` is missing", "run `one` has `agreed`, "),
        (second().replace("error_step: stop", "error_step: no"), [], "`second.yaml` is no program", ""),
        (second().replace("name: second", "language: 2\nname: second"), [], "has to say `language: 1`", "change the"),
        (second(), ["--max-continuations", "0"], "0 is not in the range", ""),
    ],
)
def test_a_continuation_that_can_not_be_is_refused(text: str, options: list[str], says: str, help: str) -> None:
    found = go_on(text, *options)
    assert found.exit_code == 2, found.output
    assert says in found.stderr
    assert help in found.stderr


def test_options_of_a_continuation_need_one() -> None:
    Path("second.yaml").write_text(second())
    for options in (["--read", "a=b"], ["--grant", "steps=3"], ["--after-failure"]):
        found = stepward("run", "second.yaml", *options)
        assert (found.exit_code, "is for the continuation of a run: add --continues" in found.stderr) == (2, True)
    without = CliRunner().invoke(main, ["run", "second.yaml", "--continues", "one"])
    assert (without.exit_code, "--continues needs the journal of the run" in without.stderr) == (2, True)


def test_a_run_that_has_failed_is_continued_only_if_that_is_asked_for() -> None:
    assert go_on(second("$small", inputs="inputs: {small: {type: number}}\n")).exit_code == 1
    Path("second.yaml").write_text(second(inputs="", sum="5"))
    words = ("run", "second.yaml", "--continues", "one~1", "--grant", "steps=5")
    refused = stepward(*words)
    assert (refused.exit_code, "say so with `--after-failure`" in refused.stderr) == (2, True)
    assert "run `one~2` of `second`" in stepward(*words, "--after-failure").stdout
    often = stepward("run", "second.yaml", "--continues", "one~2", "--max-continuations", "2")
    assert often.exit_code == 2
    assert "has ended SUCCESS: only BUDGET_EXCEEDED and STALLED can be continued" in often.stderr
