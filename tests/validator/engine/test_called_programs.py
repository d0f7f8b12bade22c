"""Small programs with calls: what the checker says is held against every run, and runs of the machine.

A call is enumerated as a for_each step with one item. `STEPWARD_CALLED=100` tries that many programs.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bodies_judge import BodiesJudge
from brute_force import truth
from called_programs import as_items, called_program, flat_text
from comparing import checked_with_dead, compare
from sizes import asked_for
from small_runs import all_runs
from stepward.validator import ProgramValidator, Report, Verdict, validator
from stepward.validator.called_findings import in_called_programs
from stepward.validator.engine.witnesses.replay import Replayer
from stepward.vm import Program
from stepward.vm.expressions.inner_names import JOINT
from stepward.vm.language import programs

CHUNK = 5
CHUNKS = max(1, asked_for("STEPWARD_CALLED", 5, 10) // CHUNK)


@pytest.fixture(autouse=True)
def _in_names_of_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let findings name the steps of called programs as the enumeration does, once for each call."""
    monkeypatch.setattr(validator, "in_called_programs", lambda findings, _: list(findings))


def report_of(data: dict[str, Any]) -> tuple[Report, set[str]]:
    """Return the report on a program with calls and its dead steps, with the names of its twin with for_each steps."""
    report, dead = checked_with_dead(data)
    findings = (
        replace(one, message=flat_text(one.message), step=None if one.step is None else flat_text(one.step))
        for one in report.findings
    )
    properties = (one._replace(rule=flat_text(one.rule)) for one in report.properties)
    report = replace(report, findings=tuple(findings), properties=tuple(properties))
    return report, {flat_text(name) for name in dead}


def wrong_of(data: dict[str, Any], report: Report, dead: set[str]) -> list[str]:
    """Return what is said of a program and is not true of every run."""
    found = compare(as_items(data), lambda _: report, is_rechecked=True, dead=dead)
    # A program that only fails may be called, and then no path leads to what comes after the call.
    return [one for one in found.wrong if "no path leads to" not in one]


def broken_on_runs(data: dict[str, Any], seed: int, runs: int) -> set[str]:
    """Return the rules that runs on the machine break, which has no rules to keep."""
    plain = {**data, "guardrails": [], "programs": {"p": {**data["programs"]["p"], "guardrails": []}}}
    found, items = set(), as_items(data)
    for run, records in asyncio.run(all_runs(Program.from_dict(plain), plain, seed, runs)):
        told = json.loads(flat_text(json.dumps(records)))
        found |= {rule for rule, _ in BodiesJudge(items).judge(told, run.status, run.reason or "").breaches}
    return found


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(CHUNKS)])
def test_small_programs_with_calls_agree_with_every_run(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: dict[int, Any] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        data = called_program(number)
        report, dead = report_of(data)
        said: list[Any] = wrong_of(data, report, dead)
        proved = {one.rule for one in report.properties if one.verdict is Verdict.PROVED}
        said += sorted(proved & broken_on_runs(data, number, 15))
        if said:
            wrong[number] = said
    assert not wrong


def test_random_runs_break_what_is_violated() -> None:
    """The judge of runs sees rules broken, in called programs and around them, and no rule that always holds."""
    seen: set[str] = set()
    for number in range(5):
        data = called_program(number)
        known = truth(as_items(data)).broken
        broken = broken_on_runs(data, number, 12)
        assert broken <= {rule for rule, places in known.items() if places}
        seen |= {"inside" if rule.startswith("c") else "around" for rule in broken}
    assert seen == {"inside", "around"}


def test_drawn_programs_ask_of_every_kind() -> None:
    """The generator makes broken and kept rules of called programs and of callers, and second calls."""
    counts: Counter[tuple[str, bool]] = Counter()
    for number in range(14):
        data = called_program(number)
        counts["twice", "c1" in {step["id"] for step in data["steps"]}] += 1
        broken = truth(as_items(data)).broken
        counts.update(("inside" if rule.startswith("c") else "around", bool(broken[rule])) for rule in broken)
    assert all(counts[kind, is_so] for kind in ("inside", "around", "twice") for is_so in (True, False))


def test_findings_show_no_words_of_the_layout() -> None:
    """Texts of a called program have other names in the layout of its caller; a finding quotes them as written."""
    inner = {
        "inputs": {"l": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
        "steps": [
            {
                "id": "each",
                "type": "for_each",
                "items": "$l",
                "as": "one",
                "do": {"id": "t", "type": "tool", "tool": "t"},
            },
            {"id": "is", "type": "condition", "condition": "$each.output[0] > 1", "then": "e", "otherwise": "e"},
            {"id": "e", "type": "end"},
        ],
    }
    step = {"id": "c", "type": "call", "program": "p", "args": {"l": ["a"]}}
    data = {"name": "x", "language": 2, "inputs": {}, "programs": {"p": inner}, "steps": [step]}
    findings = in_called_programs(
        ProgramValidator(Program.from_dict(data)).validate().findings, Program.from_dict(data)
    )
    told = [text for one in findings for text in (one.message, one.help, *(label.text for label in one.related))]
    assert not [text for text in told if JOINT in text]
    assert any("`$each.output[0]`" in text for text in told)


# -- witnesses ---------------------------------------------------------------------------------------------------------

TWICE: dict[str, Any] = {
    "name": "twice",
    "language": 2,
    "inputs": {},
    "tools": {"look": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}},
    "steps": [
        {"id": "c0", "type": "call", "program": "p"},
        {"id": "c1", "type": "call", "program": "p"},
        {"id": "z", "type": "tool", "tool": "pay"},
    ],
}


def twice(rule: dict[str, Any] | None, own: dict[str, Any] | None) -> Report:
    steps = [{"id": name, "type": "tool", "tool": tool} for name, tool in (("a", "look"), ("b", "pay"), ("d", "look"))]
    called = {"inputs": {}, "guardrails": [{"name": "own", **own}] if own else [], "steps": steps}
    rules = [{"name": "r", **rule}] if rule else []
    return ProgramValidator(Program.from_dict({**TWICE, "guardrails": rules, "programs": {"p": called}})).validate()


@pytest.mark.parametrize("step", ["c0/d", "c1", "c1/a", "z"])
def test_a_run_that_a_budget_stops_before_a_step_goes_past_calls(step: str) -> None:
    """A run of a call has no move of its own for its one item: that is counted where the budget of a run is."""
    then = {"step": "z"} if step != "z" else {"step": "c0/b"}
    report = twice({"followed_by": {"first": {"step": "c0/b"}, "then": then}, "ends": "any"}, None)
    assert "SW901" not in {one.code for one in report.findings}
    shown = [one for one in report.findings if one.code == "SW405" and f"`{step}`" in one.message.split(" after ")[0]]
    assert all(one.evidence is not None and one.evidence.witness is not None for one in shown)
    assert shown or step == "z"


def test_a_run_has_the_moves_of_its_path_in_calls() -> None:
    report = twice({"never": {"step": "z"}}, None)
    (found,) = [one.evidence for one in report.findings if one.code == "SW403" and one.evidence is not None]
    assert found.witness is not None
    replayer = Replayer(found.witness.program, found.witness.policies)
    assert replayer.replay(found.witness).moves == found.path


@pytest.mark.parametrize(
    "own", [{"never": {"step": "b"}}, {"exclusive": [{"step": "a"}, {"step": "b"}]}, {"at_most_once": {"tool": "look"}}]
)
def test_a_rule_that_stops_each_call_is_shown_in_each(own: dict[str, Any]) -> None:
    """The machine stops in the first call: for the second one, the rule stands there alone."""
    report = twice(None, own)
    assert "SW901" not in {one.code for one in report.findings}
    known = {one.rule: one.verdict for one in report.properties if one.rule is not None and one.rule.endswith("own")}
    assert known == dict.fromkeys(("c0/own", "c1/own"), Verdict.VIOLATED)
    shown = [one.evidence for one in report.findings if one.evidence is not None and one.code.startswith("SW40")]
    assert len(shown) == 2
    assert all(one.witness is not None for one in shown)


def in_a_call(calls: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return [{"id": "w", "type": "call", "program": "q"}], {"q": {"inputs": {}, "steps": calls}}


def in_an_item(calls: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return [{"id": "e", "type": "for_each", "items": [1], "as": "x", "max_items": 1, "steps": calls}], {}


def in_branches(calls: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return [{"id": "par", "type": "parallel", "branches": {"m": {"steps": calls}}}], {}


@pytest.mark.parametrize("around", [in_a_call, in_an_item, in_branches])
def test_a_rule_is_shown_in_the_second_call_wherever_that_is(around: Any) -> None:
    """The other call has the rule no more, so the machine gets to this one."""
    steps, others = around(TWICE["steps"][:2])
    own = {"name": "own", "exclusive": [{"step": "a"}, {"step": "b"}]}
    inner = [{"id": "a", "type": "tool", "tool": "look"}, {"id": "b", "type": "tool", "tool": "pay"}]
    programs = {"p": {"inputs": {}, "guardrails": [own], "steps": inner}, **others}
    made = Program.from_dict({**TWICE, "guardrails": [], "programs": programs, "steps": steps})
    found = [one for one in ProgramValidator(made).validate().properties if (one.rule or "").endswith("own")]
    assert [one.verdict for one in found] == [Verdict.VIOLATED] * 2
    assert len({one.rule for one in found}) == 2


AGAIN: dict[str, dict[str, Any]] = {
    "once": {},
    "by its own error_step": {"error_step": "b", "max_visits": 2},
    "by its own catch": {"catch": [{"errors": ["any"], "then": "b"}], "max_visits": 2},
    "after a success": {"next_step": "b", "max_visits": 2},
    "by retries": {"on_error": "retry", "max_retries": 2},
}


@pytest.mark.parametrize("calls", [{}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}])
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize(("value", "due"), [("b", Verdict.PROVED), ("a", Verdict.VIOLATED)])
def test_a_branch_that_reads_an_argument_is_not_stale_where_its_call_may_end(
    value: str, due: Verdict, again: str, calls: dict[str, Any]
) -> None:
    """A step that may end a call, and is performed again, assigns the output of the call, and not its arguments."""
    asked = {"id": "a", "type": "condition", "condition": "$mode == 'a'", "then": "b", "otherwise": "b"}
    rule = {"name": "own", "protects": {"step": "b"}, "requires": {"step": "a", "branch": "otherwise"}}
    inner = [asked, {"id": "b", "type": "tool", "tool": "look", **AGAIN[again]}]
    called = {"inputs": {"mode": {"type": "string"}}, "guardrails": [rule], "steps": inner}
    step = {"id": "c0", "type": "call", "program": "p", "args": {"mode": value}, **calls}
    data = {**TWICE, "guardrails": [], "programs": {"p": called}, "steps": [step, {"id": "z", "type": "end"}]}
    report, dead = report_of(data)
    assert not wrong_of(data, report, dead)
    (found,) = [one for one in report.properties if one.rule == "c0_own"]
    assert (found.verdict, found.rechecked) == (due, due is Verdict.PROVED)


PAYS: dict[str, Any] = {"id": "a", "type": "tool", "tool": "pay"}
LOOKS: dict[str, Any] = {"id": "b", "type": "tool", "tool": "look"}
LAST: dict[str, Any] = {"is_terminal": True, "outcome": "failure"}


@pytest.mark.parametrize("calls", [{}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}])
@pytest.mark.parametrize(
    ("inner", "is_next"),
    [([LOOKS, PAYS], True), ([LOOKS, PAYS | LAST], True), ([PAYS, LOOKS], False), ([PAYS, LOOKS | LAST], False)],
)
def test_no_step_starts_between_a_call_and_what_follows_it(
    inner: list[dict[str, Any]], is_next: bool, calls: dict[str, Any]
) -> None:
    """With `ends: any` a run may be cancelled before any step but Q: not between a P that ends a call and that Q."""
    rule = {"name": "r", "followed_by": {"first": {"step": "c0/a"}, "then": {"step": "q"}}, "ends": "any"}
    called = {"inputs": {}, "guardrails": [], "steps": inner}
    steps = [{"id": "c0", "type": "call", "program": "p", "args": {}, **calls}, {**LOOKS, "id": "q"}]
    data = {**TWICE, "guardrails": [rule], "programs": {"p": called}, "steps": steps}
    report, dead = report_of(data)
    assert not wrong_of(data, report, dead)
    (found,) = [one for one in report.properties if one.rule == "r"]
    goes_on = "outcome" not in inner[-1] or calls.get("on_error") == "skip"
    assert found.verdict is (Verdict.PROVED if is_next and goes_on else Verdict.VIOLATED)


# -- planted mistakes --------------------------------------------------------------------------------------------------


def forgets_rules_of_the_program(patch: pytest.MonkeyPatch) -> None:
    real = programs._expanded
    patch.setattr(programs, "_expanded", lambda step, scope: real(step, scope).replace(guardrails=()))


def hides_the_steps_of_calls(patch: pytest.MonkeyPatch) -> None:
    """The rules of a caller see no step of a called program: it looks as if it did nothing."""
    real = programs._expanded

    def empty(step: Any, scope: Any) -> Any:
        found = real(step, scope)
        if found.type != "call":
            return found
        return found.replace(steps=tuple(one for one in found.steps if one.type == "end") or found.steps[-1:])

    patch.setattr(programs, "_expanded", empty)


def gives_calls_the_same_names(patch: pytest.MonkeyPatch) -> None:
    """The second call reads the variables of the first one."""
    real = programs.Prefix
    patch.setattr(programs, "Prefix", lambda prefix, language: real("c0/", language))


@pytest.mark.parametrize(
    "mistake", [forgets_rules_of_the_program, hides_the_steps_of_calls, gives_calls_the_same_names]
)
def test_a_planted_mistake_is_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [0, 1, 5, 6, 9]
    with monkeypatch.context() as patch:
        mistake(patch)
        assert any(wrong_of(data, *report_of(data)) for data in map(called_program, seeds))
