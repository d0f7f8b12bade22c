"""The formats for other programs, each read by one that is not ours: a published schema, a reader, a runner's rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from jsonschema import Draft202012Validator
from junitparser import Failure, JUnitXml
from sarif_kit.validate import validation_errors

from commands import WARNS, check
from layers import impatient
from paths import BAD, ROOT
from stepward.validator.engine.witnesses.witness import Claim, Witness
from stepward.validator.findings import Evidence, Finding, Label, Move, Severity
from stepward.validator.report import FORMATS, OUTPUTS, github, gitlab, junit, sarif
from stepward.validator.result import RunResult
from stepward.vm import Program
from stepward.vm.reading.source import Place, Span

HOSTILE = "100% :: a,b: \r\n{0} [x](1) <&>]]> \x00\x1b \u202e \ud800 \uffff"
"""Signs that mean something to one of the formats, or that it has no way to write."""

TWO = """\
name: two
inputs: {amount: {type: number}}
steps:
  - {id: a, type: condition, condition: $amount > 5, then: b, otherwise: gone}
  - {id: b, type: llm, prompt: x, next_step: gone}
"""


def finding(**fields: Any) -> Finding:
    given: dict[str, Any] = {
        "code": "SW101",
        "name": "missing-target",
        "severity": Severity.ERROR,
        "message": "there is no step `gone`",
        "help": "add it",
        "place": Place(("steps", 0, "next_step")),
        "file": "p.yaml",
        "span": Span(4, 44, 4, 48),
    }
    return Finding(**{**given, **fields})


def result(*findings: Finding, **fields: Any) -> RunResult:
    return RunResult(findings, **{"failing": frozenset(findings), "programs": 1, **fields})


def run_of(text: str) -> dict[str, Any]:
    log = json.loads(text)
    assert validation_errors(log) == []
    (run,) = log["runs"]
    return dict(run)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bad programs in every format, all written in one run."""
    folder = tmp_path_factory.mktemp("formats")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(BAD)
        impatient(patch)
        outputs = [f"--{name}-output={folder / name}" for name in OUTPUTS]
        written = check("--isolated", "--output-format=github", f"--output-file={folder / 'github'}", *outputs)
    assert (written.exit_code, written.output) == (1, "")
    return folder


@pytest.fixture(scope="module")
def found(bad: Path) -> list[dict[str, Any]]:
    """The findings on the bad programs, as the JSON has them."""
    return list(json.loads((bad / "json").read_text())["findings"])


def test_the_page_of_the_command_names_every_format() -> None:
    page = (ROOT / "specs/command.md").read_text(encoding="utf-8")
    texts = [name for name, format in FORMATS.items() if format.is_text]
    others = [name for name in FORMATS if name not in texts]
    (row,) = re.findall(r"^\| `--output-format FORMAT` \| (.*) \|$", page, flags=re.M)
    assert re.findall(r"`(\w+)`", row) == [*texts, *others]
    (row,) = re.findall(r"^\| (`--json-output FILE`.*) \| write this format there", page, flags=re.M)
    assert re.findall(r"--(\w+)-output", row) == list(OUTPUTS)
    section = page.split("### Formats for other programs", 1)[1].split("\n### ", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", section, flags=re.M) == others


# -- SARIF -------------------------------------------------------------------------------------------------------------


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
                assert text_at(step["location"], BAD).strip("\"'") == name
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
        assert "1 program: no findings (1 finding waived by a policy)\n" in waived.stdout


def test_what_the_run_met_besides_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    check("--write-baseline=base.json")
    Path("two.yaml").write_text(TWO.replace("gone", "b").replace("b}\n", "b}\n", 1).replace("next_step: b}", "}", 2))
    Path("built.py").write_text('steps = []\nProgram.from_dict({"name": "x", "steps": steps})\n')
    (invocation,) = run_of(check("--baseline=base.json", "--output-format=sarif").stdout)["invocations"]
    assert "lists what is no longer there" in invocation["toolConfigurationNotifications"][0]["message"]["text"]
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


# -- nothing decided ---------------------------------------------------------------------------------------------------

UNUSABLE = {
    "configuration": ([], "unknown key `selct`"),
    "policy file": (["--isolated", "--policy=none.policy"], "the policy `none.policy` can't be read"),
    "target": (["--isolated", "none"], "`none` can't be checked"),
    "policy": (["--isolated", "--policy=broken.policy"], "a policy can't be used"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_every_report_says_that_nothing_was_decided_and_why(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    Path("stepward.toml").write_text('selct = ["SW1"]\n')
    Path("broken.policy").write_text("policy: [\n")
    arguments, why = UNUSABLE[case]
    for name in ("text", *OUTPUTS):
        Path(name).write_text("of an earlier run, in which all was well")
    outputs = [f"--{name}-output={name}" for name in OUTPUTS]
    stopped = check(*arguments, "--output-file=text", *outputs)
    assert (stopped.exit_code, stopped.stdout) == (2, "")
    assert why in stopped.stderr
    assert f"nothing was decided: {why}" in Path("text").read_text().replace("`stepward.toml`: ", "")
    assert why in json.loads(Path("json").read_text())["error"]["message"]
    (invocation,) = run_of(Path("sarif").read_text())["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    assert why in invocation["toolConfigurationNotifications"][0]["message"]["text"]
    issues = json.loads(Path("gitlab").read_text())
    Draft202012Validator(ISSUES).validate(issues)
    assert why in issues[-1]["description"]
    suites = JUnitXml.fromfile("junit")
    assert suites.errors == 1
    assert why in Path("junit").read_text()


def test_an_annotation_says_that_nothing_was_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stopped = check("--isolated", "--output-format=github", "no, such: %\nfile")
    line, summary = stopped.stdout.splitlines()
    assert read_command(line)[:2] == ("error", {"title": "stepward"})
    assert "`no, such: %\nfile` can't be checked" in read_command(line)[2]
    assert (stopped.exit_code, summary.startswith("nothing was decided")) == (2, True)


def test_where_a_report_can_not_be_written_either_the_first_trouble_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stopped = check("--isolated", "--sarif-output=no/folder", "none")
    assert (stopped.exit_code, stopped.stdout) == (2, "")
    assert "`none` can't be checked" in stopped.stderr
    diff = check("--isolated", "--diff", "--output-format=json", "none")
    assert (diff.exit_code, diff.stdout) == (2, "")


# -- GitHub ------------------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"::(?P<command>\w+)(?: (?P<properties>[^\r\n]*?))?::(?P<data>[^\r\n]*)")


def read_command(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as the runner does: properties up to the first `::`, then the data."""
    match = COMMAND.fullmatch(line)
    assert match is not None, line
    properties = dict(pair.split("=", 1) for pair in match["properties"].split(","))

    def decoded(text: str, codes: dict[str, str]) -> str:
        return re.sub("%[0-9A-F]{2}", lambda code: codes[code[0]], text)

    codes = {"%25": "%", "%0D": "\r", "%0A": "\n"}
    both = codes | {"%3A": ":", "%2C": ","}
    return match["command"], {name: decoded(text, both) for name, text in properties.items()}, decoded(match[3], codes)


@pytest.mark.slow
def test_every_finding_on_the_bad_programs_is_a_command(bad: Path, found: list[dict[str, Any]]) -> None:
    *lines, summary = (bad / "github").read_text().splitlines()
    commands = [read_command(line) for line in lines]
    told = Counter((command, where["title"].split()[0], where["file"]) for command, where, _ in commands)
    assert told == Counter((entry["severity"], entry["code"], entry["file"]) for entry in found)
    assert not summary.startswith("::")
    assert [command for command, _, _ in commands] == sorted(command for command, _, _ in commands), "errors first"


def test_a_command_says_where() -> None:
    told = [finding(), finding(span=Span(4, 1, 5, 2)), finding(span=None)]
    lines = github.render(result(*told)).splitlines()[:-1]
    title = "SW101 missing-target"
    assert [read_command(line)[1] for line in lines] == [
        {"file": "p.yaml", "line": "4", "endLine": "4", "col": "44", "endColumn": "48", "title": title},
        {"file": "p.yaml", "line": "4", "endLine": "5", "title": title},
        {"file": "p.yaml", "title": title},
    ]
    assert read_command(lines[0])[2] == "there is no step `gone`\nhelp: add it"


def walked(count: int, values: dict[str, Any]) -> Finding:
    """A finding with a path of so many steps, of which the second fails, and these inputs in its witness."""
    evidence = Evidence(
        "graph", tuple(Move(f"s{number}", "fails" if number == 2 else "succeeds") for number in range(count))
    )
    inputs = {name: {"type": "string" if isinstance(value, str) else "number"} for name, value in values.items()}
    whole = " and ".join(f"${name} != 'zz'" if isinstance(v, str) else f"${name} != 0.5" for name, v in values.items())
    program = Program.from_dict({"name": "p", "inputs": inputs, "steps": [
        {"id": "s0", "type": "condition", "condition": whole or "1 == 1", "then": "end", "otherwise": "end"},
        {"id": "end", "type": "end"}]})  # fmt: skip
    witness = Witness(Claim("SW401", "s0"), program, (), values, (), 9)
    return finding(evidence=replace(evidence, witness=witness))


def told_by(format: str, one: Finding) -> list[str]:
    """Return the lines of a finding in a format, without its message and its help."""
    if format == "github":
        lines = read_command(github.render(result(one)).splitlines()[0])[2].split("\n")
    elif format == "gitlab":
        lines = json.loads(gitlab.render(result(one)))[0]["description"].split("; ")
    else:
        (suite,) = JUnitXml.fromstring(junit.render(result(one)))
        (case,) = suite
        lines = case.result[0].text.split("\n")[:-1]
    assert lines[0] == "there is no step `gone`"
    assert lines[-1] == "help: add it"
    return lines[1:-1]


@pytest.mark.parametrize("format", ["github", "gitlab", "junit"])
def test_a_path_and_the_values_of_a_witness_are_told_where_reviewers_look(format: str) -> None:
    assert told_by(format, finding()) == []
    assert told_by(format, walked(3, {"amount": 600, "who": "a\nb"})) == [
        "path: s0 → s1 → s2 fails",
        'with amount = 600, who = "a\\nb"',
    ]


@pytest.mark.parametrize("format", ["github", "gitlab", "junit"])
def test_a_long_path_and_many_values_are_cut(format: str) -> None:
    path, values = told_by(format, walked(20, {f"v{number}": "x" * 200 for number in range(12)}))
    assert path == "path: s0 → s1 → s2 fails → s3 → … 12 more … → s16 → s17 → s18 → s19"
    assert values.count(" = ") == 8
    assert values.endswith("…, and 4 more")
    assert len(values) < 750


def test_no_text_breaks_out_of_a_command() -> None:
    name = "a,b:c%2C.yaml"
    line, _ = github.render(result(finding(file=name, message=f"{HOSTILE}\n::error::more"))).split("\n", 1)
    assert "file=a%2Cb%3Ac%252C.yaml," in line
    _, where, data = read_command(line)
    assert where["file"] == name
    assert data.startswith("100% :: a,b: \r\n{0} [x](1)")
    assert "::error::more" in data
    assert "\x1b" not in line


# -- GitLab ------------------------------------------------------------------------------------------------------------

ISSUES = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!\\./)[^/]"},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    },
}
"""What GitLab's documentation asks of a code quality report: these five, a relative path without `./`, and a line."""


@pytest.mark.slow
def test_the_issues_of_the_bad_programs_are_what_gitlab_asks_for(bad: Path, found: list[dict[str, Any]]) -> None:
    issues = json.loads((bad / "gitlab").read_text())
    Draft202012Validator(ISSUES).validate(issues)
    assert [(issue["location"]["path"], issue["location"]["lines"]["begin"]) for issue in issues] == [
        (entry["file"], entry["line"]) for entry in found
    ]
    assert len({issue["fingerprint"] for issue in issues}) == len(issues), "GitLab shows one issue for a fingerprint"


def test_an_issue_without_text_has_a_line_all_the_same() -> None:
    issues = json.loads(gitlab.render(result(finding(span=None, message=HOSTILE))))
    Draft202012Validator(ISSUES).validate(issues)
    assert issues[0]["location"]["lines"] == {"begin": 1}
    assert json.loads(gitlab.render(result())) == []


# -- JUnit -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_suites_of_the_bad_programs_are_read_by_a_foreign_reader(bad: Path, found: list[dict[str, Any]]) -> None:
    xml = JUnitXml.fromfile(str(bad / "junit"))
    failures = Counter(
        (suite.name, failed.type)
        for suite in xml
        for case in suite
        for failed in case.result
        if isinstance(failed, Failure)
    )
    assert failures == Counter((entry["file"], entry["code"]) for entry in found if entry["severity"] == "error")
    assert xml.failures == sum(failures.values())
    assert xml.tests == sum(suite.tests for suite in xml) == sum(1 for suite in xml for _ in suite)
    for suite in xml:
        names = [case.name for case in suite]
        assert len(names) == len(set(names)), "some readers keep one test for a name"
        assert names


def test_proofs_are_tests_that_pass_and_a_clean_file_has_one() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        text = check("--isolated", "--output-format=junit", "specs/programs/good/claim_above_limit.yaml").stdout
    (suite,) = JUnitXml.fromstring(text.encode())
    names = [case.name for case in suite]
    assert "no findings" in names
    assert "requires `large-needs-manager` is proved" in names
    assert suite.failures == 0


def test_a_warning_is_a_failure_only_where_it_shuts_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("warns.yaml").write_text(WARNS)
    for arguments, status in (((), 0), (("--fail-on=warning",), 1)):
        told = check("--isolated", "--output-format=junit", *arguments)
        assert (told.exit_code, JUnitXml.fromstring(told.stdout.encode()).failures) == (status, status)
        assert "SW108" in told.stdout


def test_no_text_breaks_the_xml() -> None:
    told = finding(message=HOSTILE, file=f"a{HOSTILE}.yaml", step=HOSTILE)
    (suite,) = JUnitXml.fromstring(junit.render(result(told, told)).encode())
    assert [case.result[0].message.startswith("100% :: a,b: ") for case in suite] == [True, True]


# -- several at once ---------------------------------------------------------------------------------------------------


def test_what_is_written_beside_the_report_is_what_its_format_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    told = check("--isolated", "two.yaml", *(f"--{name}-output=report.{name}" for name in OUTPUTS))
    assert told.stdout == check("--isolated", "two.yaml").stdout
    assert told.exit_code == 1
    for name in OUTPUTS:
        alone = check("--isolated", "two.yaml", f"--output-format={name}").stdout
        assert re.sub('"seconds": .*', "", Path(f"report.{name}").read_text()) == re.sub('"seconds": .*', "", alone)


def test_reports_are_not_written_over_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    told = check("--junit-output=r", "--sarif-output=./r")
    assert (told.exit_code, "two reports can't be written to one file" in told.stderr) == (2, True)
    told = check("--junit-output=none/r")
    assert (told.exit_code, "correct the path of `--junit-output`" in told.stderr) == (2, True)
