"""Fast: the machine keeps every rule by itself, in programs that nobody checked; policies, waivers, rejections."""

from __future__ import annotations

from typing import Any

import pytest

from machines import TOOLS, Bench, Late, ask, assign, both, check, end, program, tool
from stepward.sabotage.reference import Reference
from stepward.vm import InDoubt, ProgramError, Suspend
from stepward.vm.machine.monitors import Watch

NO = ValueError("no")
NUMBER = {"type": "number"}
PAY = {"tool": "write"}


def ruled(*steps: dict[str, Any], rule: dict[str, Any], **more: Any) -> Any:
    return program(*steps, guardrails=[{"name": "rule", **rule}], **more)


def blocked(bench: Bench, run: Any, step: str, rule: str = "rule") -> None:
    """Hold that a run ended at a journaled rejection, before the step started."""
    assert (run.status, run.reason) == ("FAILED", "guardrail"), run.error
    assert rule in run.error
    assert step in run.error
    rejected = bench.bodies("rejected")
    assert [(body["rule"], body["step"], body["ends"]) for body in rejected] == [(rule, step, "FAILED")]
    assert bench.kinds()[-1] == "rejected"


# -- requires ----------------------------------------------------------------------------------------------------------

ASKED = {"protects": PAY, "requires": {"tool": "read"}}
GATE = check("gate", "$x > 5", "pay", "other")
GATED = {"protects": PAY, "requires": {"step": "gate", "branch": "then"}}


def test_what_is_required_and_never_came_blocks() -> None:
    bench = Bench()
    blocked(bench, bench.run(ruled(tool("pay", "write"), rule=ASKED)), "pay")
    assert bench.tools.asked == []
    assert bench.run(ruled(tool("look"), tool("pay", "write"), rule=ASKED), "two").status == "SUCCESS"


@pytest.mark.parametrize("answer", [NO, Late(9)])
def test_a_step_that_was_skipped_or_fell_back_did_not_succeed(answer: Any) -> None:
    how = (
        {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": 1}
        if isinstance(answer, Late)
        else {"on_error": "skip"}
    )
    bench = Bench({"look": answer})
    blocked(bench, bench.run(ruled(tool("look", **how), tool("pay", "write"), rule=ASKED)), "pay")


def test_an_error_step_gets_no_credit_for_what_failed() -> None:
    bench = Bench({"look": NO})
    steps = [tool("look", error_step="pay"), end(), tool("pay", "write")]
    blocked(bench, bench.run(ruled(*steps, rule=ASKED)), "pay")


@pytest.mark.parametrize("waits", ["resumed", "reconciled"])
def test_a_step_that_got_its_output_from_outside_succeeded(waits: str) -> None:
    tools = {**TOOLS, "read": {"effect": "write", "idempotent": False, "suspends": True}}
    bench = Bench({"look": Suspend() if waits == "resumed" else InDoubt("?")})
    rule = {"protects": {"step": "pay"}, "requires": {"tool": "read"}}
    run = bench.run(ruled(tool("look"), tool("pay", "write"), rule=rule, tools=tools))
    run = (
        bench.resume(run, 1) if waits == "resumed" else bench.checked(bench.vm.reconcile_sync("run", "look", "done", 1))
    )
    assert run.status == "SUCCESS"


@pytest.mark.parametrize(("x", "is_blocked"), [(9, False), (1, True)])
def test_a_branch_counts_only_when_it_was_taken(x: int, is_blocked: bool) -> None:
    steps = [GATE, tool("pay", "write"), assign("other", y=1, _step={"next_step": "pay"})]
    bench = Bench()
    run = bench.run(ruled(*steps, rule=GATED, inputs={"x": NUMBER}), x=x)
    assert run.status == ("FAILED" if is_blocked else "SUCCESS")
    assert bench.tools.steps() == ([] if is_blocked else ["pay"])


@pytest.mark.parametrize("branch", ["big", 2, "otherwise"])
def test_a_case_goes_by_its_name_and_its_number(branch: Any) -> None:
    cases = [{"when": "$x > 9", "then": "pay"}, {"when": "$x > 5", "then": "pay", "name": "big"}]
    gate = {"id": "gate", "type": "condition", "cases": cases, "otherwise": "pay"}
    rule = {"protects": PAY, "requires": {"step": "gate", "branch": branch}}
    for x, taken in ((10, 1), (7, 2), (1, "otherwise")):
        bench = Bench()
        run = bench.run(ruled(gate, tool("pay", "write"), rule=rule, inputs={"x": NUMBER}), x=x)
        assert (run.status == "SUCCESS") == (taken == branch or (taken == 2 and branch == "big"))


STALE = [
    ("set", [assign("edit", v=9)]),
    ("set to the same", [assign("edit", v="$v")]),
    ("output_key", [tool("edit", output_key="v")]),
    ("output_key of a sub-step", [both("edit", tool("sub", output_key="v"))]),
    ("taken away", [tool("edit", args={"y": "$nowhere"}, output_key="v", on_error="skip")]),
]


@pytest.mark.parametrize("edit", [edit for _, edit in STALE], ids=[name.replace(" ", "-") for name, _ in STALE])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_branch_goes_stale_when_its_variable_is_assigned(edit: list[dict[str, Any]], fresh: bool) -> None:
    start = assign("start", v=9)
    gate = check("gate", "defined($v) and $v > 5", "edit")
    steps = [start, gate, edit[0] | {"next_step": "pay"}, tool("pay", "write", is_terminal=True)]
    rule = {"protects": PAY, "requires": {"step": "gate", "branch": "then"}, "fresh": fresh}
    bench = Bench({"edit": 9, "sub": 9})
    run = bench.run(ruled(*steps, rule=rule))
    if fresh:
        blocked(bench, run, "pay")
        assert "stale" in run.error
    else:
        assert run.status == "SUCCESS"


def test_a_branch_goes_stale_by_the_output_of_the_step_that_it_reads_and_by_any_of_its_cases() -> None:
    cases = [{"when": "$x > 5", "then": "again"}, {"when": "$look.output > 5", "then": "again"}]
    gate = {"id": "gate", "type": "condition", "cases": cases}
    rule = {"protects": PAY, "requires": {"step": "gate", "branch": 1}}
    steps = [
        assign("zero", n=0),
        tool("look", next_step="more"),
        check("more", "$n == 0", "gate", "pay"),
        gate,
        assign("again", n=1, _step={"next_step": "look"}),
        tool("pay", "write"),
    ]
    bench = Bench({"look": 9})
    blocked(bench, bench.run(ruled(*steps, rule=rule, inputs={"x": NUMBER}), x=9), "pay")


def test_a_branch_taken_again_is_fresh_again() -> None:
    steps = [
        assign("start", v=7),
        check("gate", "$v > 5", "look", "pay"),
        check("look", "$v == 7", "edit", "pay"),
        assign("edit", v=8, _step={"next_step": "gate"}),
        tool("pay", "write"),
    ]
    assert Bench().run(ruled(*steps, rule=GATED)).status == "SUCCESS"


def test_a_guard_without_a_branch_does_not_go_stale() -> None:
    steps = [tool("look", output_key="v"), assign("edit", v=1), tool("pay", "write")]
    assert Bench().run(ruled(*steps, rule=ASKED)).status == "SUCCESS"


@pytest.mark.parametrize("kind", ["all_of", "any_of"])
def test_all_of_and_any_of_combine(kind: str) -> None:
    one, two = {"step": "one"}, {"all_of": [{"step": "two"}, {"step": "three"}]}
    rule = {"protects": PAY, "requires": {kind: [one, two]}}
    for came in range(8):
        names = [name for number, name in enumerate(["one", "two", "three"]) if came >> number & 1]
        bench = Bench()
        skipped = [tool(name, on_error="skip") if name in names else tool(name, args={"x": "$nowhere"}, on_error="skip")
                   for name in ("one", "two", "three")]  # fmt: skip
        run = bench.run(ruled(*skipped, tool("pay", "write"), rule=rule))
        first, second = "one" in names, {"two", "three"} <= set(names)
        assert (run.status == "SUCCESS") == ((first and second) if kind == "all_of" else (first or second)), names


def test_siblings_are_not_before_one_another() -> None:
    bench = Bench()
    run = bench.run(ruled(both("p", tool("look"), tool("pay", "write"), max_concurrency=1), rule=ASKED))
    blocked(bench, run, "pay")
    assert bench.tools.asked == [], "the wave is judged before any of it starts"


@pytest.mark.parametrize("selector", [{"step": "pay"}, {"tool": "write"}, {"effect": "write"}])
def test_every_selector_finds_steps_and_sub_steps(selector: dict[str, str]) -> None:
    rule = {"protects": selector, "requires": {"step": "nothing"}}
    for steps in ([tool("pay", "write")], [both("p", tool("pay", "write"))]):
        bench = Bench()
        blocked(bench, bench.run(ruled(*steps, rule=rule)), "pay")
        assert bench.tools.asked == []


@pytest.mark.parametrize(
    "step", [end("it"), assign("it", x=1), check("it", "true", "it2"), ask("it"), both("it", tool("s"))]
)
def test_every_kind_of_step_can_be_protected(step: dict[str, Any]) -> None:
    bench = Bench(model={"it": "x"})
    more = [tool("it2")] if step["type"] == "condition" else []
    run = bench.run(ruled(step, *more, rule={"protects": {"step": "it"}, "requires": {"tool": "again"}}))
    blocked(bench, run, "it")
    assert (run.steps, bench.tools.asked, bench.model.asked) == (0, [], [])
    assert "it.output" not in run.view("trace")


# -- never -------------------------------------------------------------------------------------------------------------


def test_never_without_when() -> None:
    bench = Bench()
    blocked(bench, bench.run(ruled(tool("a"), tool("pay", "write"), rule={"never": PAY})), "pay")
    assert bench.tools.steps() == ["a"]


@pytest.mark.parametrize(
    ("when", "is_blocked"),
    [
        ("$x > 5", True),
        ("$x > 50", False),
        ("$args.to == 'me'", True),
        ("$args.to == 'you'", False),
        ("$args.many.n + $x == 16", True),
        ("not defined($args.copy)", True),
        ("defined($nowhere)", False),
        # What can't be evaluated breaks the rule.
        ("$nowhere == 1", True),
        ("$args.nothing == 1", True),
        ("$args.to > 5", True),
        ("$x", True),
        ("$x > 5 or $nowhere == 1", True),
        ("$x > 50 and $nowhere == 1", False),
    ],
)
def test_never_when_sees_variables_and_arguments(when: str, is_blocked: bool) -> None:
    bench = Bench()
    step = tool("pay", "write", args={"to": "me", "many": {"n": "$x"}})
    run = bench.run(ruled(step, rule={"never": PAY, "when": when}, inputs={"x": NUMBER}), x=8)
    assert (run.reason == "guardrail") is is_blocked
    assert bool(bench.tools.asked) is not is_blocked


def test_defaults_of_arguments_are_arguments() -> None:
    tools = {"write": {"effect": "write", "args": {"to": {"type": "string", "default": "me"}}}}
    bench = Bench()
    blocked(
        bench,
        bench.run(ruled(tool("pay", "write"), rule={"never": PAY, "when": "$args.to == 'me'"}, tools=tools)),
        "pay",
    )


def test_an_input_called_args_does_not_stand_in_for_arguments() -> None:
    rule = {"never": PAY, "when": "$args.to == 'me'"}
    bench = Bench()
    steps = [tool("pay", "write", args={"to": "me"})]
    run = bench.run(ruled(*steps, rule=rule, inputs={"args": {}}), args={"to": "you"})
    blocked(bench, run, "pay")


@pytest.mark.parametrize("when", ["defined($args)", "defined($args.x)", "$args.x == 1"])
@pytest.mark.parametrize(
    "step",
    [ask("p"), assign("p", v=1), check("p", "true", "done", "done"), both("p", tool("a")), end("p"), tool("p")],
    ids=lambda step: step["type"],
)
def test_only_a_call_of_a_tool_has_arguments(step: dict[str, Any], when: str) -> None:
    made = ruled(step, end("done"), rule={"never": {"step": "p"}, "when": when}, inputs={"args": {}})
    has_some = step["type"] == "tool" and when == "defined($args)"
    is_blocked = has_some or "==" in when
    assert (Bench(model={"p": "x"}).run(made, args={"x": 1}).reason == "guardrail") is is_blocked
    reference = Reference(made, ())
    reference.start({"args": {"x": 1}})
    assert (reference.reason == "guardrail") is is_blocked


def test_a_when_that_is_no_expression_is_refused_before_the_run_starts() -> None:
    for when in ("$x =", "&&", "$args.x.lower() == 'a'"):
        bench = Bench()
        with pytest.raises(ProgramError, match="rule"):
            bench.run(ruled(tool("pay", "write"), rule={"never": PAY, "when": when}))
        assert bench.vm.journal.rows() == []


# -- at most once, exclusive -------------------------------------------------------------------------------------------

ONCE = {"at_most_once": PAY}


@pytest.mark.parametrize(
    "steps",
    [
        [tool("a", "write"), tool("pay", "write")],
        [tool("pay", "write", max_visits=2, next_step="back"), check("back", "true", "pay")],
        [both("p", tool("a", "write"), tool("b"), tool("pay", "write"))],
        [both("p", tool("a", "write"), tool("b")), tool("pay", "write")],
        [tool("pay", "write", on_error="retry")],
        [both("p", tool("pay", "write", on_error="retry"))],
        [both("p", tool("pay", "write"), on_error="retry")],
    ],
)
def test_a_second_performance_is_blocked(steps: list[dict[str, Any]]) -> None:
    bench = Bench({"pay": [NO, 1]} if "retry" in str(steps) else {})
    run = bench.run(ruled(*steps, rule=ONCE, max_steps=30))
    blocked(bench, run, "pay")
    assert sum(asked.tool == "write" for asked in bench.tools.asked) <= 1


def test_repeats_of_one_performance_are_one() -> None:
    rule = {"at_most_once": {"tool": "again"}}
    bench = Bench({"a": [NO, Late(9), 1]})
    assert bench.run(ruled(tool("a", "again", on_error="retry", timeout_seconds=1), rule=rule)).status == "SUCCESS"
    assert len(bench.tools.asked) == 3
    bench = Bench({"a": [NO, 1]})
    assert bench.run(ruled(both("p", tool("a", "again"), on_error="retry"), rule=rule)).status == "SUCCESS"
    bench = Bench({"pay": [InDoubt("?"), 1]})
    bench.run(ruled(tool("pay", "write"), rule=ONCE))
    assert bench.checked(bench.vm.reconcile_sync("run", "pay", "not_done")).status == "SUCCESS"
    # A retry of what nobody called idempotent is another performance, also of a read and of a model.
    bench = Bench({"a": NO}, model={"l": RuntimeError()})
    blocked(bench, bench.run(ruled(tool("a", on_error="retry"), rule={"at_most_once": {"tool": "read"}})), "a")
    run = bench.run(ruled(ask("l", on_error="retry"), rule={"at_most_once": {"step": "l"}}), "two")
    assert (run.reason, len(bench.model.asked)) == ("guardrail", 1)


def test_a_retried_parallel_step_is_one_performance_of_itself() -> None:
    bench = Bench({"a": [NO, 1]})
    run = bench.run(ruled(both("p", tool("a"), on_error="retry"), rule={"at_most_once": {"step": "p"}}))
    assert run.status == "SUCCESS"


def test_what_did_not_start_is_no_performance() -> None:
    bench = Bench()
    steps = [tool("a", "write", args={"x": "$nowhere"}, on_error="skip"), tool("pay", "write")]
    assert bench.run(ruled(*steps, rule=ONCE)).status == "SUCCESS"


@pytest.mark.parametrize("order", ["one first", "other first", "siblings"])
def test_exclusive_blocks_the_second_side(order: str) -> None:
    rule = {"exclusive": [PAY, {"step": "deny"}]}
    steps = {
        "one first": [tool("pay", "write"), tool("deny")],
        "other first": [tool("deny"), tool("pay", "write")],
        "siblings": [both("p", tool("pay", "write"), tool("deny"))],
    }[order]
    bench = Bench()
    run = bench.run(ruled(*steps, rule=rule))
    blocked(bench, run, {"one first": "deny", "other first": "pay", "siblings": "deny"}[order])
    assert len(bench.tools.asked) == (0 if order == "siblings" else 1)
    assert Bench().run(ruled(tool("pay", "write"), tool("a", "write"), rule=rule)).status == "SUCCESS"


# -- followed by -------------------------------------------------------------------------------------------------------

BOOKED = {"followed_by": {"first": PAY, "then": {"tool": "again"}}}


@pytest.mark.parametrize(
    ("steps", "more", "is_broken"),
    [
        ([tool("pay", "write")], {}, True),
        ([tool("pay", "write"), tool("book", "again")], {}, False),
        ([tool("book", "again"), tool("pay", "write")], {}, True),
        ([tool("pay", "write"), tool("book", "again", args={"x": "$nowhere"}, on_error="skip")], {}, True),
        ([tool("pay", "write"), tool("fails")], {}, True),
        ([tool("pay", "write"), end(outcome="failure")], {}, True),
        ([tool("pay", "write"), end(outcome="failure")], {"ends": "success"}, False),
        ([tool("pay", "write"), end()], {"ends": "success"}, True),
        ([tool("fails", "write", on_error="skip"), end()], {}, False),
        ([both("p", tool("pay", "write"), tool("book", "again"))], {}, True),
        ([tool("pay", "write"), check("c", "false", "e"), end("e")], {}, True),
        ([tool("pay", "write"), tool("loop", max_visits=1, next_step="back"), check("back", "true", "loop")], {}, True),
    ],
)
def test_followed_by_is_reported_and_blocks_nothing(steps: Any, more: Any, is_broken: bool) -> None:
    bench = Bench({"fails": NO})
    run = bench.run(ruled(*steps, rule=BOOKED | more))
    assert run.reason != "guardrail"
    assert [name for name, _ in run.broken] == (["rule"] if is_broken else [])


@pytest.mark.parametrize("ends", [None, "any"])
def test_followed_by_judges_budget_endings_and_cancellations_only_with_any(ends: str | None) -> None:
    rule = BOOKED | ({"ends": ends} if ends else {})
    spent = ruled(tool("pay", "write"), tool("a"), rule=rule, max_steps=1)
    stalled = ruled(
        tool("pay", "write", next_step="c"),
        check("c", "true", "d"),
        check("d", "true", "c"),
        rule=rule,
        max_stalled_steps=2,
    )
    for made, status in ((spent, "BUDGET_EXCEEDED"), (stalled, "STALLED")):
        run = Bench().run(made)
        assert (run.status, bool(run.broken)) == (status, ends == "any")
    bench = Bench({"wait": Suspend()})
    run = bench.run(ruled(tool("pay", "write"), tool("wait", "ask"), rule=rule))
    assert run.broken == (), "a run that goes on has broken nothing yet"
    assert bool(bench.vm.cancel_sync("run").broken) == (ends == "any")


def test_what_a_rule_kept_from_starting_did_not_follow() -> None:
    for last in (assign("q", x=1), end("q"), tool("q")):
        rules = [
            {"name": "f", "followed_by": {"first": PAY, "then": {"step": "q"}}},
            {"name": "n", "never": {"step": "q"}},
        ]
        run = Bench().run(program(tool("pay", "write"), last, guardrails=rules))
        assert (run.reason, [name for name, _ in run.broken]) == ("guardrail", ["f"])


def test_sub_steps_succeed_when_their_step_is_left() -> None:
    """A rule ends the run within a parallel step, behind a sub-step that has paid: nobody comes to owe anything."""
    rules = [
        {"name": "f", "followed_by": {"first": PAY, "then": {"step": "book"}}},
        {"name": "n", "never": {"step": "q"}},
    ]
    made = both("p", tool("pay", "write"), tool("q"), max_concurrency=1)
    bench = Bench()
    run = bench.run(program(made, tool("book"), guardrails=rules, max_tokens=9))  # waves, for the tokens
    assert (run.reason, run.broken, bench.tools.steps()) == ("guardrail", (), ["pay"])


# -- the tests can fail ------------------------------------------------------------------------------------------------


def test_without_its_monitors_the_machine_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "objection", lambda *_: None)
    assert Bench().run(ruled(tool("pay", "write"), rule={"never": PAY})).status == "SUCCESS"
