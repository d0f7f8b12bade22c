"""Programs at the edges of the engine: each kind broke it once, or made it say what is not so, and a neighbour might.

What is expected is the verdict on a rule or a condition, or words of a finding; nothing may break.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from comparing import refused
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program

TEXT, FLAG, TEXTS = {"type": "string"}, {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}
END = {"id": "d", "type": "end"}


def checked(steps: list[dict[str, Any]], **more: Any) -> Report:
    report = ProgramValidator(Program.from_dict({"inputs": {}, "tools": {}, **more, "steps": steps})).validate()
    assert "SW903" not in codes(report), "an internal error"
    return report


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def asks(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "c", "type": "condition", "condition": text, "then": "d", **more}


# -- conditions that constants decide ----------------------------------------------------------------------------------

ORDER = {
    "type": "object",
    "properties": {"total": {"type": ["boolean", "null"]}, "note": {"type": "array", "items": FLAG}},
    "required": ["total"],
}


@pytest.mark.parametrize("constant", ["-2 > 1", "'Abc' not contains 'bc'", "not (1 == 1)"])
@pytest.mark.parametrize("other", ["not defined($o.note) or false in $o.note", "$o.total == true", "len($o.note) > 1"])
@pytest.mark.parametrize("form", ["condition", "cases"])
def test_a_condition_is_decided_before_it_reads_what_nothing_else_reads(constant: str, other: str, form: str) -> None:
    text = f"{constant} and ({other})"
    first = {"condition": text, "then": "b"} if form == "condition" else {"cases": [{"when": text, "then": "b"}]}
    later = {"id": "b", "type": "condition", "condition": "$o.total != null", "then": "d", "otherwise": "d"}
    report = checked([{"id": "a", "type": "condition", **first}, later, END], inputs={"o": ORDER})
    assert "SW302" in codes(report)


@pytest.mark.parametrize("kind", ["program", "policy"])
def test_a_run_that_takes_no_branch_owes_what_had_to_follow(kind: str) -> None:
    """Who knows no such ending proves the rule, and a policy is slipped past with three ignored warnings."""
    rule = {"name": "booked", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "book"}}}
    tools = {"pay": {"effect": "write", "returns": FLAG}, "book": {"effect": "write", "idempotent": True}}
    steps = [
        {"id": "take", "type": "tool", "tool": "pay", "next_step": "which"},
        {"id": "which", "type": "condition", "condition": "1 == 2", "then": "enter"},
        {"id": "enter", "type": "tool", "tool": "book", "is_terminal": True},
    ]
    if kind == "program":
        report = checked(steps, tools=tools, guardrails=[rule])
    else:
        from stepward.vm import Policy

        policy = Policy.from_dict({"policy": "payments", "tools": tools, "guardrails": [rule]})
        program = Program.from_dict({"inputs": {}, "steps": steps})
        report = ProgramValidator(program, policies=[policy]).validate()
    assert "SW405" in codes(report)


# -- objects that are copied -------------------------------------------------------------------------------------------

REPLY = {"type": "object", "properties": {"ok": FLAG}, "required": ["ok"]}
OTHERS: list[dict[str, Any]] = [
    {"set": {"doc": "'done'"}}, {"set": {"doc": 5}}, {"set": {"doc": None}}, {"set": {"doc": {"ok": True}}},
    {"set": {"doc": {}}}, {"set": {"doc": "$order"}}, {"set": {"doc": "$flag"}},
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("returns", [REPLY, None])
@pytest.mark.parametrize("asked", ["$doc.ok", "$doc.ok == true and $doc.ok", "defined($doc.ok)"])
def test_an_object_that_is_copied_may_be_something_else(
    other: dict[str, Any], order: int, returns: Any, asked: str
) -> None:
    tools = {"get": {"effect": "read", **({"returns": returns} if returns else {})}}
    first = {"id": "a", "type": "tool", "tool": "get", "output_key": "doc"}
    second = {"id": "b", "type": "set", **other}
    pair = [first, second] if order == 0 else [second, first]
    condition = asks(asked, otherwise="n")
    report = checked(
        [*pair, condition, END, {"id": "n", "type": "end"}],
        tools=tools,
        inputs={"order": REPLY, "flag": FLAG},
    )
    assert report.properties


def test_the_output_of_a_parallel_step_may_be_written_over() -> None:
    parts = [{"id": f"check{one}", "type": "tool", "tool": "look", "on_error": "retry"} for one in (1, 2)]
    steps = [
        {"id": "all", "type": "parallel", "parallel_steps": parts, "output_key": "found"},
        {"id": "more", "type": "tool", "tool": "look", "output_key": "found"},
        {"id": "c", "type": "condition", "cases": [{"when": "$found.mood.now == 'good'", "then": "d"}]},
        END,
    ]
    assert checked(steps, tools={"look": {"effect": "read"}}).findings


# -- one assignment after the other ------------------------------------------------------------------------------------


@pytest.mark.parametrize("assigned", [{"v": "$v", "k": "$n"}, {"v": "$w", "w": "$v"}, {"v": "$v", "n": "$n + 1"}])
@pytest.mark.parametrize("in_loop", [False, True])
def test_what_waits_for_its_name_is_over_with_its_step(assigned: dict[str, str], in_loop: bool) -> None:
    """A merge of ways, one of which swaps names, asked with arithmetic: that is for the solver."""
    steps: list[dict[str, Any]] = [
        {"id": "init", "type": "set", "set": {"n": 1, "v": "'x'", "w": "'y'"}, "next_step": "s0"},
        {"id": "s0", "type": "condition", "condition": "$n * 5 + len($a) > $k0", "then": "s2", "otherwise": "s1"},
        {"id": "s1", "type": "condition", "condition": "$n + $k0 < 0.5", "then": "s2", "otherwise": "c"},
        {"id": "s2", "type": "set", "set": assigned, "next_step": "s0" if in_loop else "c", "max_visits": 3},
        {"id": "c", "type": "condition", "cases": [{"when": "$v not in ['abc'] and $n + $k0 != 7", "then": "d"}]},
        END,
    ]
    report = checked(steps, inputs={"a": TEXTS, "k0": {"type": "number"}}, max_steps=40)
    assert "c" in {prop.rule for prop in report.properties}


@pytest.mark.parametrize("first", [["new"], "['new']"])
@pytest.mark.parametrize("again", [None, {"tags": "$tags"}, {"other": "$tags", "tags": "$tags"}])
def test_a_list_that_is_set_to_itself_stays_a_list(first: Any, again: Any) -> None:
    steps: list[dict[str, Any]] = [{"id": "init", "type": "set", "set": {"tags": first}}]
    steps += [{"id": "again", "type": "set", "set": again}] if again else []
    steps += [asks("$tags contains 'new'", otherwise="n"), END, {"id": "n", "type": "end"}]
    rules = [{"name": name, "never": {"step": step}} for name, step in (("not-n", "n"), ("not-d", "d"))]
    report = checked(steps, guardrails=rules)
    verdicts = {prop.rule: prop.verdict for prop in report.properties if prop.name == "never"}
    assert verdicts == {"not-n": Verdict.PROVED, "not-d": Verdict.VIOLATED}
    assert "SW203" not in codes(report)


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [["string", "null"], ["string", "array"], ["string", "number"]])
@pytest.mark.parametrize("operator", ["contains", "starts_with", "=="])
def test_a_text_is_looked_for_that_may_be_none(inner: list[str], operator: str) -> None:
    cases = [
        {"when": "not (0 > 1)", "then": "d"},
        {"when": "not defined($v) or $v == null or len($v) + $k == 5", "then": "d"},
        {"when": f"defined($v) and $v != null and $s {operator} $v", "then": "d"},
    ]
    steps = [
        {"id": "a", "type": "tool", "tool": "get", "output_key": "v", "on_error": "skip"},
        {"id": "c", "type": "condition", "exclusive": True, "cases": cases},
        END,
    ]
    tools = {"get": {"effect": "read", "returns": {"type": inner}}}
    assert codes(checked(steps, tools=tools, inputs={"k": {"type": "integer"}, "s": TEXT})) & {"SW305", "SW203"}


@pytest.mark.parametrize(
    ("longest", "verdict"), [(2, Verdict.PROVED), (3, Verdict.PROVED), (4, Verdict.VIOLATED), (None, Verdict.VIOLATED)]
)
def test_a_start_and_an_end_may_overlap_in_a_short_text(longest: int | None, verdict: Verdict) -> None:
    cases = [
        {"when": "not ($s starts_with 'ab' and $s ends_with 'bc')", "then": "d"},
        {"when": "$s == 'abc'", "then": "d"},
    ]
    spec = TEXT if longest is None else {**TEXT, "maxLength": longest}
    data = {"inputs": {"s": spec}, "tools": {}, "steps": [{"id": "c", "type": "condition", "cases": cases}, END]}
    report = ProgramValidator(Program.from_dict(data), certify=True).validate()
    assert [prop.verdict for prop in report.properties] == [verdict]
    assert refused(report, is_rechecked=True) == []


# -- lengths -----------------------------------------------------------------------------------------------------------

LENGTHS = ["100001", "1000000007", "1e20", "1e999"]
CHECK = """
import json, sys
from stepward.validator import ProgramValidator
from stepward.vm import Program
report = ProgramValidator(Program.from_dict(json.loads(sys.argv[1]))).validate()
print(json.dumps([[one.code, one.message] for one in report.findings]))
"""


def under_a_gigabyte(data: str) -> str:
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))  # noqa: E731
    command = [sys.executable, "-c", CHECK, data]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("spec", "operator"), list(product([TEXT, TEXTS], ["<", ">", "=="])))
@pytest.mark.parametrize("length", LENGTHS)
def test_no_witness_is_longer_than_its_bound(spec: dict[str, Any], operator: str, length: str) -> None:
    report = checked([asks(f"len($s) {operator} {length}"), END], inputs={"s": spec})
    said = {finding.code: finding.message for finding in report.findings}
    if operator == "<":
        assert "longer than 100,000" in said["SW408"]
    else:
        assert "SW302" in said  # a short one takes no branch


@pytest.mark.parametrize("spec", [TEXT, TEXTS])
def test_a_witness_is_as_long_as_its_bound(spec: dict[str, Any]) -> None:
    report = checked([asks("len($s) < 100000"), END], inputs={"s": spec})
    assert "SW302" in codes(report)


@pytest.mark.parametrize("spec", [{**TEXT, "maxLength": 999}, {"type": ["string", "null"], "maxLength": 999}])
def test_a_long_length_that_cannot_be_is_proved(spec: dict[str, Any]) -> None:
    text = "$s == null or len($s) < 1000000007" if "null" in spec["type"] else "len($s) < 1000000007"
    report = checked([asks(text), END], inputs={"s": spec})
    assert [prop.verdict for prop in report.properties] == [Verdict.PROVED]


def test_long_lengths_take_no_memory() -> None:
    import json

    rules = [
        {"name": "g1", "never": {"tool": "t"}, "when": "len($s) > 1000000000"},
        {"name": "g2", "never": {"tool": "t"}, "when": "$o.t != null and $n < len($o.t)"},
    ]
    order = {"type": "object", "properties": {"t": {"type": ["string", "null"]}}, "required": ["t"]}
    steps = [
        {"id": "init", "type": "set", "set": {"n": 1000000007}},
        asks("$o.t != null and len($o.t) == 1000000007", then="c2", otherwise="c2"),
        {"id": "c2", "type": "tool", "tool": "t"},
        END,
    ]
    data = {"inputs": {"s": TEXT, "o": order}, "tools": {"t": {"effect": "write"}}, "guardrails": rules, "steps": steps}
    said = under_a_gigabyte(json.dumps(data))
    assert said.count("longer than 100,000") == 2


# -- siblings that never start together --------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["retry", "fail"])
@pytest.mark.parametrize("what", ["what a sibling gives", "a value of another type"])
def test_of_two_siblings_that_exclude_each_other_one_may_be_retried(what: str, on_error: str) -> None:
    """Both write, and only one of them can start: the rule hangs on its retries alone."""
    types: dict[str, Any] = {"mail": {"type": "string"}, "count": {"type": "integer"}}
    tools = {name: {"effect": "write", "args": {"x": spec}} for name, spec in types.items()}
    given = {"mail": "$v" if what == "what a sibling gives" else "$n", "count": "$n"}
    sub_steps: list[dict[str, Any]] = [
        {"id": name, "type": "tool", "tool": name, "args": {"x": value}} for name, value in given.items()
    ]
    sub_steps[1] |= {"on_error": on_error}
    if what == "what a sibling gives":
        sub_steps.append({"id": "say", "type": "llm", "prompt": "hi", "output_key": "v"})
    report = checked(
        [{"id": "both", "type": "parallel", "parallel_steps": sub_steps}, END],
        inputs={"n": {"type": "integer" if what == "what a sibling gives" else ["integer", "string"]}},
        tools=tools,
        guardrails=[{"name": "once", "at_most_once": {"effect": "write"}}],
    )
    assert "SW902" not in codes(report)
    verdicts = [prop.verdict for prop in report.properties if prop.name == "at_most_once"]
    # Of arguments the machine says whether they fit after it has asked the rules: there the second start breaks it.
    assert (verdicts == [Verdict.PROVED]) is (on_error == "fail" and what == "what a sibling gives")


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "said"), [(3, None), (4, "SW408"), (5, "SW404"), (6, "SW404")])
def test_a_second_round_of_a_parallel_step_costs_the_round_and_the_attempt(most: int, said: str | None) -> None:
    parts = [{"id": name, "type": "tool", "tool": tool} for name, tool in (("a", "pay"), ("b", "look"))]
    report = checked(
        [{"id": "both", "type": "parallel", "parallel_steps": parts, "on_error": "retry", "is_terminal": True}],
        tools={"pay": {"effect": "write", "args": {}}, "look": {"effect": "read", "idempotent": True}},
        guardrails=[{"name": "once", "at_most_once": {"tool": "pay"}}],
        max_steps=most,
    )
    assert codes(report) & {"SW404", "SW408", "SW901", "SW902"} == ({said} if said else set())
    assert refused(report, is_rechecked=True) == []
