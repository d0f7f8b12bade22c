"""Fast: the spans of a run, for every type of step and what can become of it; property: those of every example."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from machines import Bench, Late, ask, assign, both, check, end, program, tool
from replays import cut, good_programs, made
from spans import Seen, close_all, drawn
from stepward.vm import DeliveryRefused, InDoubt, ModelReply, NoSuchRun, Policy, Program, Suspend, trace_id_of
from stepward.vm.machine.history import fold, load
from stepward.vm.telemetry.ids import span_id_of

NO = ValueError("no")
GOOD = good_programs()


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    yield
    close_all()


def seen(*steps: dict[str, Any], tools: Any = None, model: Any = None, **more: Any) -> tuple[Bench, Seen, Any]:
    telemetry = Seen()
    bench = Bench(tools, model, observer=telemetry, retry_delay=lambda _: 0)
    return bench, telemetry, bench.run(program(*steps, **more))


def below(telemetry: Seen) -> list[str]:
    """Return the tree below the root."""
    return [line[2:] for line in telemetry.tree()[1:]]


# -- types of steps ----------------------------------------------------------------------------------------------------


def test_a_tool_step_is_a_span_with_a_span_for_its_call() -> None:
    _, telemetry, _ = seen(tool("a", is_terminal=True))
    assert telemetry.tree() == [
        "invoke_workflow bench SUCCESS",
        "  step a success",
        "    execute_tool read success",
    ]


def test_a_program_without_a_name_has_spans() -> None:
    telemetry = Seen()
    nameless = Program.from_dict({"inputs": {}, "steps": [end("a")]})
    Bench(observer=telemetry).run(nameless)
    assert telemetry.tree()[0] == "invoke_workflow unnamed SUCCESS"


def test_a_model_step_is_a_span_with_a_span_for_its_call() -> None:
    _, telemetry, _ = seen(ask("a", is_terminal=True), model={"a": ModelReply("yes", 7, 3, "some-model")})
    assert below(telemetry) == ["step a success", "  chat success"]
    call = next(span for span in telemetry.spans() if span.name == "chat")
    assert call.kind.name == "CLIENT"
    assert call.attributes is not None
    assert call.attributes["gen_ai.operation.name"] == "chat"
    assert call.attributes["gen_ai.response.model"] == "some-model"
    assert (call.attributes["stepward.tokens"], call.attributes["stepward.cost"]) == (7, 3.0)


def test_steps_without_calls_are_spans_too() -> None:
    _, telemetry, _ = seen(assign("a", v="1"), check("b", "$v == 1", "c", "c"), end("c"))
    assert below(telemetry) == ["step a success", "step b success", "step c success"]
    given = {span.name: span.attributes or {} for span in telemetry.spans()}
    assert given["step b"]["stepward.step.branch"] == "then"
    assert [given[f"step {name}"]["stepward.step.type"] for name in "abc"] == ["set", "condition", "end"]


def test_sub_steps_are_below_their_parallel_step() -> None:
    _, telemetry, _ = seen(both("a", tool("x"), ask("y"), is_terminal=True), model={"y": "hi"})
    assert below(telemetry) == [
        "step a success",
        "  step x success",
        "    execute_tool read success",
        "  step y success",
        "    chat success",
    ]


def test_rounds_of_a_parallel_step_are_below_one_visit() -> None:
    parts = (tool("x"), tool("y"))
    _, telemetry, _ = seen(
        both("a", *parts, on_error="retry", max_retries=2, is_terminal=True), tools={"y": [NO, "fine"]}
    )
    assert below(telemetry) == [
        "step a success",
        "  step x success",
        "    execute_tool read success",
        "  step y failed !failed",
        "    execute_tool read failed !failed",
        "  step y success",
        "    execute_tool read success",
    ]


def test_a_loop_has_a_span_for_each_visit() -> None:
    steps = [
        assign("zero", {"next_step": "add"}, n="0"),
        end("done"),
        assign("add", {"max_visits": 3, "next_step": "c"}, n="$n + 1"),
        check("c", "$n < 3", "add", "done"),
    ]
    _, telemetry, _ = seen(*steps)
    visits = [span.attributes["stepward.step.visit"] for span in telemetry.spans() if span.name == "step add"]  # type: ignore[index]
    assert visits == [1, 2, 3]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_every_attempt_is_a_span() -> None:
    _, telemetry, _ = seen(
        tool("a", "again", on_error="retry", max_retries=3, is_terminal=True), tools={"a": [NO, NO, "done"]}
    )
    assert below(telemetry) == [
        "step a success",
        "  execute_tool again again !failed",
        "  execute_tool again again !failed",
        "  execute_tool again success",
    ]
    keys = {
        span.attributes["gen_ai.tool.call.id"]  # type: ignore[index]
        for span in telemetry.spans()
        if span.name == "execute_tool again"
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("step", "tools", "lines", "root"),
    [
        (tool("a"), {"a": NO}, ["step a failed !failed", "  execute_tool read failed !failed"], "FAILED !error"),
        (
            tool("a", on_error="skip", is_terminal=True),
            {"a": NO},
            ["step a skipped !failed", "  execute_tool read skipped !failed"],
            "SUCCESS",
        ),
        (
            tool("a", args={"x": "$nobody.output"}),
            {},
            ["step a failed !blocked"],
            "FAILED !error",
        ),
        (
            tool("a", "write"),
            {"a": InDoubt("who knows")},
            ["step a doubt !in_doubt", "  execute_tool write doubt !in_doubt"],
            "IN_DOUBT !in_doubt",
        ),
        (
            ask("a", allowed_outputs=["yes", "no"]),
            {},
            ["step a failed !allowed_outputs", "  chat failed !allowed_outputs"],
            "FAILED !error",
        ),
    ],
)
def test_errors_have_a_kind(step: dict[str, Any], tools: Any, lines: list[str], root: str) -> None:
    _, telemetry, _ = seen(step, end("nobody"), tools=tools, model={"a": "perhaps"})
    assert telemetry.tree()[0] == f"invoke_workflow bench {root}"
    assert below(telemetry) == lines


def test_a_fallback_is_a_time_out_of_the_call_and_no_error_of_the_step() -> None:
    step = tool("a", timeout_seconds=1, on_timeout="fallback", fallback="none", is_terminal=True)
    _, telemetry, _ = seen(step, tools={"a": Late(2)})
    assert below(telemetry) == ["step a fallback", "  execute_tool read fallback !timeout"]


def test_a_rule_that_forbids_a_step_is_named() -> None:
    rule = {"name": "ask-first", "protects": {"tool": "write"}, "requires": {"tool": "read"}}
    _, telemetry, _ = seen(tool("a", "write"), end(), guardrails=[rule])
    assert telemetry.tree() == ["invoke_workflow bench FAILED !guardrail", "  step a failed !rejected"]
    given = next(span.attributes or {} for span in telemetry.spans() if span.name == "step a")
    assert given["stepward.rule"] == "ask-first"


def test_budgets_end_the_root() -> None:
    steps = (assign("a", v="1"), assign("b", v="2"), end("c"))
    _, telemetry, _ = seen(*steps, max_steps=2)
    assert telemetry.tree() == [
        "invoke_workflow bench BUDGET_EXCEEDED !max_steps",
        "  step a success",
        "  step b success",
    ]


# -- runs with several parts -------------------------------------------------------------------------------------------


def test_a_resumed_run_continues_its_trace() -> None:
    bench, telemetry, run = seen(
        tool("a", "ask", output_key="v"), end(), tools={"a": lambda: Suspend({"q": 1}), "read": "x"}
    )
    before = telemetry.tree()
    assert before == [
        "invoke_workflow bench SUSPENDED",
        "  step a suspended",
        "    execute_tool ask suspended",
    ]
    bench.clock.time += 10 * 86_400_000_000
    bench.resume(run, True)
    assert telemetry.tree() == [
        *before,
        "  invoke_workflow bench SUCCESS",
        "    step a success",
        "      resume a",
        "    step end success",
    ]
    spans = telemetry.spans()
    assert {span.context.trace_id for span in spans} == {trace_id_of("run")}
    assert max(span.end_time - span.start_time for span in spans) < 1e9, "no span is open while somebody thinks"  # type: ignore[operator]
    resumed = next(span for span in spans if span.name == "resume a")
    assert resumed.attributes is not None
    assert 864_000 <= resumed.attributes["stepward.waited"] < 864_001  # type: ignore[operator]
    first, second = (span for span in spans if span.name == "step a")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


def test_another_machine_continues_the_trace_without_repeating_a_span() -> None:
    bench, telemetry, run = seen(tool("a", "ask"), end(), tools={"a": lambda: Suspend({})})
    other = Seen()
    later = Bench(journal=bench.journal, observer=other)
    later.resume(run, None)
    assert other.flush()
    together = [*telemetry.spans(), *other.exporter.get_finished_spans()]
    exported = Seen()
    assert exported.export(bench.journal, "run") == len(together)
    assert exported.tree() == list(drawn(together))


def test_siblings_that_wait_end_the_part_when_nobody_works_any_more() -> None:
    parts = both("a", tool("x", "ask"), tool("y"), is_terminal=True)
    bench, telemetry, run = seen(parts, tools={"x": lambda: Suspend({})})
    bench.resume(run, 1)
    assert below(telemetry) == [
        "step a suspended",
        "  step x suspended",
        "    execute_tool ask suspended",
        "  step y success",
        "    execute_tool read success",
        "invoke_workflow bench SUCCESS",
        "  step a success",
        "    step x success",
        "      resume x",
    ]


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        ("done", ["  step a success", "    reconcile a"]),
        ("not_done", ["  step a success", "    reconcile a", "    execute_tool write success"]),
        ("abandon", ["  step a ended", "    reconcile a"]),
    ],
)
def test_a_verdict_on_a_doubt_is_shown(verdict: Any, lines: list[str]) -> None:
    bench, telemetry, _ = seen(tool("a", "write", is_terminal=True), tools={"a": [InDoubt("?"), "done"]})
    bench.vm.reconcile_sync("run", "a", verdict, "done" if verdict == "done" else None)
    status = "CANCELLED" if verdict == "abandon" else "SUCCESS"
    assert below(telemetry)[2:] == [f"invoke_workflow bench {status}", *lines]


def test_deliveries_that_change_nothing_are_shown() -> None:
    bench, telemetry, run = seen(tool("a", "ask"), end(), tools={"a": lambda: Suspend({})})
    with pytest.raises(DeliveryRefused):
        bench.vm.resume_sync(f"{run.suspensions[0].token}0")
    bench.vm.cancel_sync("run", by="ann")
    assert below(telemetry)[2:] == ["delivery refused", "cancel requested", "invoke_workflow bench CANCELLED"]
    assert "ann" not in telemetry.texts()


def test_a_call_that_suspends_when_the_run_is_cancelled_ends_no_part() -> None:
    def cancelled() -> Suspend:
        thread = threading.Thread(target=lambda: other.vm.cancel_sync("run"))
        thread.start()
        thread.join()
        return Suspend({})

    telemetry = Seen()
    bench = Bench({"a": cancelled}, observer=telemetry)
    other = Bench(journal=bench.journal)
    assert bench.run(program(tool("a", "ask"), end())).status == "CANCELLED"
    assert telemetry.tree() == [
        "invoke_workflow bench CANCELLED",
        "  step a ended",
        "    execute_tool ask suspended",
    ]


def test_further_policies_are_shown() -> None:
    bench, telemetry, run = seen(tool("a", "ask"), end(), tools={"a": lambda: Suspend({})})
    rule = {"name": "once", "at_most_once": {"tool": "write"}}
    policy = Policy.from_dict({"policy": "later", "guardrails": [rule]})
    later = Bench(journal=bench.journal, observer=telemetry, policy=policy)
    later.resume(run, 1)
    assert "policies added" in [line.strip() for line in telemetry.tree()]


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_a_crash_leaves_a_call_in_doubt_and_the_next_machine_ends_the_root() -> None:
    bench, _, _ = seen(tool("a"), tool("b", "write"), end())
    broken = cut(bench.journal, "run", 3)
    telemetry = Seen()
    later = Bench(journal=broken, observer=telemetry)
    assert later.vm.recover_sync("run")[0].status == "IN_DOUBT"
    assert telemetry.flush()
    names = [span.name for span in telemetry.exporter.get_finished_spans()]
    assert sorted(names) == ["execute_tool write", "invoke_workflow bench", "step b"], "the others were sent before"
    whole = Seen()
    whole.export(broken, "run")
    assert whole.tree() == [
        "invoke_workflow bench IN_DOUBT !in_doubt",
        "  step a success",
        "    execute_tool read success",
        "  step b doubt !in_doubt",
        "    execute_tool write doubt !in_doubt",
    ]


# -- the same spans each time ------------------------------------------------------------------------------------------


def test_ids_come_from_the_run_and_the_record_alone() -> None:
    assert format(trace_id_of("run-1"), "032x") == TRACE_OF_RUN_1
    assert trace_id_of("run-1") != trace_id_of("run-2")
    assert len({span_id_of("run-1", record, what) for record in range(50) for what in ("run", "step a")}) == 100


TRACE_OF_RUN_1 = "a16b286a595fc15f5737499bd9fd3af4"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", GOOD)
def test_the_spans_of_an_example_program_are_whole_and_the_same_when_exported(name: str) -> None:
    telemetry, exported = Seen(), Seen()
    bench = Bench(observer=telemetry)
    made(GOOD[name], "b", bench, "run")
    exported.export(bench.journal, "run")
    assert sorted(map(_told, telemetry.spans())) == sorted(map(_told, exported.spans()))
    assert _parts(exported) == _stops(bench), "a part ends where the machine stops"


def _told(span: Any) -> str:
    return str(span.to_json())


def _parts(telemetry: Seen) -> list[tuple[int, str]]:
    """Return the records that end the parts of a run, and its status there, as the spans say."""
    given = [span.attributes or {} for span in telemetry.spans() if span.name.startswith("invoke_workflow")]
    return [(one["stepward.record"], one["stepward.run.status"]) for one in given]  # type: ignore[misc]


def _stops(bench: Bench) -> list[tuple[int, str]]:
    """Return the same as the machine's own fold of the journal says."""
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    statuses = [fold(found.plan, found.events[: length + 1]).status for length in range(len(found.events))]
    pairs = zip(statuses, ["RUNNING", *statuses], strict=False)
    return [(seq, now) for seq, (now, before) in enumerate(pairs) if before == "RUNNING" != now]


def test_a_run_that_is_not_there_can_not_be_exported() -> None:
    with pytest.raises(NoSuchRun):
        Seen().export(Bench().journal, "run")


def test_attempts_last_as_long_as_their_records_say() -> None:
    _, telemetry, _ = seen(tool("a", is_terminal=True), tools={"a": Late(2.5, "x")})
    call = next(span for span in telemetry.spans() if span.name == "execute_tool read")
    assert 2.5e9 <= call.end_time - call.start_time < 2.501e9, "nanoseconds by the clock of the bench"  # type: ignore[operator]
