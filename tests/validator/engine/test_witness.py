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
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from paths import BAD
from programs import programs
from stepward.validator import Evidence, Finding, ProgramValidator, Report
from stepward.validator.analysis.ways import TransitionChoices
from stepward.validator.cli import main
from stepward.validator.engine.values.simplest import simplest
from stepward.validator.engine.witnesses.replay import Refused, replay
from stepward.validator.engine.witnesses.witness import Answer, Witness, WitnessRefused
from stepward.vm import ExecutionVM, Policy, Program
from stepward.vm.language.types import TypeSpec, refusal

GUARDRAIL_CODES = ("SW401", "SW402", "SW403", "SW404", "SW405", "SW406")
PATH_CODES = ("SW202", "SW302", "SW305", *GUARDRAIL_CODES)
FIXTURES = [
    path for code in PATH_CODES for path in sorted(BAD.glob(f"{code}/*.yaml")) if not path.name.endswith(".policy.yaml")
]
TOOLS = {
    "read": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
}


def check(program: Program, *policies: Policy) -> Report:
    return ProgramValidator(program, policies).validate()


def path_findings(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.code in PATH_CODES and finding.evidence]


def checked(path: Path) -> Report:
    policy = path.with_suffix(".policy.yaml")
    return check(Program.load(path), *([Policy.load(policy)] if policy.exists() else []))


def build(*steps: dict[str, Any], **more: Any) -> Program:
    return Program.from_dict({"name": "shop", "inputs": {}, "tools": TOOLS, **more, "steps": list(steps)})


def tool(name: str, kind: str = "read", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": kind, **more}


def only(report: Report, code: str) -> Evidence:
    (finding,) = [finding for finding in report.findings if finding.code == code]
    assert finding.evidence is not None
    return finding.evidence


def witness_of(report: Report, code: str) -> Witness:
    witness = only(report, code).witness
    assert witness is not None
    return witness


def assert_not_doubted(report: Report) -> None:
    assert [finding.message for finding in report.findings if finding.code == "SW901"] == []


@pytest.fixture
def witness() -> Witness:
    return witness_of(checked(BAD / "SW401/obvious.yaml"), "SW401")


# -- the fixtures ------------------------------------------------------------------------------------------------------


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


def test_a_step_that_succeeds_in_place_of_failing_breaks_nothing(witness: Witness) -> None:
    assert [answer.to_data() for answer in witness.script] == [{"step": "screen", "visit": 1, "does": "fails"}]
    tampered = replace(witness, script=(replace(witness.script[0], does="returns", value=""),))
    seen = replay(tampered)
    assert not seen.confirmed
    assert seen.why == "the witness has no answer for attempt 1 of `pay` at visit 1"


def test_another_input_may_take_another_way() -> None:
    witness = witness_of(checked(BAD / "SW202/one-branch.yaml"), "SW202")
    assert witness.inputs["business"] is False, "the path needs it, and it is the simplest"
    assert not replay(replace(witness, inputs={**witness.inputs, "business": True})).confirmed


def test_an_input_that_the_machine_refuses_is_said(witness: Witness) -> None:
    with pytest.raises(Refused, match="`payee`"):
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
def test_what_is_wrong_with_a_file_is_said(witness: Witness, fields: dict[str, Any], why: str) -> None:
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


# -- ways to a violation -----------------------------------------------------------------------------------------------


REQUIRES = {"name": "rule", "protects": {"tool": "pay"}, "requires": {"step": "check"}}
PAY = tool("pay", "pay", args={"sum": 1})


@pytest.mark.parametrize(
    ("guard", "does"),
    [
        ({"on_error": "skip"}, "fails"),
        ({"timeout_seconds": 900, "on_timeout": "fallback", "fallback": 0}, "times out"),
        ({"on_error": "retry", "max_retries": 2, "error_step": "pay", "next_step": "pay"}, "fails"),
    ],
)
def test_what_becomes_of_a_step_is_in_the_script(guard: dict[str, Any], does: str) -> None:
    program = build(tool("check", **guard), PAY | {"is_terminal": True}, guardrails=[REQUIRES])
    witness = witness_of(check(program), "SW401")
    assert [answer.to_data() for answer in witness.script] == [{"step": "check", "visit": 1, "does": does}]


def test_a_fallback_of_a_write_that_is_in_doubt_is_no_way_past_a_guard() -> None:
    """The run is IN_DOUBT, and no guard is passed: LANGUAGE.md, "Failure" 4."""
    tools = TOOLS | {"once": {"effect": "write", "idempotent": False}}
    timed = {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": 0}
    report = check(build(tool("check", "once", **timed), PAY, tools=tools, guardrails=[REQUIRES]))
    assert not {"SW401", "SW408", "SW901"} & {finding.code for finding in report.findings}
    part = {"id": "both", "type": "parallel", "parallel_steps": [tool("check", "once", **timed)]}
    report = check(build(part, PAY, tools=tools, guardrails=[REQUIRES]))
    assert not {"SW401", "SW408", "SW901"} & {finding.code for finding in report.findings}


def test_the_part_of_a_parallel_step_that_has_to_fail_is_found() -> None:
    parts = [tool("other"), tool("check", on_error="skip")]
    program = build({"id": "both", "type": "parallel", "parallel_steps": parts}, PAY, guardrails=[REQUIRES])
    witness = witness_of(check(program), "SW401")
    assert {answer.step: answer.does for answer in witness.script} == {"other": "returns", "check": "fails"}


def test_a_rule_that_another_one_hides_is_confirmed_with_that_set_aside() -> None:
    rules = [{"name": "first", "never": {"tool": "read"}}, REQUIRES, {"name": "last", "never": {"step": "pay"}}]
    report = check(build(tool("check", on_error="skip"), PAY, guardrails=rules))
    found = {finding.message.split("`")[-2]: finding.evidence for finding in path_findings(report)}
    assert all(evidence is not None and evidence.witness is not None for evidence in found.values())
    assert found.keys() == {"first", "rule", "last"}
    evidence = found["last"]
    assert evidence is not None
    assert evidence.witness is not None
    assert replay(evidence.witness).set_aside == ("first", "rule")


def test_a_rule_that_cannot_be_read_keeps_no_witness_away() -> None:
    rules = [
        {"name": "unread", "never": {"tool": "pay"}, "when": "$n == ("},
        {"name": "first", "never": {"tool": "read"}},
        {"name": "last", "never": {"tool": "pay"}, "when": "$n > 5"},
    ]
    program = build(tool("r"), PAY, inputs={"n": {"type": "integer"}}, guardrails=rules)
    found = {finding.step: finding.evidence for finding in path_findings(check(program))}
    assert found.keys() == {"r", "pay"}
    for evidence, others in ((found["r"], ("unread",)), (found["pay"], ("unread", "first"))):
        assert evidence is not None
        assert evidence.witness is not None
        assert replay(evidence.witness).set_aside == others


def test_a_rule_hidden_by_another_one_is_not_doubted_where_its_step_never_starts() -> None:
    """What the run comes to without the other rule is told by SW207."""
    rules = [{"name": "m", "never": {"step": "p"}, "when": "$nope > 900"}, {"name": "k", "never": {"step": "q"}}]
    steps = (tool("p"), tool("q", "pay", args={"sum": "$a + 5"}))
    report = check(build(*steps, inputs=None, guardrails=rules))
    assert {finding.code for finding in report.findings} >= {"SW207", "SW403"}
    assert_not_doubted(report)


SECRET = {"s": {"type": "string", "enum": ["a"], "sensitive": True}}


def test_what_a_secret_does_to_a_message_makes_nobody_doubt_a_finding() -> None:
    """`c[sensitive]n't st[sensitive]rt` is what is left of the message where the secret is `a`."""
    program = build(
        tool("q", "pay", args={"sum": "$s"}),
        tool("r"),
        inputs=SECRET,
        guardrails=[{"name": "rule", "never": {"step": "r"}}],
    )
    report = check(program)
    assert {finding.code for finding in report.findings} == {"SW207", "SW403"}
    assert_not_doubted(report)


def test_what_a_secret_does_to_a_message_keeps_no_witness_away() -> None:
    secret = {"s": {"type": "string", "enum": ["undefined", "x"], "sensitive": True}}
    steps = [
        {"id": "c", "type": "condition", "condition": "$s == 'x'", "then": "v", "otherwise": "q"},
        {"id": "v", "type": "set", "set": {"w": 1}, "next_step": "q"},
        tool("q", "pay", args={"sum": "$w"}),
    ]
    witness = witness_of(check(build(*steps, inputs=secret)), "SW202")
    assert replay(witness).why == "`q` can't start: `$w` is [sensitive]"


def test_an_argument_that_the_tool_does_not_take_is_told_before_what_it_reads() -> None:
    rule = {"name": "rule", "followed_by": {"first": {"step": "p"}, "then": {"tool": "pay"}}}
    tools = TOOLS | {"read": {"effect": "read", "args": {}}}
    report = check(build(tool("p", args={"x": ["$j.y"]}), inputs=None, tools=tools, guardrails=[rule]))
    assert {"SW207", "SW405"} <= {finding.code for finding in report.findings}
    assert_not_doubted(report)


@pytest.mark.parametrize(
    ("declared", "given"), [({}, {"x": 1}), ({"y": {"type": "integer"}}, {}), ({"y": {"type": "integer"}}, {"y": None})]
)
def test_a_call_with_arguments_that_its_tool_does_not_take_never_starts(
    declared: dict[str, Any], given: dict[str, Any]
) -> None:
    rule = {"name": "rule", "followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}}
    tools = {"read": {"effect": "read"}, "book": {"effect": "read", "args": declared}}
    steps = [tool("p"), tool("q", "book", args=given, on_error="skip"), {"id": "e", "type": "end"}]
    assert replay(witness_of(check(build(*steps, tools=tools, guardrails=[rule])), "SW405")).confirmed


def test_a_place_behind_another_one_of_the_same_rule_is_confirmed() -> None:
    steps = [tool("pay_a", "pay", args={"sum": 1}), tool("pay_b", "pay", args={"sum": 1})]
    report = check(build(*steps, guardrails=[{"name": "rule", "never": {"tool": "pay"}}]))
    assert [finding.step for finding in path_findings(report)] == ["pay_a", "pay_b"]
    for finding in path_findings(report):
        assert finding.evidence is not None
        assert finding.evidence.witness is not None


def test_a_parallel_step_and_a_part_of_it_exclude_one_another() -> None:
    """Whoever starts the one has performed the other: the machine let it pass until this search found it."""
    rule = {"name": "rule", "exclusive": [{"step": "both"}, {"effect": "write"}]}
    parts = [tool("check"), PAY]
    report = check(build({"id": "both", "type": "parallel", "parallel_steps": parts}, guardrails=[rule]))
    seen = replay(witness_of(report, "SW406"))
    assert seen.why == "guardrail `rule` forbids `pay` to start: what it excludes was performed"


def test_a_third_performance_is_confirmed_by_the_pair_that_it_is_one_of() -> None:
    parts = [tool("one", "pay", args={"sum": 1}), tool("two", "pay", args={"sum": 1})]
    steps = [{"id": "both", "type": "parallel", "parallel_steps": parts}, PAY]
    report = check(build(*steps, guardrails=[{"name": "rule", "at_most_once": {"tool": "pay"}}]))
    assert [finding.step for finding in path_findings(report)] == ["both", "pay"]
    evidence = path_findings(report)[1].evidence
    assert evidence is not None
    assert evidence.witness is not None
    assert replay(evidence.witness).set_aside == ("rule at other steps",)


def test_a_run_that_is_cut_off_owes_what_should_have_followed() -> None:
    rule = {"name": "rule", "followed_by": {"first": {"step": "take"}, "then": {"step": "give"}}, "ends": "any"}
    report = check(build(tool("take"), tool("work"), tool("give"), guardrails=[rule]))
    found = [finding for finding in path_findings(report) if finding.step == "work"]
    evidence = found[0].evidence
    assert evidence is not None
    assert evidence.witness is not None
    seen = replay(evidence.witness)
    assert (seen.run.status, seen.run.step) in {("BUDGET_EXCEEDED", "work"), ("FAILED", "work")}


def test_a_policy_and_its_allow_list_are_in_the_witness() -> None:
    policy = Policy.from_dict({"policy": "desk", "applies_to": ["shop"], "allow": ["read"]})
    report = check(build(tool("check"), PAY), policy)
    witness = witness_of(report, "SW403")
    assert (witness.claim.rule, witness.claim.policy) == ("allow", "desk")
    assert replay(Witness.from_json(witness.to_json())).confirmed


def test_an_expired_waiver_waives_nothing_in_a_replay() -> None:
    waiver = {"program": "shop", "rule": "rule", "reason": "soon", "expiry": "2026-02-01"}
    policy = Policy.from_dict({"policy": "desk", "guardrails": [REQUIRES], "waivers": [waiver]})
    report = check(build(tool("check", on_error="skip"), PAY), policy)
    assert witness_of(report, "SW401").policies[0].waivers == ()


def test_values_are_the_simplest_that_the_machine_takes() -> None:
    inputs = {
        "count": {"type": "integer", "minimum": 3},
        "code": {"type": "string", "pattern": "^ORD-[0-9]{3}$"},
        "kind": {"enum": ["b", "a"]},
        "free": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string"}},
        "order": {"type": "object", "properties": {"total": {"type": "number", "minimum": 0.5}}, "required": ["total"]},
        "given": {"type": "string", "default": "x"},
    }
    program = build(tool("check", on_error="skip"), PAY, inputs=inputs, guardrails=[REQUIRES])
    witness = witness_of(check(program), "SW401")
    assert json.loads(witness.to_json())["inputs"] == {
        "count": 3,
        "code": "ORD-000",
        "kind": "b",
        "free": "",
        "list": [],
        "order": {"total": 0.5},
        "given": "",
    }


def test_values_are_varied_where_a_condition_on_the_path_needs_it() -> None:
    steps = [
        {"id": "is_large", "type": "condition", "condition": "$amount > 500", "then": "show", "otherwise": "name_it"},
        {"id": "name_it", "type": "set", "set": {"name": "'x'"}, "next_step": "show"},
        {"id": "show", "type": "end", "output": "$name"},
    ]
    report = check(build(*steps, inputs={"amount": {"type": "integer"}}))
    assert witness_of(report, "SW202").inputs == {"amount": 501}


ORDER = {"type": "object", "properties": {"open": {"type": "boolean"}, "tax": {"type": "integer", "minimum": 3}}}


@pytest.mark.parametrize("reads", ["$order.open", "$look.output.open"])
def test_what_is_known_of_an_output_is_known_by_each_of_its_names(reads: str) -> None:
    """Its fields are tracked by the name that is read; the values of all go into one answer."""
    steps = [
        tool("look", output_key="order"),
        {"id": "add", "type": "set", "set": {"sum": "$base + $order.tax"}},
        {"id": "c", "type": "condition", "condition": f"{reads} == true", "then": "pay", "otherwise": "end"},
        tool("pay", "pay", args={"sum": "$sum"}, is_terminal=True),
        {"id": "end", "type": "end"},
    ]
    tools = TOOLS | {"read": {"effect": "read", "returns": ORDER | {"required": ["open", "tax"]}}}
    rule = {"name": "rule", "never": {"tool": "pay"}, "when": "$args.sum > 10"}
    inputs = {"base": {"type": "integer", "minimum": 0}}
    witness = witness_of(check(build(*steps, tools=tools, inputs=inputs, guardrails=[rule])), "SW403")
    (answer,) = [answer for answer in witness.script if answer.step == "look"]
    assert answer.value["open"] is True
    assert witness.inputs["base"] + answer.value["tax"] == 11


@pytest.mark.parametrize("reads", ["$seats.one", "$both.output.one", "$one.output"])
def test_a_part_of_a_parallel_step_answers_what_is_read_of_the_whole(reads: str) -> None:
    part = {"id": "both", "type": "parallel", "output_key": "seats", "parallel_steps": [tool("one"), tool("two")]}
    is_yes = {"id": "c", "type": "condition", "condition": f"{reads} == 'yes'", "then": "pay", "otherwise": "end"}
    steps = [part, is_yes, PAY | {"is_terminal": True}, {"id": "end", "type": "end"}]
    tools = TOOLS | {"read": {"effect": "read", "returns": {"type": "string", "enum": ["no", "yes"]}}}
    rule = {"name": "rule", "never": {"tool": "pay"}}
    witness = witness_of(check(build(*steps, tools=tools, guardrails=[rule])), "SW403")
    assert {answer.step: answer.value for answer in witness.script} == {"one": "yes", "two": "no"}


HARD = "a" * 40 + "!"


@pytest.mark.parametrize(
    ("inputs", "steps"),
    [
        ({"s": {"type": "string", "pattern": "^(a+)+!$"}}, {"condition": f"$s == '{HARD}'"}),
        ({"s": {"type": "string", "pattern": "^(x+)+y$"}}, {"condition": "len($s) > 40"}),
        ({"s": {"type": "string", "pattern": "^(a+)+$", "default": HARD}}, {"condition": "$s == 'aa'"}),
        ({"s": {"type": "string"}}, {"condition": f"$s == '{HARD}'", "args": {"s": "$s"}}),
        ({"s": {"type": "string"}}, {"condition": "$s == 'a'", "args": {"s": HARD}}),
        ({"s": {"type": "string"}}, {"condition": "$s == 'a'", "set": f"'{HARD}'", "args": {"s": "$v"}}),
    ],
)
def test_a_pattern_on_which_python_does_not_come_back_is_asked(inputs: dict[str, Any], steps: dict[str, Any]) -> None:
    tools = {"book": {"effect": "read", "args": {"s": {"type": "string", "pattern": "^(a+)+$"}}}, **TOOLS}
    program = build(
        {"id": "c", "type": "condition", "condition": steps["condition"], "then": "v", "otherwise": "e"},
        {"id": "v", "type": "set", "set": {"v": steps.get("set", 1)}, "next_step": "q"},
        tool("q", *(["book"] if "args" in steps else []), args=steps.get("args", {}), next_step="r"),
        tool("r", next_step="e"),
        {"id": "e", "type": "end"},
        inputs=inputs,
        tools=tools,
        guardrails=[{"name": "rule", "never": {"step": "r"}}],
    )
    report = check(program)
    assert [finding.step for finding in report.findings if finding.code in ("SW403", "SW408")] == ["r"]
    assert_not_doubted(report)


def test_a_type_without_values_makes_no_witness_and_no_accusation() -> None:
    inputs = {"none": {"type": "string", "pattern": r"^\Bx$"}}
    report = check(build(tool("check", on_error="skip"), PAY, inputs=inputs, guardrails=[REQUIRES]))
    evidence = only(report, "SW401")
    assert evidence.witness is None
    assert not evidence.unconfirmed


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", "string", "boolean", "array", "object", "null"])},
        optional={
            "minimum": st.integers(-5, 5),
            "maximum": st.integers(5, 9),
            "pattern": st.sampled_from(["^a+$", "[0-9]{4}-[A-Z]", r"\d+\.\d\d", "^(x|yy)$", "[^a-z]", r"^\w+@\w+$"]),
            "enum": st.just(["q", 7, True, None]),
        },
    )
)
def test_a_simplest_value_is_of_its_type(data: dict[str, Any]) -> None:
    try:
        spec = TypeSpec.model_validate(data)
    except ValidationError:
        reject()  # no value of the enum is of the type
    values = simplest(spec)
    assert all(refusal(value, spec) is None for value in values)
    assert values or "enum" in data


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


def test_a_path_that_is_not_real_is_said_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
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
        max_examples=700, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(programs())
    def run(data: dict[str, Any]) -> None:
        met.update(assert_the_machine_agrees(data))

    wanted = {"SW202", "SW401", "SW403", "SW405"}
    for _ in range(3):  # chance may pass one of them by, but hardly three times
        run()
        if wanted <= met.keys():
            return
    raise AssertionError(met)


def test_an_answer_at_one_attempt_goes_before_those_at_all() -> None:
    program = build(tool("check", on_error="retry", error_step="pay", next_step="pay"), PAY, guardrails=[REQUIRES])
    witness = witness_of(check(program), "SW401")
    late = Answer("check", 1, "returns", 0, attempt=3)
    assert replay(witness).confirmed
    assert not replay(replace(witness, script=(*witness.script, late))).confirmed


def test_the_machine_itself_takes_the_checker_with_its_witnesses() -> None:
    from stepward.validator import check_program

    program = build(tool("check", on_error="skip"), PAY, guardrails=[REQUIRES])
    machine = ExecutionVM({"read": lambda: 1, "pay": lambda sum: sum}, checker=check_program)
    assert machine.run_sync(program, accept=["SW401"]).status == "SUCCESS"
