"""The time that a run may take: who ends the run then, what a replay accepts, and what a continuation gets."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from machines import Bench, end, program
from machines import tool as step_of
from sizes import size
from stepward.vm import ExecutionVM, InDoubt, Program, ProgramError, Run, RunRefused, Suspend
from stepward.vm.machine.events import Event
from stepward.vm.machine.history import History, load
from stepward.vm.machine.replay import misfits, replay
from stepward.vm.machine.worker import Pace, Worker

SECOND = 1_000_000
DAY = 86_400


def wait(name: str = "w", /, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "wait", **more}


def tool(name: str, tool: str = "", /, **more: Any) -> dict[str, Any]:
    return step_of(name, tool or name, **more)


def limited(seconds: Any, *steps: dict[str, Any], **more: Any) -> Program:
    return program(*steps, language=2, timeout_seconds=seconds, **more)


def history(bench: Bench, run: str = "run") -> History:
    found = load(bench.journal, run, bench.stored)
    assert found is not None
    return found


def slow(bench: Bench, seconds: float, output: Any = None) -> Any:
    """Return a tool that takes some seconds by the clock of a bench."""

    def call(**_: Any) -> Any:
        bench.clock.time += int(seconds * SECOND)
        if isinstance(output, Exception):
            raise output
        return output

    return call


def machine(bench: Bench, **tools: Any) -> ExecutionVM:
    return ExecutionVM(tools, None, bench.journal, checker=None, clock=bench.clock)


def ending(run: Run) -> tuple[str, str]:
    return run.status, run.reason


OVER = ("BUDGET_EXCEEDED", "time")


# -- when it is over ---------------------------------------------------------------------------------------------------


def test_a_run_ends_at_the_next_step_once_its_time_is_over() -> None:
    bench = Bench()
    vm = machine(bench, a=slow(bench, 4), b=slow(bench, 4), c=slow(bench, 4))
    run = vm.run_sync(limited(7.5, tool("a"), tool("b"), tool("c"), end()), run_id="run")
    assert ending(run) == OVER
    records = history(bench).records
    assert [record.body["step"] for record in records if record.kind == "attempt"] == ["a", "b"]
    start, last = records[0], records[-1]
    assert start.note["due"] == start.at + 7_500_000
    assert last.kind == "ended"
    assert start.note["due"] <= last.note["time"] <= last.at
    assert misfits(history(bench)) == []


def test_a_run_that_is_done_in_time_ends_as_its_program_says() -> None:
    bench = Bench()
    run = machine(bench, a=slow(bench, 4)).run_sync(limited(5, tool("a"), end()), run_id="run")
    assert ending(run) == ("SUCCESS", "declared")


def test_calls_under_way_come_back_and_are_recorded_first() -> None:
    bench = Bench()
    both = {"id": "p", "type": "parallel", "parallel_steps": [tool("a"), tool("b")]}
    run = machine(bench, a=slow(bench, 9), b=slow(bench, 9)).run_sync(limited(10, both, end()), run_id="run")
    assert ending(run) == OVER
    assert [one.kind for one in history(bench).records].count("attempt") == 2


@pytest.mark.parametrize(
    "retry", [{"max_retries": 3}, {"retry": [{"errors": ["any"], "max_attempts": 3, "delay_seconds": 50}]}]
)
def test_a_delay_before_an_attempt_ends_when_the_time_is_over(retry: dict[str, Any]) -> None:
    bench = Bench()
    again = {**tool("a"), **retry, **({"on_error": "retry"} if "max_retries" in retry else {})}
    vm = ExecutionVM(
        {"a": slow(bench, 1, RuntimeError("no"))}, None, bench.journal, checker=None, clock=bench.clock,
        retry_delay=lambda _: 50.0,
    )  # fmt: skip
    began = bench.clock.time
    run = vm.run_sync(limited(20, again, end(), tools={"a": {"effect": "read"}}), run_id="run")
    assert ending(run) == OVER
    assert bench.clock.time - began - 20 * SECOND < SECOND
    assert [one.kind for one in history(bench).records].count("attempt") == 1


def test_time_that_a_run_waits_counts_and_the_wait_ends_with_it() -> None:
    bench = Bench()
    run = bench.run(limited(DAY, wait(seconds=5 * DAY), step_of("r", "write"), end()))
    assert (run.status, run.due) == ("SUSPENDED", history(bench).records[0].at / SECOND + DAY)
    bench.clock.time += (DAY - 1) * SECOND
    assert bench.vm.recover_all_sync() == ([], {})
    bench.clock.time += SECOND
    recovered, _ = bench.vm.recover_all_sync()
    assert [ending(run) for run in recovered] == [OVER]
    assert misfits(history(bench)) == []


def test_a_worker_ends_a_suspended_run_when_its_time_is_over() -> None:
    bench = Bench()
    made = limited(DAY, tool("ask"), end(), tools={"ask": {"effect": "read", "suspends": True}})
    vm = machine(bench, ask=lambda: Suspend("may it?"))
    assert vm.run_sync(made, run_id="run").status == "SUSPENDED"
    bench.clock.time += DAY * SECOND + 1
    programs = {"bench": frozenset({history(bench).plan.digest})}
    said: list[str] = []
    asyncio.run(
        Worker(vm, programs, lambda event, _: said.append(event), Pace(poll=0.01)).work(asyncio.Event(), once=True)
    )
    assert ending(vm.get_sync("run")) == OVER


def test_an_effect_that_may_have_happened_is_named() -> None:
    bench = Bench()
    made = limited(DAY, tool("pay"), end(), tools={"pay": {"effect": "write", "idempotent": False}})
    vm = machine(bench, pay=slow(bench, 1, InDoubt("who knows")))
    assert vm.run_sync(made, run_id="run").status == "IN_DOUBT"
    bench.clock.time += DAY * SECOND
    (run,), _ = vm.recover_all_sync()
    assert ending(run) == OVER
    assert history(bench).records[-1].body["in_doubt"] == ["pay"]


def test_an_answer_that_comes_too_late_is_recorded_and_the_run_ends() -> None:
    bench = Bench()
    made = limited(DAY, tool("ask"), tool("a"), end(), tools={"ask": {"effect": "read", "suspends": True}})
    vm = machine(bench, ask=lambda: Suspend("may it?"), a=lambda: 1)
    token = vm.run_sync(made, run_id="run").suspensions[0].token
    bench.clock.time += DAY * SECOND
    assert ending(vm.resume_sync(token, "yes")) == OVER
    assert [one.kind for one in history(bench).records][-2:] == ["resumed", "ended"]
    assert misfits(history(bench)) == []


def test_a_request_to_cancel_comes_before_the_end_of_the_time() -> None:
    bench = Bench()
    bench.run(limited(DAY, wait(seconds=5 * DAY), end()))
    bench.clock.time += 2 * DAY * SECOND
    assert ending(bench.vm.cancel_sync("run")) == ("CANCELLED", "cancelled")


def test_branches_end_with_the_run() -> None:
    bench = Bench()
    fork = {"id": "f", "type": "parallel", "branches": {
        "x": {"steps": [wait("wx", seconds=DAY), step_of("r", "write")]}, "y": {"steps": [wait("wy", seconds=9 * DAY)]},
    }}  # fmt: skip
    bench.run(limited(2 * DAY, fork, end()))
    bench.clock.time += DAY * SECOND
    bench.vm.recover_all_sync()
    assert bench.tools.steps() == ["r"]
    bench.clock.time += DAY * SECOND + 1
    (run,), _ = bench.vm.recover_all_sync()
    assert ending(run) == OVER
    assert misfits(history(bench)) == []


def test_only_the_records_with_a_time_limit_have_the_later_version() -> None:
    bench = Bench()
    bench.run(limited(1, wait(seconds=5), step_of("r", "write"), end()))
    bench.clock.time += 3 * SECOND
    bench.vm.recover_all_sync()
    versions = {json.loads(one.record)["kind"]: json.loads(one.record)["v"] for one in bench.journal.read("run")}
    assert versions == {"started": 8, "waiting": 7, "ended": 8}


# -- what a replay accepts ---------------------------------------------------------------------------------------------


def forged(bench: Bench, number: int, **note: Any) -> list[str]:
    """Return the faults of a run with other fields in one note."""
    found = history(bench)
    events = list(found.events)
    old = events[number]
    events[number] = Event(
        old.kind, old.body, {name: value for name, value in {**old.note, **note}.items() if value}, old.text
    )
    return [fault.what for fault in misfits(found._replace(events=tuple(events)))]


def test_a_replay_refuses_another_end_of_the_time() -> None:
    bench = Bench()
    bench.run(limited(DAY, wait(seconds=5 * DAY), end()))
    bench.clock.time += DAY * SECOND
    bench.vm.recover_all_sync()
    due = history(bench).records[0].note["due"]
    assert forged(bench, 0, due=due + 1) == ["record 0: its time is not over when its program says"]
    assert forged(bench, 0, due=None) == ["record 0: its time is not over when its program says"]
    assert forged(bench, 2, time=due) == []
    assert forged(bench, 2, time=due - 1) == ["record 2: the time of the run was not over"]
    assert "record 2" in forged(bench, 2, time=None)[0]


def test_a_run_without_a_limit_has_no_end_of_its_time() -> None:
    bench = Bench()
    bench.run(program(wait(seconds=5), end(), language=2))
    assert forged(bench, 0, due=5) == ["record 0: its time is not over when its program says"]


# -- continuations -----------------------------------------------------------------------------------------------------


def stopped(bench: Bench, seconds: Any, *, took: float = 4) -> ExecutionVM:
    """Return a machine with a run that has used up its steps."""
    vm = machine(bench, a=slow(bench, took))
    assert vm.run_sync(limited(seconds, tool("a"), end(), max_steps=1), run_id="run").reason == "max_steps"
    bench.clock.time += 9 * DAY * SECOND  # nobody drives it: that does not count
    return vm


def lasts(bench: Bench, run: str) -> Decimal:
    records = history(bench, run).records
    return round(Decimal(records[0].note["due"] - records[0].at) / SECOND, 3)  # each look at the clock takes some time


@pytest.mark.parametrize(("own", "granted", "due"), [
    (None, {}, "6"), (100, {}, "6"), (2, {}, "2"), (100, {"time": 1}, "7"), (100, {"time": 0.25}, "6.25"),
])  # fmt: skip
def test_a_continuation_has_what_is_left_and_was_granted(own: Any, granted: dict[str, Any], due: str) -> None:
    bench = Bench()
    vm = stopped(bench, 10)
    more = {} if own is None else {"timeout_seconds": own}
    made = program(wait(seconds=DAY), end(), language=2, **more)
    run = vm.continue_run_sync("run", made, grant={"steps": 9, **granted})
    assert lasts(bench, run.id) == Decimal(due)
    replayed = replay(bench.journal, run.id)
    assert replayed is not None
    assert replayed.faults == ()


def test_without_time_left_only_the_operator_lets_a_run_go_on() -> None:
    bench = Bench()
    vm = machine(bench, a=slow(bench, 12))
    assert ending(vm.run_sync(limited(10, tool("a"), end()), run_id="run")) == OVER
    made = program(wait(seconds=1), end(), language=2)
    with pytest.raises(RunRefused, match="no time is left of `timeout_seconds`: the operator may grant more"):
        vm.continue_run_sync("run", made)
    run = vm.continue_run_sync("run", made, grant={"time": 5})
    assert lasts(bench, run.id) == 3  # the run before has taken two seconds too many


def test_chains_never_go_on_beyond_their_time() -> None:
    for seed in range(size(15, 500)):
        chance, bench = Random(f"chain {seed}"), Bench()
        most = chance.choice([5, 30, 100, 1000.5])
        allowed = Decimal(str(most))
        vm = machine(bench, a=slow(bench, chance.choice([0.5, 3, 20])))
        steps = [tool(f"a{n}", "a") for n in range(6)]
        vm.run_sync(limited(most, *steps, end(), max_steps=chance.randint(1, 5)), run_id="run")
        for number in range(3):
            name = "run" if not number else f"run~{number}"
            bench.clock.time += chance.choice([0, 1, DAY]) * SECOND
            granted = chance.choice([0, 0, 2, 50])
            stated = chance.choice([{}, {"timeout_seconds": chance.choice([1, 40, 10_000])}])
            again = [tool(f"b{number}{n}", "a") for n in range(4)]
            calm = [wait(f"w{number}", seconds=chance.choice([0, 10, DAY])), *again]
            grant = {"steps": 20} | ({"time": granted} if granted else {})
            try:
                run = vm.continue_run_sync(
                    name, program(*calm, end(), language=2, max_steps=chance.randint(2, 9), **stated), grant=grant
                )
            except RunRefused:
                break
            allowed += granted
            while not run.is_over:
                assert run.due is not None
                bench.clock.time = max(bench.clock.time, int(run.due * SECOND) + 1)
                run = vm.recover_sync(run.id)[0]
        spent = Decimal(0)
        for number in range(4):
            name = "run" if not number else f"run~{number}"
            found = load(bench.journal, name, bench.stored)
            if found is None:
                break
            records = found.records
            # Up to the last start of a call: what is under way comes back.
            starts = [one.at for one in records if one.kind in ("intent", "waited")]
            last = max([*starts, records[0].at])
            assert spent + Decimal(last - records[0].at) / SECOND <= allowed, seed
            spent += Decimal(records[-1].at - records[0].at) / SECOND


# -- the loader --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "says"), [
    (0, "must be more than 0"), (-1, "must be more than 0"), ("soon", "must be a number"),
    (315_360_001, "less than or equal to 315360000"),
])  # fmt: skip
def test_the_loader_refuses_what_is_no_time_limit(value: Any, says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        limited(value, end())


def test_a_time_limit_needs_language_2() -> None:
    with pytest.raises(ProgramError, match="`timeout_seconds` of a program needs language 2"):
        program(end(), timeout_seconds=5)
