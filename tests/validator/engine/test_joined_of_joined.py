"""Texts that are joined of joined texts, of numbers, truths and templates: every verdict agrees with every value.

`STEPWARD_MANY=1` tries every program.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import pytest

from sizes import size
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.findings import Property
from stepward.validator.recheck.blocks import of_value
from stepward.validator.recheck.certificates import digest, parsed, recheck_data
from stepward.validator.recheck.evaluation import values
from stepward.vm import Program
from stepward.vm.expressions.building import built
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.values import exact, freeze

INPUTS: dict[str, Any] = {
    "h": {"type": "string", "enum": ["a", "b"]},
    "n": {"type": "integer", "minimum": 0, "maximum": 2},
    "f": {"type": "boolean"},
}
TOOLS: dict[str, Any] = {"pay": {"effect": "write", "idempotent": True}}
GIVEN = [(h, n, f) for h in ("a", "b") for n in (0, 1, 2) for f in (False, True)]
TRUTH = {True: "true", False: "false"}

FIRST: dict[str, tuple[Any, Callable[[str, int, bool], str]]] = {
    "texts": ("$h + $h", lambda h, _n, _f: h + h),
    "a literal": ("'x' + $h", lambda h, _n, _f: "x" + h),
    "a truth": ({"t": "is $f"}, lambda _h, _n, f: f"is {TRUTH[f]}"),
    "a number": ({"t": "$n of $h"}, lambda h, n, _f: f"{n} of {h}"),
    "a list": ({"t": ["$n", "$h", ["$f"]]}, lambda h, n, f: f'[{n}, "{h}", [{TRUTH[f]}]]'),
    "a calculation": ({"t": "at $m"}, lambda _h, n, _f: f"at {n * 0.5:g}"),
}
"""What the first text is: of a field `t`, which a template fills, or of the variable itself."""

SECOND: dict[str, tuple[Any, Callable[[str, str], str]]] = {
    "before": ("$v + $h", lambda v, h: v + h),
    "behind": ("$h + $v", lambda v, h: h + v),
    "twice": ("$v + ($v + '!')", lambda v, _h: f"{v}{v}!"),
    "a template": ({"t": "<$v $h>"}, lambda v, h: f"<{v} {h}>"),
}
QUESTIONS: dict[str, Callable[[str, str], bool]] = {
    "==": str.__eq__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
}
PLACES = ("a guardrail", "a condition", "a call", "a branch", "an item")
CASES = list(product(FIRST, SECOND, QUESTIONS, PLACES, (True, False)))


def joining(first: str, second: str) -> tuple[list[dict[str, Any]], str]:
    """Return the steps that join two texts, and the reference to the second one."""
    made, joined = FIRST[first][0], SECOND[second][0]
    is_template = isinstance(made, dict)
    text = "$v.t" if is_template and "list" not in first else "$v"
    calculated = [{"id": "half", "type": "set", "set": {"m": "$n * 0.5"}}] if first == "a calculation" else []
    if first == "a list":  # a list is a text in a template only
        calculated.append({"id": "kept", "type": "set", "set": {"k": made}})
        made = {"t": "$k.t "}
        text = "$v.t"
    steps = [*calculated, {"id": "one", "type": "set", "set": {"v": made}}]
    given = {"t": joined["t"].replace("$v", text)} if isinstance(joined, dict) else joined.replace("$v", text)
    steps.append({"id": "two", "type": "set", "set": {"w": given}})
    return steps, "$w.t" if isinstance(joined, dict) else "$w"


def texts_of(first: str, second: str) -> set[str]:
    """Return every text that the second one can be."""
    space = " " if first == "a list" else ""
    return {SECOND[second][1](FIRST[first][1](*given) + space, given[0]) for given in GIVEN}


def literal_of(case: tuple[Any, ...]) -> str:
    """Return a literal for a question that some text answers with yes, or none does, as the case says."""
    first, second, word, _, is_met = case
    texts = texts_of(first, second)
    chance = Random(f"{case}")
    whole = chance.choice(sorted(texts))
    parts = {"==": whole, "starts_with": whole[:3], "ends_with": whole[-3:], "contains": whole[1:3]}
    if is_met:
        return parts[word]
    for _ in range(100):  # nearly such a text
        signs = [chance.choice("ab!x<0 ") if chance.random() < 0.4 else one for one in parts[word]]
        found = "".join(signs) + chance.choice(("", "", whole[-1]))
        if not any(QUESTIONS[word](text, found) for text in texts):
            return found
    return "never"


def drawn(case: tuple[Any, ...]) -> dict[str, Any]:
    """Return the program of a case: it pays where the question about the second text is answered with yes."""
    first, second, word, place, _ = case
    steps, text = joining(first, second)
    literal = literal_of(case)
    data: dict[str, Any] = {"name": "joined", "language": 2, "inputs": INPUTS, "tools": TOOLS}
    rule: dict[str, Any] = {"name": "r", "never": {"tool": "pay"}}
    pay, end = {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True}, {"id": "z", "type": "end"}

    def asked(reference: str) -> dict[str, Any]:
        return {
            "id": "q",
            "type": "condition",
            "condition": f"{reference} {word} '{literal}'",
            "then": "p",
            "otherwise": "z",
        }

    gives = [*steps, {"id": "e", "type": "end", "output": text}]
    match place:
        case "a guardrail":
            rule["when"] = f"{text} {word} '{literal}'"
            return {**data, "guardrails": [rule], "steps": [*steps, pay]}
        case "a condition":
            made = [*steps, asked(text), pay, end]
        case "a call":
            called = {"inputs": INPUTS, "steps": gives}
            call = {"id": "m", "type": "call", "program": "sub", "args": {name: f"${name}" for name in INPUTS}}
            return {
                **data,
                "programs": {"sub": called},
                "guardrails": [rule],
                "steps": [call, asked("$m.output"), pay, end],
            }
        case "a branch":
            made = [
                {"id": "both", "type": "parallel", "branches": {"m": {"steps": gives}}},
                asked("$m.output"),
                pay,
                end,
            ]
        case _:
            body = [*steps, asked(text), pay, end]
            made = [{"id": "each", "type": "for_each", "items": [1], "as": "i", "max_items": 1, "steps": body}]
    return {**data, "guardrails": [rule], "steps": made}


def verdict_of(data: dict[str, Any]) -> Property:
    return next(one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.rule == "r")


def wrong_of(case: tuple[Any, ...]) -> str:
    """Return what is wrong with the verdict on the program of a case; nothing where it is right."""
    first, second, word, *_ = case
    literal = literal_of(case)
    is_met = any(QUESTIONS[word](text, literal) for text in texts_of(first, second))
    due = Verdict.VIOLATED if is_met else Verdict.PROVED
    found = verdict_of(drawn(case))
    if found.verdict is not due:
        return f"{found.verdict.name}, not {due.name}, with {literal!r}: {found.evidence.reason}"
    return "" if found.rechecked is (due is Verdict.PROVED) else "not rechecked"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", Random("joined").sample(CASES, size(40, len(CASES))), ids=str)
def test_texts_that_are_joined_of_joined_texts_are_decided(case: tuple[Any, ...]) -> None:
    assert not wrong_of(case)


def certified(when: str) -> dict[str, Any]:
    """Return the certificate of a rule about `$h + $h + $h`, of which the parts are joined one after the other."""
    steps, _ = joining("texts", "before")
    rule = {"name": "r", "never": {"tool": "pay"}, "when": when}
    pay = {"id": "p", "type": "tool", "tool": "pay"}
    data = {"name": "joined", "language": 2, "inputs": INPUTS, "tools": TOOLS, "guardrails": [rule]}
    made = ProgramValidator(Program.from_dict({**data, "steps": [*steps, pay]}), certify=True).validate().properties
    (found,) = [one.certify for one in made if one.rule == "r" and one.certify is not None]
    whole: dict[str, Any] = parsed(found().to_json())
    assert recheck_data(whole).is_accepted
    return whole


FORGED = [
    ("'aaab'", "'aaa'"),  # what some run joins
    ("'aaab'", "'bbb'"),
    ('{"text": "bb"}', '{"text": "ba"}'),  # no run has this text, and some run has the other one
    ('{"text": "bb"}', '{"texts": {}}'),  # of any text, any text is joined
    ('{"text": "aaab"}', '{"text": "aaa"}'),
]


@pytest.mark.parametrize(("true", "false"), FORGED)
def test_a_false_certificate_is_refused(true: str, false: str) -> None:
    text = json.dumps(certified("$w == 'aaab'"))
    assert true in text
    wrong = text.replace(true, false).replace(true.replace("'", '"'), false.replace("'", '"'))
    data = parsed(wrong)
    data["digest"] = digest(Program.from_dict(data["program"]), ())
    assert not recheck_data(data).is_accepted


VALUES = (
    *(None, True, False, 0, 7, -7, 10**30, 10**400, exact(Decimal("0.50")), exact(Decimal("-1e-7")), "", "a b", "$1"),
    *((), (1, 2), ("a", 'say "ä"\n', ()), ((True, None), (exact(Decimal("1.5")), ("x",))), ({"b": 1},), {"a": 1}, {}),
)


@pytest.mark.parametrize("value", [freeze(one) for one in VALUES], ids=str)
def test_a_value_in_a_template_is_written_as_the_machine_writes_it(value: Any) -> None:
    """Also where a certificate writes the number in another way."""
    (tree,) = built(freeze(["is $x!"])).parts  # type: ignore[union-attr]
    written = evaluate(tree, lambda _: value)
    given = Decimal(f"{value}.000") if isinstance(value, int) and not isinstance(value, bool) else value
    for one in (value, given):
        (block,) = values(tree, {("x",): (of_value(one),)})
        has_object = "{" in written
        assert block.single is not has_object
        assert has_object or block.value == written
