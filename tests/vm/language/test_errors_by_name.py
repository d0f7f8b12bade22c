"""Errors by name in documents: what the loader refuses, with which help, and what a reference to `error_name` means."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Program, ProgramError
from stepward.vm.errors import Problem
from stepward.vm.language.names import Names

TOOLS: dict[str, Any] = {"pay": {"effect": "write", "idempotent": True, "errors": ["Busy"]}}
END = {"id": "end", "type": "end"}
ANY = {"errors": ["any"], "then": "end"}


def of(step: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    call = {"id": "pay", "type": "tool", "tool": "pay", "next_step": "end", **(step or {})}
    return {"language": 2, "tools": TOOLS, "steps": [call, END], **more}


def problem(data: dict[str, Any]) -> Problem:
    with pytest.raises(ProgramError) as caught:
        Program.from_dict(data)
    (found,) = caught.value.problems
    assert found.code == "SW002"
    return found


@pytest.mark.parametrize(
    ("step", "message", "help"),
    [
        ({"catch": [ANY], "error_step": "end"}, "both route failures", "remove `error_step`"),
        ({"catch": [ANY], "on_error": "skip"}, "contradict each other", "remove `on_error: skip`"),
        (
            {"retry": [{"errors": ["any"]}], "on_error": "retry"},
            "both say when to try again",
            "remove `on_error: retry`",
        ),
        (
            {"retry": [{"errors": ["Undefined"]}]},
            "can't name `Undefined`",
            "`catch: [{errors: [Undefined], then: ID}]`",
        ),
        ({"catch": [{"errors": ["any", "Busy"], "then": "end"}]}, "stands alone", "`errors: [any]` alone"),
        ({"catch": [{"errors": ["Busy", "Busy"], "then": "end"}]}, "`Busy` twice", "once"),
        ({"catch": [{"errors": [], "then": "end"}]}, "`errors` is empty", "at least one"),
        ({"catch": [{"errors": ["a b"], "then": "end"}]}, "`a b` is not a name", "letters"),
        ({"catch": [{"errors": ["Busy"]}]}, "`then` is missing in this entry of `catch`", "add `then`"),
        ({"catch": "end"}, "`catch` must be a list", "`error_step: ID`"),
        ({"retry": 3}, "`retry` must be a list", "`on_error: retry`"),
        ({"retry": [{"errors": ["any"], "max_attempts": 0}]}, "at least 1", "larger"),
        ({"retry": [{"errors": ["any"], "tries": 3}]}, "unknown field `tries`", "did you mean"),
    ],
)
def test_what_contradicts_itself_is_refused(step: dict[str, Any], message: str, help: str) -> None:
    found = problem(of(step))
    assert message in found.message
    assert help in found.help


@pytest.mark.parametrize("name", ["any", "Timeout", "Unexpected", "Visits", "Refused", "Deadline"])
def test_no_tool_lists_a_name_of_the_machine(name: str) -> None:
    found = problem(of(tools={"pay": {"errors": [name]}}))
    assert f"`{name}` is a name of the machine's own" in found.message


def test_a_parallel_step_has_no_retry() -> None:
    parts = [{"id": "a", "type": "tool", "tool": "pay", "retry": [{"errors": ["any"]}]}]
    step = {"id": "both", "type": "parallel", "parallel_steps": parts}
    Program.from_dict({"language": 2, "tools": TOOLS, "steps": [step]})
    found = problem({"language": 2, "tools": TOOLS, "steps": [step | {"retry": [{"errors": ["any"]}]}]})
    assert "`retry` in this parallel step" in found.message


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (of({"catch": [ANY]}, tools={"pay": {}}), "`catch`"),
        (of({"retry": [{"errors": ["any"]}]}, tools={"pay": {}}), "`retry`"),
        (of(), "`errors` of a tool"),
    ],
)
def test_all_of_it_needs_language_2(data: dict[str, Any], what: str) -> None:
    del data["language"]
    found = problem(data)
    assert (found.message, found.help) == (f"{what} needs language 2", "add `language: 2` to the program")


def test_fields_that_are_null_are_absent() -> None:
    entry = {"errors": ["any"], "max_attempts": None, "backoff": None}
    assert Program.from_dict(of({"retry": [entry], "catch": None})) == Program.from_dict(
        of({"retry": [{"errors": ["any"]}]})
    )


def test_error_name_comes_after_variables_and_only_in_language_2() -> None:
    plain, bound = Program.from_dict(of()), Program.from_dict(of({"output_key": "pay"}))
    assert Names.of(plain).locate(("pay", "error_name")) == (("pay", "error_name"), ())
    assert Names.of(bound).locate(("pay", "error_name")) == (("pay",), ("error_name",))
    first = Program.from_dict({**of(tools={"pay": {}}), "language": 1})
    assert Names.of(first).locate(("pay", "error_name")) is None


@pytest.mark.parametrize(
    ("entry", "delays"),
    [
        ({}, [1, 2, 4, 8]),
        ({"delay_seconds": 2, "backoff": 3, "max_delay_seconds": 10}, [2, 6, 10, 10]),
        ({"delay_seconds": 0.5, "backoff": 1}, [0.5, 0.5, 0.5, 0.5]),
        ({"delay_seconds": 0}, [0, 0, 0, 0]),
        ({"delay_seconds": 60, "max_delay_seconds": 20}, [20, 20, 20, 20]),
    ],
)
def test_a_delay_is_multiplied_for_each_attempt(entry: dict[str, Any], delays: list[float]) -> None:
    made: Any = Program.from_dict(of({"retry": [{"errors": ["any"], **entry}]})).steps[0]
    assert [made.retry[0].delay(failed) / 1e6 for failed in range(1, 5)] == delays
    assert made.retry[0].delay(1_000) / 1e6 <= 86_400
