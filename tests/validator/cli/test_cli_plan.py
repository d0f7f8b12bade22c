"""`stepward plan`: what it prints, saves and runs, its exit statuses, and options that can't be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stepward.validator.cli import main, output
from stepward.vm import Program

TOOLS = '''\
from stepward.vm import tool


@tool(effect="read")
def get_order(order: str) -> int:
    """Return the total of an order.

    It asks the warehouse.
    """
    return 50


@tool(effect="write", idempotent=True)
def refund(order: str, total: int, idempotency_key: str) -> None:
    print("paid", order, total)
'''
POLICY = """\
policy: shop
guardrails:
  - {name: limit, never: {tool: refund}, when: $args.total > 500}
"""
PROGRAM = """\
name: pays
inputs: {order: {type: string, maxLength: 10}}
max_steps: 9
steps:
  - {id: load, type: tool, tool: get_order, args: {order: $order}, output_key: total, error_step: failed}
  - {id: fits, type: condition, condition: $total <= 500 and len($order) > 0, then: pay, otherwise: failed}
  - {id: pay, type: tool, tool: refund, args: {order: $order, total: $total}, error_step: failed, next_step: done}
  - {id: done, type: end, output: {paid: $total}}
  - {id: failed, type: end, outcome: failure}
"""
WRONG = "name: pays\nsteps: [{id: pay, type: tool, tool: refund, args: {order: a, total: 900}}]\n"
TYPE = "order={type: string, maxLength: 10}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "no-inputs.json").write_text('{"order": "A7"}')
    script(WRONG, PROGRAM)
    return tmp_path


def script(*replies: str) -> None:
    Path("replies.json").write_text(json.dumps({"propose": list(replies)}))


def plan(*arguments: str, task: str = "Pay an order back.") -> Result:
    given = ["--tools", "tools.py", "--policy", "policy.yaml", "--model", "script:replies.json", "--takes", TYPE]
    return CliRunner().invoke(main, ["plan", task, *given, *arguments], catch_exceptions=False)


def test_the_program_is_printed_and_the_tries_beside_it() -> None:
    result = plan()
    assert result.exit_code == 0, result.stderr
    program = Program.from_yaml(result.stdout)
    assert (program.name, list(program.tools or {})) == ("plan", ["get_order", "refund"])
    assert "try 1:\n  refused: " in result.stderr
    assert "(guardrail `limit` of policy `shop`)" in result.stderr
    assert "try 2:\n  accepted: no findings" in result.stderr
    assert "accepted after 2 tries" in result.stderr


def test_the_program_is_saved_and_passes_the_gate_by_itself() -> None:
    result = plan("-o", "plan.yaml", "--name", "pay_back")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "It is in `plan.yaml`." in result.stderr
    assert Program.load("plan.yaml").name == "pay_back"
    checked = CliRunner().invoke(main, ["check", "plan.yaml", "--policy", "policy.yaml"])
    assert checked.exit_code == 0, checked.output


def test_the_program_is_run_under_the_policies_of_its_plan() -> None:
    result = plan("--run", "--input", "order=A7", "--journal", "runs.db", "--run-id", "one", "-o", "plan.yaml")
    assert result.exit_code == 0, result.stderr
    assert "run `one-run` of `plan`" in result.stdout
    assert "SUCCESS (declared) at `done`" in result.stdout
    assert "paid A7 50" in result.stderr, "output of a tool is no part of the trace"
    assert Path("plan.yaml").exists()
    again = plan("--run", "--inputs", "no-inputs.json", "--journal", "runs.db", "--run-id", "one")
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert "paid A7" not in again.stderr, "a run that exists is shown, and pays nothing"
    assert CliRunner().invoke(main, ["verify", "runs.db"]).exit_code == 0
    listed = CliRunner().invoke(main, ["runs", "--journal", "runs.db"]).stdout
    assert listed.index("stepward-planner") < listed.index("one-run")


def test_a_plan_as_json() -> None:
    result = plan("--output-format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert (data["version"], data["accepted"], data["reason"]) == (1, True, None)
    assert [one["accepted"] for one in data["tries"]] == [False, True]
    assert data["tries"][0]["reply"] == WRONG
    assert Program.from_yaml(data["program"]).name == "plan"


def test_no_accepted_program_is_exit_status_1_and_makes_no_file() -> None:
    script(WRONG)
    result = plan("--tries", "2", "-o", "plan.yaml", "--run", "--input", "order=A7")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no try was accepted" in result.stderr
    assert "try 2:" in result.stderr
    assert "try 3:" not in result.stderr
    assert not Path("plan.yaml").exists()
    data = json.loads(plan("--tries", "1", "--output-format", "json").stdout)
    assert (data["accepted"], data["program"]) == (False, None)
    assert data["reason"].startswith("refused")


def test_a_model_that_fails_is_told() -> None:
    Path("replies.json").write_text('{"other": "x"}')
    result = plan()
    assert result.exit_code == 1
    assert "the script has no reply for `propose`" in result.stderr


def test_a_used_up_budget_is_told() -> None:
    Path("adapter.py").write_text(
        "from stepward.vm import ModelReply\n\n\nclass Adapter:\n    def complete(self, request):\n"
        "        return ModelReply('no', tokens=50)\n"
    )
    result = plan("--model", "adapter.py:Adapter", "--max-tokens", "80", "--tries", "9")
    assert result.exit_code == 1
    assert "the budget `max_tokens` is used up" in result.stderr


def test_a_program_that_is_not_accepted_any_more_is_neither_shown_nor_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepward.validator.planner import loop
    from stepward.validator.planner.verdicts import GateVerdict

    async def forged(*_: Any) -> GateVerdict:
        return GateVerdict("accepted", WRONG)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "verdict_on", forged)
        first = plan("--journal", "runs.db", "--run-id", "one")
    assert first.exit_code == 1
    result = plan("--journal", "runs.db", "--run-id", "one", "--run", "--input", "order=A7", "-o", "plan.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not any more" in result.stderr
    assert "(guardrail `limit` of policy `shop`)" in result.stderr
    assert not Path("plan.yaml").exists()


def test_the_model_is_told_the_tools_and_no_value(folder: Path) -> None:
    (folder / "adapter.py").write_text(
        "from stepward.vm import ModelReply\n\n\nclass Adapter:\n    def complete(self, request):\n"
        "        open('asked.txt', 'a').write(f'{request.system}{request.prompt}')\n"
        f"        return ModelReply({PROGRAM!r})\n"
    )
    result = plan("--model", "adapter.py:Adapter", "--run", "--input", "order=A7-secret"[:16])
    assert result.exit_code == 0, result.stderr
    told = Path("asked.txt").read_text()
    assert "A7" not in told
    for words in ("Return the total of an order.", "maxLength: 10", "name: limit", "$args.total > 500"):
        assert words in told
    assert "It asks the warehouse." not in told, "the first paragraph is enough"


def test_tools_of_policies_are_enough_for_a_plan(folder: Path) -> None:
    (folder / "facts.yaml").write_text(
        "policy: facts\ntools:\n  get_order: {effect: read, args: {order: {type: string}}, returns: {type: integer}}\n"
        "  refund: {effect: write, idempotent: true, args: {order: {type: string}, total: {type: integer}}}\n"
    )
    arguments = ["--policy", "facts.yaml", "--model", "script:replies.json", "--takes", TYPE]
    result = CliRunner().invoke(main, ["plan", "Pay.", *arguments])
    assert result.exit_code == 0, result.stderr
    run = CliRunner().invoke(main, ["plan", "Pay.", *arguments, "--run", "--input", "order=A7"])
    assert run.exit_code == 2
    assert "there is no `--tools`" in run.stderr
    assert "try 1" not in run.stderr, "it is said before a model is asked"


def test_an_input_that_the_program_does_not_read_is_left_out() -> None:
    result = plan("--takes", "note=string", "--run", "--input", "order=A7", "--input", "note=hello")
    assert (result.exit_code, "paid A7 50" in result.stderr) == (0, True), result.stderr


def test_replies_are_recorded_and_played_again(folder: Path) -> None:
    (folder / "adapter.py").write_text(
        "from stepward.vm import ScriptedModel\nmodel = ScriptedModel({'propose': [" + f"{WRONG!r}, {PROGRAM!r}]}})\n"
    )
    first = plan("--model", "record:plan.jsonl:adapter.py:model")
    again = plan("--model", "recorded:plan.jsonl")
    assert (first.exit_code, first.stdout) == (0, again.stdout)
    other = plan("--model", "recorded:plan.jsonl", task="Something else.")
    assert other.exit_code == 1
    assert "has no reply" in other.stderr


REFUSED: dict[str, tuple[list[str], str]] = {
    "an input without a run": (["--input", "order=A7"], "add --run"),
    "inputs without a run": (["--inputs", "no-inputs.json"], "add --run"),
    "a type without a name": (["--takes", "string"], "is no `name=type`"),
    "a name without a type": (["--takes", "sum="], "is no `name=type`"),
    "an input twice": (["--takes", "a=string", "--takes", "a=number"], "input `a` is given twice"),
    "a type that is none": (["--takes", "a=money"], "an input can't be used"),
    "a number as a type": (["--takes", "a=5"], "an input can't be used"),
    "a type that can't be read": (["--takes", "a={type: ["], "the type of input `a` can't be read"),
    "no tries": (["--tries", "0"], "is not in the range"),
    "no tokens": (["--max-tokens", "0"], "is not in the range"),
    "no money": (["--max-cost", "-1"], "is no number above 0"),
    "money that is none": (["--max-cost", "nan"], "is no number above 0"),
    "a name that is none": (["--name", ""], "the name can't be that of a program"),
    "a model that is none": (["--model", "script:none.yaml"], "none.yaml"),
    "a module that is none": (["--tools", "none.py"], "none.py"),
    "a policy that is none": (["--policy", "tools.py"], "tools.py"),
    "a run id that is none": (["--run-id", "a\nb"], "a run id has"),
    "a journal that is none": (["--journal", "none/runs.db"], "none/runs.db"),
    "a missing input": (["--run"], "needs the input `order`"),
    "an unknown input": (["--run", "--input", "item=5"], "has no input `item`"),
    "a place that is none": (["-o", "none/plan.yaml"], "`none/plan.yaml` can't be written"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_can_not_be_used_are_refused_in_words(case: str) -> None:
    arguments, says = REFUSED[case]
    result = plan(*arguments)
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["plan", ""], ["plan", "Pay.", "--isolated"]])
def test_a_plan_needs_a_task_and_a_model(arguments: list[str]) -> None:
    result: Any = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "a plan needs a model" in result.stderr


@pytest.mark.parametrize("place", ["none/plan.yaml", "."])
def test_a_place_that_is_none_is_refused_before_a_model_is_asked(place: str) -> None:
    result = plan("-o", place, "--journal", "runs.db")
    assert (result.exit_code, "can't be written" in result.stderr) == (2, True)
    assert "try 1" not in result.stderr
    assert not Path("runs.db").exists()


def test_a_program_that_can_not_be_saved_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(output, "put", full)
        result = plan("-o", "plan.yaml")
    assert (result.exit_code, "`plan.yaml` can't be written" in result.stderr) == (2, True), result.stderr
    assert Program.from_yaml(result.stdout).name == "plan"


def test_without_tools_it_is_said(folder: Path) -> None:
    script("name: x\ninputs: {}\nsteps: [{id: done, type: end, output: fine}]\n")
    result = CliRunner().invoke(main, ["plan", "Say fine.", "--model", "script:replies.json"])
    assert (result.exit_code, "note: the program may call no tools" in result.stderr) == (0, True), result.stderr


def test_tools_of_which_nobody_states_the_facts_are_named(folder: Path) -> None:
    assert "nobody states" not in plan().stderr
    bare = TOOLS.replace('@tool(effect="read")', "").replace('@tool(effect="write", idempotent=True)', "")
    (folder / "bare.py").write_text(bare.replace("from stepward.vm import tool", ""))
    (folder / "facts.yaml").write_text("policy: facts\ntools: {get_order: {effect: read}}\n")
    result = plan("--tools", "bare.py", "--policy", "facts.yaml", "--tries", "1")
    assert "note: nobody states the effect of `refund`, so the worst is assumed" in result.stderr


def test_an_empty_task_makes_no_journal() -> None:
    result = plan("--journal", "runs.db", task=" ")
    assert (result.exit_code, "the task is empty" in result.stderr) == (2, True)
    assert not Path("runs.db").exists()


# -- continuations -----------------------------------------------------------------------------------------------------

FIRST = PROGRAM.replace("max_steps: 9", "max_steps: 2").replace("name: pays", "name: first")
REST = """\
inputs: {total: {}}
steps: [{id: pay, type: tool, tool: refund, args: {order: A7, total: 50}, error_step: failed, next_step: done}, \
{id: done, type: end}, {id: failed, type: end, outcome: failure}]
"""


def interrupt(folder: Path) -> None:
    (folder / "first.yaml").write_text(FIRST)
    arguments = ["run", "first.yaml", "--tools", "tools.py", "--input", "order=A7", "--journal", "runs.db"]
    done = CliRunner().invoke(main, [*arguments, "--run-id", "first", "--accept", "SW601"])
    assert done.exit_code == 1, done.output


def go_on(*options: str) -> Result:
    return CliRunner().invoke(
        main,
        ["plan", "Pay.", "--tools", "tools.py", "--policy", "policy.yaml", "--model", "script:replies.json", *options],
    )


def test_a_run_is_continued(folder: Path) -> None:
    interrupt(folder)
    script(REST.replace("inputs: {total: {}}\n", "inputs: {}\n"))
    found = go_on("--continues", "first", "--grant", "steps=5", "--journal", "runs.db", "--run")
    assert found.exit_code == 0, found.output
    assert "run `first~1` of `plan`" in found.output
    assert CliRunner().invoke(main, ["verify", "runs.db"]).exit_code == 0
    shown = CliRunner().invoke(main, ["runs", "show", "first~1", "--journal", "runs.db"]).output
    assert shown.index("run `first` of `first`") < shown.index("run `first~1` of `plan`")
    assert "continues run `first`, as number 1 of its chain; reads nothing" in shown
    as_json = (
        CliRunner().invoke(main, ["runs", "show", "first~1", "--journal", "runs.db", "--output-format", "json"]).output
    )
    assert json.loads(as_json)["run"]["continues"]["run"] == "first"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--continues", "none", "--journal", "runs.db"], "there is no run `none`"),
        (["--continues", "first", "--journal", "runs.db"], "run `first` has no steps left"),
        (["--continues", "first", "--journal", "runs.db", "--grant", "steps=x"], "`--grant steps=x` adds nothing"),
        (["--continues", "first", "--journal", "runs.db", "--grant", "steps=0"], "`--grant steps=0` adds nothing"),
        (["--continues", "first"], "--continues needs the journal of the run"),
        (["--continues", "first", "--journal", "runs.db", "--takes", "a=string"], "leave --takes"),
        (["--grant", "steps=5"], "add --continues"),
    ],
)
def test_a_continuation_that_can_not_be_is_refused(folder: Path, options: list[str], says: str) -> None:
    interrupt(folder)
    found = go_on(*options)
    assert found.exit_code == 2, found.output
    assert says in found.output
