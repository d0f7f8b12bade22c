"""The formats for other programs, each read by one that is not ours: a published schema, a reader, a runner's rules."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from junitparser import Failure, JUnitXml

from commands import WARNS, check
from findings import HOSTILE, TWO, finding, result, run_of
from paths import ROOT
from stepward.validator.engine.witnesses.witness import Claim, Witness
from stepward.validator.findings import Evidence, Finding, Move
from stepward.validator.report import FORMATS, OUTPUTS, github, gitlab, junit
from stepward.vm import Program
from stepward.vm.reading.source import Span


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
