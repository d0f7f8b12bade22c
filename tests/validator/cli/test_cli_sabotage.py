"""`stepward sabotage` as its user meets it: the matrix in each format, breaches saved and replayed, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from canaries import repeated_here
from canaries_edges import reads_any_digest
from canaries_injection import CLOSED, takes_any_reply
from paths import ROOT
from sizes import size
from stepward.sabotage import campaign
from stepward.sabotage.attack import Family
from stepward.sabotage.campaigns import confirming
from stepward.sabotage.invariants import Invariant
from stepward.sabotage.registry import ATTACK_BY_NAME, ATTACKS
from stepward.validator.cli import main
from stepward.vm import Program

ONE = ("--attacks", "reply-outside-the-set", "--examples", "10")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("closed.yaml").write_text(Program.from_dict(dict(CLOSED)).to_yaml())


def run(*arguments: str) -> Result:
    """Attack the program alone: what specimens add has tests of its own."""
    return CliRunner().invoke(main, ["sabotage", "--no-specimens", *arguments])


def weaken(patch: pytest.MonkeyPatch) -> None:
    """Take a defence away in this process, where its breaches have to be repeated then."""
    takes_any_reply(patch)
    patch.setattr(confirming, "is_repeated", repeated_here)


def test_a_machine_that_holds_exits_with_0() -> None:
    result = run("closed.yaml", *ONE, "--seed", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    why = f"nothing broke, but only 1 of {len(ATTACKS)} attacks was asked for"
    assert lines[0] == f"not known whether to release `closed_question`: {why}"
    assert lines[1].startswith("  played: 10 cases with ")
    assert lines[-1] == "1 of 1 attack ran on `closed_question`"
    assert lines[1].endswith("seed 5")
    assert lines[2:4] == ["", "injection: no breach; 1 of 1 attack ran, in 10 cases"]
    assert [line.split(":")[0].strip() for line in lines[4:-2]] == ["tried", "held"]
    assert not Path("stepward-breaches").exists()


def test_the_same_seed_tells_the_same_but_for_seconds() -> None:
    first, second = (run("closed.yaml", *ONE, "--seed", "5", "--output-format", "json") for _ in range(2))
    one, two = (json.loads(result.stdout) for result in (first, second))
    for data in (one, two):
        data["summary"].pop("seconds")
        for attack in data["attacks"]:
            attack.pop("seconds")
    assert one == two


@pytest.mark.usefixtures("few_drawn")
def test_the_json_has_every_attack_with_its_counts() -> None:
    result = run(
        "closed.yaml", "--families", "injection", "--examples", "3", "--no-specimens", "--output-format", "json"
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["version"] == 2
    names = [attack.name for attack in ATTACKS if attack.family is Family.INJECTION]
    assert [entry["name"] for entry in data["attacks"]] == names
    for entry in data["attacks"]:
        outcomes = ("blocked", "detected", "absorbed", "breached", "unconfirmed")
        began = sum(entry[name] for name in outcomes)
        assert began + entry["not_applicable"] == entry["cases"]
        assert entry["family"] == "injection"
        assert (entry["why_not"] is None) == (entry["outcome"] != "not_run") == (began > 0)
        assert entry["events"] == 0 or began > 0, "an attack that did not run counts no events"
    assert data["summary"]["breaches"] == 0
    assert data["summary"]["ran"] == sum(entry["outcome"] != "not_run" for entry in data["attacks"]) < len(names)


def test_a_row_for_each_attack_is_a_detail() -> None:
    result = run("closed.yaml", *ONE, "--seed", "5", "--details")
    lines = result.stdout.splitlines()
    assert lines[-4].split()[:4] == ["family", "attack", "outcome", "blocked"]
    assert lines[-3].split()[:4] == ["injection", "reply-outside-the-set", "blocked", "10"]
    assert lines[-2:] == ["", "1 of 1 attack ran on `closed_question`"]


# -- attacks that did not run ------------------------------------------------------------------------------------------

TOKENS = "token-twice,token-raced,guessed-token"


def test_an_attack_that_never_began_is_not_run() -> None:
    refund = str(ROOT / "specs/programs/good/customer_refund.yaml")
    arguments = (refund, "--isolated", "--attacks", TOKENS, "--seed", "1", "--examples", "4")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "not known whether to release `customer_refund`: nothing ran, and no run came to what 3 "
    )
    assert lines[1].startswith("  played: 0 cases with 0 events in ")
    assert "replay: nothing ran, of 3 attacks" in lines
    assert lines[-1] == "0 of 3 attacks ran on `customer_refund`; 3 were not run"
    assert "\n  not run, because " in run(*arguments, "--details").stdout
    required = run(*arguments, "--require-all")
    assert required.exit_code == 4
    assert "error: 3 attacks did not run, and `--require-all` asks for all" in required.stderr
    root = ElementTree.fromstring(run(*arguments, "--output-format", "junit").stdout)
    assert [suite.get("skipped") for suite in root] == ["3"]


OWN = "one-of-many,odd-receipts"
"""Attacks on what they make themselves, which are quick."""


def test_what_runs_on_built_in_programs_and_on_what_attacks_make_is_counted_apart() -> None:
    """What an attack makes itself was told to have run on the program, which the attack never looks at."""
    names = f"{ONE[1]},{TOKENS},{OWN}"
    arguments = ["sabotage", "closed.yaml", "--attacks", names, "--seed", "1", "--examples", str(size(6, 12))]
    result = CliRunner().invoke(main, [*arguments, "--require-all", "--details"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    only = next(line for line in lines if line.startswith("  only on built-in programs"))
    assert only.endswith(TOKENS.replace(",", ", "))
    own = [line for line in lines if line.startswith("  only on programs, stores or files that these attacks make")]
    assert [line.rpartition(": ")[2] for line in own] == OWN.split(","), "one is of another family"
    assert {line.split()[1]: line.split()[-1] for line in lines[-8:-2] if line.split()[1] in names.split(",")} == {
        ONE[1]: "program", "one-of-many": "own"
    } | dict.fromkeys(TOKENS.split(","), "built-in")  # fmt: skip
    where = "(1 on `closed_question`, 3 only on built-in programs, 2 on what they make themselves)"
    assert lines[-1] == f"6 of 6 attacks ran {where}"
    data = json.loads(CliRunner().invoke(main, [*arguments, "--output-format", "json"]).stdout)
    assert data["summary"]["ran_on"] == {"program": 1, "built_in": 3, "own": 2}
    ran_on = {entry["name"]: (entry["ran_on"], entry["ran_on_program"]) for entry in data["attacks"]}
    assert ran_on == {
        ONE[1]: ("program", True),
        **dict.fromkeys(TOKENS.split(","), ("built_in", False)),
        **dict.fromkeys(OWN.split(","), ("own", False)),
    }


def test_without_specimens_only_the_program_is_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [ATTACK_BY_NAME[name] for name in (ONE[1], *OWN.split(","))]
    monkeypatch.setattr(campaign, "ATTACKS", chosen)
    result = run("closed.yaml", "--examples", "3", "--require-all")
    assert result.exit_code == 0, "what an option leaves out is not missed"
    assert "  played: 3 cases with " in result.stdout
    assert "\ninjection: no breach; 1 of 2 attacks ran, in 3 cases\n  tried in part: models, " in result.stdout
    assert result.stdout.endswith("\n1 of 3 attacks ran on `closed_question`; 2 were not run\n")
    assert "\n  left out by `--no-specimens`: 2 attacks on what they make themselves\n" in result.stdout
    named = run("closed.yaml", "--examples", "3", "--details").stdout
    assert "not run, because only this program is attacked, and not what an attack makes itself: one-of-many\n" in named
    root = ElementTree.fromstring(run("closed.yaml", "--examples", "3", "--output-format", "junit").stdout)
    assert [suite.get("skipped") for suite in root] == ["1", "1"]
    monkeypatch.setattr(campaign, "ATTACKS", [*chosen, ATTACK_BY_NAME["token-twice"]])
    assert run("closed.yaml", "--examples", "3", "--require-all").exit_code == 4


def test_a_breach_of_what_an_attack_makes_itself_is_not_told_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        reads_any_digest(patch)
        unconfirmed = CliRunner().invoke(main, ["sabotage", "closed.yaml", "--attacks", "odd-receipts", "--seed", "1"])
    assert "unconfirmed[odd-receipts]" in unconfirmed.stdout
    reads_any_digest(monkeypatch)
    monkeypatch.setattr(confirming, "is_repeated", repeated_here)
    arguments = ["sabotage", "closed.yaml", "--attacks", f"odd-receipts,{ONE[1]}", "--examples", "4", "--seed", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    on = "on: a program, store or file that the attack makes itself, and not `closed_question`"
    for said in (unconfirmed, result):
        assert f"  = {on}\n" in said.stdout
    entries = json.loads(CliRunner().invoke(main, [*arguments, "--output-format", "json"]).stdout)["attacks"]
    assert {entry["name"]: (entry["breach"] or {}).get("on") for entry in entries} == {
        ONE[1]: None,
        "odd-receipts": "own",
    }
    root = ElementTree.fromstring(CliRunner().invoke(main, [*arguments, "--output-format", "junit"]).stdout)
    failure = root.find(".//failure")
    assert failure is not None
    assert on in (failure.text or "")


def test_all_attacks_ran_where_all_are_required() -> None:
    assert run("closed.yaml", *ONE, "--require-all").exit_code == 0


# -- breaches ----------------------------------------------------------------------------------------------------------


def test_a_breach_that_a_fresh_process_does_not_repeat_is_no_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    takes_any_reply(monkeypatch)  # only here: a fresh process has the whole machine
    result = run("closed.yaml", *ONE, "--seed", "5")
    assert result.exit_code == 3
    assert "unconfirmed[reply-outside-the-set]" in result.stdout
    assert "breach[" not in result.stdout
    assert Path("stepward-breaches/closed_question-reply-outside-the-set.json").exists()
    data = json.loads(run("closed.yaml", *ONE, "--seed", "5", "--output-format", "json").stdout)
    assert (data["summary"]["breaches"], data["summary"]["unconfirmed"]) == (0, 1)
    assert data["attacks"][0]["outcome"] == "unconfirmed"
    assert data["attacks"][0]["breach"]["confirmed"] is False


def test_breaches_of_one_cause_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    result = run("closed.yaml", "--attacks", "reply-outside-the-set,everything-fails,killed-anywhere", "--seed", "5")
    assert result.exit_code == 1
    breaches = [line for line in result.stdout.splitlines() if line.startswith("breach[")]
    assert len({line.partition("]")[2] for line in breaches}) == len(breaches)
    assert "  do not release: " in result.stdout
    assert "  = broken invariant: " in result.stdout


@pytest.mark.skipif(os.name != "posix", reason="links are another thing elsewhere")
def test_a_link_in_the_folder_of_breaches_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    Path("precious").write_text("precious")
    file = Path("stepward-breaches/closed_question-reply-outside-the-set.json")
    file.parent.mkdir()
    file.symlink_to(Path("precious").resolve())
    assert run("closed.yaml", *ONE, "--seed", "5").exit_code == 1
    assert Path("precious").read_text() == "precious"
    assert not file.is_symlink()
    assert json.loads(file.read_text())["attack"] == "reply-outside-the-set"


@pytest.mark.skipif(os.name != "posix", reason="links are another thing elsewhere")
def test_a_folder_of_breaches_that_is_a_link_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    Path("elsewhere").mkdir()
    Path("stepward-breaches").symlink_to(Path("elsewhere").resolve())
    result = run("closed.yaml", *ONE, "--seed", "5")
    assert result.exit_code == 2
    assert "`stepward-breaches` is a symbolic link" in result.output
    assert list(Path("elsewhere").iterdir()) == []


def test_a_breach_is_told_saved_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        weaken(patch)
        result = run("closed.yaml", *ONE, "--seed", "5")
        assert result.exit_code == 1
        assert "breach[reply-outside-the-set]" in result.stdout
        verdict = "do not release `closed_question`: 1 attack broke what the machine promises: "
        assert result.stdout.startswith(verdict + Invariant.REFUSAL.value + "\n")
        assert result.stdout.index("\nbreach[") < result.stdout.index("\ninjection: 1 breach; ")
        file = "stepward-breaches/closed_question-reply-outside-the-set.json"
        assert f"stepward sabotage --replay {file}" in result.stdout
        again = run("--replay", file)
        assert again.exit_code == 1
        assert again.stdout.splitlines()[-1].startswith("breached: ")
    mended = run("--replay", file)
    assert mended.exit_code == 0
    assert mended.stdout.splitlines()[-1] == "blocked: the breach does not show any more"


def test_what_broke_before_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    assert run("closed.yaml", *ONE).exit_code == 1
    assert list(Path(".stepward_cache/sabotage").rglob("*"))
    result = run("closed.yaml", "--attacks", "reply-outside-the-set", "--examples", "1", "--output-format", "json")
    assert json.loads(result.stdout)["attacks"][0]["breached"] == 1


def test_junit_has_a_suite_for_each_family(monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
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
    assert "the time limit was reached before the end" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'FILE'"),
        (("missing.yaml",), "correct the path"),
        (("closed.yaml", "--families", "injektion"), "did you mean `injection`?"),
        (("closed.yaml", "--families", ","), "the text names no family"),
        (("closed.yaml", "--attacks", ""), "the text names no attack"),
        (("closed.yaml", "--attacks", "token-twise"), "there is no attack `token-twise`"),
        (("closed.yaml", "--examples", "0"), "--examples"),
        (
            ("closed.yaml", "--attacks", "one-of-many"),
            "`one-of-many` attacks what it makes itself, and not this program",
        ),
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
        weaken(patch)
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
    x = {"type": "string", "pattern": "^a\\bb$"}
    program = Program.from_dict({"name": "none", "inputs": {"x": x}, "steps": [{"id": "e", "type": "end"}]})
    Path("none.yaml").write_text(program.to_yaml())
    result = run("none.yaml", "--attacks", "references-in-data,orders-in-data,killed-anywhere", "--seed", "1")
    assert result.exit_code == 2
    assert "seems to allow no value" in result.output


def test_a_program_with_items_is_attacked_in_its_bodies() -> None:
    items = {"id": "each", "type": "for_each", "items": [1, 2], "as": "x", "max_items": 2}
    steps = [{**items, "steps": [{"id": "e", "type": "end", "output": "$x"}]}]
    Path("items.yaml").write_text(Program.from_dict({"name": "items", "language": 2, "steps": steps}).to_yaml())
    attacks = ("item-skipped", "items-swapped", "carry-edited")
    result = run("items.yaml", "--attacks", ",".join(attacks), "--examples", "1", "--seed", "1", "--details")
    assert result.exit_code == 0, result.output
    rows = {name: next(line for line in result.output.splitlines() if name in line) for name in attacks}
    assert "detected" in rows["item-skipped"]
    assert "detected" in rows["items-swapped"]
    assert "no for_each step carries variables" in rows["carry-edited"]


def test_a_program_with_branches_is_attacked_in_them() -> None:
    ending = {"id": "e", "type": "end", "output": 1}
    branches = {"a": {"steps": [ending]}, "b": {"depends_on": ["a"], "steps": [{**ending, "id": "f"}]}}
    both = {"id": "both", "type": "parallel", "branches": branches}
    Path("both.yaml").write_text(Program.from_dict({"name": "both", "language": 2, "steps": [both]}).to_yaml())
    attacks = ("branch-skipped", "branch-too-early", "frame-exchanged", "item-skipped")
    result = run("both.yaml", "--attacks", ",".join(attacks), "--examples", "2", "--seed", "1", "--details")
    assert result.exit_code == 0, result.output
    rows = {name: next(line for line in result.output.splitlines() if name in line) for name in attacks}
    assert all("detected" in rows[name] for name in attacks[:3])
    assert "there is no for_each step" in rows["item-skipped"]
