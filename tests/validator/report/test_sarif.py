"""SARIF, against its published schema and a foreign validator, place by place."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from sarif_kit.validate import validation_errors

from commands import WARNS, check
from findings import HOSTILE, TWO, finding, result, run_of
from paths import BAD
from stepward.validator.findings import Label
from stepward.validator.report import sarif
from stepward.vm.reading.source import Place, Span


@pytest.mark.slow
def test_the_sarif_of_the_bad_programs_keeps_to_the_published_schema(bad: Path, found: list[dict[str, Any]]) -> None:
    run = run_of((bad / "sarif").read_text())
    told = [entry for entry in run["results"] if not entry["suppressions"]]
    assert [entry["ruleId"] for entry in told] == [entry["code"] for entry in found]
    assert {entry["level"] for entry in told} == {"error", "warning"}
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[entry["ruleIndex"]]["id"] == entry["ruleId"] for entry in run["results"])
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]


@pytest.mark.slow
def test_the_schema_finds_what_is_no_sarif(bad: Path) -> None:
    log = json.loads((bad / "sarif").read_text())
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert validation_errors(log)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sarif-multitool") is None, reason="needs Microsoft's sarif-multitool on the PATH")
def test_the_sarif_of_the_bad_programs_passes_a_foreign_validator(bad: Path, tmp_path: Path) -> None:
    """It is an npm package: `npm install --global @microsoft/sarif-multitool-linux`, and a link to what is in it."""
    output = tmp_path / "validated.sarif"
    log = tmp_path / "bad.sarif"
    shutil.copy(bad / "sarif", log)
    command = ["sarif-multitool", "validate", str(log), "--output", str(output), "--level", "Error;Warning"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    complaints = [entry["ruleId"] for entry in json.loads(output.read_text("utf-8-sig"))["runs"][0]["results"]]
    assert complaints == ["SARIF2005"], "the home page of the project, which it has not"


def text_at(place: dict[str, Any], folder: Path) -> str:
    """Return what stands where a location points to, read as SARIF says: code points, 1-based, the end left out."""
    physical = place["physicalLocation"]
    region, artifact = physical["region"], physical["artifactLocation"]
    assert artifact["uriBaseId"] == "%SRCROOT%"
    assert not urlsplit(artifact["uri"]).scheme
    content = (folder / unquote(artifact["uri"])).read_bytes().decode("utf-8-sig", "replace")
    lines = re.split("\r\n|\n", content)[region["startLine"] - 1 : region["endLine"]]
    assert region["startLine"] == region["endLine"], "a finding points at a stretch of one line"
    assert 1 <= region["startColumn"] <= region["endColumn"] <= len(lines[0]) + 1
    return lines[0][region["startColumn"] - 1 : region["endColumn"] - 1]


@pytest.mark.slow
def test_every_place_is_in_its_file_and_every_step_of_a_path_at_its_id(bad: Path) -> None:
    flows = 0
    for entry in run_of((bad / "sarif").read_text())["results"]:
        for place in [*entry["locations"], *entry.get("relatedLocations", ())]:
            text_at(place, BAD)
        for flow in entry.get("codeFlows", ()):
            flows += 1
            for step in flow["threadFlows"][0]["locations"]:
                name = step["location"]["logicalLocations"][0]["name"]
                named = name.split()[0].rpartition("/")[
                    2
                ]  # a stage stands at its step, a step of a call in its program
                assert text_at(step["location"], BAD).strip("\"'") == named
                assert step["location"]["message"]["text"].startswith(f"{name} ")
    assert flows > 20


def test_a_path_says_with_which_values_it_is_gone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(BAD)
        run = run_of(check("--isolated", "--output-format=sarif", "SW401/claim-off-by-one.yaml").stdout)
    (flow,) = [flow for entry in run["results"] for flow in entry.get("codeFlows", ())]
    assert flow["message"]["text"] == "with amount = 500, claim.open = true"
    steps = [step["location"]["message"]["text"] for step in flow["threadFlows"][0]["locations"]]
    assert (steps[0], steps[-1]) == ("size takes otherwise", "large starts")


def test_columns_count_code_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a b%20#ü:日.yaml"
    Path(name).write_bytes(b"\xef\xbb\xbf" + TWO.replace("prompt: x", "prompt: 😀日").replace("\n", "\r\n").encode())
    run = run_of(check("--isolated", "--output-format=sarif").stdout)
    assert run["columnKind"] == "unicodeCodePoints"
    assert [text_at(entry["locations"][0], tmp_path) for entry in run["results"]] == ["gone", "gone"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].isascii()


def test_a_file_elsewhere_has_a_whole_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "two.yaml").write_text(TWO)
    monkeypatch.chdir(tmp_path / "here")
    (entry, _) = run_of(check("--isolated", "--output-format=sarif", "../two.yaml").stdout)["results"]
    artifact = entry["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": (tmp_path / "two.yaml").as_uri()}


def test_a_program_without_text_has_a_place_in_its_data() -> None:
    told = finding(span=None, file="shop:REFUND", step="a", related=(Label(Place(("steps", 1)), "here"),))
    (entry,) = run_of(sarif.render(result(told)))["results"]
    name = "shop:REFUND/steps[0].next_step"
    assert entry["locations"] == [{"logicalLocations": [{"name": "a", "kind": "object", "fullyQualifiedName": name}]}]


def test_fingerprints_outlive_other_lines_and_tell_twins_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("two.yaml")

    def marks() -> list[str]:
        run = run_of(check("--isolated", "--output-format=sarif").stdout)
        return [entry["partialFingerprints"]["stepward/v1"] for entry in run["results"]]

    path.write_text(TWO)
    before = marks()
    path.write_text("# a comment\n\n" + TWO)
    assert marks() == before
    path.write_text(TWO.replace("gone}", "away}", 1))
    assert [mark == old for mark, old in zip(marks(), before, strict=True)] == [False, True]
    twins = [finding(), finding(span=Span(9, 1, 9, 2))]
    entries = run_of(sarif.render(result(*twins)))["results"]
    assert len({entry["partialFingerprints"]["stepward/v1"] for entry in entries}) == 2


def test_what_is_silenced_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO.replace("gone}\n", "gone}  # stepward: ignore[SW101] it comes later\n", 1))
    Path("warns.yaml").write_text(WARNS)
    Path("stepward.toml").write_text(
        '[[per-file-ignores]]\nfiles = "warns.yaml"\ncodes = ["SW108"]\nreason = "until the desk opens"\n'
    )
    assert check("--write-baseline=base.json", "two.yaml").exit_code == 0
    run = run_of(check("--baseline=base.json", "--output-format=sarif").stdout)
    told = {(one["justification"], one["kind"]) for entry in run["results"] for one in entry["suppressions"]}
    assert told == {
        ("it comes later", "inSource"),
        ("until the desk opens", "external"),
        ("the baseline lists it", "external"),
    }
    assert len(run["results"]) == 3
    Path("two.yaml").write_text(TWO)
    run = run_of(check("--isolated", "--output-format=sarif", "two.yaml").stdout)
    assert ["suppressions" in entry for entry in run["results"]] == [False, False]
    run = run_of(check("--baseline=base.json", "--output-format=sarif").stdout)
    assert all("suppressions" in entry for entry in run["results"]), "either all or none"


WAIVING = """\
policy: desk
guardrails:
  - {name: no-mails, never: {tool: mail}}
waivers:
  - {program: mails, rule: no-mails, reason: the old desk still writes, expiry: "2999-01-01"}
"""
MAILS = """\
name: mails
tools: {mail: {effect: write, idempotent: true}}
steps:
  - {id: write, type: tool, tool: mail}
"""


def test_what_a_policy_waives_is_told_with_its_reason_also_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mails.yaml").write_text(MAILS)
    Path("desk.policy").write_text(WAIVING)
    texts = [check("--policy=desk.policy", "--output-format=sarif").stdout for _ in range(2)]
    assert texts[0] == texts[1]
    (entry,) = run_of(texts[0])["results"]
    assert (entry["ruleId"], entry["level"]) == ("SW403", "error")
    assert text_at(entry["locations"][0], tmp_path) == "write"
    reason = "the old desk still writes (until 2999-01-01)"
    assert entry["suppressions"] == [{"kind": "external", "status": "accepted", "justification": reason}]
    Path("desk.policy").write_text(WAIVING.replace("2999", "2001"))
    late = check("--policy=desk.policy", "--output-format=sarif", "--select=SW1")
    (entry,) = run_of(late.stdout)["results"]
    assert late.exit_code == 1
    assert "suppressions" not in entry


@pytest.mark.parametrize("format", ["full", "concise", "json", "github", "gitlab", "junit"])
def test_what_is_waived_is_open_nowhere(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mails.yaml").write_text(MAILS)
    Path("desk.policy").write_text(WAIVING)
    waived = check("--policy=desk.policy", f"--output-format={format}")
    assert waived.exit_code == 0
    assert "SW403" not in waived.stdout
    if format in ("full", "concise", "github"):
        assert "1 program: no findings (1 finding waived by a policy; see `--statistics`)\n" in waived.stdout


def test_what_the_run_met_besides_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    check("--write-baseline=base.json")
    Path("two.yaml").write_text(TWO.replace("gone", "b").replace("b}\n", "b}\n", 1).replace("next_step: b}", "}", 2))
    Path("built.py").write_text('steps = []\nProgram.from_dict({"name": "x", "steps": steps})\n')
    run = run_of(check("--baseline=base.json", "--output-format=sarif").stdout)
    assert "SW704" in [one["ruleId"] for one in run["results"]]
    (invocation,) = run["invocations"]
    assert (
        "put together when the code runs: built.py:2" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    )
    Path("broken.policy.yaml").write_text("policy: [\n")
    stopped = check("--policy=broken.policy.yaml", "--output-format=sarif")
    (invocation,) = run_of(stopped.stdout)["invocations"]
    (why,) = invocation.pop("toolConfigurationNotifications")
    assert (stopped.exit_code, invocation) == (2, {"executionSuccessful": False, "exitCode": 2})
    assert why == {"level": "error", "message": {"text": "a policy can't be used, so nothing was checked"}}


def test_messages_hold_no_placeholder_and_no_link() -> None:
    (entry,) = run_of(sarif.render(result(finding(message=HOSTILE))))["results"]
    assert "{{0}} \\[x](1)" in entry["message"]["text"]
    (entry,) = run_of(sarif.render(result(finding(message="write `{tool: a}` in ['b']"))))["results"]
    assert entry["message"]["text"].startswith("write `{tool: a}` in ['b']\n")
