"""Fast: sub-steps with `depends_on`: who starts when, what it reads, and what becomes of it when another one fails."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from machines import Bench, Late, both, check, end, tool, unchecked
from machines import program as plain_program
from stepward.vm import (
    ExecutionVM,
    InDoubt,
    MemoryJournal,
    ModelReply,
    Program,
    Run,
    Suspend,
    ToolContext,
)
from stepward.vm.errors import ProgramError
from stepward.vm.journal.store import Journal
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay

TEXT = {"type": "string"}
TOOLS: dict[str, Any] = {
    "look": {"effect": "read", "returns": TEXT},
    "pass_on": {"effect": "read", "args": {"x": TEXT}, "returns": TEXT},
    "wait": {"effect": "none", "suspends": True, "returns": TEXT},
    "pay": {"effect": "write", "idempotent": False, "returns": TEXT},
    "save": {"effect": "write", "idempotent": True, "returns": TEXT},
}


def member(name: str, *needs: str, use: str = "look", **more: Any) -> dict[str, Any]:
    found = tool(name, use, **more)
    return found | ({"depends_on": list(needs)} if needs else {})


def program(*parts: dict[str, Any], rules: tuple[dict[str, Any], ...] = (), **more: Any) -> Program:
    around = {key: more.pop(key) for key in ("max_steps", "max_tokens") if key in more}
    step = {"id": "all", "type": "parallel", "parallel_steps": list(parts), "output_key": "outputs", **more}
    steps = [step, end("done", output="$outputs"), end("sorry", outcome="failure")]
    data = {"name": "ordered", "language": 2, "tools": TOOLS, "guardrails": list(rules), "steps": steps, **around}
    return Program.from_dict(data)


DIAMOND = (member("a"), member("b", "a"), member("c", "a"), member("d", "b", "c"))


class Timed:
    """Tools that take some time each, on the clock of the event loop of the test, which never really waits."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.said: dict[str, Any] = {}
        self.started: list[str] = []
        self.running = self.most = 0

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        self.started.append(context.step)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.seconds.get(context.step, 0))
        self.running -= 1
        said = self.said.get(context.step, context.step)
        said = said[min(context.attempt, len(said)) - 1] if isinstance(said, list) else said
        if isinstance(said, Exception):
            raise said
        return said

    async def complete(self, request: Any) -> ModelReply:
        self.started.append(request.step)
        await asyncio.sleep(self.seconds.get(request.step, 0))
        return ModelReply(f"reply to {request.prompt}", 3)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def took(made: Program, tools: Timed, **inputs: Any) -> tuple[Run, float]:
    """Run a program, and return the run with the time that it took on the loop's own clock."""
    loop = FastLoop()
    journal = MemoryJournal()
    machine = unchecked(tools, tools, journal, clock=ManualClock())
    try:
        run = loop.run_until_complete(machine.run(made, inputs, run_id="run"))
    finally:
        loop.close()
    assert faults(journal) == ()
    return run, loop.now


def faults(journal: Journal) -> tuple[Any, ...]:
    played = replay(journal, "run")
    assert played is not None
    return played.faults


# -- who starts when ---------------------------------------------------------------------------------------------------


def test_a_diamond_takes_its_critical_path_and_not_the_sum_of_waves() -> None:
    """a 1, b 5, c 2, d 1: the critical path is a, b, d. A slow sibling beside holds up nothing but the join."""
    tools = Timed(a=1, b=5, c=2, d=1, e=4, f=2)
    run, seconds = took(program(*DIAMOND), tools)
    assert (run.status, seconds) == ("SUCCESS", 7)
    run, seconds = took(program(*DIAMOND, member("e"), member("f", "e")), Timed(a=1, b=5, c=2, d=1, e=4, f=2))
    # In waves it would be 4 + 5 + 2: the slowest of each.
    assert (run.status, seconds) == ("SUCCESS", 7)


def test_each_one_reads_what_it_depends_on_directly_or_not() -> None:
    parts = (
        member("a"),
        member("b", "a", use="pass_on", args={"x": "$a.output"}, output_key="said"),
        member("c", "b", use="pass_on", args={"x": "$a.output and $said"}),
        {"id": "d", "type": "llm", "prompt": "$said?", "depends_on": ["b"]},
    )
    made = program(*parts)
    bench = Bench({"look": "one", "pass_on": lambda x: f"<{x}>"}, {"d": "yes"})
    assert bench.run(made).output == {"a": "one", "b": "<one>", "c": "<one and <one>>", "d": "yes"}
    assert [body["args"] for body in bench.bodies("intent")][1:] == [{"x": "one"}, {"x": "one and <one>"}, {}]


def test_order_in_the_list_does_not_matter() -> None:
    for parts in itertools.permutations(DIAMOND):
        tools = Timed(a=1, b=1, c=2, d=1)
        run, seconds = took(program(*parts), tools)
        assert (run.status, seconds) == ("SUCCESS", 4)
        assert tools.started[0] == "a"
        assert tools.started[-1] == "d"


def test_few_run_at_once_and_the_first_of_the_list_first() -> None:
    tools = Timed(a=1, b=3, c=3, d=1, e=1)
    parts = (member("c", "a"), member("a"), member("b"), member("d"), member("e"))
    _, seconds = took(program(*parts, max_concurrency=2), tools)
    assert tools.most == 2
    assert tools.started == ["a", "b", "c", "d", "e"]
    assert seconds == 5


def test_equal_outputs_give_equal_trace_hashes_whatever_the_order_of_arrival() -> None:
    hashes = set()
    made = program(*DIAMOND, member("e", use="save"), member("f", "e", "a"))
    for times in itertools.permutations((1, 2, 3, 5, 8)):
        tools = Timed(**dict(zip("abcef", times, strict=True)))
        run, _ = took(made, tools)
        hashes.add(run.trace_hash)
    assert len(hashes) == 1


def test_without_an_order_only_writes_have_an_intent() -> None:
    parts = [tool(name, "look") for name in "ab"]
    made = plain_program(both("all", *parts), end("done"), tools={"look": TOOLS["look"]})
    tools, journal = Timed(), MemoryJournal()
    run = unchecked(tools, journal=journal, clock=ManualClock()).run_sync(made, {}, run_id="run")
    kinds = [type(record).__name__ for record in run.trace]
    assert kinds == ["Started", "Attempt", "Attempt", "Joined", "Ended"]


# -- failures ----------------------------------------------------------------------------------------------------------


def test_what_depends_on_a_failure_does_not_start_and_the_others_go_on() -> None:
    tools = Timed()
    tools.said["b"] = ValueError("no b")
    made = program(*DIAMOND, member("e", "d"), member("f"), error_step="sorry")
    run, _ = took(made, tools)
    assert tools.started == ["a", "f", "b", "c"]
    assert run.status == "FAILED"
    blocked = {record.step: record.error for record in run.trace if type(record).__name__ == "Blocked"}
    assert blocked == {
        "d": "`d` can't start: it depends on `b` and `c`, and one of them has no output",
        "e": "`e` can't start: it depends on `d`, which has no output",
    }
    (joined,) = [record for record in run.trace if type(record).__name__ == "Joined"]
    assert joined.error == "`b`: no b"


def test_a_skip_satisfies_nothing_and_its_own_skip_applies_to_what_depends_on_it() -> None:
    tools = Timed()
    tools.said["a"] = ValueError("no a")
    run, _ = took(program(member("a", on_error="skip"), member("b", "a", on_error="skip"), member("c")), tools)
    assert (run.status, run.output) == ("SUCCESS", {"c": "c"})
    tools = Timed()
    tools.said["a"] = ValueError("no a")
    run, _ = took(program(member("a", on_error="skip"), member("b", "a"), member("c")), tools)
    assert run.status == "FAILED"
    assert run.error == "`b`: `b` can't start: it depends on `a`, which has no output"


def test_a_fallback_satisfies_a_dependency() -> None:
    late = member("a", timeout_seconds=1, on_timeout="fallback", fallback="instead")
    made = program(late, member("b", "a", use="pass_on", args={"x": "$a.output"}))
    bench = Bench({"look": Late(5), "pass_on": lambda x: x})
    assert bench.run(made).output == {"a": "instead", "b": "instead"}


def test_a_retry_of_the_step_runs_what_did_not_start() -> None:
    tools = Timed()
    tools.said["b"] = [ValueError("not yet"), "b"]
    run, _ = took(program(*DIAMOND, on_error="retry", max_retries=2), tools)
    assert run.status == "SUCCESS"
    assert tools.started == ["a", "b", "c", "b", "d"]


def test_a_retry_of_a_sub_step_holds_up_only_what_depends_on_it() -> None:
    tools = Timed(c=1)
    tools.said["b"] = [ValueError("not yet"), "b"]
    parts = (member("a"), member("b", "a", on_error="retry"), member("c", "a"), member("d", "b"), member("e", "c"))
    run, _ = took(program(*parts), tools)
    assert run.status == "SUCCESS"
    assert tools.started.index("e") > tools.started.index("d")  # `c` takes longer than the pause, which is faked
    assert run.steps == 1 + 5 + 1 + 1  # the step, its sub-steps, the second attempt, the end


# -- suspension and doubt ----------------------------------------------------------------------------------------------


def test_the_others_go_on_while_one_waits() -> None:
    made = program(member("a", use="wait"), member("b", "a"), member("c"), member("d", "c"))
    bench = Bench({"wait": Suspend({"for": "a"}), "look": "x"})
    run = bench.run(made)
    assert run.status == "SUSPENDED"
    assert bench.tools.steps() == ["a", "c", "d"]
    run = bench.resume(run, "y")
    assert (run.status, run.output) == ("SUCCESS", {"a": "y", "b": "x", "c": "x", "d": "x"})


def test_two_may_wait_and_are_resumed_in_any_order() -> None:
    made = program(member("a", use="wait"), member("b", use="wait"), member("c", "b"), member("d", "a", "c"))
    for first in (0, 1):
        bench = Bench({"wait": Suspend({}), "look": "x"})
        run = bench.resume(bench.run(made), "y", first)
        assert run.status == "SUSPENDED"
        assert bench.tools.steps()[2:] == (["c"] if first else [])
        run = bench.resume(run, "y")
        assert (run.status, run.output["d"]) == ("SUCCESS", "x")


def test_a_write_in_doubt_holds_up_only_what_depends_on_it() -> None:
    made = program(member("a", use="pay"), member("b", "a"), member("c"), member("d", "c"))
    bench = Bench({"pay": InDoubt("who knows"), "look": "x"})
    assert bench.run(made).status == "IN_DOUBT"
    assert bench.tools.steps() == ["a", "c", "d"]
    run = bench.checked(bench.vm.reconcile_sync("run", "a", "done", "paid"))
    assert (run.status, run.output["b"]) == ("SUCCESS", "x")


# -- guardrails --------------------------------------------------------------------------------------------------------


def requires(guard: str) -> dict[str, Any]:
    return {"name": "first", "protects": {"step": "p"}, "requires": {"step": guard}}


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ((member("g"), member("p", "g")), "SUCCESS"),
        ((member("g"), member("m", "g"), member("p", "m")), "SUCCESS"),
        ((member("g"), member("p")), "FAILED"),
        ((member("g"), member("m"), member("p", "m")), "FAILED"),
    ],
)
def test_what_comes_before_by_depends_on_counts_and_nothing_else(parts: Any, status: str) -> None:
    tools = Timed(m=9)  # `g` has long returned when `p` may start
    run, _ = took(program(*parts, rules=(requires("g"),)), tools)
    assert run.status == status
    assert run.reason == ("declared" if status == "SUCCESS" else "guardrail")
    assert ("p" in tools.started) is (status == "SUCCESS")


def test_a_fallback_is_no_occurrence_of_a_guard() -> None:
    late = member("g", timeout_seconds=1, on_timeout="fallback", fallback="instead")
    bench = Bench({"look": Late(5)})
    run = bench.run(program(late, member("p", "g"), rules=(requires("g"),)))
    assert (run.status, run.reason) == ("FAILED", "guardrail")


def test_a_rule_ends_the_run_when_the_calls_under_way_have_returned() -> None:
    tools = Timed(slow=9)
    run, seconds = took(program(member("slow"), member("m"), member("p", "m"), rules=(requires("slow"),)), tools)
    assert (run.reason, seconds) == ("guardrail", 9)
    assert tools.started == ["slow", "m"]
    assert [type(record).__name__ for record in run.trace][-1] == "Rejected"


@pytest.mark.parametrize(("needs", "is_broken"), [(["p"], False), ([], True), (["o"], True)])
def test_what_has_to_follow_is_paid_only_behind_it(needs: list[str], is_broken: bool) -> None:
    rule = {"name": "paid", "followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}}
    parts = (member("p"), member("o"), member("q", *needs))
    if not needs:
        parts = (*parts, member("x", "o"))  # a step with an order all the same
    run, _ = took(program(*parts, rules=(rule,)), Timed(q=5))
    assert bool(run.broken) is is_broken


def test_a_budget_of_tokens_is_asked_before_each_start() -> None:
    parts = [{"id": name, "type": "llm", "prompt": "?"} for name in "abc"]
    parts[1]["depends_on"], parts[2]["depends_on"] = ["a"], ["b"]
    tools = Timed()
    run, _ = took(program(*parts, max_tokens=6), tools)
    assert (run.status, run.reason, run.tokens) == ("BUDGET_EXCEEDED", "max_tokens", 6)
    assert tools.started == ["a", "b"]


# -- crashes -----------------------------------------------------------------------------------------------------------


class Dead(BaseException):
    """The process dies."""


@pytest.mark.parametrize("dies_at", list("abcd"))
def test_after_a_crash_each_one_that_was_under_way_goes_on(dies_at: str) -> None:
    parts = [{**part, "tool": "save"} for part in DIAMOND]
    made, journal, clock = program(*parts), MemoryJournal(), ManualClock()
    tools = Timed()
    tools.said[dies_at] = Dead()

    class Dies(Timed):
        async def call(self, name: str, args: Any, context: ToolContext) -> Any:
            self.started.append(context.step)
            if context.step == dies_at:
                raise Dead
            return context.step

    with pytest.raises(Dead):
        unchecked(Dies(), journal=journal, clock=clock).run_sync(made, {}, run_id="run")
    clock.time += 10**9
    after = Timed()
    (run,) = unchecked(after, journal=journal, clock=clock).recover_sync()
    assert (run.status, run.output) == ("SUCCESS", {name: name for name in "abcd"})
    assert dies_at in after.started
    assert set(after.started).isdisjoint("abcd"[: "abcd".index(dies_at)]) or dies_at == "c"
    assert faults(journal) == ()


def test_a_write_that_was_under_way_is_in_doubt_and_its_siblings_go_on() -> None:
    made, journal, clock = (
        program(member("a", use="pay"), member("b", "a"), member("c")),
        MemoryJournal(),
        ManualClock(),
    )

    class Dies(Timed):
        async def call(self, name: str, args: Any, context: ToolContext) -> Any:
            raise Dead

    with pytest.raises(Dead):
        unchecked(Dies(), journal=journal, clock=clock).run_sync(made, {}, run_id="run")
    clock.time += 10**9
    after = Timed()
    machine = unchecked(after, journal=journal, clock=clock)
    (run,) = machine.recover_sync()
    assert run.status == "IN_DOUBT"
    assert after.started == ["c"]
    run = machine.reconcile_sync("run", "a", "not_done")
    assert (run.status, after.started) == ("SUCCESS", ["c", "a", "b"])


# -- programs that can't run, and forged records -----------------------------------------------------------------------


@pytest.mark.parametrize("parts", [(member("a", "b"), member("b", "a")), (member("a", "a"),), (member("a", "z"),)])
def test_an_impossible_order_has_no_plan(parts: Any) -> None:
    with pytest.raises(ProgramError) as raised:
        ExecutionVM({}, checker=None).run_sync(program(*parts))
    assert [problem.code for problem in raised.value.problems] == ["SW109"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda records: records.insert(1, records.pop(5)), "starts before what it depends on has an output"),
        (lambda records: records.__delitem__(slice(3, 5)), "starts before what it depends on has an output"),
    ],
)
def test_a_replay_refuses_a_start_before_its_time(change: Callable[[list[Any]], Any], why: str) -> None:
    from stepward.vm.errors import StepwardError
    from stepward.vm.machine.apply import apply
    from stepward.vm.machine.history import load, stored_plan
    from stepward.vm.machine.state import before

    journal, tools = MemoryJournal(), Timed()
    machine = unchecked(tools, journal=journal, clock=ManualClock())
    machine.run_sync(program(member("a"), member("b", "a"), member("c", "b")), {}, run_id="run")
    found = load(journal, "run", lambda *documents: stored_plan(journal, *documents))
    assert found is not None
    events = list(found.events)
    change(events)
    with pytest.raises(StepwardError, match=why):
        functools.reduce(partial(apply, found.plan), events, before(found.plan))


def test_conditions_and_other_steps_take_no_order() -> None:
    with pytest.raises(ProgramError, match="SW002"):
        Program.from_dict({"language": 2, "steps": [check("c", "1 == 1", then="c") | {"depends_on": ["x"]}]})


# -- sensitive values --------------------------------------------------------------------------------------------------


def test_an_output_that_repeats_a_sensitive_value_of_what_it_depends_on_is_sensitive() -> None:
    secret = "DE89370400440532013000"
    tools = {**TOOLS, "fetch": {"effect": "read", "returns": {"type": "string", "sensitive": True}}}
    parts = [
        member("a", use="fetch"),
        member("b", "a", use="pass_on", args={"x": "$a.output"}),
        member("c", use="pass_on", args={"x": "nothing"}),
    ]
    step = {"id": "all", "type": "parallel", "parallel_steps": parts}
    made = Program.from_dict({"name": "secret", "language": 2, "tools": tools, "steps": [step]})
    bench = Bench({"fetch": secret, "pass_on": lambda x: f"about {x}"})
    run = bench.run(made)
    assert run.status == "SUCCESS"
    shown = run.view("model")
    assert "a.output" not in shown or secret not in str(shown["a.output"])
    assert secret not in "".join(entry.record.decode() for entry in bench.journal.read("run"))


def test_the_trace_hash_does_not_tell_which_of_several_has_failed_first() -> None:
    hashes = set[str]()
    for slow in "ab":
        tools = Timed(**{slow: 1})
        tools.said |= {"a": ValueError("no a"), "b": ValueError("no b")}
        parts = [member("a", on_error="skip"), member("b", on_error="skip"), member("c", "a", "b", on_error="skip")]
        run, _ = took(program(*parts), tools)
        blocked = [record.error for record in run.trace if type(record).__name__ == "Blocked"]
        assert blocked == ["`c` can't start: it depends on `a` and `b`, and one of them has no output"]
        hashes.add(run.trace_hash)
    assert len(hashes) == 1
