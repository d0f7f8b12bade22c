"""Fast: what goes wrong in a step: errors, retries, time-outs, fallbacks, skips, error routes, doubt."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from machines import TOOLS, Bench, Late, ask, assign, check, end, program, raises, tool, unchecked
from stepward.vm import DeliveryRefused, InDoubt, ModelReply, NoSuchRun
from stepward.vm.machine.clock import ManualClock

NO = ValueError("no")
NUMBER = {"type": "number"}
TYPED = {name: {**spec, "returns": NUMBER} for name, spec in TOOLS.items()}
"""The tools of the bench with an output that can be ill-typed."""


def ending(run: Any) -> tuple[str, str]:
    return run.status, run.reason


# -- failed means: did not happen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["read", "write", "again"])
def test_a_tool_that_raises_has_failed_and_the_run_ends(kind: str) -> None:
    bench = Bench({"a": ValueError("the bank is closed")})
    run = bench.run(program(tool("a", kind), tool("b", is_terminal=True)))
    assert ending(run) == ("FAILED", "error")
    assert "the bank is closed" in run.error
    assert bench.tools.steps() == ["a"]


def test_an_error_route_sees_the_error_as_text_and_no_output() -> None:
    steps = [
        tool("a", error_step="sorry", output_key="v"),
        end("done"),
        assign("sorry", said="$a.error", has="defined($a.output) or defined($v)"),
    ]
    run = Bench({"a": ValueError("no money")}).run(program(*steps))
    assert ending(run) == ("SUCCESS", "declared")
    assert run.view("trace")["said"] == "no money"
    assert run.view("trace")["has"] is False


@pytest.mark.parametrize("error", [ValueError(), KeyError("k"), Exception("\ud800"), RuntimeError("x" * 9_000)])
def test_the_text_of_an_error_is_never_empty_bounded_and_fit_for_a_record(error: Exception) -> None:
    run = Bench({"a": error}).run(program(tool("a")))
    assert run.status == "FAILED"
    assert 0 < len(run.error) < 3_000
    run.error.encode()


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), StopIteration(), GeneratorExit(), TimeoutError()]
)
@pytest.mark.parametrize("timed", [{}, {"timeout_seconds": 60}])
def test_no_exception_of_a_tool_ends_anything_but_its_attempt(error: BaseException, timed: dict[str, Any]) -> None:
    machine = unchecked({"read": raises(error)}, clock=ManualClock())
    run = machine.run_sync(program(tool("a", **timed, error_step="sorry"), end("sorry", "$a.error")))
    assert (run.status, bool(run.output)) == ("SUCCESS", True)

    async def fails() -> None:
        raise error

    if not isinstance(error, StopIteration | GeneratorExit):
        machine = unchecked({"read": fails}, clock=ManualClock())
        run = machine.run_sync(program(tool("a", **timed, error_step="sorry"), end("sorry", "$a.error")))
        assert run.status == "SUCCESS"


class Speechless(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("kind", ["read", "write"])
def test_an_exception_that_can_not_say_what_it_is_has_failed_too(kind: str) -> None:
    run = Bench({"a": Speechless()}).run(program(tool("a", kind)))
    assert (run.status, run.error) == ("FAILED", "Speechless")
    assert Bench(model={"a": Speechless()}).run(program(ask("a"))).error == "Speechless"


def test_a_time_out_that_a_tool_raises_itself_says_that_nothing_happened() -> None:
    late = {"timeout_seconds": 9, "on_timeout": "fallback", "fallback": 1}
    for kind in ("read", "write", "again"):
        run = Bench({"a": TimeoutError()}).run(program(tool("a", kind, **late)))
        assert ending(run) == ("FAILED", "error"), kind


def test_a_failed_run_can_be_run_anew_under_another_id_but_never_under_the_same() -> None:
    bench = Bench({"a": [NO, "ok"]})
    made = program(tool("a"))
    assert bench.run(made, "one").status == "FAILED"
    assert bench.run(made, "one").status == "FAILED"
    assert bench.run(made, "two").status == "SUCCESS"
    assert len(bench.tools.asked) == 2


# -- retries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "attempts"), [({}, 3), ({"max_retries": 5}, 5), ({"max_retries": 1}, 1)])
def test_retry_makes_that_many_attempts_in_all(said: dict[str, Any], attempts: int) -> None:
    bench = Bench({"a": NO})
    assert ending(bench.run(program(tool("a", on_error="retry", **said)))) == ("FAILED", "error")
    assert [asked.attempt for asked in bench.tools.asked] == list(range(1, attempts + 1))
    bench = Bench({"a": [NO] * (attempts - 1) + ["ok"]})
    assert bench.run(program(tool("a", on_error="retry", **said), end(output="$a.output"))).output == "ok"


def test_max_retries_without_retry_is_no_retry_of_a_failure() -> None:
    bench = Bench({"a": NO})
    assert bench.run(program(tool("a", max_retries=5))).status == "FAILED"
    assert len(bench.tools.asked) == 1


def test_waiting_for_a_retry_takes_the_time_of_the_clock_and_none_of_ours() -> None:
    bench = Bench({"a": NO}, retry_delay=lambda attempt: 3600.0 * attempt)
    started = time.perf_counter()
    bench.run(program(tool("a", on_error="retry", max_retries=4)))
    assert time.perf_counter() - started < 2
    assert bench.clock.slept == [7200.0, 10800.0, 14400.0]


def test_what_retries_leave_is_an_error_route_or_the_end() -> None:
    run = Bench({"a": NO}).run(program(tool("a", on_error="retry", error_step="b"), end("b", output="$a.error")))
    assert run.output == "no"


def test_a_rejected_reply_is_an_attempt_and_is_journaled() -> None:
    bench = Bench(model={"a": ["perhaps", "yes"]})
    run = bench.run(program(ask("a", allowed_outputs=["yes"], on_error="retry"), end(output="$a.output")))
    assert run.output == "yes"
    assert [body.get("rule") for body in bench.bodies("attempt")] == ["allowed_outputs", None]


def test_a_model_that_raises_has_failed() -> None:
    bench = Bench(model={"a": [RuntimeError("overloaded"), "fine"]})
    assert bench.run(program(ask("a", on_error="retry"), end(output="$a.output"))).output == "fine"


# -- skip, and undefined that is never null ----------------------------------------------------------------------------


def test_a_skipped_step_leaves_its_output_undefined_and_says_why() -> None:
    look = assign("look", has="defined($a.output) or defined($v)", said="$a.error")
    run = Bench({"a": NO}).run(program(tool("a", on_error="skip", output_key="v"), look))
    assert (run.view("trace")["has"], run.view("trace")["said"]) == (False, "no")


@pytest.mark.parametrize("condition", ["$a.output != 'deny'", "$v != 'deny'", "$v == null", "$v != null", "not $v"])
def test_a_missing_output_passes_no_condition(condition: str) -> None:
    bench = Bench({"a": NO})
    steps = [
        tool("a", on_error="skip", output_key="v"),
        check("c", condition, "pay", "other"),
        tool("pay"),
        tool("other"),
    ]
    assert ending(bench.run(program(*steps))) == ("FAILED", "error")
    assert bench.tools.steps() == ["a"]


@pytest.mark.parametrize("how", [{"on_error": "skip"}, {"error_step": "out"}])
def test_an_output_of_an_earlier_visit_is_gone_when_a_later_one_fails(how: dict[str, Any]) -> None:
    steps = [
        assign("start", n=0),
        tool("a", output_key="v", next_step="next", **how),
        assign("next", n="$n + 1", had="defined($a.output) and defined($v)", _step={"next_step": "more"}),
        check("more", "$n < 2", "a", "out"),
        assign("out", has="defined($a.output) or defined($v)"),
    ]
    run = Bench({"a": ["fine", NO]}).run(program(*steps))
    assert run.view("trace")["has"] is False
    assert run.view("trace")["n"] == (2 if "on_error" in how else 1)


def test_the_error_is_undefined_again_after_a_success() -> None:
    steps = [
        tool("a", error_step="again", next_step="look"),
        assign("again", seen="$a.error", _step={"next_step": "a"}),
        assign("look", has="defined($a.error)"),
    ]
    run = Bench({"a": [NO, "ok"]}).run(program(*steps, max_steps=20))
    assert (run.view("trace")["seen"], run.view("trace")["has"]) == ("no", False)


def test_two_steps_that_share_a_variable_take_it_from_one_another() -> None:
    steps = [tool("a", output_key="v"), tool("b", output_key="v", on_error="skip"), assign("look", has="defined($v)")]
    assert Bench({"a": 1, "b": NO}).run(program(*steps)).view("trace")["has"] is False
    assert Bench({"a": 1, "b": NO}).run(program(*steps)).view("trace")["a.output"] == 1


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [{"x": "$nowhere"}, {"x": ["deep", {"y": "is $nowhere"}]}, {"x": "$a0.output.field"}])
def test_an_undefined_argument_fails_the_step_before_it_starts(args: dict[str, Any]) -> None:
    bench = Bench()
    steps = [tool("a0"), tool("a", "write", args=args, on_error="retry", error_step="sorry"), end("sorry", "$a.error")]
    run = bench.run(program(*steps))
    assert bench.tools.steps() == ["a0"]
    assert "undefined" in run.output
    assert run.steps == 3
    assert "intent" not in bench.kinds()


@pytest.mark.parametrize("value", ["'1'", "true", "null", "1.5", "11"])
def test_an_ill_typed_argument_fails_the_step_before_it_starts(value: str) -> None:
    spec = {
        "effect": "write",
        "args": {"n": {"type": "integer", "maximum": 10}, "m": {"type": "string", "default": "d"}},
    }
    bench = Bench()
    steps = [assign("s", v=value), tool("a", "t", args={"n": "$v"}, on_error="retry")]
    assert ending(bench.run(program(*steps, tools={"t": spec}))) == ("FAILED", "error")
    assert bench.tools.asked == []
    bench = Bench()
    bench.run(program(assign("s", v="2 * 5.0"), steps[1], tools={"t": spec}))
    assert bench.tools.asked[0].args == {"n": 10, "m": "d"}


def test_missing_and_unknown_arguments_fail_the_step() -> None:
    spec = {"effect": "read", "args": {"n": {"type": "integer"}}}
    for args in ({}, {"n": 1, "m": 2}):
        bench = Bench()
        assert bench.run(program(tool("a", "t", args=args), tools={"t": spec})).status == "FAILED"
        assert bench.tools.asked == []


def test_a_skipped_step_may_fail_before_it_starts() -> None:
    bench = Bench()
    run = bench.run(program(tool("a", args={"x": "$nowhere"}, on_error="skip"), end(output="$a.error")))
    assert "undefined" in run.output


def test_arguments_are_the_same_in_every_attempt_of_a_visit() -> None:
    # Its own output of the visit before, and its own error, are what they were when the visit began.
    steps = [
        assign("s", first=1),
        tool("a", args={"x": "$first"}, on_error="retry", output_key="out", next_step="more"),
        check("more", "$out == 7", "b"),
        tool("b", "again", args={"x": "$out"}, on_error="retry", output_key="out"),
    ]
    bench = Bench({"a": [NO, NO, 7], "b": [NO, 8]})
    bench.run(program(*steps))
    assert [asked.args["x"] for asked in bench.tools.asked] == [1, 1, 1, 7, 7]


def test_an_undefined_reference_in_a_prompt_fails_the_step_and_is_never_sent() -> None:
    for field in ("prompt", "system"):
        bench = Bench(model={"a": "x"})
        run = bench.run(program({**ask("a"), field: "Dear $nowhere"}))
        assert (ending(run), bench.model.asked) == (("FAILED", "error"), [])


# -- time-outs ---------------------------------------------------------------------------------------------------------

LATE = {"timeout_seconds": 2.5}


def test_a_time_out_is_a_failed_attempt_of_a_tool_that_does_not_write() -> None:
    assert ending(Bench({"a": Late(3)}).run(program(tool("a", **LATE)))) == ("FAILED", "error")
    assert Bench({"a": Late(2.4, 1)}).run(program(tool("a", **LATE))).status == "SUCCESS"
    bench = Bench({"a": [Late(3), Late(3), Late(1, "ok")]})
    assert bench.run(program(tool("a", on_error="retry", **LATE), end(output="$a.output"))).output == "ok"


def test_a_fallback_applies_when_the_attempts_are_used_up_and_only_after_a_time_out() -> None:
    falls = {**LATE, "on_timeout": "fallback", "fallback": {"fee": 9.90}, "output_key": "v"}
    bench = Bench({"a": Late(3)})
    run = bench.run(program(tool("a", on_error="retry", max_retries=2, **falls), end(output=["$a.output.fee", "$v"])))
    assert (str(run.output[0]), len(bench.tools.asked)) == ("9.9", 2)
    run = Bench({"a": [Late(3), NO]}).run(program(tool("a", on_error="retry", max_retries=2, **falls)))
    assert ending(run) == ("FAILED", "error")
    run = Bench({"a": Late(3)}).run(program(tool("a", error_step="b", **falls), tool("b")))
    assert ending(run) == ("SUCCESS", "declared")
    assert "a.error" not in run.view("trace")


def test_a_model_times_out_like_a_tool_and_falls_back_to_what_is_written_and_nothing_else() -> None:
    class Slow:
        def __init__(self, bench: Bench) -> None:
            self.clock = bench.clock

        async def complete(self, request: Any) -> ModelReply:
            self.clock.time += 10_000_000
            return ModelReply("approve", 5)

    bench = Bench()
    bench.vm = unchecked(bench.tools, Slow(bench), bench.journal, clock=bench.clock)
    asks = ask("a", allowed_outputs=["approve", "deny"], timeout_seconds=1, on_timeout="fallback", fallback="deny")
    assert bench.run(program(asks, end(output="$a.output"))).output == "deny"
    assert ending(bench.run(program(ask("a", timeout_seconds=1)), "two")) == ("FAILED", "error")


def test_a_tool_that_hangs_does_not_hold_the_run_by_the_real_clock() -> None:
    gate = threading.Event()
    machine = unchecked({"read": gate.wait})
    started = time.perf_counter()
    run = machine.run_sync(program(tool("a", timeout_seconds=0.05)))
    gate.set()
    assert (run.status, time.perf_counter() - started < 2) == ("FAILED", True)


# -- in doubt ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [Late(3), InDoubt("lost the line"), "no number"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"on_error": "retry"},
        {"on_error": "skip"},
        {"error_step": "out"},
        {"on_timeout": "fallback", "fallback": 1},
    ],
)
def test_a_write_that_may_have_happened_is_in_doubt_whatever_on_error_says(answer: Any, how: dict[str, Any]) -> None:
    bench = Bench({"a": answer})
    run = bench.run(program(tool("a", "write", **LATE, **how, next_step="out"), end("out"), tools=TYPED))
    assert run.status == "IN_DOUBT"
    assert not run.is_over
    assert len(bench.tools.asked) == 1
    assert [(doubt.step, doubt.tool, doubt.key) for doubt in run.doubts] == [("a", "write", bench.tools.keys("a")[0])]


def test_an_output_of_a_write_that_is_too_large_is_in_doubt_too() -> None:
    from stepward.vm import Limits

    bench = Bench({"a": "x" * 5000}, limits=Limits(output_bytes=1000))
    run = bench.run(program(tool("a", "write", on_error="skip")))
    assert (run.status, "5002" in run.doubts[0].why) == ("IN_DOUBT", True)


def test_what_can_not_be_known_of_a_tool_that_does_not_write_is_a_failure() -> None:
    assert ending(Bench({"a": InDoubt("?")}).run(program(tool("a")))) == ("FAILED", "error")
    assert ending(Bench({"a": "text"}).run(program(tool("a"), tools=TYPED))) == ("FAILED", "error")


def test_a_tool_that_nothing_is_known_of_is_taken_for_a_write() -> None:
    bare = program(tool("a", "unknown"), tools=None)
    assert Bench({"a": InDoubt("?")}).run(bare).status == "IN_DOUBT"


@pytest.mark.parametrize("answer", [Late(3), InDoubt("lost the line"), "no number"])
def test_an_idempotent_write_is_repeated_under_its_key_and_then_in_doubt(answer: Any) -> None:
    bench = Bench({"a": [answer, answer, 1]})
    assert bench.run(program(tool("a", "again", **LATE), tools=TYPED)).status == "SUCCESS"
    assert (len(bench.tools.asked), len(set(bench.tools.keys("a")))) == (3, 1)
    for how in ({}, {"on_error": "skip"}, {"error_step": "out"}):
        bench = Bench({"a": answer})
        run = bench.run(program(tool("a", "again", **LATE, **how, next_step="out"), end("out"), tools=TYPED))
        assert (run.status, len(bench.tools.asked), len(set(bench.tools.keys("a")))) == ("IN_DOUBT", 3, 1)
        assert run.doubts[0].key == bench.tools.keys("a")[0]
    bench = Bench({"a": answer})
    assert bench.run(program(tool("a", "again", **LATE, max_retries=2), tools=TYPED)).status == "IN_DOUBT"
    assert len(bench.tools.asked) == 2


@pytest.mark.parametrize(("first", "named"), [(Late(3), ["a"]), (InDoubt("?"), ["a"]), (RuntimeError("no"), None)])
def test_a_run_out_of_budget_names_a_write_that_was_to_be_repeated_and_may_have_happened(
    first: Any, named: list[str] | None
) -> None:
    """Found by the attack `steps-at-the-edge`."""
    bench = Bench({"a": [first, 1]})
    run = bench.run(program(tool("a", "again", **LATE, on_error="retry"), tools=TYPED, max_steps=1))
    assert ending(run) == ("BUDGET_EXCEEDED", "max_steps")
    assert bench.bodies("ended")[0].get("in_doubt") == named


@pytest.mark.parametrize(("how", "named"), [("again", ["a"]), ("write", ["a"]), ("read", None)])
def test_a_run_that_a_guardrail_ends_names_a_sibling_that_may_have_happened(how: str, named: list[str] | None) -> None:
    once = {"name": "once", "at_most_once": {"step": "b"}}
    both = {"id": "both", "type": "parallel", "parallel_steps": [tool("a", how), tool("b", "write", on_error="retry")]}
    bench = Bench({"a": [InDoubt("?"), 1], "b": RuntimeError("no")})
    assert ending(bench.run(program(both, guardrails=[once]))) == ("FAILED", "guardrail")
    assert bench.bodies("rejected")[0].get("in_doubt") == named


def test_an_idempotent_write_that_timed_out_falls_back_where_the_program_says_so() -> None:
    falls = {**LATE, "on_timeout": "fallback", "fallback": 7}
    bench = Bench({"a": Late(3)})
    run = bench.run(program(tool("a", "again", **falls), end(output="$a.output")))
    assert (run.output, len(bench.tools.asked)) == (7, 3)
    assert Bench({"a": InDoubt("?")}).run(program(tool("a", "again", **falls))).status == "IN_DOUBT"


def test_repeats_of_an_idempotent_write_cost_budget() -> None:
    run = Bench({"a": Late(3)}).run(program(tool("a", "again", **LATE), max_steps=2))
    assert ending(run) == ("BUDGET_EXCEEDED", "max_steps")
    assert run.steps == 2


# -- reconciliation ----------------------------------------------------------------------------------------------------


def doubtful(bench: Bench, **more: Any) -> Any:
    return bench.run(program(tool("a", "write", output_key="v", **more), end(output=["$v", "$a.output"]), tools=TYPED))


def test_reconciled_as_done_goes_on_with_the_output() -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    run = bench.checked(bench.vm.reconcile_sync("run", "a", "done", 5))
    assert (run.status, run.output, len(bench.tools.asked)) == ("SUCCESS", (5, 5), 1)


def test_reconciled_as_not_done_is_performed_again_under_its_key() -> None:
    bench = Bench({"a": [InDoubt("?"), InDoubt("?"), 6]})
    doubtful(bench)
    assert bench.checked(bench.vm.reconcile_sync("run", "a", "not_done")).status == "IN_DOUBT"
    run = bench.checked(bench.vm.reconcile_sync("run", "a", "not_done"))
    assert (run.status, run.output, run.steps) == ("SUCCESS", (6, 6), 4)
    assert (len(bench.tools.asked), len(set(bench.tools.keys("a")))) == (3, 1)


def test_abandoned_ends_the_run_cancelled() -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    run = bench.checked(bench.vm.reconcile_sync("run", "a", "abandon"))
    assert ending(run) == ("CANCELLED", "abandoned")
    assert len(bench.tools.asked) == 1


@pytest.mark.parametrize("output", ["five", None, float("nan"), object()])
def test_an_ill_typed_output_does_not_reconcile(output: Any) -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    with pytest.raises(DeliveryRefused):
        bench.vm.reconcile_sync("run", "a", "done", output)
    assert bench.vm.get_sync("run").status == "IN_DOUBT"
    assert bench.vm.reconcile_sync("run", "a", "done", 1).status == "SUCCESS"


def test_only_what_is_in_doubt_can_be_reconciled_and_once() -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    for step, verdict in (("b", "done"), ("end", "not_done"), ("a", "perhaps")):
        with pytest.raises(DeliveryRefused):
            bench.vm.reconcile_sync("run", step, verdict, 1)  # type: ignore[arg-type]
    bench.vm.reconcile_sync("run", "a", "done", 1)
    for verdict in ("done", "not_done", "abandon"):
        with pytest.raises(DeliveryRefused):
            bench.vm.reconcile_sync("run", "a", verdict, 1)  # type: ignore[arg-type]
    with pytest.raises(NoSuchRun):
        bench.vm.reconcile_sync("another", "a", "done", 1)
    assert bench.vm.get_sync("run").status == "SUCCESS"


def test_a_run_in_doubt_waits_for_somebody_and_recovery_leaves_it() -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    assert bench.vm.recover_sync() == []
    assert bench.vm.recover_sync("run")[0].status == "IN_DOUBT"
    assert len(bench.tools.asked) == 1


def test_cancelling_a_run_in_doubt_names_the_write_that_may_have_happened() -> None:
    bench = Bench({"a": InDoubt("?")})
    doubtful(bench)
    assert bench.checked(bench.vm.cancel_sync("run")).status == "CANCELLED"
    assert bench.bodies("ended")[0]["in_doubt"] == ["a"]
