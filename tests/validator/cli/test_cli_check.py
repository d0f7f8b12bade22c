"""Fast: `stepward check` as its users run it: targets, options, output, exit status."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from commands import BAD, WARNS, check, put
from commands import CLEAN as GOOD
from paths import ROOT
from stepward.validator.cli import main

pytestmark = pytest.mark.usefixtures("in_own_folder")


def codes(result: Result) -> list[str]:
    """Return the codes of a concise report."""
    return [line.split()[2] for line in result.stdout.splitlines() if "] " in line]


# -- targets and exit status -------------------------------------------------------------------------------------------


def test_a_clean_program_exits_with_0() -> None:
    put("good.yaml", GOOD)
    result = check("good.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 program: no findings\n", "")


def test_an_error_exits_with_1_and_shows_the_place() -> None:
    put("bad.yaml", BAD)
    result = check("bad.yaml")
    assert result.exit_code == 1
    assert " --> bad.yaml:4:46\n" in result.stdout
    assert "\n  |" + " " * 46 + "^^^^\n" in result.stdout
    assert result.stdout.endswith("\n1 error in 1 of 1 program\n")


def test_without_paths_the_current_folder_is_checked() -> None:
    put("a/good.yaml", GOOD)
    put("a/bad.yaml", BAD)
    put("compose.yaml", "services: {}\n")
    result = check("--output-format=concise")
    assert result.stdout.splitlines()[0].startswith("a/bad.yaml:4:46: error SW101 [missing-target] ")
    assert result.stdout.endswith("1 error in 1 of 2 programs (1 file skipped; see `--statistics`)\n")


def test_findings_come_sorted_by_file_whatever_the_order_of_the_targets() -> None:
    for name in ("b.yaml", "a.yaml", "c/d.yaml"):
        put(name, BAD)
    orders = [("b.yaml", "c", "a.yaml"), ("c", "a.yaml", "b.yaml"), (".",)]
    outputs = {check("--output-format=concise", *order).stdout for order in orders}
    assert len(outputs) == 1
    assert [line.split(":")[0] for line in outputs.pop().splitlines()[:3]] == ["a.yaml", "b.yaml", "c/d.yaml"]


def test_warnings_shut_the_gate_only_when_asked() -> None:
    put("warns.yaml", WARNS)
    assert check("warns.yaml").exit_code == 0
    assert check("warns.yaml", "--fail-on=error").exit_code == 0
    assert check("warns.yaml", "--fail-on=warning").exit_code == 1
    put("stepward.toml", 'fail-on = "warning"')
    assert check("warns.yaml").exit_code == 1
    assert check("warns.yaml", "--fail-on=error").exit_code == 0


def test_the_gate_can_be_shut_by_codes_alone() -> None:
    put("warns.yaml", WARNS)
    code = json.loads(check("warns.yaml", "--output-format=json").stdout)["findings"][0]["code"]
    assert check("warns.yaml", f"--fail-on={code}").exit_code == 1
    assert check("warns.yaml", f"--fail-on=SW999,{code[:3]}").exit_code == 2, "an unknown code is refused"
    assert check("warns.yaml", f"--fail-on=SW902, {code[:3]}").exit_code == 1, "a prefix stands for a family"
    assert check("warns.yaml", "--fail-on=SW902").exit_code == 0
    put("stepward.toml", f'fail-on = ["error", "{code}"]')
    assert check("warns.yaml").exit_code == 1
    put("wrong.yaml", "name: wrong\ninputs: {}\nsteps:\n  - {id: a, type: set, set: {x: $nothing}}\n")
    assert check("wrong.yaml", "--isolated").exit_code == 1
    assert check("wrong.yaml", "--fail-on=SW902").exit_code == 0
    assert check("wrong.yaml", "--fail-on=SW902,error").exit_code == 1


def test_what_can_not_be_judged_and_what_a_policy_forbids_shut_the_gate_whatever_codes_are_named() -> None:
    put("broken.yaml", "name: [")
    assert check("broken.yaml", "--fail-on=SW902").exit_code == 1
    policy = ROOT / "specs/programs/bad/SW403/read-only.policy.yaml"
    put("forbidden.yaml", (ROOT / "specs/programs/bad/SW403/read-only.yaml").read_text())
    assert check("forbidden.yaml", "--fail-on=SW902").exit_code == 0
    assert check("forbidden.yaml", "--fail-on=SW902", f"--policy={policy}").exit_code == 1


def test_exit_zero_exits_with_0_but_not_when_nothing_could_be_checked() -> None:
    put("bad.yaml", BAD)
    assert check("bad.yaml", "--exit-zero").exit_code == 0
    assert "SW101" in check("bad.yaml", "--exit-zero").stdout
    assert check("none.yaml", "--exit-zero").exit_code == 2


def test_nothing_to_check_exits_with_3() -> None:
    put("compose.yaml", "services: {}\n")
    result = check()
    assert (result.exit_code, result.stdout) == (3, "no programs (1 file skipped; see `--statistics`)\n")
    assert "nothing to check" in result.stderr
    assert check("--skip-non-programs").exit_code == 3


def test_what_is_skipped_is_never_hidden() -> None:
    for number in range(3):
        put(f"{number}.yaml", "services: {}\n")
    result = check("0.yaml", "1.yaml", "2.yaml", "--skip-non-programs", "--output-format=json")
    assert result.exit_code == 0
    assert "warning: nothing was checked: 3 files are no program" in result.stderr
    put("good.yaml", "steps: [{id: a, type: end}]")
    assert "(3 files skipped; see `--statistics`)" in check("--skip-non-programs", ".").stdout


@pytest.mark.parametrize("cache", [["--no-cache"], []])
def test_a_misspelt_tool_in_a_policy_is_answered_with_the_tool_that_is_called(cache: list[str]) -> None:
    put("p/a.yaml", "tools: {pay_out: {effect: read}}\nsteps: [{id: a, type: tool, tool: pay_out}]\n")
    facts = "tools: {pay_uot: {effect: read}, other: {effect: read}}"
    rules = "guardrails: [{name: r, at_most_once: {tool: pay_otu}}]"
    put("house.yaml", f"policy: house\n{facts}\n{rules}\n")
    for _ in range(2):
        result = check("p", "--policy=house.yaml", "--output-format=json", *cache)
        found = json.loads(result.stdout)["findings"]
        assert [(one["code"], one["line"], one["help"]) for one in found] == [
            ("SW407", 2, "did you mean `pay_out`?"),
            ("SW407", 3, "did you mean `pay_out`?"),
        ]
    put("house.yaml", f"policy: house\n{facts}\n{rules}\n".replace("pay_uot", "pay_out").replace("pay_otu", "pay_out"))
    assert check("p", "--policy=house.yaml", *cache).exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "system"),
    [
        ("a.json", '{"StartAt": "a", "States": {"a": {"Type": "Pass", "End": true}}}', "Step Functions"),
        ("langgraph.json", '{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}', "LangGraph"),
        ("agent.py", "from langgraph.graph import StateGraph\ngraph = StateGraph(State)\n", "LangGraph"),
        ("d.yaml", "kind: app\napp: {mode: workflow}\nworkflow: {graph: {nodes: [], edges: []}}\n", "Dify"),
        ("n.json", '{"nodes": [{"type": "n8n-nodes-base.start"}], "connections": {}}', "n8n"),
        ("ci.yaml", "on: push\njobs: {test: {steps: [{run: make}]}}\n", "GitHub Actions"),
    ],
)
def test_a_file_of_another_system_is_named_as_such(name: str, text: str, system: str) -> None:
    put(name, text)
    result = check(name)
    assert result.exit_code == 1
    assert f"`{name}` is not a program: it looks like a workflow of {system}" in result.stdout
    assert "write the workflow down as `steps`, or leave the file out" in result.stdout
    assert check(name, "--skip-non-programs").exit_code == 0


TOOLED = "name: p\ntools: {t: {effect: read}}\n%s:\n  - {id: s, type: tool, tool: t}\n"


@pytest.mark.parametrize("word", ["stepz", "step", "stpes", "Steps", "stesp", "steeps", "STEPS"])
@pytest.mark.parametrize("cache", [["--no-cache"], []])
def test_a_program_whose_steps_are_misspelt_is_no_skipped_file(word: str, cache: list[str]) -> None:
    put("a.yaml", TOOLED % word)
    put("b.json", json.dumps({"name": "p", "guardrails": [], word: [{"id": "a", "type": "end"}]}))
    for _ in range(2):
        result = check(".", *cache)
        assert result.exit_code == 1
        assert "error[SW002]" in result.stdout
        assert all(f"{name}:" in result.stdout for name in ("a.yaml", "b.json"))
        assert "`steps`" in result.stdout
    assert check(".", "--skip-non-programs").exit_code == 1


@pytest.mark.parametrize(
    "text",
    [TOOLED % word for word in ("tasks", "items", "stages", "nodes")]
    + [
        "name: p\ntools: [a]\nstepz: 3\ntype: x\n",
        "name: p\ntools: [a]\nstepz: [{id: 1}]\ntype: x\n",
        "name: p\nstepz: [{id: a, type: b}]\n",
    ],
)
def test_a_file_with_some_words_of_programs_is_skipped(text: str) -> None:
    put("a.yaml", text)
    assert check(".").stdout == "no programs (1 file skipped; see `--statistics`)\n"


def test_statistics_list_what_is_skipped_and_waived() -> None:
    put("a.yaml", "name: p\nsteps: [{id: a, type: end}]\n")
    put("b.yaml", "services: {}\n")
    put("c.json", "{}")
    waiver = "{program: p, rule: n, reason: until the move, expiry: 2999-01-01}"
    put("house.yaml", f"policy: house\nguardrails: [{{name: n, never: {{step: a}}}}]\nwaivers: [{waiver}]\n")
    for _ in range(2):  # the second time from the cache
        shown = check(".", "--policy=house.yaml", "--statistics").stdout
        assert "waived: SW403 in a.yaml, rule house/n: until the move (until 2999-01-01)\n" in shown
        assert "\nskipped: b.yaml\nskipped: c.json\nskipped: house.yaml\n" in shown
        assert "see `--statistics`" not in shown


def test_a_named_file_that_is_no_program_is_an_error_unless_skipped() -> None:
    put("compose.yaml", "services: {}\n")
    result = check("compose.yaml", "--output-format=concise")
    assert (result.exit_code, codes(result)) == (1, ["SW001"])
    result = check("compose.yaml", "--skip-non-programs")
    assert (result.exit_code, result.stdout) == (0, "no programs (1 file skipped; see `--statistics`)\n")
    put("broken.yaml", "steps: [\n")
    assert check("broken.yaml", "compose.yaml", "--skip-non-programs").exit_code == 1
    assert check(".", "compose.yaml", "--output-format=concise").stdout.count("SW001") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.yaml"], "`nowhere.yaml` can't be checked: no such file"),
        ([""], "an empty text names no file"),
        (["--policy=none.yaml"], "the policy `none.yaml` can't be read: no such file"),
        (["--config=none.toml"], "`none.toml` can't be read: no such file"),
        (["--config=good.yaml", "--isolated"], "give one of the two"),
        (["--baseline=none.json"], "the baseline `"),
        (["--write-baseline=none/b.json"], "can't be written"),
        (["--output-file=none/out.txt"], "can't be written: no such file"),
        (["--witnesses=good.yaml"], "`good.yaml` can't be written to: file exists"),
        (["--select=SW4x"], "--select: `SW4x` is not a code"),
        (["--ignore=unproved"], "did you mean `SW408`?"),
        (["--select="], "--select names no code"),
        (["--statistics", "--output-format=json"], "--statistics is text"),
        (["--stdin-filename=x.yaml"], "--stdin-filename needs `-`"),
        (["--output-format=xml"], "'xml' is not one of"),
        (["--fail-on=info"], "--fail-on: `info` is not `error`, `warning`, a code, nor the beginning of one"),
        (["--fail-on=SW4x"], "--fail-on: `SW4x` is not"),
        (["--fail-on=error,guardrail-bypased"], "did you mean `SW401`?"),
        (["--fail-on=,"], "--fail-on names no code"),
        (["--nonsense"], "No such option"),
        (["--object=nonsense"], "`nonsense` does not name an object"),
    ],
)
def test_what_can_not_be_used_exits_with_2_and_says_so(arguments: list[str], says: str) -> None:
    put("good.yaml", GOOD)
    result = check(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_a_broken_configuration_exits_with_2() -> None:
    put("good.yaml", GOOD)
    put("stepward.toml", "selct = []")
    result = check()
    assert result.exit_code == 2
    assert result.stderr == "error: `stepward.toml`: unknown key `selct`\n  = help: did you mean `select`?\n"
    assert check("--isolated").exit_code == 0


def test_of_a_hostile_file_nothing_but_findings_comes() -> None:
    put("deep.json", '{"steps": ' + "[" * 100_000)
    put("deep.yaml", "steps: " + "[" * 5_000)
    put("deep.py", "Program.from_dict({'steps': " + "-" * 50_000 + "1})")
    put("control.yaml", 'steps: []\n"\\e[2J": 1\n')
    Path("nul.yaml").write_bytes(b"steps: \x00\n")
    result = check("--output-format=concise")
    assert result.exit_code == 1
    assert {line.split(":")[0] for line in result.stdout.splitlines()[:-1]} == set(os.listdir())
    assert "\x1b" not in result.stdout


# -- options -----------------------------------------------------------------------------------------------------------


def test_select_and_ignore_choose_by_code_and_by_its_beginning() -> None:
    put("bad.yaml", BAD)
    put("warns.yaml", WARNS)
    every = codes(check("--output-format=concise"))
    assert set(every) >= {"SW101", "SW108"}
    assert codes(check("--output-format=concise", "--select=SW108")) == ["SW108"]
    assert set(codes(check("--output-format=concise", "--select=SW108,SW101"))) == {"SW108", "SW101"}
    assert codes(check("--output-format=concise", "--select=SW1", "--ignore=SW108", "--ignore=SW107")) == ["SW101"]
    assert check("--ignore=SW").stdout == "2 programs: no findings\n"


def test_the_command_line_wins_over_the_configuration() -> None:
    put("bad.yaml", BAD)
    put("stepward.toml", 'ignore = ["SW101"]')
    assert check("bad.yaml").exit_code == 0
    assert check("bad.yaml", "--ignore=SW102").exit_code == 1
    assert check("bad.yaml", "--isolated").exit_code == 1
    put("other.toml", 'select = ["SW9"]')
    assert check("bad.yaml", "--config=other.toml").exit_code == 0


def test_the_report_goes_to_a_file() -> None:
    put("bad.yaml", BAD)
    result = check("bad.yaml", "--output-file=out.json", "--output-format=json")
    assert (result.exit_code, result.stdout) == (1, "")
    data = json.loads(Path("out.json").read_text())
    assert [finding["code"] for finding in data["findings"]] == ["SW101"]
    assert data["findings"][0]["file"] == "bad.yaml"


def test_statistics_come_in_place_of_the_findings() -> None:
    put("bad.yaml", BAD)
    put("also.yaml", BAD)
    codes, bounds, summary = check("--statistics").stdout.split("\n\n")
    assert codes == "     2  SW101  error    missing-target"
    assert [line.split()[0] for line in bounds.splitlines()] == ["file", "also.yaml", "bad.yaml"]
    assert summary == "2 errors in 2 of 2 programs\n"


HOLES = """
name: holes
inputs: {amount: {type: integer, minimum: 0}}
tools: {ask: {effect: none}, pay: {effect: write, idempotent: true}}
guardrails:
  - {name: asked, protects: {tool: pay}, requires: {tool: ask}}
  - {name: not-large, never: {tool: pay}, when: $amount > 9}
steps:
  - {id: is_small, type: condition, condition: $amount < 5, then: pay, otherwise: ask}
  - {id: ask, type: tool, tool: ask, next_step: pay}
  - {id: pay, type: tool, tool: pay, is_terminal: true}
"""


def test_each_witness_goes_to_a_file_for_replay() -> None:
    put("p.yaml", HOLES)
    put("q.yaml", HOLES)
    result = check("--witnesses", "deep/found", ".")
    assert result.exit_code == 1
    names = [f"holes-{code}-pay{number}.json" for code in ("SW401", "SW403") for number in ("", "-2")]
    assert sorted(path.name for path in Path("deep/found").iterdir()) == sorted(names)
    told = [line for line in result.stderr.splitlines() if line.startswith("witness of ")]
    assert told[0] == "witness of SW401 at p.yaml:11:10: stepward replay deep/found/holes-SW401-pay.json"
    for line in told:
        command = line.split(": stepward ")[1]
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, done.output
        assert "confirmed: guardrail " in done.stdout


def test_without_a_violation_there_is_no_witness() -> None:
    put("p.yaml", GOOD)
    assert check("--witnesses", "found", ".").exit_code == 0
    assert list(Path("found").iterdir()) == []


def test_the_values_that_lead_to_a_violation_are_told() -> None:
    put("p.yaml", HOLES)
    output = check(".").output
    assert "= with amount = 0\n" in output, "for who was not asked"
    assert "= with amount = 10\n" in output, "just past what the rule names"


def test_json_lists_the_verdicts_too() -> None:
    rule = "guardrails: [{name: g, protects: {step: b}, requires: {step: a}}]\n"
    put("p.yaml", f"name: p\ninputs: {{}}\n{rule}steps: [{{id: a, type: llm, prompt: x}}, {{id: b, type: end}}]\n")
    data = json.loads(check("p.yaml", "--output-format=json").stdout)
    (entry,) = data["properties"]
    assert (entry["file"], entry["name"], entry["rule"], entry["verdict"]) == ("p.yaml", "requires", "g", "proved")
    assert data["summary"]["verdicts"]["proved"] == 1


def test_standard_input_is_a_program_of_its_own() -> None:
    result = check("-", "--output-format=concise", stdin=BAD)
    assert (result.exit_code, result.stdout.split(": ")[0]) == (1, "<stdin>:4:46")
    assert check("-", stdin='{"steps": [{"id": "a", "type": "end"}]}').exit_code == 0
    assert check("-", "--output-format=concise", stdin="").stdout.startswith("<stdin>: error SW001 ")
    assert check("-", "--skip-non-programs", stdin="a: 1").exit_code == 0
    assert check("-", stdin=b"steps: \xff").exit_code == 1


def test_standard_input_stands_for_the_file_that_is_named() -> None:
    put("sub/stepward.toml", 'ignore = ["SW101"]')
    assert check("-", stdin=BAD).exit_code == 1
    assert check("-", "--stdin-filename=sub/x.yaml", stdin=BAD).exit_code == 0
    python = 'p = Program.from_dict({"name": "p", "steps": 3})'
    result = check("-", "--stdin-filename=sub/x.py", "--output-format=concise", stdin=python)
    assert result.stdout.startswith("sub/x.py:1:46: error SW002")


def test_a_file_above_the_current_folder_is_named_from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    put("bad.yaml", BAD)
    put("sub/x.txt", "")
    path = Path("bad.yaml").resolve()
    monkeypatch.chdir("sub")
    assert check("../bad.yaml", "--output-format=concise").stdout.startswith(f"{path.as_posix()}:4:46: ")


# -- objects -----------------------------------------------------------------------------------------------------------

MODULE = """
from stepward.vm import Program
print("imported")
DATA = {"name": "data", "inputs": {}, "steps": [{"id": "a", "type": "llm", "prompt": "x", "next_step": "gone"}]}
PROGRAM = Program.from_dict(DATA)
NUMBER = 3
class Built:
    def model_dump(self, mode, exclude_unset):
        return DATA if exclude_unset and mode == "json" else {}
BUILT = Built()
def build():
    return BUILT
class Box:
    inner = {"steps": 3}
def make():
    return DATA
def fails():
    raise SystemExit("no")
"""


@pytest.fixture
def _module(in_own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    put("flows_of_mine.py", MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("flows_of_mine", None)


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize("name", ["DATA", "PROGRAM", "make", "BUILT", "build"])
def test_an_object_is_imported_and_checked(name: str) -> None:
    result = check(f"--object=flows_of_mine:{name}", "--output-format=concise")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"flows_of_mine:{name}:steps[0].next_step: error SW101 ")
    assert "imported" not in result.stdout


@pytest.mark.usefixtures("_module")
def test_an_object_that_is_no_program_has_findings_with_its_places() -> None:
    result = check("--object=flows_of_mine:Box.inner", "--output-format=concise")
    assert result.stdout.startswith("flows_of_mine:Box.inner:steps: error SW002 ")


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("flows_of_mine:PROGAM", "did you mean `PROGRAM`?"),
        ("flows_of_mine:NUMBER", "`flows_of_mine:NUMBER` is not a program"),
        ("flows_of_mine:fails", "SystemExit: no"),
        ("nothing_like_it:x", "ModuleNotFoundError"),
        ("flows_of_mine", "does not name an object"),
        (":x", "does not name an object"),
    ],
)
def test_an_object_that_can_not_be_had_exits_with_2(name: str, says: str) -> None:
    result = check(f"--object={name}")
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.usefixtures("_module")
def test_objects_and_paths_are_checked_in_one_run() -> None:
    put("good.yaml", GOOD)
    result = check("--object=flows_of_mine:DATA", "good.yaml")
    assert result.stdout.endswith("1 error in 1 of 2 programs\n")


def test_a_program_loaded_from_a_file_keeps_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    put("bad.yaml", BAD)
    put("loads_it.py", "from stepward.vm import Program\nP = Program.load('bad.yaml')\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert " --> bad.yaml:4:46\n" in check("--object=loads_it:P").stdout
