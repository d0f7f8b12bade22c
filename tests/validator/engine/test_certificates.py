"""Certificates: each proof can be written down, and code that shares nothing with the engine accepts just those."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from certifying import LOAN, SEEDS, proofs, small, yaml_of
from layers import impatient, only
from paths import ROOT
from sizes import size
from stepward.validator import ProgramValidator
from stepward.validator.cli import main
from stepward.validator.recheck.certificates import parsed, recheck_data
from stepward.vm import Policy, Program
from stepward.vm.errors import DocumentError

GOOD = sorted(path for path in (ROOT / "specs/programs/good").iterdir() if path.suffix in (".yaml", ".json"))
BAD = sorted((ROOT / "specs/programs/bad").glob("SW*/*.yaml"))
LOST = ("SW101", "SW106", "SW109")
"""Findings of programs that do not say where control goes: nobody can check what is proved of them."""


# -- what the engine proves is accepted --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOOD[:: size(6, 1)], ids=lambda path: path.stem)
def test_every_proof_of_the_examples_is_accepted(path: Path) -> None:
    found = [recheck_data(data) for data in proofs(Program.load(path))]
    assert found
    assert [one.why_not for one in found if not one.is_accepted] == []


@pytest.mark.slow
def test_what_is_proved_of_programs_that_are_wrong_elsewhere_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    count = 0
    for path in BAD[:: size(6, 1)]:
        try:
            program = Program.load(path)
        except DocumentError:
            continue
        if path.parent.name in LOST:
            continue
        for data in proofs(program):
            assert recheck_data(data).why_not == "", path
            count += 1
    assert count > size(10, 60)


def test_a_program_without_defined_control_flow_has_none_and_the_reason_is_reported(tmp_path: Path) -> None:
    for path in (one for one in BAD if one.parent.name in LOST[:2]):
        done = run("check", path, "--isolated", "--no-recheck", "--certificates", tmp_path / "proofs")
        assert done.exit_code == 1, path
        assert "0 certificates written" in done.stderr, path
        said = "is proved and has no certificate: the program does not say where control goes (SW101, SW106, SW109)"
        assert said in done.stderr
        assert list((tmp_path / "proofs").iterdir()) == []


CERTIFIED = size(15, 120)
"""Small programs whose proofs are written down and read again; those of many more are checked in their run."""
RARE = [SEEDS[kind] for kind in ("states", "budget", "formula")]


def all_accepted(seeds: Iterable[int]) -> set[str]:
    kinds: set[str] = set()
    for seed in seeds:
        for data in proofs(small(seed)):
            found = recheck_data(data)
            assert found.is_accepted, f"seed {seed}: {found.claim}: {found.why_not}"
            kinds.update(found.kinds)
    return kinds


def test_every_proof_of_small_programs_is_accepted() -> None:
    """Those of many more are checked by `test_differential.py`, in the run that makes them."""
    assert {"cut", "cases", "table"} <= all_accepted(range(CERTIFIED))
    assert {"states", "budget", "formula"} <= set().union(*(all_accepted(seeds) for seeds in RARE))


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["explicit search", "block formula"])
def test_every_layer_alone_gives_certificates(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    only(monkeypatch, layer)
    kinds = all_accepted(range(size(6, 40)))
    assert kinds & {"states", "formula"}


ACCEPTED = {
    "no run can use up the budget": """
max_steps: 6
tools: {pay: {effect: write, idempotent: false}, look: {effect: read, returns: {type: boolean}}}
guardrails: [{name: rule, followed_by: {first: {tool: pay}, then: {step: last}}, ends: any}]
steps:
  - {id: look, type: tool, tool: look, output_key: more, max_visits: 2, next_step: again, error_step: first}
  - {id: again, type: condition, condition: $more, then: look, otherwise: first}
  - {id: first, type: tool, tool: pay, next_step: last}
  - {id: last, type: tool, tool: pay}
""",
    "no run gets to the step whose condition could fail": """
tools: {pay: {effect: write, idempotent: false}, book: {effect: write, idempotent: true}}
guardrails: [{name: rule, followed_by: {first: {tool: pay}, then: {step: last}}}]
steps:
  - {id: begin, type: set, set: {v: "'b'"}}
  - {id: paid, type: tool, tool: pay}
  - {id: one, type: condition, condition: $v == 'a', then: two, otherwise: last}
  - {id: two, type: condition, condition: $v == 'a', then: last, otherwise: last}
  - {id: last, type: tool, tool: book}
""",
    "an end that the run gets to owes nothing": """
tools: {pay: {effect: write, idempotent: false}, book: {effect: write, idempotent: true}}
guardrails: [{name: rule, followed_by: {first: {step: stop}, then: {tool: book}}, ends: any}]
steps:
  - {id: paid, type: tool, tool: pay, error_step: stop}
  - {id: booked, type: tool, tool: book}
  - {id: stop, type: end}
""",
    "a further round costs what it makes again": """
max_steps: 10
tools:
  ask: {effect: read, returns: {type: boolean}}
  count: {effect: read, returns: {type: integer, minimum: 0, maximum: 3}}
  pay: {effect: write, idempotent: false, args: {x: {type: integer}}}
guardrails: [{name: rule, never: {step: paid}, when: $j + 1 > 2}]
steps:
  - id: both
    type: parallel
    parallel_steps: [{id: paid, type: tool, tool: pay, args: {x: $j}}]
    error_step: more
    next_step: more
  - id: more
    type: parallel
    parallel_steps: [{id: counted, type: tool, tool: count, output_key: j}, {id: asked, type: tool, tool: ask}]
    on_error: retry
    error_step: both
""",
    "all numbers of a class are whole where nothing gives others": """
tools:
  count: {effect: read, returns: {type: integer, minimum: 0, maximum: 3}}
  pay: {effect: write, idempotent: false, args: {x: {type: integer}}}
guardrails: [{name: rule, followed_by: {first: {step: paid}, then: {step: booked}}}]
steps:
  - {id: begin, type: set, set: {j: 1}, max_visits: 3, next_step: asked}
  - {id: asked, type: condition, condition: $j > 1, then: begin, otherwise: count}
  - {id: count, type: tool, tool: count, output_key: j, next_step: paid}
  - {id: paid, type: tool, tool: pay, args: {x: 1}}
  - {id: booked, type: tool, tool: pay, args: {x: $j}}
""",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_what_a_certificate_leaves_to_its_checker_is_seen(text: str) -> None:
    found = [recheck_data(data) for data in proofs(Program.from_yaml(text)) if data["proves"]["rule"] == "rule"]
    assert [said.why_not for said in found] == [""]


TIGHT = [
    ("{type: string, maxLength: 0}", "$i == ''"),
    ("{type: string, maxLength: 0}", "$i != 'x'"),
    ("{type: string, maxLength: 0}", "'abc' contains $i"),
    ("{type: object, properties: {a: {type: string, maxLength: 0}}, required: [a]}", "$i.a == ''"),
    ("{type: string, enum: [abc, d], maxLength: 1}", "$i contains 'd'"),
    ("{type: integer, minimum: 3, maximum: 3}", "$i == 3"),
]


@pytest.mark.parametrize(("spec", "holds"), TIGHT)
def test_a_type_of_one_value_is_known_to_be_of_one_value(spec: str, holds: str) -> None:
    program = Program.from_yaml(f"""
inputs: {{i: {spec}}}
tools: {{pay: {{effect: write, idempotent: true}}}}
guardrails: [{{name: rule, never: {{tool: pay}}}}]
steps:
  - {{id: asked, type: condition, condition: "{holds}", then: stop, otherwise: pay}}
  - {{id: pay, type: tool, tool: pay}}
  - {{id: stop, type: end}}
""")
    found = [recheck_data(data) for data in proofs(program) if data["proves"]["rule"] == "rule"]
    assert [said.why_not for said in found] == [""]


FIRST = ("{type: string, enum: [a, ab]}", "{type: string, maxLength: 1}", "{type: string, pattern: ^a}")
SECOND = ("{type: string, maxLength: 0}", "{type: string, maxLength: 2}", "{type: string, enum: [b]}")
JOINED = ("$t + 'b' contains 'bb'", "$t + 'b' ends_with 'bb'", "'a' + $t == 'aab'", "$t + $t starts_with 'bb'")


@pytest.mark.parametrize("asked", JOINED)
def test_a_text_of_two_sources_of_which_the_last_counts_is_known_when_it_is_joined(asked: str) -> None:
    """A class of all other texts is understood by the literals beside it, also by those that no state has."""
    proved = 0
    for first, second in product(FIRST, SECOND):
        program = Program.from_yaml(f"""
language: 2
tools:
  one: {{effect: read, returns: {first}}}
  two: {{effect: read, returns: {second}}}
  pay: {{effect: write, idempotent: true}}
guardrails: [{{name: rule, never: {{tool: pay}}}}]
steps:
  - {{id: early, type: tool, tool: one, error_step: asks, output_key: t}}
  - {{id: late, type: tool, tool: two, output_key: t}}
  - {{id: asks, type: condition, condition: "{asked}", then: pay, otherwise: stop}}
  - {{id: pay, type: tool, tool: pay}}
  - {{id: stop, type: end}}
""")
        found = [recheck_data(data) for data in proofs(program) if data["proves"]["rule"] == "rule"]
        assert [said.why_not for said in found if not said.is_accepted] == [], (first, second)
        proved += len(found)
    assert proved > 2


def test_names_that_are_copied_to_and_fro_are_looked_at_once() -> None:
    """With two sources each, the ways that a value may have come double with every copy."""
    program = small(3563)
    assert [step.set for step in program.steps if step.type == "set"][2:] == [
        {"seen": "$done", "done": "$seen"},
        {"done": "$seen", "seen": "$done"},
    ]
    started = time.process_time()
    assert all(recheck_data(data).is_accepted for data in proofs(program))
    assert time.process_time() - started < 10


def test_a_policy_is_certified_with_the_program() -> None:
    policy = Policy.from_dict(
        {
            "policy": "house",
            "allow": [{"tool": "rate"}, {"tool": "pay", "when": "$args.sum <= 50"}],
            "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}],
            "waivers": [{"program": "x", "rule": "once", "reason": "none", "expiry": "2030-01-01"}],
        }
    )
    program = Program.from_dict(yaml_of(LOAN))
    report = ProgramValidator(program, [policy], certify=True).validate()
    held = {(one.name, one.policy): one for one in report.properties}
    for key in (("allow", "house"), ("at_most_once", "house"), ("never", None)):
        one = held[key]
        assert one.certify is not None, one
        data = parsed(one.certify().to_json())
        assert "waivers" not in data["policies"][0]
        assert recheck_data(data).why_not == ""


def test_a_plain_check_keeps_no_grounds() -> None:
    report = ProgramValidator(small(3)).validate()
    assert all(one.certify is None and one.evidence.certificate == () for one in report.properties)


# -- the command -------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loan.yaml").write_text(LOAN, encoding="utf-8")
    done = run("check", tmp_path / "loan.yaml", "--isolated", "--exit-zero", "--certificates", tmp_path / "proofs")
    assert "3 certificates written" in done.stderr, done.stderr
    return tmp_path / "proofs"


def test_the_command_writes_and_checks(folder: Path) -> None:
    done = run("recheck", folder)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].split() == ["program", "property", "about", "kind", "checked", "by", "verdict"]
    assert done.stdout.endswith("3 certificates: all accepted\n")
    data = json.loads(run("recheck", folder, "--output-format", "json").stdout)
    assert data["summary"] == {"certificates": 3, "accepted": 3, "refused": 0}
    assert {one["verdict"] for one in data["certificates"]} == {"accepted"}


def test_the_same_check_writes_the_same_files(folder: Path) -> None:
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    run("check", folder.parent / "loan.yaml", "--isolated", "--exit-zero", "--certificates", folder)
    assert before == {one.name: one.read_bytes() for one in folder.iterdir()}


def test_a_folder_with_other_files_is_refused(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    done = run("check", folder.parent / "loan.yaml", "--isolated", "--certificates", folder)
    assert done.exit_code == 2
    assert "holds `notes.txt`, which is no certificate" in done.stderr
    assert "was not looked at" in run("recheck", folder).stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"version": 1}',
        b'{"version": "1"}',
        b"[" * 5000,
        b'{"version": 1, "version": 1}',
        b"1e9999",
    ],
)
def test_a_damaged_file_is_refused_in_words(folder: Path, content: bytes) -> None:
    (folder / "broken.certificate.json").write_bytes(content)
    done = run("recheck", folder)
    assert done.exit_code == 1, done.output
    assert "broken.certificate.json: " in done.stdout
    assert "4 certificates: 1 certificate refused" in done.stdout


def test_nothing_to_check_again(tmp_path: Path) -> None:
    assert run("recheck", tmp_path).exit_code == 3
    assert run("recheck", tmp_path / "nowhere").exit_code == 2


def test_the_page_shows_a_certificate_that_is_accepted() -> None:
    page = (ROOT / "specs/certificates.md").read_text(encoding="utf-8")
    program, certificate = page.split("```yaml\n")[1].split("```")[0], page.split("```json\n")[1].split("```")[0]
    data = next(proofs(Program.from_dict(yaml_of(program))))
    shown = json.loads(certificate)
    assert shown == {name: data[name] for name in ("version", "proves", "parts")}
