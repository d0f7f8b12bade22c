"""Witnesses of paths: what becomes of each step stands in the script, and values are as simple as they can be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import ValidationError

from seasoned_programs import seasoned_program
from stepward.validator.engine.values.simplest import simplest
from stepward.validator.engine.witnesses.played_runs import MAX_PLAYED, MAX_RECORDS, PlayedRuns
from stepward.validator.engine.witnesses.replay import Replayer, replay
from stepward.validator.engine.witnesses.witness import CallAnswer, Witness
from stepward.vm import ExecutionVM, Policy, Program
from stepward.vm.language.types import TypeSpec, refusal
from witnessing import (
    PAY,
    REQUIRES,
    TOOLS,
    assert_not_doubted,
    build,
    check,
    only,
    path_findings,
    tool,
    witness_of,
)


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


def test_a_fallback_of_a_write_in_doubt_does_not_avoid_a_guard() -> None:
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


def test_an_argument_that_the_tool_does_not_take_is_reported_before_its_references() -> None:
    rule = {"name": "rule", "followed_by": {"first": {"step": "p"}, "then": {"tool": "pay"}}}
    tools = TOOLS | {"read": {"effect": "read", "args": {}}}
    report = check(build(tool("p", args={"x": ["$j.y"]}), inputs=None, tools=tools, guardrails=[rule]))
    assert "SW207" in {finding.code for finding in report.findings}
    (open_rule,) = [finding for finding in report.findings if finding.code == "SW408"]
    assert "`p` can't start: argument `x` is not declared" in open_rule.message
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


def test_a_violation_after_another_one_of_the_same_rule_is_confirmed() -> None:
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
    ("inputs", "steps", "starts"),
    [
        ({"s": {"type": "string", "pattern": "^(a+)+!$"}}, {"condition": f"$s == '{HARD}'"}, True),
        ({"s": {"type": "string", "pattern": "^(x+)+y$"}}, {"condition": "len($s) > 40"}, True),
        ({"s": {"type": "string", "pattern": "^(a+)+$", "default": HARD}}, {"condition": "$s == 'aa'"}, True),
        ({"s": {"type": "string"}}, {"condition": f"$s == '{HARD}'", "args": {"s": "$s"}}, False),
        ({"s": {"type": "string"}}, {"condition": "$s == 'a'", "args": {"s": HARD}}, True),
        ({"s": {"type": "string"}}, {"condition": "$s == 'a'", "set": f"'{HARD}'", "args": {"s": "$v"}}, False),
    ],
)
def test_a_pattern_on_which_python_does_not_return_is_asked(
    inputs: dict[str, Any], steps: dict[str, Any], *, starts: bool
) -> None:
    """Where no text fits the argument, the call fails, and what is behind it never starts."""
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
    found = [finding.step for finding in report.findings if finding.code in ("SW403", "SW408")]
    assert found == (["r"] if starts else [])
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


def test_an_answer_at_one_attempt_goes_before_those_at_all() -> None:
    program = build(tool("check", on_error="retry", error_step="pay", next_step="pay"), PAY, guardrails=[REQUIRES])
    witness = witness_of(check(program), "SW401")
    late = CallAnswer("check", 1, "returns", 0, attempt=3)
    assert replay(witness).confirmed
    assert not replay(replace(witness, script=(*witness.script, late))).confirmed


def test_the_machine_itself_takes_the_checker_with_its_witnesses() -> None:
    from stepward.validator import check_program

    program = build(tool("check", on_error="skip"), PAY, guardrails=[REQUIRES])
    machine = ExecutionVM({"read": lambda: 1, "pay": lambda sum: sum}, checker=check_program)
    assert machine.run_sync(program, accept=["SW401"]).status == "SUCCESS"


# -- one run for many claims -------------------------------------------------------------------------------------------


def test_claims_on_one_path_have_the_findings_of_their_own_runs_and_fewer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    play = Replayer._play

    def counted(self: Any, *parts: Any) -> Any:
        made.append("run")
        return play(self, *parts)

    def findings() -> tuple[list[str], int]:
        made.clear()
        reports = (check(Program.from_dict(one.program), *map(Policy.from_dict, one.policies)) for one in drawn)
        return [repr((report.findings, [one.verdict for one in report.properties])) for report in reports], len(made)

    drawn = [seasoned_program(seed) for seed in range(12)]
    monkeypatch.setattr(Replayer, "_play", counted)
    shared, few = findings()
    monkeypatch.setattr(PlayedRuns, "get", lambda _, witness, play: play())
    alone, many = findings()
    assert shared == alone
    assert few < many


def runs_of(*values: Any, records: int = 1) -> int:
    """How many runs are made for one witness with each of these values in its turn, as an input and as an answer."""
    witness = witness_of(check(build(tool("check", on_error="skip"), PAY, guardrails=[REQUIRES])), "SW401")
    inputs = [replace(witness, inputs={"x": value}) for value in values]
    answers = [replace(witness, script=(CallAnswer("check", 1, "returns", value),)) for value in values]
    kept, run = PlayedRuns(), Mock(return_value=Mock(records=range(records)))
    for one in (*inputs, *answers):
        kept.get(one, run)
    return int(run.call_count)


def test_a_value_that_is_only_equal_to_another_one_has_a_run_of_its_own() -> None:
    different = [1, True, 1.5, "1.5", "1", None, "None", [1], [True], [[1]], {"a": 1}, {"a": True}]
    assert runs_of(*different) == 2 * len(different)
    assert runs_of(*different, *different) == 2 * len(different)


def test_a_machine_keeps_a_bounded_number_of_runs() -> None:
    known = list(range(MAX_PLAYED))
    assert runs_of(*known, *known) == 2 * MAX_PLAYED
    assert runs_of(*known, "one more", known[0]) == 2 * (MAX_PLAYED + 2)
    assert runs_of(1, 1, records=MAX_RECORDS) == 2
    assert runs_of(1, 1, records=MAX_RECORDS + 1) == 4


def test_a_stored_run_has_its_own_visits() -> None:
    each = {"id": "each", "type": "for_each", "items": [1, 2, 3], "as": "x", "steps": [tool("look")]}
    rule = {"name": "rule", "never": {"tool": "pay"}}
    program = build(each, PAY, language=2, guardrails=[rule])
    whole = witness_of(check(program), "SW403")
    short = replace(whole, script=(CallAnswer("look", 1, "fails"),))
    replayer = Replayer(program, ())
    seen = []
    for one in (whole, short, whole, short):
        replayer.replay(one)
        seen.append({step: len(frames) for step, frames in replayer.frames().items()})
    assert seen[0] != seen[1]
    assert seen[2:] == seen[:2]


@pytest.mark.parametrize(
    ("amount", "code"),
    [({"type": "number"}, "SW405"), ({"type": "number", "minimum": 0, "maximum": 100}, "SW408"),
     ({"type": "integer"}, "SW405"), ({"type": "integer", "minimum": 0, "maximum": 100}, None)],
)  # fmt: skip
def test_the_reason_why_a_sum_would_fail_is_reported(amount: dict[str, Any], code: str | None) -> None:
    """A sum in items may have too many digits; with limits it never has. No run shows a fraction of so many digits."""
    steps = [tool("book", "book", on_error="skip"), {"id": "add", "type": "set", "set": {"total": "$total + $line"}}]
    each = {"id": "each", "type": "for_each", "items": "$lines", "as": "line", "carry": {"total": 0}, "steps": steps}
    rule = {"name": "told", "followed_by": {"first": {"tool": "book"}, "then": {"step": "tell"}}}
    data = {
        "language": 2,
        "name": "sums",
        "inputs": {"lines": {"type": "array", "items": amount, "maxItems": 5}},
        "tools": {"book": {"effect": "write", "idempotent": True}},
        "guardrails": [rule],
        "steps": [
            each,
            {"id": "tell", "type": "set", "set": {"told": "$total"}},
        ],
    }
    found = [one for one in check(Program.from_dict(data)).findings if one.code in ("SW405", "SW408")]
    assert [one.code for one in found] == ([code] if code else [])
    for one in found:
        assert "fails where `$total + $line` has over 1,000 digits" in f"{one.message} {one.help}"
        assert (one.evidence is not None and one.evidence.witness is not None) is (code == "SW405")


ASKS = {"id": "judge", "type": "llm", "prompt": "Is $order.name fine?", "allowed_outputs": ["good", "bad"]}
ADDS = {"id": "add", "type": "set", "set": {"total": "$total + $order.amount"}}
SENDS = {"id": "send", "type": "tool", "tool": "send", "args": {"to": "$order.mail.address"}}


@pytest.mark.parametrize("before", [[], [ASKS], [ADDS], [SENDS], [ASKS, ADDS], [ADDS, SENDS, ASKS]])
def test_items_without_a_type_have_what_the_steps_before_a_condition_read(before: list[dict[str, Any]]) -> None:
    """A condition that takes no branch is reached only by an item with the fields that earlier steps read."""
    which = {"id": "which", "type": "condition", "condition": "$order.kind == 'a'", "then": "last"}
    last = {"id": "last", "type": "end", "output": "$order.kind"}
    carry = {"carry": {"total": 0}} if ADDS in before else {}
    each = {"id": "each", "type": "for_each", "items": "$load.output", "as": "order", "max_items": 9, **carry}
    data = {
        "language": 2,
        "name": "orders",
        "inputs": {},
        "tools": {"load": {"effect": "read"}, "send": {"effect": "write", "idempotent": True}},
        "steps": [tool("load", "load"), {**each, "steps": [*before, which, last]}, {"id": "over", "type": "end"}],
    }
    found = check(Program.from_dict(data)).findings
    assert "SW408" not in {one.code for one in found}
    (shown,) = [one for one in found if one.code == "SW302"]
    assert shown.evidence is not None
    assert shown.evidence.witness is not None
