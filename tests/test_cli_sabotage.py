"""`stepward sabotage` as its user meets it: the matrix in each format, breaches saved and replayed, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from canaries_injection import CLOSED, takes_any_reply
from stepward.sabotage.attack import Family
from stepward.sabotage.registry import ATTACKS
from stepward.validator.cli import main
from stepward.vm import Program

ROOT = Path(__file__).parents[1]
ONE = ("--attacks", "reply-outside-the-set", "--examples", "10")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("closed.yaml").write_text(Program.from_dict(dict(CLOSED)).to_yaml())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sabotage", *arguments])


def test_a_machine_that_holds_exits_with_0() -> None:
    result = run("closed.yaml", *ONE, "--seed", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["family", "attack", "outcome", "blocked"]
    assert lines[1].split()[:4] == ["injection", "reply-outside-the-set", "blocked", "10"]
    assert lines[-1].startswith("no breach: 1 attack on `closed_question`, 10 cases, ")
    assert lines[-1].endswith("seed 5")
    assert not Path("stepward-breaches").exists()


def test_the_same_seed_tells_the_same_but_for_seconds() -> None:
    first, second = (run("closed.yaml", *ONE, "--seed", "5", "--output-format", "json") for _ in range(2))
    one, two = (json.loads(result.stdout) for result in (first, second))
    for data in (one, two):
        data["summary"].pop("seconds")
        for attack in data["attacks"]:
            attack.pop("seconds")
    assert one == two


def test_the_json_has_every_attack_with_its_counts() -> None:
    result = run("closed.yaml", "--families", "injection", "--examples", "3", "--output-format", "json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["version"] == 1
    names = [attack.name for attack in ATTACKS if attack.family is Family.INJECTION]
    assert [entry["name"] for entry in data["attacks"]] == names
    for entry in data["attacks"]:
        counted = sum(entry[name] for name in ("blocked", "detected", "absorbed", "breached", "not_applicable"))
        assert counted == entry["cases"]
        assert entry["family"] == "injection"
        assert (entry["misses"] is None) == (entry["cases"] > 0)
    assert data["summary"]["breaches"] == 0


def test_a_breach_is_told_saved_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        takes_any_reply(patch)
        result = run("closed.yaml", *ONE, "--seed", "5")
        assert result.exit_code == 1
        assert "breach[reply-outside-the-set]" in result.stdout
        assert result.stdout.splitlines()[-1].startswith("1 breach: ")
        file = "stepward-breaches/closed_question-reply-outside-the-set.json"
        assert f"stepward sabotage --replay {file}" in result.stdout
        again = run("--replay", file)
        assert again.exit_code == 1
        assert again.stdout.splitlines()[-1].startswith("breached: ")
    mended = run("--replay", file)
    assert mended.exit_code == 0
    assert mended.stdout.splitlines()[-1] == "blocked: the breach does not show any more"


def test_what_broke_before_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    takes_any_reply(monkeypatch)
    assert run("closed.yaml", *ONE).exit_code == 1
    assert list(Path(".stepward_cache/sabotage").rglob("*"))
    result = run("closed.yaml", "--attacks", "reply-outside-the-set", "--examples", "1", "--output-format", "json")
    assert json.loads(result.stdout)["attacks"][0]["breached"] == 1


def test_junit_has_a_suite_for_each_family(monkeypatch: pytest.MonkeyPatch) -> None:
    takes_any_reply(monkeypatch)
    names = "reply-outside-the-set,killed-anywhere,references-in-data"
    result = run("closed.yaml", "--attacks", names, "--examples", "10", "--output-format", "junit")
    assert result.exit_code == 1
    root = ElementTree.fromstring(result.stdout)
    assert [suite.get("name") for suite in root] == ["injection", "crash"]
    injection = root[0]
    assert (injection.get("tests"), injection.get("failures")) == ("2", "1")
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("type")


def test_the_report_goes_into_a_file() -> None:
    result = run("closed.yaml", *ONE, "--output-format", "json", "--output-file", "matrix.json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(Path("matrix.json").read_text())["summary"]["attacks"] == 1


def test_policies_of_the_command_line_are_held() -> None:
    desk = ROOT / "specs/policies/desk-limits.yaml"
    program = ROOT / "specs/programs/good/desk_payout.yaml"
    result = run(str(program), "--policy", str(desk), *ONE[:1], "killed-anywhere", "--examples", "10", "--seed", "1")
    assert result.exit_code == 0, result.output


def test_time_stops_a_campaign() -> None:
    result = run("closed.yaml", "--attacks", "reply-outside-the-set", "--examples", "100000", "--time", "0.3")
    assert result.exit_code == 0
    assert "the time did not suffice for" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'FILE'"),
        (("missing.yaml",), "correct the path"),
        (("closed.yaml", "--families", "injektion"), "did you mean `injection`?"),
        (("closed.yaml", "--attacks", "token-twise"), "there is no attack `token-twise`"),
        (("closed.yaml", "--examples", "0"), "--examples"),
        (("--replay", "missing.json"), "`missing.json` can't be read"),
        (("--replay", "closed.yaml"), "`closed.yaml` is no attack script"),
        (("broken.yaml",), "names no step of the program"),
        (("closed.yaml", "--config", "a.toml", "--isolated"), "give one of the two"),
    ],
)
def test_bad_input_gets_a_clear_error(arguments: tuple[str, ...], words: str) -> None:
    Path("broken.yaml").write_text("name: broken\nsteps:\n  - {id: a, type: tool, tool: t, next_step: nowhere}\n")
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_script_that_was_edited_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        takes_any_reply(patch)
        run("closed.yaml", *ONE, "--seed", "5", "--save", "kept")
    file = Path("kept/closed_question-reply-outside-the-set.json")
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {"choices": {}}))
    result = run("--replay", str(file))
    assert result.exit_code == 2
    assert "the script does not say `" in result.output


@pytest.mark.slow
def test_the_self_test_shows_that_the_alarm_works() -> None:
    result = run("--self-test")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "every alarm went off"
    data = json.loads(run("--self-test", "--output-format", "json").stdout)
    assert data["survived"] == 0


def test_a_program_that_no_value_fits_is_no_silent_pass() -> None:
    x = {"type": "string", "pattern": "(?=a)b"}
    program = Program.from_dict({"name": "none", "inputs": {"x": x}, "steps": [{"id": "e", "type": "end"}]})
    Path("none.yaml").write_text(program.to_yaml())
    result = run("none.yaml", "--attacks", "references-in-data,orders-in-data,killed-anywhere", "--seed", "1")
    assert result.exit_code == 2
    assert "seems to admit no value" in result.output
