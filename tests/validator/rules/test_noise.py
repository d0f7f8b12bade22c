"""Fast: rules that once said too much or too little, with their neighbours: one cause is one finding, right is none."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import Finding, ProgramValidator
from stepward.validator.rules import control_flow
from stepward.vm import Program

Step = dict[str, Any]
JUDGE: Step = {"id": "judge", "type": "llm", "prompt": "Well?", "allowed_outputs": ["a", "b"], "next_step": "which"}
WHICH: Step = {
    "id": "which",
    "type": "condition",
    "condition": "$judge.output == 'a'",
    "then": "one",
    "otherwise": "two",
}
SPLIT: Step = {"id": "split", "type": "condition", "condition": "$n > 1", "then": "x", "otherwise": "y"}


def end(name: str, **fields: Any) -> Step:
    return {"id": name, "type": "end", **fields}


def note(name: str, **fields: Any) -> Step:
    return {"id": name, "type": "set", "set": {name.upper(): 1}, **fields}


def found(code: str, steps: list[Step], **fields: Any) -> list[Finding]:
    """Return the findings of one code in a program."""
    report = ProgramValidator(Program.from_dict({"name": "p", **fields, "steps": steps})).validate()
    return [finding for finding in report.findings if finding.code == code]


# -- SW107: no ending is declared a failure ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        [JUDGE, WHICH, end("one"), end("two")],
        [JUDGE, WHICH, note("one", is_terminal=True), end("two")],
        [{**JUDGE, "error_step": "two"}, {**WHICH, "otherwise": "one"}, end("one"), end("two")],
        [JUDGE, WHICH, note("one", next_step="done"), note("two", next_step="also"), end("done"), end("also")],
        [JUDGE, {**WHICH, "otherwise": "judge"}, note("one", next_step="three", max_visits=2),
         {**WHICH, "id": "three", "then": "four"}, end("four"), end("two")],
    ],
)  # fmt: skip
def test_a_reply_that_decides_between_endings_needs_one_that_is_a_failure(steps: list[Step]) -> None:
    assert len(found("SW107", steps)) == 1
    assert not found("SW107", [*steps[:-1], {**steps[-1], "outcome": "failure"}])


@pytest.mark.parametrize(
    "steps",
    [
        [JUDGE, WHICH, note("one", next_step="done"), note("two", next_step="done"), end("done")],
        [{**JUDGE, "error_step": "two"}, WHICH, note("one", next_step="two"), end("two")],
        [JUDGE, {**WHICH, "otherwise": "judge"}, note("one", next_step="done"), end("done")],
        [JUDGE, WHICH, note("one", next_step="split"), note("two", next_step="split"),
         SPLIT, end("x"), end("y")],
    ],
)  # fmt: skip
def test_a_reply_after_which_every_ending_can_still_be_reached_decides_about_none(steps: list[Step]) -> None:
    assert not found("SW107", steps, inputs={"n": {"type": "number"}})


@pytest.mark.parametrize("one", [end("one", outcome="success"), note("one", is_terminal=True, outcome="success")])
def test_an_ending_that_says_that_it_is_a_success_is_an_answer(one: Step) -> None:
    (finding,) = found("SW107", [JUDGE, WHICH, end("one"), end("two")])
    assert finding.help == (
        "mark each failure with `outcome: failure`; if there is none, mark one with `outcome: success`"
    )
    assert not found("SW107", [JUDGE, WHICH, one, end("two")])


def test_a_failure_of_a_body_is_an_ending_of_the_run_where_nothing_takes_it() -> None:
    body = [end("lost", outcome="failure")]
    each = {"id": "each", "type": "for_each", "items": [1], "as": "i", "max_items": 1, "steps": body}
    steps = [JUDGE, WHICH, end("one"), end("two")]
    start = {**each, "next_step": "judge"}
    assert found("SW107", [{**start, "error_step": "two"}, *steps], language=2)
    assert found("SW107", [{**start, "on_item_error": "skip"}, *steps], language=2)
    assert not found("SW107", [start, *steps], language=2)


def test_the_endings_of_a_long_program_are_searched_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = [note("one", next_step="split"), note("two", next_step="split")]
    steps = [JUDGE, WHICH, *joined, SPLIT, end("x"), end("y")]
    monkeypatch.setattr(control_flow, "SEARCHED_STEPS", len(steps))
    assert not found("SW107", steps, inputs={"n": {"type": "number"}})
    monkeypatch.setattr(control_flow, "SEARCHED_STEPS", len(steps) - 1)
    assert found("SW107", steps, inputs={"n": {"type": "number"}})


# -- SW202: a reference that may be undefined --------------------------------------------------------------------------

LOOK: Step = {
    "id": "look",
    "type": "tool",
    "tool": "look",
    "on_error": "skip",
    "output_key": "seen",
    "next_step": "say",
}
READS: dict[str, Any] = {
    "tools": {"look": {"effect": "read", "returns": {"type": "string"}}, "tell": {"effect": "none"}}
}


@pytest.mark.parametrize(
    "say",
    [
        {"id": "say", "type": "llm", "prompt": "$seen", "system": "Mind $seen."},
        {"id": "say", "type": "llm", "prompt": "$seen and $seen, or $seen"},
        {"id": "say", "type": "tool", "tool": "tell", "args": {"a": "$seen", "b": ["$seen", {"c": "so $seen"}]}},
        end("say", output={"a": "$seen", "b": "$seen"}),
    ],
)
def test_a_step_has_one_finding_for_what_it_reads_in_several_texts(say: Step) -> None:
    (finding,) = found("SW202", [LOOK, say], **READS)
    assert (finding.step, finding.message) == ("say", "`$seen` may be undefined here")


def test_each_step_and_each_reference_keeps_its_finding() -> None:
    other = {**LOOK, "id": "other", "output_key": "heard", "next_step": "look"}
    steps = [
        other,
        {**LOOK, "next_step": "fork"},
        {"id": "fork", "type": "condition", "condition": "$n > 1", "then": "say", "otherwise": "tell"},
        {"id": "say", "type": "llm", "prompt": "$seen $heard", "system": "$heard $seen", "is_terminal": True},
        {"id": "tell", "type": "llm", "prompt": "$seen"},
    ]
    findings = found("SW202", steps, inputs={"n": {"type": "number"}}, **READS)
    said = [(one.step, one.message.split("`")[1]) for one in findings]
    assert sorted(said, key=str) == [("say", "$heard"), ("say", "$seen"), ("tell", "$seen")]


def test_siblings_of_a_parallel_step_keep_their_findings() -> None:
    parts = [{"id": name, "type": "llm", "prompt": "$seen", "system": "$seen"} for name in ("a", "b")]
    both = {"id": "say", "type": "parallel", "parallel_steps": parts}
    assert len(found("SW202", [LOOK, both], **READS)) == 2


# -- SW407: a guardrail names what is not there ------------------------------------------------------------------------

PAY: list[Step] = [
    {"id": "ok", "type": "condition", "condition": "$n > 3", "then": "pay", "otherwise": "no"},
    {"id": "pay", "type": "tool", "tool": "pay", "next_step": "tell"},
    {"id": "tell", "type": "tool", "tool": "tell", "next_step": "no"},
    end("no", outcome="failure"),
]
OK, TELL, TYPO = {"step": "ok", "branch": "then"}, {"step": "tell"}, {"step": "tel"}


def of_rule(rule: Step, *more: Step) -> list[Finding]:
    tools = {"pay": {"effect": "write", "idempotent": True}, "tell": {"effect": "write", "idempotent": True}}
    data = {"name": "p", "inputs": {"n": {"type": "integer"}}, "tools": tools, "steps": [*PAY, *more]}
    report = ProgramValidator(Program.from_dict({**data, "guardrails": [{"name": "g", **rule}]})).validate()
    return [finding for finding in report.findings if finding.code.startswith("SW4")]


def of_guardrail(rule: Step) -> list[tuple[str, str]]:
    return [(finding.code, finding.help) for finding in of_rule(rule)]


@pytest.mark.parametrize(
    "rule",
    [
        {"protects": {"tool": "pay"}, "requires": TYPO},
        {"protects": {"tool": "pay"}, "requires": {"all_of": [OK, TYPO]}},
        {"protects": {"tool": "pay"}, "requires": {"any_of": [TELL, TYPO]}},
        {"protects": {"tool": "pay"}, "requires": {"all_of": [OK, {"any_of": [TYPO]}]}},
        {"followed_by": {"first": {"tool": "pay"}, "then": TYPO}},
    ],
)
def test_a_guardrail_that_asks_for_a_wrong_name_is_one_finding(rule: Step) -> None:
    assert of_guardrail(rule) == [("SW407", "did you mean `tell`?")]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"protects": {"tool": "pay"}, "requires": TELL}, "SW401"),
        ({"followed_by": {"first": TELL, "then": {"tool": "pay"}}}, "SW405"),
    ],
)
def test_a_guardrail_whose_names_are_right_says_where_it_is_broken(rule: Step, code: str) -> None:
    assert {found for found, _ in of_guardrail(rule)} == {code}


def test_a_wrong_name_beside_one_that_is_right_says_one_thing_only() -> None:
    met = {"protects": {"tool": "pay"}, "requires": {"any_of": [OK, TYPO]}}
    assert [code for code, _ in of_guardrail(met)] == ["SW407"]


NO, PAID, DONE = {"step": "no"}, {"tool": "pay"}, {"step": "done"}


@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ({"protects": PAID, "requires": NO}, "SW407", "asks for step `no`, which is an `end` step"),
        ({"protects": PAID, "requires": {"all_of": [OK, NO]}}, "SW407", "asks for step `no`, which is an `end` step"),
        ({"protects": PAID, "requires": {"any_of": [TELL, NO]}}, "SW407", "asks for step `no`, which is an `end` step"),
        ({"followed_by": {"first": NO, "then": PAID}}, "SW407", "has no effect: step `no` is an `end` step"),
        ({"at_most_once": NO}, "SW407", "has no effect: step `no` is an `end` step, so it comes once"),
        ({"exclusive": [NO, DONE]}, "SW407", "step `no` and step `done` are `end` steps, so only one of them comes"),
        ({"exclusive": [NO, NO]}, "SW406", "performs both step `no` and step `no`"),
        ({"exclusive": [PAID, NO]}, "SW406", "performs both tool `pay` and step `no`"),
        ({"exclusive": [NO, PAID]}, "SW406", "performs both step `no` and tool `pay`"),
        ({"protects": NO, "requires": OK}, "SW401", "`no` can start without branch `then` of step `ok`"),
        ({"never": NO}, "SW403", "`no` can start"),
        ({"never": NO, "when": "$n > 3"}, "SW403", "`no` can start"),
        ({"followed_by": {"first": PAID, "then": DONE}}, "SW405", "step `done` never started"),
    ],
)
def test_an_end_step_has_an_effect_only_in_these_selectors_of_a_rule(rule: Step, code: str, said: str) -> None:
    findings = of_rule(rule, end("done"))
    assert {finding.code for finding in findings} == {code}
    assert all(said in finding.message for finding in findings)


BODY_RULES: list[tuple[Step, str | None]] = [
    ({"protects": PAID, "requires": {"step": "before"}}, "asks for step `before`, which is not in an item of `each`"),
    ({"at_most_once": {"step": "before"}}, "has no effect: step `before` is not in an item of `each`"),
    ({"followed_by": {"first": PAID, "then": {"step": "before"}}}, "asks for step `before`, which is not in an item"),
    ({"protects": PAID, "requires": {"step": "nobody"}}, "asks for step `nobody`, which is nowhere in the program"),
    ({"at_most_once": {"step": "last"}}, "has no effect: step `last` is an `end` step"),
    ({"never": {"step": "before"}}, None),
    ({"at_most_once": PAID}, None),
]


@pytest.mark.parametrize(("rule", "said"), BODY_RULES)
def test_a_rule_of_a_body_names_steps_of_the_body(rule: Step, said: str | None) -> None:
    body = [{"id": "pay", "type": "tool", "tool": "pay", "on_error": "skip"}, end("last")]
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "one", "max_items": 2, "steps": body,
            "guardrails": [{"name": "g", **rule}]}  # fmt: skip
    steps = [{"id": "before", "type": "set", "set": {"a": 1}}, each]
    tools = {"pay": {"effect": "write", "idempotent": True}}
    report = ProgramValidator(
        Program.from_dict({"name": "p", "language": 2, "tools": tools, "steps": steps})
    ).validate()
    codes = ("SW407",) if "nobody" in str(said) else ("SW407", "SW401", "SW405")
    messages = [finding.message for finding in report.findings if finding.code in codes]
    assert len(messages) == (said is not None)
    assert said is None or said in messages[0]


@pytest.mark.parametrize("rule", [{"at_most_once": {"step": "last"}}, {"exclusive": [{"step": "last"}, NO]}])
def test_an_end_of_an_item_may_come_again(rule: Step) -> None:
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "one", "max_items": 2, "steps": [end("last")],
            "next_step": "no"}  # fmt: skip
    data = {"name": "p", "language": 2, "steps": [each, end("no")], "guardrails": [{"name": "g", **rule}]}
    codes = {finding.code for finding in ProgramValidator(Program.from_dict(data)).validate().findings}
    assert codes & {"SW404", "SW406"}
    assert "SW407" not in codes


# -- helps say all that has to be done ---------------------------------------------------------------------------------


def help_of(code: str, step: Step) -> str:
    """Return the help of the one finding of a code at a step, which may go on or fail."""
    tools = {"pay": {"effect": "write", "idempotent": False}}
    steps = [step, end("ok"), end("no", outcome="failure")]
    (finding,) = found(code, steps, inputs={"x": {"type": "string"}}, tools=tools)
    return finding.help


def test_the_help_at_a_retried_write_names_all_that_goes_and_says_where_a_time_out_goes() -> None:
    pay: Step = {"id": "pay", "type": "tool", "tool": "pay", "on_error": "retry", "error_step": "no", "next_step": "ok"}
    assert help_of("SW503", pay).startswith("remove `on_error: retry`, so that a failure goes to `no`; keep it only")
    full = help_of("SW503", pay | {"max_retries": 3, "timeout_seconds": 5})
    doubt = "(a time-out is no failure: it leaves the run IN_DOUBT)"
    assert full.startswith(f"remove `on_error: retry` and `max_retries`, so that a failure goes to `no` {doubt}; keep")


def test_the_help_at_a_reference_in_an_object_of_set_names_the_language_that_reads_it() -> None:
    copy: Step = {"id": "copy", "type": "set", "set": {"data": {"who": ["$x"]}}, "next_step": "ok"}
    assert help_of("SW204", copy) == "add `language: 2` to the program, where it is read"


# -- SW209: how a user's text is limited -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "limit", "way"),
    [
        (1, {"enum": ["a"]}, "by `enum` or a `maxLength` of at most 500"),
        (1, {"maxLength": 500}, "by `enum` or a `maxLength` of at most 500"),
        (2, {"enum": ["a"]}, "by `enum`, `pattern` or a `maxLength` of at most 500"),
        (2, {"pattern": "[a-z]"}, "by `enum`, `pattern` or a `maxLength` of at most 500"),
    ],
)
def test_a_limit_that_the_help_names_ends_the_finding(language: int, limit: dict[str, Any], way: str) -> None:
    steps: list[Step] = [{"id": "w", "type": "tool", "tool": "write", "args": {"x": "$x"}, "is_terminal": True}]
    tools = {"write": {"effect": "write", "idempotent": True}}
    fields = {"language": language, "tools": tools}
    (finding,) = found("SW209", steps, **fields, inputs={"x": {"type": "string"}})
    assert finding.help is not None
    assert finding.help.endswith(way)
    assert not found("SW209", steps, **fields, inputs={"x": {"type": "string", **limit}})


@pytest.mark.parametrize("most", [501, 10_000])
def test_the_condition_of_the_help_is_not_always_true(most: int) -> None:
    """A shorter text is not reported: for it the help was a condition that holds in every run."""
    steps: list[Step] = [
        {"id": "c", "type": "condition", "condition": "len($x) <= 500", "then": "w", "otherwise": "no"},
        {"id": "w", "type": "tool", "tool": "write", "args": {"x": "$x"}, "is_terminal": True},
        {"id": "no", "type": "end"},
    ]
    fields = {
        "tools": {"write": {"effect": "write", "idempotent": True}},
        "inputs": {"x": {"type": "string", "maxLength": most}},
    }
    (finding,) = found("SW209", steps[1:], **fields)
    assert finding.help is not None
    assert "`len($x) <= 500`" in finding.help
    assert not [*found("SW209", steps, **fields), *found("SW303", steps, **fields)]


# -- SW403: what a `when` reads may be undefined -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "is_said"), [("$kind == 'a'", True), ("defined($kind) and $kind == 'a'", False)], ids=["read", "asked"]
)
def test_a_violation_where_nothing_is_assigned_says_so_and_its_help_ends_it(start: str, is_said: bool) -> None:
    """Which path is taken hangs on an input, so no single path is certain to leave the name undefined."""
    steps: list[Step] = [
        {"id": "get", "type": "tool", "tool": "load", "output_key": "kind", "error_step": "asked", "next_step": "done"},
        {"id": "asked", "type": "condition", "condition": "$n > 3 and $n < 9", "then": "low", "otherwise": "done"},
        {"id": "low", "type": "tool", "tool": "tell", "args": {"level": 1}, "is_terminal": True},
        {"id": "done", "type": "end"},
    ]
    tools = {
        "load": {"effect": "read", "returns": {"type": "string", "enum": ["a", "b"]}},
        "tell": {"effect": "write", "idempotent": True, "args": {"level": {"type": "integer"}}},
    }
    rule = {"name": "high", "never": {"tool": "tell"}, "when": f"{start} and $args.level < 3"}
    fields = {"tools": tools, "inputs": {"n": {"type": "integer"}}, "guardrails": [rule]}
    findings = found("SW403", steps, **fields)
    assert len(findings) == is_said
    for finding in findings:
        assert "`$kind` is undefined" in finding.message
        assert finding.help is not None
        assert "start it with `defined($kind) and`" in finding.help
