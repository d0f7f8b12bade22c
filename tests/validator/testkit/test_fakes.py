"""Fast: the test kit: fake tools and what they complain about, the bench, and a clock that nobody waits for."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.testing import Bench, FakeError, FakeTools, by_argument, takes
from stepward.vm import ExecutionVM, InDoubt, ModelReply, Program, Suspend

ORDER = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
SHOP: dict[str, Any] = {
    "name": "shop",
    "inputs": {"id": {"type": "string"}},
    "tools": {
        "get": {"effect": "read", "args": {"id": {"type": "string"}}, "returns": ORDER},
        "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
        "pay": {"effect": "write", "idempotent": False, "args": {"sum": {"type": "number"}}},
    },
    "steps": [
        {"id": "order", "type": "tool", "tool": "get", "args": {"id": "$id"}, "output_key": "order",
         "on_error": "retry", "max_retries": 4, "timeout_seconds": 10},
        {"id": "sure", "type": "llm", "prompt": "?", "allowed_outputs": ["yes", "no"], "output_key": "said"},
        {"id": "agree", "type": "tool", "tool": "ask"},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$order.total"}},
        {"id": "end", "type": "end", "output": "$order.total"},
    ],
}  # fmt: skip
PROGRAM = Program.from_dict(SHOP)
FINE = {"get": {"total": 5}, "ask": True}


def bench(model: Any = "yes", **tools: Any) -> Bench:
    return Bench(PROGRAM, {**FINE, **tools}, {"sure": model})


def test_a_run_with_fakes_keeps_a_record_of_every_call() -> None:
    stage = bench()
    run = stage.run({"id": "A"})
    assert (run.status, run.output) == ("SUCCESS", 5)
    assert [call.tool for call in stage.tools.calls] == ["get", "ask", "pay"]
    (paid,) = stage.tools.of("pay")
    assert (paid.step, paid.args, paid.attempt, paid.output, len(paid.idempotency_key)) == (
        "pay",
        {"sum": 5},
        1,
        None,
        64,
    )
    assert stage.tools.of("order") == stage.tools.of("get")
    assert [asked.step for asked in stage.model.asked] == ["sure"]


@pytest.mark.parametrize("again", [1, 2])
def test_a_list_gives_its_outputs_in_turn_and_the_last_one_for_ever(again: int) -> None:
    stage = bench(get=[{"total": 1}, {"total": 2}])
    outputs = [stage.run({"id": "A"}).output for _ in range(2 + again)]
    assert outputs == [1, 2, *[2] * again]


def test_a_function_and_an_argument_choose_the_output() -> None:
    stage = bench(get=by_argument("id", {"A": {"total": 1}, "B": [{"total": 2}, {"total": 3}]}))
    assert [stage.run({"id": id}).output for id in "ABAB"] == [1, 2, 1, 3]
    stage = bench(get=lambda id: {"total": len(id)})
    assert stage.run({"id": "four"}).output == 4

    async def later(id: str) -> Any:
        return {"total": 7}

    assert bench(get=later).run({"id": "A"}).output == 7


def test_an_output_of_a_step_counts_more_than_one_of_its_tool() -> None:
    assert bench(order={"total": 9}).run({"id": "A"}).output == 9


def test_retries_take_no_time_and_their_waits_are_told() -> None:
    stage = bench(get=[ConnectionError("one"), ConnectionError("two"), ConnectionError, {"total": 3}])
    before = stage.clock.time
    assert stage.run({"id": "A"}).output == 3
    assert stage.clock.slept == [1.0, 2.0, 4.0]
    assert stage.clock.time - before >= 7_000_000
    assert [str(call.error) for call in stage.tools.of("get")] == ["one", "two", "", "None"]


def test_a_call_that_takes_too_long_times_out() -> None:
    late = bench(get=takes(11, {"total": 3})).run({"id": "A"})
    assert (late.status, late.error) == ("FAILED", "`order` took longer than 10 seconds")
    assert bench(get=takes(9, {"total": 3})).run({"id": "A"}).output == 3


def test_a_run_is_resumed_and_reconciled() -> None:
    stage = bench(ask=Suspend({"ok": "?"}), pay=InDoubt("lost"))
    run = stage.run({"id": "A"}, run_id="r", by="ann")
    assert run.suspensions[0].request == {"ok": "?"}
    with pytest.raises(LookupError, match="run `r` does not wait at `pay`: it is SUSPENDED"):
        stage.resume(run, True, step="pay")
    with pytest.raises(LookupError, match="run `r` has no write in doubt: it is SUSPENDED"):
        stage.reconcile(run, "done")
    doubtful = stage.resume(run, True, step="agree")
    assert doubtful.status == "IN_DOUBT"
    assert stage.reconcile(doubtful, "done", "paid").status == "SUCCESS"
    assert stage.tools.of("ask")[0].resume_token


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ({"gat": 1}, r"program `shop` has no tool and no tool step `gat`: did you mean `get`\?"),
        ({"sure": "yes"}, "program `shop` has no tool and no tool step `sure`: "),
        ({"get": {"sum": 5}}, r"the output {'sum': 5} of tool `get` is not of its type: it `total` is missing"),
        ({"order": 5}, "of tool `get` is not of its type"),
        ({"get": [{"total": 5}, {"total": "5"}]}, r"{'total': '5'} of tool `get` is not of its type"),
        ({"get": by_argument("id", {"A": [7]})}, "the output 7 of tool `get`"),
        ({"get": takes(3, None)}, "the output None of tool `get`"),
        ({"get": []}, "the list of outputs of `get` is empty"),
        ({"get": Suspend()}, "tool `get` can't suspend: its manifest has no `suspends: true`"),
        ({"pay": {1, 2}}, "the output {1, 2} of tool `pay` is not of its type: it is no value"),
    ],
)
def test_an_output_that_can_not_be_is_refused_at_once(tools: dict[str, Any], why: str) -> None:
    with pytest.raises(FakeError, match=why):
        bench(**tools)


@pytest.mark.parametrize(
    ("get", "why"),
    [
        (lambda id: {"total": None}, r"the output {'total': None} of tool `get` is not of its type"),
        (by_argument("id", {"B": {"total": 1}}), "`get` has no output for 'A' as `id`"),
    ],
)
def test_what_shows_in_a_call_alone_fails_the_test_although_the_machine_takes_it_for_a_failure(
    get: Any, why: str
) -> None:
    with pytest.raises(FakeError, match=why):
        bench(get=get).run({"id": "A"})
    tools = FakeTools(PROGRAM, {**FINE, "get": get})
    machine = ExecutionVM(tools, checker=None, clock=tools.clock, model=bench().model)
    assert machine.run_sync(PROGRAM, {"id": "A"}).status == "FAILED"
    with pytest.raises(FakeError, match=why):
        tools.check()


def test_a_tool_without_an_output_needs_one_unless_its_manifest_declares_none() -> None:
    stage = Bench(SHOP, {"get": {"total": 1}}, {"sure": ModelReply("yes")})
    with pytest.raises(FakeError, match="tool `ask` has no output: give one for `ask`, or for step `agree`"):
        stage.run({"id": "A"})


def test_time_passes_until_a_wait_is_over() -> None:
    steps = [{"id": "w", "type": "wait", "seconds": 864_000}, {"id": "done", "type": "end", "output": "late"}]
    bench = Bench({"name": "later", "language": 2, "inputs": {}, "steps": steps})
    run = bench.run(run_id="r")
    assert run.status == "SUSPENDED"
    assert bench.let_pass(run).output == "late"
    with pytest.raises(LookupError, match="run `r` does not wait for a time: it is SUCCESS"):
        bench.let_pass(bench.machine.get_sync("r"))


def test_a_script_for_a_step_that_asks_no_model_is_refused() -> None:
    with pytest.raises(FakeError, match="no step `sur` that asks a model: did you mean `sure`"):
        Bench(PROGRAM, FINE, {"sur": "yes"})
    with pytest.raises(FakeError, match="no step `order` that asks a model: it has `sure`"):
        Bench(PROGRAM, FINE, {"order": "yes"})
