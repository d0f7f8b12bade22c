"""`lower`, `upper`, `trim` and `matches` as questions about a text, in the engine and in the second checker."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.values.changed_texts import found_in, question_of
from stepward.validator.engine.values.texts import Atom
from stepward.validator.recheck.languages import may_match
from stepward.vm import Program
from stepward.vm.expressions import letters
from stepward.vm.expressions.operators import FunctionName
from stepward.vm.patterns.matching import matches

CALLS: list[tuple[FunctionName, ...]] = [
    ("lower",), ("upper",), ("trim",), ("lower", "trim"), ("trim", "upper"), ("lower", "upper"), ("upper", "lower"),
]  # fmt: skip
LITERALS = ("", "a", "A", "ab", "a b", " ", " a", "a ", "k", "K", "\u212a", "\xdf", "\u0130", "s", "SS", "i\u0307")
SIGNS = "aAbkK \u212as\u017f\xdf\u0130\t"
TEXTS = ["".join(signs) for size in range(3) for signs in product(SIGNS, repeat=size)]
PATTERNS = ("^a", "[a-c]+$", "^(?:k|ab)?$", "(?i)k", "^.?$", "s{2}", "a|^$")


def after(calls: tuple[FunctionName, ...], text: str) -> str:
    """Return a text after some calls, the last one first."""
    for call in reversed(calls):
        text = {"lower": letters.lower, "upper": letters.upper, "trim": letters.trim}[call](text)
    return text


@pytest.mark.one_in(3)
@pytest.mark.parametrize("calls", CALLS, ids=" ".join)
def test_a_question_about_a_changed_text_is_one_about_the_text(calls: tuple[FunctionName, ...]) -> None:
    chance = Random("".join(calls))
    for question in ("is", "contains", "starts_with", "ends_with"):
        for literal in LITERALS:
            asked = question_of(calls, question, literal)
            rows = {text: Atom(question, literal).of(after(calls, text)) for text in (*TEXTS, f" {literal} ", literal)}
            assert {text: asked.of(text) for text in rows} == rows, (question, literal)
            word = (" ".join((*calls, question)), literal)
            told = [next((text for text, one in rows.items() if one is answer), None) for answer in (True, False)]
            for text in (*told, chance.choice(TEXTS)):
                if text is not None:
                    said = [may_match(None, frozenset({(word, one), (("is", text), True)})) for one in (True, False)]
                    assert said == [rows[text], not rows[text]], (word, text)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("calls", CALLS, ids=" ".join)
def test_a_pattern_in_a_changed_text_is_one_in_the_text(calls: tuple[FunctionName, ...]) -> None:
    for pattern in PATTERNS:
        asked = found_in(calls, pattern)
        rows = {text: matches(pattern, after(calls, text)) for text in TEXTS}
        if asked is not None:
            assert {text: asked.of(text) for text in TEXTS} == rows, pattern
        for text, answer in list(rows.items())[:20]:
            word = (" ".join((*calls, "matches")), pattern)
            assert may_match(None, frozenset({(word, answer), (("is", text), True)})), (word, text)
            if "trim" not in calls:
                assert not may_match(None, frozenset({(word, not answer), (("is", text), True)})), (word, text)


NULLABLE = ["string", "null"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("spec", [{}, {"maxLength": 9}, {"minLength": 1}, {"pattern": "^[a-zA-Z ]+$"}], ids=str)
@pytest.mark.parametrize(
    ("when", "happens"),
    [
        ("lower($x) == 'a'", True),
        ("lower($x) == 'A'", False),
        ("upper($x) in ['YES', 'NO']", True),
        ("lower($x) == 'a' and $x == 'b'", False),
        ("lower($x) == 'a' and $x == 'A'", True),
        ("lower($x) == 'a' and len($x) > 1", False),
        ("lower($x) == 'a' and upper($x) == 'B'", False),
        ("$x == 'yes' and lower($x) != 'yes'", False),
        ("trim($x) == 'a' and $x != 'a'", True),
        ("trim($x) == ' a'", False),
        ("trim($x) == '' and $x contains 'a'", False),
        ("lower(trim($x)) == 'yes' and $x starts_with ' Y'", True),
        ("'abc' contains lower($x) and $x == 'B'", True),
        ("'abc' contains lower($x) and $x == 'CA'", False),
        ("matches($x, '^a')", True),
        ("matches($x, '^ab') and not ($x starts_with 'a')", False),
        ("matches($x, '^a') and $x == 'b'", False),
        ("matches($x, '^(yes|no)$') and $x != 'yes' and $x != 'no'", False),
        ("matches($x, '^[ab]+$') and len($x) == 2", True),
        ("matches($x, '^[ab]$') and len($x) > 1", False),
        ("matches($x, '^[0-9]+$') and matches($x, '^[a-z]+$')", False),
        ("matches(lower($x), '^a') and $x starts_with 'A'", True),
        ("matches(lower($x), '[A-Z]')", False),
    ],
)
def test_what_a_person_sees_at_once_is_decided(spec: dict[str, object], when: str, *, happens: bool) -> None:
    program = Program.from_dict(
        {
            "language": 2,
            "tools": {"pay": {"effect": "write"}, "get": {"effect": "read", "returns": {"type": NULLABLE, **spec}}},
            "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
            "steps": [
                {"id": "get", "type": "tool", "tool": "get", "output_key": "x"},
                {"id": "c", "type": "condition", "condition": f"$x != null and {when}", "then": "p", "otherwise": "e"},
                {"id": "p", "type": "tool", "tool": "pay"},
                {"id": "e", "type": "end"},
            ],
        }
    )
    (found,) = [one for one in ProgramValidator(program).validate().properties if one.rule == "r"]
    assert found.verdict is (Verdict.VIOLATED if happens else Verdict.PROVED), found.evidence.reason


@pytest.mark.parametrize("number", [3, 12])
def test_many_patterns_are_left_to_the_solver(number: int) -> None:
    """The same question asked again has the same answer, in classes and in formulas."""
    last = number + 1
    conditions = [f"lower($x) contains 'word{one % number}'" for one in range(last)]
    steps: list[dict[str, object]] = [
        {"id": f"c{one}", "type": "condition", "condition": text, "then": f"c{one + 1}", "otherwise": "e"}
        for one, text in enumerate(conditions)
    ]
    steps[-1] |= {"then": "e", "otherwise": "p"}
    program = Program.from_dict(
        {
            "language": 2,
            "inputs": {"x": {"type": "string"}},
            "tools": {"pay": {"effect": "write"}},
            "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
            "steps": [*steps, {"id": "p", "type": "tool", "tool": "pay"}, {"id": "e", "type": "end"}],
        }
    )
    (found,) = [one for one in ProgramValidator(program).validate().properties if one.rule == "r"]
    layer = "finite abstraction" if number == 3 else "block formula"
    assert (found.verdict, found.rechecked, found.evidence.layer) == (Verdict.PROVED, True, layer)
