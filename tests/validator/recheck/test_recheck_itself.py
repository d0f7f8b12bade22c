"""The second checker on values that are compared with themselves, and on rules that their types alone decide.

The engine's formula is just `false` there, so the second checker has to see by itself that the rule is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import pytest

from evaluations import lookup_in
from sizes import by_day
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.operators import OPERATORS
from stepward.vm.expressions.parser import parse
from stepward.vm.values import freeze

TEXTS: Final = ("", "a", "Ab", " x ")
VALUES: Final[Mapping[str, tuple[dict[str, Any], tuple[Any, ...]]]] = {
    "s": ({"type": "string", "maxLength": 40}, TEXTS),
    "n": ({"type": "number", "maximum": 1_000}, (-1, 0, 2)),
    "b": ({"type": "boolean"}, (True, False)),
    "e": ({"type": "string", "enum": ["a", "b"]}, ("a", "b")),
    "m": ({"type": ["string", "null"]}, (None, "", "a")),
    "l": ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, ((), ("a",))),
}
"""The inputs: their types, and values that show what a comparison comes to."""

OPERANDS: Final = ("$s", "$n", "$b", "$e", "$m", "$l", "lower($s)", "$s + 'x'", "$n + 1", "len($l)")
FORMS: Final = (
    *(f"{{0}} {word} {{0}}" for word in OPERATORS),
    "{0} in [{0}]",
    "{0} in ['a', {0}]",
    "{0} not in [{0}, 'a']",
)


def conditions(operand: str) -> list[str]:
    """Return what is asked of an operand and itself; a list holds references alone."""
    forms = [
        form.format(operand) for form in FORMS if (operand.startswith("$") and "+" not in operand) or "[" not in form
    ]
    return [*forms, *(f"not ({form})" for form in forms)]


def can_be_broken(condition: str) -> bool:
    """Return whether some values make a condition hold or fail: each breaks a rule that forbids it."""
    tree = parse(condition, language=2)
    for values in product(*(samples for _, samples in VALUES.values())):
        known = dict(zip(VALUES, values, strict=True))
        try:
            if evaluate_condition(tree, lookup_in(freeze(known))):
                return True
        except EvaluationError:
            return True
    return False


def verdict(condition: str) -> Verdict:
    program = Program.from_dict(
        {
            "name": "p",
            "language": 2,
            "inputs": {name: spec for name, (spec, _) in VALUES.items()},
            "tools": {"note": {"effect": "write", "idempotent": True}},
            "guardrails": [{"name": "rule", "never": {"tool": "note"}, "when": condition}],
            "steps": [{"id": "note", "type": "tool", "tool": "note"}],
        }
    )
    report = ProgramValidator(program, recheck=True).validate()
    assert "SW902" not in {finding.code for finding in report.findings}, condition
    return report.properties[0].verdict


@pytest.mark.parametrize("operand", OPERANDS)
def test_a_value_compared_with_itself_is_decided_as_it_is(operand: str) -> None:
    for condition in by_day(conditions(operand), 3):
        expected = Verdict.VIOLATED if can_be_broken(condition) else Verdict.PROVED
        assert verdict(condition) is expected, condition


WHEN: Final = "defined($vc) and defined($t4) and defined($t17) and $o1.l[0] != $s2 + (('ab' + ($t17.l[0] + $vc)) + $t4)"
NEVER_ASSIGNED: Final[dict[str, Any]] = {
    "language": 2,
    "steps": [
        {"id": "s5", "type": "set", "set": {}, "next_step": "t7"},
        {
            "id": "p6",
            "type": "parallel",
            "parallel_steps": [{"id": "t17", "type": "tool", "tool": "ro", "output_key": "t17"}],
        },
        {"id": "t7", "type": "tool", "tool": "w2"},
        {
            "id": "e8",
            "type": "for_each",
            "items": "$l1",
            "as": "it21",
            "steps": [
                {
                    "id": "b23",
                    "type": "parallel",
                    "branches": {
                        "br30": {
                            "steps": [
                                {
                                    "id": "c33",
                                    "type": "condition",
                                    "cases": [
                                        {
                                            "when": "((len($l1) > 0 and $l1[0] > 2) and (0.3 < $cv22 and $o1.r))",
                                            "then": "p34",
                                        }
                                    ],
                                },
                                {
                                    "id": "p34",
                                    "type": "parallel",
                                    "parallel_steps": [{"id": "t38", "type": "tool", "tool": "w3"}],
                                },
                            ]
                        },
                        "br40": {
                            "steps": [
                                {"id": "s42", "type": "set", "set": {"vz41a": "upper($t4)"}},
                                {"id": "c44", "type": "condition", "condition": "$t15", "otherwise": "end45"},
                                {"id": "end45", "type": "end"},
                            ],
                            "depends_on": ["br30"],
                        },
                    },
                    "next_step": "t25",
                    "error_step": "t24",
                },
                {"id": "t24", "type": "tool", "tool": "w3"},
                {"id": "t25", "type": "tool", "tool": "rnn"},
            ],
        },
    ],
    "guardrails": [
        {
            "name": "rule",
            "never": {"tool": "w3"},
            "when": WHEN,
        }
    ],
}
"""Nothing leads to `p6`, so `$t17` is never defined, and the rule is kept. What is read with it has too many states."""


def test_one_name_decides_a_rule_of_which_not_all_can_be_followed() -> None:
    report = ProgramValidator(Program.from_dict(NEVER_ASSIGNED), recheck=True).validate()
    rule = report.properties[0]
    assert rule.verdict is Verdict.PROVED
    assert rule.rechecked
