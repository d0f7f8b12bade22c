"""What only a late item of a list shows that a for_each step has written down: verdicts by hand, each with a run or a
proof. No list is unrolled: the run takes all items, and the path one."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.witnesses import late_items
from stepward.validator.engine.witnesses.replay import replay
from stepward.validator.findings import Property
from stepward.vm import Program

Step = dict[str, Any]
PROVED, BROKEN, OPEN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN

TOOLS: dict[str, Any] = {
    "get": {"effect": "read", "returns": {"type": "string", "enum": ["a", "b"]}, "errors": ["Gone"]},
    "look": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True},
    "note": {"effect": "write", "idempotent": True},
}
GET: Step = {"id": "get", "type": "tool", "tool": "get"}
LOOK: Step = {"id": "look", "type": "tool", "tool": "look"}
PAY: Step = {"id": "pay", "type": "tool", "tool": "pay", "next_step": "rest"}
REST: Step = {"id": "rest", "type": "set", "set": {}}
NEVER = {"name": "r", "never": {"tool": "pay"}}


def ask(condition: str, *, then: str = "pay") -> Step:
    return {"id": "ask", "type": "condition", "condition": condition, "then": then, "otherwise": "rest"}


def judged(items: list[Any], *body: Step, behind: tuple[Step, ...] = (), rule: Any = NEVER, **each: Any) -> Property:
    step = {"id": "each", "type": "for_each", "items": items, "as": "x", "max_items": 2000, "steps": [*body], **each}
    data = {"name": "late", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "steps": [step, *behind]}
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in report.findings if one.code[:4] in ("SW00", "SW90")], report.findings
    return next(one for one in report.properties if one.rule == "r")


def is_shown(found: Property) -> bool:
    """Return whether a verdict comes with what shows it: a run that breaks the rule, or an accepted proof."""
    if found.verdict is BROKEN and found.evidence.witness is not None:
        run, path = replay(found.evidence.witness), found.evidence.path
        return run.confirmed and run.moves[: len(path) - 1] == path[:-1]
    return found.verdict is PROVED and found.rechecked


ALL, ROWS = list(range(1000)), [{"k": f"t{number}", "v": number} for number in range(12)]
NUMBERS = ALL[:100]
FAILS: Step = {**GET, "error_step": "pay"}
CARRIES: Step = {"id": "add", "type": "set", "set": {"sum": "$sum + $x"}}

CASES: dict[str, tuple[dict[str, Any], list[Any], list[Step], Verdict]] = {
    "the last of many": ({}, ALL, [LOOK, ask("$x == 999"), PAY, REST], BROKEN),
    "one in the middle": ({}, NUMBERS, [LOOK, ask("$x > 50 and $x < 52"), PAY, REST], BROKEN),
    "none of many": ({}, ALL, [LOOK, ask("$x == 1000"), PAY, REST], PROVED),
    "none between two": ({}, NUMBERS, [LOOK, ask("$x > 50 and $x < 51"), PAY, REST], PROVED),
    "the last text": ({}, [row["k"] for row in ROWS], [LOOK, ask("$x == 't11'"), PAY, REST], BROKEN),
    "a field of the last": ({}, ROWS, [LOOK, ask("$x.k == 't11' and $x.v == 11"), PAY, REST], BROKEN),
    "fields of two items": ({}, ROWS, [LOOK, ask("$x.k == 't11' and $x.v == 10"), PAY, REST], PROVED),
    "its number": ({"index_as": "i"}, NUMBERS[:90], [LOOK, ask("$i == 89"), PAY, REST], BROKEN),
    "an answer at a late item": ({}, NUMBERS, [GET, ask("$x == 70 and $get.output == 'b'"), PAY, REST], BROKEN),
    "an answer that no item has": ({}, NUMBERS, [GET, ask("$x == 70 and $get.output == 'c'"), PAY, REST], PROVED),
    "a failure at a late item": ({}, NUMBERS[:70], [ask("$x == 69", then="get"), FAILS, PAY, REST], BROKEN),
    "items at once": ({"max_concurrency": 3}, NUMBERS[:80], [LOOK, ask("$x == 79"), PAY, REST], BROKEN),
    "items that are skipped": ({"on_item_error": "skip"}, NUMBERS[:80], [LOOK, ask("$x == 79"), PAY, REST], BROKEN),
    "what items carry on": (
        {"carry": {"sum": 0}},
        NUMBERS[:40],
        [LOOK, CARRIES, ask("$sum == 780"), PAY, REST],
        BROKEN,
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_a_late_item_decides(name: str) -> None:
    each, items, body, due = CASES[name]
    found = judged(items, *body, **each)
    assert found.verdict is due, found.evidence
    assert is_shown(found) is (due is not OPEN)


@pytest.mark.parametrize("behind", [(), ({"id": "last", "type": "tool", "tool": "note"},)])
def test_what_a_late_item_owes_is_found(behind: tuple[Step, ...]) -> None:
    rule = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "note"}}}
    found = judged(NUMBERS[:90], LOOK, ask("$x == 77"), PAY, REST, rule=rule, behind=behind)
    # A later item may fail, and the run with it: the debt of this one is not paid then.
    assert (found.verdict, is_shown(found)) == (BROKEN, True)


def test_what_breaks_a_rule_behind_all_items_is_found() -> None:
    behind = (LOOK | {"id": "again"}, PAY | {"next_step": "over"}, {"id": "over", "type": "end"})
    found = judged(NUMBERS[:90], GET, behind=behind)
    assert (found.verdict, is_shown(found)) == (BROKEN, True)


def test_without_these_runs_it_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.validator.engine.witnesses.late_items.last_rounds", lambda *_: [])
    assert judged(NUMBERS, LOOK, ask("$x == 99"), PAY, REST).verdict is OPEN


def test_few_items_of_a_long_list_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    real = late_items.Scripts.at
    monkeypatch.setattr(
        late_items.Scripts, "at", lambda self, item, places: tried.append(item) or real(self, item, places)
    )
    assert judged(ALL, GET, ask("$x == 998 and $get.output == 'b'"), PAY, REST).verdict is BROKEN
    assert tried
    assert tried[0] == 998
    assert len(tried) <= late_items.MAX_LATE


def test_the_path_that_is_shown_is_that_of_the_run() -> None:
    found = judged(NUMBERS[:40], LOOK, CARRIES, ask("$sum == 780"), PAY, REST, carry={"sum": 0})
    assert sum(move.step == "each next" for move in found.evidence.path) == 40
    assert found.evidence.path[-1].step == "pay"
