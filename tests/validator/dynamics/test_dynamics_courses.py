"""Fast: runs as the analysis sees them, from journals and from spans in three dialects."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from otlp_fleets import HEALTHY, NAMES, fleet, otlp_of
from stepward.validator.dynamics.course import AGAIN, SETTLED, Course, Move
from stepward.validator.dynamics.journals import courses_of
from stepward.validator.dynamics.spans import SpansRefused, courses_in
from stepward.vm import ExecutionVM, MemoryJournal, Program, ScriptedModel, Suspend, ToolError

LOOP = {
    "name": "shop",
    "inputs": {"mail": {"type": "string", "sensitive": True}, "sort": {"type": "string"}},
    "tools": {
        "look": {"effect": "read"},
        "ask": {"effect": "read", "args": {"who": {"type": "string", "sensitive": True}}},
    },
    "steps": [
        {"id": "look", "type": "tool", "tool": "look", "on_error": "retry", "max_retries": 3, "max_visits": 2,
         "next_step": "judge"},
        {"id": "judge", "type": "llm", "prompt": "good?", "allowed_outputs": ["yes", "no"], "output_key": "good",
         "on_error": "retry", "max_visits": 2, "next_step": "which"},
        {"id": "which", "type": "condition", "condition": "$good == 'yes'", "then": "ask", "otherwise": "look",
         "max_visits": 2},
        {"id": "ask", "type": "tool", "tool": "ask", "args": {"who": "$mail"}, "next_step": "end"},
        {"id": "end", "type": "end"},
    ],
}  # fmt: skip


def ran(family_by: str | None = None) -> Course:
    """Return a run that looks twice, once with a retry, and whose model is once refused."""
    answers = iter([None, ToolError("Busy", "later"), None])

    def look() -> None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer

    model = ScriptedModel({"judge": ["no", "maybe", "yes"]})
    journal = MemoryJournal()
    tools = {"look": look, "ask": lambda who: None}
    machine = ExecutionVM(tools, model, journal, checker=None, retry_delay=lambda attempt: 0.0)
    run = machine.run_sync(Program.from_dict(LOOP), {"mail": "ann@example.com", "sort": "gold"}, run_id="one")
    assert run.status == "SUCCESS", run
    (course,) = courses_of(journal, journal.rows(), family_by)
    return course


def test_a_run_of_a_journal_has_its_moves_attempts_calls_and_violations() -> None:
    course = ran()
    assert (course.run, course.program, course.family, course.status) == ("one", "shop", "", "SUCCESS")
    assert [move.state for move in course.moves] == ["look", "judge", "which"] * 2 + ["ask", "end"]
    assert course.moves[2] == Move("which", "look")
    assert course.moves[-1] == Move("end", "SUCCESS (declared)")
    assert [call.tool for call in course.calls] == ["look", "look", "ask"]
    assert course.calls[0] == course.calls[1]
    assert course.attempts.count(Move("look", AGAIN)) == 1
    assert course.attempts.count(Move("look", SETTLED)) == 2
    assert course.attempts.count(Move("judge", AGAIN)) == course.violations == 1
    assert course.work["look"].attempts == 3
    assert len(course.version) == 64


def test_nothing_sensitive_is_in_a_course_and_the_family_is_an_input() -> None:
    course = ran("sort")
    assert course.family == "gold"
    assert "ann@example.com" not in repr(course)
    assert course.calls[2].arguments == '{"who":"#v"}'
    assert ran("mail").family == "[sensitive]"
    assert ran("none").family == "", "there is no such input"


def test_a_run_that_goes_on_is_left_out() -> None:
    journal = MemoryJournal()
    tools = {"ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}}}
    program = {"name": "w", "inputs": {}, "tools": tools, "steps": [{"id": "a", "type": "tool", "tool": "ask"}]}

    machine = ExecutionVM({"ask": lambda: Suspend({"question": "pay?"})}, None, journal, checker=None)
    assert machine.run_sync(Program.from_dict(program), {}, run_id="w").status == "SUSPENDED"
    assert list(courses_of(journal, journal.rows(), None)) == []


# -- spans -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", NAMES)
def test_a_fleet_in_each_dialect_has_the_same_calls_and_attempts(dialect: str) -> None:
    courses = list(fleet(HEALTHY, 3, 20, 100))
    read = list(courses_in(json.dumps(otlp_of(courses, dialect, "helper")), None))
    assert [course.run for course in read] == [course.run for course in courses]
    for one, other in zip(read, courses, strict=True):
        assert (one.program, one.status, one.started) == ("helper", "SUCCESS", other.started)
        assert one.calls[-1] == other.calls[-1]
        assert [move.action for move in one.attempts] == [move.action for move in other.attempts]
        assert one.moves[0] == Move("start", "plan")
        assert one.moves[-1] == Move(one.moves[-2].action, "SUCCESS")


def span(name: str, start: int, **attributes: Any) -> dict[str, Any]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    return {
        "traceId": "t", "spanId": name, "name": name, "parentSpanId": "r",
        "startTimeUnixNano": start, "endTimeUnixNano": start + 2_000_000,
        "attributes": [{"key": k.replace("__", "."), "value": {kinds[type(v)]: v}} for k, v in attributes.items()],
    }  # fmt: skip


CHAT = {"gen_ai__operation__name": "chat"}
ASK = {"llm__request__type": "chat"}


def course_of(*spans: dict[str, Any]) -> Course:
    (course,) = courses_in(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}), None)
    return course


@pytest.mark.parametrize(
    ("attributes", "tokens", "cost"),
    [
        ({**CHAT, "gen_ai__usage__input_tokens": 30, "gen_ai__usage__output_tokens": 4}, 34, "0"),
        ({**CHAT, "stepward__tokens": 9, "stepward__cost": "0.25"}, 9, "0.25"),
        ({**ASK, "gen_ai__usage__prompt_tokens": 5, "gen_ai__usage__completion_tokens": 2}, 7, "0"),
        ({"openinference__span__kind": "LLM", "llm__token_count__total": 12, "llm__cost__total": 0.5}, 12, "0.5"),
        ({"openinference__span__kind": "LLM", "llm__token_count__total": "many"}, 0, "0"),
    ],
)  # fmt: skip
def test_tokens_and_cost_are_read_by_the_table_of_the_dialect(
    attributes: dict[str, Any], tokens: int, cost: str
) -> None:
    work = course_of(span("ask", 5, **attributes)).work["ask"]
    assert (work.tokens, work.cost, work.took) == (tokens, Decimal(cost), 2_000)


def test_calls_without_arguments_repeat_nothing_and_a_failed_guardrail_is_a_violation() -> None:
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "look"}
    one, two = span("a", 1, **tool), span("b", 2, **tool)
    guard = span("guard", 3, openinference__span__kind="GUARDRAIL") | {"status": {"code": "STATUS_CODE_ERROR"}}
    course = course_of(one, two, guard)
    assert len(set(course.calls)) == 2
    assert course.violations == 1


def test_several_requests_stand_one_a_line() -> None:
    lines = [json.dumps(otlp_of([course])) for course in fleet(HEALTHY, 1, 3, 100)]
    assert len(list(courses_in("\n".join(lines) + "\n", None))) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"resourceSpans": 3}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_otlp_is_refused(text: str) -> None:
    with pytest.raises(SpansRefused):
        list(courses_in(text, None))


def test_spans_of_no_dialect_are_no_runs() -> None:
    assert list(courses_in(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span("a", 1)]}]}]}), None)) == []
