"""Fast: what single rules say, beyond their fixtures; and what the validator promises of a report."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paths import PROGRAMS
from stepward.validator import ProgramValidator, Report, Severity, Verdict, assert_valid
from stepward.validator.analysis.product import Exploration, explore
from stepward.validator.engine import guardrails
from stepward.vm import Policy, PolicyError, Program, ProgramError

TOOLS = {
    "look": {"effect": "read", "args": {"id": {"type": "integer"}}, "returns": {"type": "string"}},
    "pay": {"effect": "write", "idempotent": False, "returns": {"type": "string"}},
}
BASE: dict[str, Any] = {"name": "p", "language": 1, "inputs": {"id": {"type": "integer"}}, "tools": TOOLS}
TODAY = datetime.date(2026, 11, 21)


def check(steps: list[dict[str, Any]], *policies: dict[str, Any], **fields: Any) -> Report:
    """Return the report on a program, without the warning that it has no use for all inputs and tools of `BASE`."""
    program = Program.from_dict({**BASE, **fields, "steps": steps})
    report = ProgramValidator(program, [Policy.from_dict(policy) for policy in policies], today=TODAY).validate()
    return replace(report, findings=tuple(one for one in report.findings if one.code != "SW212"))


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def look(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "look", "args": {"id": "$id"}, **fields}


def test_a_run_may_be_cancelled_before_a_visit_that_is_passed_by() -> None:
    """No budget ends a run there, as a witness would have it: so it is not proved, and no more is said."""
    rule = {"name": "r", "followed_by": {"first": {"step": "first"}, "then": {"step": "last"}}}
    steps = [look("first", max_visits=1, next_step="first", error_step="last"), look("last")]
    for ends, said in ({"ends": "any"}, ["SW408"]), ({}, []):
        assert [code for code in codes(check(steps, guardrails=[rule | ends])) if code.startswith("SW4")] == said


def test_a_round_of_a_parallel_step_makes_nothing_again_that_was_skipped() -> None:
    """A run just affords it: three rounds of one call, beside one that fails and is skipped in the first."""
    both = [
        {"id": "hint", "type": "tool", "tool": "look", "on_error": "skip"},
        {"id": "send", "type": "tool", "tool": "look"},
    ]
    steps = [
        {"id": "both", "type": "parallel", "parallel_steps": both, "on_error": "retry", "error_step": "asked"},
        {"id": "done", "type": "end"},
        {"id": "asked", "type": "condition", "condition": "defined($hint.error)", "then": "bad", "otherwise": "done"},
        {"id": "bad", "type": "end", "outcome": "failure"},
    ]
    rule = {"name": "r", "never": {"step": "bad"}}
    for most, said in ((8, []), (9, ["SW403"])):
        report = check(steps, guardrails=[rule], max_steps=most, tools={"look": {"effect": "read"}})
        assert [code for code in codes(report) if code == "SW403"] == said


def test_a_clean_program_has_no_finding_and_says_so() -> None:
    report = check([look("a"), {"id": "b", "type": "end"}])
    assert report.ok
    assert report.findings == ()


def test_findings_of_a_program_built_in_code_say_the_place_without_a_span() -> None:
    (finding,) = check([look("a", next_step="nowhere")]).findings
    assert finding.span is None
    assert finding.place.text() == "steps[0].next_step"
    assert finding.file == "<p>"


def test_findings_come_in_the_order_of_the_text() -> None:
    text = """
name: p
inputs: {}
steps:
  - {id: a, type: llm, prompt: "$x $y", next_step: gone}
  - {id: a, type: llm, prompt: hello}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    spans = [finding.span for finding in report.findings]
    assert spans == sorted(spans, key=lambda span: (span.line, span.column) if span else (0, 0))
    assert set(codes(report)) >= {"SW201", "SW101", "SW005"}


def test_the_machine_room_decides_names_in_one_order() -> None:
    """After a step's id, `.output` is the step's, also where a variable of that name has such a field."""
    steps = [
        {"id": "a", "type": "llm", "prompt": "hi", "output_key": "a", "returns": {"type": "object"}},
        {"id": "c", "type": "condition", "condition": "$a.output.x == 1 or $a.x == 1", "then": "e", "otherwise": "f"},
        {"id": "e", "type": "end"},
        {"id": "f", "type": "end", "outcome": "failure"},
    ]
    assert set(codes(check(steps))) == {"SW202"}  # fields that no type requires


@pytest.mark.parametrize(("on_error", "doubts"), [("skip", ["SW006", "SW202"]), ("fail", ["SW006"])])
def test_an_input_is_undefined_where_a_call_of_its_name_was_skipped(on_error: str, doubts: list[str]) -> None:
    steps = [
        {"id": "ask", "type": "tool", "tool": "get", "output_key": "v", "on_error": on_error},
        {"id": "say", "type": "llm", "prompt": "of $v"},
    ]
    found = check(steps, inputs={"v": {"type": "string"}}, tools={"get": {"effect": "read"}})
    assert sorted(set(codes(found))) == doubts


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"on_error": "skip", "error_step": "e"}, "SW002"),
        ({"next_step": "e", "is_terminal": True}, "SW002"),
        ({"outcome": "failure"}, "SW002"),
        ({"on_timeout": "fallback", "timeout_seconds": 1}, "SW002"),
        ({"on_timeout": "fallback", "fallback": "x"}, "SW002"),
        ({"fallback": "x"}, "SW002"),
        ({"timeout_seconds": 1, "on_timeout": "fallback", "fallback": 3}, "SW203"),
    ],
)
def test_contradicting_fields_are_reported(fields: dict[str, Any], code: str) -> None:
    report = check([look("a", **fields), {"id": "e", "type": "end", "outcome": "failure"}])
    assert code in codes(report)


def test_a_condition_that_constants_decide_leaves_the_other_branch_out_of_proofs() -> None:
    rule = {"name": "r", "protects": {"tool": "pay"}, "requires": {"step": "a"}}
    steps = [
        {"id": "c", "type": "condition", "condition": "1 > 2", "then": "p", "otherwise": "a"},
        look("a", next_step="p"),
        {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True},
    ]
    report = check(steps, guardrails=[rule])
    assert codes(report) == ["SW303"]
    assert {prop.verdict for prop in report.properties} == {Verdict.PROVED}


def told(report: Report, code: str) -> list[tuple[str | None, str]]:
    """Return the step and the first half of the message of each finding of a code."""
    return [(one.step, one.message.partition(":")[0]) for one in report.findings if one.code == code]


def test_infeasible_steps_are_reported_at_the_first_step_of_each_region() -> None:
    tail = [look(f"t{number}", next_step=f"t{number + 1}") for number in range(19)]
    steps = [
        {"id": "c", "type": "condition", "cases": [{"when": "2 > 1", "then": "d"}], "otherwise": "t0"},
        {"id": "d", "type": "condition", "cases": [{"when": "2 > 1", "then": "end"}], "otherwise": "x"},
        *tail,
        look("t19", next_step="y"),
        look("x", next_step="y"),
        look("y", is_terminal=True),
        {"id": "end", "type": "end"},
    ]
    assert told(check(steps), "SW103") == [
        ("t0", "no run gets to `t0`, nor to the 20 steps after it"),
        ("x", "no run gets to `x`"),
    ], "each step is counted once"
    steps[-3]["is_terminal"] = True
    del steps[-3]["next_step"]
    assert told(check(steps), "SW103")[1] == ("x", "no run gets to `x`")


def test_a_constant_condition_names_what_no_run_gets_to_for_it_and_nothing_else_does() -> None:
    steps = [
        {"id": "c", "type": "condition", "condition": "1 > 2", "then": "x", "otherwise": "d"},
        {"id": "d", "type": "condition", "condition": "2 > 1", "then": "end", "otherwise": "z"},
        look("x", next_step="y"),
        look("y", next_step="z"),
        look("z", is_terminal=True),
        {"id": "end", "type": "end"},
    ]
    said = [(one.code, one.step, one.message.partition(", and ")[2]) for one in check(steps).findings]
    lost = "no run gets to `x`, nor to the 2 steps after it"
    assert said == [("SW303", "c", lost), ("SW303", "d", lost)]
    steps[1] = {"id": "d", "type": "condition", "cases": [{"when": "2 > 1", "then": "end"}], "otherwise": "z"}
    assert [finding.code for finding in check(steps).findings] == ["SW303", "SW103"], "one of two causes is no other's"


def test_unreachable_steps_are_reported_at_the_first_step_of_each_region() -> None:
    end = {"id": "end", "type": "end"}
    steps = [end, look("b", next_step="c"), look("a", next_step="b"), look("c", next_step="b"), look("d")]
    assert told(check(steps, max_steps=9), "SW102") == [
        ("a", "no path leads to step `a`, nor to the 2 steps after it"),
        ("d", "no path leads to step `d`"),
    ], "a loop that is entered from `a` has no first step of its own"
    steps = [end, look("a", next_step="b"), look("b", next_step="a")]
    assert told(check(steps, max_steps=9), "SW102") == [("a", "no path leads to step `a`, nor to `b` after it")]


NO_VALUE = [
    ({"type": "integer", "minimum": 5, "maximum": 3}, "", "no number is at least 5 and at most 3"),
    ({"type": ["number", "null"], "minimum": 0.5, "maximum": 0.25}, "", "no number is at least 0.5 and at most 0.25"),
    ({"type": "integer", "minimum": 2.5, "maximum": 2.75}, "", "no whole number is at least 2.5"),
    ({"type": "string", "enum": [1, 2]}, "", "no value of its `enum` is of this type: it must be a string, not `1`"),
    ({"enum": ["abc"], "maxLength": 2}, "", "it must have at most 2 characters"),
    ({"type": "object", "required": ["y"], "additionalProperties": False}, "", "`y` is required, and"),
    ({"type": "array", "items": {"minimum": 2, "maximum": 1}}, ".items", "no number is"),
    ({"properties": {"x": {"enum": [1], "type": "null"}}}, ".properties.x", "it must be null"),
    ({"additionalProperties": {"minimum": 2, "maximum": 1}}, ".additionalProperties", "no number is"),
]


@pytest.mark.parametrize(("spec", "place", "why"), NO_VALUE)
def test_a_type_that_no_value_is_of_is_refused_wherever_it_stands(spec: dict[str, Any], place: str, why: str) -> None:
    """Behind it nothing happens, so that every rule would be proved."""
    tool = {"effect": "read", "args": {"q": spec}, "returns": spec}
    llm = {"type": "llm", "prompt": "?", "returns": spec}
    steps = [{"id": "a", **llm}, {"id": "p", "type": "parallel", "parallel_steps": [{"id": "b", **llm}]}]
    with pytest.raises(ProgramError) as refused:
        check(steps, inputs={"i": spec}, tools={"t": tool})
    owners = ["inputs.i", "tools.t.args.q", "tools.t.returns", "steps[0].returns", "steps[1].parallel_steps[0].returns"]
    assert {problem.code for problem in refused.value.problems} == {"SW002"}
    assert [problem.place.text() for problem in refused.value.problems] == [f"{owner}{place}" for owner in owners]
    assert all(why in problem.message for problem in refused.value.problems)
    with pytest.raises(PolicyError, match="SW002") as refusing:
        Policy.from_dict({"policy": "p", "tools": {"t": {"returns": spec}}})
    assert [problem.place.text() for problem in refusing.value.problems] == [f"tools.t.returns{place}"]


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "integer", "minimum": 3, "maximum": 3},
        {"type": "number", "minimum": 2.5, "maximum": 2.75},
        {"type": ["integer", "null"], "minimum": 2.5, "maximum": 2.75},
        {"type": "string", "enum": ["a", None]},
        {"type": "object", "required": ["y"]},
        {"properties": {"y": {}}, "required": ["y"], "additionalProperties": False},
    ],
)
def test_a_type_that_some_value_is_of_is_not(spec: dict[str, Any]) -> None:
    assert codes(check([{"id": "e", "type": "end"}], inputs={"i": spec})) == []


def test_an_allowed_output_that_no_reply_can_be_is_reported() -> None:
    llm = {"type": "llm", "prompt": "?"}
    part = {"id": "b", **llm, "allowed_outputs": ["\u00a0c", "d e"]}
    steps = [
        {"id": "a", **llm, "allowed_outputs": [" yes", "no", "", " "], "output_key": "r"},
        {"id": "p", "type": "parallel", "parallel_steps": [part]},
    ]
    assert [(one.code, one.place.text(), one.help) for one in check(steps).findings] == [
        ("SW002", "steps[0].allowed_outputs[0]", "write `yes`"),
        ("SW002", "steps[0].allowed_outputs[3]", "remove it"),
        ("SW002", "steps[1].parallel_steps[0].allowed_outputs[0]", "write `c`"),
    ]


def test_a_path_over_budget_is_no_violation() -> None:
    rule = {"name": "r", "never": {"tool": "pay"}}
    steps = [look("a"), look("b"), {"id": "p", "type": "tool", "tool": "pay"}]
    assert codes(check(steps, guardrails=[rule])) == ["SW403"]
    assert codes(check(steps, guardrails=[rule], max_steps=2)) == ["SW601"]


POLICY: dict[str, Any] = {
    "policy": "house",
    "guardrails": [{"name": "look-first", "protects": {"tool": "pay"}, "requires": {"tool": "look"}}],
}
UNCHECKED = [{"id": "p", "type": "tool", "tool": "pay"}]


def test_a_rule_of_a_policy_holds_in_every_program() -> None:
    (finding,) = check(UNCHECKED, POLICY).findings
    assert finding.code == "SW401"
    assert str(finding.policy) == "house/look-first"
    assert "policy `house`" in finding.message


def test_a_waiver_lifts_a_rule_until_its_day_and_no_longer() -> None:
    waiver = {"program": "p", "rule": "look-first", "reason": "moving house"}
    assert codes(check(UNCHECKED, {**POLICY, "waivers": [{**waiver, "expiry": "2026-11-21"}]})) == []
    (late,) = check(UNCHECKED, {**POLICY, "waivers": [{**waiver, "expiry": "2026-11-20"}]}).findings
    assert "expired on 2026-11-20" in late.message
    assert codes(check(UNCHECKED, {**POLICY, "waivers": [{**waiver, "program": "q", "expiry": "2027-01-01"}]})) == [
        "SW401"
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool", "tool": "pay"},
        {"type": "llm", "prompt": "?"},
        {"type": "set", "set": {"x": "1"}},
        {"type": "condition", "condition": "$id > 1", "then": "e", "otherwise": "e"},
        {"type": "parallel", "parallel_steps": [{"id": "q", "type": "llm", "prompt": "?"}]},
        {"type": "end"},
    ],
)
def test_a_rule_may_ask_for_arguments_of_any_step(part: dict[str, Any]) -> None:
    """Only calls of tools have some; what is asked of other steps is undefined. `$args` alone means nothing."""
    steps = [{"id": "p", **part}, {"id": "e", "type": "end"}]

    def said(when: str) -> set[str]:
        rule = {"name": "r", "never": {"step": "p"}, "when": when}
        return {code for code in codes(check(steps, guardrails=[rule])) if code.startswith("SW4")}

    assert said("not defined($args.nothing)") == {"SW403"}
    assert said("defined($args.nothing)") == set()
    for when in ("defined($args)", "not defined($args)"):
        assert said(when) in ({"SW403"}, {"SW408"}), "a gate fails closed"


def test_waived_findings_are_listed_with_their_reasons() -> None:
    waiver = {"program": "p", "rule": "look-first", "reason": "moving house"}
    waivers = [{**waiver, "expiry": "2026-11-20"}, {**waiver, "expiry": "2026-12-01"}]
    (told,) = check(UNCHECKED, {**POLICY, "waivers": waivers}).waived
    assert (told.code, str(told.policy), told.step) == ("SW401", "house/look-first", "p")
    assert told.waiver == "moving house (until 2026-12-01)"
    assert "expired" not in told.message, "of two waivers the one that holds counts"


def test_a_policy_speaks_only_of_the_programs_that_it_names() -> None:
    assert codes(check(UNCHECKED, {**POLICY, "applies_to": ["other*"]})) == []
    assert codes(check(UNCHECKED, {**POLICY, "applies_to": ["p*"]})) == ["SW401"]


def test_a_tool_off_the_allow_list_is_forbidden() -> None:
    report = check(UNCHECKED, {"policy": "house", "allow": ["look"]})
    assert codes(report) == ["SW403"]
    assert codes(check(UNCHECKED, {"policy": "house", "allow": ["look", "pay"]})) == []


def test_a_tool_on_the_allow_list_is_forbidden_with_other_arguments() -> None:
    policy = {"policy": "house", "allow": ["look", {"tool": "pay", "when": "$args.x > 1"}]}
    assert codes(check([UNCHECKED[0] | {"args": {"x": 2}}], policy)) == []
    (without,) = check(UNCHECKED, policy).findings
    (low,) = check([UNCHECKED[0] | {"args": {"x": 1}}], policy).findings
    assert without.code == low.code == "SW403"
    words = "`p` can start with arguments that are not allowed: `$args.x > 1` does not hold"
    assert low.message == f"{words} (guardrail `allow` of policy `house`)"


def test_a_policy_wins_where_the_manifest_claims_less() -> None:
    facts = {"policy": "house", "tools": {"look": {"effect": "write", "idempotent": False}}}
    report = check([look("a", on_error="retry")], facts)
    assert codes(report) == ["SW503", "SW409"]


def test_facts_of_a_policy_fill_a_missing_manifest() -> None:
    facts = {"policy": "house", "tools": {"look": {"effect": "read", "args": {"id": {"type": "string"}}}}}
    program = Program.from_dict({"name": "p", "inputs": BASE["inputs"], "steps": [look("a")]})
    report = ProgramValidator(program, [Policy.from_dict(facts)], today=TODAY).validate()
    assert codes(report) == ["SW207"]


def test_a_policy_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(PolicyError, match="unknown field `guardrail`"):
        Policy.from_dict({"policy": "house", "guardrail": []})
    with pytest.raises(PolicyError, match="SW301"):
        Policy.from_dict({"policy": "house", "allow": [{"tool": "pay", "when": "$args.x >"}]})


def test_assert_valid_passes_a_good_program_and_tells_all_about_a_bad_one() -> None:
    assert_valid({**BASE, "steps": [look("a")]})
    with pytest.raises(AssertionError, match=r"error\[SW101\].*\n.*steps\[0\].next_step"):
        assert_valid({**BASE, "steps": [look("a", next_step="b")]})
    with pytest.raises(AssertionError, match="not a program"):
        assert_valid({"steps": []})
    warned = {"steps": [{"id": "a", "type": "llm", "prompt": "$q"}]}
    assert_valid(warned)
    with pytest.raises(AssertionError, match="SW210"):
        assert_valid(warned, allow_warnings=False)


def test_assert_valid_shows_file_line_path_and_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a program from a file, by its path or loaded, also where it can't be read."""
    monkeypatch.chdir(PROGRAMS / "bad/SW401")
    expected = Path("gold-bonus.yaml.out").read_text(encoding="utf-8").strip()
    for given in ("gold-bonus.yaml", Path("gold-bonus.yaml"), Program.load("gold-bonus.yaml")):
        with pytest.raises(AssertionError) as failed:
            assert_valid(given)
        assert str(failed.value) == f"program `gold_refund` does not pass:\n\n{expected}"
    assert "--> gold-bonus.yaml:20:10" in expected
    assert "with amount = 476" in expected
    monkeypatch.chdir(tmp_path)
    Path("odd.yaml").write_text("name: odd\nsteps:\n  - {id: a, type: tol}\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"not a program:\n\nerror\[SW002\](.*\n)+.*odd.yaml:3:19(.*\n)+3 \|   - "):
        assert_valid("odd.yaml")


def test_every_severity_is_error_or_warning() -> None:
    report = check([{"id": "a", "type": "llm", "prompt": "$q"}], inputs=None)
    assert [finding.severity for finding in report.findings] == [Severity.WARNING]
    assert report.ok


def test_a_program_is_frozen() -> None:
    program = Program.from_dict({**BASE, "steps": [look("a")]})
    with pytest.raises(ValueError, match="frozen"):
        program.name = "q"  # type: ignore[misc]
    with pytest.raises(TypeError):
        program.steps[0].args["id"] = 1  # type: ignore[union-attr]


def test_a_file_of_two_programs_is_two_programs(tmp_path: Any) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("steps: [{id: a, type: end}]\n---\nsteps: [{id: b, type: end}]\n")
    assert [program.steps[0].id for program in Program.load_all(path)] == ["a", "b"]
    with pytest.raises(ProgramError, match="2 programs here"):
        Program.load(path)


def test_two_steps_of_one_id_are_each_looked_at_as_what_they_are() -> None:
    """The second is a condition where the first is a tool: found by mutating the good programs."""
    steps = [
        look("a", output_key="x", on_error="skip"),
        {"id": "a", "type": "condition", "condition": "defined($x)", "then": "b", "otherwise": "c"},
        {"id": "b", "type": "llm", "prompt": "$x", "is_terminal": True},
        {"id": "c", "type": "end", "outcome": "failure"},
    ]
    assert codes(check(steps)) == ["SW005"]


SQUARES = [
    {"id": "first", "type": "tool", "tool": "pay", "error_step": "stop", "next_step": "init"},
    {"id": "init", "type": "set", "set": {"k": "$id"}, "next_step": "square"},
    {"id": "square", "type": "set", "set": {"k": "$k * $k"}, "max_visits": 30, "next_step": "more"},
    {"id": "more", "type": "condition", "condition": "$k < 5", "then": "square", "otherwise": "send"},
    {"id": "send", "type": "tool", "tool": "look", "args": {"id": 1}, "is_terminal": True},
    {"id": "stop", "type": "end", "outcome": "failure"},
]


def test_products_in_a_loop_are_given_up_and_not_waited_for() -> None:
    rule = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}
    inputs = {"id": {"type": "integer", "minimum": 2, "maximum": 9}}
    (found,) = [one for one in check(SQUARES, guardrails=[rule], inputs=inputs).properties if one.rule == "r"]
    assert found.verdict is Verdict.UNKNOWN
    assert "multiplied by one another" in found.evidence.reason


def cut_short(*asked: Any) -> Exploration:
    return explore(*asked, limit=0)


def test_a_search_that_was_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"name": "r", "protects": {"step": "b"}, "requires": {"step": "a"}}
    steps = [look("a"), look("b")]
    assert codes(check(steps, guardrails=[rule])) == []
    monkeypatch.setattr(guardrails, "explore_counted", cut_short)
    report = check(steps, guardrails=[rule])
    assert codes(report) == ["SW408"]
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.UNKNOWN]


STEP_WITHOUT_ARGUMENTS = [
    {"type": "tool", "tool": "touch"},
    {"type": "llm", "prompt": "Go on."},
    {"type": "set", "set": {"y": "1"}},
]


@pytest.mark.parametrize("fields", STEP_WITHOUT_ARGUMENTS, ids=lambda fields: fields["type"])
@pytest.mark.parametrize("are_declared", [True, False], ids=["declared", "undeclared"])
def test_a_variable_called_args_is_no_argument(fields: dict[str, Any], are_declared: bool) -> None:
    """No argument is handed over, so that the rule forbids the step: the machine blocks it."""
    args = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    data = {
        "tools": {"touch": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "never": {"step": "a"}, "when": "not defined($args.x)"}],
        "steps": [{"id": "look", "type": "llm", "prompt": "$args.x"}, {"id": "a", **fields}],
        **({"inputs": {"args": args}} if are_declared else {}),
    }
    (held,) = ProgramValidator(Program.from_dict(data)).validate().properties
    assert held.verdict is Verdict.VIOLATED
