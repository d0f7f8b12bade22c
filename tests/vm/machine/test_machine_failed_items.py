"""Fast: items of a for_each step that run at once, and stop after one has failed: who starts, what the step comes to,
rounds, rules, cancellation, deliveries, crashes, and trace hashes."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from machines import Bench, check, end, program, tool
from siblings import FastLoop, Paying, Timed, killed
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm import ExecutionVM, MemoryJournal, Program, Run, Suspend, ToolContext
from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import Append
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay

NO = ValueError("no")
Step = dict[str, Any]


def at_once(*steps: Step, most: int = 2, items: Any = (1, 2, 3), **more: Any) -> Step:
    """Return a for_each step whose items run at once."""
    step = {"id": "each", "type": "for_each", "items": list(items), "as": "i", "max_items": 9, **more}
    return {**step, "max_concurrency": most} | ({"steps": list(steps)} if steps else {})


def made(*steps: Step, **more: Any) -> Any:
    return program(*steps, language=2, **more)


def run_of(*steps: Step, answers: dict[str, Any] | None = None, **more: Any) -> Run:
    bench = Bench(answers or {})
    return bench.checked(bench.run(made(*steps, **more)))


FAILS_AT_2 = (check("c", "$i == 2", "bad", "good"), end("bad", outcome="failure"), end("good", "$i"))
SORRY = end("sorry", ["$each.error", "$each.error_name", "$each.errors"])


class Failing(Timed):
    """Tools that take some seconds each; those that are named by step and item fail then."""

    def __init__(self, seconds: dict[str, float], failing: set[str]) -> None:
        super().__init__(seconds)
        self.failing = failing
        self.started: list[str] = []

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        item = f"{context.step}/{context.frame[-1][3]}" if context.frame else context.step
        self.started.append(item)
        answer = await super().call(name, args, context)
        if item in self.failing:
            raise ValueError(item)
        return answer


def timed(data: Program, seconds: dict[str, float], failing: set[str]) -> tuple[Run, list[str]]:
    """Return the run of a program with such tools, and the calls that started, in order."""
    loop, journal, tools = FastLoop(), MemoryJournal(), Failing(seconds, failing)
    vm = ExecutionVM(tools, None, journal, checker=None, clock=ManualClock())
    try:
        run = loop.run_until_complete(vm.run(data, {}, run_id="run"))
    finally:
        loop.close()
    played = replay(journal, "run")
    assert played is not None
    assert played.faults == ()
    return run, tools.started


# -- who starts, and what the step comes to ----------------------------------------------------------------------------


def test_after_a_failed_item_none_starts_and_those_under_way_go_on_to_their_ends() -> None:
    data = made(at_once(tool("t"), tool("u"), items=range(6), error_step="sorry"), end("z"), SORRY)
    seconds = {"t/0": 1.0, "t/1": 2.0, "u/0": 5.0, "u/1": 1.0, "t/2": 1.0, "u/2": 1.0}
    run, started = timed(data, seconds, {"t/1"})
    assert started == ["t/0", "t/1", "u/0"], "item 0 is under way and goes on; item 2 never starts"
    assert run.output == ("t/1", "Unexpected", ({"error": "t/1", "error_name": "Unexpected", "index": 1},))


def test_the_error_is_that_of_the_first_failed_item_in_the_order_of_the_list() -> None:
    data = made(at_once(tool("t"), items=range(4), most=3, error_step="sorry"), end("z"), SORRY)
    run, started = timed(data, {"t/0": 9.0, "t/1": 5.0, "t/2": 1.0}, {"t/0", "t/2"})
    assert started == ["t/0", "t/1", "t/2"]
    errors = [{"error": f"t/{number}", "error_name": "Unexpected", "index": number} for number in (0, 2)]
    assert run.output == ("t/0", "Unexpected", tuple(errors))


def test_without_a_failed_item_the_output_has_an_entry_for_each() -> None:
    run = run_of(at_once(*FAILS_AT_2, items=(1, 3, 5)), end("z", ["$each.output", "$each.errors"]))
    assert run.output == ((1, 3, 5), ())


@pytest.mark.parametrize(
    "steps", [FAILS_AT_2, (check("c", "$i == 2", "bad", "good"), end("bad", "$no"), FAILS_AT_2[2])]
)
def test_an_item_fails_in_whatever_way_its_body_does(steps: tuple[Step, ...]) -> None:
    run = run_of(at_once(*steps), end("z"))
    assert (run.status, run.reason) == ("FAILED", "error")


def test_the_step_is_skipped_or_caught_by_the_name_of_the_error() -> None:
    skipped = run_of(at_once(*FAILS_AT_2, on_error="skip"), end("z", "$each.error_name"))
    assert skipped.output == "Declared"
    catch = [{"errors": ["Declared"], "then": "a"}, {"errors": ["any"], "then": "b"}]
    assert run_of(at_once(*FAILS_AT_2, catch=catch), end("z"), end("a", 1), end("b", 2)).output == 1


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_each_attempt_is_a_new_round_with_frames_of_its_own() -> None:
    bench = Bench({"t": [NO, 2, 3, 4, 5]})
    data = made(at_once(tool("t"), end("e", "$t.output"), on_error="retry", max_retries=2), end("z", "$each.output"))
    run = bench.checked(bench.run(data))
    assert run.output == (3, 4, 5)
    records = map(read_record, bench.journal.read("run"))
    frames = [record.body["frame"] for record in records if record.kind == "item"]
    assert {tuple(frame[0][2:]) for frame in frames} == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}


def test_the_last_attempt_fails_with_its_own_error_and_attempts_cost_steps() -> None:
    answers = {"t": [ValueError("one"), 1, ValueError("two"), 1, 1]}
    step = at_once(tool("t"), on_error="retry", max_retries=2, error_step="sorry")
    assert run_of(step, end("z"), SORRY, answers=answers).output[0] == "two"
    short = run_of(step, end("z"), SORRY, answers=answers, max_steps=3)
    assert (short.status, short.reason) == ("BUDGET_EXCEEDED", "max_steps")


def test_what_an_attempt_did_is_before_the_next_one() -> None:
    steps = (check("c", "$i == 1", "a", "w"), tool("a", "read"), tool("w", "again"))
    rule = {"name": "asked", "protects": {"tool": "again"}, "requires": {"tool": "read"}}
    first = (check("c", "$i == 1", "a", "bad"), tool("a", "read"), end("bad", outcome="failure"))
    behind = at_once(*first, error_step="w")
    assert run_of(behind, end("z"), tool("w", "again"), guardrails=[rule]).status == "SUCCESS"
    assert run_of(at_once(*steps), end("z"), guardrails=[rule]).reason == "guardrail"


# -- the run as a whole ------------------------------------------------------------------------------------------------


def test_an_item_that_waits_is_under_way_and_the_step_fails_when_it_has_ended() -> None:
    bench = Bench({"asks": Suspend("well?")})
    steps = (check("c", "$i == 1", "asks", "bad"), tool("asks", "asks", next_step="e"), FAILS_AT_2[1], end("e"))
    data = made(at_once(*steps, error_step="sorry"), end("z"), SORRY)
    run = bench.run(data)
    assert (run.status, [one.frame for one in run.suspensions]) == ("SUSPENDED", [(("each", 1, 1, 0),)])
    assert bench.resume(run, 1).output[1:3] == (
        "Declared",
        ({"error": "`bad` ended it with a failure", "error_name": "Declared", "index": 1},),
    )
    assert bench.tools.steps() == ["asks"], "the third item has not started"


def test_a_cancellation_ends_a_run_of_which_an_item_has_failed() -> None:
    bench = Bench({"asks": Suspend("well?")})
    steps = (check("c", "$i == 1", "asks", "bad"), tool("asks", "asks", next_step="e"), FAILS_AT_2[1], end("e"))
    bench.run(made(at_once(*steps, error_step="sorry"), end("z"), SORRY))
    run = bench.checked(bench.vm.cancel_sync("run"))
    assert (run.status, run.reason) == ("CANCELLED", "cancelled")


def test_an_item_under_way_may_break_a_rule_and_that_ends_the_run() -> None:
    once = {"name": "once", "at_most_once": {"tool": "write"}}
    steps = (check("c", "$i == 2", "bad", "w"), FAILS_AT_2[1], tool("w", "write", next_step="v"), tool("v", "write"))
    run = run_of(at_once(*steps, error_step="sorry"), end("z"), SORRY, guardrails=[once])
    assert (run.status, run.reason) == ("FAILED", "guardrail")


# -- trace hashes ------------------------------------------------------------------------------------------------------


def test_the_trace_hash_does_not_depend_on_who_arrives_first() -> None:
    """All three items are under way when one fails, whatever the order is."""
    inner = {**at_once(tool("u"), items=(4, 5), error_step="e"), "id": "inner", "as": "j"}
    step = at_once(tool("t"), inner, end("e"), most=3, error_step="sorry", on_error="fail")
    data = made(step, end("z"), SORRY)
    found = set()
    for seed in range(12):
        chance = Random(seed)
        names = [*(f"t/{number}" for number in range(3)), "u/0", "u/1"]
        run, _ = timed(data, {name: float(chance.randint(1, 9)) for name in names}, {"t/0", "t/2"})
        assert run.output[0] == "t/0"
        found.add(run.trace_hash)
    assert len(found) == 1


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(4)])
def test_killed_processes_double_lose_and_block_nothing(chunk: int) -> None:
    """The last item fails in each round; the others are under way then, or have ended."""
    body = (
        tool("a", "again"), check("c", "$i == 3", "bad", "b"), tool("b", "again", next_step="e"),
        end("bad", outcome="failure"), end("e", "$i"),
    )  # fmt: skip
    step = at_once(*body, most=3, on_error="retry", max_retries=2, error_step="last")
    data = made(step, end("z"), tool("last", "again", next_step="y"), end("y", "$each.errors"))
    effects = Counter({"a": 6, "b": 4, "last": 1})
    error = {"error": "`bad` ended it with a failure", "error_name": "Declared", "index": 2}
    assert sum(killed(seed, data, (error,), effects) for seed in range(chunk * 15, (chunk + 1) * 15)) >= 25


def test_a_run_goes_on_alike_from_each_of_its_records() -> None:
    """The process dies at each record in turn; the rest of the run is the same, and nothing happens twice."""
    body = (tool("a", "again"), check("c", "$i == 1", "bad", "e"), FAILS_AT_2[1], end("e", "$i"))
    step = at_once(*body, items=(1, 2, 3), on_error="retry", max_retries=2, error_step="sorry")
    data = made(step, end("z"), SORRY)
    whole = MemoryJournal()
    run = ExecutionVM(Paying(Random(0)), None, whole, checker=None, clock=ManualClock()).run_sync(
        data, {}, run_id="run"
    )
    records = len(whole.read("run"))
    assert records > 20
    for number in range(1, records):
        journal, tools, clock = MemoryJournal(), Paying(Random(0)), ManualClock()
        vm = ExecutionVM(tools, None, Short(journal, number), checker=None, clock=clock)
        with pytest.raises(Killed):
            vm.run_sync(data, {}, run_id="run")
        assert len(journal.read("run")) == number
        clock.time += 120_000_000
        (found,) = asyncio.run(ExecutionVM(tools, None, journal, checker=None, clock=clock).recover())
        assert (found.output, found.trace_hash) == (run.output, run.trace_hash)
        assert tools.done["a"] == 4, "two items in each round"
        played = replay(journal, "run")
        assert played is not None
        assert played.faults == ()


class Short(ThroughStore):
    """A store that takes so many records, and then nothing, because its process has died."""

    def __init__(self, inner: Any, most: int) -> None:
        super().__init__(inner)
        self.most, self.is_dead = most, False

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Any:
        return super().create(self._taken(append), program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        super().append(self._taken(append), fence)
        self._end()

    def _taken(self, append: Append) -> Append:
        self._end()
        room = self.most - append.entries[0].seq
        self.is_dead = room <= len(append.entries)
        return append._replace(entries=append.entries[:room], status="RUNNING", due=0.0)

    def _end(self) -> None:
        if self.is_dead:
            raise Killed("after a record")
