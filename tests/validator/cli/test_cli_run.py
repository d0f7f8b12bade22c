"""Fast: what a run says of the whole: policies, ignores that silence nothing, baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from commands import WARNS, put
from commands import check as check_full
from stepward.validator.cli import main

pytestmark = pytest.mark.usefixtures("in_own_folder")

PAYS = """\
name: pays
inputs: {}
tools: {pay: {effect: write, idempotent: true}, check: {effect: read}}
steps:
  - {id: c, type: tool, tool: check, on_error: skip}
  - {id: p, type: tool, tool: pay}
"""
POLICY = """\
policy: money
guardrails:
  - {name: checked, protects: {tool: pay}, requires: {tool: check}}
  - name: no-wipe
    protects: {tool: wipe}
    requires: {tool: back_up}
  - {name: never-at-all, never: {tool: explode}}
  - {name: never-when, never: {tool: launch}, when: "1 > 0"}
"""


def check(*arguments: str) -> Result:
    return check_full("--output-format=concise", *arguments)


def told(result: Result, *codes: str) -> list[str]:
    """Return the lines of the findings that have one of the codes."""
    return [line for line in result.stdout.splitlines() if any(f" {code} [" in line for code in codes)]


# -- policies ----------------------------------------------------------------------------------------------------------


def test_a_policy_is_held_and_its_findings_can_not_be_lifted() -> None:
    put("money.yaml", POLICY.split("  - name", maxsplit=1)[0])
    put("flows/p.yaml", PAYS.replace("tool: pay}", "tool: pay}  # stepward: ignore[SW401] trust me"))
    put("stepward.toml", 'policies = ["money.yaml"]\nignore = ["SW4"]\n[[per-file-ignores]]\nfiles = "flows/"\n'
                         'codes = ["SW401"]\nreason = "x"\n')  # fmt: skip
    for arguments in ([], ["--ignore=SW401"], ["--select=SW1"], ["--write-baseline=b.json"], ["--baseline=b.json"]):
        result = check(*arguments)
        assert result.exit_code == 1
        assert len(told(result, "SW401")) == 1, arguments
    messages = [line.split("] ", 1)[1] for line in told(check(), "SW701")]
    assert messages == [
        "`SW401` comes from the policy `money/checked` here and can't be silenced",
        "`SW401` in `flows/p.yaml` comes from the policy `money/checked` and can't be silenced",
    ]
    assert json.loads(Path("b.json").read_text())["findings"] == []


def test_what_keeps_a_policy_from_being_judged_can_not_be_lifted_either() -> None:
    put("money.yaml", POLICY)
    put("p.yaml", PAYS.replace("tool: pay}", "tool: pay, next_step: gone}  # stepward: ignore[SW101] later"))
    assert check("p.yaml").exit_code == 0
    assert check("p.yaml", "--ignore=SW101").exit_code == 0
    for arguments in ([], ["--ignore=SW101"], ["--select=SW108"], ["--write-baseline=b.json"]):
        result = check("p.yaml", "--policy=money.yaml", *arguments)
        assert (result.exit_code, len(told(result, "SW101"))) == (1, 1)
    (complaint,) = told(check("p.yaml", "--policy=money.yaml"), "SW701")
    assert "can't be silenced where a policy is in force" in complaint
    put("p.yaml", PAYS.replace("tool: pay}", "tool: pay, extra: 1}"))
    assert check("p.yaml", "--policy=money.yaml", "--ignore=SW002").exit_code == 1


def test_policies_of_the_command_line_come_on_top_of_the_configured() -> None:
    put("one.yaml", "policy: one\nguardrails: [{name: checked, protects: {tool: pay}, requires: {tool: check}}]\n")
    put("two.yaml", "policy: two\nguardrails: [{name: never, never: {tool: pay}}]\n")
    put("sub/stepward.toml", 'policies = ["../one.yaml"]')
    put("sub/p.yaml", PAYS)
    assert len(told(check("sub/p.yaml"), "SW401", "SW403")) == 1
    assert len(told(check("sub/p.yaml", "--policy=two.yaml"), "SW401", "SW403")) == 2
    assert len(told(check("sub/p.yaml", "--policy=two.yaml", "--policy=two.yaml"), "SW403")) == 1
    assert told(check("sub/p.yaml", "--isolated"), "SW401", "SW403") == []


@pytest.mark.parametrize(("name", "text"), [("stepward.toml", "policies = []"), ("pyproject.toml", "[tool.stepward]")])
def test_a_nearer_configuration_drops_no_policy_of_check_run_and_object(name: str, text: str) -> None:
    put("money.yaml", "policy: money\nguardrails: [{name: never, never: {tool: pay}}]\n")
    put("stepward.toml", 'policies = ["money.yaml"]')
    put(f"team/{name}", text)
    put("team/p.yaml", PAYS)
    put("team/here.py", "from stepward.vm import Program\ndef made(): return Program.load('team/p.yaml')\n")
    put("tools.py", "def pay(**args): ...\n")
    assert len(told(check("team"), "SW403")) == 1
    assert len(told(check("--object", "team.here:made"), "SW403")) == 1
    refused = CliRunner().invoke(main, ["run", "team/p.yaml", "--tools", "tools.py"])
    assert (refused.exit_code, "SW403" in refused.output) == (2, True)


def test_two_policies_of_one_name_are_refused_because_they_would_share_their_waivers() -> None:
    put("money.yaml", "policy: money\nguardrails: [{name: never, never: {tool: pay}}]\n")
    put("stepward.toml", 'policies = ["money.yaml"]')
    waiver = "{program: p, rule: never, reason: mine, expiry: 2999-01-01}"
    put(
        "team/mine.yaml", f"policy: money\nguardrails: [{{name: never, never: {{tool: nothing}}}}]\nwaivers: [{waiver}]"
    )
    put("team/stepward.toml", 'policies = ["mine.yaml", "../money.yaml"]')
    put("team/p.yaml", PAYS)
    result = check("team")
    assert result.exit_code == 2
    assert "`money.yaml` and `team/mine.yaml` are two policies with the name `money`" in result.stderr
    put("team/mine.yaml", Path("team/mine.yaml").read_text().replace("policy: money", "policy: mine"))
    assert len(told(check("team"), "SW403")) == 1


WAIVES = "policy: money\nguardrails: [{name: never, never: {tool: pay}}]\nwaivers:\n  - "
WAIVER = "{program: pays, rule: never, reason: old, expiry: 2999-01-01}"


def shared(*arguments: str) -> list[str]:
    """Return what a check says twice about shared waivers, once without a cache and once with it."""
    first, second = (told(check(*arguments), "SW005") for _ in range(2))
    assert first == second
    return first


def test_a_second_program_of_the_same_name_does_not_take_a_waiver_unnoticed() -> None:
    put("money.yaml", WAIVES + WAIVER)
    put("stepward.toml", 'policies = ["money.yaml"]\nignore = ["SW0"]')
    put("a.yaml", PAYS)
    assert check().exit_code == 0
    put("b.yaml", PAYS.replace("tool: check", "tool: check, output_key: x"))
    for arguments in ([], ["a.yaml", "b.yaml"], ["--write-baseline=known.json"]):
        (line,) = shared(*arguments)
        assert line.startswith("money.yaml:4:15: error")
        assert line.endswith("the waiver counts for 2 programs: `pays` is a name of each, in `a.yaml` and `b.yaml`")
        assert check(*arguments).exit_code == 1
    assert shared("b.yaml") == []
    put("b.yaml", f"{PAYS}---\n{PAYS}".replace("name: pays", "name: two"))
    assert shared() == []
    put("money.yaml", WAIVES + WAIVER.replace("pays", "two"))
    assert len(shared("b.yaml")) == 1


def test_a_waiver_that_only_one_program_can_use_is_not_shared() -> None:
    put("a.yaml", PAYS)
    put("desk/b.yaml", PAYS)
    put("money.yaml", WAIVES + WAIVER.replace("2999", "2020"))
    assert shared("--policy=money.yaml") == []
    put("money.yaml", "applies_to: ['desk/*']\n" + WAIVES + WAIVER)
    assert shared("--policy=money.yaml") == []
    put("money.yaml", "applies_to: ['*.yaml']\n" + WAIVES + WAIVER)
    assert len(shared("--policy=money.yaml")) == 1


def test_a_policy_applies_by_the_path_wherever_the_command_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    put("money.yaml", "policy: m\napplies_to: ['flows/team/*']\nguardrails: [{name: n, never: {tool: pay}}]\n")
    put("flows/team/p.yaml", PAYS)
    put("flows/p.yaml", PAYS)
    assert len(told(check("--policy=money.yaml"), "SW403")) == 1
    monkeypatch.chdir("flows/team")
    assert len(told(check("--policy=../../money.yaml"), "SW403")) == 1


def test_a_rule_that_protects_nothing_in_the_run_is_vacuous_at_its_place_in_the_policy() -> None:
    put("rules/money.yaml", POLICY)
    put("flows/p.yaml", PAYS.replace("skip", "retry"))
    result = check("flows", "--policy=rules/money.yaml")
    assert [line.split(" error ")[0] for line in told(result, "SW407")] == [
        "rules/money.yaml:4:11:",
        "rules/money.yaml:8:12:",
    ]
    assert result.exit_code == 1
    assert len(told(check("flows", "--policy=rules/money.yaml", "--ignore=SW407"), "SW407")) == 2


def test_a_configured_policy_is_named_from_the_current_folder() -> None:
    put("rules/money.yaml", POLICY)
    put("flows/p.yaml", PAYS.replace("skip", "retry"))
    put("stepward.toml", 'policies = ["rules/money.yaml"]')
    assert told(check(), "SW407")[0].startswith("rules/money.yaml:4:11: ")


def test_of_a_run_over_single_files_nothing_is_said_about_vacuous_rules() -> None:
    put("money.yaml", POLICY)
    put("flows/p.yaml", PAYS.replace("skip", "retry"))
    assert check("flows/p.yaml", "--policy=money.yaml").exit_code == 0
    put("flows/broken.yaml", "steps: 3\n")  # what it would do is not known
    assert told(check("flows", "--policy=money.yaml"), "SW407") == []


def test_a_rule_is_not_vacuous_when_any_program_of_the_run_has_what_it_protects() -> None:
    put("money.yaml", "policy: m\nguardrails: [{name: once, at_most_once: {tool: pay}}]\n")
    put("flows/a.yaml", PAYS)
    put("flows/b.yaml", WARNS)
    assert told(check("flows", "--policy=money.yaml"), "SW407") == []
    assert len(told(check("flows/b.yaml", ".", "--policy=money.yaml"), "SW407")) == 0


def test_a_policy_that_is_none_is_shown_like_a_finding_and_exits_with_2() -> None:
    put("p.yaml", PAYS)
    for text, place in (("policy: m\nguardrail: []\n", "2:1"), ("policy: [\n", "2:1"), ("a: 1\n---\nb: 2\n", "")):
        put("money.yaml", text)
        result = check("p.yaml", "--policy=money.yaml", "--exit-zero")
        assert result.exit_code == 2
        assert result.stdout.startswith(f"money.yaml{':' + place if place else ''}: error SW00")
        assert "nothing was checked" in result.stderr
    data = json.loads(
        CliRunner().invoke(main, ["check", "p.yaml", "--policy=money.yaml", "--output-format=json"]).stdout
    )
    assert data["findings"][0]["file"] == "money.yaml"


# -- ignores -----------------------------------------------------------------------------------------------------------


def test_a_comment_silences_and_an_idle_one_is_reported() -> None:
    comment = "# stepward: ignore[SW108] both ways are the same until May"
    put("a.yaml", WARNS.replace("otherwise: e}", f"otherwise: e}}  {comment}"))
    assert check("a.yaml", "--fail-on=warning").exit_code == 0
    put("a.yaml", WARNS.replace("type: end}", f"type: end}}  {comment}"))
    result = check("a.yaml", "--fail-on=warning")
    assert (len(told(result, "SW108")), len(told(result, "SW701"))) == (1, 1)
    assert told(check("a.yaml", "--ignore=SW701"), "SW701") == []
    assert told(check("a.yaml", "--select=SW701"), "SW108") == []


def test_a_comment_is_not_idle_because_its_code_is_deselected() -> None:
    put("a.yaml", WARNS.replace("otherwise: e}", "otherwise: e}  # stepward: ignore[SW108] until May"))
    assert told(check("a.yaml", "--select=SW4,SW701"), "SW701") == []


def test_comments_in_python_silence_too() -> None:
    put(
        "a.py",
        """\
P = Program.from_dict({
    "name": "p", "inputs": {"x": {"type": "number"}},
    "steps": [
        # stepward: ignore[SW108] both ways are the same until May
        {"id": "c", "type": "condition", "condition": "$x > 5", "then": "e", "otherwise": "e"},
        {"id": "e", "type": "end"},
    ],
})
""",
    )
    assert check("a.py", "--fail-on=warning").exit_code == 0


def test_per_file_ignores_silence_in_their_files() -> None:
    for name in ("old/a.yaml", "new/a.yaml"):
        put(name, WARNS)
    put(
        "stepward.toml",
        '[[per-file-ignores]]\nfiles = ["old/", "*.draft.yaml"]\ncodes = ["SW108"]\nreason = "imported"\n',
    )
    assert [line.split(":")[0] for line in told(check(), "SW108", "SW701")] == ["new/a.yaml"]


def test_per_file_ignores_do_not_silence_idle_ignores() -> None:
    put("a.yaml", WARNS + "# stepward: ignore[SW102] old\n")
    put("stepward.toml", '[[per-file-ignores]]\nfiles = "*"\ncodes = ["SW7"]\nreason = "x"\n')
    assert [line.split(":")[0] for line in told(check(), "SW701")] == ["a.yaml", "stepward.toml"]


def test_per_file_ignores_that_silence_nothing_are_reported_where_they_stand() -> None:
    put("a.yaml", WARNS)
    entry = '[[per-file-ignores]]\nfiles = "{}"\ncodes = ["{}"]\nreason = "x"\n'
    put(
        "stepward.toml",
        "\n".join(entry.format(*pair) for pair in [("a.yaml", "SW108"), ("a.yaml", "SW3"), ("b.yaml", "SW3")]),
    )
    (line,) = told(check(), "SW701")
    assert line.startswith("stepward.toml:6:1: warning ")
    assert "for `a.yaml` suppresses nothing" in line
    assert told(check("a.yaml"), "SW701") == []
    assert "[[per-file-ignores]]\n" in CliRunner().invoke(main, ["check"]).stdout


# -- excludes ----------------------------------------------------------------------------------------------------------


def test_named_paths_that_the_configuration_excludes_are_counted_and_listed() -> None:
    put("stepward.toml", 'extend-exclude = ["vendor/"]')
    put("vendor/a.yaml", WARNS)
    put("b.yaml", PAYS)
    result = check("vendor/a.yaml", "b.yaml", "vendor")
    assert result.stdout == "1 program: no findings (2 named paths excluded by the configuration; see `--statistics`)\n"
    assert "excluded: vendor/a.yaml\n" in CliRunner().invoke(main, ["check", "vendor/a.yaml", "--statistics"]).stdout
    alone = check("vendor/a.yaml")
    assert (alone.exit_code, "the configuration excludes `vendor/a.yaml`" in alone.stderr) == (3, True)
    assert check("vendor/a.yaml", "--skip-non-programs").exit_code == 0  # as the pre-commit hook does


# -- baselines ---------------------------------------------------------------------------------------------------------


def test_a_baseline_hides_what_was_there_and_nothing_new() -> None:
    put("a.yaml", WARNS)
    first = check("--write-baseline=known.json", "--fail-on=warning")
    assert (first.exit_code, first.stdout) == (0, "1 program: no findings (1 finding hidden by the baseline)\n")
    put("a.yaml", "# a line more\n" + WARNS)
    assert check("--baseline=known.json", "--fail-on=warning").exit_code == 0
    put("b.yaml", WARNS)
    assert [line.split(":")[0] for line in told(check("--baseline=known.json"), "SW108")] == ["b.yaml"]


def test_a_configured_baseline_is_found_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    put("gate/known.json", "")
    put("flows/a.yaml", WARNS)
    assert check("--write-baseline=gate/known.json").exit_code == 0
    put("stepward.toml", 'baseline = "gate/known.json"\nfail-on = "warning"\n')
    assert check().exit_code == 0
    monkeypatch.chdir("flows")
    assert check("a.yaml").exit_code == 0
    assert check("a.yaml", "--isolated", "--fail-on=warning").exit_code == 1


def test_stale_entries_are_a_warning_at_the_baseline_and_in_json_and_statistics() -> None:
    put("a.yaml", WARNS)
    put("b.yaml", WARNS)
    check("--write-baseline=known.json")
    put("a.yaml", WARNS.replace("otherwise: e", "otherwise: f") + "  - {id: f, type: end}\n")
    result = check("--baseline=known.json")
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = told(result, "SW704")
    assert line.startswith("known.json:5:15: warning ")
    assert line.endswith("1 entry matches no finding any more: SW108 in `a.yaml`")
    assert "1 warning in `known.json`, none in the 2 programs (" in result.stdout
    assert "1 finding hidden by the baseline; 1 stale baseline entry; see" in result.stdout
    assert check("--baseline=known.json", "--fail-on=warning").exit_code == 1
    assert check("--baseline=known.json", "--fail-on=warning", "--ignore=SW704").exit_code == 0
    listed = CliRunner().invoke(main, ["check", "--baseline=known.json", "--statistics"]).stdout
    assert "stale: SW108 in a.yaml, known.json lists it: " in listed
    annotated = CliRunner().invoke(main, ["check", "--baseline=known.json", "--output-format=github"]).stdout
    assert "::warning file=known.json,line=5" in annotated
    data = json.loads(CliRunner().invoke(main, ["check", "--baseline=known.json", "--output-format=json"]).stdout)
    (entry,) = data["summary"]["stale_baseline"]
    assert (entry["baseline"], entry["file"], entry["code"], entry["count"]) == ("known.json", "a.yaml", "SW108", 1)


def test_entries_for_files_that_the_run_did_not_see_are_not_stale() -> None:
    put("a.yaml", WARNS)
    put("b.yaml", WARNS)
    check("--write-baseline=known.json")
    assert told(check("b.yaml", "--baseline=known.json"), "SW704") == []
    Path("a.yaml").unlink()
    assert told(check("b.yaml", "--baseline=known.json"), "SW704") == []
    assert "`a.yaml`" in told(check(".", "--baseline=known.json"), "SW704")[0]


def test_entries_for_a_file_that_can_not_be_judged_are_not_stale() -> None:
    put("a.yaml", WARNS)
    check("--write-baseline=known.json")
    put("a.yaml", WARNS.replace("type: end", "type: ending"))
    assert told(check("--baseline=known.json"), "SW704") == []


def test_writing_a_baseline_starts_from_nothing() -> None:
    put("a.yaml", WARNS)
    put("stepward.toml", 'baseline = "known.json"\n')
    check("--write-baseline=known.json")
    before = Path("known.json").read_text()
    check("--write-baseline=known.json")
    assert Path("known.json").read_text() == before


def test_the_baseline_does_not_list_idle_ignores() -> None:
    put("a.yaml", WARNS + "# stepward: ignore[SW102] old\n")
    check("--write-baseline=known.json")
    assert [entry["code"] for entry in json.loads(Path("known.json").read_text())["findings"]] == ["SW108"]
    assert len(told(check("--baseline=known.json"), "SW701")) == 1
