"""`followed_by` with `ends: any` where branches or items run at once: held against every interleaving.

With `ends: any` a run may be cancelled before any step but Q, so that a sibling must not be able to start one first.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from branched_programs import branched_program
from brute_branches import Enumeration
from brute_items import ItemEnumeration
from concurrent_programs import concurrent_program
from hasty_programs import hasty_program
from sizes import size
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis.siblings import DebtMonitor
from stepward.vm import Program, ProgramError
from stepward.vm.machine.plan import Plan

TOOLS: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": True},
    "note": {"effect": "write", "idempotent": True},
    "look": {"effect": "read"},
}
OPEN = "open"


def step(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **more}


def branch(*steps: dict[str, Any], after: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"steps": list(steps), **({"depends_on": list(after)} if after else {})}


PAY, NOTE, LOOK = step("pay", "pay"), step("note", "note"), step("look", "look")
ASK: dict[str, Any] = {"id": "ask", "type": "condition", "condition": "$f", "then": "pay", "otherwise": "rest"}

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "Q at once, beside another step": ({"a": branch(PAY, NOTE), "b": branch(LOOK)}, "violated"),
    "Q at once, in the only order": ({"a": branch(PAY, NOTE), "b": branch(LOOK, after=("a",))}, "proved"),
    "Q in the only branch behind": ({"a": branch(PAY), "b": branch(NOTE, LOOK, after=("a",))}, "proved"),
    "Q in one of two branches behind": (
        {"a": branch(PAY), "b": branch(NOTE, after=("a",)), "c": branch(LOOK, after=("a",))},
        "violated",
    ),
    "Q in both branches behind": (
        {"a": branch(PAY), "b": branch(NOTE, after=("a",)), "c": branch(step("more", "note"), LOOK, after=("a",))},
        "proved",
    ),
    "beside a branch that comes later": (
        {"a": branch(LOOK), "b": branch(PAY, NOTE, after=("a",)), "c": branch(step("see", "look"), after=("a",))},
        "violated",
    ),
    "P in a branch that never pays": (
        {
            "a": branch(
                {**ASK, "condition": "$f and not $f"}, PAY, {**NOTE, "next_step": "rest"}, step("rest", "look")
            ),
            "b": branch(LOOK),
        },
        "proved",
    ),
    "beside a branch that only has Q": ({"a": branch(PAY, NOTE), "b": branch(step("more", "note"))}, "proved"),
    "beside two that only have Q, which may fail": (
        {
            "a": branch(PAY, NOTE),
            "b": branch(step("more", "note"), step("again", "note", on_error="skip")),
            "c": branch(step("third", "note"), after=("b",)),
        },
        "proved",
    ),
    "paid behind the branches, beside one that only has Q": (
        {"a": branch(PAY), "b": branch(step("more", "note"))},
        "violated",
    ),
    "beside one that only has Q, behind which another is": (
        {
            "a": branch(PAY),
            "b": branch(step("more", "note")),
            "c": branch(NOTE, after=("a",)),
            "d": branch(LOOK, after=("a", "b")),
        },
        "violated",
    ),
    "beside one that only has Q, behind which Q is": (
        {
            "a": branch(PAY),
            "b": branch(step("more", "note")),
            "c": branch(NOTE, after=("a",)),
            "d": branch(step("third", "note"), LOOK, after=("a", "b")),
        },
        "proved",
    ),
    "beside a branch that has Q and may not start it": (
        {"a": branch(PAY, NOTE), "b": branch(step("more", "note", max_visits=1))},
        OPEN,
    ),
    "beside a branch that has Q and then more": (
        {"a": branch(PAY, NOTE), "b": branch(step("more", "note"), LOOK)},
        OPEN,
    ),
}


def program(branches: dict[str, Any], *behind: dict[str, Any]) -> dict[str, Any]:
    rule = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "note"}}, "ends": "any"}
    steps = [{"id": "both", "type": "parallel", "branches": branches}, *behind]
    steps.append({"id": "done", "type": "end", "outcome": "success"})
    inputs = {"f": {"type": "boolean"}, "g": {"type": "string", "enum": ["a", "b"]}}
    return {"name": "hasty", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": [rule], "steps": steps}


def wrong_in(data: dict[str, Any], broken: set[str], report: Report, counts: Counter[str] | None = None) -> list[str]:
    """Return where the checker differs from the enumeration; `counts` gets the verdicts."""
    wrong: list[str] = []
    names = {rule["name"] for rule in data["guardrails"]}
    for one in (one for one in report.properties if one.rule in names):
        verdict, reason = str(one.verdict), one.evidence.reason
        verdict = OPEN if reason.endswith("and that is not proved yet") else verdict
        verdict = "vacuous" if reason == "the rule is vacuous" else verdict
        if counts is not None:
            counts[f"{verdict} {'broken' if one.rule in broken else 'kept'}"] += 1
        if verdict not in ("vacuous", OPEN, "violated" if one.rule in broken else "proved"):
            wrong.append(f"{one.rule} is {verdict}: {reason}")
        if (verdict == "proved" and not one.rechecked) or (verdict == "violated" and one.evidence.unconfirmed):
            wrong.append(f"{one.rule} is {verdict} without evidence: {one.evidence.unconfirmed}")
    return wrong


def is_runnable(data: dict[str, Any]) -> bool:
    try:
        Plan(Program.from_dict(data))
    except ProgramError:
        return False
    return True


def checked(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data)).validate()


@pytest.mark.parametrize("name", CASES)
def test_what_can_start_beside_decides(name: str) -> None:
    branches, verdict = CASES[name]
    data, counts = program(branches), Counter[str]()
    broken = Enumeration(data).run()
    assert not wrong_in(data, broken, checked(data), counts)
    said = f"{verdict} {'broken' if 'r' in broken else 'kept'}"
    assert list(counts) == [said]


def test_the_last_step_beside_an_earlier_branch_is_decided_by_what_is_behind_the_join() -> None:
    """The branches of a run for a report come in the order of the layout: it can't show the step before."""
    for behind, expected in ((LOOK, "violated broken"), (NOTE, "open broken")):
        named = {"b": branch(step("see", "look", on_error="skip")), "c": branch({**PAY, "on_error": "skip"})}
        data, counts = program(named, {**behind, "id": "last"}), Counter[str]()
        assert not wrong_in(data, Enumeration(data).run(), checked(data), counts)
        assert list(counts) == [expected]


def test_a_report_names_the_step_that_can_start_first_and_its_help_is_right() -> None:
    data = program({"a": branch(PAY, NOTE), "b": branch(LOOK)})
    (found,) = [one for one in checked(data).findings if one.code == "SW405"]
    assert found.step == "look"
    assert found.message.startswith("the run can end at `look` after tool `pay` succeeded")
    assert found.help == "write `depends_on: [a]` in `b`, or do without `ends: any`"
    mended = checked(program({"a": branch(PAY, NOTE), "b": branch(LOOK, after=("a",))}))
    assert not [one for one in mended.findings if one.code == "SW405"]


@pytest.mark.parametrize("name", ["Q at once, beside another step", "Q in one of two branches behind"])
def test_the_second_checker_refuses_a_proof_that_looks_at_one_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DebtMonitor, "rival", lambda *_: None)
    (found,) = checked(program(CASES[name][0])).properties
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


def drawn_fork(seed: int) -> dict[str, Any]:
    """Return a program with branches of which many have nothing but Q."""
    chance, names = Random(f"{seed}/beside"), ("a", "b", "c", "d")
    branches: dict[str, Any] = {}
    count = 0
    for place, name in enumerate(names[: chance.choice((2, 3, 3, 4))]):
        tools = ["note"] * chance.choice((1, 1, 2, 3))
        style = chance.random()
        if style > 0.8:
            tools = ["pay", "note"]
        elif style > 0.5:
            tools = [chance.choice(("pay", "note", "note", "look")) for _ in tools]
        found = [
            step(f"s{count + number}", tool, **({"on_error": "skip"} if chance.random() < 0.3 else {}))
            for number, tool in enumerate(tools)
        ]
        count += len(found)
        branches[name] = branch(*found, after=tuple(one for one in names[:place] if chance.random() < 0.35))
    behind = [step(f"t{number}", chance.choice(("note", "look"))) for number in range(chance.choice((0, 1, 2)))]
    return program(branches, *behind)


@pytest.mark.parametrize("first", range(0, size(30, 3_000), 30))
def test_branches_that_have_nothing_but_q_are_decided(first: int) -> None:
    """What is left open breaks the rule, by a branch that has Q and then another step."""
    counts, wrong = Counter[str](), dict[int, list[str]]()
    for seed in range(first, first + 30):
        data = drawn_fork(seed)
        said = wrong_in(data, Enumeration(data).run(), checked(data), counts)
        wrong |= {seed: said} if said else {}
    assert not wrong
    assert counts["proved kept"] >= 5
    assert counts["violated broken"] >= 5
    assert not counts["open kept"]


@pytest.mark.parametrize("budget", [{"max_steps": 4}, {"max_stalled_steps": 2}, {"timeout_seconds": 9}])
def test_a_budget_may_keep_q_from_its_start_beside_p(budget: dict[str, int]) -> None:
    data = program(CASES["beside a branch that only has Q"][0])
    (found,) = checked(data).properties
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)
    (found,) = checked(data | budget).properties
    assert found.verdict is not Verdict.PROVED


@pytest.mark.parametrize("first", range(0, size(40, 1_600), 40))
def test_verdicts_on_branches_are_those_of_every_interleaving(first: int) -> None:
    counts, wrong = Counter[str](), dict[int, list[str]]()
    for seed in range(first, first + 40):
        data = hasty_program(seed, branched_program)
        said = wrong_in(data, Enumeration(data).run(), checked(data), counts) if is_runnable(data) else []
        wrong |= {seed: said} if said else {}
    assert not wrong
    assert counts["violated broken"] >= 10
    assert counts["proved kept"] >= 2
    assert counts["open broken"] + counts["open kept"] <= 2


@pytest.mark.parametrize("first", range(0, size(8, 400), 8))
def test_verdicts_on_items_at_once_are_those_of_every_interleaving(first: int) -> None:
    """A violation is found where the items come one after another; what no such run shows is left open."""
    wrong: dict[int, list[str]] = {}
    for seed in range(first, first + 8):
        data = hasty_program(seed, concurrent_program)
        said = wrong_in(data, ItemEnumeration(data).run(), checked(data)) if is_runnable(data) else []
        wrong |= {seed: said} if said else {}
    assert not wrong
