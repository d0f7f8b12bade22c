"""Fast: `stepward analyze`: what it reads, learns, writes and refuses, and how it exits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otlp_fleets import HEALTHY, write_fleet
from review_pages import HOSTILE, journal_of_two_runs
from stepward.validator.cli import main
from stepward.validator.dynamics import analysis

NEVER = 10**9


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with healthy runs, their baseline, and runs that change."""
    made = tmp_path_factory.mktemp("fleets")
    write_fleet(made / "healthy.json", HEALTHY, 1, 200, NEVER)
    write_fleet(made / "calm.json", HEALTHY, 6, 60, NEVER)
    write_fleet(made / "storm.json", "retry storms", 3, 60, 30)
    result = run(made / "healthy.json", "--learn", made / "base.json")
    assert result.exit_code == 0, result.output
    assert "`agent`: 200 runs of" in result.output
    return made


def test_the_runs_of_a_journal_are_measured_without_a_baseline(tmp_path: Path) -> None:
    _, journal = journal_of_two_runs(tmp_path)
    result = run(journal, "--window", "1")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("`two`: 2 runs, ")
    lines = result.output.splitlines()
    assert lines[1].split()[:4] == ["runs", "from", "H(A|S)", "bits"]
    assert [line.split()[0] for line in lines[2:5]] == ["all", "0–0", "1–1"]
    data = json.loads(run(journal, "--output-format", "json").output)
    (fleet,) = data["fleets"]
    assert (fleet["program"], fleet["family"], fleet["measures"]["runs"], fleet["alarms"]) == ("two", "", 2, [])
    assert fleet["baseline"] is None
    assert [one["entropy"] for one in fleet["runs"]] == [0.0, 0.0]
    assert fleet["measures"]["entropy"] == pytest.approx(0.5)


def test_the_family_is_an_input_and_filters_choose_runs(tmp_path: Path) -> None:
    _, journal = journal_of_two_runs(tmp_path)
    data = json.loads(run(journal, "--family-by", "amount", "--output-format", "json").output)
    assert [fleet["family"] for fleet in data["fleets"]] == ["60", "7"]
    refused = run(journal, "--family-by", "amuont")
    assert (refused.exit_code, "`--family-by amuont` puts no run into a task family" in refused.output) == (2, True)
    assert run(journal, "--program", "none").exit_code == 3
    assert run(journal, "--since", "2100-01-01").exit_code == 3
    assert run(journal, "--since", "2d", "--program", "two").exit_code == 0


def test_drift_fails_a_nightly_job_and_says_since_when_what_how_sure_and_where(folder: Path) -> None:
    base = folder / "base.json"
    assert run(folder / "calm.json", "--baseline", base, "--fail-on", "any").exit_code == 0
    storm = folder / "storm.json"
    assert run(storm, "--baseline", base).exit_code == 0, "alarms only fail if the caller says so"
    result = run(storm, "--baseline", base, "--fail-on", "drift")
    assert result.exit_code == 1, result.output
    assert re.search(r"alarm\[drift\]: these runs behave otherwise since `run-000[23]\d` \(1970-01-01", result.output)
    assert re.search(
        r"= sure: [>\d. ]+ %; since some run from `run-\d+` to `run-\d+` \(95 %\), noticed at `run-", result.output
    )
    assert re.search(r"= changed: attempts that are tried again: .* %, now .* %", result.output)
    assert re.search(r"= look at: `run-000[345]\d`", result.output)
    assert "Of spans the state is the name of the span before." in result.output
    data = json.loads(run(storm, "--baseline", base, "--fail-on", "drift", "--output-format", "json").output)
    alarm = next(alarm for alarm in data["fleets"][0]["alarms"] if alarm["kind"] == "drift")
    assert alarm["noticed"].startswith("run-000")
    assert {"was", "now", "low", "high", "seen", "out_of", "where"} <= alarm["changed"][0].keys()


def test_the_page_is_one_file_without_a_script_and_with_its_plots(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(folder / "storm.json", "--baseline", folder / "base.json", "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "script-src 'none'" in text
    assert "<script" not in text
    assert not re.search(r"<[^>]* (style|on\w+|src)=", text)
    assert text.count("<svg") >= 6
    assert 'aria-label="odds that the fleet has changed, powers of 10: from' in text
    assert "alarm[drift]" in text


def test_names_of_users_are_text_on_the_page(tmp_path: Path) -> None:
    spans = write_fleet(tmp_path / "s.json", HEALTHY, 1, 5, NEVER)
    spans.write_text(spans.read_text().replace('"stringValue": "agent"', f'"stringValue": {json.dumps(HOSTILE)}'))
    page = tmp_path / "page.html"
    assert run(spans, "-o", page).exit_code == 0
    assert "<script" not in page.read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page.read_text(encoding="utf-8")


def test_plots_are_written_as_png(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plots.png"
    assert run(folder / "calm.json", "-o", file).exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def test_too_few_healthy_runs_are_said(folder: Path, tmp_path: Path) -> None:
    few = write_fleet(tmp_path / "few.json", HEALTHY, 1, 5, NEVER)
    result = run(few, "--learn", tmp_path / "b.json")
    assert result.exit_code == 2
    assert "`agent` has 5 healthy runs, and a baseline needs 60" in result.output
    other = write_fleet(tmp_path / "other.json", HEALTHY, 1, 5, NEVER)
    other.write_text(other.read_text().replace('"agent"', '"other"'))
    both = json.loads(
        run(folder / "healthy.json", other, "--learn", tmp_path / "b.json", "--output-format", "json").output
    )
    assert [one["program"] for one in both["learnt"]] == ["agent"]
    assert both["skipped"] == ["`other` has 5 healthy runs, and a baseline needs 60"]
    assert "There is no baseline of `other`." in run(other, "--baseline", folder / "base.json").output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.db"], "`none.db` can't be read: no such file"),
        (["text.json"], "`text.json` can't be used: it is neither JSON nor one JSON object a line"),
        (["bytes.db"], "`bytes.db` is neither a journal nor a text"),
        (["calm.json", "--fail-on", "drift"], "--fail-on needs --baseline"),
        (["calm.json", "--baseline", "none.json"], "`none.json` can't be read"),
        (["calm.json", "--baseline", "calm.json"], "`calm.json` can't be used: it is no baseline of"),
        (["calm.json", "--learn", "x", "--baseline", "y"], "--learn only writes a baseline"),
        (["calm.json", "-o", "page.pdf"], "ends neither in .html nor in .png"),
        (["calm.json", "-o", "none/p.html"], "`none/p.html` can't be written"),
        (["calm.json", "--since", "soon"], "`soon` is no time"),
    ],
)
def test_what_can_not_be_used_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "text.json").write_text("hello\n")
    (folder / "bytes.db").write_bytes(b"\xff\xfe\x00")
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_without_the_extra_runs_are_measured_and_the_rest_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "find_spec", lambda _: None)
    result = run(folder / "calm.json", "--output-format", "json")
    assert result.exit_code == 0
    assert json.loads(result.output)["fleets"][0]["change_points"] is None
    refused = run(folder / "calm.json", "--baseline", folder / "base.json")
    assert refused.exit_code == 2
    assert "pip install 'stepward[analysis]'" in refused.output
