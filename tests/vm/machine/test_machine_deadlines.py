"""Deadlines of suspended calls: when one passes, what becomes of the call, and who is first, it or a delivery."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machines import Bench, end, program, tool
from stepward.vm import DeliveryRefused, Program, ProgramError, Run, Suspend
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.events import Event
from stepward.vm.machine.history import History, load
from stepward.vm.machine.replay import misfits
from stepward.vm.machine.worker import Pace, Worker
from stepward.vm.trace import Expired

DAY = 86_400
SECOND = 1_000_000
TOOLS: dict[str, Any] = {
    "ask": {"effect": "none", "suspends": True},
    "once": {"effect": "write", "suspends": True},
    "keyed": {"effect": "write", "idempotent": True, "suspends": True},
    "write": {"effect": "write"},
}
LATE = {"errors": ["Deadline"], "then": "late"}


def ask(name: str = "ask", kind: str = "ask", /, **more: Any) -> dict[str, Any]:
    return tool(name, kind, deadline_seconds=DAY, **more)


def timed(*steps: dict[str, Any], **more: Any) -> Program:
    return program(*steps, **{"language": 2, "tools": TOOLS, **more})


def waiting(**answers: Any) -> Bench:
    said = {"ask": Suspend({"question": "may I?"}), "once": Suspend(), "keyed": Suspend()}
    return Bench(said | answers)


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


APPROVAL = timed(ask(catch=[LATE], is_terminal=True), end("late", "$ask.error_name", outcome="failure"))


def test_a_deadline_passes_at_its_time_and_not_before() -> None:
    bench = waiting()
    run = bench.run(APPROVAL)
    (note,) = notes(bench, "attempt")
    assert note["due"] == note["started"] + note["took"] + DAY * SECOND
    assert (run.status, run.due) == ("SUSPENDED", note["due"] / SECOND)
    assert gone_on(bench, DAY - 1).status == "SUSPENDED"
    run = gone_on(bench, 1)
    assert (run.status, run.output, run.suspensions, run.due) == ("FAILED", "Deadline", (), None)
    assert bench.kinds() == ["started", "intent", "attempt", "expired", "ended"]
    (expired,) = [one for one in run.trace if isinstance(one, Expired)]
    assert (expired.outcome, expired.error_name) == ("failed", "Deadline")
    assert expired.error == "`ask` had no answer within 86400 seconds"
    in_order(bench)


def test_an_answer_before_the_deadline_counts() -> None:
    bench = waiting()
    run = bench.run(APPROVAL)
    bench.clock.time += (DAY - 1) * SECOND
    (held,) = run.suspensions
    assert bench.checked(bench.vm.resume_sync(held.token, "yes")).status == "SUCCESS"
    assert gone_on(bench, 2 * DAY).output is None
    assert "expired" not in bench.kinds()
    in_order(bench)


def test_an_answer_after_the_deadline_is_refused_as_late_also_if_nobody_drove_the_run() -> None:
    bench = waiting()
    run = bench.run(APPROVAL)
    bench.clock.time += DAY * SECOND
    (held,) = run.suspensions
    with pytest.raises(DeliveryRefused, match="the deadline of the step has passed"):
        bench.vm.resume_sync(held.token, "yes")
    assert bench.kinds() == ["started", "intent", "attempt", "expired", "refused"]
    found = bench.vm.get_sync("run")
    assert (found.status, found.due) == ("RUNNING", 0.0)
    with pytest.raises(DeliveryRefused, match="used"):
        bench.vm.resume_sync(held.token, "yes")
    assert gone_on(bench).output == "Deadline"
    in_order(bench)


def test_an_unhandled_deadline_ends_the_run() -> None:
    bench = waiting()
    bench.run(timed(ask(), end()))
    run = gone_on(bench, DAY)
    assert (run.status, run.reason) == ("FAILED", "error")
    assert run.error == "`ask` had no answer within 86400 seconds"
    in_order(bench)


def test_a_deadline_that_is_skipped() -> None:
    bench = waiting()
    bench.run(timed(ask(on_error="skip"), end("fine", "$ask.error_name")))
    assert gone_on(bench, DAY).output == "Deadline"
    in_order(bench)


@pytest.mark.parametrize("delay", [0, 7])
def test_retry_asks_again_and_the_old_token_is_void(delay: int) -> None:
    bench = waiting()
    entry = {"errors": ["Deadline"], "max_attempts": 2, "delay_seconds": delay}
    run = bench.run(timed(ask(retry=[entry], catch=[LATE], is_terminal=True), end("late")))
    (first,) = run.suspensions
    run = gone_on(bench, DAY)
    if delay:
        assert notes(bench, "expired")[0]["due"] == notes(bench, "expired")[0]["time"] + delay * SECOND
    assert run.status == "SUSPENDED"
    assert bench.tools.steps() == ["ask", "ask"]
    (second,) = run.suspensions
    assert second.token != first.token
    with pytest.raises(DeliveryRefused):
        bench.vm.resume_sync(first.token, "yes")
    run = gone_on(bench, DAY)
    assert (run.status, run.step) == ("SUCCESS", "late")
    in_order(bench)


def test_a_write_is_in_doubt_and_reconciled() -> None:
    bench = waiting()
    run = bench.run(timed(ask("pay", "once"), end("fine", "$pay.output")))
    (held,) = run.suspensions
    run = gone_on(bench, DAY)
    assert (run.status, [one.why for one in run.doubts]) == ("IN_DOUBT", ["`pay` had no answer within 86400 seconds"])
    with pytest.raises(DeliveryRefused):
        bench.vm.resume_sync(held.token, "yes")
    assert run.due is None
    run = bench.checked(bench.vm.reconcile_sync("run", "pay", "done", 5))
    assert (run.status, run.output) == ("SUCCESS", 5)
    in_order(bench)


def test_a_write_in_doubt_after_its_deadline_is_made_again_with_a_new_deadline() -> None:
    bench = waiting()
    bench.run(timed(ask("pay", "once"), end()))
    gone_on(bench, DAY)
    run = bench.checked(bench.vm.reconcile_sync("run", "pay", "not_done"))
    assert run.status == "SUSPENDED"
    assert len(set(bench.tools.keys("pay"))) == 1
    assert gone_on(bench, DAY).status == "IN_DOUBT"
    in_order(bench)


def test_an_idempotent_write_is_repeated_under_its_key_and_then_in_doubt() -> None:
    bench = waiting()
    run = bench.run(timed(ask("pay", "keyed", max_retries=3), end()))
    for attempts in (2, 3):
        run = gone_on(bench, DAY)
        assert (run.status, len(bench.tools.asked)) == ("SUSPENDED", attempts)
    assert len(set(bench.tools.keys("pay"))) == 1
    assert gone_on(bench, DAY).status == "IN_DOUBT"
    bodies = bench.bodies("expired")
    assert [(body["kind"], body.get("unknown")) for body in bodies] == [("again", True)] * 2 + [("doubt", None)]
    in_order(bench)


def test_deadlines_of_sub_steps_pass_one_by_one() -> None:
    bench = waiting()
    parts = [tool("a", "ask", deadline_seconds=5), tool("b", "ask", deadline_seconds=3), tool("c", "ask")]
    both = {"id": "both", "type": "parallel", "parallel_steps": parts, "catch": [LATE], "is_terminal": True}
    run = bench.run(timed(both, end("late", "$both.error_name")))
    last = run.suspensions[2]
    run = gone_on(bench, 4)
    assert (run.status, [one.step for one in run.suspensions]) == ("SUSPENDED", ["a", "c"])
    run = gone_on(bench, 1)
    assert [one.step for one in run.suspensions] == ["c"]
    assert [body["step"] for body in bench.bodies("expired")] == ["b", "a"]
    assert run.due is None
    assert bench.checked(bench.vm.resume_sync(last.token, 1)).output == "Deadline"
    in_order(bench)


def test_what_is_over_first_comes_first_also_in_branches_and_beside_waits() -> None:
    bench = waiting()
    branches = {
        "x": {"steps": [{"id": "w", "type": "wait", "seconds": 20}, tool("a", "ask", deadline_seconds=5), end("e")]},
        "y": {"steps": [tool("b", "ask", deadline_seconds=10, on_error="skip"), end("f")]},
    }
    run = bench.run(timed({"id": "p", "type": "parallel", "branches": branches, "catch": [LATE]}, end("late")))
    (held,) = run.suspensions
    gone_on(bench, 20)
    run = bench.vm.get_sync("run")
    assert bench.kinds().index("expired") < bench.kinds().index("waited")
    assert [one.step for one in run.suspensions] == ["a"]
    with pytest.raises(DeliveryRefused):
        bench.vm.resume_sync(held.token, 1)
    assert gone_on(bench, 5).status == "SUCCESS"
    in_order(bench)


def test_a_deadline_in_a_body_names_its_item() -> None:
    bench = waiting()
    each = {"id": "e", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "on_item_error": "skip"}
    bench.run(timed(each | {"steps": [ask("one", is_terminal=True)]}, end("fine", "$e.errors")))
    gone_on(bench, DAY)
    run = gone_on(bench, DAY)
    assert [one["error_name"] for one in run.output] == ["Deadline", "Deadline"]
    assert [body["frame"][0][3] for body in bench.bodies("expired")] == [0, 1]
    in_order(bench)


def test_a_clock_that_is_set_back_lets_no_deadline_pass_and_takes_none_back() -> None:
    bench = waiting()
    run = bench.run(APPROVAL)
    (held,) = run.suspensions
    bench.clock.time -= 10 * DAY * SECOND
    assert gone_on(bench, DAY).status == "SUSPENDED"
    bench.clock.time += 10 * DAY * SECOND
    with pytest.raises(DeliveryRefused, match="deadline"):
        bench.vm.resume_sync(held.token, 1)
    bench.clock.time -= 20 * DAY * SECOND
    with pytest.raises(DeliveryRefused, match="used"):
        bench.vm.resume_sync(held.token, 1)
    bench.clock.time += 20 * DAY * SECOND
    assert gone_on(bench).output == "Deadline"
    in_order(bench)


def test_a_cancelled_run_ends_and_no_deadline_passes() -> None:
    bench = waiting()
    bench.run(APPROVAL)
    bench.clock.time += DAY * SECOND
    assert bench.checked(bench.vm.cancel_sync("run")).status == "CANCELLED"
    assert "expired" not in bench.kinds()
    in_order(bench)


@pytest.mark.parametrize(
    ("kind", "note", "body"),
    [
        ("expired", {"time": 1}, {}),
        ("expired", {"more": 1}, {}),
        ("expired", {"due": 1}, {}),
        ("expired", {}, {"error_name": "Unexpected"}),
        ("expired", {}, {"kind": "skipped"}),
        ("attempt", {"due": 1}, {}),
    ],
)
def test_a_replay_refuses_another_deadline_and_one_that_passes_too_soon(
    kind: str, note: dict[str, Any], body: dict[str, Any]
) -> None:
    bench = waiting()
    bench.run(APPROVAL)
    gone_on(bench, DAY)
    found = history(bench)
    events = [
        Event(one.kind, {**one.body, **body}, {**one.note, **note}, "") if one.kind == kind else one
        for one in found.events
    ]
    try:
        wrong = [fault.what for fault in misfits(found._replace(events=events))]
    except JournalError as error:  # it does not even fit
        wrong = [str(error)]
    assert wrong != []


def test_a_deadline_needs_language_2_and_is_a_time() -> None:
    with pytest.raises(ProgramError, match="`deadline_seconds` needs language 2"):
        program(ask(), end(), tools=TOOLS)
    for wrong in (0, -1, 315_360_001, "soon", True):
        with pytest.raises(ProgramError):
            timed(tool("a", "ask", deadline_seconds=wrong), end())


def test_a_worker_takes_up_an_approval_whose_deadline_has_passed() -> None:
    bench = waiting()
    bench.run(APPROVAL)
    programs = {APPROVAL.name: frozenset([bench.bodies("started")[0]["program"]])}
    said: list[str] = []
    for expected, status in (([], "SUSPENDED"), (["taken", "stopped"], "FAILED")):
        worker = Worker(bench.vm, programs, lambda event, _: said.append(event), Pace(poll=0.01))
        asyncio.run(worker.work(asyncio.Event(), once=True))
        assert (said, bench.vm.get_sync("run").status) == (expected, status)
        bench.clock.time += DAY * SECOND
    assert bench.vm.get_sync("run").output == "Deadline"
