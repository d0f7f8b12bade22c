"""A comparison that is asked twice gets one answer, until a variable in it changes."""

from __future__ import annotations

import pytest

from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.recheck.questions import Questions
from stepward.vm import Program

TWICE = """
name: twice
inputs: {{n: {{type: integer, minimum: 0, maximum: 3}}, m: {{type: integer}}}}
tools:
  pay: {{effect: write, args: {{x: {{type: integer}}}}, returns: {{type: boolean}}}}
  get: {{effect: read, returns: {type}}}
guardrails:
  - {{name: r, never: {{tool: pay}}, when: $seen}}
steps:
  - {{id: first, type: tool, tool: get, output_key: t}}
  - {{id: ask, type: condition, condition: "{question}", then: none_seen}}
  - {{id: none_seen, type: set, set: {{seen: false}}, next_step: {next}}}
  {between}
  - {{id: again, type: condition, condition: "{again}", then: all, otherwise: one}}
  - {{id: one, type: tool, tool: pay, args: {{x: 1}}, output_key: seen, next_step: all}}
  - {{id: all, type: parallel, parallel_steps: [{{id: two, type: tool, tool: pay, args: {{x: $n}}}}]}}
"""

LIST, NUMBERS = "{type: array, items: {type: string}}", "{type: array, items: {type: integer}}"
NUMBER = "{type: number}"
QUESTIONS = {
    "a text in a list": (LIST, "$t contains 'b'", "$t contains 'b'"),
    "a text that is not in a list": (LIST, "$t not contains 'b'", "$t not contains 'b'"),
    "the negation": (LIST, "$t contains 'b'", "not ($t not contains 'b')"),
    "a number in a list": (NUMBERS, "$t contains 3", "$t contains 3"),
    "one of two": (LIST, "$t contains 'b' or $t contains 'c'", "$t contains 'b' or $t contains 'c'"),
    "one of two kinds": (LIST, "$t contains 'b' and $n > 1", "$t contains 'b' and $n > 1"),
    "two numbers": (NUMBER, "$t > $m", "$t > $m"),
    "two numbers the other way round": (NUMBER, "$t > $m", "$m < $t"),
    "two numbers negated": (NUMBER, "$t >= $m", "not ($t < $m)"),
    "a product that may be too large": (NUMBER, "$t * 2 > 3", "$t * 2 > 3"),
    "a sum": (NUMBER, "$t + $m == 3", "$t + $m == 3"),
    "the length of a list": (LIST, "len($t) > 3", "len($t) > 3"),
    "a part of a text": ("{type: string}", "$t contains 'b'", "$t contains 'b'"),
}


def check(kind: str, question: str, again: str, between: str = "") -> Report:
    text = TWICE.format(
        type=kind, question=question, again=again, between=between, next="second" if between else "again"
    )
    return ProgramValidator(Program.from_yaml(text)).validate()


def verdict(report: Report) -> Verdict:
    """Return the verdict on the rule; no proof is refused."""
    assert "SW902" not in [one.code for one in report.findings]
    return next(one.verdict for one in report.properties if one.rule == "r")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "question", "again"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_keeps_its_answer(kind: str, question: str, again: str) -> None:
    assert verdict(check(kind, question, again)) is Verdict.PROVED


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "question", "again"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_new_value_may_get_another_answer(kind: str, question: str, again: str) -> None:
    between = "- {id: second, type: tool, tool: get, output_key: t}"
    assert verdict(check(kind, question, again, between)) is Verdict.VIOLATED


def test_without_remembered_answers_the_proof_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Questions, "answered", lambda _, tree, __: tree)
    report = check(*QUESTIONS["a text in a list"])
    assert "SW902" in [one.code for one in report.findings]


COPIED = """
language: 2
name: copied
inputs: {{mode: {type}, other: {type}}}
tools: {{book: {{effect: write}}, grade: {{effect: none}}}}
guardrails:
  - {{name: r, never: {{step: act}}, when: "{forbidden}"}}
steps:
  - {{id: copy, type: set, set: {{w: $mode}}}}
  - {{id: never, type: condition, condition: defined($end.error), then: overwrite, otherwise: ask}}
  - {{id: ask, type: condition, condition: "{asked}", then: act, otherwise: end}}
  - {{id: overwrite, type: set, set: {{w: $other}}, next_step: act}}
  - {{id: act, type: tool, tool: book, next_step: end}}
  - {{id: end, type: tool, tool: grade}}
"""


@pytest.mark.parametrize("kind", ["{type: string}", "{type: number}"], ids=["text", "number"])
@pytest.mark.parametrize(
    ("asked", "forbidden"),
    [
        ("$mode == $w", "not ($mode == $w)"),
        ("$mode == $w", "$w != $mode"),
        ("not ($mode != $w)", "$mode != $w"),
        ("$mode == $w and true", "not ($mode == $w)"),
    ],
)
def test_a_copy_has_an_answer_where_it_is_no_longer_known_to_be_one(kind: str, asked: str, forbidden: str) -> None:
    text = COPIED.format(type=kind, asked=asked, forbidden=forbidden)
    assert verdict(ProgramValidator(Program.from_yaml(text)).validate()) is Verdict.PROVED


@pytest.mark.parametrize(
    ("question", "is_broken"),
    [
        ("$g + $g == 'ab'", False),
        ("$g + $g + $h == 'aba'", False),
        ("$g + '-' + $g == 'b-a'", False),
        ("$g + $h == 'ac'", False),
        ("$g + $h == 'ab'", True),
        ("$g + $h + $g == 'aba'", True),
        ("$n + $n == 3", False),
        ("$n + $n == 2", True),
        ("$n * $n == 2", False),
    ],
)
def test_a_question_that_reads_a_value_twice_has_the_answers_of_one_value(question: str, is_broken: bool) -> None:
    """Two steps ask the same, so that the search remembers the answer."""
    texts = {"type": "string", "enum": ["a", "b"]}
    data = {
        "name": "t",
        "language": 2,
        "inputs": {"g": texts, "h": texts, "n": {"type": "integer", "minimum": 0, "maximum": 3}},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": question}],
        "steps": [{"id": name, "type": "tool", "tool": "pay"} for name in ("p", "q")],
    }
    assert verdict(ProgramValidator(Program.from_dict(data)).validate()) is (
        Verdict.VIOLATED if is_broken else Verdict.PROVED
    )
