"""The cache hits for nothing that has changed: files, settings, options, policies, days."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from caches import MAILS, POLICY, is_hit
from commands import BAD, CLEAN, check, put
from stepward.validator.gate import version
from stepward.validator.gate.cache import FOLDER, Cache
from stepward.validator.gate.checking import Run
from stepward.validator.gate.settings import Configurations
from stepward.validator.result import RunResult

pytestmark = pytest.mark.usefixtures("in_own_project")


WAIVED = """\
policy: p
guardrails: [{name: no-mail, never: {tool: mail}}]
waivers: [{program: mails, rule: no-mail, reason: it is tried out, expiry: 2026-06-30}]
"""


def test_a_second_run_finds_the_results_of_the_first(checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    assert not is_hit(checked)
    assert is_hit(checked)
    assert is_hit(checked, "good.yaml") is False, "a file that is named has to be a program"
    assert is_hit(checked, "good.yaml")


def test_another_content_name_or_folder_is_another_file(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("sub/good.yaml", CLEAN)
    put("stepward.toml", "")
    check()
    status = path.stat()
    path.write_text(CLEAN.replace("good", "gold"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not is_hit(checked), "same length, same time"
    path.rename("sub/gold.yaml")
    assert not is_hit(checked)
    monkeypatch.chdir("sub")
    assert not is_hit(checked), "reports call it by another name here"
    assert is_hit(checked)
    monkeypatch.chdir("..")
    Path("sub").rename("bus")
    assert not is_hit(checked)
    assert [path.name for path in Path.cwd().iterdir() if path.name == FOLDER] == [FOLDER]
    assert not Path("bus", FOLDER).exists(), "the cache is beside the configuration"


def test_a_moved_project_has_other_files(checked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", f"policy: p\napplies_to: ['{tmp_path}/moved/*']\nguardrails: []\nallow: []\n")
    put("mails.yaml", MAILS)
    assert check("mails.yaml", "--policy=policy.yaml").exit_code == 0
    Path.cwd().rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert "SW403" in check("mails.yaml", "--policy=policy.yaml").stdout, "the policy is for files of that path"


def test_every_program_of_a_file_is_stored(checked: list[str]) -> None:
    put("two.yaml", CLEAN + "---\n" + BAD)
    put("three.py", f"A = {TWO_STEPS!r}\nB = {TWO_STEPS!r}\nC = {TWO_STEPS | {'name': 'c'}!r}\n")
    cold = check()
    assert "in 1 of 5 programs" in cold.stdout
    checked.clear()
    assert check().stdout == cold.stdout
    assert not checked


TWO_STEPS = {"name": "p", "inputs": {}, "steps": [{"id": "a", "type": "end"}]}

CHANGES = {
    "select": 'select = ["SW1"]\n',
    "ignore": 'ignore = ["SW210"]\n',
    "fail-on": 'fail-on = "warning"\n',
    "time-limit": "time-limit = 59\n",
    "baseline": 'baseline = "base.json"\n',
    "exclude": 'extend-exclude = ["x/"]\n',
    "policies": 'policies = ["policy.yaml"]\n',
    "per-file-ignores": '[[per-file-ignores]]\nfiles = "x"\ncodes = ["SW504"]\nreason = "why not"\n',
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_settings_never_hit(change: str, checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", POLICY)
    put("base.json", '{"version": 1, "findings": []}')
    put("stepward.toml", "")
    check()
    assert is_hit(checked)
    put("stepward.toml", CHANGES[change])
    assert not is_hit(checked)
    assert is_hit(checked)


@pytest.mark.parametrize(
    "options",
    [
        "--select=SW1",
        "--ignore=SW210",
        "--fail-on=warning",
        "--policy=policy.yaml",
        "--isolated",
        "--statistics",
        "--time-limit=59",
    ],
)
def test_other_options_never_hit(options: str, checked: list[str]) -> None:
    put("good.yaml", CLEAN)
    put("policy.yaml", POLICY)
    put("stepward.toml", "")
    check()
    assert not is_hit(checked, options)
    assert is_hit(checked, options)
    assert is_hit(checked)


def test_a_changed_policy_never_hits_and_its_findings_come_and_go(checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    put("stepward.toml", 'policies = ["policy.yaml"]\n')
    put("policy.yaml", "policy: p\n")
    assert (check().exit_code, check().exit_code) == (0, 0)
    put("policy.yaml", POLICY)
    checked.clear()
    assert check().exit_code == 1
    assert checked == ["mails.yaml"]
    put("policy.yaml", POLICY + "# a comment\n")
    assert not is_hit(checked)
    put("second.yaml", "policy: q\n")
    put("stepward.toml", 'policies = ["policy.yaml", "second.yaml"]\n')
    assert not is_hit(checked)
    put("stepward.toml", 'policies = ["second.yaml", "policy.yaml"]\n')
    assert not is_hit(checked), "the order of policies is the order in which they are told"
    assert is_hit(checked)


def findings(day: datetime.date) -> RunResult:
    cache = Cache.open(Path(FOLDER), version.version_digest)
    assert cache is not None
    run = Run(Configurations(), today=day, cache=cache)
    run.check_paths(["mails.yaml"])
    cache.close()
    return run.result()


@pytest.mark.parametrize("word", ["waivers", '"w\\u0061ivers"'], ids=["plain", "escaped"])
def test_a_waiver_runs_out_in_the_cache_too(word: str, checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    put("stepward.toml", 'policies = ["policy.yaml"]\n')
    put("policy.yaml", WAIVED.replace("waivers", word))
    last, after = datetime.date(2026, 6, 30), datetime.date(2026, 7, 1)
    before = findings(last)
    assert findings(after).findings != before.findings
    assert findings(last).findings == before.findings
    assert checked == ["mails.yaml"] * 2


def test_without_a_waiver_the_day_does_not_matter(checked: list[str]) -> None:
    put("mails.yaml", MAILS)
    findings(datetime.date(2026, 6, 30))
    findings(datetime.date(2026, 7, 1))
    assert checked == ["mails.yaml"]
