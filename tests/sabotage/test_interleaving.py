"""Processes of a campaign that take turns, and one that stands still: they move when they are told to, and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.choices import Recorded, ScriptMisfit
from stepward.sabotage.playing.interleaving import MAX_TURNS, interleave
from stepward.sabotage.playing.pausing import Paused
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.virtual_time import VirtualLoop
from stepward.sabotage.stores.replaced import ReplacedConnection
from stepward.sabotage.target import Target
from stepward.vm import Program
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry, LeaseLost

PROGRAM = {
    "name": "paying",
    "inputs": {},
    "tools": {"pay": {"effect": "write", "returns": {"type": "boolean"}}},
    "steps": [{"id": "pay", "type": "tool", "tool": "pay"}],
}
PAID = {"inputs": {}, "pay, visit 1, attempt 1": {"does": "returns", "value": True}}


@contextmanager
def staged(**choices: Any) -> Iterator[Case]:
    with asyncio.Runner() as runner:
        choices = {name.replace("_", " "): value for name, value in choices.items()}
        yield Case(Target(Program.from_dict(PROGRAM)), Recorded(PAID | choices), MemoryJournal(), "case", runner)


def turns(*names: str) -> dict[str, str]:
    return {f"turn_{number}": name for number, name in enumerate(names)}


async def walk(points: Points, name: str, seen: list[str], count: int = 2) -> str:
    for number in range(count):
        await points.pass_by(f"{name}{number}")
        seen.append(f"{name}{number}")
    return name


def test_the_processes_move_as_they_are_told_and_one_that_is_left_goes_on_alone() -> None:
    seen: list[str] = []
    with staged(**turns("b", "a", "b")) as case:
        works = {"a": lambda points: walk(points, "a", seen), "b": lambda points: walk(points, "b", seen)}
        assert case.do(interleave(case, works)) == {"a": "a", "b": "b"}
        assert seen == ["b0", "a0", "b1", "a1"]
        assert case.story == ["process b: b0", "process a: a0", "process b: b1", "process a: a1"]


def test_a_script_that_gives_a_turn_to_nobody_fits_no_case() -> None:
    seen: list[str] = []
    with staged(**turns("a", "c")) as case:
        works = {name: lambda points, name=name: walk(points, name, seen) for name in "ab"}
        with pytest.raises(ScriptMisfit, match="gives turn 1 to process c, which has no turn there"):
            case.do(interleave(case, works))


def test_a_refusal_is_a_result_and_a_breach_is_raised_and_ends_the_others() -> None:
    seen: list[str] = []

    async def fail(points: Points, error: Exception) -> None:
        await points.pass_by("before it fails")
        raise error

    with staged(**turns("a", "b", "b")) as case:
        lost = LeaseLost("gone")
        works = {"a": lambda points: fail(points, lost), "b": lambda points: walk(points, "b", seen)}
        assert case.do(interleave(case, works)) == {"a": lost, "b": "b"}
        breach = Breach(Invariant.ONCE, "twice")
        works = {"a": lambda points: fail(points, breach), "b": lambda points: walk(points, "c", seen)}
        with pytest.raises(Breach, match="twice"):
            case.do(interleave(case, works))
        assert "c0" not in seen


def test_who_waits_for_another_gets_turns_until_that_one_has_gone_on() -> None:
    is_done = False

    async def wait(points: Points) -> None:
        while not is_done:
            await points.pass_by("before it looks")

    async def do(points: Points) -> None:
        nonlocal is_done
        await points.pass_by("before it is done")
        is_done = True

    with staged(**turns(*["wait"] * MAX_TURNS)) as case:
        assert case.do(interleave(case, {"wait": wait, "do": do})) == {"wait": None, "do": None}


def test_machines_race_for_one_run_and_it_is_performed_once() -> None:
    with staged(**turns(*["a", "b"] * 20)) as case:
        trial = Trial(case)

        def start(points: Points) -> Any:
            return trial.machine(points).run(case.target.program, trial.inputs, run_id=trial.run)

        results = case.do(interleave(case, {"a": start, "b": start}))
        assert {run.id for run in results.values()} == {trial.run}
        assert len(trial.world.effects) == 1


def test_a_process_stands_still_and_goes_on() -> None:
    seen: list[str] = []
    with staged() as case, Paused(case, 1, lambda points: walk(points, "a", seen), lambda: seen.append("!")) as one:
        assert (one.point, seen) == ("a1", ["a0", "!"])
        assert one.go_on() == "a"
        assert seen == ["a0", "!", "a1"]


def test_a_process_that_does_not_come_so_far_has_ended() -> None:
    with staged() as case, Paused(case, 5, lambda points: walk(points, "a", [])) as one:
        assert (one.point, one.result) == (None, "a")
        assert one.go_on() == "a"


def test_what_goes_on_side_by_side_stands_still_too_and_dies_at_the_end() -> None:
    seen: list[str] = []
    ended: list[BaseException] = []

    async def both(points: Points) -> None:
        done = await asyncio.gather(*(walk(points, name, seen) for name in "ab"), return_exceptions=True)
        ended.extend(error for error in done if isinstance(error, BaseException))

    with staged() as case:
        with Paused(case, 1, both) as one:
            assert one.point == "a1"
            assert seen == ["a0"]
        assert [type(error) for error in ended] == [Killed, Killed]
        assert seen == ["a0"]


def test_no_time_passes_while_a_store_blocks() -> None:
    """Renewals and time-outs that are due later come later, however long a server takes."""

    async def asked() -> tuple[float, str]:
        timer = asyncio.ensure_future(asyncio.sleep(30))
        answer = await asyncio.to_thread(lambda: time.sleep(0.01) or "answer")
        taken = asyncio.get_running_loop().time()
        with pytest.raises(KeyError):
            await asyncio.to_thread({}.__getitem__, "no")
        await timer
        assert asyncio.get_running_loop().time() == pytest.approx(30)
        return taken, answer

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(asked()) == (0.0, "answer")


class _Seen(ReplacedConnection):
    def __init__(self, store: SQLiteJournal) -> None:
        super().__init__(store._file)
        self.statements: list[str] = []

    def before(self, statement: str) -> None:
        self.statements.append(statement.split(maxsplit=1)[0])


def test_what_replaces_a_connection_sees_each_statement(tmp_path: Path) -> None:
    """Also BEGIN, COMMIT and PRAGMA, for which a file keeps a cursor: else attacks between statements miss a place."""
    with closing(SQLiteJournal(tmp_path / "runs.db")) as store:
        traced: list[str] = []
        seen = _Seen(store)
        store._file._connection.set_trace_callback(lambda text: traced.append(text.split()[0]))
        lease = store.create(
            Append("r", -1, [Entry(0, b"0", bytes(32))], "RUNNING", 1.0, True, None, None), "p", "h", 9
        )
        assert lease is not None
        store.release(lease)
        seen.restore()
    assert seen.statements == traced
    assert {"PRAGMA", "BEGIN", "INSERT", "UPDATE", "COMMIT"} <= {*traced}
