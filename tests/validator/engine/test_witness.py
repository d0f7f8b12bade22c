"""Witnesses: every violation that the checker calls certain is a run that the machine confirms, and nothing else is.

The random programs of `programs.py` make this a differential test between the checker and the machine.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, seed, settings

from paths import BAD
from programs import programs
from sizes import size
from stepward.validator import Finding, Report
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.validator.cli import main
from stepward.validator.engine.witnesses.replay import WitnessNotReplayed, replay
from stepward.validator.engine.witnesses.witness import Witness, WitnessRefused
from stepward.vm import ExecutionVM, Program
from witnessing import (
    FIXTURES,
    PATH_CODES,
    PAY,
    REQUIRES,
    build,
    check,
    checked,
    only,
    path_findings,
    tool,
    witness_of,
)


@pytest.fixture
def witness() -> Witness:
    return witness_of(checked(BAD / "SW401/obvious.yaml"), "SW401")


# -- the fixtures ------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_path_finding_of_a_bad_program_is_confirmed(path: Path) -> None:
    for finding in path_findings(checked(path)):
        assert finding.evidence is not None
        assert finding.evidence.witness is not None, finding.message
        assert finding.evidence.witness.claim.code == finding.code
        seen = replay(finding.evidence.witness)
        assert seen.confirmed, seen.why
        assert not finding.evidence.unconfirmed


def test_the_fixtures_have_a_confirmed_finding_of_every_code() -> None:
    found = Counter(finding.code for path in FIXTURES for finding in path_findings(checked(path)))
    assert set(found) == set(PATH_CODES)
    assert found.total() >= 30


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_witness_survives_json(path: Path, tmp_path: Path) -> None:
    for finding in path_findings(checked(path)):
        assert finding.evidence is not None
        witness = finding.evidence.witness
        assert witness is not None
        again = Witness.from_json(witness.to_json())
        assert again == witness
        assert again.to_json() == witness.to_json()
        witness.save(tmp_path / "witness.json")
        assert Witness.load(tmp_path / "witness.json") == witness


def test_what_the_check_prints_is_a_witness_file_as_it_is(tmp_path: Path) -> None:
    report = CliRunner().invoke(main, ["check", "--output-format", "json", str(BAD / "SW401/obvious.yaml")])
    (finding,) = json.loads(report.stdout)["findings"]
    assert "witness" not in json.loads(report.stdout)["properties"][0]["evidence"], "it stands with its finding"
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(finding["evidence"]["witness"]))
    done = CliRunner().invoke(main, ["replay", str(file)])
    assert done.exit_code == 0, done.output
    assert "confirmed: guardrail `screening-before-transfer` forbids `pay` to start" in done.stdout
    assert "it fails in this witness" in done.stdout


# -- what does not confirm ---------------------------------------------------------------------------------------------


def test_a_step_that_succeeds_instead_of_failing_breaks_nothing(witness: Witness) -> None:
    assert [answer.to_data() for answer in witness.script] == [{"step": "screen", "visit": 1, "does": "fails"}]
    tampered = replace(witness, script=(replace(witness.script[0], does="returns", value=""),))
    seen = replay(tampered)
    assert not seen.confirmed
    assert seen.why == "the witness has no answer for attempt 1 of `pay` at visit 1"


def test_another_input_may_take_another_path() -> None:
    witness = witness_of(checked(BAD / "SW202/one-branch.yaml"), "SW202")
    assert witness.inputs["business"] is False, "the path needs it, and it is the simplest"
    assert not replay(replace(witness, inputs={**witness.inputs, "business": True})).confirmed


def test_an_input_that_the_machine_refuses_is_reported(witness: Witness) -> None:
    with pytest.raises(WitnessNotReplayed, match="`payee`"):
        replay(replace(witness, inputs={"payee": "x", "amount": 0}))


@pytest.mark.parametrize("change", [{"rule": "another"}, {"step": "screen"}, {"code": "SW402"}, {"policy": "p"}])
def test_another_claim_is_not_confirmed(witness: Witness, change: dict[str, Any]) -> None:
    assert not replay(replace(witness, claim=replace(witness.claim, **change))).confirmed


def test_another_reference_is_not_confirmed() -> None:
    witness = witness_of(checked(BAD / "SW202/obvious.yaml"), "SW202")
    assert not replay(replace(witness, claim=replace(witness.claim, reference="$customer_id"))).confirmed


def test_a_mended_program_confirms_nothing(witness: Witness) -> None:
    data = witness.program.to_dict()
    steps = [{**step, "error_step": "failed"} if step["id"] == "screen" else step for step in data["steps"]]
    assert not replay(replace(witness, program=Program.from_dict({**data, "steps": steps}))).confirmed


# -- files that are no witness -----------------------------------------------------------------------------------------


def changed(witness: Witness, **fields: Any) -> str:
    return json.dumps({**json.loads(witness.to_json()), **fields})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"version": 2}, "`version` is not 1"),
        ({"shows": {"code": "SW101", "step": "pay", "rule": "r"}}, "no witness is about that"),
        ({"shows": {"code": "SW401", "step": "pay"}}, "`shows` has no `rule`"),
        ({"shows": {"code": "SW401", "rule": "r"}}, "`shows` has no `step`"),
        ({"script": {}}, "`script` of a witness is not a list"),
        ({"script": [{"step": "pay", "visit": 0, "does": "fails"}]}, "`visit` of `script[0]` counts from 1"),
        ({"script": [{"step": "pay", "visit": True, "does": "fails"}]}, "is not a whole number"),
        ({"script": [{"step": "pay", "visit": 1, "does": "jumps"}]}, "should be one of `returns`, `fails`"),
        ({"script": [{"step": "pay", "visit": 1, "does": "returns"}]}, "`script[0]` has no `value`"),
        ({"script": [{"step": "pay", "visit": 1, "does": "fails"}] * 2}, "two answers for visit 1 of `pay`"),
        ({"script": [3]}, "`script[0]` is no object"),
        ({"digest": "0" * 64}, "`digest` is not that of its program"),
        ({"program": {"name": "x"}}, "its program or a policy is none"),
        ({"program": {"name": "x", "steps": [{"id": "e", "type": "end"}]}}, "one of the two was changed"),
        ({"policies": [{"name": "x"}]}, "its program or a policy is none"),
        ({"max_steps": 0}, "counts from 1"),
        ({"surplus": 1}, "a field `surplus` that no witness has"),
    ],
)
def test_the_error_of_a_file_is_reported(witness: Witness, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(WitnessRefused) as caught:
        Witness.from_json(changed(witness, **fields))
    assert why in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000])
def test_the_command_refuses_what_is_no_witness(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "witness.json"
    file.write_bytes(content)
    done = CliRunner().invoke(main, ["replay", str(file)])
    assert done.exit_code == 2, done.output
    assert "is no witness" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_says_what_did_not_show(witness: Witness, tmp_path: Path) -> None:
    file = tmp_path / "witness.json"
    file.write_text(changed(witness, script=[{"step": "screen", "visit": 1, "does": "returns", "value": ""}]))
    done = CliRunner().invoke(main, ["replay", str(file)])
    assert done.exit_code == 1
    assert "not confirmed: the witness has no answer" in done.stdout
    data = json.loads(CliRunner().invoke(main, ["replay", str(file), "--output-format", "json"]).stdout)
    assert data["confirmed"] is False
    assert data["shows"]["rule"] == "screening-before-transfer"
    assert CliRunner().invoke(main, ["replay", str(tmp_path / "none.json")]).exit_code == 2


# -- a checker that lies -----------------------------------------------------------------------------------------------


def infeasible() -> Program:
    """The way past `check` takes a name that is two things at once."""
    steps = [
        {"id": "is_a", "type": "condition", "condition": "$x == 'a'", "then": "is_b", "otherwise": "check"},
        {"id": "is_b", "type": "condition", "condition": "$x == 'b'", "then": "pay", "otherwise": "check"},
        tool("check", next_step="pay"),
        PAY | {"is_terminal": True},
    ]
    return build(*steps, inputs={"x": {"type": "string"}}, guardrails=[REQUIRES])


def test_a_path_without_a_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not {"SW401", "SW901"} & {finding.code for finding in check(infeasible()).findings}
    monkeypatch.setattr(TransitionChoices, "is_certain", TransitionChoices.is_possible)
    found = {finding.code: finding for finding in check(infeasible()).findings}
    lie, said = found["SW401"], found["SW901"]
    assert lie.step == said.step == "pay", "it is never dropped, and never silent"
    assert lie.evidence is not None
    assert lie.evidence.witness is None
    assert "the machine does not confirm SW401 at `pay`" in said.message


def test_a_machine_that_breaks_takes_no_finding_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise KeyError("failed")

    monkeypatch.setattr(ExecutionVM, "run_sync", breaks)
    report = check(Program.load(BAD / "SW401/obvious.yaml"))
    assert [finding.code for finding in report.findings] == ["SW401", "SW901"]
    assert "the machine broke in a replay (KeyError: 'failed')" in report.findings[1].message


# -- where it is called ------------------------------------------------------------------------------------------------


def test_a_machine_asks_the_checker_while_its_loop_runs() -> None:
    """The replay needs an event loop, and there is one: it takes its own."""

    async def inside() -> Report:
        return check(Program.load(BAD / "SW401/obvious.yaml"))

    assert only(asyncio.run(inside()), "SW401").witness is not None


def test_a_clean_program_does_not_import_the_machine() -> None:
    from modules import loaded_after

    good = BAD.parent / "good/customer_refund.yaml"
    code = f"""
import sys
from stepward.validator.cli import main
try:
    main(["check", {str(good)!r}], standalone_mode=False)
except SystemExit:
    pass
assert not [name for name in sys.modules if name.startswith(("stepward.vm.machine", "stepward.vm.journal"))]
assert "stepward.validator.engine.witnesses.replay" not in sys.modules"""
    assert "asyncio" not in loaded_after(code)


# -- every program -----------------------------------------------------------------------------------------------------


def is_repeated(finding: Finding) -> bool:
    """An exclusive pair in a loop: the step was performed before the other one, where the machine stops the run."""
    assert finding.evidence is not None
    path = finding.evidence.path
    return finding.code == "SW406" and any(move.step == path[-1].step for move in path[:-1])


def assert_the_machine_agrees(data: dict[str, Any]) -> Counter[str]:
    report = check(Program.from_dict(data))
    said = Counter(finding.code for finding in report.findings)
    assert not said["SW901"], [finding.message for finding in report.findings if finding.code == "SW901"]
    for finding in path_findings(report):
        assert finding.evidence is not None
        confirmed = finding.evidence.witness is not None
        assert confirmed or finding.code == "SW202" or is_repeated(finding), finding
    return said


def test_the_machine_confirms_every_violation_of_random_programs() -> None:
    met: Counter[str] = Counter()

    @settings(
        max_examples=size(45, 700),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(programs())
    def run(data: dict[str, Any]) -> None:
        met.update(assert_the_machine_agrees(data))

    wanted = {"SW202", "SW401", "SW403", "SW405"}
    for number in range(6):  # one set of programs may lack one of them, six sets hardly
        seed(number)(run)()
        if wanted <= met.keys():
            return
    raise AssertionError(met)
