"""Fast: runs that wait for somebody: tokens, deliveries, payloads, what survives a suspension, cancelling."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from machines import TOOLS, Bench, ask, assign, both, check, end, program, tool, unchecked
from stepward.vm import (
    DeliveryRefused,
    MemoryJournal,
    ModelReply,
    NoSuchRun,
    RunRefused,
    SQLiteJournal,
    Suspend,
)
from stepward.vm.machine.clock import ManualClock

WAITS = program(tool("a", "ask", output_key="v"), tool("b", "write", args={"x": "$v"}), end(output=["$v", "$a.output"]))


def waiting(bench: Bench, run_id: str = "run", made: Any = WAITS) -> str:
    run = bench.run(made, run_id)
    assert run.status == "SUSPENDED"
    return str(run.suspensions[0].token)


def refused(bench: Bench, token: str, payload: Any = "yes") -> None:
    """Hold that a delivery is refused, and that nothing has happened."""
    before = {row.run: bench.vm.get_sync(row.run) for row in bench.journal.rows()}
    with pytest.raises(DeliveryRefused):
        bench.vm.resume_sync(token, payload)
    for name, was in before.items():
        now = bench.vm.get_sync(name)
        assert (now.status, now.steps, now.trace_hash) == (was.status, was.steps, was.trace_hash)


# -- suspending and resuming -------------------------------------------------------------------------------------------


def test_a_tool_suspends_and_the_payload_is_its_output() -> None:
    bench = Bench({"a": Suspend({"who": "a manager", "n": [1.0, 2]})})
    run = bench.run(WAITS)
    held = run.suspensions[0]
    assert (run.status, run.is_over, run.step, held.step) == ("SUSPENDED", False, "a", "a")
    assert held.request == {"who": "a manager", "n": (1, 2)}
    run = bench.resume(run, {"n": 1.50})
    assert run.status == "SUCCESS"
    assert run.suspensions == ()
    assert [str(said["n"]) for said in run.output] == ["1.5", "1.5"]
    assert bench.tools.steps() == ["a", "b"], "what suspended is not called again"


def test_a_branch_goes_on_where_it_was_after_a_resume() -> None:
    steps = [
        tool("first", "write"),
        check("outer", "true", "inner"),
        check("inner", "$first.output == 'done'", "wait", "other"),
        tool("wait", "ask", next_step="more"),
        tool("more", "write", next_step="last"),
        end("other"),
        end("last", output="$wait.output"),
    ]
    bench = Bench({"wait": Suspend()})
    run = bench.resume(bench.run(program(*steps)), "yes")
    assert (run.status, run.output) == ("SUCCESS", "yes")
    assert bench.tools.steps() == ["first", "wait", "more"]


@pytest.mark.parametrize(
    "said",
    [
        "SUSPEND",
        "__suspend__",
        "suspend",
        "Suspend(request=None)",
        {"suspend": True},
        ["Suspend", None],
        {"request": None},
        None,
    ],
)
def test_no_word_suspends_a_run(said: Any) -> None:
    bench = Bench({"a": said, "b": said}, model={"l": said if isinstance(said, str) else json.dumps(said)})
    run = bench.run(program(tool("a", "ask"), tool("b"), ask("l"), end(output="$a.output")))
    assert run.status == "SUCCESS"


def test_a_tool_whose_manifest_does_not_say_so_can_not_suspend() -> None:
    assert Bench({"a": Suspend()}).run(program(tool("a"))).status == "FAILED"
    assert Bench({"a": Suspend()}).run(program(tool("a", "again"))).status == "IN_DOUBT"


def test_only_the_type_suspends_and_not_the_class_or_a_look_alike() -> None:
    class LookAlike(tuple):
        request = None

    for said in (Suspend, LookAlike()):
        bench = Bench()
        bench.vm = unchecked({"ask": lambda said=said: said}, journal=bench.journal, clock=bench.clock)
        assert bench.run(program(tool("a", "ask"))).status in ("SUCCESS", "FAILED")


def test_a_request_that_is_no_value_is_not_kept_and_the_run_waits_all_the_same() -> None:
    for request in (object(), float("nan"), "\ud800"):
        bench = Bench({"a": Suspend(request)})
        run = bench.run(WAITS)
        assert run.status == "SUSPENDED"
        assert "can't be kept" in run.suspensions[0].request
        assert bench.resume(run, 1).status == "SUCCESS"


@pytest.mark.parametrize("request_", [None, 0, "", False, [], {}])
def test_a_request_may_be_any_value(request_: Any) -> None:
    held = Bench({"a": Suspend(request_)}).run(WAITS).suspensions[0].request
    assert held == (() if request_ == [] else request_)
    assert isinstance(held, bool) == isinstance(request_, bool)


def test_the_tool_gets_the_token_that_resumes_it() -> None:
    bench = Bench({"a": Suspend()})
    token = waiting(bench)
    assert bench.tools.asked[0].token == token
    assert bench.tools.asked[0].key not in token
    assert bench.vm.get_sync("run").suspensions[0].token == token


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_token_is_accepted_once() -> None:
    bench = Bench({"a": Suspend()})
    token = waiting(bench)
    assert bench.vm.resume_sync(token, 1).status == "SUCCESS"
    for payload in (1, 2, None):
        refused(bench, token, payload)
    assert bench.kinds().count("refused") == 3
    assert bench.kinds().count("resumed") == 1


@pytest.mark.parametrize("store", ["memory", "file"])
def test_twenty_deliveries_at_once_are_one(store: str, tmp_path: Any) -> None:
    journal = MemoryJournal() if store == "memory" else SQLiteJournal(tmp_path / "runs.db")
    bench = Bench({"a": Suspend()}, journal=journal)
    token = waiting(bench)

    async def deliver() -> list[Any]:
        machines = [bench.vm, unchecked(bench.tools, journal=journal, clock=bench.clock)]
        given = [machines[number % 2].resume(token, number) for number in range(20)]
        return await asyncio.gather(*given, return_exceptions=True)

    answers = asyncio.run(deliver())
    accepted = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(accepted) == 1
    assert all(isinstance(answer, DeliveryRefused) for answer in answers if answer not in accepted)
    assert accepted[0].status == "SUCCESS"
    assert bench.tools.steps() == ["a", "b"]
    assert bench.vm.get_sync("run").output == accepted[0].output


def test_a_token_is_bound_to_its_run_step_visit_and_program() -> None:
    bench = Bench({"ask": Suspend()})
    one = waiting(bench, "one")
    two = waiting(bench, "two")
    other = waiting(bench, "other", program(tool("a", "ask"), name="another"))
    for run, token in (("one", two), ("two", one), ("one", other), ("other", one)):
        refused(bench, f"{run}.{token.rpartition('.')[2]}")
    loop = program(tool("a", "ask", next_step="c"), check("c", "true", "a"), max_steps=50)
    first = bench.run(loop, "loop")
    second = bench.resume(first, 1)
    assert second.status == "SUSPENDED"
    assert second.suspensions[0].token != first.suspensions[0].token
    refused(bench, first.suspensions[0].token)
    twins = bench.run(program(both("p", tool("a", "ask"), tool("b", "ask"))), "twins")
    tokens = [held.token for held in twins.suspensions]
    bench.vm.resume_sync(tokens[0], "A")
    refused(bench, tokens[0])
    assert bench.vm.resume_sync(tokens[1], "B").view("trace")["p.output"] == {"a": "A", "b": "B"}


def test_a_token_of_another_step_of_the_same_run_does_not_resume_this_one() -> None:
    bench = Bench({"ask": Suspend()})
    run = bench.run(program(tool("a", "ask"), tool("b", "ask")))
    first = run.suspensions[0].token
    run = bench.resume(run, 1)
    assert run.step == "b"
    refused(bench, first)
    assert bench.resume(run, 2).status == "SUCCESS"


@pytest.mark.parametrize(
    "edit",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.swapcase(),
        lambda token: token.replace("run.", "run.."),
        lambda token: " " + token,
        lambda token: token.partition(".")[2],
        lambda token: "",
        lambda token: ".",
        lambda token: "run.",
        lambda token: "\ud800." + token,
        lambda token: "x" * 10_000 + "." + token,
    ],
)
@pytest.mark.parametrize("store", ["memory", "file"])
def test_an_edited_token_is_refused(edit: Any, store: str, tmp_path: Any) -> None:
    bench = Bench({"a": Suspend()}, journal=None if store == "memory" else SQLiteJournal(tmp_path / "runs.db"))
    token = waiting(bench)
    refused(bench, edit(token))
    assert bench.vm.resume_sync(token, 1).status == "SUCCESS"


def test_a_machine_without_the_run_refuses_its_token() -> None:
    token = waiting(Bench({"a": Suspend()}))
    refused(Bench(), token)


def test_the_journal_does_not_hold_the_token() -> None:
    bench = Bench({"a": Suspend()})
    secret = waiting(bench).rpartition(".")[2]
    assert not any(secret.encode() in entry.record for entry in bench.journal.read("run"))
    assert secret not in bench.vm.get_sync("run").snapshot().decode()


def test_refused_deliveries_do_not_fill_the_journal() -> None:
    bench = Bench({"a": Suspend()})
    token = waiting(bench)
    for _ in range(130):
        with pytest.raises(DeliveryRefused):
            bench.vm.resume_sync("run.guess", 1)
    assert bench.kinds().count("refused") == 100
    assert bench.vm.resume_sync(token, 1).status == "SUCCESS"


# -- payloads ----------------------------------------------------------------------------------------------------------

TYPED = {**TOOLS, "ask": {"effect": "none", "suspends": True, "returns": {"type": "object", "required": ["ok"]}}}


@pytest.mark.parametrize(
    "payload", [None, "yes", [], {}, {"no": 1}, {"ok": float("nan")}, {"ok": object()}, {1: 2}, Suspend()]
)
def test_an_ill_typed_payload_leaves_the_run_suspended_and_the_token_good(payload: Any) -> None:
    bench = Bench({"a": Suspend()})
    made = program(tool("a", "ask"), end(output="$a.output.ok"), tools=TYPED)
    token = waiting(bench, made=made)
    refused(bench, token, payload)
    assert bench.vm.get_sync("run").status == "SUSPENDED"
    assert bench.kinds().count("refused") == 1
    assert bench.vm.resume_sync(token, {"ok": True}).output is True


def test_a_payload_has_the_limits_of_an_output() -> None:
    from stepward.vm import Limits

    bench = Bench({"a": Suspend()}, limits=Limits(output_bytes=1000))
    token = waiting(bench)
    with pytest.raises(DeliveryRefused, match="5002"):
        bench.vm.resume_sync(token, "x" * 5000)
    assert bench.vm.resume_sync(token, "x" * 500).status == "SUCCESS"


def test_a_caller_can_not_change_what_was_delivered() -> None:
    bench = Bench({"a": Suspend()})
    payload: dict[str, Any] = {"list": [1]}
    run = bench.vm.resume_sync(waiting(bench), payload)
    payload["list"].append(2)
    payload["more"] = 1
    assert run.output[0] == bench.vm.get_sync("run").output[0] == {"list": (1,)}


# -- what survives -----------------------------------------------------------------------------------------------------


def test_budgets_survive_a_suspension() -> None:
    steps = [ask("l"), tool("a", "ask"), ask("m"), tool("b"), end()]
    said = {"l": ModelReply("x", 5), "m": ModelReply("x", 5)}
    bench = Bench({"a": Suspend()}, said)
    run = bench.run(program(*steps, max_steps=4))
    assert (run.steps, run.tokens) == (2, 5)
    run = bench.resume(run, 1)
    assert (run.status, run.steps, run.tokens) == ("BUDGET_EXCEEDED", 4, 10)
    bench = Bench({"a": Suspend()}, said)
    assert bench.resume(bench.run(program(*steps, max_tokens=5)), 1).reason == "max_tokens"
    loop = program(tool("a", "ask", max_visits=3, next_step="c"), check("c", "true", "a"))
    bench = Bench({"a": Suspend()})
    run = bench.run(loop)
    for number in range(3):
        assert run.status == "SUSPENDED", number
        run = bench.resume(run, number)
    assert (run.status, run.reason) == ("STALLED", "visits")


def test_rules_and_values_survive_a_suspension_into_another_machine(tmp_path: Any) -> None:
    rule = {"name": "once", "at_most_once": {"tool": "write"}}
    steps = [assign("s", v="0.1 + 0.2"), tool("b", "write"), tool("a", "ask"), end("e", "$v"), tool("c", "write")]
    made = program(*steps[:3], check("which", "$a.output == 'stop'", "e", "c"), *steps[3:], guardrails=[rule])
    bench = Bench({"a": Suspend()}, journal=SQLiteJournal(tmp_path / "runs.db"))
    for name, payload, reason in (("one", "stop", "declared"), ("two", "pay", "guardrail")):
        token = waiting(bench, name, made)
        other = Bench(journal=SQLiteJournal(tmp_path / "runs.db"))
        run = other.checked(other.vm.resume_sync(token, payload))
        assert run.reason == reason
        assert other.tools.asked == []
    assert str(bench.vm.get_sync("one").output) == "0.3"


def test_a_suspended_run_is_the_same_run_for_whoever_asks() -> None:
    bench = Bench({"a": Suspend()})
    run = bench.run(WAITS)
    again = bench.run(WAITS)
    assert (again.status, again.suspensions) == ("SUSPENDED", run.suspensions)
    assert bench.vm.recover_sync("run")[0].status == "SUSPENDED"
    assert bench.vm.recover_sync() == []
    assert bench.tools.steps() == ["a"]


# -- cancelling --------------------------------------------------------------------------------------------------------


def test_cancelling_a_suspended_run_ends_it_and_its_tokens() -> None:
    bench = Bench({"a": Suspend()})
    token = waiting(bench)
    run = bench.checked(bench.vm.cancel_sync("run"))
    assert (run.status, run.reason, run.suspensions) == ("CANCELLED", "cancelled", ())
    refused(bench, token)
    assert bench.vm.cancel_sync("run").status == "CANCELLED"
    assert bench.tools.steps() == ["a"]


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED"])
def test_an_ended_run_stays_as_it_ended(status: str) -> None:
    bench = Bench({"b": ValueError() if status == "FAILED" else 1})
    bench.run(program(tool("b")))
    records = len(bench.journal.read("run"))
    assert bench.vm.cancel_sync("run").status == status
    assert bench.vm.recover_sync("run")[0].status == status
    assert len(bench.journal.read("run")) == records


def test_cancelling_finishes_what_is_under_way_and_starts_nothing_more() -> None:
    bench = Bench()

    async def both_at_once() -> Any:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def write() -> str:
            started.set()
            await go_on.wait()
            return "paid"

        machine = unchecked({"write": write}, journal=bench.journal, clock=ManualClock())
        running = asyncio.ensure_future(machine.run(program(tool("a", "write"), tool("b", "write")), run_id="run"))
        await started.wait()
        seen = await unchecked(journal=bench.journal, clock=ManualClock()).cancel("run")
        assert seen.status == "RUNNING"
        go_on.set()
        return await running

    run = asyncio.run(both_at_once())
    assert (run.status, run.reason) == ("CANCELLED", "cancelled")
    assert [(body["step"], body["output"]) for body in bench.bodies("attempt")] == [("a", "paid")]
    assert "in_doubt" not in bench.bodies("ended")[0]


def test_what_does_not_exist_can_not_be_cancelled_or_read() -> None:
    bench = Bench()
    for name in ("none", "", "\ud800", "x" * 300, "a\nb"):
        for call in (bench.vm.cancel_sync, bench.vm.get_sync, bench.vm.recover_sync, bench.vm.erase_sync):
            with pytest.raises(NoSuchRun):
                call(name)
        with pytest.raises(RunRefused if name != "none" else NoSuchRun):
            bench.run(WAITS, name) if name != "none" else bench.vm.reconcile_sync(name, "a", "done")


# -- one id, one run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["memory", "file"])
def test_twenty_callers_of_one_id_make_one_run(store: str, tmp_path: Any) -> None:
    journal = MemoryJournal() if store == "memory" else SQLiteJournal(tmp_path / "runs.db")
    bench = Bench(journal=journal)
    made = program(tool("a", "write"), tool("b", "write"))

    async def call() -> list[Any]:
        return await asyncio.gather(*(bench.vm.run(made, run_id="run") for _ in range(20)))

    runs = asyncio.run(call())
    assert bench.tools.steps() == ["a", "b"]
    assert {run.id for run in runs} == {"run"}
    assert bench.run(made).status == "SUCCESS"


def test_an_id_is_refused_for_anything_else() -> None:
    from stepward.vm import Policy

    bench = Bench()
    made = program(tool("a"), end(output="$x"), inputs={"x": {"type": "number"}})
    bench.run(made, x=1)
    assert bench.run(made, x=1.0).output == 1
    for other, given in ((made, {"x": 2}), (program(tool("a"), inputs={"x": {"type": "number"}}), {"x": 1})):
        with pytest.raises(RunRefused, match="exists"):
            bench.run(other, **given)
    strict = unchecked(bench.tools, journal=bench.journal, policy=Policy.from_dict({"policy": "p"}), clock=bench.clock)
    with pytest.raises(RunRefused, match="polic"):
        strict.run_sync(made, {"x": 1}, run_id="run")
    assert len(bench.tools.asked) == 1


@pytest.mark.parametrize("token", [None, 5, b"run.secret", ["run.secret"], {"token": "run.secret"}])
def test_what_is_no_text_is_no_token(token: Any) -> None:
    with pytest.raises(DeliveryRefused, match="this is no resume token"):
        Bench().vm.resume_sync(token)
