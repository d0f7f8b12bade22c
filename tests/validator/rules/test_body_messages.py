"""Fast: what findings at steps with bodies say is what is wrong, and doing what a help says takes the finding away."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding
from stepward.vm import Program

PAY: dict[str, Any] = {
    "effect": "write",
    "idempotent": True,
    "args": {"id": {"type": "string"}},
    "returns": {"type": "string"},
}
LIST: dict[str, Any] = {"type": "array", "maxItems": 3, "items": {"type": "string"}}


def found(code: str, *steps: Any, pay: Any = PAY, **more: Any) -> list[Finding]:
    data = {"name": "p", "language": 2, "inputs": {}, "tools": {"pay": pay}, **more, "steps": list(steps)}
    report = ProgramValidator(Program.from_dict(data)).validate()
    return [one for one in report.findings if one.code == code]


def each(items: Any, **more: Any) -> dict[str, Any]:
    steps = [
        {"id": "p", "type": "tool", "tool": "pay", "args": {"id": "$one"}},
        {"id": "e", "type": "end", "output": {"receipt": "$p.output"}},
    ]
    return {"id": "each", "type": "for_each", "items": items, "as": "one", "output_key": "all", "steps": steps, **more}


def reads(text: str) -> dict[str, Any]:
    return {"id": "s", "type": "set", "set": {"first": text}}


FAILED = "may be absent: an item of `each` that failed gives null"


@pytest.mark.parametrize(
    ("items", "more", "text", "says"),
    [
        (["a", "b"], {"on_item_error": "skip"}, "$all[0].receipt", FAILED),
        (["a", "b"], {"on_item_error": "skip"}, "$all[1].receipt", FAILED),
        ("$list", {"on_item_error": "skip"}, "$all[2].receipt", "may be absent: the array may have fewer items"),
        ("$list", {"on_item_error": "skip"}, "$all[0].receipt", "may be absent: the array may have no items"),
        ("$list", {}, "$all[0].receipt", "may be absent: the array may have no items"),
    ],
)
def test_what_may_lack_of_a_list_of_items(items: Any, more: Any, text: str, says: str) -> None:
    inputs = {"list": LIST} if items == "$list" else {}
    sound = {"error_step": "no"} if not more else {}
    steps = [each(items, **more, **sound), reads(text), {"id": "no", "type": "end", "outcome": "failure"}]
    (finding,) = found("SW202", *steps, inputs=inputs)
    assert finding.message == f"`{text}` {says}"
    if says == FAILED:
        asked = {"id": "is", "type": "condition", "condition": f"defined({text})", "then": "s", "otherwise": "no"}
        assert found("SW202", each(items, **more), asked, reads(text), steps[-1], inputs=inputs) == []


@pytest.mark.parametrize(
    ("items", "text"), [(["a", "b"], "$all[2]"), (["a", "b"], "$all[2].receipt"), ("$list", "$all[3]")]
)
def test_an_item_that_no_list_of_a_step_has_is_reported(items: Any, text: str) -> None:
    steps = [each(items, error_step="no"), reads(text), {"id": "no", "type": "end", "outcome": "failure"}]
    (finding,) = found("SW201", *steps, inputs={"list": LIST} if items == "$list" else {})
    assert finding.message.startswith(f"`{text}` never exists")


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_help_of_a_retried_body_leads_to_no_other_retry_of_a_write(idempotent: bool) -> None:
    again = {"on_error": "retry", "max_retries": 2}
    stop = {"id": "no", "type": "end", "outcome": "failure"}
    tool = {**PAY, "idempotent": idempotent}
    (finding,) = found("SW503", each(["a"], **again, error_step="no"), stop, pay=tool)
    assert ("retry the calls that can fail" in str(finding.help)) == idempotent
    assert ("retry calls that only read, and not `p`" in str(finding.help)) != idempotent
    followed = each(["a"], error_step="no")
    followed["steps"][0] |= again
    assert (found("SW503", followed, stop, pay=tool) == []) == idempotent


@pytest.mark.parametrize(("written", "is_short"), [([1, 2], True), ([1, 2, 3], False), ("$given", False)])
def test_a_list_that_a_set_step_writes_has_as_many_items(written: Any, is_short: bool) -> None:
    do = {"id": "p", "type": "set", "set": {"x": "$one"}}
    step = {"id": "each", "type": "for_each", "items": "$list", "max_items": 2, "as": "one", "do": do}
    del step["do"]
    step["steps"] = [do]
    given = {"given": {"type": "array", "items": {"type": "number"}}}
    lists = {"id": "s", "type": "set", "set": {"list": written}}
    assert (found("SW113", lists, step, inputs=given) == []) == is_short


@pytest.mark.parametrize("taken", [{}, {"error_step": "no"}, {"on_error": "skip"}])
@pytest.mark.parametrize("items", [[1, 2, 3], [1, 2], "$given"])
def test_a_written_list_that_is_too_long_is_reported_whatever_takes_the_failure(
    items: Any, taken: dict[str, Any]
) -> None:
    do = {"id": "p", "type": "set", "set": {"x": "$one"}}
    step = {"id": "each", "type": "for_each", "items": items, "max_items": 2, "as": "one", "steps": [do], **taken}
    stop = {"id": "no", "type": "end", "outcome": "failure"}
    given = {"given": {"type": "array", "items": {"type": "number"}}}
    is_reported = found("SW113", {**step, "next_step": "done"}, stop, {"id": "done", "type": "end"}, inputs=given) != []
    assert is_reported == (items == [1, 2, 3] or (items == "$given" and not taken))
