"""Wait steps on the machine: when a wait is over, who ends it, what a replay accepts, and waits beside other calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from machines import Bench, assign, end, program, tool
from stepward.vm import ExecutionVM, InDoubt, MemoryJournal, Program, ProgramError, Run, RunRefused, Suspend
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.events import Event
from stepward.vm.machine.history import History, load
from stepward.vm.machine.replay import misfits
from stepward.vm.machine.worker import Pace, Worker

DAY = 86_400
SECOND = 1_000_000


def wait(name: str = "w", /, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "wait", **more}


def timed(*steps: dict[str, Any], **more: Any) -> Program:
    return program(*steps, **{"language": 2, **more})


def gone_on(bench: Bench, seconds: float = 0.0) -> Run:
    """Let time pass, and go on with the run that is due; return it as it is then."""
    bench.clock.time += int(seconds * SECOND)
    bench.vm.recover_all_sync()
    return bench.checked(bench.vm.get_sync("run"))


def history(bench: Bench) -> History:
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    return found


def notes(bench: Bench, kind: str) -> list[Any]:
    return [record.note for record in history(bench).records if record.kind == kind]


def in_order(bench: Bench) -> None:
    assert misfits(history(bench)) == []


REMIND = timed(wait(seconds=DAY), tool("r", "write"), end())


def test_a_wait_is_over_at_its_time_and_not_before() -> None:
    bench = Bench()
    run = bench.run(REMIND)
    (note,) = notes(bench, "waiting")
    assert (run.status, run.step, run.is_over, run.due) == ("SUSPENDED", "w", False, note["due"] / SECOND)
    assert note["due"] - note["started"] == DAY * SECOND
    assert gone_on(bench, DAY - 1).status == "SUSPENDED"
    assert bench.tools.asked == []
    assert gone_on(bench, 1).status == "SUCCESS"
    assert bench.kinds() == ["started", "waiting", "waited", "intent", "attempt", "ended"]
    assert notes(bench, "waited")[0]["time"] >= note["due"]
    in_order(bench)


@pytest.mark.parametrize(
    ("until", "due"),
    [
        ("2033-05-18T03:33:20Z", 2_000_000_000 * SECOND),
        ("2033-05-18T05:33:20.0000001+02:00", 2_000_000_000 * SECOND + 1),
        ("2001-01-01T00:00:00Z", 978_307_200 * SECOND),
        ("1950-01-01T00:00:00Z", 1),
    ],
)
def test_a_wait_until_a_time(until: str, due: int) -> None:
    bench = Bench()
    inputs = {"day": {"type": "string"}}
    run = bench.run(timed(wait(until="$day"), end(), inputs=inputs), day=until)
    assert notes(bench, "waiting")[0]["due"] == due
    assert run.status == ("SUCCESS" if due < bench.clock.time else "SUSPENDED")
    in_order(bench)


@pytest.mark.parametrize(
    ("seconds", "micros"), [(0, 0), (0.0000001, 1), (1.5, 1_500_000), (315_360_000, 315_360_000_000_000)]
)
def test_seconds_are_rounded_up_to_microseconds(seconds: float, micros: int) -> None:
    bench = Bench()
    bench.run(timed(wait(seconds="$s"), end(), inputs={"s": {"type": "number"}}), s=seconds)
    (note,) = notes(bench, "waiting")
    assert note["due"] - note["started"] == micros
    in_order(bench)


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("until", "tomorrow", "BadValue"),
        ("until", "2200-01-01T00:00:00.1Z", "BadValue"),
        ("until", 5, "BadValue"),
        ("seconds", -1, "BadValue"),
        ("seconds", 315_360_001, "BadValue"),
        ("seconds", "5", "BadValue"),
        ("seconds", True, "BadValue"),
        ("until", None, "Undefined"),
    ],
)
def test_what_is_no_time_fails_the_wait_with_a_name(field: str, value: Any, name: str) -> None:
    inner = [wait(**{field: "$v"}) if value is not None else wait(until="$v.x")]
    step = {"id": "e", "type": "for_each", "items": [1], "as": "i", "max_items": 1, "steps": inner}
    step["catch"] = [{"errors": [name], "then": "caught"}]
    bench = Bench()
    what = timed(step, end("fine", outcome="failure"), end("caught", "$e.error_name"), inputs={"v": {}})
    run = bench.run(what, v={} if value is None else value)
    assert (run.status, run.output) == ("SUCCESS", name), run.error
    in_order(bench)
    top = Bench()
    ended = top.run(timed(*inner, end(), inputs={"v": {}}), v={} if value is None else value)
    assert (ended.status, ended.reason) == ("FAILED", "error")
    in_order(top)


def test_a_sensitive_value_is_no_time() -> None:
    bench = Bench()
    inputs = {"day": {"type": "string", "sensitive": True}}
    run = bench.run(timed(wait(until="$day"), end(), inputs=inputs), day="2033-05-18T03:33:20Z")
    assert (run.status, run.reason) == ("FAILED", "error")
    assert "sensitive" in run.error
    assert "2033" not in str(bench.bodies())
    in_order(bench)


def test_the_next_worker_takes_up_a_wait_that_ended_while_nobody_drove() -> None:
    bench = Bench()
    bench.run(REMIND)
    programs = {REMIND.name: frozenset([bench.bodies("started")[0]["program"]])}
    said: list[str] = []
    worker = Worker(bench.vm, programs, lambda event, _: said.append(event), Pace(poll=0.01))
    asyncio.run(worker.work(asyncio.Event(), once=True))
    assert bench.vm.get_sync("run").status == "SUSPENDED"
    assert said == []
    bench.clock.time += DAY * SECOND
    asyncio.run(
        Worker(bench.vm, programs, lambda event, _: said.append(event), Pace(poll=0.01)).work(
            asyncio.Event(), once=True
        )
    )
    assert bench.vm.get_sync("run").status == "SUCCESS"
    assert said == ["taken", "stopped"]


def test_a_list_of_runs_says_when_each_is_due() -> None:
    bench = Bench()
    run = bench.run(REMIND)
    assert run.due is not None
    assert bench.journal.due(run.due - 1) == {}
    assert bench.journal.due(run.due) == {REMIND.name: 1}


def test_a_wait_counts_as_a_visit_as_a_step_and_as_idle() -> None:
    bench = Bench()
    loop = timed(assign("s", v=1), wait(seconds=DAY, next_step="w", max_visits=2), max_steps=10)
    bench.run(loop)
    assert gone_on(bench, DAY).steps == 3
    run = gone_on(bench, DAY)
    assert (run.status, run.reason, run.steps) == ("STALLED", "visits", 3)
    idle = Bench()
    idle.run(timed(wait(seconds=0), wait("x", seconds=0), assign("s", v=1), max_stalled_steps=2))
    assert (idle.vm.get_sync("run").status, idle.vm.get_sync("run").reason) == ("STALLED", "no-progress")


def test_a_waiting_run_is_cancelled() -> None:
    bench = Bench()
    bench.run(REMIND)
    run = bench.checked(bench.vm.cancel_sync("run"))
    assert (run.status, run.due) == ("CANCELLED", None)
    in_order(bench)


def test_no_time_enters_the_trace_hash() -> None:
    late, soon = Bench(), Bench()
    soon.run(REMIND)
    late.run(REMIND)
    assert gone_on(late, 5 * DAY).trace_hash == gone_on(soon, DAY).trace_hash


# -- replays -----------------------------------------------------------------------------------------------------------


def changed(bench: Bench, kind: str, **note: Any) -> History:
    """Return the history of a run with another note in its records of a kind."""
    found = history(bench)
    events = [
        Event(one.kind, one.body, {**one.note, **note}, one.text) if one.kind == kind else one for one in found.events
    ]
    return found._replace(events=tuple(events))


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        ("waiting", {"due": 1_800_000_000 * SECOND}),
        ("waiting", {"started": 1}),
        ("waiting", {"due": 0}),
        ("waiting", {"more": 1}),
        ("waited", {"time": 1}),
        ("waited", {"more": 1}),
    ],
)
def test_a_replay_refuses_another_time(kind: str, note: dict[str, int]) -> None:
    bench = Bench()
    bench.run(REMIND)
    gone_on(bench, DAY)
    assert misfits(changed(bench, "intent")) == []
    try:
        faults = [fault.what for fault in misfits(changed(bench, kind, **note))]
    except JournalError as error:  # the record does not fit at all
        faults = [str(error)]
    assert faults, "a wait with other times is accepted"


def test_a_replay_refuses_the_end_of_a_wait_that_did_not_begin() -> None:
    bench = Bench()
    bench.run(REMIND)
    gone_on(bench, DAY)
    found = history(bench)
    without = [one for one in found.events if one.kind != "waiting"]
    with pytest.raises(JournalError, match="does not wait"):
        assert misfits(found._replace(events=tuple(without))) == []


# -- beside other calls ------------------------------------------------------------------------------------------------


def branches(**of: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "p", "type": "parallel", "branches": {name: {"steps": steps} for name, steps in of.items()}}


def test_waits_in_branches_end_each_at_its_time() -> None:
    both = branches(
        a=[wait("wa", seconds=DAY), tool("ta", "write")], b=[wait("wb", seconds=3 * DAY), tool("tb", "write")]
    )
    bench = Bench()
    run = bench.run(timed(both, end()))
    first, second = sorted(note["due"] for note in notes(bench, "waiting"))
    assert (run.status, run.due) == ("SUSPENDED", first / SECOND)
    run = gone_on(bench, DAY)
    assert (run.status, run.due, bench.tools.steps()) == ("SUSPENDED", second / SECOND, ["ta"])
    assert gone_on(bench, 2 * DAY).status == "SUCCESS"
    assert bench.tools.steps() == ["ta", "tb"]
    in_order(bench)


def test_a_run_in_doubt_goes_on_where_a_wait_is_over() -> None:
    both = branches(a=[tool("ta", "write")], b=[wait("wb", seconds=DAY), tool("tb", "again")])
    bench = Bench({"ta": InDoubt("who knows")})
    assert bench.run(timed(both, end())).status == "IN_DOUBT"
    run = gone_on(bench, DAY)
    assert (run.status, run.due, bench.tools.steps()) == ("IN_DOUBT", None, ["ta", "tb"])
    assert bench.checked(bench.vm.reconcile_sync("run", "ta", "done", "x")).status == "SUCCESS"
    in_order(bench)


def test_an_answer_comes_while_another_branch_waits() -> None:
    both = branches(a=[tool("ta", "ask")], b=[wait("wb", seconds=DAY)])
    bench = Bench({"ta": Suspend("may I?")})
    run = bench.run(timed(both, end()))
    assert (run.status, run.due is not None) == ("SUSPENDED", True)
    assert bench.resume(run, "yes").status == "SUSPENDED"
    assert gone_on(bench, DAY).status == "SUCCESS"
    in_order(bench)


def test_a_wait_ends_while_a_call_beside_it_is_under_way() -> None:
    async def calls() -> list[str]:
        done = asyncio.Event()
        order: list[str] = []

        class Tools:
            def has(self, _: str) -> bool:
                return True

            async def call(self, _name: str, _args: Any, context: Any) -> str:
                if context.step == "ta":
                    await asyncio.wait_for(done.wait(), 20)
                order.append(context.step)
                done.set()
                return "x"

        both = branches(a=[tool("ta", "write")], b=[wait("wb", seconds=0.05), tool("tb", "write")])
        vm = ExecutionVM(Tools(), None, MemoryJournal(), checker=None)
        assert (await vm.run(timed(both, end()))).status == "SUCCESS"
        return order

    assert asyncio.run(calls()) == ["tb", "ta"]


def test_items_wait_one_after_another() -> None:
    each = {"id": "e", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": [wait(seconds=DAY)]}
    bench = Bench()
    assert bench.run(timed(each, end())).status == "SUSPENDED"
    assert gone_on(bench, DAY).status == "SUSPENDED"
    assert gone_on(bench, DAY).status == "SUCCESS"
    assert [body["frame"][0][3] for body in bench.bodies("waited")] == [0, 1]
    in_order(bench)


# -- records -----------------------------------------------------------------------------------------------------------


def test_records_of_waits_have_a_version_of_their_own() -> None:
    bench = Bench()
    bench.run(timed(assign("s", v=1), REMIND.to_dict()["steps"][0], end()))
    versions = {
        entry["kind"]: entry["v"] for entry in map(json.loads, (one.record for one in bench.journal.read("run")))
    }
    assert versions == {"started": 1, "assigned": 1, "waiting": 7}


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"seconds": 1, "until": "$x"}, "either `seconds` or `until`"),
        ({}, "either `seconds` or `until`"),
        ({"seconds": -1}, "out of range"),
        ({"seconds": "ten"}, "is no number"),
        ({"until": "next week"}, "is no time of RFC 3339"),
        ({"until": "2200-01-02T00:00:00Z"}, "after the year 2199"),
        ({"until": 5}, "is no text"),
    ],
)
def test_the_loader_refuses_what_is_no_wait(step: dict[str, Any], says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        timed(wait(**step), end(), inputs={"x": {"type": "string"}})


def test_a_wait_needs_language_2() -> None:
    with pytest.raises(ProgramError, match="a `wait` step needs language 2"):
        program(wait(seconds=1), end())


# -- moves -------------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_moves_to_a_new_version() -> None:
    bench = Bench()
    vm = ExecutionVM(bench.tools, None, bench.journal, checker=lambda *_: [], clock=bench.clock)
    vm.run_sync(REMIND, run_id="run")
    other = timed(wait(seconds=2 * DAY), tool("other", "write"), end())
    vm.migrate_sync("run", other)
    bench.clock.time += DAY * SECOND
    recovered, _ = vm.recover_all_sync()
    assert [run.status for run in recovered] == ["SUCCESS"]
    assert bench.tools.steps() == ["other"]
    assert vm.get_sync("run").reason == "moved"
    in_order(bench)


def test_a_run_that_waits_in_a_body_does_not_move() -> None:
    bench = Bench()
    vm = ExecutionVM(bench.tools, None, bench.journal, checker=lambda *_: [], clock=bench.clock)
    what = timed(branches(a=[wait(seconds=DAY)], b=[wait("x", seconds=DAY)]), end())
    vm.run_sync(what, run_id="run")
    with pytest.raises(RunRefused, match="waits in the branches of `p`"):
        vm.migrate_sync("run", what)
