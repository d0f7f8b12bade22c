"""Fast: where the machine goes and how runs end: every step type, rule of control flow, visits, stalls, budgets."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from machines import Bench, Late, ask, assign, both, check, end, program, tool
from stepward.vm import Limits, ModelReply, ProgramError, RunRefused
from stepward.vm.journal.verify import verify
from stepward.vm.machine.events import Spent

NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def ending(run: Any) -> tuple[str, str]:
    return run.status, run.reason


# -- the rules of control flow -----------------------------------------------------------------------------------------


def test_next_step_wins_over_the_list() -> None:
    bench = Bench()
    run = bench.run(program(tool("a", next_step="c"), tool("b"), tool("c", is_terminal=True), tool("d")))
    assert bench.tools.steps() == ["a", "c"]
    assert ending(run) == ("SUCCESS", "declared")
    assert run.step == "c"


def test_control_falls_through_to_the_last_step() -> None:
    bench = Bench()
    assert ending(bench.run(program(tool("a"), tool("b"), tool("c")))) == ("SUCCESS", "declared")
    assert bench.tools.steps() == ["a", "b", "c"]


@pytest.mark.parametrize("taken", ["then", "otherwise"])
def test_an_arm_of_a_condition_ends_the_run(taken: str) -> None:
    bench = Bench()
    steps = [check("c", "$x == 'then'", "yes", "no"), tool("yes"), tool("no"), tool("after", is_terminal=True)]
    assert ending(bench.run(program(*steps, inputs={"x": TEXT}), x=taken)) == ("SUCCESS", "declared")
    assert bench.tools.steps() == ["yes" if taken == "then" else "no"]


def test_an_error_step_and_a_case_are_arms_too() -> None:
    cases = [{"when": "$x == 1", "then": "one"}, {"when": "$x == 2", "then": "two", "name": "second"}]
    steps = [
        {"id": "c", "type": "condition", "cases": cases, "otherwise": "fails"},
        tool("fails", error_step="sorry", next_step="one"),
        tool("one"),
        tool("two"),
        tool("sorry"),
        tool("never", is_terminal=True),
    ]
    for x, visited in ((1, ["one"]), (2, ["two"]), (3, ["fails", "sorry"])):
        bench = Bench({"fails": ValueError("no")})
        bench.run(program(*steps, inputs={"x": NUMBER}), x=x)
        assert bench.tools.steps() == visited


def test_an_arm_goes_on_where_it_says_so() -> None:
    bench = Bench()
    bench.run(program(check("c", "true", "a"), tool("a", next_step="b"), tool("b", next_step="e"), end("e")))
    assert bench.tools.steps() == ["a", "b"]


def test_an_ambiguous_arm_is_refused_before_anything_happens() -> None:
    bench = Bench()
    steps = [tool("a"), tool("b"), check("c", "true", "b", "e"), end("e")]
    with pytest.raises(ProgramError, match="SW106"):
        bench.run(program(*steps))
    assert bench.tools.asked == []


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([tool("a", next_step="nowhere")], "SW101"),
        ([tool("a", error_step="sub"), both("p", tool("sub"))], "SW101"),
        ([check("a", "$x =", "b"), end("b")], "SW301"),
        ([tool("a"), tool("a")], "SW005"),
        ([both("p", tool("a")), tool("a")], "SW005"),
    ],
)
def test_a_program_without_one_meaning_is_refused(steps: list[dict[str, Any]], code: str) -> None:
    bench = Bench()
    with pytest.raises(ProgramError, match=code):
        bench.run(program(*steps))
    assert bench.tools.asked == []


@pytest.mark.parametrize("place", ["program", "body"])
def test_a_rule_whose_condition_can_not_be_read_is_refused(place: str) -> None:
    rules = [{"name": "r", "never": {"step": "a"}, "when": "$x ="}]
    each = {"id": "each", "type": "for_each", "items": [1], "as": "i", "max_items": 1, "steps": [tool("a")]}
    given: dict[str, Any] = {"guardrails": rules} if place == "program" else {}
    if place == "body":
        each |= {"guardrails": rules}
    with pytest.raises(ProgramError, match="SW301 in rule `r`"):
        Bench().run(program(each, language=2, inputs={"x": NUMBER}, **given), x=1)


def test_a_branch_that_covers_nothing_ends_the_run_uncovered() -> None:
    bench = Bench()
    run = bench.run(program(check("c", "1 == 2", "a"), tool("a"), tool("b", is_terminal=True)))
    assert ending(run) == ("FAILED", "uncovered")
    assert bench.tools.steps() == []


def test_a_nested_condition_without_a_branch_does_not_start_the_program_again() -> None:
    bench = Bench()
    run = bench.run(program(tool("a"), check("outer", "true", "inner"), check("inner", "false", "a2"), tool("a2")))
    assert ending(run) == ("FAILED", "uncovered")
    assert bench.tools.steps() == ["a"]


@pytest.mark.parametrize("step", [tool("last", outcome="failure"), end("last", outcome="failure")])
def test_an_outcome_of_failure_is_a_declared_ending(step: dict[str, Any]) -> None:
    assert ending(Bench().run(program(step))) == ("FAILED", "declared")


def test_the_first_case_that_holds_wins_and_later_ones_are_not_looked_at() -> None:
    cases = [
        {"when": "$x == 2", "then": "a"},
        {"when": "$x > 0", "then": "b"},
        {"when": "$nowhere == 1", "then": "c"},
    ]
    steps = [{"id": "c0", "type": "condition", "cases": cases}, tool("a"), tool("b"), tool("c")]
    bench = Bench()
    assert bench.run(program(*steps, inputs={"x": NUMBER}), x=1).status == "SUCCESS"
    assert bench.tools.steps() == ["b"]
    assert bench.bodies("branched")[0]["branch"] == 2
    assert ending(Bench().run(program(*steps, inputs={"x": NUMBER}), x=-1)) == ("FAILED", "error")


@pytest.mark.parametrize(
    "condition", ["$x == 'a'", "$x", "$x and true", "not $x", "$missing == null", "$missing != 'approve'"]
)
def test_a_condition_that_has_no_boolean_value_ends_the_run_failed(condition: str) -> None:
    bench = Bench()
    run = bench.run(program(check("c", condition, "a", "b"), tool("a"), tool("b"), inputs={"x": NUMBER}), x=1)
    assert ending(run) == ("FAILED", "error")
    assert "c" in run.error
    assert bench.tools.asked == []


# -- set and end -------------------------------------------------------------------------------------------------------


def test_set_evaluates_everything_before_it_assigns_anything() -> None:
    steps = [assign("one", a="1", b="2"), assign("two", a="$b", b="$a"), end(output=["$a", "$b"])]
    assert Bench().run(program(*steps)).output == (2, 1)


def test_set_keeps_what_is_no_text_and_evaluates_texts() -> None:
    kept = {"list": [1, "$x"], "map": {"k": "$x"}, "flag": True, "none": None, "sum": "1 + 1", "text": "'$x'"}
    run = Bench().run(program(assign("s", **kept), end(output="$map")))
    assert run.output == {"k": "$x"}
    assert run.view("trace")["list"] == (1, "$x")
    assert run.view("trace")["none"] is None
    assert (run.view("trace")["sum"], run.view("trace")["text"]) == (2, "$x")


def test_a_set_that_can_not_be_evaluated_assigns_nothing_and_ends_the_run() -> None:
    run = Bench().run(program(assign("s", a="1", b="$nowhere + 1"), end()))
    assert ending(run) == ("FAILED", "error")
    assert "a" not in run.view("trace")


def test_the_output_of_an_end_is_filled_at_any_depth_and_null_without_one() -> None:
    deep = {"n": "$x", "text": "is $x", "list": ["$x", {"$x": "$$x"}]}
    run = Bench().run(program(end(output=deep), inputs={"x": NUMBER}), x=1.50)
    assert run.output == {"n": run.output["n"], "text": "is 1.5", "list": (run.output["n"], {"$x": "$x"})}
    assert str(run.output["n"]) == "1.5"
    assert Bench().run(program(end())).output is None
    assert Bench().run(program(tool("a"))).output is None


def test_an_end_that_reads_what_is_undefined_ends_the_run_failed() -> None:
    run = Bench({"a": ValueError("no")}).run(program(tool("a", on_error="skip"), end(output="$a.output")))
    assert ending(run) == ("FAILED", "error")
    assert run.output is None


# -- visits, stalls ----------------------------------------------------------------------------------------------------


def test_visit_n_plus_1_goes_to_the_error_step_once_and_then_stalls() -> None:
    steps = [
        tool("a", max_visits=2, error_step="sorry", next_step="back", output_key="v"),
        assign(
            "sorry", seen="$a.error", gone="not defined($a.output) and not defined($v)", _step={"next_step": "back"}
        ),
        check("back", "true", "a"),
    ]
    bench = Bench()
    run = bench.run(program(*steps))
    assert ending(run) == ("STALLED", "visits")
    assert bench.tools.steps() == ["a", "a"]
    assert run.view("trace")["gone"] is True
    assert "2" in run.view("trace")["seen"]
    assert [body.get("next", body.get("ends")) for body in bench.bodies("passed")] == ["sorry", "STALLED"]


@pytest.mark.parametrize("kind", ["tool", "set", "condition", "parallel", "llm"])
def test_used_up_visits_without_an_error_step_stall_every_kind_of_step(kind: str) -> None:
    looped = {
        "tool": tool("a", max_visits=3),
        "set": assign("a", x=1, _step={"max_visits": 3}),
        "condition": check("a", "true", "back", max_visits=3),
        "parallel": both("a", tool("a1"), max_visits=3),
        "llm": ask("a", max_visits=3),
    }[kind]
    bench = Bench(model={"a": "x"})
    run = bench.run(program({"id": "first", "type": "set", "set": {"y": 1}, "next_step": "a"}, looped,
                            check("back", "true", "a")) if kind == "condition" else
                    program(looped | {"next_step": "back"}, check("back", "true", "a")))  # fmt: skip
    assert ending(run) == ("STALLED", "visits")
    assert len(bench.bodies("passed")) == 1
    counters = json.loads(run.snapshot())["counters"]
    assert counters["a"][0] == 4


def test_used_up_visits_take_the_outputs_of_sub_steps_away() -> None:
    steps = [
        both("p", tool("s", output_key="v"), max_visits=1, error_step="look", next_step="back", output_key="w"),
        check("back", "true", "p"),
        assign("look", left="defined($s.output) or defined($v) or defined($p.output) or defined($w)",
               errors="defined($s.error) and defined($p.error)"),
    ]  # fmt: skip
    run = Bench().run(program(*steps))
    assert (run.view("trace")["left"], run.view("trace")["errors"]) == (False, True)


def test_visits_beyond_the_bound_cost_no_budget() -> None:
    steps = [
        tool("a", max_visits=1, error_step="out", next_step="back"),
        check("back", "true", "a"),
        end("out"),
    ]
    assert ending(Bench().run(program(*steps, max_steps=3))) == ("SUCCESS", "declared")
    assert Bench().run(program(*steps, max_steps=3)).steps == 3
    assert ending(Bench().run(program(*steps, max_steps=2))) == ("BUDGET_EXCEEDED", "max_steps")


def test_a_run_stalls_after_that_many_steps_that_changed_no_value() -> None:
    loop = [assign("s", x=1, _step={"next_step": "t"}), tool("t", next_step="back"), check("back", "true", "s")]
    bench = Bench()
    run = bench.run(program(*loop, max_stalled_steps=3, max_steps=100))
    # s and t change values on the first round; back, s, t change none.
    assert ending(run) == ("STALLED", "no-progress")
    assert run.steps == 5
    assert bench.tools.steps() == ["t", "t"]


def test_a_value_that_changes_starts_the_count_of_stalled_steps_again() -> None:
    loop = [assign("s", x="$n", _step={"next_step": "t"}), tool("t", next_step="back"), check("back", "true", "s")]
    bench = Bench({"t": [1, 2, 2, 3, 3]})
    run = bench.run(program(*loop, inputs={"n": NUMBER}, max_stalled_steps=3, max_steps=100), n=1)
    assert ending(run) == ("STALLED", "no-progress")
    assert bench.tools.given["t"] == 3


def test_one_is_one_point_nought_when_values_are_compared_for_a_stall() -> None:
    loop = [tool("t", next_step="back"), check("back", "true", "t")]
    run = Bench({"t": [1, 1.0, 1]}).run(program(*loop, max_stalled_steps=2, max_steps=50))
    assert run.steps == 3
    run = Bench({"t": [1, True, 1, True]}).run(program(*loop, max_stalled_steps=2, max_steps=50))
    assert run.steps > 3


# -- budgets -----------------------------------------------------------------------------------------------------------

PRICED = [
    ([tool("a"), tool("b"), end()], {}, 3),
    ([check("c", "true", "e"), end("e")], {}, 2),
    ([assign("s", x=1), end()], {}, 2),
    ([both("p", tool("a"), tool("b"), tool("c"))], {}, 4),
    ([tool("a", on_error="retry")], {"a": [ValueError("1"), ValueError("2"), "ok"]}, 3),
    ([both("p", tool("a", on_error="retry"), tool("b"))], {"a": [ValueError("1"), "ok"]}, 4),
    ([both("p", tool("a"), tool("b"), on_error="retry")], {"a": [ValueError("1"), "ok"]}, 5),
    ([tool("w", "again", timeout_seconds=1)], {}, 1),
]


@pytest.mark.parametrize(("steps", "script", "cost"), PRICED)
def test_exactly_max_steps_passes_and_one_less_does_not(steps: Any, script: Any, cost: int) -> None:
    free = Bench(script).run(program(*steps))
    assert (free.status, free.steps) == ("SUCCESS", cost)
    assert Bench(script).run(program(*steps, max_steps=cost)).status == "SUCCESS"
    if cost > 1:
        short = Bench(script).run(program(*steps, max_steps=cost - 1))
        assert ending(short) == ("BUDGET_EXCEEDED", "max_steps")
        assert short.steps <= cost - 1


def test_a_parallel_step_needs_budget_for_all_sub_steps_before_any_starts() -> None:
    bench = Bench()
    run = bench.run(program(both("p", tool("a"), tool("b"), tool("c")), max_steps=3))
    assert ending(run) == ("BUDGET_EXCEEDED", "max_steps")
    assert bench.tools.asked == []
    assert run.steps == 0


def test_a_retry_of_several_siblings_needs_budget_for_all_of_them() -> None:
    bench = Bench({"a": [ValueError(), "ok"], "b": [ValueError(), "ok"]})
    steps = [both("p", tool("a", on_error="retry"), tool("b", on_error="retry"))]
    assert ending(bench.run(program(*steps, max_steps=4))) == ("BUDGET_EXCEEDED", "max_steps")
    assert bench.tools.steps() == ["a", "b"]


def test_the_machine_bounds_runs_that_bound_nothing_themselves() -> None:
    loop = [assign("s", x=1), check("back", "true", "s")]
    run = Bench(limits=Limits(steps=50)).run(program(*(loop[0] | {"next_step": "back"}, loop[1])))
    assert (ending(run), run.steps) == (("BUDGET_EXCEEDED", "max_steps"), 50)


def test_tokens_are_checked_before_each_call_and_rejected_replies_are_charged() -> None:
    said = [ModelReply("maybe", 10), ModelReply("no idea", 10), ModelReply("yes", 10)]
    steps = [ask("a", allowed_outputs=["yes"], on_error="retry"), ask("b")]
    bench = Bench(model={"a": said, "b": ModelReply("x", 1)})
    run = bench.run(program(*steps, max_tokens=31))
    assert (run.status, run.tokens) == ("SUCCESS", 31)
    bench = Bench(model={"a": said, "b": ModelReply("x", 1)})
    run = bench.run(program(*steps, max_tokens=30))
    assert (ending(run), run.tokens) == (("BUDGET_EXCEEDED", "max_tokens"), 30)
    assert [asked.step for asked in bench.model.asked] == ["a", "a", "a"]
    bench = Bench(model={"a": said})
    run = bench.run(program(*steps, max_tokens=20))
    assert (ending(run), len(bench.model.asked)) == (("BUDGET_EXCEEDED", "max_tokens"), 2)


def test_tools_do_not_need_tokens_or_money() -> None:
    for budget in ({"max_tokens": 5}, {"max_cost": 5}):
        run = Bench(model={"a": ModelReply("x", 99, 99)}).run(program(ask("a"), tool("b"), **budget))
        assert (run.status, run.tokens) == ("SUCCESS", 99)


def test_money_is_checked_before_each_call_exactly_and_rejected_replies_cost() -> None:
    tenth = Decimal("0.1")
    said = [ModelReply("maybe", 1, tenth), ModelReply("no idea", 1, tenth), ModelReply("yes", 1, tenth)]
    steps = [ask("a", allowed_outputs=["yes"], on_error="retry"), ask("b")]
    for limit, asked in (("0.31", "aaab"), ("0.3", "aaa"), ("0.2", "aa")):
        bench = Bench(model={"a": said, "b": ModelReply("x", 1, tenth)})
        run = bench.run(program(*steps, max_cost=Decimal(limit)))
        assert ending(run) == (("SUCCESS", "declared") if asked == "aaab" else ("BUDGET_EXCEEDED", "cost"))
        assert "".join(one.step for one in bench.model.asked) == asked
        assert run.cost == len(asked) * tenth


def test_a_reply_of_unknown_cost_is_none_under_a_limit_of_money() -> None:
    said = {"a": ModelReply("x", 3, None)}
    assert Bench(model=said).run(program(ask("a"))).status == "SUCCESS"
    run = Bench(model=said).run(program(ask("a"), max_cost=5))
    assert (run.status, run.tokens) == ("FAILED", 3)
    assert "does not say what its reply to `a` cost" in str(run.error)


def test_a_budget_of_tokens_is_named_before_one_of_money() -> None:
    made = program(ask("a"), ask("b"), max_tokens=1, max_cost=1)
    assert Bench(model={"a": ModelReply("x", 1, 1)}).run(made).reason == "max_tokens"


def test_a_reply_gives_no_money_back() -> None:
    said = {"a": ModelReply("x", 1, 2), "b": ModelReply("x", -1, -2), "c": ModelReply("x", 0, 0)}
    run = Bench(model=said).run(program(ask("a"), ask("b"), ask("c"), max_cost=3))
    assert (run.status, run.tokens, run.cost) == ("SUCCESS", 1, 2)


def test_a_run_says_what_each_step_has_spent() -> None:
    said = [ModelReply("no", 2, Decimal("0.5"), "m-1"), ModelReply("yes", 3, Decimal("0.25"), "m-2")]
    steps = [ask("a", allowed_outputs=["yes"], on_error="retry"), both("p", ask("b"), tool("t"))]
    run = Bench(model={"a": said, "b": ModelReply("x")}).run(program(*steps))
    assert run.spent == {"a": Spent(5, Decimal("0.75"), "m-2"), "b": Spent()}


def test_costs_add_up_exactly_whatever_the_context_of_decimals() -> None:
    import decimal

    with decimal.localcontext() as context:
        context.prec = 3
        costs = [decimal.Decimal("1e20"), decimal.Decimal("1e-20"), decimal.Decimal("0.12345")]
        model = {f"l{number}": ModelReply("x", 1, cost) for number, cost in enumerate(costs)}
        run = Bench(model=model).run(program(*(ask(name) for name in model)))
    assert str(run.cost) == "100000000000000000000.12345000000000000001"


@pytest.mark.parametrize("tokens", [None, -4, float("nan"), float("inf"), "many"])
def test_an_adapter_that_counts_wrongly_does_not_break_the_machine(tokens: Any) -> None:
    bench = Bench(model={"a": ModelReply("x", tokens, "free", "name\ud800" * 1000)})
    run = bench.run(program(ask("a")))
    assert (run.status, run.tokens, run.cost) == ("SUCCESS", 0, 0)
    assert max(len(entry.record) for entry in bench.journal.read("run")) < 2_000


def test_no_number_makes_a_record_that_does_not_verify() -> None:
    bench = Bench(model={"a": ModelReply("x", 2**60, 10**900)}, limits=Limits(1e6, 1e7, 2**60))
    run = bench.run(program(ask("a")))
    assert (run.status, run.cost) == ("SUCCESS", 10**900)
    assert run.tokens > 2**50
    assert verify(bench.journal, "run").faults == ()


# -- limits of size ----------------------------------------------------------------------------------------------------


def test_an_output_of_exactly_the_limit_passes_and_one_byte_more_fails_with_the_sizes() -> None:
    limits = Limits(output_bytes=500)
    steps = [tool("a", error_step="sorry"), end("sorry", output="$a.error")]
    assert Bench({"a": "x" * 498}, limits=limits).run(program(*steps)).output is None
    run = Bench({"a": "x" * 499}, limits=limits).run(program(*steps))
    assert "501" in run.output
    assert "500" in run.output
    # Bytes, not characters.
    assert "502" in Bench({"a": "ä" * 250}, limits=limits).run(program(*steps)).output


def test_an_output_that_is_too_large_never_reaches_the_journal() -> None:
    bench = Bench({"a": "Q" * 5000}, limits=Limits(output_bytes=1000))
    assert bench.run(program(tool("a"))).status == "FAILED"
    assert not any(b"QQQ" in entry.record for entry in bench.journal.read("run"))


def test_a_sensitive_output_has_the_same_limit() -> None:
    tools = {"read": {"effect": "read", "returns": {"type": "string", "sensitive": True}}}
    run = Bench({"a": "x" * 5000}, limits=Limits(output_bytes=1000)).run(program(tool("a"), tools=tools))
    assert (run.status, "5002" in run.error) == ("FAILED", True)


def test_a_reply_a_fallback_and_a_set_have_the_same_limit() -> None:
    limits = Limits(output_bytes=300)
    assert "402" in Bench(model={"a": "x" * 400}, limits=limits).run(program(ask("a"))).error
    late = tool("a", timeout_seconds=1, on_timeout="fallback", fallback="y" * 400)
    bench = Bench(limits=limits)
    bench.tools.answers["a"] = [Late(5)]
    assert "402" in bench.run(program(late)).error
    run = Bench(limits=limits).run(program(assign("s", x="z" * 0 + "'" + "z" * 400 + "'"), end()))
    assert (ending(run), "40" in run.error) == (("FAILED", "error"), True)


def test_a_state_over_its_limit_fails_the_step_that_would_make_it_so() -> None:
    limits = Limits(state_bytes=3000)
    names = [f"t{number}" for number in range(9)]
    bench = Bench({"read": "x" * 500}, limits=limits)
    run = bench.run(program(*(tool(name) for name in names)))
    assert ending(run) == ("FAILED", "error")
    assert "3000" in run.error
    assert 4 <= len(bench.tools.asked) <= 6
    # The same step again and again takes the same room.
    loop = [tool("t", max_visits=30, next_step="back"), check("back", "true", "t")]
    assert ending(Bench({"read": "x" * 500}, limits=limits).run(program(*loop))) == ("STALLED", "visits")


def test_the_outputs_of_sub_steps_count_for_the_size_of_the_state() -> None:
    parts = [tool(f"t{number}") for number in range(20)]
    bench = Bench({"read": "x" * 500}, limits=Limits(state_bytes=3000))
    run = bench.run(program(both("p", *parts)))
    assert run.status == "FAILED"
    assert "3000" in run.error


def test_inputs_over_the_limit_of_the_state_are_refused() -> None:
    with pytest.raises(RunRefused, match="2000"):
        Bench(limits=Limits(state_bytes=2000)).run(program(end(), inputs={"x": TEXT}), x="y" * 3000)
    hidden = {"x": {**TEXT, "sensitive": True}}
    with pytest.raises(RunRefused, match="2000"):
        Bench(limits=Limits(state_bytes=2000)).run(program(end(), inputs=hidden), x="y" * 3000)
