"""Fast: parallel steps: all siblings run, outputs bind in the order of the list, and nothing hangs on timing."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from machines import Bench, Late, ask, assign, both, check, end, program, tool, unchecked
from stepward.vm import InDoubt, MemoryJournal, ModelReply, Run, Suspend, ToolContext
from stepward.vm.machine.clock import ManualClock

NO = ValueError("no")


def ending(run: Any) -> tuple[str, str]:
    return run.status, run.reason


class Shuffled:
    """Tools whose first answers come in the order that is given; further ones come at once."""

    def __init__(self, order: tuple[str, ...], answers: dict[str, Any]) -> None:
        self.order = list(order)
        self.answers = answers
        self.started: list[str] = []
        self.finished: list[str] = []

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        self.started.append(context.step)
        while context.attempt == 1 and self.order and self.order[0] != context.step:
            await asyncio.sleep(0)
        if context.attempt == 1 and self.order:
            self.order.pop(0)
        self.finished.append(context.step)
        said = self.answers.get(context.step, context.step)
        said = said[min(context.attempt, len(said)) - 1] if isinstance(said, list) else said
        if isinstance(said, Exception):
            raise said
        return said


def in_order(order: tuple[str, ...], made: Any, answers: dict[str, Any], **inputs: Any) -> tuple[Run, Shuffled]:
    tools = Shuffled(order, answers)
    machine = unchecked(tools, journal=MemoryJournal(), clock=ManualClock())
    run = machine.run_sync(made, inputs, run_id="run")
    assert machine.get_sync("run").snapshot() == run.snapshot()
    return run, tools


# -- what siblings see, and what they leave ----------------------------------------------------------------------------


def test_all_siblings_run_whatever_the_others_do() -> None:
    bench = Bench({"a": NO, "b": NO})
    run = bench.run(program(both("p", tool("a"), tool("b", args={"x": "$nowhere"}), tool("c"), tool("d", "write"))))
    assert sorted(bench.tools.steps()) == ["a", "c", "d"]
    assert ending(run) == ("FAILED", "error")
    values = run.view("trace")
    assert (values["c.output"], values["d.output"]) == ("done", "done")
    assert {"a.error", "b.error", "p.error"} <= set(values)
    assert not {"a.output", "b.output", "p.output"} & set(values)


def test_siblings_see_the_state_before_the_step_and_not_one_another() -> None:
    bench = Bench({"a": "new"})
    parts = [
        tool("a", output_key="v"),
        tool("b", args={"x": "$v"}),
        tool("c", args={"x": "$a.output"}, on_error="skip"),
    ]
    bench.run(program(assign("s", v="'old'"), both("p", *parts)))
    assert next(asked.args for asked in bench.tools.asked if asked.step == "b") == {"x": "old"}
    assert "c" not in bench.tools.steps()


def test_the_output_is_an_object_by_sub_step_without_those_that_were_skipped() -> None:
    late = {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": None}
    parts = [tool("a"), tool("b", on_error="skip"), tool("c", **{**late, "fallback": "f"}), ask("d")]
    bench = Bench({"a": 1, "b": NO, "c": Late(5)}, model={"d": "said"})
    run = bench.run(program(both("p", *parts, output_key="all"), end(output=["$p.output", "$all", "$all.c"])))
    assert run.output == ({"a": 1, "c": "f", "d": "said"}, {"a": 1, "c": "f", "d": "said"}, "f")


def test_a_null_output_is_an_output() -> None:
    steps = [
        both("p", tool("a", output_key="v")),
        assign("s", has="defined($v) and defined($p.output.a) and $v == null"),
    ]
    assert Bench({"a": None}).run(program(*steps)).view("trace")["has"] is True


def test_no_transition_crosses_the_boundary() -> None:
    bench = Bench({"a": NO})
    run = bench.run(program(both("p", tool("a"), tool("b"), error_step="sorry"), tool("after"), tool("sorry")))
    assert bench.tools.steps() == ["a", "b", "sorry"]
    assert ending(run) == ("SUCCESS", "declared")


@pytest.mark.parametrize(
    ("how", "steps", "status"),
    [
        ({}, [], "FAILED"),
        ({"on_error": "skip"}, ["after"], "SUCCESS"),
        ({"error_step": "sorry"}, ["sorry"], "SUCCESS"),
        ({"on_error": "retry", "max_retries": 2, "error_step": "sorry"}, ["a", "sorry"], "SUCCESS"),
    ],
)
def test_the_step_fails_by_its_own_on_error(how: dict[str, Any], steps: list[str], status: str) -> None:
    bench = Bench({"a": NO})
    run = bench.run(program(both("p", tool("a"), tool("b"), **how), tool("after", is_terminal=True), tool("sorry")))
    assert bench.tools.steps() == ["a", "b", *steps]
    assert run.status == status
    assert "p.output" not in run.view("trace")
    assert "no" in run.view("trace")["p.error"]


def test_skipped_siblings_do_not_fail_the_step() -> None:
    run = Bench({"read": NO}).run(program(both("p", tool("a", on_error="skip"), tool("b", on_error="skip"))))
    assert (run.status, run.view("trace")["p.output"]) == ("SUCCESS", {})


def test_an_earlier_round_of_a_loop_leaves_nothing_behind() -> None:
    steps = [
        assign("n0", n=0),
        both("p", tool("a", output_key="v", on_error="skip"), tool("b"), next_step="n1", output_key="w"),
        assign("n1", n="$n + 1", _step={"next_step": "more"}),
        check("more", "$n < 2", "p", "look"),
        assign("look", has="defined($v) or defined($a.output) or defined($w.a)", b="$w.b"),
    ]
    values = Bench({"a": [1, NO], "b": [1, 2]}).run(program(*steps)).view("trace")
    assert (values["has"], values["b"]) == (False, 2)


# -- timing ------------------------------------------------------------------------------------------------------------

MIXED = [
    tool("a", "write", output_key="v"),
    tool("b", on_error="retry", output_key="v"),
    tool("c", "again", on_error="skip", output_key="w"),
    tool("d", output_key="w"),
]
ANSWERS: dict[str, Any] = {"b": [NO, "b"], "c": NO}


def test_outputs_bind_in_the_order_of_the_list_whatever_the_timing() -> None:
    made = program(both("p", *MIXED), end(output=["$v", "$w"]))
    runs, finishes = [], set()
    for order in itertools.permutations("abcd"):
        run, tools = in_order(order, made, ANSWERS)
        finishes.add(tuple(tools.finished[:4]))
        runs.append(run)
    assert len(finishes) == 24, "the tools did come back in every order"
    assert {run.output for run in runs} == {("b", "d")}
    assert len({run.snapshot() for run in runs}) == 1
    assert len({run.trace_hash for run in runs}) == 1


def test_a_later_sibling_that_fails_takes_the_shared_variable_away() -> None:
    made = program(
        both("p", tool("a", output_key="v"), tool("b", output_key="v", on_error="skip")), assign("s", h="defined($v)")
    )
    for order in itertools.permutations("ab"):
        assert in_order(order, made, {"b": NO})[0].view("trace")["h"] is False


@pytest.mark.parametrize("budget", range(4, 10))
def test_budgets_do_not_hang_on_timing(budget: int) -> None:
    parts = [tool(name, on_error="retry") for name in "abc"]
    made = program(both("p", *parts), max_steps=budget)
    answers = {"a": [NO, NO, 1], "b": [NO, 1], "c": [1]}
    runs = [in_order(order, made, answers) for order in itertools.permutations("abc")]
    assert len({run.trace_hash for run, _ in runs}) == 1
    assert {ending(run) for run, _ in runs} == {
        ("SUCCESS", "declared") if budget >= 7 else ("BUDGET_EXCEEDED", "max_steps")
    }
    assert len({tuple(sorted(tools.started)) for _, tools in runs}) == 1


def test_tokens_are_checked_before_each_wave_of_model_calls() -> None:
    said = {name: [ModelReply("no", 5), ModelReply("yes", 5)] for name in "abc"}
    parts = [ask(name, allowed_outputs=["yes"], on_error="retry") for name in "abc"]
    for limit, calls, status in ((15, 3, "BUDGET_EXCEEDED"), (16, 6, "SUCCESS"), (1, 3, "BUDGET_EXCEEDED")):
        bench = Bench(model=said)
        run = bench.run(program(both("p", *parts), max_tokens=limit))
        assert (run.status, len(bench.model.asked), run.tokens) == (status, calls, calls * 5)


@pytest.mark.parametrize("budget", ["max_tokens", "max_cost"])
def test_a_wave_has_no_more_model_calls_than_may_run_at_once_where_they_are_limited(budget: str) -> None:
    parts = [ask(name) for name in "abcdef"]
    for most, calls in ((1, 2), (2, 2), (4, 4), (None, 6)):
        limits = {} if most is None else {"max_concurrency": most}
        bench = Bench(model={name: ModelReply("yes", 5, 5) for name in "abcdef"})
        run = bench.run(program(both("p", *parts, **limits), **{budget: 6}))
        assert (run.status, len(bench.model.asked)) == ("SUCCESS" if calls == 6 else "BUDGET_EXCEEDED", calls)


def test_rules_do_not_hang_on_timing() -> None:
    parts = [tool("a", "write", on_error="retry"), tool("b"), tool("c", "write")]
    rule = {"name": "once", "at_most_once": {"step": "a"}}
    made = program(both("p", *parts), guardrails=[rule])
    runs = [in_order(order, made, {"a": NO}) for order in itertools.permutations("abc")]
    assert {ending(run) for run, _ in runs} == {("FAILED", "guardrail")}
    assert {tuple(sorted(tools.started)) for _, tools in runs} == {("a", "b", "c")}
    assert len({run.trace_hash for run, _ in runs}) == 1


def test_attempts_come_in_waves() -> None:
    parts = [tool(name, on_error="retry") for name in "abc"]
    answers = {"a": [NO, 1], "b": [NO, NO, 1], "c": [1]}
    _, tools = in_order(("c", "b", "a"), program(both("p", *parts)), answers)
    assert [sorted(tools.started[:3]), sorted(tools.started[3:5]), tools.started[5:]] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["b"],
    ]


# -- retries -----------------------------------------------------------------------------------------------------------


def test_a_retry_of_the_step_runs_only_those_that_failed() -> None:
    parts = [tool("a"), tool("b", "write"), tool("c", on_error="skip"), tool("d", "again")]
    bench = Bench({"a": [NO, NO, 1], "c": NO, "d": [NO, 2]})
    run = bench.run(program(both("p", *parts, on_error="retry"), end(output="$p.output")))
    assert run.output == {"a": 1, "b": "done", "d": 2}
    assert {name: bench.tools.steps().count(name) for name in "abcd"} == {"a": 3, "b": 1, "c": 1, "d": 2}
    assert len(set(bench.tools.keys("d"))) == 1, "an idempotent tool keeps its key over the retries of the whole"
    assert run.steps == 1 + 4 + (1 + 2) + (1 + 1) + 1


def test_retries_of_a_sub_step_start_anew_with_each_retry_of_the_step() -> None:
    bench = Bench({"a": NO})
    step = both("p", tool("a", on_error="retry", max_retries=2), on_error="retry", max_retries=3)
    assert bench.run(program(step)).status == "FAILED"
    assert [asked.attempt for asked in bench.tools.asked] == [1, 2, 3, 4, 5, 6]


def test_a_sub_step_that_can_not_start_is_not_repeated_by_itself() -> None:
    bench = Bench()
    run = bench.run(program(both("p", tool("a", args={"x": "$nowhere"}, on_error="retry"), tool("b"))))
    assert (ending(run), bench.tools.steps(), run.steps) == (("FAILED", "error"), ["b"], 3)


def test_what_a_failed_attempt_left_is_not_seen_by_the_next_one() -> None:
    parts = [tool("a", output_key="v"), tool("b", args={"x": "$v"})]
    bench = Bench({"a": "new", "b": [NO, 1]})
    bench.run(program(assign("s", v="'old'"), both("p", *parts, on_error="retry")))
    assert [asked.args["x"] for asked in bench.tools.asked if asked.step == "b"] == ["old", "old"]


# -- siblings that wait ------------------------------------------------------------------------------------------------


def test_the_others_finish_first_when_one_suspends_or_is_in_doubt() -> None:
    parts = [tool("s", "ask"), tool("w", "write"), tool("r", on_error="retry"), tool("x", "write")]
    bench = Bench({"s": Suspend("?"), "w": InDoubt("?"), "r": [NO, NO, "r"]})
    run = bench.run(program(both("p", *parts), end(output="$p.output")))
    assert run.status == "IN_DOUBT"
    assert bench.tools.steps().count("r") == 3
    assert ([held.step for held in run.suspensions], [held.step for held in run.doubts]) == (["s"], ["w"])
    run = bench.checked(bench.vm.reconcile_sync("run", "w", "done", "w"))
    assert run.status == "SUSPENDED"
    run = bench.resume(run, "s")
    assert (run.status, run.output) == ("SUCCESS", {"s": "s", "w": "w", "r": "r", "x": "done"})
    assert len(bench.tools.asked) == 6, "nothing was started again"


def test_held_siblings_may_be_settled_in_any_order() -> None:
    parts = [tool("s", "ask"), tool("t", "ask"), tool("w", "write")]
    made = program(both("p", *parts), end(output="$p.output"))
    outcomes = set()
    for order in itertools.permutations("stw"):
        bench = Bench({"s": Suspend(), "t": Suspend(), "w": InDoubt("?")})
        run = bench.run(made)
        tokens = {held.step: held.token for held in run.suspensions}
        for name in order:
            run = (
                bench.vm.reconcile_sync("run", "w", "done", "w")
                if name == "w"
                else bench.vm.resume_sync(tokens[name], name)
            )
        outcomes.add((bench.checked(run).output, run.trace_hash))
    assert len(outcomes) == 1


def test_a_failed_sibling_fails_the_step_only_when_the_suspended_one_is_back() -> None:
    bench = Bench({"s": Suspend(), "a": NO})
    run = bench.run(
        program(both("p", tool("s", "ask"), tool("a"), error_step="sorry"), end("e"), end("sorry", "$s.output"))
    )
    assert run.status == "SUSPENDED"
    run = bench.resume(run, "late")
    assert (run.step, run.output) == ("sorry", "late")


def test_a_resumed_sibling_is_not_asked_again_when_the_step_is_retried() -> None:
    bench = Bench({"s": Suspend(), "a": [NO, "ok"]})
    run = bench.run(program(both("p", tool("s", "ask"), tool("a"), on_error="retry"), end(output="$p.output")))
    run = bench.resume(run, "s")
    assert (run.output, bench.tools.steps()) == ({"s": "s", "a": "ok"}, ["s", "a", "a"])


def test_cancelling_a_suspended_parallel_step_keeps_what_its_siblings_did_in_the_journal() -> None:
    bench = Bench({"s": Suspend()})
    bench.run(program(both("p", tool("s", "ask"), tool("w", "write"))))
    assert bench.checked(bench.vm.cancel_sync("run")).status == "CANCELLED"
    assert [body["step"] for body in bench.bodies("attempt") if body["kind"] == "success"] == ["w"]


# -- concurrency -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "most"), [({}, 8), ({"max_concurrency": 1}, 1), ({"max_concurrency": 3}, 3)])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_max_concurrency_is_respected_and_used(said: dict[str, Any], most: int, kind: str) -> None:
    now, seen = [0], []

    async def work() -> None:
        now[0] += 1
        seen.append(now[0])
        for _ in range(20):
            await asyncio.sleep(0)
        now[0] -= 1

    machine = unchecked({kind: work}, clock=ManualClock())
    machine.run_sync(program(both("p", *(tool(f"t{number}", kind) for number in range(8)), **said)))
    assert max(seen) == most


def test_max_concurrency_holds_for_models_too() -> None:
    now, seen = [0], []

    class Model:
        async def complete(self, request: Any) -> ModelReply:
            now[0] += 1
            seen.append(now[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            now[0] -= 1
            return ModelReply("x", 1)

    machine = unchecked({}, Model(), clock=ManualClock())
    run = machine.run_sync(program(both("p", *(ask(f"a{number}") for number in range(6)), max_concurrency=2)))
    assert (max(seen), run.tokens) == (2, 6)


def test_a_thousand_sub_steps() -> None:
    started = time.process_time()
    bench = Bench({"read": lambda: "x"})
    parts = [tool(f"t{number}", output_key="v" if number % 2 else None) for number in range(1000)]
    run = bench.run(program(both("p", *parts, max_concurrency=50), end(output="$v")))
    assert (run.status, run.steps, len(run.view("trace")["p.output"])) == ("SUCCESS", 1002, 1000)
    assert time.process_time() - started < 5


def test_a_thousand_sub_steps_of_which_half_fail_are_retried_by_halves() -> None:
    answers = {f"t{number}": [NO, number] for number in range(0, 1000, 2)}
    bench = Bench(answers)
    run = bench.run(program(both("p", *(tool(f"t{number}") for number in range(1000)), on_error="retry")))
    assert (run.status, len(bench.tools.asked), run.steps) == ("SUCCESS", 1500, 1502)


def test_the_journal_fails_while_siblings_run_and_the_caller_hears_of_it() -> None:
    class Full(MemoryJournal):
        def append(self, append: Any, fence: int | None) -> None:
            raise OSError("the disk is full")

    bench = Bench(journal=Full())
    with pytest.raises(OSError, match="full"):
        bench.run(program(both("p", tool("a", "write"), tool("b", "write"))))
    assert bench.tools.asked == [], "no write starts without its intent in the journal"
