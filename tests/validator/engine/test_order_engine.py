"""Sub-steps with `depends_on`: what the checker says is held against every order of events, and runs of the machine.

`STEPWARD_ORDERED=1000` tries that many small programs with an order.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from brute_force import truth
from brute_order import before_of, orders, outcomes
from comparing import checked_with_dead, compare
from ordered_programs import ordered_program
from sizes import asked_for
from small_runs import contradictions
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program

CHUNK = 10
CHUNKS = max(1, asked_for("STEPWARD_ORDERED", 10, 20) // CHUNK)

TOOLS: dict[str, Any] = {
    "approve": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
    "look": {"effect": "read", "returns": {"type": "string"}},
    "pay": {"effect": "write", "idempotent": True, "returns": {"type": "string"}},
    "book": {"effect": "write", "idempotent": True, "returns": {"type": "string"}},
}


def checked(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data)).validate()


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(CHUNKS)])
def test_small_programs_with_an_order_agree_with_every_run(chunk: int) -> None:
    wrong: dict[int, list[str]] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        data = ordered_program(number)
        report, dead = checked_with_dead(data)
        found = compare(data, lambda _, report=report: report, is_rechecked=True, dead=dead)  # type: ignore[misc]
        said = found.wrong + contradictions(data, report.properties, dead, number, runs=20)
        if said:
            wrong[number] = said
    assert not wrong


@pytest.mark.parametrize("needs", [[], ["a"]])
def test_a_model_whose_reply_is_an_object_is_a_part_like_others(needs: list[str]) -> None:
    """Its type has a mapping in it, so the part can't be a key of one: the rule ended in an internal error."""
    reply = {"type": "object", "properties": {"n": {"type": "integer"}}}
    parts = (
        {"id": "a", "type": "llm", "prompt": "Well?", "returns": reply},
        member("b", "book", "a"),
        member("p", "pay", *needs),
    )
    rule = {"followed_by": {"first": {"step": "all"}, "then": {"tool": "pay"}}}
    report = checked(program(*parts, rule=rule))
    assert "SW903" not in [one.code for one in report.findings]
    (found,) = [one for one in report.properties if one.rule == "rule"]
    assert found.verdict.name == "VIOLATED"


# -- proof strength ----------------------------------------------------------------------------------------------------


def member(name: str, tool: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **({"depends_on": list(needs)} if needs else {}), **more}


def program(*parts: dict[str, Any], rule: dict[str, Any], before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    steps = [
        *before,
        {"id": "all", "type": "parallel", "error_step": "sorry", "parallel_steps": list(parts)},
        {"id": "done", "type": "end"},
        {"id": "sorry", "type": "end", "outcome": "failure"},
    ]
    rule = {"name": "rule", **rule}
    return {"name": "ordered", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "steps": steps}


APPROVED = {"protects": {"tool": "pay"}, "requires": {"tool": "approve"}}
BOOKED = {"followed_by": {"first": {"tool": "pay"}, "then": {"tool": "book"}}}
SUCCESS = {**BOOKED, "ends": "success"}
NEEDED = ((), ("a",), ("b",), ("a", "b"))
"""What a part may wait for."""
FIRST = member("first", "look")

CASES: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], str]] = {
    "approval in a sibling": (
        (member("ok", "approve"), member("p", "pay"), member("z", "look", "ok")),
        APPROVED,
        "violated",
    ),
    "payment behind the approval": ((member("p", "pay", "ok"), member("ok", "approve")), APPROVED, "proved"),
    "payment far behind it": (
        (member("ok", "approve"), member("m", "look", "ok"), member("p", "pay", "m")),
        APPROVED,
        "proved",
    ),
    "payment behind another sibling": (
        (member("ok", "approve"), member("p", "pay", "first"), FIRST),
        APPROVED,
        "violated",
    ),
    "payment before the approval": ((member("p", "pay"), member("ok", "approve", "p")), APPROVED, "violated"),
    "a skip of the approval": (
        (member("ok", "approve", on_error="skip"), member("p", "pay", "ok")),
        APPROVED,
        "proved",
    ),
    "booked behind the payment": ((member("p", "pay"), member("b", "book", "p")), BOOKED, "proved"),
    "booked beside the payment": (
        (member("p", "pay"), member("b", "book"), member("z", "look", "p")),
        BOOKED,
        "violated",
    ),
    "booked before the payment": ((member("p", "pay", "b"), member("b", "book")), BOOKED, "violated"),
    "booking needs more than the payment": (
        (member("p", "pay"), FIRST, member("b", "book", "p", "first")),
        BOOKED,
        "violated",
    ),
    "that matters to failures alone": (
        (member("p", "pay"), FIRST, member("b", "book", "p", "first")),
        SUCCESS,
        "proved",
    ),
    "a second payment behind the first": (
        (member("p", "pay"), member("q", "pay", "p")),
        {"at_most_once": {"tool": "pay"}},
        "violated",
    ),
    "both behind each other": (
        (member("p", "pay"), member("b", "book", "p")),
        {"exclusive": [{"tool": "pay"}, {"tool": "book"}]},
        "violated",
    ),
    "nothing of it starts": (
        (member("p", "pay"), member("q", "look", "p")),
        {"at_most_once": {"tool": "pay"}},
        "proved",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_depends_on_says_is_proved_or_violated_and_agrees_with_every_order(name: str) -> None:
    parts, rule, verdict = CASES[name]
    data = program(*parts, rule=rule)
    report = checked(data)
    (found,) = [one for one in report.properties if one.rule == "rule"]
    assert found.verdict is Verdict(verdict)
    assert found.rechecked is (verdict == "proved")
    assert bool(truth(data).broken["rule"]) is (verdict == "violated")
    if verdict == "violated":
        assert found.evidence.witness is not None, "the machine has replayed it"


@pytest.mark.parametrize("late", [member("z", "look", "ok"), member("z", "look", "ok", on_error="skip")])
def test_a_step_succeeds_only_with_the_outputs_that_its_sub_steps_depend_on(late: dict[str, Any]) -> None:
    data = program(member("ok", "approve", on_error="skip"), late, rule=APPROVED)
    data["steps"][0]["next_step"] = "p"
    data["steps"].insert(1, member("p", "pay", next_step="done"))
    (found,) = [one for one in checked(data).properties if one.rule == "rule"]
    is_needed = "on_error" not in late
    assert (found.verdict, found.rechecked) == (Verdict.PROVED if is_needed else Verdict.VIOLATED, is_needed)
    assert bool(truth(data).broken["rule"]) is not is_needed


def test_a_fallback_is_no_approval() -> None:
    late = member("ok", "look", timeout_seconds=1, on_timeout="fallback", fallback="none")
    rule = {"protects": {"tool": "pay"}, "requires": {"step": "ok"}}
    data = program(late, member("p", "pay", "ok"), rule=rule)
    (found,) = [one for one in checked(data).properties if one.rule == "rule"]
    assert found.verdict is not Verdict.PROVED
    assert truth(data).broken["rule"]


def test_a_branch_goes_stale_by_what_comes_before_and_by_nothing_beside() -> None:
    ask = {"id": "ask", "type": "set", "set": {"answer": "'yes'"}}
    test = {"id": "agreed", "type": "condition", "condition": "$answer == 'yes'", "then": "all", "otherwise": "sorry"}
    rule = {"protects": {"tool": "pay"}, "requires": {"step": "agreed", "branch": "then"}}
    beside = (member("again", "look", output_key="answer"), member("p", "pay", "first"), FIRST)
    behind = (member("again", "look", output_key="answer"), member("p", "pay", "again"))
    for parts, code in ((beside, None), (behind, "SW402")):
        data = program(*parts, rule=rule, before=(ask, test))
        codes = {one.code for one in checked(data).findings if one.code.startswith("SW4")}
        assert codes == ({code} if code else set())
        assert {found for found, _ in truth(data).broken["rule"]} == codes


@pytest.mark.parametrize("is_tried_again", [True, False])
def test_a_failed_step_may_have_started_what_did_not_wait_for_its_failure(is_tried_again: bool) -> None:
    """Every order of a payment and two reads, each skipped or not: behind a failure, the run pays again or books.

    Where only what the payment waits for can fail the step, no payment has started then.
    """
    counts: Counter[str] = Counter()
    once, either = {"at_most_once": {"tool": "pay"}}, {"exclusive": [{"tool": "pay"}, {"tool": "book"}]}
    for needs, (a, b, p) in product(NEEDED, product(("fail", "skip"), repeat=3)):
        parts = (
            member("a", "look", on_error=a),
            member("b", "look", "a", on_error=b),
            member("p", "pay", *needs, on_error=p),
        )
        begin = (member("begin", "look", next_step="again"), member("again", "look", next_step="all"))
        data = program(*parts, rule=once if is_tried_again else either, before=begin)
        step = data["steps"][2]
        step |= {"error_step": "again" if is_tried_again else "sorry", "next_step": "done", "max_visits": 2}
        data["steps"][4:] = [] if is_tried_again else [member("sorry", "book", is_terminal=True)]
        report, dead = checked_with_dead(data)
        found = compare(data, lambda _, report=report: report, is_rechecked=True, dead=dead)  # type: ignore[misc]
        assert found.wrong == [], (needs, a, b, p)
        counts[report.properties[0].verdict.name] += 1
    assert counts.keys() == {"PROVED", "VIOLATED"}


def test_the_enumeration_knows_every_order() -> None:
    """Two that are not ordered start and end in six orders; three on a line in one."""
    free = truth_orders(member("a", "look"), member("b", "look"), member("c", "look", "a", "b"))
    assert len(free) == 6
    assert len(truth_orders(member("a", "look"), member("b", "look", "a"), member("c", "look", "b"))) == 1


def truth_orders(*parts: dict[str, Any]) -> set[tuple[Any, ...]]:
    from brute_force import Search

    data = program(*parts, rule={"at_most_once": {"tool": "pay"}})
    search = Search(data, blind=True)
    calls, step = search.calls[0], data["steps"][0]
    (found,) = [one for one in outcomes(calls, step, ()) if all(fate.kind == "success" for fate in one.fates.values())]
    return set(orders(calls, step, found.fates))


def test_what_comes_before_is_transitive() -> None:
    assert before_of({"a": set(), "b": {"a"}, "c": {"b"}}) == {"a": set(), "b": {"a"}, "c": {"a", "b"}}


def test_drawn_programs_ask_of_every_kind() -> None:
    """The generator makes broken and kept rules of each kind that an order is about."""
    counts: Counter[tuple[str, bool]] = Counter()
    for number in range(60):
        data = ordered_program(number)
        broken = truth(data).broken
        for rule in data["guardrails"]:
            kind = next(
                word for word in ("requires", "never", "at_most_once", "exclusive", "followed_by") if word in rule
            )
            counts[kind, bool(broken[rule["name"]])] += 1
    assert all(counts[kind, is_broken] for kind in ("requires", "followed_by") for is_broken in (True, False))
