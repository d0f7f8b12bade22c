"""Fast: a tool that fails again and again is not called; what reaches it is held until somebody closes its breaker."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from machines import TOOLS, Bench, ask, assign, both, check, end, program, tool
from stepward.vm import MemoryJournal, SQLiteJournal
from stepward.vm.journal.store import JournalError, Switch
from stepward.vm.machine import breakers
from stepward.vm.machine.worker import Pace, Worker

PAYS = program(tool("a", "read"), tool("pay", "write"), end(), name="shop")
NO = ValueError("no")


def switch(bench: Bench, name: str, is_open: bool) -> None:
    assert bench.journal.switch(Switch(name, is_open, bench.clock.time / 1e6, "by hand", "ann"))
    bench.vm._setup.breakers.forget()


@pytest.mark.parametrize("name", ["tool:write", "program:shop"])
def test_a_run_that_reaches_an_open_breaker_is_held_and_goes_on_when_it_is_closed(name: str) -> None:
    bench = Bench()
    switch(bench, name, True)
    run = bench.run(PAYS)
    assert (run.status, run.held_by) == ("RUNNING", name)
    assert bench.tools.steps() == (["a"] if name == "tool:write" else [])
    assert bench.journal.due(1e12) == {}
    (again,) = bench.vm.recover_sync("run")[:1]
    assert again.held_by == name, "a recovery calls it no more than the first machine"
    switch(bench, name, False)
    assert bench.journal.due(1e12) == {"shop": 1}
    (run,) = bench.vm.recover_sync()
    assert (run.status, run.held_by, bench.tools.steps()) == ("SUCCESS", None, ["a", "pay"])


@pytest.mark.parametrize("damage", ["x", b"\0", 7, 0.5])
def test_a_breaker_is_open_unless_it_is_said_to_be_closed(tmp_path: Path, damage: object) -> None:
    store = SQLiteJournal(tmp_path / "runs.db")
    assert store.switch(Switch("tool:pay", True, 1.0, "by hand", "ann"))
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection, connection:
        connection.execute("UPDATE switches SET is_open = ?", (damage,))
    assert store.opened() == {"tool:pay"}
    assert store.switch(Switch("tool:pay", False, 2.0, "", "ann"))
    assert store.opened() == frozenset()


@pytest.mark.parametrize("name", ["part", "paying"])
def test_a_breaker_of_a_called_program_holds_its_calls_and_no_others(name: str) -> None:
    part = {"name": "paying", "inputs": {}, "steps": [tool("pay", "write"), end()]}
    caller = program(
        tool("a"), {"id": "do", "type": "call", "program": "part"}, end(), programs={"part": part}, language=2
    )
    bench = Bench()
    switch(bench, f"program:{name}", True)
    assert (bench.run(caller).held_by, bench.tools.steps()) == (f"program:{name}", ["a"])


class Slow(MemoryJournal):
    """A store whose calls are made in threads."""

    blocks = True


def test_calls_in_branches_start_once_though_the_store_is_asked_about_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waited for the store was not in the records yet, so the call was decided on again: three writes."""
    monkeypatch.setattr(breakers, "LASTS", 0.0)
    branches = {one: {"steps": [tool(f"{one}1", "write"), tool(f"{one}2", "write"), end(f"{one}3")]} for one in "abc"}
    beside = program({"id": "all", "type": "parallel", "branches": branches}, end(), language=2)
    bench = Bench(journal=Slow())
    run = asyncio.run(bench.vm.run(beside, run_id="run"))
    assert (run.status, sorted(bench.tools.steps())) == ("SUCCESS", ["a1", "a2", "b1", "b2", "c1", "c2"])


class Sluggish(MemoryJournal):
    """A store that opens a breaker slowly."""

    blocks = True

    def switch(self, switch: Switch) -> bool:
        time.sleep(0.03)
        return super().switch(switch)


class Hoard(dict[str, bytes]):
    """A cache that keeps slowly."""

    def put(self, key: str, entry: bytes) -> None:
        time.sleep(0.03)
        self[key] = entry


HALVES = {"left": {"steps": [tool("h", "write"), end("i")]}, "right": {"steps": [tool("j", "write"), end("k")]}}
BEHIND: dict[str, list[dict[str, Any]]] = {
    "a tool": [tool("n1", "write")],
    "a model": [ask("n1")],
    "sub-steps": [both("n", tool("n1"), tool("n2", "write"))],
    "sub-steps in order": [both("n", tool("n1"), tool("n2", "write", depends_on=["n1"]))],
    "branches": [{"id": "n", "type": "parallel", "branches": HALVES}, tool("n1", "write")],
    "items": [
        {
            "id": "n",
            "type": "for_each",
            "items": [1, 2],
            "as": "one",
            "max_concurrency": 2,
            "steps": [tool("h", "write"), end("i")],
        },
        tool("n1", "write"),
    ],
    "a condition": [check("n", "$x > 0", "n1", "last"), tool("n1", "write")],
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("slow", ["a reply is kept", "a breaker opens"])
@pytest.mark.parametrize("shape", ["branches", "items at once"])
def test_a_call_that_is_recorded_and_goes_on_holds_back_its_own_branch_alone(
    shape: str, slow: str, behind: str
) -> None:
    """The next step of its branch has a call of the same position, and was taken for the one that goes on."""
    on = {"next_step": BEHIND[behind][0]["id"]}
    first = ask("m", cache=True, **on) if slow == "a reply is kept" else tool("m", "sensor", on_error="skip", **on)
    body = [first, *BEHIND[behind], end("last")]
    others = {
        name: {"steps": [tool(f"{name}1", "write"), tool(f"{name}2", "write"), end(f"{name}3")]} for name in "abc"
    }
    both_at_once = {
        "branches": {"id": "all", "type": "parallel", "branches": {"slow": {"steps": body}, **others}},
        "items at once": {
            "id": "all",
            "type": "for_each",
            "items": [1, 2, 3],
            "as": "number",
            "max_concurrency": 3,
            "steps": [
                check("q", "$number == 1", "m", "o1"),
                *body,
                *(tool(f"o{one}", "write", next_step=f"o{one + 1}") for one in range(1, 4)),
                end("o4"),
            ],
        },
    }
    tools = {**TOOLS, "sensor": TOOLS["read"]}
    made = program(assign("one", x=1), both_at_once[shape], end(), tools=tools, language=2)
    bench = Bench({"m": NO}, {"m": "hm", "n1": "so"}, journal=Sluggish(), breaks_after=1, cache=Hoard())
    bench.vm._setup.model.parameters = {"model": "m"}
    run = asyncio.run(bench.vm.run(made, run_id="run"))
    assert run.status == "SUCCESS", run.error
    each = Counter(asked.key for asked in bench.tools.asked)
    assert set(each.values()) == {1}


def test_a_breaker_opens_after_failures_in_a_row_and_not_for_others() -> None:
    bench = Bench({"pay": [NO, "done", NO, NO, "done"]}, breaks_after=2)
    assert [bench.run(PAYS, f"r{i}").status for i in range(4)] == ["FAILED", "SUCCESS", "FAILED", "FAILED"]
    run = bench.run(PAYS, "r4")
    assert (run.status, run.held_by) == ("RUNNING", "tool:write")
    (one,) = bench.journal.switches()
    assert (one.name, one.is_open, one.why, one.by) == ("tool:write", True, "2 failures in a row", "machine")
    assert bench.run(program(tool("x", "again"), end()), "other").status == "SUCCESS"


def test_a_breaker_that_is_closed_while_a_run_stops_lets_it_go_on() -> None:
    bench = Bench()
    switch(bench, "tool:write", True)
    bench.vm._setup.breakers.look()
    assert bench.journal.switch(Switch("tool:write", False, 1.0, "works", "ann"))
    assert bench.run(PAYS).status == "SUCCESS", "what the machine remembered is a second old at most"


def test_a_held_run_can_be_cancelled() -> None:
    bench = Bench()
    switch(bench, "tool:write", True)
    bench.run(PAYS)
    assert bench.vm.cancel_sync("run").status == "CANCELLED"


def test_a_worker_takes_up_what_was_held_once_it_is_due() -> None:
    bench = Bench()
    bench.vm.queue_sync(PAYS, run_id="run")
    said: list[str] = []
    digest = bench.vm.get_sync("run")._plan.digest

    async def work() -> None:
        worker = Worker(bench.vm, {"shop": frozenset([digest])}, lambda what, _: said.append(what), Pace())
        await worker.work(asyncio.Event(), once=True)
        switch(bench, "tool:write", False)
        await worker.work(asyncio.Event(), once=True)

    switch(bench, "tool:write", True)
    asyncio.run(work())
    assert said == ["taken", "stopped", "held", "taken", "stopped"]
    assert bench.vm.get_sync("run").status == "SUCCESS"


class Seen(MemoryJournal):
    """A store that blocks, and says when it is asked which breakers are open: on the way of a call, or by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = True
        self.fails = False
        self.looks = 0

    def opened(self) -> frozenset[str]:
        self.looks += 1
        return super().opened()

    def switch(self, switch: Switch) -> bool:
        if self.fails:
            raise JournalError("no")
        return super().switch(switch)


def test_a_machine_asks_the_store_once_a_second_and_on_the_way_of_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now, own = [100.0], []
    monkeypatch.setattr(breakers, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def in_thread(function: Any, *args: Any) -> Any:
        own.append(args[0].__name__)
        return function(*args)

    monkeypatch.setattr(asyncio, "to_thread", in_thread)

    def lasts(seconds: float, step: str) -> str:
        now[0] += seconds
        return step

    store = Seen()
    bench = Bench({"a": lambda: lasts(0.4, "a"), "b": lambda: lasts(0.4, "b")}, journal=store)
    two = program(tool("a", "again"), tool("b", "write"), end())
    asyncio.run(bench.vm.run(two, {}, run_id="short"))
    assert (store.looks, own.count("look")) == (1, 0), "a run of less than a second looks as it is made"
    now[0] += 5
    bench.tools.answers["a"] = [lambda: lasts(3.0, "a")]
    asyncio.run(bench.vm.run(two, {}, run_id="long"))
    assert (store.looks, own.count("look")) == (3, 1), "a call of three seconds makes what was seen too old"


def test_a_breaker_that_can_not_be_stored_loses_no_outcome_and_opens_at_the_next_failure() -> None:
    store = Seen()
    bench = Bench({"pay": NO}, journal=store, breaks_after=1)
    store.fails = True
    assert bench.run(PAYS, "r0").status == "FAILED"
    assert bench.kinds("r0")[-1] == "attempt"
    store.fails = False
    assert (bench.run(PAYS, "r1").status, store.opened()) == ("FAILED", {"tool:write"})
    assert store.switches()[0].why == "2 failures in a row"
