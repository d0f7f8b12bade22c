"""The enumeration itself: what is true of programs by hand, and what happens on the machine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from brute_force import Truth, truth
from comparing import (
    RULE_CODES,
)
from rare_programs import rare_programs
from sizes import size
from small_programs import small_program
from small_runs import Chance

N = {"type": "integer", "minimum": 0, "maximum": 3}


LETTER = {"type": "string", "enum": ["a", "b"]}


MANIFEST: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": False, "returns": {"type": "boolean"}},
    "book": {"effect": "write", "idempotent": True, "args": {"x": {"type": "integer"}}},
    "ask": {"effect": "read", "returns": {"type": "boolean"}},
    "look": {"effect": "read", "returns": {"type": "object", "properties": {"f": {"type": "boolean"}}}},
}


PAY = {"tool": "pay"}


def small(*steps: dict[str, Any], rule: dict[str, Any] | None = None, **more: Any) -> Truth:
    inputs = {"n": N, "m": N, "l": LETTER, "ok": {"type": "boolean"}}
    rules = [{"name": "rule", **rule}] if rule else []
    return truth({"inputs": inputs, "tools": MANIFEST, "guardrails": rules, **more, "steps": list(steps)})


def tool(name: str, kind: str = "ask", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": kind, **more}


def check(name: str, condition: str, then: str | None, otherwise: str | None = None, **more: Any) -> dict[str, Any]:
    ways = {field: target for field, target in (("then", then), ("otherwise", otherwise)) if target}
    return {"id": name, "type": "condition", "condition": condition, **ways, **more}


def assign(name: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "set", "set": values, **more}


def end(name: str = "e", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "end", **more}


PAID = tool("p", "pay", is_terminal=True)


CHANGED = [
    assign("s", {"k": "$n"}),
    check("c", "$k < 2", "t", "e"),
    assign("t", {"k": 0}, next_step="p"),
    PAID,
    end(),
]


GATED = {"protects": PAY, "requires": {"step": "c", "branch": "then"}}


@pytest.mark.parametrize(
    ("steps", "rule", "broken"),
    [
        # SW401: a way around the gate that is feasible, and one that is not.
        ([check("c", "$n < 2", "p", "d"), check("d", "$n == 3", "p", "e"), PAID, end()], GATED, {("SW401", "p")}),
        ([check("c", "$n < 2", "p", "d"), check("d", "$n == 0", "p", "e"), PAID, end()], GATED, set()),
        # SW402: the gate reads what is assigned behind it; `fresh: false` does not mind, another variable neither.
        (
            CHANGED,
            GATED,
            {("SW402", "p")},
        ),
        (
            CHANGED,
            GATED | {"fresh": False},
            set(),
        ),
        (
            [check("c", "$n < 2", "t", "e"), assign("t", {"k": 0}, next_step="p"), PAID, end()],
            GATED,
            set(),
        ),
        # A guard that was skipped, or fell back, did not succeed.
        (
            [tool("a", on_error="skip"), PAID],
            {"protects": PAY, "requires": {"any_of": [{"tool": "ask"}, {"step": "none"}]}},
            {("SW401", "p")},
        ),
        (
            [tool("a", timeout_seconds=1, on_timeout="fallback", fallback=True), PAID],
            {"protects": PAY, "requires": {"tool": "ask"}},
            {("SW401", "p")},
        ),
        ([tool("a", on_error="retry"), PAID], {"protects": PAY, "requires": {"tool": "ask"}}, set()),
        # SW403: by variables, by arguments, and where `when` can't be evaluated.
        ([check("c", "$n < 2", "p", "e"), PAID, end()], {"never": PAY, "when": "$n > 1"}, set()),
        ([check("c", "$n < 2", "p", "e"), PAID, end()], {"never": PAY, "when": "$n > 0"}, {("SW403", "p")}),
        ([tool("b", "book", args={"x": "$n"})], {"never": {"tool": "book"}, "when": "$args.x > 2"}, {("SW403", "b")}),
        ([tool("b", "book", args={"x": 1})], {"never": {"tool": "book"}, "when": "$args.x > 2"}, set()),
        (
            [tool("a", output_key="v", on_error="skip"), PAID],
            {"never": PAY, "when": "$v and false"},
            {("SW403", "p")},
        ),
        # SW404: retries of what is not idempotent, siblings, a flag that lets it happen once.
        ([tool("p", "pay", on_error="retry")], {"at_most_once": PAY}, {("SW404", "p")}),
        ([tool("b", "book", args={"x": 1}, on_error="retry")], {"at_most_once": {"tool": "book"}}, set()),
        (
            [assign("s", {"done": False}), check("c", "$done", "e", "p"), tool("p", "pay", next_step="t"),
             assign("t", {"done": True}, next_step="c"), end()],
            {"at_most_once": PAY},
            set(),
        ),
        (
            [assign("s", {"done": False}), check("c", "$done", "e", "p"), tool("p", "pay", next_step="t"),
             assign("t", {"done": "$ok"}, next_step="c"), end()],
            {"at_most_once": PAY},
            {("SW404", "p")},
        ),
        # SW405: an error on the way; the status that `ends` asks for.
        (
            [tool("p", "pay"), tool("a"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}},
            {("SW405", "a")},
        ),
        (
            [tool("p", "pay"), tool("a"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}, "ends": "success"},
            set(),
        ),
        (
            [tool("p", "pay"), check("c", "$n < 2", "b"), tool("b", "book", args={"x": 1})],
            {"followed_by": {"first": PAY, "then": {"tool": "book"}}},
            {("SW405", "c")},
        ),
        # SW406: two arms of one condition, asked twice.
        (
            [check("c", "$ok", "p", "d"), tool("p", "pay", next_step="d"),
             check("d", "$ok", "e", "b"), tool("b", "book", args={"x": 1}), end()],
            {"exclusive": [PAY, {"tool": "book"}]},
            set(),
        ),
        (
            [check("c", "$ok", "p", "d"), tool("p", "pay", next_step="d"),
             check("d", "$n == 0", "e", "b"), tool("b", "book", args={"x": 1}), end()],
            {"exclusive": [PAY, {"tool": "book"}]},
            {("SW406", "b")},
        ),
    ],
)  # fmt: skip
def test_the_truth_about_rules(steps: list[dict[str, Any]], rule: dict[str, Any], broken: set[tuple[str, str]]) -> None:
    assert small(*steps, rule=rule).broken == {"rule": broken}


COUNTING = [
    assign("s", {"k": 0}),
    check("c", "$k < $n", "t", "p"),
    assign("t", {"k": "$k + 1"}, next_step="c"),
    tool("p", "pay", is_terminal=True),
]


INTO_THE_MIDDLE = [
    check("c", "$ok", "x", "y"),
    assign("x", {"k": 1}, next_step="y", max_visits=2),
    assign("y", {"j": 1}, next_step="d"),
    check("d", "$n > 1 and not (defined($k) and defined($z))", "x", "p"),
    tool("p", "pay", is_terminal=True),
]


@pytest.mark.parametrize(
    ("steps", "more", "when", "broken"),
    [
        # A loop that ends by itself, one that is cut off by its visits, and one by the budget: 2 + 2 k + 1 steps.
        (COUNTING, {}, "$k == 3", True),
        (COUNTING, {}, "$k != $n", False),
        ([*COUNTING[:2], COUNTING[2] | {"max_visits": 2}, COUNTING[3]], {}, "$k == 2", True),
        ([*COUNTING[:2], COUNTING[2] | {"max_visits": 2}, COUNTING[3]], {}, "$k == 3", False),
        (COUNTING, {"max_steps": 7}, "$k == 2", True),
        (COUNTING, {"max_steps": 6}, "$k == 2", False),
        # A loop with two entries, of which one defines what the other does not.
        (INTO_THE_MIDDLE, {}, "not defined($k)", True),
        (INTO_THE_MIDDLE, {}, "not defined($k) and $ok", False),
        (INTO_THE_MIDDLE, {}, "not defined($k) and $n > 1", False),
    ],
)
def test_the_truth_about_loops(steps: list[dict[str, Any]], more: dict[str, Any], when: str, broken: bool) -> None:
    steps = [*steps, assign("never", {"z": 1})]
    assert small(*steps, rule={"never": PAY, "when": when}, **more).broken == {
        "rule": {("SW403", "p")} if broken else set()
    }


def test_a_visit_too_many_goes_to_the_error_step_once() -> None:
    steps = [tool("a", max_visits=1, error_step="b", next_step="a"), tool("b", "pay", next_step="a")]
    rule = {"followed_by": {"first": PAY, "then": {"step": "e"}}}
    owed = {("SW405", "a"), ("SW405", "b")}
    assert small(*steps, rule=rule).broken == {"rule": owed}, "the second time it stalls; the second payment may fail"


def test_retries_need_their_budget() -> None:
    alone = tool("p", "pay", on_error="retry")
    parts = [tool("x"), tool("y", "pay")]
    beside = {"id": "b", "type": "parallel", "parallel_steps": parts, "on_error": "retry"}
    for step, enough, owner in ((alone, 2, "p"), (beside, 5, "b")):
        assert small(step, rule={"at_most_once": PAY}, max_steps=enough - 1).broken == {"rule": set()}
        assert small(step, rule={"at_most_once": PAY}, max_steps=enough).broken == {"rule": {("SW404", owner)}}


def test_what_cannot_be_read_fails_a_step_before_it_starts() -> None:
    ask = tool("a", output_key="v", on_error="skip")
    rule = {"never": {"tool": "book"}, "when": "not defined($v)"}
    assert small(ask, tool("b", "book", args={"x": "$v"}), rule=rule).broken == {"rule": set()}
    assert small(ask, tool("b", "book", args={"x": 1}), rule=rule).broken == {"rule": {("SW403", "b")}}
    steps = [tool("a", "look", output_key="r"), check("c", "$r.f", "p", "p"), PAID]
    assert small(*steps, rule={"never": PAY, "when": "not defined($r.f)"}).broken == {"rule": set()}
    steps = [check("c", "$l in ['a'] and not $ok", "p", "e"), PAID, end()]
    assert small(*steps, rule={"never": PAY, "when": "$l != 'a' or $ok"}).broken == {"rule": set()}


def test_the_truth_about_conditions() -> None:
    cases = {
        "id": "c",
        "type": "condition",
        "exclusive": True,
        "cases": [{"when": "$n < 1", "then": "e"}, {"when": "$n < 3", "then": "d"}, {"when": "$n == 1", "then": "e"}],
    }
    found = small(cases, check("d", "$n > 0", "f", "e"), check("f", "$n == 3", "g", "e"), end("g"), end())
    assert found.uncovered == {"c"}
    assert found.overlapping == {"c"}
    assert found.shadowed == {("c", 3)}
    assert found.constant == {"d": True, "f": False}
    assert found.unreached == {"g"}


def test_the_truth_about_what_is_undefined() -> None:
    found = small(
        tool("a", "look", output_key="v", on_error="skip"),
        check("c", "defined($a.error)", "d", "f"),
        check("d", "$n > 2 or $v.f", "e", "e"),
        check("f", "$v.f", "e", "g"),
        {"id": "g", "type": "llm", "prompt": "it is $v.f"},
        end(),
    )
    assert found.undefined == {("d", "v.f"), ("f", "v.f")}


def test_the_truth_about_siblings() -> None:
    """They see the state before, bind at the join, and are not before one another."""
    parts = [tool("x", "ask", output_key="v"), tool("y", "pay", on_error="skip"), tool("z", "look", on_error="skip")]
    steps = [
        {"id": "b", "type": "parallel", "parallel_steps": parts, "error_step": "f"},
        check("c", "defined($v)", "e", "g"),
        check("f", "defined($v)", "g", "e"),
        end("g"),
        end(),
    ]
    found = small(*steps, rule={"protects": PAY, "requires": {"tool": "ask"}})
    assert found.broken == {"rule": {("SW401", "b")}}
    assert found.unreached == {"g"}
    assert found.values == {"c": {True}, "f": {False}}


def test_a_cancelled_run_and_one_out_of_budget_owe_with_any_ending() -> None:
    rule = {"followed_by": {"first": PAY, "then": {"step": "b"}}, "ends": "any"}
    assert small(tool("p", "pay"), tool("b"), rule=rule).broken == {"rule": set()}
    assert small(tool("p", "pay"), tool("b"), rule=rule).debatable == {"rule": {("SW405", "b")}}
    assert small(tool("p", "pay"), tool("b"), rule=rule, max_steps=1).broken == {"rule": {("SW405", "b")}}
    assert small(tool("p", "pay"), assign("s", {"k": 1}), tool("b"), rule=rule).broken == {"rule": {("SW405", "s")}}


def test_the_programs_are_worth_asking_about() -> None:
    """Guardrails that are broken, that hold by their conditions alone, and that hold anyhow."""
    met: Counter[str] = Counter()
    for seed in range(300):
        data = small_program(seed)
        found, unseen = truth(data), truth(data, blind=True)
        for rule in unseen.broken:
            met["broken" if found.broken[rule] else "by conditions" if unseen.broken[rule] else "anyhow"] += 1
        met.update(code for places in found.broken.values() for code, _ in places)
    assert min(met[kind] for kind in ("broken", "by conditions", "anyhow")) > 0.19 * 600, met
    assert all(met[code] for code in RULE_CODES), met


def test_who_looks_at_no_condition_gets_at_least_as_far() -> None:
    for data in (*rare_programs(), *map(small_program, range(40))):
        found, unseen = truth(data), truth(data, blind=True)
        assert found.reached
        assert found.reached <= unseen.reached, data


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(size(20, 40)))
def test_what_happens_on_the_machine_is_in_the_truth(seed: int) -> None:
    """Each rule by itself: the machine stops at the first that is broken."""
    data = small_program(seed)
    found = truth(data)
    for rule in data["guardrails"]:
        places = {step for _, step in found.broken[rule["name"]] | found.debatable[rule["name"]]}
        for number in range(15):
            run = Chance({**data, "guardrails": [rule]}, (seed, number)).run()
            assert run.step in found.reached or run.status == "BUDGET_EXCEEDED"
            assert run.reason != "guardrail" or run.step in places
            assert run.reason != "uncovered" or run.step in found.uncovered
            assert not run.broken or run.step in places
